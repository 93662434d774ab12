"""What an eddy found out of a batch: who wants which rows, as lineage, as row numbers by query, or as what filters say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.kernels.filters import lineage as kernels
from penstock.types.batch import Array, Batch
from penstock.types.memory import room

ALL = np.uint64(2**64 - 1)
"""Every bit of a word."""


@dataclass(slots=True)
class Sorted:
    """A batch of rows, and who wants which."""

    batch: Batch
    rows: Array
    """Those that somebody wants; if no lineage is kept, perhaps more, and until the next batch is sorted."""
    counts: Array
    """By bit: how many."""
    lineage: Array | None
    """By row, if it was to be kept."""

    def split(self, wanted: Array | None = None) -> Split:
        """Row numbers by bit, of the wanted bits or of all."""
        assert self.lineage is not None
        counts = self.counts
        if wanted is None:
            wanted = np.full(self.lineage.shape[1], ALL)
        else:
            counts = np.where(np.unpackbits(wanted.view(np.uint8), bitorder="little"), counts, 0)
        ends = np.cumsum(counts)
        out = room(int(ends[-1]), np.int32)
        kernels.split(self.lineage, self.rows, wanted, ends - counts, out)
        return Split(ends - counts, ends, out)


@dataclass(frozen=True, slots=True)
class Split:
    """Row numbers by bit."""

    starts: Array
    ends: Array
    rows: Array

    def of(self, bit: int) -> Array:
        found: Array = self.rows[int(self.starts[bit]) : int(self.ends[bit])]
        return found


@dataclass(frozen=True, slots=True)
class Said:
    """What a filter says of rows: a row wants `table[id]`, of the queries there are."""

    ids: Array
    table: Array
    start: Array

    def bitmaps(self, rows: Array, words: Sequence[int]) -> tuple[Array, Array]:
        """Different bitmaps of so many words, and which of them is each row's."""
        ids = self.ids[rows]
        used = np.flatnonzero(np.bincount(ids))
        which = np.empty(int(used[-1]) + 1, np.int64)
        which[used] = np.arange(len(used))
        return self.table[used][:, words] & self.start[words], which[ids]
