"""`SELECT x FROM a EXCEPT SELECT x FROM b`: values alive in a and not in b, each shown by its youngest copy.

Per value: how many copies live in b, the youngest copy in a, and the expiry of the copy shown (0: none).
Instants hold at most one row a stream. At each: expiries change the counts, then the rows; then the (at most
four) values touched are looked at once, and only the net difference is sent.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.types.memory import room
from penstock_lab.benchmarks import changes
from penstock_lab.benchmarks.workload import Events, Workload
from penstock_lab.reference import Keys, fit, njit, ring_size

PLUS, MINUS = ord("+"), ord("-")
LONG_AGO = np.iinfo(np.int64).min


@njit
def _run(  # type: ignore[no-untyped-def]
    w, ats, ax, bts, bx, values, mark, ring_a, ring_b, live_b, young, shown, touched, sign, ots, oexp, ox
):
    """Values by their numbers, in `ax` and `bx` too; -1 is none."""
    mask = len(ring_a) - 1
    big = np.iinfo(np.int64).max
    a_seq, a_tail, b_seq, b_tail = mark[0], mark[1], mark[2], mark[3]
    n, m, i, j, k = len(ats), len(bts), 0, 0, 0
    while i < n or j < m:
        ta = ats[i] if i < n else big
        tb = bts[j] if j < m else big
        end_a = ring_a[a_tail & mask, 0] + w if a_tail < a_seq else big
        end_b = ring_b[b_tail & mask, 0] + w if b_tail < b_seq else big
        t = min(ta, tb, end_a, end_b)
        gone_a = gone_b = new_a = new_b = np.int64(-1)
        if end_a == t:
            gone_a = ring_a[a_tail & mask, 1]
            a_tail += 1
        if end_b == t:
            gone_b = ring_b[b_tail & mask, 1]
            b_tail += 1
            live_b[gone_b] -= 1
        if ta == t:
            new_a = ax[i]
            ring_a[a_seq & mask, 0] = t
            ring_a[a_seq & mask, 1] = new_a
            young[new_a] = t + w
            a_seq += 1
            i += 1
        if tb == t:
            new_b = bx[j]
            ring_b[b_seq & mask, 0] = t
            ring_b[b_seq & mask, 1] = new_b
            live_b[new_b] += 1
            b_seq += 1
            j += 1
        touched[0], touched[1], touched[2], touched[3] = gone_a, gone_b, new_a, new_b
        # Written out here: as a function of its own it cost 300 ns an instant, arrays being counted when passed.
        for v in touched:
            if v < 0:
                continue
            wanted = live_b[v] == 0 and young[v] > t
            if shown[v] > t:
                if not wanted:
                    sign[k], ots[k], oexp[k], ox[k] = MINUS, t, shown[v], values[v]
                    shown[v] = 0
                    k += 1
            elif wanted:
                sign[k], ots[k], oexp[k], ox[k] = PLUS, t, young[v], values[v]
                shown[v] = young[v]
                k += 1
    mark[0], mark[1], mark[2], mark[3] = a_seq, a_tail, b_seq, b_tail
    return k


class Except:
    """State between pushes."""

    def __init__(self, work: Workload) -> None:
        size = ring_size(work.window)
        self.window = work.window
        self.rings = [np.zeros((size, 2), np.int64) for _ in "ab"]
        self.keys = Keys()
        self.live_b = self.young = self.shown = np.empty(0, np.int64)
        self.mark = np.zeros(4, np.int64)

    def __call__(self, rows: dict[str, Events]) -> list[pa.Table]:
        a, b = rows["a"], rows["b"]
        ids = [self.keys.number(s.x) for s in (a, b)]
        self.live_b = fit(self.live_b, self.keys.room, 0)
        self.young, self.shown = (fit(s, self.keys.room, LONG_AGO) for s in (self.young, self.shown))
        out = [room(2 * (len(a) + len(b)), d) for d in (np.uint8, np.int64, np.int64, np.int32)]
        k = _run(
            self.window, a.ts, ids[0], b.ts, ids[1], self.keys.values, self.mark, *self.rings,
            self.live_b, self.young, self.shown, np.zeros(4, np.int64), *out,
        )  # fmt: skip
        sign, ts, exp, x = (c[:k] for c in out)
        return [changes.table(("x",), changes.signs(sign), ts, exp, x)]
