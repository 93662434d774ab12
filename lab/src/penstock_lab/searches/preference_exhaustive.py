"""All plans, one after the other: what the other searches are measured by (Works 2013, §6.5.4)."""

from __future__ import annotations

from itertools import product
from math import prod

from penstock.overload.policy.preference.model import Level, Places, Plan, Problem, judged, merit


def singles(problem: Problem) -> list[Level]:
    return [one.only([k]) for one in problem.levels for k in range(len(one.values))]


def search_space(problem: Problem) -> int:
    """The plans of a problem: every value is not active, or looked up in one of its ways."""
    return prod((1 + sum(1 for _ in problem.ways(one))) ** len(one.values) for one in problem.levels)


def exhaustive(problem: Problem) -> Plan:
    """The best plan by Definition 10 within the capacity."""
    criteria = singles(problem)
    best = judged(problem, ())
    ways: list[list[Places | None]] = [[None, *problem.ways(one)] for one in criteria]
    for places in product(*ways):
        chosen = [(one, at) for one, at in zip(criteria, places, strict=True) if at is not None]
        plan = judged(problem, chosen)
        if plan.cost <= problem.capacity and merit(plan) < merit(best):
            best = plan
    return best
