"""Bitmaps by number: stored rows say by one number which queries want them, since many are wanted by the same.

Invariant  number 0 is nobody; a bitmap never gains a bit: a row is wanted by no query that came after it.
State      per different bitmap its words. Cost: a look-up a row; a query that leaves clears its bit in every bitmap.
"""

from __future__ import annotations

import numpy as np

from penstock.data.batch import Array
from penstock.state.arena import Arena
from penstock.state.registry import Registry


class Lineages:
    """Bitmaps of `words` each."""

    def __init__(self, words: int) -> None:
        self.known = np.zeros((64, words), np.uint64)
        """By number."""
        self._used = 1
        self.forget()

    def __len__(self) -> int:
        return self._used

    @property
    def size_bytes(self) -> int:
        return int(self.known.nbytes + self._numbers.nbytes) + self._index.size_bytes

    def forget(self) -> None:
        """Bitmaps to come get new numbers: bits are about to mean other queries."""
        self._index = Arena()
        self._registry = Registry(self._index, "lineage", self.known.shape[1])
        self._numbers = np.zeros(0, np.int64)

    def widen(self, words: int) -> None:
        known = np.zeros((len(self.known), words), np.uint64)
        known[:, : self.known.shape[1]] = self.known
        self.known = known
        self.forget()

    def clear(self, word: int, bit: np.uint64) -> None:
        """A query is gone."""
        self.known[: self._used, word] &= ~bit

    def numbers(self, bitmaps: Array) -> Array:
        """Of bitmaps, none of them empty."""
        ids, new = self._registry.ids_and_new(bitmaps.view(np.int64))
        if len(new):
            if self._registry.capacity > len(self._numbers):
                more = np.zeros(self._registry.capacity - len(self._numbers), np.int64)
                self._numbers = np.concatenate([self._numbers, more])
            end = self._used + len(new)
            if end > len(self.known):
                known = np.zeros((max(2 * len(self.known), end), self.known.shape[1]), np.uint64)
                known[: self._used] = self.known[: self._used]
                self.known = known
            self.known[self._used : end] = bitmaps[new]
            self._numbers[ids[new]] = np.arange(self._used, end)
            self._used = end
        return self._numbers[ids]

    def compact(self, used: Array) -> Array:
        """Keep the numbers in use (sorted, each once); returns the new number of every old one."""
        new = np.zeros(self._used, np.int64)
        used = used[used > 0]
        new[used] = np.arange(1, len(used) + 1)
        known = np.zeros((max(64, 2 * len(used)), self.known.shape[1]), np.uint64)
        known[1 : len(used) + 1] = self.known[used]
        self.known, self._used = known, len(used) + 1
        self.forget()
        return new
