"""What rows that were dropped would have come to: estimates for the groups above a core.

Paper      Works 2013 (TP-Ag), §5.3.3 and §5.4.1 (expiration counts).
Invariant  a row that was dropped counts, in its group and level and for as long as its results would have lived, as many times as rows
           of its level that went on from there made results, of late.
Cost       O(rows dropped).

A group that cannot be told yet, because the inputs its key reads are not there, is taken from the results made last, in turn.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.data.batch import Batch, Column, Ints, concat
from penstock.flow.routes import Routes, Stage
from penstock.operators.evaluate import Evaluator
from penstock.plan.expressions import Expression, columns
from penstock.state.lanes import BACK_BURNER, END, TS

RECENT = 512
"""Results whose groups are remembered."""


class Unmade:
    """`keys`: of the groups, over the core's columns side by side."""

    def __init__(self, routes: Routes, evaluator: Evaluator, keys: Sequence[Expression]) -> None:
        self._routes = routes
        self._keys = [evaluator.compile(key) for key in keys]
        self._read = frozenset(c.index for key in keys for c in columns(key))
        self._inputs = frozenset(routes.input_of(i) for i in self._read)
        self._recent: tuple[Column, ...] | None = None
        self._next = 0

    def note(self, rows: Ints) -> None:
        """Results that were made."""
        last = rows[:, -RECENT:]
        groups = self._groups(last)
        if self._recent is not None:
            groups = tuple(concat([a, b]) for a, b in zip(self._recent, groups, strict=True))
        self._recent = tuple(c.slice(max(0, len(c) - RECENT), len(c)) for c in groups)

    def _groups(self, rows: Ints) -> tuple[Column, ...]:
        found = self._routes.columns(rows, self._read)
        made = [key(found, rows.shape[1]) for key in self._keys]
        return tuple(Column(c.values, c.valid) for c in made)

    def of(self, stage: Stage, rows: Ints) -> Batch | None:
        """Estimates: the groups' keys, the level (NULL: none), how many results."""
        n = rows.shape[1]
        if self._inputs <= stage.bound:
            keys = self._groups(rows)
        elif self._recent is not None and self._recent and len(self._recent[0]):
            places = (self._next + np.arange(n)) % len(self._recent[0])
            self._next += n
            keys = tuple(c.take(places) for c in self._recent)
        elif self._keys:
            return None  # nothing is known of any group yet
        else:
            keys = ()
        level = self._routes.levels_at(stage, rows)
        weight = np.ones(n)
        for one in np.unique(level).tolist():
            weight[level == one] = self._routes.yield_of(stage, one)
        ranked = level < BACK_BURNER
        about = (Column(np.where(ranked, level, 0).astype(np.int32), ranked), Column(weight))
        return Batch(rows[TS].copy(), rows[END].copy(), (*keys, *about))
