"""GROUP BY: aggregates that follow every arrival and every expiry.

Paper      Golab & Özsu 2005, §2.1 and rule 4; exp of a group's row = the next expiry in the group.
Invariant  at every instant one row for each group that has members; without keys one row always.
Pattern    at the root WEAK: a newer row replaces the older; below another operator STRICT: '-' old, '+' new.
State      per live member: its arguments; per group: accumulators. FIFO input: a list a group, else a heap.
Cost       O(events) per aggregate; a window is never scanned again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from penstock.kernels.aggregate import groups as kernels
from penstock.kernels.sets.distinct import NEVER
from penstock.operators.aggregate.accumulators import Accumulators, Both, Step
from penstock.operators.capabilities import Holding
from penstock.operators.contract import Site, empty, in_order
from penstock.plan.edge import Edge
from penstock.plan.expressions import Aggregation
from penstock.plan.function_signatures import cast
from penstock.plan.nodes import Aggregate
from penstock.state import key_words
from penstock.state.arena import Slab
from penstock.state.live_rows import Events, Roster
from penstock.state.payload import Frame
from penstock.state.strings import Strings
from penstock.state.value_ids import Registry
from penstock.types.batch import Array, Batch, Column, Ints, Mask, concat, gather, same
from penstock.types.data_type import Type
from penstock.types.event_time import FOREVER

PARTS = 16
"""Ends that are told apart of members that are let go of together."""


class Grouping:
    """`retracts`: send '-' for a replaced row; `brief`: only for one that none takes the place of, as the reader knows rows by key."""

    def __init__(
        self,
        site: Site,
        node: Aggregate,
        edge: Edge,
        retracts: bool,
        strings: Strings,
        *,
        brief: bool = False,
    ) -> None:
        self._since = site.since
        self._retracts, self._brief = retracts, brief
        evaluator, arena, name = site.evaluator, site.arena, site.name
        self._arena = arena
        self._key_types = [k.expression.type for k in node.keys]
        self._keys = [evaluator.compile(k.expression) for k in node.keys]
        aggregations = [_in_doubles(a) if a.function == "stddev" else a for a in node.aggregations]
        arguments = [a.argument for a in aggregations if a.argument is not None]
        distinct = list(dict.fromkeys(arguments))
        self._arguments = [evaluator.compile(a) for a in distinct]
        self._which = [distinct.index(a.argument) if a.argument is not None else -1 for a in aggregations]
        makes = Accumulators(site, strings)
        self._accumulators = [makes.make(f"{name}.{i}", a) for i, a in enumerate(aggregations)]
        self._types = [a.type for a in node.aggregations]
        self._counts = [a.function == "count" for a in node.aggregations]
        self._groups_known = Registry(arena, f"{name}.key", key_words.width(self._key_types))
        self._key_frame = Frame(arena, f"{name}.keys", self._key_types)
        # Negative tuples are matched by everything that tells members apart here: keys and arguments.
        kept = [a.type for a in distinct] + (self._key_types if edge.matches else [])
        self._roster = Roster(arena, f"{name}.members", kept, edge, site.upkeep)
        self._tells = site.tells
        self._width_kept = len(kept)
        self._fifo = self._roster.in_order
        self._links = ("later",) if self._fifo else ("child", "sibling", "before")
        link = (np.int32, -1)
        self._members = Slab(arena, f"{name}.member", gid=(np.int32, 0), **dict.fromkeys(self._links, link))
        self._groups = Slab(arena, name, group=(np.int64, kernels.BLANK))
        self._begun = bool(self._keys) or len(self._groups_known) > 0

    @property
    def _width(self) -> int:
        return len(self._key_types) + len(self._types)

    def step(self, inputs: Sequence[Batch], now: int) -> Batch:
        (batch,) = inputs
        first = self._begin(now) if not self._begun else None
        events = self._enter(batch, now)
        if not len(events.times):
            self._roster.finish()
            return empty(self._width) if first is None else first
        if first is not None and events.times[0] == self._since:
            # Something happens in the very first instant: the empty row was never true.
            first = None
            self._groups["group"][:, kernels.SHOWN] = NEVER
        self._arena.visits += len(events.times)
        rows = self._rows(events)
        step = Step(
            events.slots, events.signs, events.started, self._members["gid"], rows.event, rows.size, rows.was_size,
            self._roster.capacity, self._groups.capacity,
        )  # fmt: skip
        out = self._changes(rows, self._accumulate(step))
        if first is not None:
            out = _merge_changes(first, out)
        self._forget(rows)
        return out

    def holdings(self) -> list[Holding]:
        order = "lists" if self._fifo else "heaps"
        return [
            Holding("members", f"{order} by group over a {self._roster.structure}", len(self._roster)),
            Holding("groups", "array", len(self._groups_known)),
        ]

    def _begin(self, now: int) -> Batch:
        """The one row of a global aggregate, true before anything arrives."""
        self._begun = True
        gid = self._groups_known.ids(np.zeros((1, key_words.width(self._key_types)), np.int64))
        self._groups.fit(self._groups_known.capacity)
        self._groups["group"][gid, kernels.SHOWN] = FOREVER
        columns = [
            Column(np.zeros(1, type_.dtype), None if counts else np.zeros(1, np.bool_))
            for type_, counts in zip(self._types, self._counts, strict=True)
        ]
        return Batch(np.array([self._since]), np.array([FOREVER]), tuple(columns))

    def _enter(self, batch: Batch, now: int) -> Events:
        n = len(batch)
        if n:
            keys = tuple(k(batch.columns, n) for k in self._keys)
            arguments = tuple(_zeroed(a(batch.columns, n)) for a in self._arguments)
            entered = batch.with_columns((arguments + keys)[: self._width_kept])
            events = self._roster.step(entered, now)
            self._members.fit(self._roster.capacity)
            if batch.sign is not None:
                plus = np.flatnonzero(batch.sign > 0)
                keys = tuple(k.take(plus) for k in keys)
            m = len(events.started)
            gids, new = self._groups_known.ids_and_new(key_words.rows(keys, self._key_types, m))
            capacity = self._groups_known.capacity
            self._groups.fit(capacity)
            self._key_frame.fit(capacity)
            self._key_frame.put(gids[new], gather(keys, new))
            self._members["gid"][events.started] = gids
            return events
        return self._roster.step(batch.with_columns(()), now)

    def _rows(self, events: Events) -> Rows:
        n = len(events.times)
        members = self._members
        event, gid = np.empty(n, np.int32), np.empty(n, np.int32)
        time, exp, was = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
        size, was_size = np.empty(n, np.int64), np.empty(n, np.int64)
        absent = NEVER if self._keys else FOREVER
        head = (events.times, events.slots, events.signs, members["gid"], self._roster.slab["exp"])
        tail = (FOREVER, absent, self._groups["group"], event, time, exp, was, gid, size, was_size)
        if self._fifo:
            made = kernels.rows_fifo(*head, members["later"], *tail)
        else:
            made = kernels.rows_any(*head, members["child"], members["sibling"], members["before"], *tail)
        return Rows(time[:made], exp[:made], was[:made], gid[:made], size[:made], was_size[:made], event)

    def _accumulate(self, step: Step) -> list[Both]:
        frame = self._roster.frame
        return [
            acc.step(step, _NOTHING, None)
            if which < 0
            else acc.step(step, frame.values[which], frame.valid[which])
            for which, acc in zip(self._which, self._accumulators, strict=True)
        ]

    def _changes(self, rows: Rows, values: Sequence[Both]) -> Batch:
        """Output rows as changes: rows that say nothing new are not sent."""
        ended = rows.was > (NEVER if self._tells else rows.time)
        again = np.flatnonzero(ended & (rows.was == rows.exp) & self._present(rows.size))
        for value in values:
            if not len(again):
                break
            again = again[same(value.now.take(again), value.was().take(again))]
        sent = self._present(rows.size)
        if len(again):
            ended[again] = False
            sent[again] = False
        gid = rows.gid
        plus = Batch(rows.time, rows.exp, (*self._key_frame.at(gid), *(v.now for v in values)))
        if not sent.all():
            plus = plus.take(np.flatnonzero(sent))
        if not self._retracts:
            return plus
        if self._brief:
            ended &= ~sent
        old = np.flatnonzero(ended)
        columns = (*self._key_frame.at(gid[old]), *(v.was().take(old) for v in values))
        minus = Batch(rows.time[old], rows.was[old], columns, np.full(len(old), -1, np.int8))
        return _merge_changes(minus, plus)

    def _present(self, size: Ints) -> Mask:
        """Groups with members have a row; without keys there is always one."""
        return size > 0 if self._keys else np.ones(len(size), np.bool_)

    def shrink(self, coming: int) -> None:
        made = self._roster.shrink(coming)
        if made is not None:
            self._members.renumber(made)
            self._members.refer(made, *self._links)
            for field in (kernels.OLDEST, kernels.NEWEST, kernels.ROOT):
                slots = self._groups["group"][:, field]
                slots[:] = made.of(slots)
            for acc in self._accumulators:
                acc.renumber_members(made)
        made = self._groups_known.shrink(coming) if self._keys else None
        if made is not None:
            self._groups.renumber(made)
            self._key_frame.renumber(made)
            self._members.refer(made, "gid")
            for acc in self._accumulators:
                acc.renumber_groups(made)
        for acc in self._accumulators:
            acc.shrink(coming)

    def _forget(self, rows: Rows) -> None:
        """Empty groups give their numbers back; members that ended free their slots."""
        self._roster.finish()
        if self._keys:
            emptied = np.unique(rows.gid[rows.size == 0]).astype(np.int32)
            gone = emptied[self._groups["group"][emptied, kernels.SIZE] == 0]
            self._groups_known.release(gone)

    def let_go(self, most: int, at: int) -> Batch | None:
        """Let no more than so many members live past an instant: those that end first go, whole panes of them.

        What goes, as rows of the groups' keys and how many there were, alive until these would have ended; None: nothing. Members of
        many ends are told in a few parts, each until its last.
        """
        exp = self._roster.slab["exp"]
        live = self._roster.live()
        live = live[exp[live] > at]
        many = len(live) - most
        if many <= 0:
            return None
        ends = exp[live]
        last = np.partition(ends, many - 1)[many - 1]
        gone = live[ends <= last]
        each = np.unique(exp[gone])
        if len(each) > PARTS:
            each = each[np.linspace(0, len(each) - 1, PARTS + 1).astype(np.intp)[1:]]
        part = np.searchsorted(each, exp[gone])
        gid = self._members["gid"][gone].astype(np.int64)
        told, counts = np.unique(gid * len(each) + part, return_counts=True)
        self._roster.end_early(gone, at)
        keys = self._key_frame.at((told // len(each)).astype(np.int32))
        kept = tuple(Column(c.values.copy(), c.valid) for c in keys)
        return Batch(np.full(len(told), at), each[told % len(each)], (*kept, Column(counts)))

    def current(self, now: int) -> Batch:
        """The answer itself: one row per group, from what the groups hold."""
        groups = self._groups["group"]
        gids = np.flatnonzero(groups[:, kernels.SHOWN] > now).astype(np.int32)
        frame = self._roster.frame
        values = tuple(
            acc.at(gids, groups[gids, kernels.SIZE], _NOTHING)
            if which < 0
            else acc.at(gids, groups[gids, kernels.SIZE], frame.values[which])
            for which, acc in zip(self._which, self._accumulators, strict=True)
        )
        exp = groups[gids, kernels.SHOWN]
        return Batch(np.full(len(gids), now), exp, (*self._key_frame.at(gids), *values))


class Rows(NamedTuple):
    """Output rows of a step: one per (instant, group)."""

    time: Ints
    exp: Ints
    was: Ints
    """The exp of the group's row before, NEVER if there was none."""
    gid: Array
    size: Ints
    was_size: Ints
    event: Array
    """Which output row each event writes."""


_NOTHING = np.empty(0, np.int8)


def _in_doubles(aggregation: Aggregation) -> Aggregation:
    """A deviation is taken of doubles."""
    assert aggregation.argument is not None
    return replace(aggregation, argument=cast(aggregation.argument, Type.DOUBLE))


def _zeroed(column: Column) -> Column:
    """NULL arguments hold 0, so that sums need no test."""
    valid = column.valid
    if valid is None:
        return column
    values = column.values.copy()
    values[~valid] = 0
    return Column(values, valid)


def _merge_changes(a: Batch, b: Batch) -> Batch:
    """Two batches of one edge in (time, '-' first) order."""
    if not len(a):
        return (
            b
            if b.sign is not None or a.sign is None
            else Batch(b.ts, b.exp, b.columns, np.ones(len(b), np.int8))
        )
    ts = np.concatenate([a.ts, b.ts])
    sign = None
    if a.sign is not None or b.sign is not None:
        ones = [np.ones(len(x), np.int8) if x.sign is None else x.sign for x in (a, b)]
        sign = np.concatenate(ones)
    columns = tuple(concat([x, y]) for x, y in zip(a.columns, b.columns, strict=True))
    made = Batch(ts, np.concatenate([a.exp, b.exp]), columns, sign)
    order = in_order(ts, sign)
    return made if order is None else made.take(order)
