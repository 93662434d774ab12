"""A small placement problem by hand, and what a placement is worth; tests of lab's searches use both."""

from __future__ import annotations

from math import inf

from penstock.overload.policy.promotion.model import (
    Determinant,
    Problem,
    Promotion,
    Route,
    Stage,
    merit,
)


def worth(problem: Problem, found: Promotion) -> tuple[int, float]:
    return merit(found.latency, found.cost, problem.lifespan)


def loaded(*determinants: Determinant, lifespan: float, capacity: float = inf) -> Problem:
    """A hundred rows on the back burner of each stage; the first operator drops half of them, the second one is slow.

    At rest 101 + 3 · 151 = 554. With c for the determinants of a level and better ones, the level is known after 101 c at the first
    classifier and after 101 + 151 c at the second; then 4 or 3 for the operators behind.
    """
    queues = (*[0] * max((one.level for one in determinants), default=1), 100)
    route = Route((Stage(1, queues, 100, 0.5), Stage(3, queues, 50)))
    return Problem((route,), determinants, lifespan, capacity)
