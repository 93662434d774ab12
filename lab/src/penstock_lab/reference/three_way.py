"""`SELECT a.x, a.y, b.y AS p, c.x AS q FROM a, b, c WHERE a.x = b.x AND a.y = c.y`, equal windows.

The selective pair a ⋈ c is kept, chained by x, because twenty of its rows stand for ten thousand of a's:
an arrival of b then walks a quarter of a row instead of five rows and five probes of c.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.types.memory import room
from penstock_lab.benchmarks import changes
from penstock_lab.benchmarks.workload import Events, Workload
from penstock_lab.reference import PIECE, Keys, fit, njit, ring_size

MARGIN = 1 << 14
"""Room that one arrival's results never exceed; the loop stops before it is touched."""

PAIRS, PAIR_MARGIN = 1 << 14, 1 << 12
"""The ring of pairs to begin with, and the same kind of room in it."""


@njit
def _pairs(t, lo, x, y, q, s, b_tail, b_ring, b_chain, b_mask, w, out, k):  # type: ignore[no-untyped-def]
    """Results of one new pair (a, c) with every live b of the chain from `s` on."""
    ots, oexp, ox, oy, op, oq = out
    while s >= b_tail:
        slot = s & b_mask
        ots[k] = t
        oexp[k] = min(lo, b_ring[slot, 0]) + w
        ox[k] = x
        oy[k] = y
        op[k] = b_ring[slot, 1]
        oq[k] = q
        k += 1
        s = b_chain[slot]
    return k


@njit
def _run(w, a, b, c, x_values, y_values, at, mark, rings, chains, heads, pair, pair_chain, pair_head, out):  # type: ignore[no-untyped-def]
    ats, ax, ay, a_xid, a_yid = a
    bts, by, b_xid = b
    cts, cx, c_yid = c
    ra, rb, rc = rings
    an, bn, cn = chains
    ah, bh, ch = heads
    ots, oexp, ox, oy, op, oq = out
    mask = len(an) - 1
    pmask = len(pair_chain) - 1
    na, nb, nc, room = len(ats), len(bts), len(cts), len(ots) - MARGIN
    i, j, m = at[0], at[1], at[2]
    a_seq, b_seq, c_seq, p_seq = mark[0], mark[1], mark[2], mark[3]
    a_tail, b_tail, c_tail, p_tail = mark[4], mark[5], mark[6], mark[7]
    big = np.iinfo(np.int64).max
    pair_room = len(pair_chain) - PAIR_MARGIN
    k = 0
    while k < room and p_seq - p_tail < pair_room:
        ta = ats[i] if i < na else big
        tb = bts[j] if j < nb else big
        tc = cts[m] if m < nc else big
        t = min(ta, tb, tc)
        if t == big:
            break
        edge = t - w
        if ta == t:
            while b_tail < b_seq and rb[b_tail & mask, 0] <= edge:
                b_tail += 1
            while c_tail < c_seq and rc[c_tail & mask, 0] <= edge:
                c_tail += 1
            x, y, g, h = ax[i], ay[i], a_xid[i], a_yid[i]
            s = ch[h]
            while s >= c_tail:
                slot = s & mask
                lo, q = rc[slot, 0], rc[slot, 1]
                p = p_seq & pmask
                pair[p, 0], pair[p, 1], pair[p, 2], pair[p, 3] = t, lo, y, q
                pair_chain[p] = pair_head[g]
                pair_head[g] = p_seq
                p_seq += 1
                k = _pairs(t, lo, x, y, q, bh[g], b_tail, rb, bn, mask, w, out, k)
                s = cn[slot]
            slot = a_seq & mask
            ra[slot, 0] = t
            ra[slot, 1] = g
            an[slot] = ah[h]
            ah[h] = a_seq
            a_seq += 1
            i += 1
        elif tb == t:
            while p_tail < p_seq and pair[p_tail & pmask, 0] <= edge:
                p_tail += 1
            y, g = by[j], b_xid[j]
            s = pair_head[g]
            while s >= p_tail:
                slot = s & pmask
                if pair[slot, 1] > edge:
                    ots[k] = t
                    oexp[k] = pair[slot, 1] + w
                    ox[k] = x_values[g]
                    oy[k] = pair[slot, 2]
                    op[k] = y
                    oq[k] = pair[slot, 3]
                    k += 1
                s = pair_chain[slot]
            slot = b_seq & mask
            rb[slot, 0] = t
            rb[slot, 1] = y
            bn[slot] = bh[g]
            bh[g] = b_seq
            b_seq += 1
            j += 1
        else:
            while a_tail < a_seq and ra[a_tail & mask, 0] <= edge:
                a_tail += 1
            while b_tail < b_seq and rb[b_tail & mask, 0] <= edge:
                b_tail += 1
            q, h = cx[m], c_yid[m]
            y = y_values[h]
            s = ah[h]
            while s >= a_tail:
                slot = s & mask
                lo, g = ra[slot, 0], ra[slot, 1]
                p = p_seq & pmask
                pair[p, 0], pair[p, 1], pair[p, 2], pair[p, 3] = t, lo, y, q
                pair_chain[p] = pair_head[g]
                pair_head[g] = p_seq
                p_seq += 1
                k = _pairs(t, lo, x_values[g], y, q, bh[g], b_tail, rb, bn, mask, w, out, k)
                s = an[slot]
            slot = c_seq & mask
            rc[slot, 0] = t
            rc[slot, 1] = q
            cn[slot] = ch[h]
            ch[h] = c_seq
            c_seq += 1
            m += 1
    at[0], at[1], at[2] = i, j, m
    mark[0], mark[1], mark[2], mark[3] = a_seq, b_seq, c_seq, p_seq
    mark[4], mark[5], mark[6], mark[7] = a_tail, b_tail, c_tail, p_tail
    return k


class ThreeWay:
    """State between pushes: a and c chained by y, b and the pairs a ⋈ c chained by x."""

    def __init__(self, work: Workload) -> None:
        size = ring_size(work.window)
        self.window = work.window
        self.rings = tuple(np.zeros((size, 2), np.int64) for _ in "abc")
        self.chains = tuple(np.full(size, -1, np.int64) for _ in "abc")
        self.xs, self.ys = Keys(), Keys()
        self.heads = tuple(np.empty(0, np.int64) for _ in range(3))
        self.pair = np.zeros((PAIRS, 4), np.int64)
        self.pair_chain = np.full(PAIRS, -1, np.int64)
        self.pair_head = np.empty(0, np.int64)
        self.mark = np.zeros(8, np.int64)

    def __call__(self, rows: dict[str, Events]) -> list[pa.Table]:
        return list(self._pieces(*(rows[n] for n in "abc")))

    def _pieces(self, a: Events, b: Events, c: Events) -> Iterator[pa.Table]:
        streams = (
            (a.ts, a.x, a.y, self.xs.number(a.x), self.ys.number(a.y)),
            (b.ts, b.y, self.xs.number(b.x)),
            (c.ts, c.x, self.ys.number(c.y)),
        )
        at = np.zeros(3, np.int64)
        rooms = [keys.room for keys in (self.ys, self.xs, self.ys)]
        self.heads = tuple(fit(h, room, -1) for h, room in zip(self.heads, rooms, strict=True))
        self.pair_head = fit(self.pair_head, self.xs.room, -1)
        while at.sum() < len(a) + len(b) + len(c):
            out = tuple(room(PIECE, d) for d in (np.int64, np.int64, *[np.int32] * 4))
            k = _run(
                self.window, *streams, self.xs.values, self.ys.values, at, self.mark,
                self.rings, self.chains, self.heads, self.pair, self.pair_chain, self.pair_head, out,
            )  # fmt: skip
            yield changes.table(("x", "y", "p", "q"), changes.plus(k), *(col[:k] for col in out))
            self._fit_pairs()

    def _fit_pairs(self) -> None:
        """Twice the ring if the loop stopped for want of room in it."""
        head, tail, size = int(self.mark[3]), int(self.mark[7]), len(self.pair)
        if head - tail < size - PAIR_MARGIN:
            return
        live = np.arange(tail, head)
        pair, chain = np.zeros((2 * size, 4), np.int64), np.full(2 * size, -1, np.int64)
        pair[live & (2 * size - 1)] = self.pair[live & (size - 1)]
        chain[live & (2 * size - 1)] = self.pair_chain[live & (size - 1)]
        self.pair, self.pair_chain = pair, chain
