"""Spark's frames as streams and tables: declared columns in, by name."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from penstock.data.schema import Schema
from penstock.errors import DataError
from penstock.plan.catalog import Stream, Table
from penstock.runtime.spark.cell import for_spark

_TYPES: dict[type[T.DataType], str] = {
    T.BooleanType: "BOOLEAN", T.ByteType: "TINYINT", T.ShortType: "SMALLINT", T.IntegerType: "INT",
    T.LongType: "BIGINT", T.FloatType: "FLOAT", T.DoubleType: "DOUBLE", T.StringType: "STRING",
    T.TimestampType: "TIMESTAMP", T.TimestampNTZType: "TIMESTAMP", T.DateType: "DATE",
}  # fmt: skip


def is_frame(given: object) -> bool:
    return isinstance(given, DataFrame) or (
        type(given).__name__ == "DataFrame" and hasattr(given, "isStreaming")
    )


def collected(given: Any) -> Any:
    """A DataFrame's rows as Arrow; anything else as it is."""
    return given.toArrow() if is_frame(given) else given


def columns(name: str, frame: Any) -> dict[str, str]:
    """A frame's columns and their SQL types."""
    found = {}
    for field in frame.schema.fields:
        kind = _TYPES.get(type(field.dataType))
        if kind is None:
            raise DataError(
                f"stream {name}: column {field.name} has type {field.dataType.simpleString()}, which has no SQL type here",
                hint="select or cast the columns the queries need",
            )
        found[field.name] = kind
    return found


def ddl(schema: Schema) -> str:
    return ", ".join(f"`{f.name.replace('`', '``')}` {f.type}" for f in schema)


def source(spark: SparkSession, stream: Stream, pushed: Path) -> DataFrame:
    """The frame of a declared stream: what USING names, or the folder that `push` fills."""
    if stream.format is None:
        pushed.mkdir(parents=True, exist_ok=True)
        return spark.readStream.schema(ddl(stream.schema)).parquet(str(pushed))
    reader = spark.readStream.format(stream.format).options(**dict(stream.options))
    if stream.format.lower() == "kafka":
        value = F.from_json(F.col("value").cast("string"), ddl(stream.schema))
        return reader.load().select(value.alias("value")).select("value.*")
    try:
        return reader.schema(ddl(stream.schema)).load()
    except AnalysisException as error:
        if "schema" not in str(error):
            raise
        return reader.load()


def table(spark: SparkSession, table: Table) -> DataFrame:
    """A declared table as it is now."""
    assert table.format is not None
    return spark.read.format(table.format).options(**dict(table.options)).schema(ddl(table.schema)).load()


def drop_file(folder: Path, rows: pa.Table) -> None:
    """One more file for Spark to find."""
    folder.mkdir(parents=True, exist_ok=True)
    name = uuid.uuid4().hex
    making = folder / f".{name}.tmp"
    pq.write_table(for_spark(rows), making)
    making.rename(folder / f"{name}.parquet")


def late(spark: SparkSession, stream: Stream, folder: Path) -> DataFrame:
    """Rows that came too late."""
    if not folder.is_dir():
        return spark.createDataFrame([], ddl(stream.schema))
    return spark.read.schema(ddl(stream.schema)).parquet(str(folder))
