"""All placements, one after the other: what the other searches are measured by.

Paper      TP, §4.3.4 and Theorem 1; Definition 4 says which is best.
Invariant  every placement of every run of levels from the best on is judged; none is passed over for what is known of others, but those
           that are not ordered are refused.
Cost       the product of all evaluation paths.
"""

from __future__ import annotations

from itertools import product
from math import prod
from operator import getitem, le

from penstock.overload.policy.promotion.model import Problem, Promotion, merit, promotion


def search_space(problem: Problem) -> int:
    """Theorem 1: placements of all sets of active levels. A level is not active, or its determinants are anywhere on their paths."""
    return prod(1 + prod(len(problem.determinants[i].path) for i in numbers) for numbers in problem.members)


def candidates(problem: Problem) -> int:
    """Those of them whose levels are active from the best on, without gaps: what `exhaustive` looks at, ordered or not."""
    total = ways = 1
    for numbers in problem.members:
        ways *= prod(len(problem.determinants[i].path) for i in numbers)
        total += ways
    return total


def exhaustive(problem: Problem, *, ordered: bool = True) -> Promotion:
    """The best placement, with the fewest active levels if several are; `ordered=False` admits those that Definition 5 forbids."""
    best, best_places = (*merit(problem.at_rest, 0.0, problem.lifespan), 0), dict[int, int]()

    def descend(level: int, places: dict[int, int], latencies: tuple[float, ...], cost: float) -> None:
        nonlocal best, best_places
        numbers, rest = problem.members[level], problem.at_rest[level + 1 :]
        paths = [problem.determinants[i].path for i in numbers]
        waits = [problem.latencies[i] for i in numbers]
        works = [
            {place: problem.work(i, place, places) for place in problem.determinants[i].path} for i in numbers
        ]
        starts = [max((places[j] for j in problem.better[i]), default=0) if ordered else 0 for i in numbers]
        for chosen in product(*paths):
            if not all(map(le, starts, chosen)):
                continue
            here = (*latencies, max(map(getitem, waits, chosen), default=0.0))
            total = cost + sum(map(getitem, works, chosen))
            found = (*merit((*here, *rest), total, problem.lifespan), level + 1)
            if found < best and total <= problem.capacity:
                best, best_places = found, places | dict(zip(numbers, chosen, strict=True))
            if level + 1 < problem.levels:
                descend(level + 1, places | dict(zip(numbers, chosen, strict=True)), here, total)

    if problem.levels:
        descend(0, {}, (), 0.0)
    return promotion(problem, best_places, best[-1])
