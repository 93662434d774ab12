"""What approaches make of the same rows and the same budget, by whatever is varied. A turn is another seed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache

from penstock_lab.benchmarks.points import Point
from penstock_lab.figures.bars import at_least
from penstock_lab.figures.cacq.chart import Chart, Data, Judge, Measure, Sample, Sizes
from penstock_lab.figures.pr.floor import LEVELS, STEP, Capacity, Floor, Outcome, capacity, run
from penstock_lab.figures.runner import Connect, Tell
from penstock_lab.figures.tp.outcomes import checked

SOURCE = "Works, Targeted Prioritized Processing in Overloaded Data Stream Systems, dissertation, WPI 2013"
AGAINST = "the other allocations, and no limit at all, on the same rows; what is told must be part of what there is without a limit"
ALL = LEVELS + 1
"""Beside the ranks: results of any and none."""


@lru_cache(maxsize=64)
def outcome(floor: Floor, approach: str, connect: Connect) -> Outcome:
    """Known once for all figures that ask for it."""
    return checked(
        run(floor, capacity(floor, connect).budget, connect, approach), whole(floor, connect), approach
    )


@lru_cache(maxsize=16)
def whole(floor: Floor, connect: Connect) -> Outcome:
    return run(floor, None, connect)


def swept(floor: Callable[[int, int], Floor], approaches: Iterable[str]) -> Measure:
    """`floor`: by x and periods (`rows`); `turns`: seeds."""

    def measure(sizes: Sizes, tell: Tell, connect: Connect) -> Data:
        samples = []
        for x in sizes.xs:
            floors = [replace(floor(x, sizes.rows), seed=2013 + turn) for turn in range(sizes.turns)]
            for approach in approaches:
                tell(f"{x}: {approach}")
                found = [outcome(one, approach, connect) for one in floors]
                samples.append(sample(approach, x, floors, found, connect))
        return Data(samples)

    return measure


def cumulated(floor: Callable[[int], Floor], approaches: Iterable[str], rank: int = 1) -> Measure:
    """By the end of each period; `floor`: by the number of these. `rank`: whose results are the value; `ALL`: all."""

    def measure(sizes: Sizes, tell: Tell, connect: Connect) -> Data:
        floors = [replace(floor(sizes.rows), seed=2013 + turn) for turn in range(sizes.turns)]
        samples = []
        for approach in approaches:
            tell(approach)
            found = [outcome(one, approach, connect) for one in floors]
            for period in range(1, sizes.rows + 1):
                samples.append(sample(approach, period, floors, found, connect, period, rank))
        return Data(samples)

    return measure


def sample(
    approach: str,
    x: float,
    floors: list[Floor],
    found: list[Outcome],
    connect: Connect,
    period: int | None = None,
    rank: int = 1,
) -> Sample:
    """A value for each seed; beside it what the first seed tells."""
    until = None if period is None else round(period * floors[0].every / STEP)
    turns = tuple(float(told(one, rank, until)) for one in found)
    there = whole(floors[0], connect)
    has: Capacity = capacity(floors[0], connect)
    more: dict[str, float | None] = {}
    for which in range(LEVELS + 1):
        more[f"results_{which}"] = found[0].results(which, until)
        more[f"share_{which}"] = found[0].results(which, until) / max(there.results(which, until), 1)
    more |= {
        "results": told(found[0], ALL, until),
        "load": has.burst / has.budget,
        "need": has.need / has.budget,
        "budget": has.budget,
        "disorder": found[0].disorder,
        "in_state": found[0].stored,
        "in_queues": found[0].waiting,
    }
    return Sample(approach, x, turns, more)


def told(one: Outcome, rank: int, until: int | None = None) -> int:
    return int(one.told[:until].sum()) if rank == ALL else one.results(rank, until)


# ------------------------------------------------------------------ what is asked


def gain(mine: Sample, theirs: Sample) -> float:
    """How many times the results, of all seeds together: of one alone a few posts may decide. Of none at all, those of one."""
    return sum(mine.turns) / max(sum(theirs.turns), 1.0)


def gains(data: Data, one: str, other: str) -> list[tuple[float, float]]:
    """By x."""
    return [(mine.x, gain(mine, theirs)) for mine, theirs in data.both(one, other)]


def ahead(data: Data, one: str, other: str, limit: float, where: str = "worst") -> Point:
    """Results of rank 1, at the place where there are fewest against the other's."""
    found = gains(data, one, other)
    more: dict[str, float | bool] = {f"at {x:g}": times for x, times in found}
    worst = min(times for _, times in found)
    return replace(at_least(f"results of rank 1, {one} against {other}, {where}", worst, limit), more=more)


def shares(data: Data, approaches: Iterable[str], rank: int = 1) -> str:
    """How many of the results of a rank each tells at the last place."""
    said = ", ".join(
        f"{name} {100 * (data.last(name).more[f'share_{rank}'] or 0):.3g} %" for name in approaches
    )
    last = data.last(data.series[0])
    return (
        f"rank 1 needs {100 * (last.more['need'] or 0):.0f} % of the capacity in bursts and all rows {last.more['load']:.0f} times it;"
        f" of its results are told {said}"
    )


def chart(
    chapter: str, number: str, title: str, across: str, claim: str, says: str, measure: Measure, quick: Sizes, full: Sizes,
    *, asked: Judge, words: Judge, lead: Callable[[Data], str], value: str = "results_1",
) -> Chart:  # fmt: skip
    """Results of rank 1, and of the others beside; or, as `value`, of any rank and none."""
    label = "results of rank 1" if value == "results_1" else "results"
    more = (("results_2", "results of rank 2"), ("results_3", "results of rank 3"))
    return Chart(
        f"{chapter}-{number}",
        title,
        across,
        ((value, label), *(more if value == "results_1" else ())),
        claim,
        f"Figure {number}: {says}",
        measure,
        quick,
        full,
        lead,
        asked,
        words,
        AGAINST,
        scales=("linear", "linear"),
        source=SOURCE,
    )
