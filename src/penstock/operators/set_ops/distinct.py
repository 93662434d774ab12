"""DISTINCT, INTERSECT and EXCEPT where no input takes rows back (δ* and its kin).

Paper      Golab & Özsu 2005, §5.3.1 (δ*), §2.1 (intersection, negation).
Invariant  at every instant one row for each value that is in the answer; a row, once shown, keeps its exp.
Pattern    DISTINCT, INTERSECT: WEAK (MONOTONIC over streams); EXCEPT: STRICT.
State      per value: the greatest exp on each side and the exp shown; never the input.
Cost       O(rows in the change) + O(values whose row ended), by a calendar; where the rows of a step are at least a quarter of
           the values, all values are looked through instead, which is O(rows) too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.kernels.sets import distinct as kernels
from penstock.operators.capabilities import Holding
from penstock.operators.contract import Site, empty
from penstock.state import key_words
from penstock.state.arena import Slab
from penstock.state.calendar import Calendar, latest
from penstock.state.payload import Frame
from penstock.state.value_ids import Ids, Registry
from penstock.types import sizes
from penstock.types.batch import Array, Batch, Ints, gather
from penstock.types.memory import room
from penstock.types.schema import Schema

_NO_IDS: Ids = np.empty(0, np.int32)
SWEPT = 4
"""Values for each row of a step up to which all are looked through instead of keeping a calendar: that is one pass over memory in its order, some 2 ns a
value, against 30 for one that is scheduled and found again."""


class SetOperation:
    """One of kernels.DISTINCT, INTERSECT, EXCEPT."""

    def __init__(self, site: Site, schema: Schema, mode: int) -> None:
        self._mode = mode
        self._upkeep = site.upkeep
        self._arena = site.arena
        self._types = [f.type for f in schema]
        arena, name = site.arena, site.name
        self._values = Registry(arena, f"{name}.value", key_words.width(self._types))
        self._frame = Frame(arena, f"{name}.row", self._types)
        blank = kernels.BLANK[:2] if mode == kernels.DISTINCT else kernels.BLANK
        self._state = Slab(arena, name, value=(np.int64, blank))
        self._calendar = Calendar(arena, f"{name}.wake", site.upkeep)
        self._scheduled = arena.array(f"{name}.scheduled", np.bool_, 1, True)
        """Whether the calendar is kept: not while steps are large enough to look through all values."""

    def step(self, inputs: Sequence[Batch], now: int) -> Batch:
        gids = [self._numbered(batch) for batch in inputs]
        n = sum(len(batch) for batch in inputs)
        self._arena.visits += n
        due = self._due(inputs, n, now)
        if self._scheduled[0]:
            for batch in inputs:
                if len(batch):
                    self._calendar.span(latest(batch.exp, now), now)
        if not n and not len(due):
            return empty(len(self._types))
        touched, registers = room(n + len(due), np.int32), np.zeros(2, np.int64)
        mode, state = self._mode, self._state["value"]
        out = room((n // 2 + 2 * len(due) + sizes.current.set_outputs, 4), np.int64)
        used = i = j = 0
        left, right = inputs[0], inputs[-1]
        while i + j < n:
            if mode == kernels.DISTINCT:
                i, used = kernels.arrive_distinct(
                    i, left.ts, left.exp, gids[0], state, touched, registers, out, used
                )
            else:
                i, j, used = kernels.arrive(
                    mode, i, j, left.ts, left.exp, gids[0], right.ts, right.exp, gids[1],
                    state, touched, registers, out, used,
                )  # fmt: skip
            if i + j < n:
                out = _wider(out, used)
        listed = int(registers[0])
        touched[listed : listed + len(due)] = due
        return self._emit(self._finished(touched[: listed + len(due)], registers, now, out, used))

    def holdings(self) -> list[Holding]:
        found = self._calendar.structure if self._scheduled[0] else "looked through in every step"
        ends = f"of each its last end and the end shown (no input is kept), {found}"
        return [Holding("values", ends, len(self._values))]

    def shrink(self, coming: int) -> None:
        made = self._values.shrink(coming)
        if made is not None:
            self._state.renumber(made)
            self._frame.renumber(made)
            self._calendar.renumber(made)

    def _due(self, inputs: Sequence[Batch], rows: int, now: int) -> Ids:
        """Values whose row ends or begins by itself, if a calendar is kept."""
        upkeep, kept = self._upkeep, self._scheduled[0]
        asked = upkeep.eager is not None or upkeep.partitions is not None
        self._scheduled[0] = asked or not rows or self._state.capacity > SWEPT * rows
        if not self._scheduled[0]:
            return _NO_IDS
        if not kept:
            wakes = room(self._state.capacity, np.int64)
            kernels.wakes(self._mode, self._state["value"], wakes)
            self._calendar.schedule(wakes, now)
        if upkeep.eager is None:
            return self._calendar.drain(now)
        return self._calendar.pass_by(np.sort(np.concatenate([batch.ts for batch in inputs])), now)

    def _finished(self, touched: Ids, registers: Ints, now: int, out: Array, used: int) -> Array:
        """All that was said, once every value is settled: those in `touched`, or all."""
        mode, state, calendar = self._mode, self._state["value"], self._calendar
        scheduled = bool(self._scheduled[0])
        rows = len(touched) if scheduled else len(state)
        dead, done = room(rows, np.int32), 0
        while done < rows:
            if scheduled:
                done, used = kernels.finish(
                    mode, done, now, touched, state, dead, registers,
                    calendar.head, calendar.forth, calendar.back, calendar.when, calendar.registers, out, used,
                )  # fmt: skip
            else:
                done, used = kernels.sweep(mode, done, now, state, dead, registers, out, used)
            if done < rows:
                out = _wider(out, used)
        if not scheduled:
            self._arena.visits += rows
        self._values.release(dead[: int(registers[1])])
        return out[:used]

    def _numbered(self, batch: Batch) -> Ids:
        """Each row's value as a number."""
        if not len(batch):
            return _NO_IDS
        ids, new = self._values.ids_and_new(key_words.rows(batch.columns, self._types, len(batch)))
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
        low, high = kernels.stretch(out, signed)
        span = high - low + 1
        if span > 32 * n + 1024:  # comparing is cheaper than counting
            keys = 2 * out[:, 0] + (out[:, 3] > 0) if signed else out[:, 0]
            out = out[np.argsort(keys, kind="stable")]
            times, exps, gids = out[:, 0].copy(), out[:, 1].copy(), out[:, 2].astype(np.int32)
            signs = out[:, 3].astype(np.int8)
        else:
            times, exps = room(n, np.int64), room(n, np.int64)
            gids, signs = room(n, np.int32), room(n, np.int8)
            kernels.lay_out(out, signed, low, np.zeros(span + 1, np.int32), times, exps, gids, signs)
        return Batch(times, exps, self._frame.at(gids), signs if signed else None)


def _wider(out: Array, used: int) -> Array:
    """Twice the room, the same rows."""
    made = room((2 * len(out), 4), np.int64)
    made[:used] = out[:used]
    return made
