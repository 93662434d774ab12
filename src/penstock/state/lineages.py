"""Bitmaps by number: stored rows say by numbers which queries want them, since many are wanted by the same.

A row is wanted by the queries that are in all bitmaps whose numbers it has: one, or one for each filter that it passed.

Invariant  number 0 is nobody, 1 is everybody who has come and will; all others never gain a bit: a row, which has one of them, is
           wanted by no query that came after it. No query has bit 0, so that none of the others is everybody.
State      per different bitmap its words. Cost: a look-up a row; a query that leaves clears its bit in every bitmap.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.state.arena import Arena
from penstock.state.value_ids import Ids, Registry
from penstock.types.batch import Array

NOBODY, EVERYBODY = range(2)
_ALL = np.uint64(2**64 - 1)


class Lineages:
    """Bitmaps of `words` each."""

    def __init__(self, words: int) -> None:
        self._begin(words)

    def _begin(self, words: int) -> None:
        self._arena = Arena()
        self._registry = Registry(self._arena, "lineage", words)
        first = np.zeros((2, words), np.uint64)
        first[EVERYBODY] = _ALL
        self.numbers(first)

    def __len__(self) -> int:
        return len(self._registry)

    @property
    def known(self) -> NDArray[np.uint64]:
        """By number: a view."""
        return self._registry.values.view(np.uint64)

    @property
    def size_bytes(self) -> int:
        return self._arena.size_bytes

    def widen(self, words: int) -> None:
        self._registry.widen(words)
        self.known[EVERYBODY] = _ALL

    def clear(self, word: int, bit: np.uint64) -> None:
        """A query is gone. Bitmaps may be the same from now on: who looks one up finds any of them, or gets another."""
        self.known[EVERYBODY + 1 : len(self), word] &= ~bit

    def numbers(self, bitmaps: Array) -> Ids:
        """Of bitmaps."""
        return self._registry.ids(bitmaps.view(np.int64))

    def compact(self, used: Array) -> Array:
        """Keep the numbers in use; returns the new number of every old one."""
        new = np.zeros(len(self), np.int64)
        used = used[used > EVERYBODY]
        kept = self.known[used]
        self._begin(kept.shape[1])
        new[EVERYBODY] = EVERYBODY
        new[used] = self.numbers(kept)
        return new
