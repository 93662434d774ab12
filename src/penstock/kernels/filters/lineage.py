"""Lineage: per row a bitmap of the queries that still want it, and what is done with many of them at once.

A *group* is a stretch of rows whose bitmaps stay in the cache. Rows of a group are counted from its beginning.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.compile import (
    bit_count,
    bitmaps_at,
    bools_at,
    inline,
    int32s_at,
    int64s_at,
    ix,
    kernel,
    lowest_bit,
    maker,
    words_at,
)
from penstock.kernels.filters.bitmap_vectors import LANES, common, meet
from penstock.kernels.filters.counters import add_eight, added_eight, put_down
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
    MASK,
    NARROW,
    PLACES,
    ROWS,
    SHIFT,
    TABLE,
    VALID,
    id_of,
    look_up,
)

NONE = np.uint64(0)
ONE = np.uint64(1)


SAMPLE = 15
"""One row in so many (and one more) is looked at closely."""


@inline
def objections(own, said, mask):
    """How many of the queries that want a row ask anything here, and how many of them object."""
    asked = np.int64(0)
    killed = np.int64(0)
    for w in range(mask.shape[0]):
        x = own[w] & mask[w]
        asked += bit_count(x)
        killed += bit_count(x & ~said[w])
    return asked, killed


@kernel
def visit(
    keys, valid, low, shift, directory, bounds, ids, direct, table, mask, rows, fresh, start, lineage, codes
):  # fmt: skip
    """Let rows of a group visit a grouped filter: `lineage &= table[id of the value]` for those it concerns.

    `rows` are the rows alive and become those still alive. `fresh`: their lineage is `start` until now. An id is found in
    `direct` (from `low` on), or else by `bounds`; that of NULL is 0. codes[row] is the id, 0 where the filter was not needed.
    Returns (rows visited, rows alive, and of a sample of rows: how many, queries asked for, queries that object).
    """
    words = table.shape[1]
    some_null = valid.shape[0] > 0
    n = 0
    visited = 0
    seen = asked = killed = np.int64(0)
    for i in range(rows.shape[0]):
        r = np.int64(rows[ix(i)])
        own = lineage[r]
        needed = fresh
        w = 0
        while not needed and w < words:
            needed = (own[ix(w)] & mask[ix(w)]) != NONE
            w += 1
        if not needed:
            codes[ix(r)] = 0
            rows[ix(n)] = r
            n += 1
            continue
        visited += 1
        if some_null and not valid[ix(r)]:
            id_ = np.int32(0)
        else:
            id_ = look_up(keys[ix(r)], low, shift, directory, bounds, ids, direct)
        codes[ix(r)] = id_
        said = table[np.int64(id_)]
        if r & SAMPLE == 0:
            a, k = objections(start if fresh else own, said, mask)
            seen += 1
            asked += a
            killed += k
        left = NONE
        if fresh:
            for w in range(words):
                x = start[w] & said[w]
                own[w] = x
                left |= x
        else:
            for w in range(words):
                x = own[w] & said[w]
                own[w] = x
                left |= x
        if left != NONE:
            rows[ix(n)] = r
            n += 1
    return visited, n, seen, asked, killed


@kernel
def pass_through(filters, orders, size, start, lineage, keep, block, rows, stats, planes, counts):
    """Let rows visit all filters, in blocks that stay in the first-level cache; count who wants them.

    The last row of lineage is empty; the others are for rows, all of them if `keep`, else those of a `block`. Group g of `size` rows goes in the order orders[g]. Writes the rows that somebody wants to `rows`; returns how many.
    stats[filter] counts (rows visited, rows dropped, and of a sample: rows, queries asked for, queries that object).
    """
    n = rows.shape[0]
    words = start.shape[0]
    vectors = words // LANES * LANES
    empty = lineage.shape[0] - 1
    lineage[empty, :] = NONE
    planes[:, :] = NONE
    held = 0
    out = 0
    begin = 0
    while begin < n:
        group = begin // size
        stop = min(begin + block, n, (group + 1) * size)
        base = begin if keep else 0
        m = stop - begin
        for i in range(m):
            rows[out + i] = begin + i
        fresh = True
        for k in range(orders.shape[1]):
            f = orders[group, k]
            narrow = filters[f, NARROW] != 0
            keys, narrow_keys = int64s_at(filters[f, KEYS], n), int32s_at(filters[f, KEYS], n)
            some_null = filters[f, VALID] != 0
            valid = bools_at(filters[f, VALID], n)
            low, shift = filters[f, LOW], filters[f, SHIFT]
            directory = int32s_at(filters[f, DIRECTORY], filters[f, PLACES])
            bounds = int64s_at(filters[f, BOUNDS], filters[f, CUTS])
            ids = int32s_at(filters[f, IDS], filters[f, CELLS])
            direct = int32s_at(filters[f, DIRECT], filters[f, DIRECTS])
            table = bitmaps_at(filters[f, TABLE], filters[f, ROWS], words)
            mask = words_at(filters[f, MASK], words)
            left_over = 0
            visited = 0
            for i in range(m):
                r = np.int64(rows[ix(out + i)])
                own = lineage[r - begin + base]
                at_own = (r - begin + base) * words
                needed = fresh
                w = 0
                while not needed and w < vectors:
                    needed = common(lineage, at_own + w, mask, w) != NONE
                    w += LANES
                while not needed and w < words:
                    needed = (own[ix(w)] & mask[ix(w)]) != NONE
                    w += 1
                if not needed:
                    rows[ix(out + left_over)] = r
                    left_over += 1
                    continue
                visited += 1
                key = np.int64(narrow_keys[ix(r)]) if narrow else keys[ix(r)]
                if some_null and not valid[ix(r)]:
                    id_ = np.int32(0)
                else:
                    id_ = look_up(key, low, shift, directory, bounds, ids, direct)
                said = table[np.int64(id_)]
                if r & SAMPLE == 0:
                    asked, killed = objections(start if fresh else own, said, mask)
                    stats[f, 2] += 1
                    stats[f, 3] += asked
                    stats[f, 4] += killed
                left = NONE
                at_said = np.int64(id_) * words
                if fresh:
                    for w in range(0, vectors, LANES):
                        left |= meet(lineage, at_own + w, start, w, table, at_said + w)
                    for w in range(vectors, words):
                        x = start[w] & said[w]
                        own[w] = x
                        left |= x
                else:
                    for w in range(0, vectors, LANES):
                        left |= meet(lineage, at_own + w, lineage, at_own + w, table, at_said + w)
                    for w in range(vectors, words):
                        x = own[w] & said[w]
                        own[w] = x
                        left |= x
                if left != NONE:
                    rows[ix(out + left_over)] = r
                    left_over += 1
            stats[f, 0] += visited
            stats[f, 1] += m - left_over
            m = left_over
            fresh = False
            if m == 0:
                break
        if fresh:
            for i in range(m):
                for w in range(words):
                    lineage[base + i, w] = start[w]
        for i in range(0, m, 8):
            add_eight(lineage, rows, out + i, out + m, base - begin, empty, planes)
            held = added_eight(held, planes, counts)
        out += m
        begin = stop
    put_down(planes, counts)
    return out


@kernel
def pass_few(filters, first, starts, listed, orders, size, start, rows, stats, where, bits, counts):
    """`pass_through` where values of filter `first` leave few words with any query: only those are looked at.

    Words of id i that have a bit are listed[starts[i] : starts[i + 1]]. `where` and `bits` are scratch, one entry a word.
    """
    n = rows.shape[0]
    words = start.shape[0]
    table = bitmaps_at(filters[first, TABLE], filters[first, ROWS], words)
    out = 0
    for r in range(n):
        id_ = id_of(filters, first, r, n)
        m = 0
        for j in range(starts[ix(id_)], starts[ix(id_ + 1)]):
            w = listed[ix(j)]
            x = table[ix(id_), ix(w)] & start[ix(w)]
            if x != NONE:
                where[m] = w
                bits[m] = x
                m += 1
        stats[first, 0] += 1
        stats[first, 1] += m == 0
        group = r // size
        for k in range(orders.shape[1]):
            f = orders[group, k]
            if m == 0:
                break
            if f == first:
                continue
            mask = words_at(filters[f, MASK], words)
            needed = False
            for i in range(m):
                needed |= (bits[i] & mask[ix(where[i])]) != NONE
            if not needed:
                continue
            said = bitmaps_at(filters[f, TABLE], filters[f, ROWS], words)[ix(id_of(filters, f, r, n))]
            stats[f, 0] += 1
            left = 0
            for i in range(m):
                x = bits[i] & said[ix(where[i])]
                if x != NONE:
                    where[left] = where[i]
                    bits[left] = x
                    left += 1
            m = left
            stats[f, 1] += m == 0
        if m:
            rows[out] = r
            out += 1
        for i in range(m):
            x = bits[i]
            while x != NONE:
                counts[where[i] * 64 + lowest_bit(x)] += 1
                x &= x - ONE
    return out


@maker
def concerned(lineage, rows, mask):
    """Which of the rows some query in `mask` still wants."""
    out = np.zeros(rows.shape[0], np.bool_)
    for i in range(rows.shape[0]):
        own = lineage[np.int64(rows[i])]
        for w in range(mask.shape[0]):
            if own[w] & mask[w] != NONE:
                out[i] = True
                break
    return out


@kernel
def permit(table, codes, rows, plane):
    """`plane |= table[code]`: what a filter says of clauses that one of several filters may satisfy."""
    words = table.shape[1]
    for i in range(rows.shape[0]):
        r = np.int64(rows[ix(i)])
        said, own = table[np.int64(codes[ix(r)])], plane[r]
        for w in range(words):
            own[w] |= said[w]


@kernel
def require(plane, rows, lineage):
    """`lineage &= plane`; returns how many rows stay alive, which `rows` become."""
    words = lineage.shape[1]
    n = 0
    for i in range(rows.shape[0]):
        r = np.int64(rows[ix(i)])
        own, there = lineage[r], plane[r]
        left = NONE
        for w in range(words):
            x = own[w] & there[w]
            own[w] = x
            left |= x
        if left != NONE:
            rows[ix(n)] = r
            n += 1
    return n


@kernel
def tally(lineage, rows, planes, counts):
    """counts[query] += how many rows want it; `planes` are scratch (`kernels.filters.counters`)."""
    planes[:, :] = NONE
    held = 0
    whole = rows.shape[0] // 8 * 8
    for i in range(0, whole, 8):
        add_eight(lineage, rows, i, whole, 0, 0, planes)
        held = added_eight(held, planes, counts)
    put_down(planes, counts)
    for i in range(whole, rows.shape[0]):
        own = lineage[np.int64(rows[i])]
        for w in range(own.shape[0]):
            x = own[w]
            while x != NONE:
                counts[w * 64 + lowest_bit(x)] += 1
                x &= x - ONE


@kernel
def first_bits(lineage, rows, owners, levels, out):
    """By row and owner what its first bit says: out[owner, row] = level. Bits of an owner are in the order of their levels."""
    words = lineage.shape[1]
    for i in range(rows.shape[0]):
        r = np.int64(rows[ix(i)])
        own = lineage[r]
        for w in range(words):
            x = own[w]
            while x != NONE:
                q = w * 64 + lowest_bit(x)
                out[ix(owners[ix(q)]), ix(r)] = min(out[ix(owners[ix(q)]), ix(r)], levels[ix(q)])
                x &= x - ONE


@kernel
def split(lineage, rows, wanted, at, out):
    """Row numbers by query: out[at[query]] = row, for every wanted bit that is set; `at` moves on."""
    words = lineage.shape[1]
    for i in range(rows.shape[0]):
        r = np.int64(rows[ix(i)])
        own = lineage[r]
        for w in range(words):
            x = own[w] & wanted[w]
            while x != NONE:
                q = w * 64 + lowest_bit(x)
                out[ix(at[ix(q)])] = r
                at[ix(q)] += 1
                x &= x - ONE
