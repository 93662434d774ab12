"""Points on the curves that tell an engine from a demonstration: longer runs, larger windows, smaller pushes.

Each gives a number and the limit it must stay under. Limits leave room for a shared machine; the shapes they
guard against (a list that grows, a window that is rescanned, a fixed cost per push) are far outside of them.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.surfaces.benches import runs
from penstock.surfaces.benches.cases import Case


@dataclass(frozen=True, slots=True)
class Point:
    """`value` is to stay at or below `limit`."""

    name: str
    value: float
    limit: float
    unit: str

    @property
    def holds(self) -> bool:
        return self.value <= self.limit

    def json(self) -> dict[str, Any]:
        return {
            "value": round(self.value, 4),
            "limit": self.limit,
            "unit": self.unit,
            "holds": self.holds,
        }


def _per_event(case: Case, repeat: int) -> float:
    """Seconds an event, the median of some runs."""
    work = case.work()
    return statistics.median(runs.engine(case, work).seconds for _ in range(repeat)) / work.events


def longer(case: Case, repeat: int) -> Point:
    """Ten times the events."""
    ratio = _per_event(case.with_(events=case.events * 10), 1) / _per_event(case, repeat)
    return Point("time per event, 10 × the events", ratio, 1.3, "×")


def wider(case: Case, repeat: int) -> Point:
    """Ten times the window with ten times the keys: as many results an event, ten times the state."""
    wide = case.with_(
        events=case.events * 10, window=case.window * 10, x_keys=case.x_keys * 10, y_keys=case.y_keys * 10
    )
    ratio = _per_event(wide, 1) / _per_event(case, repeat)
    return Point("time per event, 10 × the window at equal output", ratio, 2.5, "×")


def smaller(case: Case, repeat: int) -> Point:
    """A hundredth of the batch."""
    ratio = _per_event(case.with_(batch=1000), repeat) / _per_event(case, repeat)
    return Point("time per event, 1,000-row pushes", ratio, 2.0, "×")


def single_rows(case: Case, repeat: int) -> Point:
    """One row a stream, advance, changes: the 99th percentile once a window is full."""
    rows = 400 * repeat
    work = case.with_(events=case.window + rows).work()
    session, query = runs.open_session(case, work)
    for name, events in work.streams.items():
        session.push(name, events.slice(0, case.window).arrow())
    query.changes()
    took = []
    for i in range(case.window, case.window + rows):
        batches = [(name, events.slice(i, i + 1).arrow()) for name, events in work.streams.items()]
        began = runs.now()
        for name, batch in batches:
            session.push(name, batch)
        session.advance(i)
        query.changes()
        took.append(runs.now() - began)
    return Point(
        "push of one row a stream, advance and changes, p99",
        statistics.quantiles(took, n=100)[98] * 1e3,
        2.0,
        "ms",
    )


def state(case: Case, _: int) -> Point:
    """What the engine holds against the raw Arrow bytes of the live window."""
    work = case.work()
    held = runs.engine(case, work).state_bytes
    ratio = float("inf") if held is None else held / work.live_bytes
    return Point("state against raw bytes of the live windows", ratio, 4.0, "×")


def _python(code: str) -> float:
    """Seconds a new interpreter takes for this, beyond starting up."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    bare = time.perf_counter() - began
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603  # our own text
    return time.perf_counter() - began - bare


def importing(_: Case, repeat: int) -> Point:
    """`import penstock` in a new process."""
    return Point("import", min(_python("import penstock") for _ in range(repeat)), 1.0, "s")


def first_answer(case: Case, repeat: int) -> Point:
    """From a new process to the first changes, kernels already compiled by this one."""
    small = case.with_(events=1000)
    code = (
        "import penstock\n"
        "from penstock.surfaces.benches import runs\n"
        "from penstock.surfaces.benches.cases import BENCHES\n"
        f"case = next(c for make in BENCHES.values() for c in make() if c.name == {small.name!r}).with_(events=1000)\n"
        "assert runs.engine(case, case.work()).checksum.rows\n"
    )
    return Point("new process to first answer", min(_python(code) for _ in range(repeat)), 3.0, "s")


PROCESS: tuple[Callable[[Case, int], Point], ...] = (importing, first_answer)
ENGINE: tuple[Callable[[Case, int], Point], ...] = (wider, smaller, single_rows, state)
LONG: tuple[Callable[[Case, int], Point], ...] = (longer,)
