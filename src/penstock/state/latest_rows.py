"""The latest row of each key: tells which rows of a replacing answer say something new."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.state import key_words
from penstock.state.arena import Arena, Slab
from penstock.state.payload import Frame
from penstock.state.sweep_schedule import Due
from penstock.state.value_ids import Registry
from penstock.types.batch import Array, Batch, concat, same
from penstock.types.data_type import Type
from penstock.types.event_time import EARLIEST


class Latest:
    """Per key the row sent last; keys whose row has ended are forgotten when they are the majority."""

    def __init__(self, arena: Arena, name: str, types: Sequence[Type], key: tuple[int, ...]) -> None:
        self._key = key
        self._key_types = [types[k] for k in key]
        self._keys = Registry(arena, f"{name}.key", key_words.width(self._key_types))
        self._rows = Frame(arena, f"{name}.row", types)
        self._state = Slab(arena, name, exp=(np.int64, np.iinfo(np.int64).min))
        self._limit = 1024
        self._due = Due()
        if self._state.capacity:  # taken up: look soon
            self._due.note(self._state["exp"], EARLIEST)

    def news(self, batch: Batch, now: int) -> Array:
        """Positions of rows that differ (in values or exp) from their key's row before."""
        n = len(batch)
        ids = self._keys.ids(key_words.rows([batch.columns[k] for k in self._key], self._key_types, n))
        self._state.fit(self._keys.capacity)
        self._rows.fit(self._keys.capacity)
        before = _previous(ids)
        earlier = before >= 0
        was_exp = np.where(earlier, batch.exp[before], self._state["exp"][ids])
        again = np.flatnonzero((was_exp == batch.exp) & (was_exp > batch.ts))
        source = np.where(earlier, before, n + np.arange(n))
        for new, old in zip(batch.columns, self._rows.at(ids), strict=True):
            if not len(again):
                break
            again = again[same(new.take(again), concat([new, old]).take(source[again]))]
        self._state["exp"][ids] = batch.exp
        self._rows.put(ids, batch.columns)
        self._due.note(batch.exp, now)
        if len(self._keys) >= self._limit:
            self._forget(now)
        fresh = np.ones(n, np.bool_)
        fresh[again] = False
        return np.flatnonzero(fresh)

    def shrink(self, now: int, coming: int) -> None:
        """Give back room that neither rows alive nor so many new ones need."""
        if self._due.passed(now):
            self._forget(now)
        made = self._keys.shrink(coming)
        if made is not None:
            self._rows.renumber(made)
            self._state.renumber(made)

    def _forget(self, now: int) -> None:
        exp = self._state["exp"]
        gone = np.flatnonzero((exp <= now) & (exp > np.iinfo(np.int64).min)).astype(np.int32)
        exp[gone] = np.iinfo(np.int64).min
        self._keys.release(gone)
        self._limit = max(1024, 2 * len(self._keys))
        self._due.looked(now)


def _previous(ids: Array) -> Array:
    """The position of the equal id before each, or -1."""
    order = np.argsort(ids, kind="stable")
    out = np.full(len(ids), -1, np.int64)
    repeats = np.flatnonzero(ids[order][1:] == ids[order][:-1]) + 1
    out[order[repeats]] = order[repeats - 1]
    return out
