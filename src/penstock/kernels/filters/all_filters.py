"""Rows that ask all filters at once, where next to none would be spared one: what is left is met in registers.

Against `lineage.pass_through` no order, no test whether a filter is needed, and lineage is written once instead of once a filter.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.compile import (
    bools_at,
    inline,
    int32s_at,
    int64s_at,
    ix,
    kernel,
    lowest_bit,
    words_at,
)
from penstock.kernels.filters.bitmap_vectors import LANES, meet_vectors, meet_words
from penstock.kernels.filters.counters import added_eight, put_down
from penstock.kernels.filters.layout import (
    BOUNDS,
    CELLS,
    CUTS,
    DIRECT,
    DIRECTORY,
    DIRECTS,
    IDS,
    KEYS,
    LOW,
    MOST,
    NARROW,
    PADS,
    PLACES,
    SHIFT,
    VALID,
    cell_of,
)

BLOCK = 512
"""Rows that are looked up before they meet."""
NONE = np.uint64(0)
ONE = np.uint64(1)


@inline
def find(keys, begin, m, low, shift, most, directory, bounds, ids, direct, words, out):
    """out[i] = where a filter's table has what it says of keys[begin + i]."""
    if direct.shape[0]:
        last = np.uint64(direct.shape[0] - 1)
        for i in range(m):
            key = np.int64(keys[ix(begin + i)])
            far = NONE if key < low else np.uint64(key) - np.uint64(low)
            out[i] = words * direct[min(far, last)]
    elif most <= PADS:
        last = np.uint64(directory.shape[0] - 2)
        for i in range(m):
            key = np.int64(keys[ix(begin + i)])
            far = NONE if key < low else (np.uint64(key) - np.uint64(low)) >> np.uint64(shift)
            cell = directory[min(far, last)]
            cell += np.int32(bounds[ix(cell)] <= key)
            cell += np.int32(bounds[ix(cell)] <= key)
            cell += np.int32(bounds[ix(cell)] <= key)
            out[i] = words * ids[ix(min(cell, ids.shape[0] - 1))]
    else:
        for i in range(m):
            cell = cell_of(np.int64(keys[ix(begin + i)]), low, shift, directory, bounds)
            out[i] = words * ids[ix(cell)]


@inline
def find_all(filters, n, begin, m, words, at):
    """The same for every filter."""
    for f in range(filters.shape[0]):
        low, shift, most, out = filters[f, LOW], filters[f, SHIFT], filters[f, MOST], at[f]
        directory = int32s_at(filters[f, DIRECTORY], filters[f, PLACES])
        bounds = int64s_at(filters[f, BOUNDS], filters[f, CUTS])
        ids = int32s_at(filters[f, IDS], filters[f, CELLS])
        direct = int32s_at(filters[f, DIRECT], filters[f, DIRECTS])
        if filters[f, NARROW]:
            narrow = int32s_at(filters[f, KEYS], n)
            find(narrow, begin, m, low, shift, most, directory, bounds, ids, direct, words, out)
        else:
            wide = int64s_at(filters[f, KEYS], n)
            find(wide, begin, m, low, shift, most, directory, bounds, ids, direct, words, out)
        if filters[f, VALID] != 0:
            valid = bools_at(filters[f, VALID], n)
            for i in range(m):
                if not valid[ix(begin + i)]:
                    out[i] = 0


@inline
def met(tables, at, i, start, w):
    """What is left of a word when a row has asked all."""
    x = start[w]
    for f in range(tables.shape[0]):
        x &= words_at(tables[f], at[f, i] + w + 1)[at[f, i] + w]
    return x


@inline
def note(x, w, counts):
    """Count the bits of a word."""
    while x != NONE:
        counts[w * 64 + lowest_bit(x)] += 1
        x &= x - ONE


@kernel
def ask_all(filters, tables, n, begin, start, lineage, keep, rows, out, at, alive, planes, counts):
    """Let rows from `begin` on ask every filter, and count what is left; if it is to be `keep`t, in lineage.

    Writes the rows that somebody wants to rows[out …], all of them if nothing is kept, and returns how many there are then. Scratch:
    `at`, `BLOCK` places a filter, and as many flags `alive`.
    """
    words = start.shape[0]
    flat = at.reshape(-1)
    planes[:, :] = NONE
    held = 0
    while begin < n:
        m = min(BLOCK, n - begin)
        find_all(filters, n, begin, m, words, at)
        alive[:] = 0 if keep else 1
        whole = m // 8 * 8
        for i in range(0, whole, 8):
            own = (begin + i) * words
            if words % LANES == 0:
                for w in range(0, words, LANES):
                    meet_vectors(
                        tables,
                        flat,
                        i,
                        start,
                        w,
                        planes,
                        words,
                        BLOCK,
                        tables.shape[0],
                        lineage,
                        own,
                        alive,
                        keep,
                    )
            else:
                for w in range(words):
                    meet_words(
                        tables,
                        flat,
                        i,
                        start,
                        w,
                        planes,
                        words,
                        BLOCK,
                        tables.shape[0],
                        lineage,
                        own,
                        alive,
                        keep,
                    )
            held = added_eight(held, planes, counts)
        for i in range(whole, m):
            for w in range(words):
                x = met(tables, at, i, start, w)
                if keep:
                    lineage[begin + i, w] = x
                    alive[i] |= x != NONE
                note(x, w, counts)
        for i in range(m):
            rows[ix(out)] = begin + i
            out += alive[i] != 0
        begin += m
    put_down(planes, counts)
    return out
