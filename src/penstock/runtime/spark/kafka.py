"""Kafka: messages as rows, changes as messages.

A message that is read is a JSON object with the stream's columns. A change that is written is a JSON object with the columns of
`changes()`; its key is one with the columns that say which row it is about, so that what happens to a row stays in one
partition, in order.

Spark's writer gives every message at least once. A step is asked for again after a crash; the sink notes in the checkpoint when it
begins a step and when the step is written. A step noted as written is not written again. Of one only begun, the
messages that reached the topic are read back (each carries its flow, query and step in a header) and only the others are sent.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Mapping
from urllib.parse import quote

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.errors import DataError
from penstock.plan.roots import Root
from penstock.runtime.spark.places import Place
from penstock.runtime.spark.store import read_json, write_json

MALFORMED = "_corrupt_record"
"""The column in which Spark puts the text that it could not read."""
SERVERS = "kafka.bootstrap.servers"
HEADER = "penstock"
SKEW = 600_000
"""Milliseconds by which the clocks of driver, executors and brokers may differ."""


# ---------------------------------------------------------------------- messages as rows


def rows(messages: DataFrame, columns: str, time: str, options: Mapping[str, str]) -> DataFrame:
    """The columns of JSON messages, and the text of those that are not what was declared."""
    told = {k: v for k, v in options.items() if not k.lower().startswith("kafka.")}
    told["columnNameOfCorruptRecord"] = MALFORMED
    text = F.col("value").cast("string")
    if MALFORMED not in columns:
        columns += f", {MALFORMED} STRING"
    read = messages.select(F.from_json(text, columns, told).alias("row"), text.alias("text")).select(
        "row.*", "text"
    )
    untimed = F.col(time).isNull()
    odd = F.when(untimed, F.coalesce("text", F.lit(""))).otherwise(F.col(MALFORMED))
    return read.withColumn(MALFORMED, odd).drop("text")


# ---------------------------------------------------------------------- changes as messages


def key_columns(root: Root | None, wanted: str | None) -> list[str]:
    """What a message's key is made of: what was asked for, or what says which row a change is about.

    That is the key of GROUP BY, else the first column; of all queries together (no root) the query.
    """
    if root is None:
        return ["__query"] if wanted is None else [part.strip() for part in wanted.split(",")]
    names = [f.name for f in root.node.schema[: root.visible]]
    if wanted is not None:
        known = {name.lower(): name for name in names}
        asked = [part.strip() for part in wanted.split(",")]
        for name in asked:
            if name.lower() not in known:
                raise DataError(
                    f"the query has no column {name} to be the key", hint=f"one of {', '.join(names)}"
                )
        return [known[name.lower()] for name in asked]
    if root.hidden_key:
        return ["__key"]
    return [names[k] for k in root.key] or names[:1]


class Topic:
    """A sink of a query's changes.

    `flow` is the name of the flow that runs it, of `cells()` cells; `folder` is where it keeps its notes.
    """

    def __init__(
        self,
        flow: str,
        cells: Callable[[], int],
        query: str,
        root: Root | None,
        folder: Place,
        options: Mapping[str, str],
    ) -> None:
        self._options = {k: v for k, v in options.items() if k != "key"}
        for needed in (SERVERS, "topic"):
            if needed not in self._options:
                raise DataError(
                    f"writing to kafka needs {needed}", hint=f'write(format="kafka", **{{"{needed}": …}})'
                )
        self._key = key_columns(root, options.get("key"))
        self._cells = cells
        place = f"{self._options[SERVERS]} {self._options['topic']} {self._key}"
        name = f"{quote(query, safe='')}-{hashlib.sha256(place.encode()).hexdigest()[:8]}"
        self._who = f"{flow}/{name}"
        self._note = folder / f"{name}.json"

    def prepare(self, schema: str) -> None:
        """Brokers make topics, or an administrator does."""

    def __call__(self, frame: DataFrame, step: int) -> None:
        note = read_json(self._note) if self._note.exists() else {"step": 0, "written": True}
        if step < note["step"] or (step == note["step"] and note["written"]):
            return
        messages = frame.select(_json(self._key).alias("key"), _json(frame.columns).alias("value"))
        repeated = step == note["step"]
        if repeated:
            messages = messages.exceptAll(self._sent(frame, step, note["begun"]))
        else:
            note = {"step": step, "written": False, "begun": int(1000 * time.time())}
            write_json(self._note, note)
        # A cell lays down what happens to a row in order; a file that is read in parts, or compared, has lost it.
        if repeated or frame.rdd.getNumPartitions() > self._cells():
            messages = _in_order(messages, str(frame.schema["__ts"].dataType.simpleString()), self._cells())
        label = F.struct(
            F.lit(HEADER).alias("key"), F.lit(f"{self._who}/{step}").cast("binary").alias("value")
        )
        labelled = messages.withColumn("headers", F.array(label))
        labelled.write.format("kafka").options(**self._options).save()
        write_json(self._note, {**note, "written": True})

    def _sent(self, frame: DataFrame, step: int, begun: int) -> DataFrame:
        """The messages of a step that are in the topic."""
        reader = frame.sparkSession.read.format("kafka").options(
            **{k: v for k, v in self._options.items() if k.startswith("kafka.")},
            # A pattern, because a topic that is not there yet has no messages.
            subscribePattern=re.escape(self._options["topic"]),
            startingTimestamp=str(begun - SKEW),
            startingOffsetsByTimestampStrategy="latest",
            includeHeaders="true",
        )
        label = F.lit(f"{self._who}/{step}")
        ours = F.exists("headers", lambda h: (h["key"] == HEADER) & (h["value"].cast("string") == label))
        return reader.load().where(ours).select(*[F.col(c).cast("string").alias(c) for c in ("key", "value")])


def _json(columns: list[str]) -> Column:
    """NULL is told, and times to the microsecond."""
    told = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
    return F.to_json(F.struct(*[f"`{c.replace('`', '``')}`" for c in columns]), told)


def _in_order(messages: DataFrame, time_type: str, partitions: int) -> DataFrame:
    """What has one key in one partition, by time, ends first."""
    told = F.from_json("value", f"__op STRING, __ts {time_type}")
    placed = messages.select("key", "value", told.alias("told")).repartition(partitions, "key")
    return placed.sortWithinPartitions(F.col("told.__ts"), F.col("told.__op").desc()).drop("told")
