"""Random problems, small enough to try every placement.

Shares and costs are eighths and all else is whole numbers, so that sums of costs are exact in any order and equal means equal.
"""

from __future__ import annotations

import random
from dataclasses import replace

from penstock.overload.policy.promotion.model import Determinant, Problem, Route, Stage, promotion
from penstock_lab.searches.promotion_exhaustive import candidates

SELECTIVITIES = (0.25, 0.5, 0.5, 1.0, 1.0, 2.0, 4.0)
MOST = 3000
"""Placements of a problem."""


def make(seed: int, most: int = MOST) -> Problem:
    rng = random.Random(seed)
    while candidates(problem := _any(rng)) > most:
        pass
    return problem


def _any(rng: random.Random) -> Problem:
    levels = rng.randint(1, 4)
    routes = tuple(_route(rng, levels) for _ in range(rng.choice((1, 1, 2, 3))))
    determinants = [_determinant(rng, rng.randint(1, levels), routes) for _ in range(rng.randint(0, 3))]
    determinants += [_determinant(rng, level, routes) for level in range(1, levels + 1) if rng.random() < 0.9]
    rng.shuffle(determinants)
    free = Problem(routes, tuple(determinants), lifespan=0, capacity=0)
    return replace(free, lifespan=_lifespan(rng, free), capacity=_capacity(rng, free))


def _lifespan(rng: random.Random, problem: Problem) -> float:
    """Often just what some rows take: there is where fitting ends."""
    known = [t for ways in problem.latencies for t in ways.values()]
    below = [t for t in known if t < max(problem.at_rest)]
    return rng.choice(below if below and rng.random() < 0.8 else [*known, *problem.at_rest]) + rng.choice(
        (0, 0, 1, 100)
    )


def _capacity(rng: random.Random, problem: Problem) -> float:
    """Often just what some placement costs; sometimes enough for all."""
    places = {i: rng.choice(one.path) for i, one in enumerate(problem.determinants)}
    return rng.choice((promotion(problem, places, problem.levels).cost, rng.randint(0, 4000), 1e9, 1e9))


def _route(rng: random.Random, levels: int) -> Route:
    rate = float(rng.choice((64, 128, 256)))
    stages = []
    for _ in range(rng.randint(1, 4)):
        queues = (*(rng.randint(0, 5) for _ in range(levels)), rng.choice((0, 40, 200)))
        selectivity = rng.choice(SELECTIVITIES)
        stages.append(Stage(rng.randint(0, 8), queues, rate, selectivity))
        rate *= selectivity
    return Route(tuple(stages))


def _determinant(rng: random.Random, level: int, routes: tuple[Route, ...]) -> Determinant:
    route = rng.randrange(len(routes))
    end = len(routes[route].stages) - 1
    first = rng.randint(0, end)
    # Bound inputs stay bound: nearly all paths reach the end of their route.
    last = end if rng.random() < 0.9 else rng.randint(first, end)
    cost, share = rng.choice((0.0, 0.25, 0.5, 1.0, 2.0)), rng.choice((0.0, 0.125, 0.125, 0.25, 0.5))
    return Determinant(level, route, cost, share, first, last)


def rough(problem: Problem, seed: int) -> Problem:
    """The same with fractions, as monitors measure them: sums in another order may differ in their last digits."""
    rng = random.Random(f"rough {seed}")
    routes = tuple(
        Route(tuple(replace(s, cost=s.cost * _near(rng), rate=s.rate * _near(rng)) for s in route.stages))
        for route in problem.routes
    )
    determinants = tuple(
        replace(one, cost=one.cost * _near(rng), share=one.share * _near(rng)) for one in problem.determinants
    )
    return Problem(routes, determinants, problem.lifespan * _near(rng), problem.capacity * _near(rng))


def _near(rng: random.Random) -> float:
    return rng.uniform(0.8, 1.2)
