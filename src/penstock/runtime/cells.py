"""Several engines in this process as one: the model of what a cluster does, and the test that placements are exact.

In front stands what must be decided once: watermarks, late rows, the clock. When the clock rises, the rows up to it are
routed to the cells (`flow.route`), as Arrow, since a cell has strings of its own; then every cell is told the clock. A
cell is an engine over inputs and knows nothing of the others. What the cells say is put together; where a query takes
rows back, '-' and '+' of equal rows in one instant cancel, also if they come from different cells.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.data.batch import Array, Batch, Column, gather
from penstock.data.clock import EARLIEST, FIRST_MICROSECOND, LAST_MICROSECOND, LATEST
from penstock.data.schema import Schema
from penstock.data.types import Type
from penstock.errors import PenstockError
from penstock.flow.partition import Input, Placement, place
from penstock.flow.route import Router
from penstock.plan.catalog import Catalog, Stream, Table
from penstock.plan.pattern import Pattern
from penstock.plan.roots import Root
from penstock.runtime.embedded import Engine, Standing, one_clock
from penstock.runtime.source import Source
from penstock.state import words
from penstock.state.arrow import from_arrow, to_arrow
from penstock.state.strings import Strings

NEVER_BY_ITSELF = 1 << 62
"""A delay so long that rows raise no watermark: a cell's time moves when it is told to."""


@dataclass(frozen=True, slots=True)
class Reads:
    """Streams and tables of a query, in lower case."""

    streams: frozenset[str]
    tables: frozenset[str]


class Gathered:
    """What a query says in all its cells; `nets`: changes of one instant may cancel."""

    def __init__(self, parts: Sequence[Standing], *, nets: bool) -> None:
        self._parts = parts
        self._nets = nets

    @property
    def kept(self) -> bool:
        return self._parts[0].answer.kept

    @property
    def matched(self) -> int:
        """Changes before they were put together."""
        return sum(p.answer.matched for p in self._parts)

    @property
    def has_changes(self) -> bool:
        return any(p.answer.has_changes for p in self._parts)

    def changes(self) -> pa.Table:
        """Everything since the last call, in time order, '-' first in an instant."""
        table = pa.concat_tables([p.answer.changes() for p in self._parts])
        if len(self._parts) == 1 or not table.num_rows:
            return table
        if self._nets:
            table = netted(table)
        ts, comes = _numbers(table.column("__ts")), _comes(table)
        return table.take(pa.array(np.lexsort((comes, ts))))


@dataclass(frozen=True, slots=True)
class Spread:
    """A registered query as it runs in its cells."""

    name: str
    root: Root
    placement: Placement
    parts: tuple[Standing, ...]
    answer: Gathered
    pipeline: Reads


class Cells:
    """`count` engines behind the calls of one. `nets`: see `place`."""

    def __init__(self, catalog: Catalog, count: int, *, nets: bool = True) -> None:
        self.catalog = catalog
        self.engines = [Engine(catalog) for _ in range(count)]
        self.strings = Strings()
        self.time_type: Type | None = None
        self.sources: dict[str, Source] = {}
        self.tables: dict[str, Table] = {}
        self.queries: dict[str, Spread] = {}
        self._nets = nets
        self._routers: dict[Input, Router] = {}
        self._clock: int | None = None

    # ------------------------------------------------------------------ what there is

    @property
    def clock(self) -> int:
        """Every row with ts <= clock has been applied in every cell."""
        return self.first - 1 if self._clock is None else self._clock

    @property
    def first(self) -> int:
        return FIRST_MICROSECOND if self.time_type is Type.TIMESTAMP else EARLIEST

    @property
    def last(self) -> int:
        return LAST_MICROSECOND if self.time_type is Type.TIMESTAMP else LATEST

    @property
    def size_bytes(self) -> int:
        """What all queries remember in all cells."""
        return sum(engine.size_bytes for engine in self.engines)

    def check_idle(self) -> None:
        for engine in self.engines:
            engine.check_idle()

    def add_stream(self, stream: Stream) -> None:
        self.time_type = one_clock(stream, self.time_type)
        for engine in self.engines:
            engine.time_type = self.time_type
        self.sources[stream.name.lower()] = Source(stream, self.first)

    def add_table(self, table: Table) -> None:
        self.tables[table.name.lower()] = table
        for engine in self.engines:
            engine.add_table(table)

    # ------------------------------------------------------------------ queries

    def register(self, name: str, root: Root, *, keep: bool) -> Spread:
        """Start a query in the cells of its placement: it sees rows with ts > clock."""
        self.check_idle()
        placement = place(root, len(self.engines), name, netted=self._nets)
        engines = [self.engines[c] for c in placement.cells]
        for one in placement.inputs:
            if one not in self._routers:
                self._routers[one] = Router(one.routing, self.strings, self.catalog.functions)
                for engine in engines:
                    engine.add_stream(dataclasses.replace(one.declared, delay=NEVER_BY_ITSELF))
        parts: list[Standing] = []
        try:
            for engine in engines:
                parts.append(engine.register(name, placement.root, keep=keep))
        except PenstockError:
            for engine in engines[: len(parts)]:
                engine.drop(name)
            self._let_go()
            raise
        strict = root.judged.pattern is Pattern.STRICT
        gathered = Gathered(parts, nets=self._nets and strict)
        tables = {t for q in parts for t in q.pipeline.tables}
        reads = Reads(frozenset(i.stream.name.lower() for i in placement.inputs), frozenset(tables))
        spread = Spread(name, root, placement, tuple(parts), gathered, reads)
        self.queries[name.lower()] = spread
        for stream in reads.streams:
            self.sources[stream].take(self.clock)
            self.sources[stream].raise_to(self.clock + 1)
        self._advance()
        return spread

    def drop(self, name: str) -> None:
        self.check_idle()
        spread = self.queries.pop(name.lower())
        for cell in spread.placement.cells:
            self.engines[cell].drop(name)
        self._let_go()
        self._advance()

    def _let_go(self) -> None:
        """Forget inputs that no query reads."""
        read = {i for q in self.queries.values() for i in q.placement.inputs}
        for gone in [i for i in self._routers if i not in read]:
            self._routers.pop(gone).release()
            for cell in gone.routing.cells:
                del self.engines[cell].sources[gone.name.lower()]

    def check(self, spread: Spread) -> None:
        for cell, part in zip(spread.placement.cells, spread.parts, strict=True):
            self.engines[cell].check(part)

    def snapshot(self, spread: Spread) -> pa.Table:
        """The answer at the clock: what the cells hold, one after the other."""
        cells = zip(spread.placement.cells, spread.parts, strict=True)
        return pa.concat_tables([self.engines[cell].snapshot(part) for cell, part in cells])

    # ------------------------------------------------------------------ feeding

    def push(self, name: str, columns: tuple[Column, ...]) -> None:
        """Rows of one stream; which are late is decided here, row by row."""
        self.check_idle()
        source = self.sources[name]
        source.push(columns)
        try:
            self._advance()
        finally:
            source.own()

    def advance(self, until: int, stream: str | None = None) -> None:
        """Nothing with ts <= until will come any more on a stream, or on any."""
        self.check_idle()
        for name, source in self.sources.items():
            if stream is None or name == stream:
                source.raise_to(until + 1)
        if not self.queries and stream is None:
            self._rise(until)
        self._advance()

    def update(
        self, name: str, at: int | None, delete: tuple[Column, ...], insert: tuple[Column, ...]
    ) -> None:
        """Tables are the same in every cell; so is what is wrong with an update, and the first cell says it."""
        when = self.clock + 1 if at is None else at
        schema = self.tables[name].schema
        for engine in self.engines:
            gone, new = (self._moved(rows, schema, engine) for rows in (delete, insert))
            engine.update(name, when, gone, new)

    def load(self, name: str, rows: tuple[Column, ...]) -> None:
        for engine in self.engines:
            engine.load(name, self._moved(rows, self.tables[name].schema, engine))

    def settle(self) -> None:
        """Nothing waits here."""

    def sweep_strings(self) -> None:
        """Cells sweep theirs; the front's are kept, since only tests hold one for long."""

    # ------------------------------------------------------------------ time

    def _advance(self) -> None:
        read = {s for q in self.queries.values() for s in q.pipeline.streams}
        if read:
            self._rise(min(self.sources[s].watermark for s in read) - 1)

    def _rise(self, clock: int) -> None:
        """Send the rows up to the new clock to their cells, and then the clock."""
        if clock <= self.clock:
            return
        self._clock = clock
        for name, source in self.sources.items():
            batch = source.take(clock)
            if batch is not None:
                self._deal_out(name, batch)
        errors = []
        for engine in self.engines:
            try:
                engine.advance(clock)
            except PenstockError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _deal_out(self, stream: str, batch: Batch) -> None:
        for one, router in self._routers.items():
            if one.stream.name.lower() == stream:
                for cell, rows in router.route(batch.columns, len(batch)):
                    engine = self.engines[cell]
                    columns = self._moved(gather(batch.columns, rows), one.stream.schema, engine)
                    engine.push(one.name.lower(), columns)

    def _moved(self, columns: Sequence[Column], schema: Schema, engine: Engine) -> tuple[Column, ...]:
        """Rows as another process would get them."""
        return tuple(
            from_arrow(to_arrow(c, f.type, self.strings), f.type, engine.strings)
            for c, f in zip(columns, schema, strict=True)
        )


# ------------------------------------------------------------------ changes of several cells


def netted(changes: pa.Table) -> pa.Table:
    """Without '-' and '+' of equal rows (values and exp) in one instant.

    >>> made = {"__op": ["+", "-", "+"], "__ts": [3, 3, 3], "__exp": [9, 9, 9], "x": [1.0, 1.0, float("nan")]}
    >>> netted(pa.table(made)).to_pylist()
    [{'__op': '+', '__ts': 3, '__exp': 9, 'x': nan}]
    """
    codes = np.column_stack([_codes(c) for c in _values(changes)])
    _, ids = np.unique(codes, axis=0, return_inverse=True)
    ids, comes = ids.reshape(-1), _comes(changes)
    pairs = np.minimum(
        *(np.bincount(ids[comes == which], minlength=ids.max() + 1) for which in (True, False))
    )
    keep = np.ones(len(ids), np.bool_)
    for which in (True, False):
        rows = np.flatnonzero(comes == which)
        keep[rows[words.copies(ids[rows]) < pairs[ids[rows]]]] = False
    return changes.take(pa.array(np.flatnonzero(keep)))


def _values(changes: pa.Table) -> Iterator[pa.ChunkedArray]:
    """All that tells two changes apart, the sign aside."""
    for name, column in zip(changes.column_names, changes.columns, strict=True):
        if pa.types.is_struct(column.type):
            yield from column.flatten()
        elif name != "__op":
            yield column


def _codes(column: pa.ChunkedArray) -> Array:
    """Equal values, equal numbers: NULL and NULL, NaN and NaN, 0.0 and -0.0."""
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int64)
    if pa.types.is_floating(column.type):
        column = pc.add(column, pa.scalar(0.0, column.type))
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices, np.int64)


def _comes(changes: pa.Table) -> Array:
    """Which changes are '+'."""
    return np.asarray(pc.equal(changes.column("__op"), "+"))


def _numbers(times: pa.ChunkedArray) -> Array:
    return np.asarray(times.cast(pa.int64()))
