"""Two-way equi-join of FIFO windows, event at a time in one kernel.

Paper      Kang, Naughton & Viglas 2003; lifetimes: Golab & Özsu 2005, §2.2.
Invariant  each row probes the other SteM and then enters its own: every result once, by its last arrival,
           in time order.
Pattern    WEAKEST, MONOTONIC → WEAK (MONOTONIC over streams).
State      two SteMs without ts: all that can be met came earlier.
Cost       O(arrivals + live partners met).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.data.batch import Batch, Column
from penstock.data.schema import Schema
from penstock.kernels import chains
from penstock.operators.conditions import Equality, KeyMaker, Residual, Tester
from penstock.operators.contract import ABSENT, Site, empty
from penstock.plan.expressions import columns
from penstock.state.stem import Stem


class TwoWayJoin:
    def __init__(
        self,
        site: Site,
        schemas: Sequence[Schema],
        equalities: Sequence[Equality],
        residuals: Sequence[Residual],
        needed: frozenset[int],
    ) -> None:
        self._tester = Tester(site)
        self._tests = [r.whole for r in residuals]
        if len(equalities) > 1:
            self._tests += [e.whole for e in equalities]
        tested = {c.index for t in self._tests for c in columns(t)}
        self._width = sum(len(s) for s in schemas)
        self._keys, self._stems = [], []
        self._stored: list[tuple[int, ...]] = []
        self._offsets = [0, len(schemas[0])]
        for i, schema in enumerate(schemas):
            start = self._offsets[i]
            stored = tuple(k for k in range(len(schema)) if start + k in needed | tested)
            keys = KeyMaker(site)
            keys.index([e.side(i) for e in equalities])
            self._keys.append(keys)
            self._stored.append(stored)
            types = [schema[k].type for k in stored] + keys.strings
            self._stems.append(Stem(site.arena, f"{site.name}.{i}", types, 1, with_ts=False))
        self._room = 1024

    def step(self, inputs: Sequence[Batch], now: int) -> Batch:
        firsts, batches = [], []
        for keys, stem, stored, raw in zip(self._keys, self._stems, self._stored, inputs, strict=True):
            batch, (key,) = keys.clean(raw)
            firsts.append(stem.admit(batch, tuple(batch.columns[k] for k in stored) + keys.held(batch), [key]))
            batches.append(batch)
        out = self._join(firsts, batches) if any(len(b) for b in batches) else empty(self._width)
        for stem in self._stems:
            stem.expire(now)
        return out

    def _join(self, firsts: Sequence[int], batches: Sequence[Batch]) -> Batch:
        left, right = self._stems
        (a,), (b,) = left.indexes, right.indexes
        i, j = firsts
        parts = []
        while True:
            room = self._room
            ts, exp = np.empty(room, np.int64), np.empty(room, np.int64)
            l_slot, r_slot = np.empty(room, np.int32), np.empty(room, np.int32)
            at = (i, j)
            i, j, made = chains.join2(
                i, left.used, j, right.used,
                batches[0].ts, left.exp, a.key, a.head, a.chain, left.tail,
                batches[1].ts, right.exp, b.key, b.head, b.chain, right.tail,
                firsts[0], firsts[1], ts, exp, l_slot, r_slot,
            )  # fmt: skip
            parts.append((ts[:made], exp[:made], l_slot[:made], r_slot[:made]))
            if i == left.used and j == right.used:
                break
            if (i, j) == at or made > room // 2:
                self._room *= 2
        ts, exp, l_slot, r_slot = (
            p[0] if len(p) == 1 else np.concatenate(p) for p in zip(*parts, strict=True)
        )
        if len(ts) < self._room // 8:
            self._room = max(1024, self._room // 2)
        return self._tested(Batch(ts, exp, self._columns(l_slot, r_slot)))

    def _columns(self, l_slot: np.ndarray, r_slot: np.ndarray) -> tuple[Column, ...]:  # type: ignore[type-arg]
        out: list[Column] = [ABSENT] * self._width
        for start, stored, stem, slots in zip(
            self._offsets, self._stored, self._stems, (l_slot, r_slot), strict=True
        ):
            for k, column in zip(stored, stem.columns(slots), strict=False):
                out[start + k] = column
        return tuple(out)

    def _tested(self, batch: Batch) -> Batch:
        for test in self._tests:
            if not len(batch):
                break
            passed = self._tester.test(test, batch.columns, len(batch))
            if not passed.all():
                batch = batch.take(np.flatnonzero(passed))
        return batch
