"""An arena: every array an operator remembers, by name.

State is nothing but named flat arrays, so it can be measured, laid into a memory-mapped file, written out
and taken up again without knowing what it means.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from penstock.data.batch import Array


class Arena:
    """Named arrays. `array` makes (or replaces) one, `grow` keeps what it held."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self._strings: set[str] = set()
        self.holders: list[Callable[[Callable[[Array], None]], None]] = []
        """Whoever holds string codes elsewhere."""

    def array(self, name: str, dtype: Any, shape: int | tuple[int, ...], fill: Any = None) -> Array:
        made = np.empty(shape, dtype) if fill is None else np.full(shape, fill, dtype)
        self.arrays[name] = made
        return made

    def grow(self, name: str, size: int, fill: Any = None) -> Array:
        """The array with `size` entries along its first axis; new ones hold `fill`."""
        old = self.arrays[name]
        made = np.empty((size, *old.shape[1:]), old.dtype)
        made[: len(old)] = old
        if fill is not None:
            made[len(old) :] = fill
        self.arrays[name] = made
        return made

    def strings(self, name: str) -> None:
        """The array called `name` holds string codes."""
        self._strings.add(name)

    def mark_strings(self, mark: Callable[[Array], None]) -> None:
        """Show every string code that some array holds; entries never written may show anything."""
        for name in self._strings:
            mark(self.arrays[name])
        for held in self.holders:
            held(mark)

    @property
    def size_bytes(self) -> int:
        return sum(a.nbytes for a in self.arrays.values())


class Slab:
    """Arrays indexed by the same ids (slots or groups), grown together.

    A field is (dtype, value of new entries); an array of values makes a row per id.
    """

    def __init__(self, arena: Arena, name: str, **fields: tuple[Any, Any]) -> None:
        self._arena = arena
        self._name = name
        self._fields = fields
        self.capacity = 0
        self._arrays = {
            f: arena.array(f"{name}.{f}", dtype, (0, *np.shape(fill))) for f, (dtype, fill) in fields.items()
        }

    def fit(self, capacity: int) -> None:
        """Room for ids below `capacity`."""
        if capacity <= self.capacity:
            return
        for field, (_, fill) in self._fields.items():
            self._arrays[field] = self._arena.grow(f"{self._name}.{field}", capacity, fill)
        self.capacity = capacity

    def __getitem__(self, field: str) -> Array:
        return self._arrays[field]


def power_of_two(at_least: int) -> int:
    """The smallest power of two that is not below."""
    return 1 << max(at_least - 1, 1).bit_length()
