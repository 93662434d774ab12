"""Hand-written programs, one a benchmark: what the engine is measured against.

Each knows its query, its key range and that arrivals are in order, works event at a time in one compiled
loop, and hands over Arrow columns as `changes()` does. They are limits, not designs: none of them could
take a second query.

State common to all: a ring of the rows of a stream by sequence number, chains of equal keys through it
(newest first), and `tail`, the oldest live sequence number. Expiry is one pointer move and a walk ends
at the first sequence number below the tail.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import pyarrow as pa

from penstock.surfaces.benches.workload import Events

Program = Callable[[dict[str, Events]], list[pa.Table]]
"""Takes the next rows of every stream, gives the changes; keeps state between calls."""

njit: Any = numba.njit(cache=True, nogil=True, boundscheck=False)

PIECE = 1 << 18
"""Rows in one output table: large enough to forget the call, small enough to stay in cache."""


def ring_size(window: int) -> int:
    """A power of two that holds a window's rows and the one being added."""
    return 1 << (window + 1).bit_length()
