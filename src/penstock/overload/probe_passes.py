"""Passes of a probe: it meets one level at a time, and is put aside in between, so that the best results come first.

Paper      Works 2013, chapter 7 (PR-Join): non-atomic result production, in-process queues, start-probing times.
Invariant  a probe meets every partner once: rows built before its own (SEQ), alive together with it, in tiers that never change
           (`state.priority_stem`); each pass takes the tiers between the last one's depth and its own. What is built later meets the probe's row instead.
Pattern    as the join's.
State      in-process rows wait in lanes of their own (`Stop.aside`), by the level they promise next; they hold nothing but their place there.
Cost       a unit a row and pass, a unit a candidate, and the look for the next level that holds a partner.

Who meets levels one at a time: rows that promise a level, at their designated stop, if what is known of them is less significant; and rows of a
stream that no criteria are about, where they meet the last stream that has levels. The first pass takes every level at or above the one being
worked on (Figure 7.3, line 13, would leave them out), the next ones the next less significant level with partners (line 17 says more); where the
rest can be no better than the row itself, it is met at once. All others meet all: significant rows, rows that promise a level at another
stop, and whatever is on the back burner.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.overload.probe_order import Itinerary
from penstock.overload.queued_operator import Determinant, Stop
from penstock.state.priority_queue import BACK_BURNER, DESIGNATED, LEVEL, NEXT, PROMISE
from penstock.types.batch import Ints

FEW = 3
"""Candidates that are met at once although less significant ones are among them: to be put aside and come back costs as much."""


def meetings(way: Itinerary, determinants: Sequence[Determinant]) -> dict[int, int]:
    """By route: the last stop at which its rows meet a stream that has levels; where there is none they never stop to hope."""
    ranked = {i for i, route in way.routes.items() if any(way.path(route, d) for d in determinants)}
    return {
        i: max((stop.at for stop in route if stop.target in ranked), default=len(route))
        for i, route in way.routes.items()
    }


def depths(stop: Stop, rows: Ints, level: int, hopeful: bool) -> Ints:
    """Down to which level rows meet others in a pass, while `level` is being worked on. `hopeful`: they have none themselves, and
    meet here who has."""
    if level >= BACK_BURNER:
        return np.full(rows.shape[1], BACK_BURNER)
    hopes = (rows[DESIGNATED] == stop.at) | (rows[NEXT] > 0)
    if hopeful:
        hopes |= rows[PROMISE] == BACK_BURNER
    return np.where(hopes & (rows[LEVEL] > level), level, BACK_BURNER)


def left_over(stop: Stop, rows: Ints, beyond: Ints) -> Ints | None:
    """Rows that have partners left, and the level at which they have the next ones; `beyond` tells it, 0 for none."""
    some = np.flatnonzero(beyond)
    if not len(some):
        return None
    left: Ints = rows[:, some]
    left[NEXT] = left[PROMISE] = beyond[some]
    left[DESIGNATED] = stop.at
    return left
