"""Spark's frames as streams and tables: declared columns in, by name."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import AnalysisException, UnsupportedOperationException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from penstock.errors import DataError
from penstock.ingest.epoch_times import IMPLAUSIBLE, hint
from penstock.plan.catalog import Stream, Table
from penstock.spark.filesystem import Place, literal, make_folder, uri, whole
from penstock.spark.result_files import for_spark
from penstock.spark.sinks import kafka
from penstock.types.data_type import Type
from penstock.types.event_time import LAST_MICROSECOND
from penstock.types.schema import Schema

FILE_AGE = "36500d"
"""How much older than the newest file one may be that is still read."""
_TEXTS = ("json", "csv", "kafka")
"""Formats in which a time may be a number; Spark takes it for seconds."""
OBSERVED = "penstock:"
"""Begins the names of what Spark counts for us."""

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
    return ", ".join(f"{_quoted(f.name)} {f.type}" for f in schema)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def source(spark: SparkSession, stream: Stream, pushed: Place) -> DataFrame:
    """The frame of a declared stream: what USING names, or the folder that `push` fills."""
    if stream.format is None:
        make_folder(pushed)
        # Spark leaves out files that are a week older than the newest one it has seen: after a clock that was once far
        # ahead was set right, those would be all that are pushed.
        reader = spark.readStream.schema(ddl(stream.schema)).option("maxFileAge", FILE_AGE)
        return reader.parquet(literal(uri(pushed)))
    options, schema = dict(stream.options), stream.schema
    if stream.unit is not None:
        counted = replace(schema[stream.time], type=Type.BIGINT)
        schema = (*schema[: stream.time], counted, *schema[stream.time + 1 :])
    if stream.format.lower() == "kafka":
        reader = spark.readStream.format(stream.format).options(**options)
        found = kafka.rows(reader.load(), ddl(schema), _quoted(_time(stream)), options)
    else:
        found = _loaded(lambda: spark.readStream, stream.format, options, schema)
    return timed(found, stream)


def timed(frame: DataFrame, stream: Stream) -> DataFrame:
    """The frame, with times that are whole numbers as the stream's unit says."""
    name = _time(stream).lower()
    kind = next((f.dataType for f in frame.schema.fields if f.name.lower() == name), None)
    if stream.unit is None or not isinstance(kind, T.IntegralType):
        return frame
    micros = F.col(_quoted(_time(stream))).cast("bigint") * F.lit(stream.unit)
    return frame.withColumn(_time(stream), F.timestamp_micros(micros))


def _loaded(read: Callable[[], Any], kind: str, options: Mapping[str, str], schema: Schema) -> DataFrame:
    """A source's rows in the declared columns, or in its own if it lets nobody else say what they are."""
    try:
        return cast("DataFrame", read().format(kind).options(**options).schema(ddl(schema)).load())
    except (AnalysisException, UnsupportedOperationException) as error:
        if "schema" not in str(error):
            raise
    # Another reader: the first goes on asking for the schema that it was told.
    return cast("DataFrame", read().format(kind).options(**options).load())


def placed(frame: DataFrame, stream: Stream) -> DataFrame:
    """The rows that have a time; the others, which no window can hold, are left out and counted in Spark's progress."""
    found = {f.name.lower(): f for f in frame.schema.fields}
    if _time(stream).lower() not in found:
        return frame  # told when the columns are laid out
    if (stream.format or "").lower() in _TEXTS and stream.time_type is Type.TIMESTAMP and stream.unit is None:
        frame = frame.withColumn(_time(stream), _likely(stream))
    time = F.col(_quoted(_time(stream)))
    counted = [F.count_if(time.isNull()).alias("unplaced")]
    text = found.get(kafka.MALFORMED)
    if text is not None and isinstance(text.dataType, T.StringType):
        odd = F.col(kafka.MALFORMED)
        counted += [F.count(odd).alias("malformed"), F.max(F.substring(odd, 1, 200)).alias("example")]
    return frame.observe(OBSERVED + stream.name.lower(), *counted).where(time.isNotNull())


def _likely(stream: Stream) -> Column:
    """A time that was read from text; an error if it is none that a number of seconds would have been meant for."""
    time = F.col(_quoted(_time(stream)))
    micros = F.unix_micros(time.cast("timestamp"))
    low, high = IMPLAUSIBLE
    wrong = ((F.abs(micros) >= low) & (F.abs(micros) < high)) | (micros > LAST_MICROSECOND)
    told = F.concat(
        F.lit(f"stream {stream.name}: not a likely time: "),
        micros.cast("string"),
        F.lit(f" microseconds since 1970; {hint(stream)}"),
    )
    return F.when(wrong, F.raise_error(told).cast("timestamp")).otherwise(time)


def odd_rows(progress: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Of one of Spark's progress reports: by stream, what `placed` counted, where there was anything."""
    found = {
        name.removeprefix(OBSERVED): {k: v for k, v in row.asDict().items() if v}
        for name, row in (progress.get("observedMetrics") or {}).items()
        if name.startswith(OBSERVED)
    }
    return {name: counts for name, counts in found.items() if counts}


def _time(stream: Stream) -> str:
    return stream.schema[stream.time].name


def table(spark: SparkSession, table: Table) -> DataFrame:
    """A declared table as it is now."""
    assert table.format is not None
    found = _loaded(lambda: spark.read, table.format, dict(table.options), table.schema)
    return found.select(*(F.col(_quoted(f.name)).cast(str(f.type)).alias(f.name) for f in table.schema))


def drop_file(folder: Place, rows: pa.Table) -> None:
    """One more file for Spark to find."""
    with whole(folder / f"{uuid.uuid4().hex}.parquet") as file:
        pq.write_table(for_spark(rows), file)


def dropped(spark: SparkSession, schema: Schema, folder: Place) -> DataFrame:
    """Rows that a query dropped."""
    if not folder.is_dir():
        return spark.createDataFrame([], ddl(schema))
    return spark.read.schema(ddl(schema)).parquet(literal(uri(folder)))


def set_aside(spark: SparkSession, stream: Stream, folder: Place, not_kept: int) -> DataFrame:
    """Rows that came too late, or were too far ahead; the metadata of their time say how many more there were."""
    if folder.is_dir():
        # The oldest may go while it is read.
        reader = spark.read.schema(ddl(stream.schema)).option("ignoreMissingFiles", "true")
        found = reader.parquet(literal(uri(folder)))
    else:
        found = spark.createDataFrame([], ddl(stream.schema))
    return found.withMetadata(_time(stream), {"not_kept": not_kept})
