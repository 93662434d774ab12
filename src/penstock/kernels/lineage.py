"""Lineage: per row a bitmap of the queries that still want it, and what is done with many of them at once.

A *group* is a stretch of rows whose bitmaps stay in the cache. Rows of a group are counted from its beginning.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.jit import inline, ix, kernel, lowest_bit, maker

NONE = np.uint64(0)
ONE = np.uint64(1)


@inline
def cell_of(key, low, shift, directory, bounds):
    """How many bounds are not above the key: the cell it lies in. A directory leaves few of them to look at."""
    last = directory.shape[0] - 2
    if key < low:
        a, b = 0, directory[0]
    else:
        at = (np.uint64(key) - np.uint64(low)) >> np.uint64(shift)
        d = last if at > np.uint64(last) else np.int64(at)
        a, b = directory[ix(d)], directory[ix(d + 1)]
    while a < b:
        middle = (a + b) >> 1
        if bounds[ix(middle)] <= key:
            a = middle + 1
        else:
            b = middle
    return a


@kernel
def visit(
    keys, valid, low, shift, directory, bounds, ids, direct, table, mask, rows, fresh, start, lineage, codes
):  # fmt: skip
    """Let rows of a group visit a grouped filter: `lineage &= table[id of the value]` for those it concerns.

    `rows` are the rows alive and become those still alive. `fresh`: their lineage is `start` until now. An id is found in
    `direct` (from `low` on), or else by `bounds`; that of NULL is 0. Returns (rows visited, rows alive); codes[row] is the
    id, 0 where the filter was not needed.
    """
    words = table.shape[1]
    some_null = valid.shape[0] > 0
    n = 0
    visited = 0
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
            key = keys[ix(r)]
            if direct.shape[0]:
                at = NONE if key < low else np.uint64(key) - np.uint64(low)
                id_ = direct[min(at, np.uint64(direct.shape[0] - 1))]
            else:
                id_ = ids[ix(cell_of(key, low, shift, directory, bounds))]
        codes[ix(r)] = id_
        said = table[np.int64(id_)]
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
    return visited, n


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


@inline
def carry(a, b, c):
    """Three bits of each place as their sum: (ones, twos)."""
    u = a ^ b
    return u ^ c, (a & b) | (u & c)


PLANES = 5
BLOCK = 8 * ((1 << PLANES) - 1)
"""Rows after which the eights, counted in so many planes, are full."""


@kernel
def tally(lineage, rows, planes, counts):
    """counts[query] += how many rows want it. Eight rows are summed place by place (carry-save), words side by side.

    `planes` is scratch: 3 + PLANES rows of words.
    """
    words = lineage.shape[1]
    total = rows.shape[0]
    ones, twos, fours = planes[0], planes[1], planes[2]
    done = 0
    while done < total:
        stop = min(done + BLOCK, total)
        planes[:] = NONE
        while done + 8 <= stop:
            r0, r1 = lineage[np.int64(rows[done])], lineage[np.int64(rows[done + 1])]
            r2, r3 = lineage[np.int64(rows[done + 2])], lineage[np.int64(rows[done + 3])]
            r4, r5 = lineage[np.int64(rows[done + 4])], lineage[np.int64(rows[done + 5])]
            r6, r7 = lineage[np.int64(rows[done + 6])], lineage[np.int64(rows[done + 7])]
            for w in range(words):
                one, a = carry(ones[w], r0[w], r1[w])
                one, b = carry(one, r2[w], r3[w])
                two, e = carry(twos[w], a, b)
                one, a = carry(one, r4[w], r5[w])
                one, b = carry(one, r6[w], r7[w])
                ones[w] = one
                two, f = carry(two, a, b)
                twos[w] = two
                four, g = carry(fours[w], e, f)
                fours[w] = four
                h = planes[3, w] & g
                planes[3, w] ^= g
                g = planes[4, w] & h
                planes[4, w] ^= h
                h = planes[5, w] & g
                planes[5, w] ^= g
                g = planes[6, w] & h
                planes[6, w] ^= h
                planes[7, w] ^= g
            done += 8
        for w in range(words):
            for p in range(3 + PLANES):
                x = planes[p, w]
                if x != NONE:
                    for bit in range(64):
                        counts[w * 64 + bit] += np.int64((x >> np.uint64(bit)) & ONE) << p
        while done < stop:
            own = lineage[np.int64(rows[done])]
            for w in range(words):
                x = own[w]
                while x != NONE:
                    counts[w * 64 + lowest_bit(x)] += 1
                    x &= x - ONE
            done += 1


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
