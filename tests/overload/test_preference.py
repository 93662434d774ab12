"""Plans of dynamic monitoring levels: what they are worth, and the searches against trying all."""

from __future__ import annotations

import random

import pytest

from penstock.overload.policy.preference.model import Level, Problem, judged, merit
from penstock.overload.policy.preference.search import INFERIOR, prune, pruned
from penstock.overload.policy.promotion.model import Route, Stage
from penstock_lab.searches.preference_basic import basic
from penstock_lab.searches.preference_exhaustive import exhaustive, search_space

MOST = 2000
"""Plans of a problem."""


def level(
    designated: int = 0, rank: int = 1, first: int = 0, run: int = 0, route: int = 0, **values: object
) -> Level:
    told = {"values": (1,), "significant": (1.0,), "promising": (1.0,), "everywhere": (True,), **values}
    return Level(route, designated, rank, 0, run, first, **told)  # type: ignore[arg-type]


def route(stages: int, waiting: float = 100.0, rate: float = 10.0) -> Route:
    return Route(tuple(Stage(1.0, (0.0, 0.0, waiting if at == 0 else 0.0), rate) for at in range(stages)))


def drawn(seed: int) -> Problem:
    rng = random.Random(seed)
    while True:
        routes = []
        for _ in range(rng.choice((1, 1, 2))):
            rate, stages = float(rng.choice((8, 16, 64))), []
            for _ in range(rng.randint(1, 4)):
                queues = (*(float(rng.randint(0, 4)) for _ in range(2)), float(rng.choice((0, 30, 100))))
                selectivity = rng.choice((0.25, 0.5, 1.0, 2.0))
                stages.append(Stage(float(rng.randint(1, 5)), queues, rate, selectivity))
                rate *= selectivity
            routes.append(Route(tuple(stages)))
        levels = []
        for _ in range(rng.randint(1, 4)):
            which = rng.randrange(len(routes))
            designated = rng.randrange(len(routes[which].stages))
            n = rng.choice((1, 1, 2))
            levels.append(
                Level(
                    which, designated, rng.randint(1, 2), rng.randrange(2), designated // 2,
                    rng.randint(0, designated), tuple(rng.sample(range(9), n)),
                    tuple(float(rng.choice((1, 2, 40))) for _ in range(n)),
                    tuple(float(rng.choice((1, 2, 40))) for _ in range(n)), (True,) * n,
                )
            )  # fmt: skip
        problem = Problem(
            tuple(routes), tuple(levels), float(rng.choice((20, 100, 400, 1600))),
            rng.choice((1e9, 1e9, 8.0, 2.0)), 0.125, rng.choice((1e9, 400.0)), rng.choice((1.0, 4.0)),
        )  # fmt: skip
        if search_space(problem) <= MOST:
            return problem


def compared(first: int, last: int) -> dict[str, int]:
    """How often the searches are as good as trying all."""
    found = {"problems": 0, "basic": 0, "pruned, same values": 0}
    for seed in range(first, last):
        problem = drawn(seed)
        best, plain, small = exhaustive(problem), basic(problem), pruned(problem)
        for plan in (plain, small):
            assert plan.cost <= problem.capacity
        assert merit(best)[:2] <= merit(plain)[:2]
        found["problems"] += 1
        found["basic"] += merit(plain)[:2] == merit(best)[:2]
        kept = [
            sum(rows for one in levels for rows in one.promising)
            for levels in (prune(problem.levels), problem.levels)
        ]
        found["pruned, same values"] += kept[0] < kept[1] or small.expiring <= plain.expiring
    return found


def test_searches_are_hardly_worse_than_trying_all() -> None:
    found = compared(0, 150)
    assert found["basic"] >= 0.9 * found["problems"], found
    assert found["pruned, same values"] >= 0.85 * found["problems"], found


def test_a_promise_is_looked_up_before_what_takes_long() -> None:
    """Nobody waits for nothing: behind the first operator a look-up costs less, but rows come too late."""
    stages = Stage(1.0, (0.0, 100.0), 10.0, 0.1), Stage(1.0, (0.0, 0.0), 1.0)
    problem = Problem(
        (Route(stages),), (level(1),), lifespan=50.0, capacity=1e9, look=0.125, doubt=float("inf")
    )
    for search in (basic, pruned, exhaustive):
        assert [places for _, places in search(problem).active] == [(0,)]
    late = Problem((Route(stages),), (level(1),), lifespan=1e4, capacity=1e9, look=0.125, doubt=float("inf"))
    for search in (basic, pruned, exhaustive):
        assert [places for _, places in search(late).active] == [(1,)], "cheaper, and in time"


def test_rows_are_looked_at_again_behind_a_designated_operator() -> None:
    problem = Problem((route(4),), (level(1), level(3, run=1)), 20.0, 1e9, 0.125, doubt=float("inf"))
    first, second = problem.levels
    assert sorted(problem.ways(first)) == [(0,), (1,)]
    # From 0 or 1 on it is lost at operator 1, so there is a second place behind; from 2 on it is not.
    assert sorted(problem.ways(second)) == [(0, 2), (0, 3), (1, 2), (1, 3), (2,), (3,)]
    assert problem.latency(second, (0, 2)) < problem.latency(second, (0, 3)) < problem.latency(second, (3,))


def test_of_consecutive_joins_by_one_attribute_the_last_is_designated() -> None:
    levels = (
        level(0, values=(1, 2), significant=(5.0, 5.0), promising=(1.0, 1.0), everywhere=(True, True)),
        level(1, values=(2, 3), significant=(4.0, 4.0), promising=(1.0, 2.0), everywhere=(True, False)),
        level(2, rank=2, run=1),
    )
    near, far = prune(levels)
    assert (near.designated, near.values, near.significant) == (1, (1, 2), (5.0, 9.0)), (
        "3 meets nobody at one of them"
    )
    assert (far.designated, far.rank) == (2, 2)


def test_values_that_come_to_hardly_anything_are_dropped() -> None:
    some = level(
        values=(1, 2, 3),
        significant=(10.0, 10.0, 1.0),
        promising=(10.0, 0.0, 100 * INFERIOR),
        everywhere=(True,) * 3,
    )
    (kept,) = prune([some])
    assert kept.values == (1, 3)
    (kept,) = prune([some, level(1, values=(4,), significant=(11.0,), promising=(10.0,))])[:1]
    assert kept.values == (1, 4), "less than the part of the best that is kept"
    many = {"values": (5,), "significant": (1e6,), "promising": (1e6,)}
    for elsewhere in (level(route=1, **many), level(1, run=1, **many), level(rank=2, **many)):
        assert prune([some, elsewhere])[0].values == (1, 3), "results need rows of every path, however rare"


def test_the_best_rank_counts_most() -> None:
    """Definition 10: what rank 1 loses comes before all that rank 2 loses, and that before the cost."""
    problem = Problem(
        (route(1), route(1)),
        (level(route=0), level(route=1, rank=2, promising=(100.0,))),
        40.0, 1.25, 0.125, doubt=float("inf"),
    )  # fmt: skip
    for search in (basic, pruned, exhaustive):
        plan = search(problem)
        assert [one.rank for one, _ in plan.active] == [1], "there are units for one look-up a row"
        assert plan.expiring == (0.0, 100.0)
    nothing = judged(problem, ())
    assert nothing.expiring == (1.0, 100.0) and nothing.cost == 0


@pytest.mark.parametrize("bad", [{"rank": 0}, {"first": 2, "designated": 1}, {"promising": ()}])
def test_a_level_is_told_in_full(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"level|value"):
        level(**bad)  # type: ignore[arg-type]
