"""Where answers go: the frames that sinks take, and the sinks by format.

A step's changes lie in the checkpoint as files; every sink reads the same ones. A sink takes each step at least
once and must not keep any twice: files carry the step in their name, so that a repeated step replaces what it
wrote before; Delta and the Kafka sink remember the steps they have.
"""

from __future__ import annotations

import functools
import hashlib
import uuid
from collections.abc import Mapping
from typing import cast

from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from penstock.errors import DataError
from penstock.plan.query_root import Root
from penstock.spark.checkpoint import read_json, write_json
from penstock.spark.driver import Flow
from penstock.spark.filesystem import Place
from penstock.spark.result_files import TOGETHER, for_spark, view_name
from penstock.spark.sinks import kafka
from penstock.spark.sinks.contract import FunctionSink, OutputSink
from penstock.spark.sinks.files import ChangeFiles, ViewFiles
from penstock.spark.sinks.tables import TableSink
from penstock.types.data_type import Type

FILES = ("parquet", "json", "csv", "orc", "text", "avro")
"""Formats whose files can be laid side by side."""
RETENTION = 60_000
"""Milliseconds for which files of a replaced answer stay for readers, unless a view says otherwise."""


def changed_columns(flow: Flow, query: str) -> str:
    """The columns of a query's changes as Spark declares them."""
    return spark_schema(flow.root(query), flow.time_type)


def changed(flow: Flow, query: str) -> DataFrame:
    """A query's changes in the step that is being told, with the columns of `changes()`."""
    return _frame(flow, query, changed_columns(flow, query))


def current_columns(flow: Flow, query: str) -> str:
    """The columns of a query's answer as Spark declares them."""
    root = flow.root(query)
    return ", ".join(_column(f.name, _spark_type(f.type)) for f in root.node.schema[: root.visible])


def current(flow: Flow, query: str) -> DataFrame:
    """A query's answer as of the watermarks of that step, with the query's columns."""
    return _frame(flow, view_name(query), current_columns(flow, query))


def together_columns(flow: Flow) -> str:
    """The columns of all queries' changes as Spark declares them."""
    time = str(flow.time_type)
    columns = [("__query", "STRING"), ("__op", "STRING"), ("__ts", time), ("__exp", time)]
    columns += [(name, _spark_type(kind)) for name, kind in flow.plan().together().items()]
    return ", ".join(_column(name, kind) for name, kind in columns)


def together(flow: Flow) -> DataFrame:
    """All queries' changes in that step, `__query` first; a column that a query does not have is NULL."""
    found = _frame(flow, TOGETHER, together_columns(flow))
    return found.where(~found["__query"].isin(*flow.discarded)) if flow.discarded else found


def _frame(flow: Flow, name: str, schema: str) -> DataFrame:
    """The results of one name of the step that is being told, from where they are."""
    carried, paths = flow.results.carried(name), flow.results.files(name)
    parts = []
    if carried is not None or not paths:
        kind = _schema(schema)
        if carried is None:
            carried = to_arrow_schema(kind).empty_table()
        elif carried.column_names != kind.names:
            carried = carried.select(
                kind.names
            )  # cells name what queries have in common in the order of their own plan
        # In one partition: what a cell says of a row stays in its order.
        parts.append(flow.spark.createDataFrame(for_spark(carried, intervals=True), kind).coalesce(1))
    if paths:
        parts.append(flow.spark.read.schema(schema).parquet(*paths))
    return parts[0] if len(parts) == 1 else parts[0].unionAll(parts[1])


@functools.lru_cache(256)
def _schema(told: str) -> StructType:
    return cast("StructType", StructType.fromDDL(told))


def spark_schema(root: Root, time_type: Type) -> str:
    """The columns of `changes()` as Spark declares them."""
    time = str(time_type)
    columns = [("__op", "STRING"), ("__ts", time), ("__exp", time)]
    columns += [(f.name, _spark_type(f.type)) for f in root.said]
    if root.hidden_key:
        kinds = [_spark_type(root.node.schema[k].type) for k in root.key]
        parts = ", ".join(f"k{i}: {kind}" for i, kind in enumerate(kinds))
        columns.append(("__key", kinds[0] if len(kinds) == 1 else f"STRUCT<{parts}>"))
    return ", ".join(_column(name, kind) for name, kind in columns)


def _column(name: str, kind: str) -> str:
    return f"`{name.replace('`', '``')}` {kind}"


def _spark_type(kind: Type) -> str:
    if kind is Type.INTERVAL:
        return "INTERVAL DAY TO SECOND"
    return "STRING" if kind is Type.NULL else str(kind)


# ---------------------------------------------------------------------- sinks


def writer(
    flow: Flow,
    query: str,
    kind: str,
    path: str | None,
    view: bool,
    options: Mapping[str, str],
    retention: int = RETENTION,
) -> OutputSink:
    """Appends steps to a place that Spark can write to, or keeps the current answer there; "" is all queries."""
    kind = kind.lower()
    if kind == "console":
        return FunctionSink(lambda frame, _: frame.show(truncate=False))
    if kind == "noop":
        return FunctionSink(lambda frame, _: frame.write.format("noop").mode("append").save())
    folder = flow.store.root / "sinks"
    if kind == "kafka":
        if view:
            raise DataError("a topic takes changes, not the current answer", hint='mode="changes"')
        root = flow.root(query) if query else None
        return kafka.Topic(_flow_id(folder), lambda: flow.cells, query, root, folder, options)
    if path is None:
        raise DataError(f"writing {kind} needs a path")
    if kind != "delta" and kind not in FILES:
        known = ", ".join((*FILES, "delta", "kafka", "console", "noop"))
        raise DataError(f"unknown format {kind}", hint=f"one of {known}, or foreach_batch")
    return _files(flow, query, kind, path, view, options, retention)


def table(
    flow: Flow, query: str, name: str, view: bool, options: Mapping[str, str], retention: int = RETENTION
) -> OutputSink:
    """Appends steps to a table of Spark's catalog, or keeps the current answer in it."""

    def make_sink(kind: str, location: str) -> OutputSink:
        return _files(flow, query, kind, location, view, written, retention)

    written = {key: value for key, value in options.items() if key != "path"}
    own = _flow_id(flow.store.root / "sinks")
    return TableSink(flow.spark, name, own, make_sink, view=view, options=options)


def _files(
    flow: Flow, query: str, kind: str, path: str, view: bool, options: Mapping[str, str], retention: int
) -> OutputSink:
    own = _flow_id(flow.store.root / "sinks")
    if kind == "delta":
        writes = f"penstock/{own}/{query}"
        return FunctionSink(lambda frame, step: commit(frame, step, writes, path, view, options))
    if view:
        return ViewFiles(flow.spark, path, kind, own, options, retention, flow.must_hold)
    return ChangeFiles(flow.spark, path, kind, own, _tag(own, query), options, flow.must_hold)


def _flow_id(folder: Place) -> str:
    """What tells this flow's steps from those of another that writes to the same place."""
    place = folder / "flow.json"
    if not place.exists():
        write_json(place, {"id": uuid.uuid4().hex[:12]})
    return str(read_json(place)["id"])


def _tag(flow: str, query: str) -> str:
    return hashlib.sha256(f"{flow}/{query}".encode()).hexdigest()[:8]


def commit(frame: DataFrame, step: int, who: str, path: str, alone: bool, options: Mapping[str, str]) -> None:
    """Write a step into a Delta table, whose log keeps the last step of each writer and leaves out what it has
    (`alone`: in place of all that is there; twice is as good as once)."""
    if alone:
        frame.write.format("delta").options(**options).mode("overwrite").save(path)
    else:
        told = {**options, "txnAppId": who, "txnVersion": str(step)}
        frame.write.format("delta").options(**told).mode("append").save(path)
