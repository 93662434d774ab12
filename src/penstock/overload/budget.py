"""How a step's budget is spent: how many units it has, and to whom they go (`overload.budget_rounds`).

By the virtual clock a budget is a number of work units. By the wall clock it is a time, and what a unit takes is measured: a step has as
many units as would have taken that time of late.

Apart are measured
- what a unit takes by the ordinary operators of calm queries and on routes, where it takes several times as long: else a query would be
  busy with what fits, or take far more time than it has when it becomes so;
- what a step takes whatever is worked on in it: were it part of what units take, the fewer there were the more each would seem to
  take, and a step that was late once would have fewer and fewer.
"""

from __future__ import annotations

import time

from penstock.overload.budget_rounds import Running, Step, Stopping
from penstock.plan.policies import Policies

STEADY = 1e5
"""Units after which what they took counts for all that was before."""
RECENT = 0.25
"""The same of a step that took as long as it may."""
MOST = 4.0
"""Times as much as before that a unit may seem to take at once."""
LEAST = 0.25
"""Of a step's time that is worked on what waits, whatever else it takes."""
SLOWER = 3.0
"""Times that a unit of rows that wait takes against one of the ordinary operators, as long as it has not been measured."""


class Spending:
    """`wall`: microseconds of a step, where its budget is a time."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self.wall: int | None = None
        self._paces: dict[bool, float] = {}
        """Microseconds that a unit takes, of queries that are busy and of those that are calm."""
        self._fixed = 0.0
        """Microseconds that a step takes beside."""

    def spend(self, running: Running, stopping: Stopping, *, whole: bool) -> None:
        """A step; `whole`: as many units as it takes."""
        began = time.perf_counter()
        step = self._step(running, stopping, whole=whole)
        step.run()
        if self.wall is not None:
            took = 1e6 * (time.perf_counter() - began)
            self.learn(step.calm_units, step.calm_time, busy=False)
            self.learn(step.busy_units, step.busy_time, busy=True)
            self._fixed += RECENT * (took - step.calm_time - step.busy_time - self._fixed)

    def run_ahead(self, running: Running, stopping: Stopping) -> None:
        """Between steps: work on what came where it fits into the next step, and charge it to that step."""
        if not any(pipeline.has_arrivals and not pipeline.busy for pipeline, _ in running):
            return
        step = self._step(running, stopping, whole=False)
        step.run_ahead()
        if self.wall is not None:
            self.learn(step.calm_units, step.calm_time, busy=False)

    def _step(self, running: Running, stopping: Stopping, *, whole: bool) -> Step:
        return Step(
            running,
            stopping,
            None if whole else self.units(),
            None if self.wall is None else self.pace(busy=True),
            self._policies.significance,
            self._policies.guaranteed,
            self.pace(busy=False) / self.pace(busy=True) if self.wall is not None else 1.0,
        )

    def pace(self, *, busy: bool) -> float:
        """What a unit takes; of what has not been measured a guess."""
        known, other = self._paces.get(busy), self._paces.get(not busy)
        if known is not None:
            return known
        return 1.0 if other is None else other * SLOWER if busy else other / SLOWER

    def learn(self, units: float, took: float, *, busy: bool) -> None:
        """So many units have taken so many microseconds."""
        if units < 1:
            return
        assert self.wall is not None
        known, weight = self.pace(busy=busy), min(1.0, max(units / STEADY, RECENT * took / self.wall))
        # However late a step is, whatever the reason, it is not what units take from now on.
        found = min(took / units, MOST * known) if busy in self._paces else took / units
        self._paces[busy] = known + min(weight, RECENT) * (found - known) if busy in self._paces else found

    def units(self) -> float:
        """Of a step."""
        if self.wall is None:
            assert self._policies.budget is not None
            return float(self._policies.budget)
        return max(1.0, max(self.wall - self._fixed, LEAST * self.wall) / self.pace(busy=True))
