"""`SELECT DISTINCT x FROM a`: per value the copy shown and the youngest; the window's ring says what expires."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.types.memory import room
from penstock_lab.benchmarks import changes
from penstock_lab.benchmarks.workload import Events, Workload
from penstock_lab.reference import Keys, fit, njit, ring_size


@njit
def _run(w, ats, ids, values, mark, ring, shown, youngest, ots, oexp, ox):  # type: ignore[no-untyped-def]
    """Sequence numbers in `shown` and `youngest`; `ring` holds ts and the value's number.

    An instant's expiries come before its rows, yet a successor is chosen after them: so a value whose shown
    copy ends is only marked as not shown (-1), and either its new row or, at the end of the instant, its
    youngest copy is shown.
    """
    mask = len(ring) - 1
    seq, tail = mark[0], mark[1]
    n, i, k = len(ats), 0, 0
    while i < n:
        # Instants of expiry up to the next arrival's instant.
        t = ats[i]
        while tail < seq and ring[tail & mask, 0] + w <= t:
            gone, value = ring[tail & mask, 0] + w, ring[tail & mask, 1]
            was_shown = shown[value] == tail
            tail += 1
            if was_shown:
                if gone == t and _arrives(ats, ids, i, value):
                    shown[value] = -1
                    continue
                s = youngest[value]
                # Copies with the same ts expire together: a live one has a later ts.
                if ring[s & mask, 0] + w > gone:
                    shown[value] = s
                    ots[k] = gone
                    oexp[k] = ring[s & mask, 0] + w
                    ox[k] = values[value]
                    k += 1
                else:
                    shown[value] = -1
        value = ids[i]
        slot = seq & mask
        ring[slot, 0] = t
        ring[slot, 1] = value
        youngest[value] = seq
        if shown[value] < tail:
            shown[value] = seq
            ots[k] = t
            oexp[k] = t + w
            ox[k] = values[value]
            k += 1
        seq += 1
        i += 1
    mark[0], mark[1] = seq, tail
    return k


@njit
def _arrives(ats, ids, i, value):  # type: ignore[no-untyped-def]
    t = ats[i]
    while i < len(ats) and ats[i] == t:
        if ids[i] == value:
            return True
        i += 1
    return False


class Distinct:
    """State between pushes."""

    def __init__(self, work: Workload) -> None:
        self.window = work.window
        self.ring = np.zeros((ring_size(work.window), 2), np.int64)
        self.keys = Keys()
        self.shown = self.youngest = np.empty(0, np.int64)
        self.mark = np.zeros(2, np.int64)

    def __call__(self, rows: dict[str, Events]) -> list[pa.Table]:
        a = rows["a"]
        ids = self.keys.number(a.x)
        self.shown, self.youngest = (fit(s, self.keys.room, -1) for s in (self.shown, self.youngest))
        # An event shows at most itself and a successor of the copy that ends.
        out = [room(2 * len(a), d) for d in (np.int64, np.int64, np.int32)]
        k = _run(
            self.window, a.ts, ids, self.keys.values, self.mark, self.ring, self.shown, self.youngest, *out
        )
        return [changes.table(("x",), changes.plus(k), *(c[:k] for c in out))]
