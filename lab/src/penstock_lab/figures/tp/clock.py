"""By which clock a run under overload goes, and what a step may take of it.

Virtual   a unit of work is a microsecond, and a step lasts as many as it has units: a run is the same whenever it is repeated.
Wall      steps begin so far apart in real time. Of that a query has `SHARE`; the rest is for handing rows in and answers out. A step that
          is late begins at once, and those after it so much later.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter, process_time, sleep

import numpy as np

from penstock_lab.figures.cacq.chart import Chart
from penstock_lab.figures.tp.load import Floats, Ints

SHARE = 0.8


@dataclass(frozen=True, slots=True)
class Budget:
    """Of a step: what a session is given, units or a time, and microseconds from one step to the next."""

    given: int | str
    lasts: float

    @property
    def wall(self) -> bool:
        return isinstance(self.given, str)


def units(count: int) -> Budget:
    return Budget(count, float(count))


def microseconds(count: float) -> Budget:
    whole = max(1, round(count))
    return Budget(f"{whole} microseconds", whole / SHARE)


class Watch:
    """Of one run: when its steps begin, and how old what is told is by then. Without a budget nothing has an age."""

    def __init__(self, budget: Budget | None) -> None:
        self._lasts = 0.0 if budget is None else budget.lasts
        self._wall = budget is not None and budget.wall
        self._began: list[float] = []
        self._busy = self._cpu = 0.0
        self._since = 0.0, 0.0

    def begin(self) -> None:
        """A step begins; by the wall clock not before its time."""
        if self._wall:
            if self._began:
                sleep(max(0.0, (self._began[-1] + self._lasts - _now()) / 1e6))
            self._began.append(_now())
        self._since = perf_counter(), process_time()

    def end(self) -> None:
        """All of the step's work is done."""
        self._busy += perf_counter() - self._since[0]
        self._cpu += process_time() - self._since[1]

    def ages(self, came: Ints, step: int) -> Floats:
        """Microseconds from the beginning of steps to the end of this one, by step in which something came."""
        if self._wall:
            return np.asarray(_now() - np.array(self._began)[came], dtype=np.float64)
        return np.asarray((step - came + 1) * self._lasts, dtype=np.float64)

    @property
    def had(self) -> float:
        """By the wall clock: the share of a core that it had while it worked. The rest went to others on this machine, so runs are compared by
        what they made of what they had."""
        return min(1.0, self._cpu / self._busy) if self._wall and self._busy else 1.0


def by_the_wall(chart: Chart) -> Chart:
    """A figure that says so."""
    return replace(chart, title=f"{chart.title}, by the wall clock")


def _now() -> float:
    return 1e6 * perf_counter()
