"""Vertical counters: how many rows each query gets, added up for as many queries at once as a vector has bits.

Bit q of plane l is bit l of query q's count; eight rows are added by seven adders a word (carry-save).
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.compile import inline, ix
from penstock.kernels.filters.bitmap_vectors import (
    LANES,
    LOW,
    PLANES,
    add_vectors,
    add_words,
    carry_vectors,
    carry_words,
)

NONE = np.uint64(0)
ONE = np.uint64(1)
FULL = 1 << (PLANES - 1)
"""Rows after which the planes are put down."""


@inline
def place(rows, at, end, shift, empty, words):
    """Where a row's lineage begins."""
    return (np.int64(rows[ix(at)]) + shift if at < end else empty) * words


@inline
def add_eight(lineage, rows, at, end, shift, empty, planes):
    """Add the rows from rows[at] on; beyond `end` there are none, and `empty` is one without a bit."""
    n = lineage.shape[1]
    places = (
        place(rows, at, end, shift, empty, n), place(rows, at + 1, end, shift, empty, n),
        place(rows, at + 2, end, shift, empty, n), place(rows, at + 3, end, shift, empty, n),
        place(rows, at + 4, end, shift, empty, n), place(rows, at + 5, end, shift, empty, n),
        place(rows, at + 6, end, shift, empty, n), place(rows, at + 7, end, shift, empty, n),
    )  # fmt: skip
    if n % LANES == 0:
        for w in range(0, n, LANES):
            add_vectors(lineage, places, planes, w, n)
    else:
        for w in range(n):
            add_words(lineage, places, planes, w, n)


@inline
def added_eight(held, planes, counts):
    """Eight rows were added to what `held` rows had come to: carry, or put down, if it is time; what is held then."""
    held += 8
    words = planes.shape[1]
    if held % 64 == 0:
        if words % LANES == 0:
            for w in range(0, words, LANES):
                carry_vectors(planes, w, words)
        else:
            for w in range(words):
                carry_words(planes, w, words)
        if held == FULL:
            put_down(planes, counts)
            held = 0
    return held


@inline
def put_down(planes, counts):
    """Add what the planes have summed to the counts, and empty them."""
    for w in range(planes.shape[1]):
        for p in range(PLANES + 1):
            x = planes[p, w]
            if x != NONE:
                level = p if p < PLANES else LOW
                for bit in range(64):
                    counts[w * 64 + bit] += np.int64((x >> np.uint64(bit)) & ONE) << level
                planes[p, w] = NONE
