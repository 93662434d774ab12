"""Payload columns addressed by slot: written once, gathered when a result leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.kernels.gather import gather
from penstock.state.arena import Arena
from penstock.state.renumbering import Renumbering
from penstock.types.batch import Array, Column, Mask, Rows
from penstock.types.data_type import Type
from penstock.types.memory import room

_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
"""Numbers are gathered by their width, whatever they are."""


def _taken(values: Array, rows: Rows) -> Array:
    out, word = room(len(rows), values.dtype), _WORDS[values.itemsize]
    gather(values.view(word), rows.astype(np.int32, copy=False), out.view(word))
    return out


class Held(Column):
    """A column of a frame at some slots."""

    __slots__ = ()
    _taken = staticmethod(_taken)


class Frame:
    """Columns of given types with room for `capacity` slots; validity is kept only once a NULL was seen."""

    def __init__(self, arena: Arena, name: str, types: Sequence[Type]) -> None:
        self._arena = arena
        self._name = name
        self.types = tuple(types)
        self.values = [arena.array(f"{name}.{i}", t.dtype, 0) for i, t in enumerate(types)]
        self.capacity = min(map(len, self.values), default=0)
        self.valid: list[Mask | None] = [self._saved_mask(i) for i in range(len(self.values))]
        for i, type_ in enumerate(types):
            if type_ is Type.STRING:
                arena.strings(f"{name}.{i}")

    def _saved_mask(self, i: int) -> Mask | None:
        mask = self._arena.found(f"{self._name}.{i}?", np.bool_, self.capacity)
        self._arena.keep(f"{self._name}.{i}?", mask)
        return mask

    def fit(self, capacity: int) -> None:
        """Room for slots below `capacity`; what is there stays."""
        if capacity <= self.capacity:
            return
        for i in range(len(self.values)):
            self.values[i] = self._arena.grow(f"{self._name}.{i}", capacity)
            if self.valid[i] is not None:
                self.valid[i] = self._arena.grow(f"{self._name}.{i}?", capacity, True)
        self.capacity = capacity

    def widen(self, types: Sequence[Type], places: Sequence[int], fills: Mapping[int, int]) -> Frame:
        """A frame of more columns in its place: those here are at these places there; others hold their fill, or nothing much."""
        values, valid = self.values, self.valid
        self._arena.drop(f"{self._name}.")
        made = Frame(self._arena, self._name, types)
        made.fit(self.capacity)
        for i in set(range(len(types))).difference(places):
            made.values[i][:] = fills.get(i, 0)
        for at, old, mask in zip(places, values, valid, strict=True):
            made.values[at][:] = old
            if mask is not None:
                made.valid[at] = self._arena.array(f"{self._name}.{at}?", np.bool_, self.capacity, mask)
        return made

    def lay(self, slots: Rows, capacity: int) -> None:
        """Hold what was held under these slots, in their order, under 0, 1, 2, …"""
        for i in range(len(self.values)):
            self.values[i] = self._arena.pick(f"{self._name}.{i}", slots, capacity)
            if self.valid[i] is not None:
                self.valid[i] = self._arena.pick(f"{self._name}.{i}?", slots, capacity, True)
        self.capacity = capacity

    def renumber(self, made: Renumbering) -> None:
        """Hold what was held under the slots before under the new ones."""
        if self.capacity:
            self.lay(made.kept, made.capacity)

    def put(self, where: Rows | slice, columns: Sequence[Column]) -> None:
        """Write rows at these slots."""
        for i, column in enumerate(columns):
            self.values[i][where] = column.values
            valid = column.valid
            mask = self.valid[i]
            if valid is not None and mask is None and not valid.all():
                mask = self._arena.array(f"{self._name}.{i}?", np.bool_, self.capacity, True)
                self.valid[i] = mask
            if mask is not None:
                mask[where] = True if valid is None else valid

    def shift(self, start: int, stop: int) -> None:
        """Move slots [start, stop) to the front."""
        for array in (*self.values, *(m for m in self.valid if m is not None)):
            array[: stop - start] = array[start:stop]

    def repeat(self, before: int, size: int) -> None:
        """Let slots [0, before) stand in every part of as many slots below `size`."""
        for array in (*self.values, *(m for m in self.valid if m is not None)):
            array[:size].reshape(-1, before)[1:] = array[:before]

    def at(self, rows: Rows, which: Sequence[int] | None = None) -> tuple[Column, ...]:
        """The columns, or some, at these slots, lazily: read them before the slots are written again."""
        some = range(len(self.values)) if which is None else which
        return tuple([Held.lazy(self.values[k], self.valid[k], rows) for k in some])

    @property
    def size_bytes(self) -> int:
        return sum(a.nbytes for a in (*self.values, *(m for m in self.valid if m is not None)))
