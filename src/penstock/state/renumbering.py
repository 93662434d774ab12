"""Renumbering: ids in use become 0, 1, 2, …, so that the arrays they index can shrink.

Invariant  ids in use keep their order; all that refers to them is renumbered between the same two steps.
Cost       O(capacity before). Room shrinks only where less than one id in SPARSE is in use or was needed in the last step, so
           that the rows that made it grow have paid for it.
"""

from __future__ import annotations

import numpy as np

from penstock.types import sizes
from penstock.types.batch import Array

SPARSE = 8
"""Times what is in use, from which room shrinks."""


def shrunk(capacity: int, used: int, coming: int, least: int) -> int | None:
    """The power of two that is enough; None: not much less than there is. `coming`: rows of the last step, `least`: where growth begins."""
    if capacity <= sizes.current.sparse_rows or SPARSE * max(used, coming) > capacity:
        return None
    return 1 << (max(least, 2 * used, 2) - 1).bit_length()


class Renumbering:
    """`kept`: ids in use, ascending; the k-th becomes k. `capacity`: how many there is room for afterwards."""

    __slots__ = ("_new", "capacity", "kept")

    def __init__(self, kept: Array, before: int, capacity: int) -> None:
        self.kept = kept
        self.capacity = capacity
        # One more entry than there were ids: -1, which stands for none, finds itself there.
        self._new = np.full(before + 1, -1, np.int32)
        self._new[kept] = np.arange(len(kept), dtype=np.int32)

    def of(self, ids: Array) -> Array:
        """The new ids; -1 where there is none, or none in use."""
        found: Array = self._new[ids].astype(ids.dtype, copy=False)
        return found
