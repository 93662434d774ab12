"""What rows that were dropped would have come to: estimates for the groups above a core.

Paper      Works 2013 (TP-Ag), §5.3.3 and §5.4.1 (expiration counts).
Invariant  a row that was dropped counts, in its group and for as long as its results would have lived, as many times at each level as
           rows of its group and level that went on from there made results, of late (`overload.yields`).
State      the groups and levels of the results made last.
Cost       O(rows dropped × levels they may have come to).

A group that cannot be told yet, because the inputs its key reads are not there, is taken from results of that level that were made
last, in turn: rows that were dropped are shared out as these were.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.operators.contract import Site
from penstock.overload.operator_queues import Routes
from penstock.overload.queued_operator import Stop
from penstock.overload.yields import Yields
from penstock.plan.expressions import Expression
from penstock.state.payload import Frame
from penstock.state.priority_queue import BACK_BURNER, END, TS
from penstock.types.batch import Array, Batch, Column, Ints

RECENT = 512
"""Results whose groups are remembered."""
NOTHING = -1


class Unmade:
    """`keys`: of the groups, over the core's columns side by side."""

    def __init__(self, site: Site, routes: Routes, keys: Sequence[Expression]) -> None:
        self._every = frozenset(range(len(routes.core.inputs)))
        self._yields = routes.watch = yields = Yields(site, routes, keys)
        arena, name = site.arena, site.name
        self._recent = Frame(arena, f"{name}.recent", [key.type for key in keys])
        self._recent.fit(RECENT)
        self._level = arena.array(f"{name}.recent.level", np.int64, RECENT, NOTHING)
        """Places of their levels among all."""
        self._next = arena.array(f"{name}.next", np.int64, 1 + len(yields.levels), 0)
        """Where the next result is put; and by level how many were taken."""
        self._needed = not all(map(yields.knows, routes.stops)) and bool(keys)

    def note(self, rows: Ints) -> None:
        """Results that were made."""
        if not self._needed:
            return
        last = rows[:, -RECENT:]
        places = (self._next[0] + np.arange(last.shape[1])) % RECENT
        self._recent.put(places, self._yields.keys(last))
        self._level[places] = self._yields.level(last, self._every)
        self._next[0] = (places[-1] + 1) % RECENT

    def of(self, stop: Stop, rows: Ints) -> Batch | None:
        """Estimates: the groups' keys, the level (NULL: none), how many results, the variance of that and its doubt.

        Doubt is the deviation of a weight because few rows are behind it: rows that share them err together.
        """
        yields = self._yields
        told, n = yields.keys(rows) if yields.knows(stop) else None, rows.shape[1]
        ids = None if told is None else yields.ids(told, n)
        table, known = yields.ahead(stop, yields.level(rows, stop.bound), ids)
        which, level = np.nonzero(table)
        weight = table[which, level]
        variance = np.where(weight <= 1.0, weight * (1.0 - weight), weight)
        doubt = np.sqrt(variance / (known[which] + 1.0))
        keys: tuple[Column, ...]
        if told is not None:
            keys = tuple(c.take(which) for c in told)
        elif self._needed:
            places = self._drawn(level)
            if places is None:
                return None  # nothing is known of any group yet
            keys = tuple(Column(c.values, c.valid) for c in self._recent.at(places))
        else:
            keys = ()
        rank = yields.levels[level]
        ranked = rank < BACK_BURNER
        about = Column(np.where(ranked, rank, 0).astype(np.int32), ranked)
        guessed = (Column(weight), Column(variance), Column(doubt))
        return Batch(rows[TS, which], rows[END, which], (*keys, about, *guessed))

    def _drawn(self, level: Ints) -> Array | None:
        """For each estimate a result of its level, in turn; where there is none, any."""
        made = np.flatnonzero(self._level != NOTHING)
        if not len(made):
            return None
        out = np.empty(len(level), np.intp)
        for one in np.unique(level).tolist():
            mine = np.flatnonzero(level == one)
            alike = np.flatnonzero(self._level == one)
            among = alike if len(alike) else made
            out[mine] = among[(self._next[1 + one] + np.arange(len(mine))) % len(among)]
            self._next[1 + one] += len(mine)
        return out
