"""How a step's budget is spent: how many units it has, and to whom they go (`runtime.turns`).

By the virtual clock a budget is a number of work units. By the wall clock it is a time, and what a unit takes is measured: a step has as
many units as would have taken that time of late.
"""

from __future__ import annotations

import time

from penstock.plan.policies import Policies
from penstock.runtime.turns import Running, Step, Stopping

STEADY = 1e5
"""Units after which what they took counts for all that was before."""


class Spending:
    """`wall`: microseconds of a step, where its budget is a time."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self.wall: int | None = None
        self._pace = 1.0
        """Microseconds that a unit takes."""

    def spend(self, running: Running, stopping: Stopping, *, whole: bool) -> None:
        """A step; `whole`: as many units as it takes."""
        began = time.perf_counter()
        step = Step(
            running,
            stopping,
            None if whole else self._units(),
            None if self.wall is None else self._pace,
            self._policies.significance,
            self._policies.guaranteed,
        )
        step.run()
        if step.spent >= 1:
            took = 1e6 * (time.perf_counter() - began) / step.spent
            self._pace += min(1.0, step.spent / STEADY) * (took - self._pace)

    def _units(self) -> float:
        if self.wall is None:
            assert self._policies.budget is not None
            return float(self._policies.budget)
        return max(1.0, self.wall / self._pace)
