"""`SELECT x, SUM(y) AS s, AVG(y) AS m FROM a GROUP BY x`: running sums, subtract on expiry (exact on integers).

Every change of a group sends its row; `__exp` is the group's next expiry, so each row knows the next of its
group (`follow`), and each group its oldest (`first`).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.types.memory import room
from penstock_lab.benchmarks import changes
from penstock_lab.benchmarks.workload import Events, Workload
from penstock_lab.reference import Keys, fit, njit, ring_size


@njit
def _run(w, ats, ax, ids, ay, values, mark, ring, follow, first, last, count, total, out):  # type: ignore[no-untyped-def]
    ots, oexp, ox, os, om = out
    mask = len(ring) - 1
    seq, tail = mark[0], mark[1]
    k = 0
    for i in range(len(ats)):
        t, x, y = ats[i], ids[i], ay[i]
        while tail < seq and ring[tail & mask, 0] + w <= t:
            slot = tail & mask
            gone, g = ring[slot, 0] + w, ring[slot, 1]
            tail += 1
            count[g] -= 1
            total[g] -= ring[slot, 2]
            first[g] = follow[slot]
            if count[g] > 0 and not (gone == t and g == x):
                ots[k] = gone
                oexp[k] = ring[follow[slot] & mask, 0] + w
                ox[k] = values[g]
                os[k] = total[g]
                om[k] = total[g] / count[g]
                k += 1
        slot = seq & mask
        ring[slot, 0], ring[slot, 1], ring[slot, 2] = t, x, y
        if count[x] == 0:
            first[x] = seq
        else:
            follow[last[x] & mask] = seq
        last[x] = seq
        count[x] += 1
        total[x] += y
        ots[k] = t
        oexp[k] = ring[first[x] & mask, 0] + w
        ox[k] = ax[i]
        os[k] = total[x]
        om[k] = total[x] / count[x]
        k += 1
        seq += 1
    mark[0], mark[1] = seq, tail
    return k


class SlidingAggregate:
    """State between pushes. Instants hold one row each, so no group changes twice at one instant."""

    def __init__(self, work: Workload) -> None:
        size = ring_size(work.window)
        self.window = work.window
        self.ring = np.zeros((size, 3), np.int64)
        self.follow = np.zeros(size, np.int64)
        self.keys = Keys()
        self.groups = [np.zeros(0, np.int64) for _ in ("first", "last", "count", "total")]
        self.mark = np.zeros(2, np.int64)

    def __call__(self, rows: dict[str, Events]) -> list[pa.Table]:
        a = rows["a"]
        ids = self.keys.number(a.x)
        self.groups = [fit(g, self.keys.room, 0) for g in self.groups]
        out = tuple(room(2 * len(a), d) for d in (np.int64, np.int64, np.int32, np.int64, np.float64))
        k = _run(
            self.window, a.ts, a.x, ids, a.y, self.keys.values, self.mark, self.ring, self.follow,
            *self.groups, out,
        )  # fmt: skip
        return [changes.table(("x", "s", "m"), changes.plus(k), *(c[:k] for c in out))]
