"""What a cell runs of one stage: an engine over the inputs that reach it, kept to what is declared.

A cell has two. The first reads streams and says what whole queries say, or what their parts below a cut do. The second reads what
the first stages of all cells said in the step before, and streams beside it. So its clock is a step behind, until a
step without rows. An inner input's watermark is told once its rows are in, since it is that of the step they come from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.durability import snapshot
from penstock.engine.engine import Engine
from penstock.errors import PenstockError
from penstock.ingest.convert import read_rows
from penstock.kernels.state.live_row_events import time_order
from penstock.overload.policy.preference.partition_grid import Dealt
from penstock.plan.catalog import Catalog, Table
from penstock.plan.nodes import Node, Relation
from penstock.plan.policies import Policies
from penstock.plan.traversal import every
from penstock.spark.flow_plan import Fed, Flowing
from penstock.spark.semijoin_buffer import Ends
from penstock.spark.union_layout import STEP, Layout
from penstock.state.arrow_columns import to_arrow
from penstock.types.batch import Array, Column, gather
from penstock.types.event_time import LATEST

Update = tuple[dict[str, Any], dict[str, pa.Table]]
"""An update of a table as it was written down."""

SetAside = Callable[[str, Fed, tuple[Column, ...], Engine], None]
"""Takes rows that came too late, or are too far ahead."""


class Stage:
    """Stage `number` of a cell."""

    def __init__(self, cell: int, number: int, below: Stage | None = None) -> None:
        self.cell = cell
        self.number = number
        self.engine = Engine(Catalog())
        self._below = below
        """Knows the tables that are first read here."""
        self._wanted: Flowing | None = None
        self._counted: dict[str, dict[str, int]] = {}
        self.ends: dict[str, Ends] = {}
        """By sieve, of the streams that parts below wait for."""

    def take_up(self, wanted: Flowing, found: snapshot.Snapshot, policies: Policies | None = None) -> None:
        """Be the stage that was saved; from now on by these policies, if not by its own."""
        catalog = Catalog(
            wanted.streams(self.cell, self.number), self._tables(wanted), dict(wanted.catalog.functions)
        )
        roots = wanted.roots(self.cell, self.number)
        self.engine = snapshot.restore(
            catalog, [(name, root, wanted.keeps(name)) for name, root in roots.items()], found, policies
        )
        self._follow()
        self._wanted = wanted
        self._listen(wanted)

    def _follow(self) -> None:
        """Be a part of a flow: its clock is the driver's, and a query that fails stops alone."""
        self.engine.raises = False
        self.engine.groups.follows = True

    # ------------------------------------------------------------------ what is declared

    def declare(self, wanted: Flowing, updates: list[Update]) -> None:
        """Queries that are new begin now, those gone are dropped; the others run on undisturbed."""
        before = self._wanted
        if before is None:
            self.engine = Engine(Catalog(), replace(wanted.upkeep), wanted.policies)
            self._follow()
        elif self.engine.policies != wanted.policies:
            self.take_up(before, snapshot.dump(self.engine), wanted.policies)
        engine = self.engine
        engine.upkeep.tune(wanted.upkeep)
        engine.catalog.functions.update(wanted.catalog.functions)
        roots, streams = wanted.roots(self.cell, self.number), wanted.streams(self.cell, self.number)
        gone = set()
        for standing in list(engine.queries.values()):
            begun = None if before is None else before.begun.get(standing.name)
            if standing.name not in roots or begun != wanted.begun[standing.name]:
                engine.drop(standing.name)
                gone.add(standing.name)
        inner = {f.name for f in before.inputs if f.below in gone} if before is not None else set()
        for key in [k for k in engine.sources if k not in streams or k in inner]:
            del engine.sources[key], engine.catalog.streams[key]
        for key, stream in streams.items():
            if key not in engine.sources:
                engine.add_stream(stream)
                engine.catalog.streams[key] = stream
            elif engine.sources[key].stream.delay != stream.delay:
                engine.sources[key].delay_by(stream.delay)
                engine.catalog.streams[key] = stream
        self._declare_tables(self._tables(wanted), updates)
        for name, root in roots.items():
            if name.lower() not in engine.queries:
                engine.register(name, root, keep=wanted.keeps(name), since=wanted.begun[name][1])
            elif before is not None and root.levels != before.roots(self.cell, self.number)[name].levels:
                engine.alter(engine.queries[name.lower()], root)
        for standing in engine.queries.values():
            if standing.weight != wanted.weights[standing.name]:
                engine.weigh(standing, wanted.weights[standing.name])
        self._wanted = wanted
        self._listen(wanted)

    def _listen(self, wanted: Flowing) -> None:
        """Note the ends of those streams that parts below wait for. What came before a query began is of no use to it."""
        read = wanted.streams(self.cell, self.number)
        named = {s.name: s for s in wanted.sieves if self.number == 1 and s.other.name.lower() in read}
        known = {name: ends for name, ends in self.ends.items() if ends.sieve == named.get(name)}
        self.ends = {name: known.get(name) or Ends(sieve) for name, sieve in named.items()}

    def _tables(self, wanted: Flowing) -> dict[str, Table]:
        """The first stage knows all; the second those that it reads."""
        known = wanted.catalog.tables
        if self.number == 0:
            return dict(known)
        read = {t for root in wanted.roots(self.cell, self.number).values() for t in _relations(root.node)}
        return {key: table for key, table in known.items() if key in read}

    def _declare_tables(self, tables: dict[str, Table], updates: list[Update]) -> None:
        engine = self.engine
        for key in [k for k in engine.tables if k not in tables]:
            del engine.tables[key], engine.catalog.tables[key]
        for key, table in tables.items():
            if key not in engine.tables:
                engine.add_table(table)
                engine.catalog.tables[key] = table
                if self._below is not None:
                    self._take_over(key, self._below.engine)
        if self.number == 0:
            for header, content in updates:
                if header["first"]:
                    engine.load(header["table"], self._read(header["table"], content["insert"]))

    def _take_over(self, key: str, other: Engine) -> None:
        """A table as another engine holds it. That one's clock is ahead; whoever reads the table here begins later still."""
        relation = other.tables[key]
        schema = relation.table.schema

        def moved(columns: tuple[Column, ...]) -> tuple[Column, ...]:
            arrays = [to_arrow(c, f.type, other.strings) for c, f in zip(columns, schema, strict=True)]
            return self._read(key, pa.Table.from_arrays(arrays, names=[f.name for f in schema]))

        clock = self.engine.latest_clock
        self.engine.load(key, moved(relation.at(clock)))
        for at, gone, new in relation.waiting:
            if at > clock:
                self.engine.update(key, at, moved(gone), moved(new))

    def update_tables(self, updates: list[Update]) -> None:
        """What comes after the first content."""
        for header, content in updates:
            key = header["table"]
            if not header["first"] and key in self.engine.tables:
                gone, new = (self._read(key, content[part]) for part in ("delete", "insert"))
                self.engine.update(key, header["at"], gone, new)

    def _read(self, key: str, rows: pa.Table) -> tuple[Column, ...]:
        return read_rows(rows, self.engine.tables[key].table.schema, self.engine.strings)

    # ------------------------------------------------------------------ time

    def raise_watermarks(self, watermarks: dict[str, int]) -> None:
        """Of declared streams."""
        if self._wanted is None:
            return
        groups = self._wanted.clock_groups(watermarks)
        declared = {fed.name: fed.stream for fed in self._own()}
        ceilings: dict[str, int] = {}
        for name, stream in declared.items():
            group, here = groups.group([stream]), self.engine.groups.group([name])
            if group is not None:
                # Queries here may connect fewer streams than all queries do. They wait for the others: after a step without rows
                # all cells agree.
                own = {stream} if here is None else {declared[other] for other in here.streams}
                others = [watermarks[s] - 1 for s in group.streams - own if s in watermarks]
                ceilings[name] = min([group.until, *others])
        self.engine.ceilings = ceilings
        self.engine.raise_watermarks(
            {f.name: watermarks[f.stream] for f in self._own() if f.below is None and f.stream in watermarks}
        )
        if groups.streams:
            self.engine.rest_until(groups.clock)

    def raise_inner(self, until: Mapping[str, int]) -> None:
        """By part below: all its changes before this instant have come; of those that keep rows back, all that is of use before it."""
        self.engine.raise_watermarks(
            {f.name: until[f.stream] for f in self._own() if f.below is not None and f.stream in until}
        )

    def _own(self) -> Iterator[Fed]:
        assert self._wanted is not None
        for fed in self._wanted.inputs:
            if fed.stage == self.number and fed.name in self.engine.sources:
                yield fed

    @property
    def dealt(self) -> Dealt:
        """How the streams that its engine knows are dealt out."""
        return Dealt({fed.name: fed.input.routing for fed in self._own()}, self.cell)

    @property
    def clocks(self) -> dict[str, int]:
        """By input that some query here reads: where it stands."""
        return self.engine.clocks

    # ------------------------------------------------------------------ rows

    def feed(
        self,
        rows: pa.Table,
        which: Array,
        watermarks: dict[str, int],
        set_aside: SetAside | None,
        ceilings: dict[str, int],
    ) -> dict[str, Any]:
        """Rows to their inputs in time order, but for those that came too late or are beyond a ceiling; `which`: every
        row's input."""
        assert self._wanted is not None
        inputs = self._wanted.inputs
        seen: dict[str, int] = {}
        late: dict[str, int] = {}
        ahead: dict[str, int] = {}
        newest: dict[str, int] = {}
        runs = _runs(which)
        for number, fed in enumerate(inputs):
            if fed.stage != self.number:
                continue
            own = _picked(rows, which, number, runs)
            if not own.num_rows:
                continue
            stream = fed.input.stream
            if fed.counted:
                own = own.take(_content_order(own, self._wanted.layout, fed))
            columns = self._wanted.layout.read(own, stream, self.engine.strings)
            if fed.below is None:
                speaks = fed.speaks and fed.input.routing.is_first_copy(self.cell)
                if speaks:
                    seen[fed.stream] = own.num_rows
                ts = columns[stream.time].values
                far = ts > ceilings.get(fed.stream, LATEST)
                if far.any():
                    if speaks:
                        ahead[fed.stream] = int(far.sum())
                        if set_aside is not None:
                            set_aside("ahead", fed, _at(columns, np.flatnonzero(far)), self.engine)
                    columns = _at(columns, np.flatnonzero(~far))
                    ts = columns[stream.time].values
                    if not len(ts):
                        continue
                newest[fed.stream] = max(newest.get(fed.stream, int(ts.max())), int(ts.max()))
                too_late = ts < watermarks.get(fed.stream, np.iinfo(np.int64).min)
                if too_late.any():
                    if speaks:
                        late[fed.stream] = int(too_late.sum())
                        if set_aside is not None:
                            set_aside("late", fed, _at(columns, np.flatnonzero(too_late)), self.engine)
                    columns = _at(columns, np.flatnonzero(~too_late))
            for ends in self.ends.values():
                if ends.sieve.other.name.lower() == fed.name:
                    ends.take(columns, self.engine.strings, self.engine.catalog.functions)
            order = time_order(columns[stream.time].values)
            self.engine.push(fed.name, columns if order is None else _at(columns, order))
        return {"rows": seen, "late": late, "ahead": ahead, "newest": newest}

    def waiting(self) -> dict[str, int]:
        """By declared stream: rows that wait for the clock."""
        found: dict[str, int] = {}
        for fed in self._own():
            if fed.below is None and fed.speaks and fed.input.routing.is_first_copy(self.cell):
                found[fed.stream] = self.engine.sources[fed.name].waiting
        return {name: rows for name, rows in found.items() if rows}

    # ------------------------------------------------------------------ answers

    def changes(self) -> dict[str, pa.Table]:
        """By query, or part of one, since this was asked last; nothing of those that have failed."""
        self.engine.settle()
        running = [s for s in self.engine.queries.values() if s.failed is None]
        return {s.name: s.answer.changes() for s in running if s.answer.has_changes}

    def failed(self) -> dict[str, PenstockError]:
        """Queries, or parts, that met an error."""
        return {s.name: s.failed for s in self.engine.queries.values() if s.failed is not None}

    def partial_results(self) -> dict[str, dict[str, int]]:
        """By query, or part of one, since this was asked last: as `Pipeline.counted`."""
        counted = {s.name: s.pipeline.counted() for s in self.engine.queries.values()}
        before, self._counted = self._counted, {name: told for name, told in counted.items() if told}
        return {
            name: {what: max(0, n - before.get(name, {}).get(what, 0)) for what, n in told.items()}
            for name, told in self._counted.items()
        }

    def views(self, names: list[str]) -> dict[str, pa.Table]:
        """Current answers of those queries that run here."""
        there = (self.engine.queries.get(name.lower()) for name in names)
        return {s.name: self.engine.snapshot(s) for s in there if s is not None and s.failed is None}


RUNS = 1_000
"""Runs of rows for one input up to which cutting them out is cheaper than picking rows."""


def _runs(which: Array) -> Array:
    """Where the input changes, with both ends; rows come file by file, or block by block."""
    return np.concatenate(([0], np.flatnonzero(which[1:] != which[:-1]) + 1, [len(which)]))


def _picked(rows: pa.Table, which: Array, number: int, runs: Array) -> pa.Table:
    """The rows of an input."""
    if len(runs) > RUNS:
        return rows.take(pa.array(np.flatnonzero(which == number)))
    own = [(a, b) for a, b in pairwise(runs.tolist()) if a < b and which[a] == number]
    return pa.concat_tables([rows.slice(a, b - a) for a, b in own]) if own else rows.slice(0, 0)


def _relations(node: Node) -> Iterator[str]:
    yield from (one.table.name.lower() for one in every(node) if isinstance(one, Relation))


def _content_order(rows: pa.Table, layout: Layout, fed: Fed) -> pa.Array:
    """Rows by time and then by content: what a window that counts rows sees must not hang on how they came."""
    places = layout.places[fed.stream]
    time, *others = dict.fromkeys([places[fed.input.stream.time], *places])
    names = [f"c{time}", STEP, *(f"c{slot}" for slot in others)]
    return pc.sort_indices(rows, sort_keys=[(n, "ascending") for n in names if n in rows.column_names])


def _at(columns: tuple[Column, ...], rows: Any) -> tuple[Column, ...]:
    return tuple(Column(c.values, c.valid) for c in gather(columns, rows))
