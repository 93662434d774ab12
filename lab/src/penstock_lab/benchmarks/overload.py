"""`penstock bench overload`: what every allocation tells of each rank, and how late, at 0.5 to 4 times the capacity.

Stock Market Join over ticks and posts that come steadily; the share of ticks that have a rank is varied, a third of them each. The load is
what all rows of a step take, worked on as they come, and the budget a part of that: the rows are the same at any load. The clock is virtual, so a run
repeats itself. Every allocation is compared with fifo, on the same rows with the same budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import penstock
from penstock_lab.benchmarks.points import Point
from penstock_lab.benchmarks.report import Tell
from penstock_lab.figures.pr.approaches import PP, PR_JOIN, RAND, SEM, TRAD
from penstock_lab.figures.pr.floor import LEVELS, STEPS, Floor, Outcome, offered, run
from penstock_lab.figures.tp.outcomes import checked
from penstock_lab.figures.tp.stocks import STOCKS

ALLOCATIONS = {"prefer": PR_JOIN, "promote": PP, "semantic": SEM, "random": RAND, "fifo": TRAD}
ENOUGH, MUCH = 0.5, 2.0
"""Loads: up to this one everything is told; from this one on rank 1 is preferred."""
WHOLE = 0.99
NO_FEWER = 0.98
AHEAD = 1.5
"""Results of rank 1 against fifo where there is much too much."""
SEED = 2013


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured: loads, shares of significant ticks in per cent, and seconds in lengths of two windows."""

    loads: tuple[float, ...]
    shares: tuple[float, ...]
    periods: int


QUICK = Extent((0.5, 1.0, 2.0, 4.0), (1.0, 20.0), 2)
FULL = Extent((0.5, 1.0, 1.5, 2.0, 3.0, 4.0), (1.0, 5.0, 10.0, 20.0), 6)


def bench(*, quick: bool, tell: Tell) -> dict[str, Any]:
    """The JSON object of the command line."""
    return measure(QUICK if quick else FULL, tell)


def measure(extent: Extent, tell: Tell) -> dict[str, Any]:
    measured: dict[str, Any] = {}
    reference: dict[str, Any] = {}
    why: list[str] = []
    for share in extent.shares:
        each = max(1, round(STOCKS * share / 100 / LEVELS))
        floor = Floor(
            each=each, promising=None, window=10.0, posts=50.0, calm=50.0, periods=extent.periods, seed=SEED
        )
        units = float(offered(floor, floor.made.feed, penstock.connect)[floor.settled :].mean())
        whole = run(floor, None, penstock.connect)
        for load in extent.loads:
            case = f"load {load:g}, {share:g} % of the ticks"
            tell(case)
            budget = round(units / load)
            found = {
                name: checked(run(floor, budget, penstock.connect, approach), whole, name)
                for name, approach in ALLOCATIONS.items()
            }
            points = judged(load, found, whole)
            measured[case] = {
                **{name: described(one, whole, budget) for name, one in found.items()},
                "points": {p.name: p.json() for p in points},
            }
            reference[case] = {
                "results without a limit": {_rank(rank): whole.results(rank) for rank in RANKS},
                "units a step": budget,
                "lifespan in microseconds": STEPS * budget,
            }
            why += [f"{case}: {p.failure()}" for p in points if not p.holds]
    return {
        "name": "overload",
        "claim": f"all of rank 1 is told at {ENOUGH:g} times the capacity ({100 * WHOLE:g} %); prefer tells no fewer results of rank 1 than fifo at any load,"
        f" and {AHEAD:g} times as many from {MUCH:g} times the capacity on, none of them later than fifo's (p99)",
        "measured": measured,
        "reference": reference,
        "holds": not why,
        "why_not": why,
    }


RANKS = (*range(1, LEVELS + 1), 0)


def _rank(rank: int) -> str:
    return f"rank {rank}" if rank else "no rank"


def described(one: Outcome, whole: Outcome, budget: int) -> dict[str, Any]:
    """By rank: results, their share of all there are, and microseconds (of the virtual clock) until they were told; rows that were dropped."""
    ranks = {
        _rank(rank): {
            "told": one.results(rank),
            "recall": round(one.results(rank) / max(whole.results(rank), 1), 4),
            "p50_us": one.waited(rank, 0.5) * budget,
            "p99_us": one.waited(rank, 0.99) * budget,
        }
        for rank in RANKS
    }
    dropped = {word: sum(row[word] for row in one.load["ranks"]) for word in ("expired", "shed")}
    return {**ranks, **dropped}


def judged(load: float, found: dict[str, Outcome], whole: Outcome) -> list[Point]:
    mine, theirs = found["prefer"], found["fifo"]
    if load <= ENOUGH:
        worst = min(one.results(1) / max(whole.results(1), 1) for one in found.values())
        return [Point("recall of rank 1, the worst allocation", worst, WHOLE, "×", at_least=True)]
    times = mine.results(1) / max(theirs.results(1), 1)
    limit = AHEAD if load >= MUCH else NO_FEWER
    points = [Point("results of rank 1, prefer against fifo", times, limit, "×", at_least=True)]
    if load >= MUCH:
        late = mine.waited(1, 0.99) / max(theirs.waited(1, 0.99), 1)
        points.append(Point("p99 of rank 1, prefer against fifo", late, 1.0, "×"))
    return points
