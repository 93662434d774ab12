"""The walk of a join of two edges with one index each: what `kernels.join.chains` looks up per row is known beforehand."""

from __future__ import annotations

import numpy as np

from penstock.kernels.compile import inline, ix, kernel, prefetch
from penstock.kernels.hash.mix import spread
from penstock.kernels.join.chains import BASE, BLOCK, CELLS, FEW, HEADS, SHIFT, TAIL, TURNS


@inline
def look_ahead(
    begin, end, sides, slots, l_base, l_tail, l_heads, l_shift, r_base, r_tail, r_heads, r_shift, rows, halves, head, cursor
):  # fmt: skip
    """Bring what rows [begin, end) will meet into the cache, as `chains.look_ahead` does."""
    for e in range(begin, end):
        is_left = sides[ix(e)] == 0
        k = rows[ix((l_base if is_left else r_base) + 3 * np.int64(slots[ix(e)]) + 1)]
        left = l_heads + CELLS * np.int64(spread(k, l_shift))
        right = r_heads + CELLS * np.int64(spread(k, r_shift))
        prefetch(head, left)
        prefetch(head, right)
        cursor[0, ix(e - begin)] = right if is_left else left
        cursor[1, ix(e - begin)] = r_base if is_left else l_base
        cursor[2, ix(e - begin)] = r_tail if is_left else l_tail
    on = 0
    for j in range(end - begin):
        s = np.int64(head[ix(cursor[0, ix(j)])])
        base, tail = cursor[1, ix(j)], cursor[2, ix(j)]
        cursor[0, ix(on)], cursor[1, ix(on)], cursor[2, ix(on)] = base + 3 * s, base, tail
        is_live = s >= tail
        prefetch(rows, base + 3 * s if is_live else 0)
        on += is_live
    rounds = 0
    while on > FEW and rounds < TURNS:
        rounds += 1
        before = on
        on = 0
        for j in range(before):
            s = np.int64(halves[ix(2 * cursor[0, ix(j)] + 4)])
            base, tail = cursor[1, ix(j)], cursor[2, ix(j)]
            cursor[0, ix(on)], cursor[1, ix(on)], cursor[2, ix(on)] = base + 3 * s, base, tail
            is_live = s >= tail
            prefetch(rows, base + 3 * s if is_live else 0)
            on += is_live


@kernel
def walk(
    begin, n, times, sides, slots, edges, indexes, rows, halves, head, far, cursor, out_ts, out_exp, out_slot
):  # fmt: skip
    """`chains.walk` for two edges."""
    room = out_ts.shape[0]
    l_base, l_tail, l_heads, l_shift = (
        edges[0, BASE],
        edges[0, TAIL],
        indexes[0, HEADS],
        indexes[0, SHIFT],
    )
    r_base, r_tail, r_heads, r_shift = (
        edges[1, BASE],
        edges[1, TAIL],
        indexes[1, HEADS],
        indexes[1, SHIFT],
    )
    out_l, out_r = out_slot[0], out_slot[1]
    ahead = begin if far else times.shape[0]
    for e in range(begin, times.shape[0]):
        if e == ahead:
            ahead = min(e + BLOCK, times.shape[0])
            look_ahead(
                e, ahead, sides, slots, l_base, l_tail, l_heads, l_shift, r_base, r_tail, r_heads, r_shift, rows, halves, head, cursor
            )  # fmt: skip
        t = times[ix(e)]
        slot = np.int64(slots[ix(e)])
        mark = n
        if sides[ix(e)] == 0:
            own = l_base + 3 * slot
            end, k = rows[ix(own)], rows[ix(own + 1)]
            s = np.int64(head[ix(r_heads + CELLS * np.int64(spread(k, r_shift)))])
            while s >= r_tail:
                p = r_base + 3 * s
                x = rows[ix(p)]
                if x <= t:
                    break
                if rows[ix(p + 1)] == k:
                    if n == room:
                        return e, mark
                    out_ts[ix(n)] = t
                    out_exp[ix(n)] = min(end, x)
                    out_l[ix(n)] = slot
                    out_r[ix(n)] = s
                    n += 1
                s = np.int64(halves[ix(2 * p + 4)])
            b = l_heads + CELLS * np.int64(spread(k, l_shift))
        else:
            own = r_base + 3 * slot
            end, k = rows[ix(own)], rows[ix(own + 1)]
            s = np.int64(head[ix(l_heads + CELLS * np.int64(spread(k, l_shift)))])
            while s >= l_tail:
                p = l_base + 3 * s
                x = rows[ix(p)]
                if x <= t:
                    break
                if rows[ix(p + 1)] == k:
                    if n == room:
                        return e, mark
                    out_ts[ix(n)] = t
                    out_exp[ix(n)] = min(end, x)
                    out_l[ix(n)] = s
                    out_r[ix(n)] = slot
                    n += 1
                s = np.int64(halves[ix(2 * p + 4)])
            b = r_heads + CELLS * np.int64(spread(k, r_shift))
        halves[ix(2 * own + 4)] = head[ix(b)]
        head[ix(b)] = slot
    return times.shape[0], n
