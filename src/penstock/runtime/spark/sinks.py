"""Where answers go. A sink takes each step's changes at least once and must not keep any twice.

A step's changes lie in the checkpoint as files; every sink reads the same ones. Files that a sink makes carry the step in
their name, so that a repeated step replaces what it wrote before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.data.types import Type
from penstock.errors import DataError
from penstock.plan.roots import Root
from penstock.runtime.spark.flow import Flow

FILES = ("parquet", "json", "csv", "orc", "text", "avro")
"""Formats whose files can be laid side by side."""


def changed(flow: Flow, query: str, step: int) -> DataFrame:
    """A query's changes in one step, with the columns of `changes()`."""
    name = f"{quote(query, safe='')}.parquet"
    places = [flow.store.out(step, cell) / name for cell in range(flow.cells)]
    paths = [str(p) for p in places if p.exists()]
    return flow.spark.read.schema(spark_schema(flow.root(query), flow.time_type)).parquet(*paths)


def spark_schema(root: Root, time_type: Type) -> str:
    """The columns of `changes()` as Spark declares them."""
    time = str(time_type)
    columns = [("__op", "STRING"), ("__ts", time), ("__exp", time)]
    fields = root.node.schema
    columns += [(f.name, _spark_type(f.type)) for f in fields[: root.visible]]
    if root.hidden_key:
        kinds = [_spark_type(fields[k].type) for k in root.key]
        parts = ", ".join(f"k{i}: {kind}" for i, kind in enumerate(kinds))
        columns.append(("__key", kinds[0] if len(kinds) == 1 else f"STRUCT<{parts}>"))
    return ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in columns)


def _spark_type(kind: Type) -> str:
    if kind is Type.INTERVAL:
        return "INTERVAL DAY TO SECOND"
    return "STRING" if kind is Type.NULL else str(kind)


# ---------------------------------------------------------------------- sinks


def writer(
    spark: SparkSession, format_: str, path: str | None, options: Mapping[str, str]
) -> Callable[[DataFrame, int], None]:
    """Appends steps to a place that Spark can write to."""
    kind = format_.lower()
    if kind == "console":
        return lambda frame, _: frame.show(truncate=False)
    if kind == "noop":
        return lambda frame, _: frame.write.format("noop").mode("append").save()
    if kind == "kafka":
        return lambda frame, _: _messages(frame).write.format("kafka").options(**options).save()
    if path is None:
        raise DataError(f"writing {format_} needs a path")
    if kind == "delta":
        return lambda frame, step: (
            frame.write.format("delta")
            .options(**options, txnAppId=f"penstock:{path}", txnVersion=str(step))
            .mode("append")
            .save(path)
        )
    if kind not in FILES:
        raise DataError(
            f"unknown format {format_}",
            hint=f"one of {', '.join((*FILES, 'delta', 'kafka', 'console', 'noop'))}, or foreach_batch",
        )
    return lambda frame, step: lay_beside(spark, frame, step, kind, path, options)


def _messages(frame: DataFrame) -> DataFrame:
    """A change as a JSON document; the key, if the query has one, makes it land with its kin."""
    return frame.select(F.to_json(F.struct(*[f"`{c}`" for c in frame.columns])).alias("value"))


def lay_beside(
    spark: SparkSession, frame: DataFrame, step: int, kind: str, path: str, options: Mapping[str, str]
) -> None:
    """Write a step's files under a hidden name, then move them beside those of other steps, in place of its own."""
    staged = f"{path}/_penstock/{step:012d}"
    frame.write.format(kind).options(**options).mode("overwrite").save(staged)
    java: Any = spark._jvm
    configuration = spark._jsc.hadoopConfiguration()
    home = java.org.apache.hadoop.fs.Path(path)
    files = home.getFileSystem(configuration)
    prefix = f"step-{step:012d}-"
    for status in files.listStatus(home):
        if status.getPath().getName().startswith(prefix):
            files.delete(status.getPath(), False)
    number = 0
    for status in files.listStatus(java.org.apache.hadoop.fs.Path(staged)):
        name = status.getPath().getName()
        if name.startswith("part-"):
            ending = name[name.index(".") :] if "." in name else ""
            files.rename(status.getPath(), java.org.apache.hadoop.fs.Path(home, f"{prefix}{number}{ending}"))
            number += 1
    files.delete(java.org.apache.hadoop.fs.Path(staged), True)


def table(spark: SparkSession, name: str, options: Mapping[str, str]) -> Callable[[DataFrame, int], None]:
    """Appends steps to a table of Spark's catalog."""

    def sink(frame: DataFrame, step: int) -> None:
        if not spark.catalog.tableExists(name):
            frame.limit(0).write.format("parquet").options(**options).saveAsTable(name)
        place = spark.sql(f"DESCRIBE FORMATTED {name}").where("col_name = 'Location'").first()
        if place is None:
            raise DataError(
                f"table {name} has no place that files can be laid into", hint="use foreach_batch"
            )
        lay_beside(spark, frame, step, "parquet", place["data_type"], options)
        spark.catalog.refreshTable(name)

    return sink
