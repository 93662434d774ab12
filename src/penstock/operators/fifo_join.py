"""Multiway equi-join of FIFO windows: no intermediate state, event at a time in one kernel.

Paper      Madden et al. 2002 (SteMs); Viglas et al. 2003 (M-Join); lifetimes: Golab & Özsu 2005, §2.2.
Invariant  each row walks the other inputs' SteMs and then enters its own: every result once, by its last
           arrival in (ts, alias) order, alive in [max ts, min exp), in time order.
Pattern    WEAKEST, MONOTONIC → WEAK (MONOTONIC over streams).
State      one SteM per input, one index per partner; no ts: all that can be met came earlier.
Cost       O(arrivals + live partners met). A walk visits next the input that met fewest partners per probe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.data.batch import Array, Batch, Column
from penstock.data.memory import joined, room
from penstock.data.schema import Schema
from penstock.kernels import chains
from penstock.operators.abilities import Holding, Share
from penstock.operators.conditions import Equality, KeyMaker, Residual, Tester, offsets
from penstock.operators.contract import ABSENT, Site, empty, placed
from penstock.operators.entering import entered
from penstock.plan.expressions import Expression, columns
from penstock.state.stems import Stems

FAR = 1 << 21
"""Bytes of live rows from which walks look ahead: more than the second-level cache of a core holds."""
_NO_PLAN = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Kept:
    """Rows of an input as they lie in a SteM."""

    exp: Array
    keys: dict[tuple[Expression, ...], Array]
    columns: dict[int, Column]
    texts: dict[Expression, Column]
    """Keys that are strings."""


class FifoJoin:
    """Every input shares an equality with another, and all are connected by them."""

    def __init__(
        self,
        site: Site,
        schemas: Sequence[Schema],
        equalities: Sequence[Equality],
        residuals: Sequence[Residual],
        needed: frozenset[int],
    ) -> None:
        self._arena = site.arena
        self._equalities = equalities
        self._tester = Tester(site)
        self._tests = [r.whole for r in residuals]
        n = len(schemas)
        self._keys = [KeyMaker(site) for _ in schemas]
        self._index: dict[tuple[int, int], int] = {}
        for i in range(n):
            for j in range(n):
                between = self._between(i, j)
                if between:
                    self._index[i, j] = self._keys[i].index([e.side(i) for e in between])
                    # Keys of several attributes are hashes: test the equalities themselves.
                    if i < j and len(between) > 1:
                        self._tests += [e.whole for e in between]
        self._tests += self._off_the_walk(n)
        tested = {c.index for t in self._tests for c in columns(t)}
        if site.may_move:
            tested |= {c.index for e in equalities for c in columns(e.whole)}
        self._shares = {(min(e.left, e.right), max(e.left, e.right)): Share() for e in equalities}
        self._offsets = offsets(schemas)
        self._widths = [len(s) for s in schemas]
        self._width = sum(self._widths)
        self._stored = [
            tuple(k for k in range(len(s)) if start + k in needed | tested)
            for s, start in zip(schemas, self._offsets, strict=True)
        ]
        types = [
            [s[k].type for k in stored] + keys.strings
            for s, stored, keys in zip(schemas, self._stored, self._keys, strict=True)
        ]
        self._stems = Stems(site.arena, site.name, types, [k.count for k in self._keys])
        self._fan = site.arena.array(f"{site.name}.fan", np.float64, (n, n), -1.0)
        self._order = site.arena.array(f"{site.name}.order", np.int64, (n, n - 1, 4), -1)
        if self._order[0, 0, 0] < 0:
            self._plan()
        self._room = 1024

    def _between(self, i: int, j: int) -> list[Equality]:
        return [e for e in self._equalities if {e.left, e.right} == {i, j}]

    def _off_the_walk(self, n: int) -> list[Expression]:
        """A walk follows one equality into each input; in a cyclic graph the others are tested at the end."""
        pairs = {frozenset((e.left, e.right)) for e in self._equalities}
        return [e.whole for e in self._equalities] if len(pairs) > n - 1 else []

    def holdings(self) -> list[Holding]:
        return [
            Holding(f"input {i + 1}", "hash chains over a queue", rows)
            for i, rows in enumerate(self._stems.sizes)
        ]

    # ------------------------------------------------------------------ order

    def _plan(self) -> None:
        """For each input: visit next the connected input with the fewest partners per probe so far."""
        n = len(self._keys)
        first = self._stems.first_index
        for i in range(n):
            bound = [i]
            for h in range(n - 1):
                _, target, partner = min(
                    (self._guess(i, t), t, next(b for b in bound if (t, b) in self._index))
                    for t in range(n)
                    if t not in bound and any((t, b) in self._index for b in bound)
                )
                self._order[i, h] = (
                    target,
                    first[target] + self._index[target, partner],
                    partner,
                    first[partner] + self._index[partner, target],
                )
                bound.append(target)

    def _guess(self, i: int, target: int) -> float:
        fan = self._fan[i, target]
        return float(fan) if fan >= 0 else 1e6

    def _learn(self, stats: Array) -> None:
        """Partners met per probe, smoothed; walks follow when one has moved by a tenth."""
        moved = False
        fan = self._fan
        for i, hops in enumerate(stats.tolist()):
            for h, (probes, met) in enumerate(hops):
                if probes:
                    target, giver = int(self._order[i, h, 0]), int(self._order[i, h, 2])
                    self._count(giver, target, probes, met)
                    old, new = float(fan[i, target]), met / probes
                    if old >= 0:
                        new = old + min(1.0, probes / 4096) * (new - old)
                    fan[i, target] = new
                    moved = moved or abs(new - old) > 0.1 * abs(old)
        if moved:
            self._plan()

    def _count(self, i: int, j: int, probes: int, met: int) -> None:
        """Partners met between two inputs; of two, half of the probes go each way."""
        sizes = self._stems.sizes
        live = sizes[j] if len(sizes) > 2 else (sizes[0] + sizes[1]) / 2
        self._shares[min(i, j), max(i, j)].count(probes * live, met)

    def shares(self) -> dict[str, float]:
        found = {}
        for pair, share in self._shares.items():
            between = self._between(*pair)
            if share.value is not None:
                found.update({str(e.whole): share.value ** (1 / len(between)) for e in between})
        return found

    def alive(self, which: int, now: int) -> Batch:
        edge = self._stems.edges[which]
        rows = np.arange(int(edge[chains.TAIL]), int(edge[chains.USED]))
        columns = placed(self._stems.frames[which].at(rows), self._stored[which], self._widths[which])
        return Batch(np.full(len(rows), now), self._stems.table(which)[rows, 0], columns)

    def kept(self, which: int) -> Kept:
        """The rows of an input, for another join to go on with."""
        edge = self._stems.edges[which]
        rows = np.arange(int(edge[chains.TAIL]), int(edge[chains.USED]))
        table, maker = self._stems.table(which), self._keys[which]
        columns = self._stems.frames[which].at(rows)
        stored = self._stored[which]
        return Kept(
            table[rows, 0],
            {keys: table[rows, 1 + 2 * k] for k, keys in enumerate(maker.indexes)},
            dict(zip(stored, columns, strict=False)),
            dict(zip(maker.texts, columns[len(stored) :], strict=True)),
        )

    # ------------------------------------------------------------------ a step

    def step(self, inputs: Sequence[Batch], now: int) -> Batch:
        events = entered(self._keys, self._stored, inputs, self._stems)
        out = empty(self._width) if events is None else self._tested(self._walked(*events))
        self._stems.expire(now)
        return out

    def _walked(self, ts: Array, side: Array, slot: Array) -> Batch:
        stems = self._stems
        n = len(self._keys)
        stats, work = np.zeros((n, n - 1, 2), np.int64), np.empty((4, n), np.int64)
        far, cursor = stems.live_bytes > FAR, np.empty((2, chains.BLOCK), np.int64)
        plan = chains.hops(stems.edges, stems.indexes, self._order) if n > 2 or far else _NO_PLAN
        parts = []
        done = 0
        while done < len(ts):
            size = self._room
            out_ts, out_exp = room(size, np.int64), room(size, np.int64)
            out_slot = room((n, size), np.int32)
            before = done
            if n == 2:
                done, made = chains.walk_two(
                    done, ts, side, slot, stems.edges, stems.indexes, stems.first_index, plan,
                    stems.rows, stems.head, far, cursor, out_ts, out_exp, out_slot,
                )  # fmt: skip
            else:
                done, made = chains.walk(
                    done, ts, side, slot, stems.edges, stems.indexes, stems.first_index, plan,
                    stems.rows, stems.head, far, cursor, work, stats, out_ts, out_exp, out_slot,
                )  # fmt: skip
            parts.append((out_ts[:made], out_exp[:made], out_slot[:, :made]))
            if done == before or (done < len(ts) and made > size // 2):
                self._room *= 2
        if n > 2:
            self._learn(stats)
        else:
            self._count(0, 1, len(ts), sum(len(p[0]) for p in parts))
        out_ts, out_exp = (
            joined(p) if len(parts) > 1 else p[0] for p in map(list, list(zip(*parts, strict=True))[:2])
        )
        slots = parts[0][2] if len(parts) == 1 else np.concatenate([p[2] for p in parts], axis=1)
        # Rows leave a ring untouched: its end moves over them.
        self._arena.visits += len(ts) + (int(stats[:, :, 1].sum()) if n > 2 else len(out_ts))
        if len(out_ts) < self._room // 8:
            self._room = max(1024, self._room // 2)
        return Batch(out_ts, out_exp, self._columns(slots))

    def _columns(self, slots: Array) -> tuple[Column, ...]:
        out: list[Column] = [ABSENT] * self._width
        for start, stored, frame, rows in zip(
            self._offsets, self._stored, self._stems.frames, slots, strict=True
        ):
            for k, column in zip(stored, frame.at(rows), strict=False):
                out[start + k] = column
        return tuple(out)

    def _tested(self, batch: Batch) -> Batch:
        for test in self._tests:
            if not len(batch):
                break
            passed = self._tester.test(test, batch.columns, batch.ts)
            if not passed.all():
                batch = batch.take(np.flatnonzero(passed))
        return batch


def is_connected(n: int, equalities: Sequence[Equality]) -> bool:
    """Whether equalities lead from any input to every other."""
    reached: set[int] = {0}
    new = reached
    while new:
        new = {e.left + e.right - r for e in equalities for r in reached if r in (e.left, e.right)} - reached
        reached |= new
    return len(reached) == n
