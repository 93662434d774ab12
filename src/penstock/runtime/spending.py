"""How a step's budget is spent: the same for every query, and what some do not need the others may have.

By the virtual clock a budget is a number of work units. By the wall clock it is a time, and what a unit takes is measured: a step has as
many units as would have taken that time of late.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from penstock.runtime.ranked import Ranked
from penstock.runtime.running import Standing

STEADY = 1e5
"""Units after which what they took counts for all that was before."""

Running = Sequence[tuple[Ranked, list[Standing]]]
Stopping = Callable[[list[Standing]], AbstractContextManager[None]]
"""Whoever meets an error stops there; the others go on."""


class Spending:
    """`wall`: microseconds of a step, where its budget is a time."""

    def __init__(self, budget: int | None) -> None:
        self._budget = budget
        self.wall: int | None = None
        self._pace = 1.0
        """Microseconds that a unit takes."""

    def spend(self, running: Running, stopping: Stopping, *, whole: bool) -> None:
        """A step; `whole`: as many units as it takes."""
        began = time.perf_counter()
        left = None if whole else self._units()
        pace = None if self.wall is None else self._pace
        spent = 0.0
        for n, (pipeline, standings) in enumerate(sorted(running, key=lambda one: one[0].expected)):
            share = None if left is None else left / (len(running) - n)
            with stopping(standings):
                for batch, until in pipeline.work(share, pace):
                    for standing in standings:
                        standing.said.take(batch, until)
            spent += pipeline.spent
            if left is not None:
                left = max(left - pipeline.spent, 0.0)
        if spent >= 1:
            took = 1e6 * (time.perf_counter() - began) / spent
            self._pace += min(1.0, spent / STEADY) * (took - self._pace)

    def _units(self) -> float:
        if self.wall is None:
            assert self._budget is not None
            return float(self._budget)
        return max(1.0, self.wall / self._pace)
