"""`SELECT a.x, a.y AS p, b.y AS q FROM a, b WHERE a.x = b.x`, both windows equal: two rings, two chains."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.types.memory import room
from penstock_lab.benchmarks import changes
from penstock_lab.benchmarks.workload import Events, Workload
from penstock_lab.reference import PIECE, Keys, fit, njit, ring_size


@njit
def _join(  # type: ignore[no-untyped-def]
    w,
    ats,
    ax,
    ida,
    ay,
    bts,
    bx,
    idb,
    by,
    i,
    j,
    at,
    bt,
    ra,
    rb,
    an,
    bn,
    ahead,
    bhead,
    mark,
    ots,
    oexp,
    ox,
    op,
    oq,
):
    mask = len(an) - 1
    na, nb, room = len(ats), len(bts), len(ots)
    a_seq, b_seq = mark[0], mark[1]
    k = 0
    while i < na or j < nb:
        if j >= nb or (i < na and ats[i] <= bts[j]):
            t = ats[i]
            while bt < b_seq and rb[bt & mask, 0] + w <= t:
                bt += 1
            if k + (b_seq - bt) > room and k + _length(bhead[ida[i]], bt, bn, mask) > room:
                break
            x, y, g = ax[i], ay[i], ida[i]
            s = bhead[g]
            while s >= bt:
                slot = s & mask
                ots[k] = t
                oexp[k] = rb[slot, 0] + w
                ox[k] = x
                op[k] = y
                oq[k] = rb[slot, 1]
                k += 1
                s = bn[slot]
            slot = a_seq & mask
            ra[slot, 0] = t
            ra[slot, 1] = y
            an[slot] = ahead[g]
            ahead[g] = a_seq
            a_seq += 1
            i += 1
        else:
            t = bts[j]
            while at < a_seq and ra[at & mask, 0] + w <= t:
                at += 1
            if k + (a_seq - at) > room and k + _length(ahead[idb[j]], at, an, mask) > room:
                break
            x, y, g = bx[j], by[j], idb[j]
            s = ahead[g]
            while s >= at:
                slot = s & mask
                ots[k] = t
                oexp[k] = ra[slot, 0] + w
                ox[k] = x
                op[k] = ra[slot, 1]
                oq[k] = y
                k += 1
                s = an[slot]
            slot = b_seq & mask
            rb[slot, 0] = t
            rb[slot, 1] = y
            bn[slot] = bhead[g]
            bhead[g] = b_seq
            b_seq += 1
            j += 1
    mark[0], mark[1] = a_seq, b_seq
    return i, j, at, bt, k


@njit
def _length(s, tail, chain, mask):  # type: ignore[no-untyped-def]
    n = 0
    while s >= tail:
        n += 1
        s = chain[s & mask]
    return n


class WindowJoin:
    """State between pushes."""

    def __init__(self, work: Workload) -> None:
        size = ring_size(work.window)
        self.window = work.window
        self.rings = [np.zeros((size, 2), np.int64) for _ in "ab"]
        self.chains = [np.full(size, -1, np.int64) for _ in "ab"]
        self.keys = Keys()
        self.heads = [np.empty(0, np.int64) for _ in "ab"]
        self.mark = np.zeros(2, np.int64)
        self.tails = (0, 0)

    def __call__(self, rows: dict[str, Events]) -> list[pa.Table]:
        return list(self._pieces(rows["a"], rows["b"]))

    def _pieces(self, a: Events, b: Events) -> Iterator[pa.Table]:
        ida, idb = self.keys.number(a.x), self.keys.number(b.x)
        self.heads = [fit(h, self.keys.room, -1) for h in self.heads]
        i = j = 0
        while i < len(a) or j < len(b):
            out = [room(PIECE, d) for d in (np.int64, np.int64, np.int32, np.int32, np.int32)]
            i, j, at, bt, k = _join(
                self.window, a.ts, a.x, ida, a.y, b.ts, b.x, idb, b.y, i, j, *self.tails,
                *self.rings, *self.chains, *self.heads, self.mark, *out,
            )  # fmt: skip
            self.tails = (at, bt)
            yield changes.table(("x", "p", "q"), changes.plus(k), *(c[:k] for c in out))
