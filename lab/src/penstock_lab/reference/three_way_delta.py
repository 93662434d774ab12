"""The three-way join again, without a kept pair: every arrival walks the other two streams.

What the engine's default path does, in one compiled loop, and so what the engine is held against. The program that
keeps a ⋈ c is faster on this data; its number is reported too.
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


@njit
def _run(w, a, b, c, x_values, y_values, at, mark, rings, chains, heads, out):  # type: ignore[no-untyped-def]
    ats, ax, ay, a_xid, a_yid = a
    bts, by, b_xid = b
    cts, cx, c_yid = c
    ra, rb, rc = rings
    a_by_x, a_by_y, b_by_x, c_by_y = chains
    ax_head, ay_head, b_head, c_head = heads
    ots, oexp, ox, oy, op, oq = out
    mask = len(b_by_x) - 1
    na, nb, nc, room = len(ats), len(bts), len(cts), len(ots) - MARGIN
    i, j, m = at[0], at[1], at[2]
    a_seq, b_seq, c_seq = mark[0], mark[1], mark[2]
    a_tail, b_tail, c_tail = mark[3], mark[4], mark[5]
    big = np.iinfo(np.int64).max
    k = 0
    while k < room:
        ta = ats[i] if i < na else big
        tb = bts[j] if j < nb else big
        tc = cts[m] if m < nc else big
        t = min(ta, tb, tc)
        if t == big:
            break
        edge = t - w
        while a_tail < a_seq and ra[a_tail & mask, 0] <= edge:
            a_tail += 1
        while b_tail < b_seq and rb[b_tail & mask, 0] <= edge:
            b_tail += 1
        while c_tail < c_seq and rc[c_tail & mask, 0] <= edge:
            c_tail += 1
        if ta == t:
            x, y, g, h = ax[i], ay[i], a_xid[i], a_yid[i]
            r = c_head[h]
            while r >= c_tail:
                s = b_head[g]
                while s >= b_tail:
                    ots[k] = t
                    oexp[k] = min(rb[s & mask, 0], rc[r & mask, 0]) + w
                    ox[k], oy[k], op[k], oq[k] = x, y, rb[s & mask, 1], rc[r & mask, 1]
                    k += 1
                    s = b_by_x[s & mask]
                r = c_by_y[r & mask]
            slot = a_seq & mask
            ra[slot, 0], ra[slot, 1], ra[slot, 2] = t, g, h
            a_by_x[slot], a_by_y[slot] = ax_head[g], ay_head[h]
            ax_head[g] = ay_head[h] = a_seq
            a_seq += 1
            i += 1
        elif tb == t:
            p, g = by[j], b_xid[j]
            s = ax_head[g]
            while s >= a_tail:
                h = ra[s & mask, 2]
                r = c_head[h]
                while r >= c_tail:
                    ots[k] = t
                    oexp[k] = min(ra[s & mask, 0], rc[r & mask, 0]) + w
                    ox[k], oy[k], op[k], oq[k] = x_values[g], y_values[h], p, rc[r & mask, 1]
                    k += 1
                    r = c_by_y[r & mask]
                s = a_by_x[s & mask]
            slot = b_seq & mask
            rb[slot, 0], rb[slot, 1] = t, p
            b_by_x[slot] = b_head[g]
            b_head[g] = b_seq
            b_seq += 1
            j += 1
        else:
            q, h = cx[m], c_yid[m]
            r = ay_head[h]
            while r >= a_tail:
                g = ra[r & mask, 1]
                s = b_head[g]
                while s >= b_tail:
                    ots[k] = t
                    oexp[k] = min(ra[r & mask, 0], rb[s & mask, 0]) + w
                    ox[k], oy[k], op[k], oq[k] = x_values[g], y_values[h], rb[s & mask, 1], q
                    k += 1
                    s = b_by_x[s & mask]
                r = a_by_y[r & mask]
            slot = c_seq & mask
            rc[slot, 0], rc[slot, 1] = t, q
            c_by_y[slot] = c_head[h]
            c_head[h] = c_seq
            c_seq += 1
            m += 1
    at[0], at[1], at[2] = i, j, m
    mark[0], mark[1], mark[2] = a_seq, b_seq, c_seq
    mark[3], mark[4], mark[5] = a_tail, b_tail, c_tail
    return k


class ThreeWayDelta:
    """State between pushes: a chained by x and by y, b by x, c by y."""

    def __init__(self, work: Workload) -> None:
        size = ring_size(work.window)
        self.window = work.window
        self.rings = tuple(np.zeros((size, width), np.int64) for width in (3, 2, 2))
        self.chains = tuple(np.full(size, -1, np.int64) for _ in range(4))
        self.xs, self.ys = Keys(), Keys()
        self.heads = tuple(np.empty(0, np.int64) for _ in range(4))
        self.mark = np.zeros(6, np.int64)

    def __call__(self, rows: dict[str, Events]) -> list[pa.Table]:
        return list(self._pieces(*(rows[n] for n in "abc")))

    def _pieces(self, a: Events, b: Events, c: Events) -> Iterator[pa.Table]:
        streams = (
            (a.ts, a.x, a.y, self.xs.number(a.x), self.ys.number(a.y)),
            (b.ts, b.y, self.xs.number(b.x)),
            (c.ts, c.x, self.ys.number(c.y)),
        )
        at = np.zeros(3, np.int64)
        rooms = [keys.room for keys in (self.xs, self.ys, self.xs, self.ys)]
        self.heads = tuple(fit(h, room, -1) for h, room in zip(self.heads, rooms, strict=True))
        while at.sum() < len(a) + len(b) + len(c):
            out = tuple(room(PIECE, d) for d in (np.int64, np.int64, *[np.int32] * 4))
            k = _run(
                self.window, *streams, self.xs.values, self.ys.values, at, self.mark,
                self.rings, self.chains, self.heads, out,
            )  # fmt: skip
            yield changes.table(("x", "y", "p", "q"), changes.plus(k), *(col[:k] for col in out))
