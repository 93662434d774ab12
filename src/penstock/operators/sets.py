"""DISTINCT, INTERSECT and EXCEPT where no input takes rows back (δ* and its kin).

Paper      Golab & Özsu 2005, §5.3.1 (δ*), §2.1 (intersection, negation).
Invariant  at every instant one row for each value that is in the answer; a row, once shown, keeps its exp.
Pattern    DISTINCT, INTERSECT: WEAK (MONOTONIC over streams); EXCEPT: STRICT.
State      per value: the greatest exp on each side and the exp shown; never the input.
Cost       O(rows in the change) + O(values whose row ended).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.data.batch import Array, Batch, Ints, gather
from penstock.data.clock import FOREVER
from penstock.data.memory import room
from penstock.data.schema import Schema
from penstock.kernels import sets as kernels
from penstock.operators.abilities import Holding
from penstock.operators.contract import Site, empty
from penstock.state import words
from penstock.state.arena import Slab
from penstock.state.calendar import Calendar
from penstock.state.frame import Frame
from penstock.state.registry import Ids, Registry

_NO_IDS: Ids = np.empty(0, np.int32)


class SetOperation:
    """One of kernels.DISTINCT, INTERSECT, EXCEPT."""

    def __init__(self, site: Site, schema: Schema, mode: int) -> None:
        self._mode = mode
        self._upkeep = site.upkeep
        self._arena = site.arena
        self._types = [f.type for f in schema]
        arena, name = site.arena, site.name
        self._values = Registry(arena, f"{name}.value", words.width(self._types))
        self._frame = Frame(arena, f"{name}.row", self._types)
        self._state = Slab(arena, name, value=(np.int64, kernels.BLANK))
        self._calendar = Calendar(arena, f"{name}.wake", site.upkeep)

    def step(self, inputs: Sequence[Batch], now: int) -> Batch:
        gids = [self._numbered(batch) for batch in inputs]
        due = self._due(inputs, now)
        n = sum(len(batch) for batch in inputs)
        self._arena.visits += n
        if not n and not len(due):
            return empty(len(self._types))
        touched, dead = room(n + len(due), np.int32), room(n + len(due), np.int32)
        registers = np.zeros(2, np.int64)
        calendar, mode, state = self._calendar, self._mode, self._state["value"]
        for batch in inputs:
            if len(batch):
                calendar.span(_latest(batch.exp, now), now)
        out = room((n // 2 + 2 * len(due) + 64, 4), np.int64)
        used = i = j = done = 0
        left, right = inputs[0], inputs[-1]
        while i + j < n:
            if mode == kernels.DISTINCT:
                i, used = kernels.arrive_distinct(
                    i, left.ts, gids[0], left.exp, state, touched, registers, out, used
                )
            else:
                i, j, used = kernels.arrive(
                    mode, i, j, left.ts, left.exp, gids[0], right.ts, right.exp, gids[1],
                    state, touched, registers, out, used,
                )  # fmt: skip
            if i + j < n:
                out = _wider(out, used)
        kernels.list_due(due, state, touched, registers)
        while done < int(registers[0]):
            done, used = kernels.finish(
                mode, done, now, touched, state, dead, registers,
                calendar.head, calendar.forth, calendar.back, calendar.when, calendar.registers, out, used,
            )  # fmt: skip
            if done < int(registers[0]):
                out = _wider(out, used)
        self._values.release(dead[: int(registers[1])])
        return self._emit(out[:used])

    def holdings(self) -> list[Holding]:
        ends = f"of each its last end and the end shown (no input is kept), {self._calendar.structure}"
        return [Holding("values", ends, len(self._values))]

    def _due(self, inputs: Sequence[Batch], now: int) -> Ids:
        """Values whose row ends or begins by itself."""
        if self._upkeep.eager is None:
            return self._calendar.drain(now)
        return self._calendar.pass_by(np.sort(np.concatenate([batch.ts for batch in inputs])), now)

    def _numbered(self, batch: Batch) -> Ids:
        """Each row's value as a number."""
        if not len(batch):
            return _NO_IDS
        ids, new = self._values.ids_and_new(words.rows(batch.columns, self._types, len(batch)))
        if len(new):
            capacity = self._values.capacity
            self._state.fit(capacity)
            self._frame.fit(capacity)
            self._calendar.fit(capacity)
            self._frame.put(ids[new], gather(batch.columns, new))
        return ids

    def _emit(self, out: Array) -> Batch:
        n = len(out)
        if not n:
            return empty(len(self._types))
        signed = self._mode == kernels.EXCEPT
        keys = 2 * out[:, 0] + (out[:, 3] > 0) if signed else out[:, 0].copy()
        low, span = int(keys.min()), int(np.ptp(keys)) + 1
        if span > 32 * n + 1024:  # comparing is cheaper than counting
            out = out[np.argsort(keys, kind="stable")]
            times, exps, gids = out[:, 0].copy(), out[:, 1].copy(), out[:, 2].astype(np.int32)
            signs = out[:, 3].astype(np.int8)
        else:
            times, exps = room(n, np.int64), room(n, np.int64)
            gids, signs = room(n, np.int32), room(n, np.int8)
            kernels.lay_out(out, keys, low, np.zeros(span + 1, np.int32), times, exps, gids, signs)
        return Batch(times, exps, self._frame.at(gids), signs if signed else None)


def _latest(exps: Ints, now: int) -> int:
    """The last announced end, FOREVER apart."""
    latest = int(exps.max())
    if latest == FOREVER:
        bounded = exps[exps < FOREVER]
        latest = int(bounded.max()) if len(bounded) else now
    return latest


def _wider(out: Array, used: int) -> Array:
    """Twice the room, the same rows."""
    made = room((2 * len(out), 4), np.int64)
    made[:used] = out[:used]
    return made
