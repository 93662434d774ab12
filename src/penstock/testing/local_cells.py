"""Several engines in this process as one: the model of what a cluster does, and the test that placements are exact.

In front stands what must be decided once: watermarks, late rows, the clock. When the clock rises, the rows up to it are
routed to the cells (`partitioning.router`), as Arrow, since a cell has strings of its own; then every cell is told the clock. A
cell is an engine over inputs and knows nothing of the others. Queries that were cut (`partitioning.stages`) have cells of two stages:
those of the second are told the clock when they have been dealt out what those of the first said. What the last cells say is put
together; where a query takes rows back, '-' and '+' of equal rows in one instant cancel, also if they come from different
cells.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.adaptive.replanner import Replan
from penstock.engine.engine import Engine, one_clock
from penstock.engine.output import Answer
from penstock.engine.registry import Standing
from penstock.errors import PenstockError
from penstock.ingest.convert import read_rows
from penstock.ingest.source import Source
from penstock.overload import learned_values
from penstock.overload.policy.preference.partition_grid import Dealt
from penstock.partitioning.placement import Input, Placement
from penstock.partitioning.router import Router
from penstock.partitioning.stages import Stages, stages, whole
from penstock.plan.catalog import Catalog, Function, Stream, Table
from penstock.plan.exchange_input import NEVER_BY_ITSELF
from penstock.plan.policies import Policies
from penstock.plan.query_root import Root
from penstock.plan.rank_levels import USUAL
from penstock.plan.state_upkeep import Upkeep
from penstock.plan.update_pattern import Pattern
from penstock.state import key_words
from penstock.state.arrow_columns import from_arrow, to_arrow
from penstock.state.strings import Strings
from penstock.types.batch import Array, Column, gather
from penstock.types.data_type import Type
from penstock.types.event_time import EARLIEST, FIRST_INSTANT, LAST_MICROSECOND, LATEST
from penstock.types.schema import Schema


@dataclass(frozen=True, slots=True)
class Reads:
    """Streams and tables of a query, in lower case."""

    streams: frozenset[str]
    tables: frozenset[str]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a query in the cells of its stage."""

    name: str
    placement: Placement
    stage: Stage

    @property
    def running(self) -> list[tuple[Engine, Standing]]:
        engines = [self.stage.engines[cell] for cell in self.placement.cells]
        return [(engine, engine.queries[self.name.lower()]) for engine in engines]

    @property
    def answers(self) -> list[Answer]:
        return [standing.answer for _, standing in self.running]

    def changes(self) -> pa.Table:
        return pa.concat_tables([answer.changes() for answer in self.answers])

    def drop(self) -> None:
        for engine, _ in self.running:
            engine.drop(self.name)


class Gathered:
    """What a query says in all its cells; `nets`: changes of one instant may cancel."""

    def __init__(self, part: Part, *, nets: bool) -> None:
        self._part = part
        self._nets = nets

    @property
    def kept(self) -> bool:
        return self._part.answers[0].kept

    @property
    def matched(self) -> int:
        """Changes before they were put together."""
        return sum(a.matched for a in self._part.answers)

    @property
    def has_changes(self) -> bool:
        return any(a.has_changes for a in self._part.answers)

    def changes(self) -> pa.Table:
        """Everything since the last call, in time order, '-' first in an instant."""
        table = self._part.changes()
        if not self._part.placement.is_spread or not table.num_rows:
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
    stages: Stages
    parts: tuple[Part, ...]
    """The lower first; the last one's changes are the query's."""
    answer: Gathered
    pipeline: Reads


class Stage:
    """The cells of one stage, and the inputs that rows are dealt out to."""

    def __init__(
        self,
        catalog: Catalog,
        count: int,
        strings: Strings,
        upkeep: Upkeep | None,
        policies: Policies | None,
    ) -> None:
        self.engines = [Engine(catalog, upkeep, policies) for _ in range(count)]
        self.routers: dict[Input, Router] = {}
        self._strings = strings
        self.merges = True
        """Cells tell each other what they have learnt; `penstock bench promises` has them not do so, to compare."""

    def register(
        self,
        name: str,
        placement: Placement,
        functions: Mapping[str, Function],
        *,
        keep: bool | None,
        weight: float = USUAL,
    ) -> Part:
        engines = [self.engines[c] for c in placement.cells]
        for one in placement.inputs:
            if one not in self.routers:
                self.routers[one] = Router(one.routing, self._strings, functions)
                for engine in engines:
                    engine.add_stream(dataclasses.replace(one.declared, delay=NEVER_BY_ITSELF))
        for done, engine in enumerate(engines):
            try:
                engine.register(name, placement.root, keep=keep, weight=weight)
            except PenstockError:
                for other in engines[:done]:
                    other.drop(name)
                raise
        return Part(name, placement, self)

    def let_go(self, read: Iterable[Input]) -> None:
        """Forget inputs that no query reads."""
        for gone in self.routers.keys() - set(read):
            self.routers.pop(gone).release()
            for cell in gone.routing.cells:
                del self.engines[cell].sources[gone.name.lower()]

    def deal_out(self, stream: str, columns: Sequence[Column]) -> None:
        """Rows to the cells of every input that the stream is read as."""
        for one, router in self.routers.items():
            if one.stream.name.lower() == stream:
                for cell, rows in router.route(columns, len(columns[0])):
                    engine = self.engines[cell]
                    engine.push(
                        one.name.lower(), self.moved(gather(columns, rows), one.stream.schema, engine)
                    )

    def moved(self, columns: Sequence[Column], schema: Schema, engine: Engine) -> tuple[Column, ...]:
        """Rows as another process would get them."""
        return tuple(
            from_arrow(to_arrow(c, f.type, self._strings), f.type, engine.strings)
            for c, f in zip(columns, schema, strict=True)
        )

    def advance(self, clock: int) -> list[PenstockError]:
        """Tell every cell the clock; what went wrong."""
        return self._each(lambda engine: engine.advance(clock))

    def drain(self) -> list[PenstockError]:
        """Let every cell work on all that it has; what went wrong."""
        return self._each(Engine.drain)

    def _each(self, work: Callable[[Engine], None]) -> list[PenstockError]:
        errors = []
        for engine in self.engines:
            try:
                work(engine)
            except PenstockError as error:
                errors.append(error)
        self._exchange()
        return errors

    def _exchange(self) -> None:
        """What cells have learnt of promising values, for all of them in their next step."""
        if not self.merges or len(self.engines) == 1:
            return
        routings = {one.name.lower(): one.routing for one in self.routers}
        dealt = [Dealt(routings, cell) for cell in range(len(self.engines))]
        told = learned_values.together(map(learned_values.learnt, self.engines, dealt))
        for engine, own in zip(self.engines, dealt, strict=True):
            learned_values.learn(engine, told, own)


class Cells:
    """`count` engines, and as many for second stages, behind the calls of one.

    `nets`: see `place`. `placing`: how queries are cut and placed, if not as they are elsewhere.
    """

    def __init__(
        self,
        catalog: Catalog,
        count: int,
        *,
        nets: bool = True,
        placing: Callable[..., Stages] = stages,
        upkeep: Upkeep | None = None,
        policies: Policies | None = None,
    ) -> None:
        self.catalog = catalog
        self.strings = Strings()
        self.lower, self.upper = (Stage(catalog, count, self.strings, upkeep, policies) for _ in range(2))
        """A query that was not cut runs in the lower stage."""
        self.time_type: Type | None = None
        self.sources: dict[str, Source] = {}
        self.tables: dict[str, Table] = {}
        self.queries: dict[str, Spread] = {}
        self._nets = nets
        # Where rows wait a clock does not tell until when a part below has said everything.
        waits = policies is not None and policies.budget is not None
        self._placing = whole if waits and placing is stages else placing
        self._clock: int | None = None
        self.notices: list[Warning] = []

    # ------------------------------------------------------------------ what there is

    @property
    def held_bytes(self) -> int:
        """What all queries remember in all cells."""
        return self.size_bytes

    @property
    def engines(self) -> list[Engine]:
        return self.lower.engines + self.upper.engines

    @property
    def clock(self) -> int:
        """Every row with ts <= clock has been applied in every cell."""
        return self.first - 1 if self._clock is None else self._clock

    @property
    def first(self) -> int:
        return FIRST_INSTANT if self.time_type is Type.TIMESTAMP else EARLIEST

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

    def register(
        self, name: str, root: Root, *, keep: bool, replan: Replan | None = None, weight: float = USUAL
    ) -> Spread:
        """Start a query in the cells of its placement: it sees rows with ts > clock. A plan stays as it was placed."""
        self.check_idle()
        made = self._placing(root, len(self.lower.engines), name, netted=self._nets)
        parts: list[Part] = []
        try:
            for low in made.lower:
                parts.append(
                    self.lower.register(
                        low.name, low.placement, self.catalog.functions, keep=None, weight=weight
                    )
                )
            last = self.upper if made.lower else self.lower
            parts.append(last.register(name, made.upper, self.catalog.functions, keep=keep, weight=weight))
        except PenstockError:
            for part in parts:
                part.drop()
            self._let_go()
            raise
        strict = root.judged.pattern is Pattern.STRICT
        gathered = Gathered(parts[-1], nets=self._nets and strict)
        tables = {t for part in parts for _, standing in part.running for t in standing.pipeline.tables}
        streams = {i.stream.name.lower() for part in made.parts for i in part.inputs} & self.sources.keys()
        reads = Reads(frozenset(streams), frozenset(tables))
        spread = Spread(name, root, made, tuple(parts), gathered, reads)
        self.queries[name.lower()] = spread
        for stream in reads.streams:
            self.sources[stream].take(self.clock)
            self.sources[stream].raise_to(self.clock + 1)
        self._advance()
        return spread

    def drop(self, name: str) -> None:
        self.check_idle()
        spread = self.queries.pop(name.lower())
        for part in spread.parts:
            part.drop()
        self._let_go()
        self._advance()

    def _let_go(self) -> None:
        parts = [part for spread in self.queries.values() for part in spread.parts]
        for stage in (self.lower, self.upper):
            stage.let_go(i for part in parts if part.stage is stage for i in part.placement.inputs)

    def answer(self, spread: Spread) -> Gathered:
        return spread.answer

    def check(self, spread: Spread) -> None:
        for part in spread.parts:
            for engine, standing in part.running:
                engine.check(standing)

    def snapshot(self, spread: Spread) -> pa.Table:
        """The answer at the clock: what the cells hold, one after the other."""
        self.check(spread)
        return pa.concat_tables([engine.snapshot(standing) for engine, standing in spread.parts[-1].running])

    # ------------------------------------------------------------------ feeding

    def mark(self, name: str) -> None:
        """Cells are for tests of placements: an interrupted push is not taken back."""

    @property
    def guard(self) -> AbstractContextManager[None]:
        return nullcontext()

    def lay(self, name: str, rows: pa.RecordBatch) -> bool:
        """A few rows of one stream unread, if nothing can be wrong with them; else they are to be read and pushed."""
        self.check_idle()
        if not self.sources[name].lay(rows):
            return False
        self._advance()
        return True

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
            gone, new = (self.lower.moved(rows, schema, engine) for rows in (delete, insert))
            engine.update(name, when, gone, new)

    def load(self, name: str, rows: tuple[Column, ...]) -> None:
        for engine in self.engines:
            engine.load(name, self.lower.moved(rows, self.tables[name].schema, engine))

    def loads(self) -> dict[str, dict[str, Any]]:
        """By query, of the cell in which most waits: what waits, and what became of rows by rank."""
        found: dict[str, dict[str, Any]] = {}
        for engine in self.engines:
            for name, load in engine.loads().items():
                if name not in found or load["waiting"] > found[name]["waiting"]:
                    found[name] = load
        return found

    def endless(self) -> list[str]:
        """Queries for which more and more waits in some cell that nothing bounds."""
        return [name for engine in self.engines for name in engine.endless()]

    def drain(self) -> None:
        """Work on everything that has come, however long it takes."""
        self.check_idle()
        self._advance()
        errors = self.lower.drain()
        self._hand_on()
        errors += self.upper.drain()
        if errors:
            raise errors[0]

    def settle(self) -> None:
        """Nothing waits here."""

    def catch_up(self) -> None:
        """Nothing waits here."""

    def held_back_by(self) -> None:
        """Not known here."""

    def sweep_strings(self) -> None:
        """Cells sweep theirs; the front's are kept, since only tests hold one for long."""

    # ------------------------------------------------------------------ time

    def _advance(self) -> None:
        read = {s for q in self.queries.values() for s in q.pipeline.streams}
        if read:
            self._rise(min(self.sources[s].watermark for s in read) - 1)

    def _rise(self, clock: int) -> None:
        """Send the rows up to the new clock to their cells, and then the clock: to the cells below first."""
        if clock <= self.clock:
            return
        self._clock = clock
        for name, source in self.sources.items():
            batch = source.take(clock)
            if batch is not None:
                for stage in (self.lower, self.upper):
                    stage.deal_out(name, batch.columns)
        errors = self.lower.advance(clock)
        self._hand_on()
        errors += self.upper.advance(clock)
        if errors:
            raise errors[0]

    def _hand_on(self) -> None:
        """What the parts below have said to those above."""
        for spread in self.queries.values():
            for low, part in zip(spread.stages.lower, spread.parts[:-1], strict=True):
                changes = part.changes()
                if changes.num_rows:
                    rows = read_rows(low.rows(changes), low.stream.schema, self.strings)
                    self.upper.deal_out(low.stream.name.lower(), rows)


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
        keep[rows[key_words.copies(ids[rows]) < pairs[ids[rows]]]] = False
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
