"""A benchmark's verdict: programs measured in turn, repetition by repetition, then compared by their medians."""

from __future__ import annotations

import contextlib
import ctypes
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock_lab.benchmarks import points, runs
from penstock_lab.benchmarks.cases import BENCHES, Case
from penstock_lab.benchmarks.pairs import fixed_pairs
from penstock_lab.benchmarks.points import Point

SHARE, AIM = 0.40, 0.60
"""The engine, through its public interface, reaches at least this share of the hand-written program; and is to reach."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""From glibc's malloc.h; elsewhere nothing is set."""

Tell = Callable[[str], None]


def bench(name: str, *, quick: bool, datafusion: bool, tell: Tell) -> dict[str, Any]:
    """Run one benchmark; the JSON object of the command line."""
    steady()
    measured: dict[str, Any] = {}
    reference: dict[str, Any] = {}
    verdicts: list[bool] = []
    why: list[str] = []
    for case in BENCHES[name]():
        ours, theirs, failures = compare(case, repeat=5 if quick else 11, datafusion=datafusion, tell=tell)
        of_its_own = [points.written, fixed_pairs] if case.orders else []
        for make in (*points.POINTS, *of_its_own):
            tell(f"{case.name}: {make.__name__.replace('_', ' ')}")
            point = make(case, 3 if quick else 7)
            ours["points"][point.name] = point.json()
            if not point.holds:
                failures.append(point.failure())
        measured[case.name], reference[case.name] = ours, theirs
        verdicts.append(not failures)
        why += [f"{case.name}: {f}" for f in failures]
    claim = (
        f"through the public interface at least {SHARE:.0%} of a hand-written compiled loop that writes the same columns, "
        "ahead of DataFusion's unbounded plan where it has one, and every point within its limit; CPU seconds on one core"
    )
    return {
        "name": name,
        "claim": claim,
        "measured": measured,
        "reference": reference,
        "holds": all(verdicts),
        "why_not": why,
    }


def compare(
    case: Case, *, repeat: int, datafusion: bool, tell: Tell
) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Engine, limit and other engine in turn; the first turn only warms up."""
    work = case.work()
    other = runs.DataFusion(case, work) if datafusion and case.elsewhere else None
    hand: list[float] = []
    mine: list[float] = []
    elsewhere: list[float] = []
    variant: list[float] = []
    failures: list[str] = []
    rows = other_rows = 0
    for turn in range(repeat + 1):
        tell(f"{case.name}: {'warming up' if turn == 0 else f'turn {turn} of {repeat}'}")
        limit, run = runs.hand_written(case.program, work), runs.engine(case, work)
        if turn == 0:
            rows = limit.checksum.rows
            difference = run.checksum.difference(limit.checksum)
            if difference:
                failures.append(f"engine and hand-written program differ: {difference}")
        took, other_rows = other.run() if other else (0.0, 0)
        second = runs.hand_written(case.variant[1], work).seconds if case.variant else 0.0
        if turn:
            hand.append(limit.seconds)
            mine.append(run.seconds)
            elsewhere.append(took)
            variant.append(second)
    pace, limit_pace = (work.events / statistics.median(t) for t in (mine, hand))
    ours: dict[str, Any] = {
        "events_per_second": round(pace),
        "share_of_hand_written": round(pace / limit_pace, 3),
        "rows": rows,
    }
    theirs: dict[str, Any] = {"hand_written_events_per_second": round(limit_pace)}
    if case.variant:
        label, second_pace = case.variant[0].replace(" ", "_"), work.events / statistics.median(variant)
        theirs[f"hand_written_{label}_events_per_second"] = round(second_pace)
        ours[f"share_of_hand_written_{label}"] = round(pace / second_pace, 3)
    share = pace / limit_pace
    aims: dict[str, float | bool] = {"aim": AIM, "reaches_aim": share >= AIM}
    found = [Point("share of the hand-written program", share, SHARE, "×", at_least=True, more=aims)]
    if other:
        other_pace = work.events / statistics.median(elsewhere)
        theirs["datafusion_events_per_second"] = round(other_pace)
        theirs["datafusion_rows"] = other_rows
        theirs["datafusion"] = (
            f"{other.version}, unbounded plan over ordered CSV, without __op, __ts and __exp"
        )
        found.append(Point("speed against DataFusion", pace / other_pace, 1.0, "×", at_least=True))
        other.close()
    elif case.elsewhere is None:
        theirs["datafusion"] = "refuses this query over unbounded input"
    ours["points"] = {point.name: point.json() for point in found}
    failures += [point.failure() for point in found if not point.holds]
    return ours, theirs, failures


def _idlest(cores: set[int]) -> int:
    """The core that did least in the last fifth of a second."""

    def idle() -> dict[int, int]:
        lines = (line.split() for line in Path("/proc/stat").read_text().splitlines())
        return {int(w[0][3:]): int(w[4]) for w in lines if w[0][:3] == "cpu" and w[0][3:].isdigit()}

    try:
        before = idle()
        time.sleep(0.2)
        after = idle()
    except OSError:
        return max(cores)
    return max(cores, key=lambda core: after.get(core, 0) - before.get(core, 0))


def steady() -> None:
    """The same conditions for every program: one core, and freed memory kept by the process.

    Programs that start threads share the core, as they would share a busy machine. Memory: whether the C library
    gives freed buffers back to the system depends on what else the heap holds, and a run that gets fresh pages takes up
    to twice as long (the hand-written join: 8 or 16 M events/s). DataFusion brings an allocator that keeps them.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {_idlest(os.sched_getaffinity(0))})
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(_M_MMAP_THRESHOLD, 1 << 30)
        libc.mallopt(_M_TRIM_THRESHOLD, 1 << 30)
