"""The best placement, by dynamic programming.

Paper      none; Definition 4 and Definition 5 of TP are what is asked for.
Invariant  as good as trying all placements: the same levels fit, the same levels are active, the cost is the same.
Cost       O(determinants² × classifiers³): thousands of steps, not 5¹⁰.

Let f_k(q) of a route be the least cost of an ordered placement of its determinants of levels 1 … k at classifiers ≤ q at which all fit.

    f_0(q) = 0,    f_k(q) = min over c ≤ q of  f_{k-1}(c) + Σ over determinants d of level k: min of w_d(p), c ≤ p ≤ q, d fits at p

w_d(p) is the cost of d at p once all more significant determinants of the route stand at or before p.

*Proof.* ≥: take the best placement for f_k(q), and as c the last place of a level below k. What it does with levels below k is
one of those that f_{k-1}(c) is the least of. Ordered, d of level k is at some p from c to q; every more significant determinant is at c or
before, thus at p or before, so that d costs w_d(p) wherever they are. ≤: what the right side is made of is ordered for every c, since
levels below k are at or before c and level k at or after it; and whether d fits depends on d and p alone (`model`). ∎

Routes share nothing but the capacity, and it bounds the sum, which is least when every route's is. So K levels can be active iff
Σ f_K(last classifier) is finite and within the capacity; this sum does not fall with K, so the first K that cannot ends the search.
Among the K that can, those are best with which most levels fit, counting levels behind K that fit at rest; then the cheapest, then the fewest
active. A level that is active and does not fit is never better: without it and what is behind, the same levels fit at no more cost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from penstock.overload.policy.promotion.model import Problem, Promotion, merit, promotion


@dataclass(frozen=True, slots=True)
class _Least:
    """The least cost of some levels of a route, and how."""

    cost: float = 0.0
    places: dict[int, int] = field(default_factory=dict)


_NONE = _Least(inf)


def exact(problem: Problem) -> Promotion:
    """The best ordered placement by Definition 4; of equally good ones, with the fewest active levels, each as early as may be."""
    tables = [[_Least()] * len(route.stages) for route in problem.routes]
    best = promotion(problem, {}, 0)
    for level in range(1, problem.levels + 1):
        tables = [_extended(problem, level, route, table) for route, table in enumerate(tables)]
        if inf in (table[-1].cost for table in tables):
            break
        places = {number: place for table in tables for number, place in table[-1].places.items()}
        found = promotion(problem, places, level)
        if found.cost > problem.capacity:
            break
        best = min(best, found, key=lambda one: merit(one.latency, one.cost, problem.lifespan))
    return best


def _extended(problem: Problem, level: int, route: int, table: list[_Least]) -> list[_Least]:
    """f_k from f_{k-1}."""
    numbers = [i for i in problem.members[level - 1] if problem.determinants[i].route == route]
    if not numbers:
        return table
    return [
        min(
            (_behind(problem, numbers, table[cut], cut, end) for cut in range(end + 1)),
            key=lambda way: way.cost,
        )
        for end in range(len(table))
    ]


def _behind(problem: Problem, numbers: list[int], before: _Least, cut: int, end: int) -> _Least:
    """These determinants from `cut` to `end`, each where it is cheapest, behind those that are there."""
    cost, places = before.cost, dict(before.places)
    if cost == inf:
        return _NONE
    for number in numbers:
        one, latencies = problem.determinants[number], problem.latencies[number]
        ways = [
            (problem.work(number, place, before.places), place)
            for place in range(max(cut, one.first), min(end, one.last) + 1)
            if latencies[place] <= problem.lifespan
        ]
        if not ways:
            return _NONE
        least, places[number] = min(ways)
        cost += least
    return _Least(cost, places)
