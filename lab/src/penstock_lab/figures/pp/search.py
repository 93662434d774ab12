"""How long the searches for a placement take, by determinants: figure 4.10 d of TP (Works 2013).

One level, as there, whose determinants may all be evaluated at any of five classifiers. Queues, costs and shares differ, so that the places
do, too; the lifespan is one that most of them fit into.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from time import process_time

from penstock.overload.policy.promotion.exact import exact
from penstock.overload.policy.promotion.model import Determinant, Problem, Promotion, Route, Stage
from penstock_lab.searches.promotion_exhaustive import candidates, exhaustive
from penstock_lab.searches.rank_order_pruning import rop

CLASSIFIERS = 5
ENOUGH = 0.02
"""CPU seconds that a search is repeated for: a single greedy one is below the clock's grain."""


@dataclass(frozen=True, slots=True)
class SearchTime:
    """CPU seconds a search, and how many placements there are."""

    determinants: int
    placements: int
    rop: float
    exact: float
    exhaustive: float


def search_times(determinants: Iterable[int]) -> list[SearchTime]:
    """A row for each number of determinants. Ten determinants have ten million placements, which take half a minute."""
    rows = []
    for count in determinants:
        problem = one_level(count)
        times = (_seconds(search, problem) for search in (rop, exact, exhaustive))
        rows.append(SearchTime(count, candidates(problem), *times))
    return rows


def one_level(determinants: int) -> Problem:
    """Determinants of one level over a path of five classifiers; rows become fewer, then more."""
    stages = tuple(
        Stage(cost=1 + i % 2, queues=(2, 200 - 20 * i), rate=rate, selectivity=selectivity)
        for i, (rate, selectivity) in enumerate(
            zip((1000, 500, 250, 500, 1000), (0.5, 0.5, 2, 2, 1), strict=True)
        )
    )
    assert len(stages) == CLASSIFIERS
    ranked = tuple(
        Determinant(
            level=1, route=0, cost=0.25 * (1 + i % 3), share=0.02 * (1 + i % 2), first=0, last=CLASSIFIERS - 1
        )
        for i in range(determinants)
    )
    return Problem((Route(stages),), ranked, lifespan=2000, capacity=1e6)


def _seconds(search: Callable[[Problem], Promotion], problem: Problem) -> float:
    began, runs = process_time(), 0
    while (spent := process_time() - began) < ENOUGH:
        search(replace(problem))  # a problem keeps its latencies: each run works them out anew
        runs += 1
    return spent / runs
