"""Kafka: messages as rows, changes as messages.

A message that is read is a JSON object with the stream's columns. A change that is written is a JSON object with the columns of
`changes()`; its key is one with the columns that say which row it is about, so that what happens to a row stays in one
partition, in order.

Spark's writer sends every message at least once. To keep that from doubling messages:

- Messages are numbered within their step and key; a header carries flow, query, step and number. The
  numbers depend on content alone, so a repeated step gives the same message the same number.
- The sink notes in the checkpoint when it begins a step and when the step is written. A step noted as
  written is not sent again. Of one only begun, the messages in the topic are read back and only the
  others are sent.
- Only the first attempt of a task sends (`_send_once`). A task that Spark repeats sends nothing, and the sink
  goes on as after a crash.
"""

from __future__ import annotations

import hashlib
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from penstock.errors import DataError, StateError
from penstock.plan.query_root import Root
from penstock.spark.checkpoint import read_json, write_json
from penstock.spark.filesystem import Place, make_folder, remove_all
from penstock.spark.tasks import task_failures, wait_for_tasks
from penstock.types.names import path_part

MALFORMED = "_corrupt_record"
"""The column in which Spark puts the text that it could not read."""
SERVERS = "kafka.bootstrap.servers"
HEADER = "penstock"
SKEW = 600_000
"""Milliseconds by which the clocks of driver, executors and brokers may differ."""
REPEATED = "repeated-"
"""How the marks of attempts begin that found their task begun before."""


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
        name = f"{path_part(query)}-{hashlib.sha256(place.encode()).hexdigest()[:8]}"
        self._who = f"{flow}/{name}"
        self._note = folder / f"{name}.json"
        self._claims = folder / f"{name}.claims"

    def prepare(self, schema: str) -> None:
        """Brokers make topics, or an administrator does."""

    def __call__(self, frame: DataFrame, step: int) -> None:
        note = read_json(self._note) if self._note.exists() else {"step": 0, "written": True}
        if step < note["step"] or (step == note["step"] and note["written"]):
            return
        messages = self._numbered(frame)
        resumes = step == note["step"]
        if not resumes:
            note = {"step": step, "written": False, "begun": int(1000 * time.time())}
            write_json(self._note, note)
        if resumes:
            messages = self._unsent(messages, step, note["begun"])
        rounds = task_failures(frame.sparkSession)
        while not self._send(messages, step, repeatable=rounds > 1):
            rounds -= 1
            if not rounds:
                raise StateError(
                    f"topic {self._options['topic']}: tasks that write step {step} fail again and again",
                    hint="see Spark's log for their errors",
                )
            messages = self._unsent(self._numbered(frame), step, note["begun"])
        write_json(self._note, {**note, "written": True})

    def _numbered(self, frame: DataFrame) -> DataFrame:
        """Keys and values of messages; those of one key in one partition, by time, ends first, and numbered so."""
        messages = frame.select(
            _json(self._key).alias("key"), _json(frame.columns).alias("value"), "__ts", "__op"
        )
        if frame.rdd.getNumPartitions() > 1:
            messages = messages.repartition(self._cells(), "key")
        order = Window.partitionBy("key").orderBy("__ts", F.col("__op").desc(), "value")
        return messages.select("key", "value", F.row_number().over(order).alias("number"))

    def _unsent(self, messages: DataFrame, step: int, begun: int) -> DataFrame:
        """Messages of a step that are not in the topic, in order."""
        rest = messages.join(self._sent(messages, step, begun), ["key", "value", "number"], "left_anti")
        return rest.repartition(self._cells(), "key").sortWithinPartitions("key", "number")

    def _send(self, messages: DataFrame, step: int, *, repeatable: bool) -> bool:
        """Whether all messages were sent; not so if Spark has repeated a task. `repeatable`: it may."""
        if not repeatable:
            self._save(messages, step)
            return True
        claims = self._claims / uuid.uuid4().hex
        make_folder(claims)
        try:
            self._save(messages.mapInArrow(_send_once(str(claims)), messages.schema), step)
            if not any(place.name.startswith(REPEATED) for place in claims.iterdir()):
                return True
            wait_for_tasks(messages.sparkSession)
            return False
        finally:
            remove_all(claims)

    def _save(self, messages: DataFrame, step: int) -> None:
        name = F.concat(F.lit(f"{self._who}/{step}/"), F.col("number").cast("string"))
        label = F.struct(F.lit(HEADER).alias("key"), name.cast("binary").alias("value"))
        labelled = messages.select("key", "value", F.array(label).alias("headers"))
        labelled.write.format("kafka").options(**self._options).save()

    def _sent(self, messages: DataFrame, step: int, begun: int) -> DataFrame:
        """The messages of a step that are in the topic."""
        reader = messages.sparkSession.read.format("kafka").options(
            **{k: v for k, v in self._options.items() if k.startswith("kafka.")},
            # A pattern, because a topic that is not there yet has no messages.
            subscribePattern=re.escape(self._options["topic"]),
            startingTimestamp=str(begun - SKEW),
            startingOffsetsByTimestampStrategy="latest",
            includeHeaders="true",
        )
        prefix = f"{self._who}/{step}/"
        ours = F.filter(
            "headers", lambda h: (h["key"] == HEADER) & h["value"].cast("string").startswith(prefix)
        )
        text = [F.col(c).cast("string").alias(c) for c in ("key", "value")]
        found = reader.load().select(*text, F.get(ours, F.lit(0))["value"].cast("string").alias("name"))
        number = F.substring_index("name", "/", -1).cast("int").alias("number")
        return found.where("name IS NOT NULL").select("key", "value", number)


def _send_once(claims: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Lets the first attempt of a task pass its messages on; later ones say that they were there, and pass none."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        from penstock.spark.filesystem import claim, located

        context = TaskContext.get()
        assert context is not None
        folder = located(claims)
        if claim(folder / str(context.partitionId())):
            yield from batches
            return
        claim(folder / f"{REPEATED}{context.taskAttemptId()}")
        for _ in batches:
            continue

    return pass_on


def _json(columns: list[str]) -> Column:
    """NULL is told, and times to the microsecond."""
    told = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
    return F.to_json(F.struct(*[f"`{c.replace('`', '``')}`" for c in columns]), told)
