"""What `join="auto"` takes against the best of every fixed plan and demand, in one run.

Fixed are: no tree, the trees that begin with an equality, shared SteMs; each with every demand. (A tree that begins with two inputs that no equality
connects keeps all pairs of their rows, a hundred million here: it is left out.) `auto` counts in the written order in which it is slowest.

All are measured in turn; who seems best then meets `auto` in pairs of runs, one right after the other. The verdict goes by those: the least of a
dozen medians is partly luck.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from penstock_lab.benchmarks import runs
from penstock_lab.benchmarks.cases import Case
from penstock_lab.benchmarks.points import Point, in_turn
from penstock_lab.benchmarks.workload import Workload

WORSE = 1.15
"""By so much `auto` may fall behind."""
CLOSE = 1.05
"""Who is so near to the best may be it."""
DEMANDS = ("off", "doe", "jit")

Way = Callable[[], float]


def fixed_pairs(case: Case, repeat: int) -> Point:
    """`auto` against the best fixed (plan, demand), by the time of the whole engine."""
    work = case.work()
    expected = runs.hand_written(case.program, work).checksum
    autos = {
        f"auto_{label}": _way(case.with_(sql=sql), work, expected, {})
        for label, sql in (("as_it_is", case.sql), *case.orders)
    }
    fixed = {
        f"{plan}_{demand}": _way(case, work, expected, {**options, "demand": demand})
        for plan, options in plans(case).items()
        for demand in DEMANDS
    }
    for run in (*autos.values(), *fixed.values()):
        run()
    ways = {**autos, **fixed}
    taken = dict(zip(ways, in_turn(repeat, *ways.values()), strict=True))
    slowest = max(autos, key=lambda way: taken[way])
    best = min(taken[way] for way in fixed)
    found = {
        way: _in_pairs(2 * repeat + 1, autos[slowest], fixed[way])
        for way in fixed
        if taken[way] <= CLOSE * best
    }
    more: dict[str, float | bool] = {f"{way}_ns": 1e9 * cost for way, cost in taken.items()}
    more |= {f"{slowest}_against_{way}": ratio for way, ratio in found.items()}
    return Point("auto against the best fixed plan and demand", max(found.values()), WORSE, "×", more=more)


def plans(case: Case) -> dict[str, dict[str, Any]]:
    """The options that fix a plan."""
    trees = {f"tree_{name}_first": {"join": "tree", "tree": pairs} for name, pairs in case.trees}
    return {"mjoin": {"join": "mjoin"}, "eddy": {"join": "eddy"}, **trees}


def _way(case: Case, work: Workload, expected: Any, options: dict[str, Any]) -> Way:
    """Seconds an event."""

    def run() -> float:
        done = runs.engine(case, work, **options)
        difference = done.checksum.difference(expected)
        assert not difference, f"{case.text()} with {options} differs: {difference}"
        return done.seconds / work.events

    return run


def _in_pairs(repeat: int, one: Way, other: Way) -> float:
    """The median of how much longer `one` takes than `other` right after it."""
    return statistics.median(one() / other() for _ in range(repeat))
