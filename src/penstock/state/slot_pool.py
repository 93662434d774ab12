"""Slots for rows: taken when a row comes, given back when it is gone.

A row keeps its slot while it lives, unless few of many slots are taken: then all are renumbered (`shrink`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.state.arena import Arena
from penstock.state.payload import Frame
from penstock.state.renumbering import Renumbering, shrunk
from penstock.types import sizes
from penstock.types.batch import Column
from penstock.types.data_type import Type

Slots = NDArray[np.int32]
NO_SLOTS: Slots = np.empty(0, np.int32)


class Pool:
    """A frame of rows and the stack of its free slots (the latest freed is reused first: it is warm)."""

    def __init__(self, arena: Arena, name: str, types: Sequence[Type]) -> None:
        self._arena = arena
        self._name = name
        self.frame = Frame(arena, f"{name}.row", types)
        self._free = arena.array(f"{name}.free", np.int32, 0)
        self.capacity = len(self._free)
        self._left = arena.array(f"{name}.left", np.int64, 1, 0)

    def __len__(self) -> int:
        return self.capacity - int(self._left[0])

    def take(self, columns: Sequence[Column], n: int) -> Slots:
        """Slots for n rows, the rows written there."""
        if n > self._left[0]:
            self._grow(n)
        left = int(self._left[0]) - n
        self._left[0] = left
        slots: Slots = self._free[left : left + n][::-1].copy()
        self.frame.put(slots, columns)
        return slots

    def live(self) -> Slots:
        """Slots of the rows that are there."""
        free = np.zeros(self.capacity, np.bool_)
        free[self._free[: int(self._left[0])]] = True
        return np.flatnonzero(~free).astype(np.int32)

    def give(self, slots: Slots) -> None:
        """The rows are gone; their slots may be taken again."""
        left = int(self._left[0])
        self._free[left : left + len(slots)] = slots
        self._left[0] = left + len(slots)

    def shrink(self, coming: int) -> Renumbering | None:
        """Renumber the slots if few of them are taken; None: they stay."""
        capacity = shrunk(self.capacity, len(self), coming, sizes.current.slots)
        if capacity is None:
            return None
        made = Renumbering(self.live(), self.capacity, capacity)
        self.frame.renumber(made)
        taken = len(made.kept)
        self._free = self._arena.array(f"{self._name}.free", np.int32, capacity)
        self._free[: capacity - taken] = np.arange(capacity - 1, taken - 1, -1)
        self._left[0] = capacity - taken
        self.capacity = capacity
        return made

    def _grow(self, wanted: int) -> None:
        old, left = self.capacity, int(self._left[0])
        new = max(sizes.current.slots, 2 * old)
        while new - old + left < wanted:
            new *= 2
        self.frame.fit(new)
        self._free = self._arena.grow(f"{self._name}.free", new)
        self._free[left : left + new - old] = np.arange(new - 1, old - 1, -1)
        self._left[0] = left + new - old
        self.capacity = new
