"""How grouped filters lie in memory for kernels, and how a value is looked up in one.

A value lies in a *cell* between two bounds; a cell has an id, which is a row of the filter's table.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.compile import bools_at, inline, int32s_at, int64s_at, ix, kernel

NONE = np.uint64(0)

(
    KEYS, NARROW, VALID, LOW, SHIFT, MOST, DIRECTORY, PLACES, BOUNDS, CUTS, IDS, CELLS, DIRECT, DIRECTS, TABLE, ROWS, MASK,
) = range(17)  # fmt: skip
FIELDS = 17
"""Of a filter: addresses of its arrays, each before its length if that is not told otherwise, and numbers. Kernels take arrays of
one kind and number, and filters are as many as there are. NARROW: keys have 32 bits, not 64. MOST: bounds that one
place of the directory leaves to look at."""
PADS = 3
"""Entries behind the bounds, greater than all values but one: so many bounds may be passed unasked."""


@inline
def cell_of(key, low, shift, directory, bounds):
    """How many bounds (but for the pads) are not above the key: the cell it lies in.

    A directory leaves one of them to look at, seldom more: a loop that ends now here and now there costs more than it saves.
    """
    last = directory.shape[0] - 2
    far = np.uint64(0) if key < low else (np.uint64(key) - np.uint64(low)) >> np.uint64(shift)
    d = ix(min(far, np.uint64(last)))
    a, b = np.int64(directory[d]), np.int64(directory[d + np.uint64(1)])
    several = b - a > 1
    a += (a < bounds.shape[0] - PADS) & (bounds[ix(a)] <= key)
    if several:
        while a < b:
            middle = (a + b) >> 1
            if bounds[ix(middle)] <= key:
                a = middle + 1
            else:
                b = middle
    return a


@inline
def look_up(key, low, shift, directory, bounds, ids, direct):
    """The id of a value: found in `direct` (from `low` on) if there is such a thing, or else by `bounds`."""
    if direct.shape[0]:
        at = NONE if key < low else np.uint64(key) - np.uint64(low)
        return direct[min(at, np.uint64(direct.shape[0] - 1))]
    return ids[ix(cell_of(key, low, shift, directory, bounds))]


@kernel
def look_up_all(keys, valid, low, shift, directory, bounds, ids, direct, out):
    """The ids of values; that of NULL is 0."""
    some_null = valid.shape[0] > 0
    for i in range(keys.shape[0]):
        if some_null and not valid[i]:
            out[i] = 0
        else:
            out[i] = look_up(keys[i], low, shift, directory, bounds, ids, direct)


@inline
def id_of(filters, f, r, n):
    """The id of a row's value in a filter."""
    if filters[f, VALID] != 0 and not bools_at(filters[f, VALID], n)[ix(r)]:
        return np.int64(0)
    if filters[f, NARROW]:
        key = np.int64(int32s_at(filters[f, KEYS], n)[ix(r)])
    else:
        key = int64s_at(filters[f, KEYS], n)[ix(r)]
    directory = int32s_at(filters[f, DIRECTORY], filters[f, PLACES])
    bounds = int64s_at(filters[f, BOUNDS], filters[f, CUTS])
    ids = int32s_at(filters[f, IDS], filters[f, CELLS])
    direct = int32s_at(filters[f, DIRECT], filters[f, DIRECTS])
    return np.int64(look_up(key, filters[f, LOW], filters[f, SHIFT], directory, bounds, ids, direct))
