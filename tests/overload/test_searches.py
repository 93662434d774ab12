"""The search that the engine uses, `exact`: as good as trying everything, as careful as the paper's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf

import pytest

from penstock.overload.policy.promotion.exact import exact
from penstock.overload.policy.promotion.model import (
    Determinant,
    Problem,
    Promotion,
    Route,
    Stage,
    promotion,
)
from penstock_lab.searches.promotion_exhaustive import exhaustive
from penstock_lab.searches.rank_order_pruning import rop
from tests.overload.drawn import make, rough
from tests.overload.problems import loaded, worth

SEARCHES: tuple[Callable[[Problem], Promotion], ...] = (rop, exact, exhaustive)


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize(
    ("lifespan", "capacity", "places"),
    [
        (104, inf, {}),  # too late everywhere
        (105, inf, {0: 0}),
        (254, inf, {0: 0}),
        (255, inf, {0: 1}),  # late enough for half of the rows
        (255, 49, {}),
        (254, 51, {}),
    ],
)
def test_one_determinant(
    search: Callable[[Problem], Promotion], lifespan: float, capacity: float, places: dict[int, int]
) -> None:
    found = search(loaded(Determinant(1, 0, 1, 0, 0, 1), lifespan=lifespan, capacity=capacity))
    assert found.places == places
    assert found.active == ((1,) if places else ())
    assert found.cost == {0: 100, 1: 50}.get(places.get(0, -1), 0)


@pytest.mark.parametrize("search", SEARCHES)
def test_a_level_needs_all_its_determinants(search: Callable[[Problem], Promotion]) -> None:
    """Of the second level one determinant fits and one can be evaluated too late only; the third is not asked, though it would fit."""
    problem = loaded(
        Determinant(3, 0, 1, 0, 0, 1),
        Determinant(1, 0, 1, 0.5, 0, 0),
        Determinant(2, 0, 0, 0, 0, 1),
        Determinant(2, 0, 0, 0, 1, 1),
        lifespan=240,
    )
    found = search(problem)
    assert (found.active, found.places) == ((1,), {1: 0})
    assert found.latency == (101 + (50 + 1) + (25 + 1) * 3, 554, 554)


@pytest.mark.parametrize("search", SEARCHES)
def test_not_behind_an_operator_that_takes_all_there_is(search: Callable[[Problem], Promotion]) -> None:
    """A hundred rows a second take 100 in the first operator and 50 in the second classifier, where to ask them is cheapest."""
    for units, places in ((150, {0: 1}), (149, {0: 0})):
        problem = loaded(Determinant(1, 0, 1, 0, 0, 1), lifespan=300)
        assert search(replace(problem, units=units)).places == places


@pytest.mark.parametrize("units", [50.0, 200.0, 1000.0])
def test_exact_is_as_good_as_trying_everything_where_units_are_few(units: float) -> None:
    for seed in range(100):
        problem = replace(make(seed), units=units)
        assert worth(problem, exact(problem)) == worth(problem, exhaustive(problem)), seed


def test_nothing_is_promoted_if_all_levels_fit_at_rest() -> None:
    """The monitor's third case (§4.3.2): Definition 4 prefers what costs nothing. Figure 4.4 does not ask."""
    problem = loaded(Determinant(1, 0, 1, 0, 0, 1), lifespan=554)
    assert exact(problem) == exhaustive(problem) == promotion(problem, {}, 0)
    assert rop(problem).active == (1,)


def test_theorem_3_does_not_hold_where_rows_become_more() -> None:
    """Level 1 can be evaluated only behind a join that makes ten of one; level 2 before it, for a tenth of the price."""
    queues = (0, 0, 100)
    route = Route((Stage(1, queues, 10, 10.0), Stage(3, queues, 100)))
    problem = Problem((route,), (Determinant(1, 0, 1, 0.25, 1, 1), Determinant(2, 0, 1, 0, 0, 1)), 2306, inf)
    assert exact(problem).cost == 100 + 75
    assert exhaustive(problem, ordered=False).cost == 100 + 10
    assert exhaustive(problem, ordered=False).places == {0: 1, 1: 0}


def test_a_path_that_ends_before_a_better_level_begins_has_no_place() -> None:
    problem = loaded(Determinant(1, 0, 1, 0, 1, 1), Determinant(2, 0, 1, 0, 0, 0), lifespan=300)
    for search in SEARCHES:
        assert search(problem).active == (1,)
    assert exhaustive(problem, ordered=False).active == (1, 2)


@pytest.mark.parametrize("search", SEARCHES)
def test_nothing_to_do(search: Callable[[Problem], Promotion]) -> None:
    """No determinants, no levels, no capacity at all: nothing is active, and nothing is spent."""
    empty = loaded(lifespan=10)
    bare = replace(empty, routes=(Route((Stage(1, (5,), 1),)),))
    poor = loaded(Determinant(1, 0, 1, 0, 0, 1), lifespan=300, capacity=-5)
    assert [search(problem).places for problem in (empty, bare, poor)] == [{}, {}, {}]
    assert search(poor).active == ()


@pytest.mark.parametrize("first", range(0, 800, 100))
def test_exact_is_as_good_as_trying_everything(first: int) -> None:
    for seed in range(first, first + 100):
        problem = make(seed)
        found, best = exact(problem), exhaustive(problem)
        assert (found.active, worth(problem, found)) == (best.active, worth(problem, best)), seed


def test_exact_is_as_good_with_measured_fractions() -> None:
    for seed in range(300):
        problem = rough(make(seed), seed)
        found, best = exact(problem), exhaustive(problem)
        assert found.active == best.active, seed
        assert worth(problem, found) == pytest.approx(worth(problem, best), rel=1e-9), seed


def test_every_search_keeps_order_capacity_and_lifespan() -> None:
    for seed in range(500):
        problem = make(seed)
        optimum = worth(problem, exhaustive(problem))
        for search in SEARCHES:
            found = search(problem)
            assert found == promotion(problem, found.places, len(found.active))
            assert problem.ordered(found.places)
            assert not found.places or found.cost <= problem.capacity
            assert all(found.latency[level - 1] <= problem.lifespan for level in found.active)
            assert worth(problem, found) >= optimum
