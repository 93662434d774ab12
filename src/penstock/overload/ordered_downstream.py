"""What stands above the cores of a query with a budget: it reads their changes in event-time order, behind their progress.

Results that were made before their turn are held until nothing that still waits could come before them. Where nothing stands
above, results are said as they are made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from penstock.engine.rerank import check_reranked, rerank
from penstock.operators.aggregate.group_by import Grouping
from penstock.operators.contract import Site, empty, placed
from penstock.operators.pipeline import Key, Pipeline
from penstock.overload.operator_queues import Routes
from penstock.overload.queued_operator import Stop
from penstock.overload.scheduler import Scheduler
from penstock.overload.shed_estimate import Unmade
from penstock.overload.spj_block import Workshop, as_changes
from penstock.overload.spj_plan import Core, estimated
from penstock.plan.nodes import Node, Relation, Reliable
from penstock.plan.query_root import Root
from penstock.plan.sampled_aggregate import EXPIRED, estimates_schema
from penstock.plan.traversal import every
from penstock.state.arena import Arena
from penstock.state.priority_queue import BACK_BURNER
from penstock.types.batch import ABSENT, Array, Batch, Column, Ints, concat
from penstock.types.data_type import Type
from penstock.types.schema import Schema

Said = list[tuple[Batch, int]]
"""Changes, each with the instant until which they go."""


class Above:
    """`root`: the plan above the cores; None: the only core is all there is. `most`: rows that groups which answer from samples may
    hold; of more the oldest panes are let go of and count as expired (Works 2013, §5.4.4)."""

    def __init__(
        self,
        root: Root | None,
        cores: Sequence[Core],
        workshop: Workshop,
        name: str,
        since: int,
        routes: Sequence[Routes],
        most: int | None = None,
    ) -> None:
        self._name = name
        self.pipeline: Pipeline | None = (
            None if root is None else workshop.whole(root, f"{name}above.", since)
        )
        self._asked = None if root is None else root.node
        self._streams = [core.stream for core in cores]
        self._schemas = [core.node.schema for core in cores]
        self._held: list[list[Batch]] = [[] for _ in cores]
        tables = [key for key in self.pipeline.sources if key[0] == "table"] if self.pipeline else []
        self._tables: dict[Key, list[Batch]] = {key: [] for key in tables}
        self._table_schemas: dict[Key, Schema] = {} if root is None else table_schemas(root.node)
        self._estimates: list[Batch] = []
        self._unmade: Unmade | None = None
        """Estimates what rows that were dropped would have come to, for groups that answer from samples."""
        found = None if root is None else estimated(root.node, cores)
        if found is not None:
            which, keys = found
            self._unmade = Unmade(workshop.site(f"{name}unmade"), routes[which], keys)
        self._most = None if self._unmade is None else most
        self.let_go = 0
        """Rows that there was no room for."""
        self.until = since - 1
        """Until when the plan above has been told everything."""

    def check_reranked(self, root: Root | None) -> None:
        """Whether the plan may become another that differs in its ranks alone."""
        if self._asked is not None and root is not None:
            check_reranked(self._asked, root.node)

    def rerank(self, root: Root | None, site: Site) -> None:
        """Become that plan."""
        if self.pipeline is not None and root is not None and root.node != self._asked:
            rerank(self.pipeline, root.node, site)
            self._asked = root.node

    @property
    def tables(self) -> list[Key]:
        return list(self._tables)

    def hold(self, core: int, batch: Batch) -> None:
        if len(batch):
            self._held[core].append(_read(batch))

    def watch(self, scheduler: Scheduler) -> None:
        """Be told of rows that are dropped, and of results, if that matters."""
        if self._unmade is None:
            return
        unmade = self._unmade

        def dropped(_: int, stop: Stop, rows: Ints) -> None:
            made = unmade.of(stop, rows)
            if made is not None:
                self._estimates.append(_read(made))

        scheduler.unmade = dropped
        scheduler.made = lambda _, rows: unmade.note(rows)

    def note(self, feeds: Mapping[Key, Batch]) -> None:
        """What tables say."""
        for key, held in self._tables.items():
            if len(feeds[key]):
                held.append(feeds[key])

    def at_once(self, made: Sequence[Batch], feeds: Mapping[Key, Batch], now: int) -> Said:
        """What cores make in time order, and what tables say, until an instant: while nothing waits, nothing need be held."""
        self._make_room(sum(map(len, made)))
        if any(self._held) or self._estimates or any(self._tables.values()):
            for n, batch in enumerate(made):
                self.hold(n, batch)
            self.note(feeds)
            return self.released(now + 1, now)
        if self.pipeline is None:
            return [(_read(made[0]), now)] if len(made[0]) else []
        given = {key: feeds[key] for key in self._tables}
        for stream, batch in zip(self._streams, made, strict=True):
            assert stream is not None
            given["stream", stream.name.lower()] = as_changes(batch)
        if self._unmade is not None:
            given["stream", EXPIRED] = as_changes(empty(len(estimates_schema(self.pipeline.root.node))))
        self.until = now
        return [(_read(self.pipeline.step(given, now)), now)]

    def released(self, progress: int, now: int, *, ranked: bool = False) -> Said:
        """What may be said now: everything before `progress` has been made. `ranked`: rank by rank, if it says ranks."""
        if self.pipeline is None:
            said = together(self._held[0])
            self._held[0] = []
            if said is None:
                return []
            return [(part, now) for part in (_by_rank(said) if ranked else [said])]
        until = progress - 1
        if until <= self.until:
            return []
        feeds: dict[Key, Batch] = {}
        for n, (stream, schema) in enumerate(zip(self._streams, self._schemas, strict=True)):
            assert stream is not None
            ready, self._held[n] = _parted(self._held[n], until, len(schema))
            feeds["stream", stream.name.lower()] = as_changes(ready)
        self._make_room(sum(map(len, feeds.values())))
        if self._unmade is not None:
            width = len(estimates_schema(self.pipeline.root.node))
            ready, self._estimates = _parted(self._estimates, until, width)
            feeds["stream", EXPIRED] = as_changes(ready)
        for key in self._tables:
            feeds[key], self._tables[key] = _parted(self._tables[key], until, len(self._table_schemas[key]))
        self.until = until
        return [(_read(self.pipeline.step(feeds, until)), until)]

    def _make_room(self, coming: int) -> None:
        """For so many rows, from the next instant on."""
        if self._most is None:
            return
        assert self.pipeline is not None
        (node,) = (n for n in every(self.pipeline.root.node) if isinstance(n, Reliable))
        (groups,) = (o for o in self.pipeline.operators[id(node.rows)] if isinstance(o, Grouping))
        gone = groups.let_go(max(self._most - coming, 0), self.until + 1)
        if gone is not None:
            *keys, count = gone.columns
            sure = Column(np.zeros(len(gone)))
            self.let_go += int(count.values.sum())
            estimated = (*keys, Column(count.values.astype(np.float64)), sure, sure)
            self._estimates.append(gone.with_columns(estimated))

    def shrink(self, coming: int) -> None:
        """Give back room of what the plan remembers."""
        if self.pipeline is not None:
            self.pipeline.shrink(coming)

    def current(self) -> Batch | None:
        return None if self.pipeline is None else self.pipeline.current(self.until)

    # ------------------------------------------------------------------ leaving and coming back

    def _places(self) -> list[tuple[str, Schema, list[Batch]]]:
        """All that is held, under names."""
        held = [
            (f"{self._name}held{n}", schema, batches)
            for n, (schema, batches) in enumerate(zip(self._schemas, self._held, strict=True))
        ]
        for n, (key, batches) in enumerate(self._tables.items()):
            held.append((f"{self._name}table{n}", self._table_schemas[key], batches))
        if self._unmade is not None:
            assert self.pipeline is not None
            held.append(
                (f"{self._name}estimates", estimates_schema(self.pipeline.root.node), self._estimates)
            )
        return held

    def mark_strings(self, mark: Callable[[Array], None]) -> None:
        for _, schema, batches in self._places():
            for batch in batches:
                mark_rows(mark, schema, batch)

    def save(self, arena: Arena) -> None:
        for name, _, batches in self._places():
            whole = together(batches)
            if whole is not None:
                keep_changes(arena, name, whole)

    def take_up(self, arena: Arena, until: int, let_go: int) -> None:
        self.until, self.let_go = until, let_go
        for name, schema, batches in self._places():
            rows = found_changes(arena, name, schema)
            if len(rows):
                batches.append(rows)


def _read(batch: Batch) -> Batch:
    """With its columns read: the state they point into may change before anybody looks."""
    for column in batch.columns:
        _ = column.values
    return batch


def mark_rows(mark: Callable[[Array], None], schema: Schema, batch: Batch) -> None:
    """Tell which string codes rows hold."""
    for field, column in zip(schema, batch.columns, strict=True):
        if field.type is Type.STRING and column is not ABSENT:
            mark(column.values)


def keep_changes(arena: Arena, name: str, batch: Batch) -> None:
    """Lay changes into an arena; if there are none, nothing."""
    if not len(batch):
        return
    arena.keep(f"{name}.absent", np.array([c is ABSENT for c in batch.columns], np.bool_))
    there = tuple(c for c in batch.columns if c is not ABSENT)
    arena.keep_rows(name, batch.with_columns(there))
    arena.keep(f"{name}.sign", batch.sign)
    arena.keep(f"{name}.order", batch.lineage)


def found_changes(arena: Arena, name: str, schema: Schema) -> Batch:
    """Changes that were laid there."""
    absent = arena.found(f"{name}.absent", np.bool_, len(schema))
    if absent is None:
        return empty(len(schema))
    there = np.flatnonzero(~absent).tolist()
    rows = arena.rows(name, [schema[k].type for k in there])
    assert rows is not None
    made = rows.with_columns(placed(rows.columns, there, len(schema)))
    made.sign = arena.found(f"{name}.sign", np.int8, len(rows))
    made.lineage = arena.found(f"{name}.order", np.int64, len(rows))
    return made


def table_schemas(node: Node) -> dict[Key, Schema]:
    return {("table", one.table.name.lower()): one.schema for one in every(node) if isinstance(one, Relation)}


def _parted(batches: Sequence[Batch], until: int, width: int) -> tuple[Batch, list[Batch]]:
    """What is true from an instant until `until`, in order, and the rest."""
    whole = together(batches)
    if whole is None:
        return empty(width), []
    cut = int(np.searchsorted(whole.ts, until, side="right"))
    return whole.slice(0, cut), [whole.slice(cut, len(whole))] if cut < len(whole) else []


def together(batches: Sequence[Batch]) -> Batch | None:
    """In time order, '-' first; in an instant as their driving rows came."""
    filled = [b for b in batches if len(b)]
    if not filled:
        return None
    whole = filled[0] if len(filled) == 1 else _joined(filled)
    order = np.arange(len(whole)) if whole.lineage is None else whole.lineage
    later = np.zeros(len(whole), np.int8) if whole.sign is None else whole.sign
    places = np.lexsort((order, later, whole.ts))
    return whole if (np.diff(places) == 1).all() else whole.take(places)


def _by_rank(batch: Batch) -> list[Batch]:
    """Its parts by rank, which its last column says, best first."""
    said = batch.columns[-1]
    rank = said.values if said.valid is None else np.where(said.valid, said.values, BACK_BURNER)
    parts = np.unique(rank)
    return [batch] if len(parts) == 1 else [batch.take(np.flatnonzero(rank == one)) for one in parts]


def _joined(batches: Sequence[Batch]) -> Batch:
    columns = tuple(
        ABSENT if parts[0] is ABSENT else concat(parts)
        for parts in zip(*(b.columns for b in batches), strict=True)
    )
    signs = None
    if any(b.sign is not None for b in batches):
        signs = np.concatenate([np.ones(len(b), np.int8) if b.sign is None else b.sign for b in batches])
    orders = [b.lineage for b in batches if b.lineage is not None]
    lineage = np.concatenate(orders) if len(orders) == len(batches) else None
    ts, exp = (np.concatenate([getattr(b, part) for b in batches]) for part in ("ts", "exp"))
    return Batch(ts, exp, columns, signs, lineage=lineage)
