"""Where Spark sends a row: the streams' frames as one, and the cell of every row as an expression."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, TimestampNTZType, TimestampType

from penstock.errors import DataError
from penstock.partitioning.placement import Routing
from penstock.plan.catalog import Stream
from penstock.plan.expressions import Call, Expression
from penstock.plan.expressions import Column as Plain
from penstock.spark.flow_plan import Flowing
from penstock.spark.scan_pushdown import Dialect, by_stream, used_slots, wanted
from penstock.spark.union_layout import CELL, INPUT, TRAVELS_AS, Layout, lay_out
from penstock.types.data_type import Type

STREAM = "__stream"
COUNT, NEWEST = "#", "^"
"""What is observed of a stream, before its name."""

SAYS = Dialect(F.col, F.lit, Column.isNull, lambda column: column.cast("bigint"))

Laid = Mapping[str, list[str]]
"""Files with what the parts below said, by part."""


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


def laid_out_anew(frame: DataFrame, given: Mapping[str, Stream], wanted: Mapping[str, Stream]) -> DataFrame:
    """Rows in the columns that some streams share, in those that others of the same names share."""
    there, here = lay_out(given.values()), lay_out(wanted.values())
    numbers = {name: number for number, name in enumerate(given)}
    number = F.lit(None).cast("int")
    values = [F.lit(None)] * len(here.slots)
    for goal, (name, stream) in enumerate(wanted.items()):
        if name not in given:
            continue  # no rows of it have come
        own = F.col(STREAM) == numbers[name]
        number = F.when(own, F.lit(goal)).otherwise(number)
        slots = {f.name.lower(): slot for f, slot in zip(given[name].schema, there.places[name], strict=True)}
        for field, slot in zip(stream.schema, here.places[name], strict=True):
            found = slots.get(field.name.lower())
            value = F.lit(None) if found is None else F.col(f"c{found}")
            values[slot] = F.when(own, value.cast(str(here.slots[slot]).lower())).otherwise(values[slot])
    kinds = [str(kind).lower() for kind in here.slots]
    columns = [v.cast(k).alias(f"c{i}") for i, (v, k) in enumerate(zip(values, kinds, strict=True))]
    return frame.where(F.col(STREAM).isin([numbers[n] for n in wanted if n in given])).select(
        number.alias(STREAM), *columns
    )


def united(parts: list[DataFrame]) -> DataFrame:
    """Frames of the same columns as one."""
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionAll(part)
    return whole


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


class Routes:
    """What is done with every step's rows, as expressions that are made once for a plan.

    Making one costs a millisecond or so, since each goes through Spark's process: 0.2 s a step for a plan of two streams.
    """

    def __init__(self, plan: Flowing, cells: int, *more: str) -> None:
        """`more`: further columns that go with the rows."""
        self._plan = plan
        self._cells = cells
        self._read = by_stream(plan)
        places = plan.layout.places
        streams = plan.catalog.streams
        self._own = {name: F.col(STREAM) == number for number, name in enumerate(places)}
        self._times = {name: F.col(f"c{places[name][stream.time]}") for name, stream in streams.items()}
        self._wanted = {name: wanted(read, places[name], SAYS) for name, read in self._read.items()}
        self._used = used_slots(plan, self._read)
        self.selects = any(rows is not None for rows in self._wanted.values())
        """Some rows are of no use to any query."""
        self.unread = any(name not in self._read for name in streams)
        """Some streams are of no use to any query."""
        self._seen = [F.count(F.when(self._own[name], 1)).alias(COUNT + name) for name in streams]
        self._seen += [
            F.max(F.when(self._own[name], self._times[name])).alias(NEWEST + name) for name in streams
        ]
        self._slots = max((slot + 1 for name in streams for slot in places[name]), default=0)
        kinds = enumerate(plan.layout.slots[self._slots :], self._slots)
        self._beyond = [F.lit(None).cast(str(kind)).alias(f"c{slot}") for slot, kind in kinds]
        self._goals([*more, *(f"c{i}" for i in range(len(plan.layout.slots)))])

    def _goals(self, slots: list[str]) -> None:
        """Which input a row is for, and which cell it goes to; a list of such where any row goes to several."""
        goals: dict[str, list[tuple[int, Column]]] = {}
        for number, fed in enumerate(self._plan.inputs):
            cells = _cells(fed.input.routing, self._plan.layout.places[fed.stream])
            goals.setdefault(fed.stream, []).extend((number, cell) for cell in cells)
        self._first: list[Column | str]
        self._second: list[Column | str] | None = None
        self._cell = F.col(CELL)
        if all(len(targets) == 1 for targets in goals.values()):
            # The stream tells the input: it is named after the exchange, and the cell need not travel.
            own, cell = F.lit(None).cast("int"), F.lit(None).cast("int")
            for stream, [(number, where)] in goals.items():
                own = F.when(self._own[stream], F.lit(number)).otherwise(own)
                cell = F.when(self._own[stream], where).otherwise(cell)
            self._first = [own.alias(INPUT), *slots]
            self._cell = cell
        else:
            every = F.lit(None).cast("array<struct<i:int,c:int>>")
            for stream, targets in goals.items():
                both = F.array(*[F.struct(F.lit(n).alias("i"), where.alias("c")) for n, where in targets])
                every = F.when(self._own[stream], both).otherwise(every)
            self._first = [F.explode(every).alias("goal"), *slots]
            self._second = [F.col("goal.i").alias(INPUT), F.col("goal.c").alias(CELL), *slots]
        numbers = [list(self._plan.layout.places).index(stream) for stream in goals]
        self._there = F.col(STREAM).isin(numbers) if len(numbers) < len(self._own) else None

    def spread(self, frame: DataFrame) -> DataFrame:
        """Rows with the input they are for, each in the partition of its cell, copied where a routing says so."""
        if self._there is not None:
            frame = frame.where(self._there)
        if self._second is None:
            placed = frame.coalesce(1) if self._cells == 1 else frame.repartitionById(self._cells, self._cell)
            return placed.select(*self._first)
        tagged = frame.select(*self._first).select(*self._second)
        if self._cells == 1:
            return tagged.drop(CELL).coalesce(1)
        return tagged.repartitionById(self._cells, self._cell).drop(CELL)

    def with_inner(self, spark: SparkSession, frame: DataFrame | None, laid: Laid) -> DataFrame | None:
        """A step's rows and those that the parts below said in the step before; None: there are none."""
        if frame is not None and self._beyond:
            frame = frame.select("*", *self._beyond)
        numbers = {name: number for number, name in enumerate(self._plan.layout.places)}
        for name, paths in laid.items():
            stream = self._plan.lower[name].stream
            columns = [(f.name, TRAVELS_AS.get(f.type, f.type)) for f in stream.schema]
            told = ", ".join(f"`{column.replace('`', '``')}` {kind}" for column, kind in columns)
            rows = spark.read.schema(told).parquet(*paths)
            rows = laid_out(rows, stream, numbers[name.lower()], self._plan.layout)
            frame = rows if frame is None else frame.unionAll(rows)
        return frame

    def observed(self, frame: DataFrame, watch: Observation) -> DataFrame:
        """The frame, with each stream's newest time and how many rows it has told to `watch`."""
        return frame.observe(watch, *self._seen)

    def thinned(
        self, frame: DataFrame, watermarks: Mapping[str, int], ceilings: Mapping[str, int]
    ) -> DataFrame:
        """A step's rows less those that no query can use. Columns that no query of a stream reads are NULL.

        Rows that are late or too far ahead are there as they came. Watermarks are part of the code that Spark compiles for this, 25 ms a step.
        """
        late = {name: self._own[name] & (self._times[name] < watermarks[name]) for name in self._read}
        for name in self._read:
            if name in ceilings:
                late[name] = late[name] | (self._own[name] & (self._times[name] > ceilings[name]))
        keeps = F.lit(False)
        for name, rows in self._wanted.items():
            keeps = keeps | (self._own[name] if rows is None else self._own[name] & (late[name] | rows))
        columns = []
        for slot in range(self._slots):
            value = F.lit(None)
            for name, slots in self._used.items():
                shown = self._own[name] if slot in slots else late[name]
                value = F.when(shown, F.col(f"c{slot}")).otherwise(value)
            every = all(slot in slots for slots in self._used.values())
            columns.append(F.col(f"c{slot}") if every else value.alias(f"c{slot}"))
        return frame.where(keeps).select(STREAM, *columns)


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
