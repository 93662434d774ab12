"""GROUP BY with counts, sums and averages of integers over a FIFO window, in one pass per step.

Paper      Golab & Özsu 2005, §2.1 and rule 4; subtract-on-evict, exact for integers.
Invariant  as `aggregate`: at every instant one row per group with members, exp = the group's next expiry.
Pattern    WEAKEST, MONOTONIC → WEAK, at the root: a newer row replaces the older.
State      the window as a ring of (exp, group, next member's exp, summands); per group one row of numbers.
Cost       O(rows): one visit when a row comes and one when it goes, whatever the number of aggregates.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.kernels.aggregate import sliding as kernels
from penstock.operators.aggregate.accumulators import sum_kind
from penstock.operators.capabilities import Holding
from penstock.operators.contract import Site, empty
from penstock.plan.expressions import Aggregation, Expression
from penstock.plan.nodes import Aggregate
from penstock.plan.update_pattern import Pattern
from penstock.state import key_words
from penstock.state.arena import Slab
from penstock.state.payload import Frame
from penstock.state.renumbering import shrunk
from penstock.state.value_ids import Registry
from penstock.types import sizes
from penstock.types.batch import Array, Batch, Column, Ints, gather
from penstock.types.memory import room

MAX_UNROLLED = 3
"""Summands up to which the kernel is compiled for their number: it takes 1.5 s of CPU for each."""


def slides(node: Aggregate, pattern: Pattern) -> bool:
    """Whether this operator can run the node: FIFO input, counts, sums and averages of narrow integers."""
    return (
        pattern in (Pattern.MONOTONIC, Pattern.WEAKEST)
        and bool(node.keys)
        and all(map(_fits, node.aggregations))
    )


def _fits(aggregation: Aggregation) -> bool:
    argument = aggregation.argument
    if argument is None:
        return True
    if aggregation.distinct:
        return False
    if aggregation.function == "count":
        return True
    return aggregation.function in ("sum", "avg") and sum_kind(argument) == "small"


class SlidingSums:
    """Summands of a row: each argument to be summed (NULL: 0), then which arguments are there (0 or 1)."""

    def __init__(self, site: Site, node: Aggregate) -> None:
        arena, name, evaluator = site.arena, site.name, site.evaluator
        self._arena = arena
        self._key_types = [k.expression.type for k in node.keys]
        self._keys = [evaluator.compile(k.expression) for k in node.keys]
        self._functions = [a.function for a in node.aggregations]
        arguments = list(dict.fromkeys(a.argument for a in node.aggregations if a.argument is not None))
        self._arguments = [evaluator.compile(a) for a in arguments]
        self._summed = [_summed(a, node.aggregations) for a in arguments]
        # Column 0 is a group's size; then come the sums, then per argument how many are not NULL. Until a NULL
        # comes the latter all equal the size and are left out.
        self._sums = sum(self._summed)
        self._registers = arena.array(f"{name}.registers", np.int64, 4, 0)
        self._counted = bool(self._registers[kernels.COUNTED])
        sums = np.cumsum([0, *self._summed])
        self._spots = [
            (0, 0) if a.argument is None else (1 + int(sums[k]), 1 + self._sums + k)
            for a in node.aggregations
            for k in [arguments.index(a.argument) if a.argument is not None else 0]
        ]
        width = 1 + self._sums + len(arguments)
        self._see()
        self._groups_known = Registry(arena, f"{name}.key", key_words.width(self._key_types))
        self._key_frame = Frame(arena, f"{name}.keys", self._key_types)
        blank = np.array([*kernels.BLANK, *[0] * (width - 1)], np.int64)
        self._groups = Slab(arena, name, group=(np.int64, blank))
        blank = np.array([0, 0, -1, *[0] * (width - 1)], np.int64)
        self._ring = Slab(arena, f"{name}.ring", member=(np.int64, blank))
        self._ring.fit(sizes.current.ring_members)

    def _see(self) -> None:
        """Which columns of the totals are shown as they are, and which as quotients."""
        spots = list(zip(self._functions, self._places(), strict=True))
        plain = {count for function, (_, count) in spots if function == "count"}
        plain |= {total for function, (total, _) in spots if function == "sum"}
        self._plain = np.array(sorted(plain), np.int64)
        # A sum is NULL without arguments: whether there are any is seen too.
        some = {count for function, (_, count) in spots if function == "sum"} if self._counted else set()
        self._some = np.array(sorted(some), np.int64)
        means = [spot for function, spot in spots if function == "avg"]
        self._means = np.array(means, np.int64).reshape(-1, 2)

    def _places(self) -> list[tuple[int, int]]:
        """Per aggregate the columns of its sum and its count."""
        return [(total, count if self._counted else 0) for total, count in self._spots]

    def _count_apart(self) -> None:
        """The first NULL: from now on arguments are counted apart from members."""
        self._counted = True
        self._registers[kernels.COUNTED] = 1
        self._ring["member"][:, kernels.SUMMANDS + self._sums :] = 1
        group = self._groups["group"]
        group[:, kernels.TOTALS + self._sums :] = group[:, kernels.SIZE : kernels.SIZE + 1]
        self._see()

    def step(self, inputs: Sequence[Batch], now: int) -> Batch:
        (batch,) = inputs
        n = len(batch)
        columns = len(self._key_types) + len(self._functions)
        due = kernels.due(self._ring["member"], self._registers, now)
        if n == 0 and not due:
            return empty(columns)
        gids, summands = self._entered(batch, n)
        most = 2 * n + due
        self._arena.visits += n + int(due)
        state = self._groups["group"]
        time, exp, gid = room(most, np.int64), room(most, np.int64), room(most, np.int32)
        width = 1 + summands.shape[1]
        totals, before = room((width, most), np.int64), room((most, 1 + width), np.int64)
        emptied = room(most, np.int32)
        self._registers[kernels.EMPTIED] = 0
        done = start = kept = 0
        while True:
            done, start, kept = kernels.slide(
                _shape(width - 1), done, start, kept, batch.ts, batch.exp, gids, summands, now, self._ring["member"],
                self._registers, state, self._plain, self._some, self._means, time, exp, gid, totals, before, emptied,
            )  # fmt: skip
            if done == n:
                break
            self._lay_ring(2 * self._ring.capacity)
        keys = tuple(_read(c) for c in self._key_frame.at(gid[:kept]))
        out = Batch(time[:kept], exp[:kept], (*keys, *self._values(totals[:, :kept])))
        if self._registers[kernels.EMPTIED]:
            gone = np.unique(emptied[: int(self._registers[kernels.EMPTIED])])
            self._groups_known.release(gone[state[gone, kernels.SIZE] == 0])
        return out

    def holdings(self) -> list[Holding]:
        return [
            Holding("members", "ring of summands", int(self._registers[kernels.LENGTH])),
            Holding("groups", "array", len(self._groups_known)),
        ]

    def shrink(self, coming: int) -> None:
        made = self._groups_known.shrink(coming)
        if made is not None:
            self._groups.renumber(made)
            self._key_frame.renumber(made)
            groups = self._ring["member"][:, kernels.GROUP]
            live = self._order()
            groups[live] = made.of(groups[live])
        ring = shrunk(
            self._ring.capacity, int(self._registers[kernels.LENGTH]), coming, sizes.current.ring_members
        )
        if ring is not None:
            self._lay_ring(ring)

    def _entered(self, batch: Batch, n: int) -> tuple[Array, Array]:
        """Group numbers and summands of the arrivals."""
        columns = [run(batch.columns, n) for run in self._arguments] if n else []
        if not self._counted and any(c.valid is not None and not c.valid.all() for c in columns):
            self._count_apart()
        width = self._sums + (len(self._arguments) if self._counted else 0)
        summands = room((n, width), np.int64)
        if n == 0:
            return np.empty(0, np.int32), summands
        at = 0
        for k, (column, summed) in enumerate(zip(columns, self._summed, strict=True)):
            if summed:
                summands[:, at] = column.values
                if column.valid is not None:
                    summands[:, at][~column.valid] = 0
                at += 1
            if self._counted:
                summands[:, self._sums + k] = 1 if column.valid is None else column.valid
        keys = [k(batch.columns, n) for k in self._keys]
        gids, new = self._groups_known.ids_and_new(key_words.rows(keys, self._key_types, n))
        capacity = self._groups_known.capacity
        self._groups.fit(capacity)
        self._key_frame.fit(capacity)
        if len(new):
            self._key_frame.put(gids[new], gather(keys, new))
        return gids, summands

    def _values(self, totals: Array) -> tuple[Column, ...]:
        """Aggregates from sizes and totals, one row of `totals` each."""
        out = []
        for function, (total, count) in zip(self._functions, self._places(), strict=True):
            if function == "count":
                out.append(Column(totals[count]))
                continue
            # A group that is shown has members; only arguments can be missing.
            some = totals[count] > 0 if self._counted else None
            valid = None if some is None or some.all() else some
            if function == "sum":
                out.append(Column(totals[total], valid))
            else:
                counts = totals[count] if valid is None else np.maximum(totals[count], 1)
                out.append(Column(np.divide(totals[total], counts, out=room(len(counts), np.float64)), valid))
        return tuple(out)

    def _order(self) -> Ints:
        """Where the members lie, oldest first."""
        length, front = int(self._registers[kernels.LENGTH]), int(self._registers[kernels.FRONT])
        order: Ints = (front + np.arange(length)) & (self._ring.capacity - 1)
        return order

    def _lay_ring(self, capacity: int) -> None:
        """So much room; the ring begins with the oldest member."""
        order = self._order()
        place = np.full(self._ring.capacity, -1, np.int64)
        place[order] = np.arange(len(order))
        self._ring.lay(order, capacity)
        state = self._groups["group"]
        live = state[:, kernels.SIZE] > 0
        state[live, kernels.NEWEST] = place[state[live, kernels.NEWEST]]
        self._registers[kernels.FRONT] = 0

    def current(self, now: int) -> Batch:
        """The answer itself: one row per group, from what the groups hold."""
        state = self._groups["group"]
        gids = np.flatnonzero(state[:, kernels.SHOWN] > now).astype(np.int32)
        totals = np.vstack([state[gids, kernels.SIZE], state[gids, kernels.TOTALS :].T])
        exp: Ints = state[gids, kernels.SHOWN]
        return Batch(np.full(len(gids), now), exp, (*self._key_frame.at(gids), *self._values(totals)))


def _shape(summands: int) -> tuple[int, ...] | Ints:
    """Few summands: a tuple, whose length the kernel is compiled for; more: an array, and one kernel for all."""
    return (0,) * summands if summands <= MAX_UNROLLED else np.empty(summands, np.int64)


def _summed(argument: Expression, aggregations: Sequence[Aggregation]) -> bool:
    """Whether an argument's sum is asked for, and not only its count."""
    return any(a.argument == argument and a.function != "count" for a in aggregations)


def _read(column: Column) -> Column:
    """Gathered now: the groups may be given to other keys."""
    _ = column.values
    return column
