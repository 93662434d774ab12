"""Where Spark sends a row: the streams' frames as one, and the cell of every row as an expression."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, TimestampNTZType, TimestampType

from penstock.data.types import Type
from penstock.errors import DataError
from penstock.plan.catalog import Stream
from penstock.runtime.spark.layout import CELL, INPUT, Layout
from penstock.runtime.spark.plans import Flowing

STREAM = "__stream"


def laid_out(frame: DataFrame, stream: Stream, number: int, layout: Layout) -> DataFrame:
    """A stream's frame in the columns that all streams share."""
    found = {name.lower(): name for name in frame.columns}
    filled: dict[int, Column] = {}
    for field, slot in zip(stream.schema, layout.places[stream.name.lower()], strict=True):
        if field.name.lower() not in found:
            raise DataError(
                f"stream {stream.name}: its frame has no column {field.name}",
                hint=f"columns are {', '.join(frame.columns)}",
            )
        name = found[field.name.lower()]
        filled[slot] = _number(F.col(f"`{name}`"), frame.schema[name].dataType, field.type)
    slots = [
        filled.get(i, F.lit(None)).cast(str(kind).lower()).alias(f"c{i}")
        for i, kind in enumerate(layout.slots)
    ]
    return frame.select(F.lit(number).alias(STREAM), *slots)


def _number(column: Column, given: object, kind: Type) -> Column:
    """Times as numbers."""
    if kind is Type.TIMESTAMP:
        if isinstance(given, TimestampNTZType):
            return F.timestamp_diff("MICROSECOND", F.lit("1970-01-01 00:00:00").cast("timestamp_ntz"), column)
        if isinstance(given, TimestampType):
            return F.unix_micros(column)
    if kind is Type.DATE and isinstance(given, DateType):
        return F.unix_date(column)
    return column


def routed(frame: DataFrame, plan: Flowing, cells: int) -> DataFrame:
    """Rows with the input they are for, in one partition a cell."""
    slots = [f"c{i}" for i in range(len(plan.layout.slots))]
    numbers = {name: n for n, name in enumerate(plan.layout.places)}
    own = F.lit(None).cast("int")
    for number, fed in enumerate(plan.inputs):
        own = F.when(F.col(STREAM) == numbers[fed.stream], F.lit(number)).otherwise(own)
    tagged = frame.select(own.alias(INPUT), *slots).where(F.col(INPUT).isNotNull())
    if cells == 1:
        return tagged.coalesce(1)
    return tagged.withColumn(CELL, F.lit(0)).repartitionById(cells, F.col(CELL)).drop(CELL)
