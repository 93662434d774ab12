"""Figure 6.9: how long PR and PR-Prune search for a plan, by the number of dynamic evaluation paths.

Plans are asked for as in a run: the problems of PR-Prune's run over eight joins are kept, and both searches answer all of them, in turn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import process_time
from typing import Any

from penstock.overload.policy.preference.model import Plan, Problem
from penstock.overload.policy.preference.search import pruned
from penstock_lab.benchmarks.points import Point
from penstock_lab.figures.bars import at_most
from penstock_lab.figures.cacq.chart import Chart, Data, Sample, Sizes
from penstock_lab.figures.pr.approaches import PR, PR_PRUNE
from penstock_lab.figures.pr.floor import Floor, capacity, fed, opened
from penstock_lab.figures.pr.measures import SOURCE
from penstock_lab.figures.pr.preferred import JOINED
from penstock_lab.figures.runner import Connect, Tell
from penstock_lab.searches.preference_basic import basic

SEARCHES: dict[str, Callable[[Problem], Plan]] = {PR: basic, PR_PRUNE: pruned}
PAPER = {1: 31.6, 8: 14.3}
"""Per cent of the time that PR-Prune saves."""


def problems(floor: Floor, connect: Connect) -> list[Problem]:
    """What is to be planned in a run; nothing where there is nothing to look up."""
    budget = capacity(floor, connect).budget
    session, query = opened(floor, floor.lifespan * budget, connect, budget=budget, allocation="prefer")
    allocation: Any = session.engine.queries["posted"].pipeline.allocation
    kept: list[Problem] = []

    def noted(problem: Problem) -> Plan:
        if problem.levels:
            kept.append(problem)
        return pruned(problem)

    allocation.search = noted
    for _ in fed(session, floor.made.feed):
        query.changes()
    return kept


def measure(sizes: Sizes, tell: Tell, connect: Connect) -> Data:
    """`rows`: periods; `turns`: interleaved."""
    samples = []
    for paths in sizes.xs:
        tell(f"{paths} paths")
        asked = problems(replace(JOINED[8], paths=paths, periods=sizes.rows), connect)
        took: dict[str, list[float]] = {name: [] for name in SEARCHES}
        for turn in range(sizes.turns + 1):
            for name, search in SEARCHES.items():
                began = process_time()
                for problem in asked:
                    search(replace(problem, known={}))  # a problem keeps what it has worked out
                if turn:
                    took[name].append(1000 * (process_time() - began) / len(asked))
        values = sum(len(level.values) for problem in asked for level in problem.levels) / len(asked)
        for name, turns in took.items():
            more: dict[str, float | None] = {"problems": len(asked), "values": values}
            samples.append(Sample(name, paths, tuple(turns), more))
    return Data(samples)


def _less(data: Data) -> dict[int, float]:
    return {round(a.x): a.against(b) for a, b in data.both(PR_PRUNE, PR)}


def bars(data: Data) -> list[Point]:
    found = _less(data)
    more: dict[str, float | bool] = {f"at {paths}": times for paths, times in found.items()}
    return [
        replace(
            at_most(f"CPU time of a search, {PR_PRUNE} against {PR}, worst", max(found.values()), 1),
            more=more,
        )
    ]


def paper(data: Data) -> list[Point]:
    return [
        Point(f"less time, {paths} paths", 100 * (1 - times), PAPER[paths], "%", at_least=True)
        for paths, times in _less(data).items()
        if paths in PAPER
    ]


def lead(data: Data) -> str:
    told = ", ".join(
        f"{a.x:g}: {a.value:.3g} and {b.value:.3g} ms ({a.more['values']:.0f} values)"
        for a, b in data.both(PR_PRUNE, PR)
    )
    return f"a search takes {PR_PRUNE} and {PR}, by paths, {told}"


CHART = Chart(
    "pr-6.9",
    "search for a plan by the number of dynamic evaluation paths, 8 joins",
    "paths",
    (("search_ms", "CPU time of a search, ms"),),
    f"{PR_PRUNE} searches in less time than {PR}, whatever the number of paths",
    "Figure 6.9: 31.6 % less time with 1 path, 14.3 % less with 8",
    measure,
    Sizes((1, 2, 4, 8), rows=1, turns=9),
    Sizes((1, 2, 4, 8), rows=4, turns=21),
    lead,
    bars,
    paper,
    "both searches on the same problems, in turn",
    scales=("linear", "linear"),
    source=SOURCE,
)
