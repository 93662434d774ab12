"""GROUP BY: aggregates that follow every arrival and every expiry.

Paper      Golab & Özsu 2005, §2.1 and rule 4; exp of a group's row = the next expiry in the group.
Invariant  at every instant one row for each group that has members; without keys one row always.
Pattern    at the root WEAK: a newer row replaces the older; below another operator STRICT: '-' old, '+' new.
State      per live member: its arguments; per group: accumulators. FIFO input: a list a group, else a heap.
Cost       O(events) per aggregate; a window is never scanned again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.data.batch import Array, Batch, Column, Ints, Mask, concat, same
from penstock.data.clock import FOREVER
from penstock.kernels import groups as kernels
from penstock.operators.accumulators import Step, accumulator
from penstock.operators.contract import Site, empty, in_order
from penstock.plan.nodes import Aggregate
from penstock.plan.pattern import Pattern
from penstock.state import words
from penstock.state.arena import Slab
from penstock.state.frame import Frame
from penstock.state.registry import Registry
from penstock.state.roster import Events, Roster
from penstock.state.strings import Strings


class Grouping:
    """`retracts`: send '-' for a replaced row."""

    def __init__(
        self, site: Site, node: Aggregate, pattern: Pattern, retracts: bool, strings: Strings
    ) -> None:
        self._since = site.since
        self._retracts = retracts
        evaluator, arena, name = site.evaluator, site.arena, site.name
        self._key_types = [k.expression.type for k in node.keys]
        self._keys = [evaluator.compile(k.expression) for k in node.keys]
        arguments = [a.argument for a in node.aggregations if a.argument is not None]
        distinct = list(dict.fromkeys(arguments))
        self._arguments = [evaluator.compile(a) for a in distinct]
        self._which = [distinct.index(a.argument) if a.argument is not None else -1 for a in node.aggregations]
        self._accumulators = [
            accumulator(site, f"{name}.{i}", a, strings) for i, a in enumerate(node.aggregations)
        ]
        self._types = [a.type for a in node.aggregations]
        self._counts = [a.function == "count" for a in node.aggregations]
        self._groups_known = Registry(arena, f"{name}.key", words.width(self._key_types))
        self._key_frame = Frame(arena, f"{name}.keys", self._key_types)
        # Negative tuples are matched by everything that tells members apart here: keys and arguments.
        kept = [a.type for a in distinct] + (self._key_types if pattern is Pattern.STRICT else [])
        self._roster = Roster(arena, f"{name}.members", kept, pattern)
        self._fifo = pattern in (Pattern.MONOTONIC, Pattern.WEAKEST)
        self._members = Slab(
            arena, f"{name}.member", gid=(np.int32, 0), later=(np.int32, -1),
            child=(np.int32, -1), sibling=(np.int32, -1), before=(np.int32, -1),
        )  # fmt: skip
        self._groups = Slab(
            arena, name, size=(np.int64, 0), oldest=(np.int32, -1), newest=(np.int32, -1), root=(np.int32, -1),
            last_time=(np.int64, 0), last_row=(np.int64, -1), shown=(np.bool_, False), shown_exp=(np.int64, 0),
        )  # fmt: skip
        self._shown = Frame(arena, f"{name}.shown", self._types)
        self._begun = bool(self._keys)

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
            self._groups["shown"][:] = False
        rows = self._rows(events)
        out_time, out_exp, out_gid, out_size, out_before, ev_row = rows
        step = Step(
            events.slots, events.signs, events.started, self._members["gid"], ev_row, len(out_time),
            out_size, out_gid, self._roster.capacity, self._groups.capacity,
        )  # fmt: skip
        values = self._accumulate(step)
        out = self._changes(out_time, out_exp, out_gid, out_size, out_before, values)
        if first is not None:
            out = _merge_changes(first, out)
        self._forget(out_gid)
        return out

    def _begin(self, now: int) -> Batch:
        """The one row of a global aggregate, true before anything arrives."""
        self._begun = True
        gid = self._groups_known.ids(np.zeros((1, words.width(self._key_types)), np.int64))
        self._groups.fit(self._groups_known.capacity)
        self._shown.fit(self._groups_known.capacity)
        columns = [
            Column(np.zeros(1, type_.dtype), None if counts else np.zeros(1, np.bool_))
            for type_, counts in zip(self._types, self._counts, strict=True)
        ]
        self._remember(gid, np.array([FOREVER]), tuple(columns))
        return Batch(np.array([self._since]), np.array([FOREVER]), tuple(columns))

    def _enter(self, batch: Batch, now: int) -> Events:
        n = len(batch)
        if n:
            keys = tuple(k(batch.columns, n) for k in self._keys)
            arguments = tuple(_zeroed(a(batch.columns, n)) for a in self._arguments)
            strict = self._roster.pattern is Pattern.STRICT
            entered = batch.with_columns(arguments + (keys if strict else ()))
            events = self._roster.step(entered, now)
            self._members.fit(self._roster.capacity)
            if batch.sign is not None:
                plus = np.flatnonzero(batch.sign > 0)
                keys = tuple(k.take(plus) for k in keys)
            m = len(events.started)
            gids = self._groups_known.ids(words.rows(keys, self._key_types, m))
            capacity = self._groups_known.capacity
            self._groups.fit(capacity)
            self._key_frame.fit(capacity)
            self._shown.fit(capacity)
            self._key_frame.put(gids, keys)
            self._members["gid"][events.started] = gids
            return events
        return self._roster.step(batch.with_columns(()), now)

    def _rows(self, events: Events):  # type: ignore[no-untyped-def]
        n = len(events.times)
        groups, members = self._groups, self._members
        out_time, out_exp = np.empty(n, np.int64), np.empty(n, np.int64)
        out_gid, out_size = np.empty(n, np.int32), np.empty(n, np.int64)
        out_before, ev_row = np.empty(n, np.int64), np.empty(n, np.int64)
        common = (events.times, events.slots, events.signs, members["gid"], self._roster.slab["exp"], FOREVER, groups["size"])
        tail = (groups["last_time"], groups["last_row"], ev_row, out_time, out_exp, out_gid, out_size, out_before)
        if self._fifo:
            made = kernels.rows_fifo(*common, groups["oldest"], groups["newest"], members["later"], *tail)
        else:
            made = kernels.rows_any(
                *common, groups["root"], members["child"], members["sibling"], members["before"], *tail
            )
        return out_time[:made], out_exp[:made], out_gid[:made], out_size[:made], out_before[:made], ev_row

    def _accumulate(self, step: Step) -> tuple[Column, ...]:
        frame = self._roster.frame
        out = []
        for which, acc in zip(self._which, self._accumulators, strict=True):
            if which < 0:
                out.append(acc.step(step, _NOTHING, None))
            else:
                out.append(acc.step(step, frame.values[which], frame.valid[which]))
        return tuple(out)

    def _changes(
        self, time: Ints, exp: Ints, gid: Array, size: Ints, before: Ints, values: tuple[Column, ...]
    ) -> Batch:
        """Output rows as changes; remembers what is shown of each group."""
        n = len(time)
        present = size > 0 if self._keys else np.ones(n, np.bool_)
        earlier = before >= 0
        was = np.where(earlier, present[before], self._groups["shown"][gid])
        was_exp = np.where(earlier, exp[before], self._groups["shown_exp"][gid])
        ended = was & (was_exp > time)
        both = [_Pair(new, old) for new, old in zip(values, self._shown.at(gid), strict=True)]
        source = np.where(earlier, before, n + np.arange(n))
        again = np.flatnonzero(ended & present & (was_exp == exp))
        for pair in both:
            if not len(again):
                break
            again = again[pair.equal(again, source[again])]
        plus = Batch(time, exp, (*self._key_frame.at(gid), *values))
        if len(again):
            ended[again] = False
            sent = present.copy()
            sent[again] = False
        else:
            sent = present
        if not sent.all():
            plus = plus.take(np.flatnonzero(sent))
        if self._retracts:
            rows = np.flatnonzero(ended)
            columns = (*self._key_frame.at(gid[rows]), *(p.at(source[rows]) for p in both))
            minus = Batch(time[rows], was_exp[rows], columns, np.full(len(rows), -1, np.int8))
            plus = _merge_changes(minus, plus)
        self._remember_last(gid, exp, present, values)
        return plus

    def _remember_last(self, gid: Array, exp: Ints, present: Array, values: tuple[Column, ...]) -> None:
        """The last row of each group stays (NumPy keeps the last of repeated indices)."""
        self._groups["shown"][gid] = present
        self._groups["shown_exp"][gid] = exp
        self._shown.put(gid, values)

    def _remember(self, gid: Array, exp: Ints, values: tuple[Column, ...]) -> None:
        self._remember_last(gid, exp, np.ones(len(gid), np.bool_), values)

    def _forget(self, gids: Array) -> None:
        """Empty groups give their numbers back; members that ended free their slots."""
        self._roster.finish()
        if not self._keys:
            return
        gids = np.unique(gids)
        gone = gids[self._groups["size"][gids] == 0]
        self._groups["shown"][gone] = False
        self._groups_known.release(gone)


_NOTHING = np.empty(0, np.int8)


class _Pair:
    """A column of this step's output rows and what was shown before it, addressed as one."""

    def __init__(self, new: Column, old: Column) -> None:
        self._new = new
        self._old = old
        self._both: Column | None = None

    def at(self, rows: Array) -> Column:
        if self._both is None:
            self._both = concat([self._new, self._old])
        return self._both.take(rows)

    def equal(self, rows: Array, source: Array) -> Mask:
        """Whether new[rows] repeats what stands at `source`."""
        return same(self._new.take(rows), self.at(source))


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
        return b if b.sign is not None or a.sign is None else Batch(b.ts, b.exp, b.columns, np.ones(len(b), np.int8))
    ts = np.concatenate([a.ts, b.ts])
    sign = None
    if a.sign is not None or b.sign is not None:
        ones = [np.ones(len(x), np.int8) if x.sign is None else x.sign for x in (a, b)]
        sign = np.concatenate(ones)
    columns = tuple(concat([x, y]) for x, y in zip(a.columns, b.columns, strict=True))
    made = Batch(ts, np.concatenate([a.exp, b.exp]), columns, sign)
    order = in_order(ts, sign)
    return made if order is None else made.take(order)
