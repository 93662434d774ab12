"""DISTINCT, INTERSECT and EXCEPT where no input takes rows back (δ* and its kin).

Paper      Golab & Özsu 2005, §5.3.1 (δ*), §2.1 (intersection, negation).
Invariant  at every instant one row for each value that is in the answer; a row, once shown, keeps its exp.
Pattern    DISTINCT, INTERSECT: WEAK (MONOTONIC over streams); EXCEPT: STRICT.
State      per value: the greatest exp on each side and the exp shown; never the input.
Cost       O(rows in the change) + O(values whose row ended).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from penstock.data.batch import Array, Batch, Ints, gather
from penstock.data.clock import FOREVER
from penstock.data.schema import Schema
from penstock.kernels import sets as kernels
from penstock.operators.contract import Site, empty, in_order
from penstock.state import words
from penstock.state.arena import Slab
from penstock.state.calendar import Calendar
from penstock.state.frame import Frame
from penstock.state.registry import Ids, Registry


class Arrivals(NamedTuple):
    """Rows of all inputs in time order: the value's number and the input (0 left, 1 right) of each."""

    times: Ints
    exps: Ints
    gids: Array
    sides: Array


_NO_IDS: Ids = np.empty(0, np.int32)
_NO_SIDES = np.empty(0, np.int8)


class SetOperation:
    """One of kernels.DISTINCT, INTERSECT, EXCEPT."""

    def __init__(self, site: Site, schema: Schema, mode: int) -> None:
        self._mode = mode
        self._types = [f.type for f in schema]
        arena, name = site.arena, site.name
        self._values = Registry(arena, f"{name}.value", words.width(self._types))
        self._frame = Frame(arena, f"{name}.row", self._types)
        self._state = Slab(arena, name, value=(np.int64, kernels.BLANK))
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
        calendar, mode, state = self._calendar, self._mode, self._state["value"]
        if n:
            calendar.span(_latest(exps, now), now)
        out = np.empty((n // 2 + 2 * len(due) + 64, 4), np.int64)
        used = done = 0
        while done < n:
            if mode == kernels.DISTINCT:
                done, used = kernels.arrive_distinct(
                    done, times, gids, exps, state, touched, registers, out, used
                )
            else:
                done, used = kernels.arrive(
                    mode, done, times, gids, exps, sides, state, touched, registers, out, used
                )
            if done < n:
                out = _wider(out, used)
        count = int(registers[0])
        unlisted = due[state[due, kernels.LISTED] == 0]
        touched[count : count + len(unlisted)] = unlisted
        touched = touched[: count + len(unlisted)]
        done = 0
        while done < len(touched):
            done, used = kernels.finish(
                mode, done, now, touched, state, dead, registers,
                calendar.head, calendar.forth, calendar.back, calendar.when, calendar.registers, out, used,
            )  # fmt: skip
            if done < len(touched):
                out = _wider(out, used)
        self._values.release(dead[: int(registers[1])])
        return self._emit(out[:used])

    def _arrivals(self, inputs: Sequence[Batch]) -> Arrivals:
        """Both sides' rows in time order, numbered by value."""
        gids = [self._numbered(batch) for batch in inputs]
        if len(inputs) == 1:
            return Arrivals(inputs[0].ts, inputs[0].exp, gids[0], _NO_SIDES)
        left, right = inputs
        n = len(left) + len(right)
        times, exps = np.empty(n, np.int64), np.empty(n, np.int64)
        ids, sides = np.empty(n, np.int32), np.empty(n, np.int8)
        kernels.interleave(left.ts, left.exp, gids[0], right.ts, right.exp, gids[1], times, exps, ids, sides)
        return Arrivals(times, exps, ids, sides)

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
        if not len(out):
            return empty(len(self._types))
        time = out[:, 0].copy()
        sign = out[:, 3].astype(np.int8) if self._mode == kernels.EXCEPT else None
        order = in_order(time, sign)
        if order is None:
            return Batch(time, out[:, 1].copy(), self._frame.at(out[:, 2].copy()), sign)
        columns = self._frame.at(out[:, 2].take(order))
        return Batch(
            time.take(order), out[:, 1].take(order), columns, None if sign is None else sign.take(order)
        )


def _latest(exps: Ints, now: int) -> int:
    """The last announced end, FOREVER apart."""
    latest = int(exps.max())
    if latest == FOREVER:
        bounded = exps[exps < FOREVER]
        latest = int(bounded.max()) if len(bounded) else now
    return latest


def _wider(out: Array, used: int) -> Array:
    """Twice the room, the same rows."""
    made = np.empty((2 * len(out), 4), np.int64)
    made[:used] = out[:used]
    return made
