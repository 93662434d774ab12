"""Hand-written programs, one a benchmark: what the engine is measured against.

Each knows its query and that arrivals are in order, one an instant, but not which values its keys take: an INT
column declares no range, so keys are looked up. A push's keys are numbered first (`Keys`), in one loop whose look-ups do not wait
for each other; a second compiled loop then works event at a time on arrays indexed by those numbers, and hands over
Arrow columns as `changes()` does. They are limits, not designs: none of them could take a second query.

State common to all: a ring of the rows of a stream by sequence number, chains of equal keys through it
(newest first), and `tail`, the oldest live sequence number. Expiry is one pointer move and a walk ends
at the first sequence number below the tail.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.types.memory import room
from penstock_lab.benchmarks.workload import Events
from penstock_lab.benchmarks.workload import Keys as Column

Array = NDArray[Any]

Program = Callable[[dict[str, Events]], list[pa.Table]]
"""Takes the next rows of every stream, gives the changes; keeps state between calls."""

_options: dict[str, Any] = {"cache": True, "nogil": True, "boundscheck": False, "_nrt": False}
njit: Any = numba.njit(**_options)

PIECE = 1 << 18
"""Rows in one output table: large enough to forget the call, small enough to stay in cache."""

SLOTS = 1 << 12
"""Of a new table of keys; it grows fourfold, so that moving entries stays far below looking them up."""

EMPTY = np.uint64(2**64 - 1)
HALF = np.uint64(32)
LOW = np.uint64(2**32 - 1)
MIX = np.uint64(0x9E3779B97F4A7C15)
"""2⁶⁴ over the golden ratio: the high bits of a product with it spread keys that follow each other."""


def ring_size(window: int) -> int:
    """A power of two that holds a window's rows and the one being added."""
    return 1 << (window + 1).bit_length()


def fit(array: Array, size: int, fill: int) -> Array:
    """The array with room for `size` entries, new ones holding `fill`."""
    if len(array) >= size:
        return array
    made = np.full(size, fill, array.dtype)
    made[: len(array)] = array
    return made


@njit
def _number(column, start, slots, shift, values, count, ids):  # type: ignore[no-untyped-def]
    """Number the keys of `column` from row `start` on; gives the row before which the table is half full."""
    mask = np.uint64(len(slots) - 1)
    room = len(values)
    for i in range(start, len(column)):
        key = np.uint64(np.uint32(column[i]))
        at = (key * MIX) >> shift
        held = slots[at]
        while held != EMPTY and held >> HALF != key:
            at = (at + np.uint64(1)) & mask
            held = slots[at]
        if held == EMPTY:
            if count == room:
                return i, count
            held = key << HALF | np.uint64(count)
            slots[at] = held
            values[count] = column[i]
            count += 1
        ids[i] = held & LOW
    return len(column), count


@njit
def _move(old, slots, shift):  # type: ignore[no-untyped-def]
    mask = np.uint64(len(slots) - 1)
    for held in old:
        if held != EMPTY:
            at = ((held >> HALF) * MIX) >> shift
            while slots[at] != EMPTY:
                at = (at + np.uint64(1)) & mask
            slots[at] = held


class Keys:
    """Numbers 0, 1, 2, … for keys in the order they are first seen: open addressing, linear probing.

    A slot holds key and number in one word, so a look-up that hits at once reads one cache line.
    """

    def __init__(self) -> None:
        self.count = 0
        self.values: Column = np.empty(0, np.int32)
        """Keys by number; its length is how many the table takes before it grows."""
        self._slots = np.empty(0, np.uint64)
        self._shift = np.uint64(0)
        self._grow(SLOTS)

    @property
    def room(self) -> int:
        """Numbers stay below this until the next call of `number`."""
        return len(self.values)

    def number(self, column: Column) -> Array:
        """The number of every key."""
        ids = room(len(column), np.uint32)
        done = 0
        while True:
            done, self.count = _number(column, done, self._slots, self._shift, self.values, self.count, ids)
            if done == len(column):
                return ids
            self._grow(4 * len(self._slots))

    def _grow(self, size: int) -> None:
        old, self._slots = self._slots, np.full(size, EMPTY)
        self._shift = np.uint64(65 - size.bit_length())
        self.values = fit(self.values, size // 2, 0)
        _move(old, self._slots, self._shift)
