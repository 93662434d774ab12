"""The rows of one input of a core: those that wait, and those that are built into the input's SteM.

A row has its slot from its arrival until nobody can join it any more; only rows that were built are in the chains. One that a table
keeps from being built rests: it is built if the table changes, and goes when it ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.data.batch import Array, Column, Ints
from penstock.data.types import Type
from penstock.kernels import chains
from penstock.state.arena import Arena, Slab
from penstock.state.index import Index
from penstock.state.pool import Pool, Slots

UNBUILT = np.iinfo(np.int64).max
RESTING, DEAD = 1, 2
"""Of rows that were not built: a table's row is missing; nobody wants it any more, but partial results may name it."""


class Stock:
    """`keys`: how many indexes there are."""

    def __init__(self, arena: Arena, name: str, types: Sequence[Type], keys: int) -> None:
        self._arena = arena
        self.pool = Pool(arena, name, types)
        self._slab = Slab(
            arena,
            f"{name}.about",
            ts=(np.int64, 0),
            exp=(np.int64, 0),
            built=(np.int64, UNBUILT),
            level=(np.int64, 0),
            came=(np.int64, 0),
            there=(np.bool_, False),
            rest=(np.int8, 0),
        )
        self.indexes = [Index(arena, f"{name}.key{k}") for k in range(keys)]
        if self.pool.capacity:
            self._fit()

    def __len__(self) -> int:
        return len(self.pool)

    @property
    def ts(self) -> Ints:
        return self._slab["ts"]

    @property
    def exp(self) -> Ints:
        return self._slab["exp"]

    @property
    def built(self) -> Ints:
        """The number under which each row was built."""
        return self._slab["built"]

    @property
    def level(self) -> Ints:
        """The best level that is known of each row."""
        return self._slab["level"]

    @property
    def came(self) -> Ints:
        """When each row came, in processing time."""
        return self._slab["came"]

    def add(self, columns: Sequence[Column], ts: Ints, exp: Ints, came: int, level: int) -> Slots:
        """Rows that are to wait."""
        slots = self.pool.take(columns, len(ts))
        self._fit()
        self.ts[slots], self.exp[slots] = ts, exp
        self.built[slots], self.level[slots], self.came[slots] = UNBUILT, level, came
        self._slab["there"][slots] = True
        self._slab["rest"][slots] = 0
        return slots

    def _fit(self) -> None:
        if self.pool.capacity > self._slab.capacity:
            self._slab.fit(self.pool.capacity)
            for index in self.indexes:
                index.fit(self._arena, self.pool.capacity)

    def set_keys(self, slots: Slots, keys: Sequence[Ints]) -> None:
        for index, key in zip(self.indexes, keys, strict=True):
            index.key[slots] = key

    def build(self, slots: Slots, numbers: Ints) -> None:
        """Let rows be found, as the so-many-th."""
        self.built[slots] = numbers
        self._slab["rest"][slots] = 0
        for index in self.indexes:
            chains.link_slots(slots, index.key, index.head, index.chain, index.back)

    def lay_aside(self, slots: Slots, why: int) -> None:
        """Rows that are not built (RESTING or DEAD)."""
        slots = slots[(self.built[slots] == UNBUILT) & (self._slab["rest"][slots] != DEAD)]
        self._slab["rest"][slots] = why

    def resting(self) -> Slots:
        return np.flatnonzero(self._slab["there"] & (self._slab["rest"] == RESTING)).astype(np.int32)

    def drop(self, slots: Slots) -> None:
        """Rows that were never built are wanted no more."""
        self._slab["there"][slots] = False
        self.pool.give(slots)

    def stored(self) -> Slots:
        """The rows that were built and are there."""
        return np.flatnonzero(self._slab["there"] & (self.built < UNBUILT)).astype(np.int32)

    def purge(self, met: int, named: int) -> None:
        """Let go of rows that end before anything that could meet them (built) or name them (laid aside)."""
        there, built = self._slab["there"], self.built < UNBUILT
        over = np.where(built, self.exp <= met, (self._slab["rest"] > 0) & (self.exp <= named))
        slots = np.flatnonzero(there & over).astype(np.int32)
        if len(slots):
            linked = slots[self.built[slots] < UNBUILT]
            for index in self.indexes:
                chains.unlink_slots(linked, index.head, index.chain, index.back)
            self.drop(slots)

    def columns(self, slots: Array) -> tuple[Column, ...]:
        return self.pool.frame.at(slots)
