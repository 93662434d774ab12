"""Points on the curves that tell an engine from a demonstration: longer runs, larger windows, smaller pushes.

Each gives a number, the limit that decides, and what helps to read it. What is compared is measured in turn, so that
a busy machine slows both sides, and by medians. Where caches decide (larger windows, smaller pushes) the
hand-written program's own ratio stands beside the engine's; the verdict uses the engine's alone.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock_lab.benchmarks import runs
from penstock_lab.benchmarks.cases import Case
from penstock_lab.benchmarks.workload import RAW_ROW_BYTES, Workload


@dataclass(frozen=True, slots=True)
class Point:
    """`value` is to stay at or below `limit`, or at or above it."""

    name: str
    value: float
    limit: float
    unit: str
    at_least: bool = False
    more: dict[str, float | bool] = field(default_factory=dict)
    """Known beside it; decides nothing."""

    @property
    def holds(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def json(self) -> dict[str, Any]:
        return {
            "value": round(self.value, 4),
            "limit": self.limit,
            "sense": "at least" if self.at_least else "at most",
            "unit": self.unit,
            "holds": self.holds,
            **{n: v if isinstance(v, bool) else round(v, 4) for n, v in self.more.items()},
        }

    def failure(self) -> str:
        """Why it does not hold."""
        sense = "at least" if self.at_least else "at most"
        return f"{self.name}: {self.value:.3g} {self.unit}, {sense} {self.limit:g} wanted"


def in_turn(repeat: int, *measures: Callable[[], float]) -> list[float]:
    """The median of each, taken one after the other in every turn."""
    turns = [[measure() for measure in measures] for _ in range(repeat)]
    return [statistics.median(taken) for taken in zip(*turns, strict=True)]


def _engine(case: Case, work: Workload, pushes: int = 1) -> Callable[[], float]:
    """Seconds an event."""
    return lambda: runs.engine(case, work, pushes).seconds / work.events


def _hand_written(case: Case, work: Workload) -> Callable[[], float]:
    return lambda: runs.hand_written(case.program, work).seconds / work.events


def _costs(case: Case, other: Case, repeat: int) -> tuple[float, float]:
    """How much an event costs in `other` against `case`: in the engine, in the hand-written program."""
    work, other_work = case.work(), other.work()
    one, two, hand_one, hand_two = in_turn(
        repeat,
        _engine(case, work),
        _engine(other, other_work),
        _hand_written(case, work),
        _hand_written(other, other_work),
    )
    return two / one, hand_two / hand_one


def longer(case: Case, repeat: int) -> Point:
    """4 M events against 400 k, of all streams together; a tenth is left to noise."""
    short, long = (case.with_(events=n // len(case.streams)) for n in (400_000, 4_000_000))
    short_cost, long_cost = in_turn(repeat, _engine(short, short.work()), _engine(long, long.work()))
    return Point("time per event, 4 M events against 400 k", long_cost / short_cost, 1.1, "×")


def wider(case: Case, repeat: int) -> Point:
    """Ten times the window with ten times the keys: as many results an event, ten times the state."""
    wide = case.with_(
        events=case.events * 10, window=case.window * 10, x_keys=case.x_keys * 10, y_keys=case.y_keys * 10
    )
    ratio, hand = _costs(case, wide, repeat)
    more = {"hand_written": hand, "against_hand_written": ratio / hand}
    return Point("time per event, 10 × the window at equal output", ratio, 1.5, "×", more=more)


def smaller(case: Case, repeat: int) -> Point:
    """1,000-row pushes, changes read as often as with the large ones; beside it, read after every push."""
    small = case.with_(batch=1000)
    work, small_work = case.work(), small.work()
    large_cost, cost, each, hand_large, hand = in_turn(
        repeat,
        _engine(case, work),
        _engine(small, small_work, case.batch // small.batch),
        _engine(small, small_work),
        _hand_written(case, work),
        _hand_written(small, small_work),
    )
    more = {"read_after_every_push": large_cost / each, "hand_written": hand_large / hand}
    name = "speed with 1,000-row pushes against 100,000"
    return Point(name, large_cost / cost, 0.5, "×", at_least=True, more=more)


def single_rows(case: Case, repeat: int) -> Point:
    """One row to one stream, advance, changes: the 99th percentile once the windows are full."""
    rows = 1000 * repeat
    work = case.with_(events=case.window + rows).work()
    session, query = runs.open_session(case, work)
    for name, events in work.streams.items():
        session.push(name, events.slice(0, case.window).arrow())
    query.changes()
    took, clock = [], []
    for i in range(case.window, case.window + rows):
        name = case.streams[i % len(case.streams)]
        batch = work.streams[name].slice(i, i + 1).arrow()
        began, began_clock = runs.now(), time.perf_counter()
        session.push(name, batch)
        session.advance(i)
        query.changes()
        took.append(runs.now() - began)
        clock.append(time.perf_counter() - began_clock)
    p99, p99_clock = (statistics.quantiles(t, n=100)[98] * 1e3 for t in (took, clock))
    more = {"median": statistics.median(took) * 1e3, "by_the_clock": p99_clock}
    return Point("push, advance and changes of one row, p99", p99, 1.0, "ms", more=more)


def state(case: Case, _: int) -> Point:
    """The most the engine holds after any step, against the Arrow bytes of the rows alive and of one push."""
    work = case.work()
    raw = work.live_bytes + work.batch * RAW_ROW_BYTES
    held = runs.engine(case, work).state_bytes
    return Point(
        "state against raw bytes of the live windows and one push",
        held / raw,
        3.0,
        "×",
        more={"bytes": held, "raw_bytes": raw, "against_live_windows": held / work.live_bytes},
    )


IMPORT = "import time; t = time.perf_counter(); import penstock; print(time.perf_counter() - t)"

FIRST_ANSWER = """
import json, sys
import pyarrow as pa
import penstock
ddl, sql, streams = json.loads(sys.argv[1])
session = penstock.connect()
session.execute(ddl)
query = session.query(sql, name="bench")
for name in streams:
    session.push(name, pa.table({"ts": [0, 1], "x": pa.array([1, 2], pa.int32()), "y": pa.array([1, 2], pa.int32())}))
session.advance(1)
query.changes()
"""
"""Without the benchmark's own modules: what a user's script would import."""


def _python(code: str, *arguments: str) -> str:
    """Modules were compiled by an earlier process, as kernels were, whatever this process was told about keeping them."""
    command = [sys.executable, "-c", code, *arguments]
    told = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    return subprocess.run(command, check=True, capture_output=True, text=True, env=told).stdout  # noqa: S603  # our own text


def importing(_: Case, repeat: int) -> Point:
    """`import penstock` in a new process, by the clock."""
    (took,) = in_turn(repeat, lambda: float(_python(IMPORT)))
    return Point("import", took, 0.5, "s")


def first_answer(case: Case, repeat: int) -> Point:
    """A whole new process up to its first changes, by the clock; kernels were compiled by an earlier one.

    Beside it the processor time of the same processes, which other programs on the machine do not lengthen.
    """
    setting = json.dumps([case.work().ddl(), case.text(), case.streams])
    used: list[float] = []

    def start() -> float:
        began, before = time.perf_counter(), os.times()
        _python(FIRST_ANSWER, setting)
        took, after = time.perf_counter() - began, os.times()
        used.append(
            after.children_user + after.children_system - before.children_user - before.children_system
        )
        return took

    (took,) = in_turn(repeat, start)
    return Point(
        "second process, start to first answer", took, 3.0, "s", more={"cpu_seconds": statistics.median(used)}
    )


ORDERS = 0.25
"""The share of the hand-written program that a join reaches however it is written."""


def written(case: Case, repeat: int) -> Point:
    """Every written order, with partial results on demand and without: against the hand-written program, at the slowest."""
    work = case.work()
    expected = runs.hand_written(case.program, work).checksum
    ways: dict[str, Callable[[], float]] = {"hand_written": _hand_written(case, work)}

    def way(other: Case, demand: str) -> Callable[[], float]:
        def run() -> float:
            done = runs.engine(other, work, demand=demand)
            difference = done.checksum.difference(expected)
            assert not difference, f"{other.text()} differs: {difference}"
            return done.seconds / work.events

        return run

    for label, sql in (("as_it_is", case.sql), *case.orders):
        for demand in ("jit", "off"):
            ways[f"{label}_{demand}"] = way(case.with_(sql=sql), demand)
    for run in ways.values():
        run()
    hand, *taken = in_turn(repeat, *ways.values())
    shares = dict(zip(list(ways)[1:], (hand / each for each in taken), strict=True))
    least = min(share for label, share in shares.items() if label.endswith("_jit"))
    more: dict[str, float | bool] = dict(shares)
    name = "share of the hand-written program in the slowest written order"
    return Point(name, least, ORDERS, "×", at_least=True, more=more)


POINTS: tuple[Callable[[Case, int], Point], ...] = (
    longer,
    wider,
    smaller,
    single_rows,
    state,
    importing,
    first_answer,
)
