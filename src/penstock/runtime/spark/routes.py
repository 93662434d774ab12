"""Where Spark sends a row: the streams' frames as one, and the cell of every row as an expression."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, TimestampNTZType, TimestampType

from penstock.data.types import Type
from penstock.errors import DataError
from penstock.flow.partition import Routing
from penstock.plan.catalog import Stream
from penstock.plan.expressions import Call, Expression
from penstock.plan.expressions import Column as Plain
from penstock.runtime.spark.layout import CELL, INPUT, Layout
from penstock.runtime.spark.plans import Flowing
from penstock.runtime.spark.selected import by_stream, used_slots, wanted

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


def thinned(frame: DataFrame, plan: Flowing, watermarks: Mapping[str, int]) -> tuple[DataFrame, bool]:
    """A step's rows less what no query can use, and whether any rows can be missing.

    Columns that no query of a stream reads are NULL. Late rows are there as they came.
    """
    read = by_stream(plan)
    counted = {fed.stream for fed in plan.inputs if fed.counted}  # in the order of their whole content
    keeps, missing = F.lit(False), False
    used: dict[int, set[int]] = {}
    late: dict[int, Column] = {}
    for number, (name, places) in enumerate(plan.layout.places.items()):
        if name not in read:
            continue
        own = F.col(STREAM) == number
        time = plan.catalog.streams[name].time
        late[number] = own & (F.col(f"c{places[time]}") < watermarks[name])
        used[number] = set(places) if name in counted else used_slots(read[name], places)
        rows = wanted(read[name], places)
        missing |= rows is not None
        keeps = keeps | (own if rows is None else own & (late[number] | rows))
    columns = []
    for slot in range(len(plan.layout.slots)):
        value = F.lit(None)
        for number, slots in used.items():
            shown = F.col(STREAM) == number if slot in slots else late[number]
            value = F.when(shown, F.col(f"c{slot}")).otherwise(value)
        every = all(slot in slots for slots in used.values())
        columns.append(F.col(f"c{slot}") if every else value.alias(f"c{slot}"))
    return frame.where(keeps).select(STREAM, *columns), missing


def observed(frame: DataFrame, plan: Flowing, watch: Observation) -> DataFrame:
    """The frame, with each stream's newest time and how many rows there are told to `watch`."""
    told = [F.count(F.lit(1)).alias("")]
    for number, (name, places) in enumerate(plan.layout.places.items()):
        time = F.col(f"c{places[plan.catalog.streams[name].time]}")
        told.append(F.max(F.when(F.col(STREAM) == number, time)).alias(name))
    return frame.observe(watch, *told)


def routed(frame: DataFrame, plan: Flowing, cells: int, *more: str) -> DataFrame:
    """Rows with the input they are for, each in the partition of its cell, copied where a routing says so.

    `more`: further columns that go with them.
    """
    slots = [*more, *(f"c{i}" for i in range(len(plan.layout.slots)))]
    numbers = {name: n for n, name in enumerate(plan.layout.places)}
    goals: dict[int, list[tuple[int, Column]]] = {}
    for number, fed in enumerate(plan.inputs):
        targets = [(number, cell) for cell in _cells(fed.input.routing, plan.layout.places[fed.stream])]
        goals.setdefault(numbers[fed.stream], []).extend(targets)
    if all(len(targets) == 1 for targets in goals.values()):
        own, cell = F.lit(None).cast("int"), F.lit(None).cast("int")
        for stream, [(number, where)] in goals.items():
            own = F.when(F.col(STREAM) == stream, F.lit(number)).otherwise(own)
            cell = F.when(F.col(STREAM) == stream, where).otherwise(cell)
        tagged = frame.select(own.alias(INPUT), cell.alias(CELL), *slots).where(F.col(INPUT).isNotNull())
    else:
        every = F.lit(None).cast("array<struct<i:int,c:int>>")
        for stream, targets in goals.items():
            both = F.array(*[F.struct(F.lit(n).alias("i"), where.alias("c")) for n, where in targets])
            every = F.when(F.col(STREAM) == stream, both).otherwise(every)
        goal = F.explode(every).alias("goal")
        tagged = frame.select(goal, *slots).select(
            F.col("goal.i").alias(INPUT), F.col("goal.c").alias(CELL), *slots
        )
    if cells == 1:
        return tagged.drop(CELL).coalesce(1)
    return tagged.repartitionById(cells, F.col(CELL)).drop(CELL)


def _cells(routing: Routing, places: tuple[int, ...]) -> list[Column]:
    """The cells of a row: one expression for every copy."""
    weight = 1
    base = F.lit(routing.origin)
    offsets = [0]
    for number, axis in reversed(list(enumerate(routing.axes))):
        if axis.key is None:
            offsets = [offset + weight * digit for digit in range(axis.share) for offset in offsets]
        else:
            hashed = F.xxhash64(F.lit(number), *[_term(term, places) for term in axis.key])
            base = base + F.pmod(hashed, F.lit(axis.share)) * weight
        weight *= axis.share
    return [(base + offset).cast("int") for offset in sorted(offsets)]


def _term(term: Expression, places: tuple[int, ...]) -> Column:
    """A key as Spark hashes it: equal numbers alike whatever their width, every NaN alike, no negative zero."""
    if isinstance(term, Plain):
        value = F.col(f"c{places[term.index]}")
    else:
        assert isinstance(term, Call)
        value = _term(term.arguments[0], places)
    if term.type.is_integer:
        return value.cast("bigint")
    if term.type.is_float:
        rounded = value.cast(str(term.type).lower()).cast("double") + F.lit(0.0)
        return F.when(F.isnan(rounded), F.lit(float("nan"))).otherwise(rounded)
    return value
