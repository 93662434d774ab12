"""A query's join results, of the tuples of a virtual source that it wants.

Paper      Madden et al. 2002, §2.3 (windows per query over one SteM).
Invariant  a result ends with the first of its rows to leave the query's own windows.
Pattern    WEAKEST, MONOTONIC → WEAK.
State      none: the rows are in the shared SteMs (`sharing.shared_join`).
Cost       O(results).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.operators.contract import Site, empty
from penstock.operators.join.predicates import Tester
from penstock.plan.expressions import Expression
from penstock.types.batch import Batch, Column, endless


class Met:
    """Tuples hold, input after input, the row's ts and its stream's columns; `inputs` says (where, how many columns, window)
    in the query's own order. `tests` are what is left to be tested of a result."""

    def __init__(
        self, site: Site, inputs: Sequence[tuple[int, int, int | None]], tests: Sequence[Expression]
    ) -> None:
        self.inputs = tuple(inputs)
        self._width = sum(width for _, width, _ in inputs)
        self._tests = tuple(tests)
        self._tester = Tester(site)

    def step(self, inputs: Sequence[Batch], now: int) -> Batch:
        (batch,) = inputs
        if not len(batch):
            return empty(self._width)
        exp = endless(len(batch))
        columns: list[Column] = []
        for at, width, window in self.inputs:
            if window is not None:
                exp = np.minimum(exp, batch.columns[at].values + window)
            columns += batch.columns[at + 1 : at + 1 + width]
        made = Batch(batch.ts, exp, tuple(columns))
        for test in self._tests:
            if len(made):
                passed = self._tester.test(test, made.columns, made.ts)
                made = made if passed.all() else made.take(np.flatnonzero(passed))
        return made
