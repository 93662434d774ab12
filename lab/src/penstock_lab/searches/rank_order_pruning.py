"""Rank Order Pruning: level by level, every determinant at the classifier that is cheapest for it.

Paper      TP, Figure 4.4. Read as: several determinants make a level's latency by their maximum and have no order among themselves;
           line 12 takes a latency that is just the lifespan; line 17 looks at the best cost; line 8 ends at the determinant's own path; line
           16 moves the start of all paths on a route, or levels would change order.
Invariant  the placement is ordered, within the capacity, and all active levels fit.
Cost       O(determinants × classifiers).

It is not optimal, whatever Theorem 4 says: a level goes where it is cheapest for itself (of equals, the last), and the next ones may only
follow, too late to fit or where they cost more. A level that takes just what is left of the capacity is given up (line 17 as printed),
and levels are promoted that would fit without. `exact` does none of this.
"""

from __future__ import annotations

from math import inf

from penstock.overload.policy.promotion.model import Problem, Promotion, promotion


def rop(problem: Problem) -> Promotion:
    """The placement that Figure 4.4 finds; comments have its line numbers."""
    start = [0] * len(problem.routes)  # 2
    places: dict[int, int] = {}
    spent = 0.0
    for level, numbers in enumerate(problem.members, start=1):  # 5
        found: dict[int, int] = {}
        cost = spent
        for number in numbers:  # 6
            one = problem.determinants[number]
            best, best_cost = None, inf  # 7
            for place in range(max(start[one.route], one.first), one.last + 1):  # 8
                estimate = cost + problem.work(number, place, places)  # 11
                fits = problem.latencies[number][place] <= problem.lifespan  # 10
                if fits and estimate <= best_cost and estimate <= problem.capacity:  # 12
                    best, best_cost = place, estimate  # 13
            if best is None:
                return promotion(problem, places, level - 1)  # 19
            found[number], cost = best, best_cost
        if cost >= problem.capacity:
            return promotion(problem, places, level - 1)  # 17
        for number, place in found.items():
            route = problem.determinants[number].route
            start[route] = max(start[route], place)  # 16
        places |= found  # 18
        spent = cost
    return promotion(problem, places, problem.levels)  # 21
