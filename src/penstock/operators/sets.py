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

from penstock.data.batch import Batch
from penstock.data.clock import FOREVER
from penstock.data.schema import Schema
from penstock.kernels import sets as kernels
from penstock.operators.contract import Site, empty, in_order
from penstock.state import words
from penstock.state.arena import Slab
from penstock.state.calendar import Calendar
from penstock.state.frame import Frame
from penstock.state.registry import Registry

NEVER = int(kernels.NEVER)


class SetOperation:
    """One of kernels.DISTINCT, INTERSECT, EXCEPT."""

    def __init__(self, site: Site, schema: Schema, mode: int) -> None:
        self._mode = mode
        self._types = [f.type for f in schema]
        arena, name = site.arena, site.name
        self._values = Registry(arena, f"{name}.value", words.width(self._types))
        self._frame = Frame(arena, f"{name}.row", self._types)
        self._state = Slab(
            arena, name,
            left=(np.int64, NEVER), right=(np.int64, NEVER), shown=(np.int64, NEVER),
            wake=(np.int64, FOREVER), dirty=(np.int64, FOREVER),
        )  # fmt: skip
        self._calendar = Calendar(arena, f"{name}.wake")

    def step(self, inputs: Sequence[Batch], now: int) -> Batch:
        times, exps, gids, sides = self._arrivals(inputs)
        due = self._calendar.drain(now)
        if not len(times) and not len(due):
            return empty(len(self._types))
        n = len(times)
        touched = np.empty(n + len(due), np.int32)
        dead = np.empty(n + len(due), np.int32)
        registers = np.zeros(2, np.int64)
        state, calendar, mode = self._state, self._calendar, self._mode
        left, right, shown = state["left"], state["right"], state["shown"]
        wake, dirty = state["wake"], state["dirty"]
        if n:
            bounded = exps[exps < FOREVER]
            if len(bounded):
                calendar.span(int(bounded.max()), now)
        out = _Output(n // 2 + 2 * len(due) + 64)
        done = 0
        while done < n:
            done, out.used = kernels.arrive(
                mode, done, times, gids, exps, sides, left, right, shown, wake, dirty, touched, registers,
                out.time, out.exp, out.gid, out.sign, out.used,
            )  # fmt: skip
            if done < n:
                out.grow()
        count = int(registers[0])
        touched[count : count + len(due)] = due
        touched = touched[: count + len(due)]
        done = 0
        while done < len(touched):
            done, out.used = kernels.finish(
                mode, done, now, touched, left, right, shown, wake, dirty, dead, registers,
                calendar.head, calendar.forth, calendar.back, calendar.when, calendar.registers,
                out.time, out.exp, out.gid, out.sign, out.used,
            )  # fmt: skip
            if done < len(touched):
                out.grow()
        self._values.release(dead[: int(registers[1])])
        return self._emit(out)

    def _arrivals(self, inputs: Sequence[Batch]):  # type: ignore[no-untyped-def]
        """Both sides' rows in time order, numbered by value."""
        times, exps, gids, sides = [], [], [], []
        for side, batch in enumerate(inputs):
            n = len(batch)
            if n:
                ids = self._values.ids(words.rows(batch.columns, self._types, n))
                capacity = self._values.capacity
                self._state.fit(capacity)
                self._frame.fit(capacity)
                self._calendar.fit(capacity)
                self._frame.put(ids, batch.columns)
                times.append(batch.ts)
                exps.append(batch.exp)
                gids.append(ids)
                sides.append(np.full(n, side, np.int8))
        if not times:
            none = np.empty(0, np.int64)
            return none, none, none.astype(np.int32), none.astype(np.int8)
        if len(times) == 1:
            return times[0], exps[0], gids[0], sides[0]
        t = np.concatenate(times)
        order = in_order(t, None)
        rows = slice(None) if order is None else order
        return (
            t[rows],
            np.concatenate(exps)[rows],
            np.concatenate(gids)[rows],
            np.concatenate(sides)[rows],
        )

    def _emit(self, out: _Output) -> Batch:
        n = out.used
        if n == 0:
            return empty(len(self._types))
        time, exp, gid = out.time[:n], out.exp[:n], out.gid[:n]
        sign = out.sign[:n] if self._mode == kernels.EXCEPT else None
        order = in_order(time, sign)
        if order is not None:
            time, exp, gid = time[order], exp[order], gid[order]
            sign = None if sign is None else sign[order]
        return Batch(time, exp, self._frame.at(gid), sign)


class _Output:
    """Output arrays that grow when a kernel says they are full."""

    def __init__(self, room: int) -> None:
        self.used = 0
        self.time = np.empty(room, np.int64)
        self.exp = np.empty(room, np.int64)
        self.gid = np.empty(room, np.int32)
        self.sign = np.empty(room, np.int8)

    def grow(self) -> None:
        for field in ("time", "exp", "gid", "sign"):
            old = getattr(self, field)
            new = np.empty(2 * len(old), old.dtype)
            new[: self.used] = old[: self.used]
            setattr(self, field, new)
