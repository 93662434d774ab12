"""Placements of determinants: trying all misses none, and the paper's greedy search is not always as good."""

from __future__ import annotations

from itertools import product
from math import inf

import pytest
from lab.tests.searches.campaign import tried
from tests.overload.drawn import make
from tests.overload.problems import loaded, worth

from penstock.overload.policy.promotion.exact import exact
from penstock.overload.policy.promotion.model import Determinant, Problem, Route, Stage, promotion
from penstock_lab.figures.pp.search import one_level, search_times
from penstock_lab.searches.promotion_exhaustive import candidates, exhaustive, search_space
from penstock_lab.searches.rank_order_pruning import rop


def test_rop_puts_a_level_where_the_next_one_comes_too_late() -> None:
    """Level 1 is cheaper at the second classifier, where level 2 does not fit; the optimum has both at the first."""
    problem = loaded(Determinant(1, 0, 1, 0, 0, 1), Determinant(2, 0, 2, 0, 0, 1), lifespan=310)
    assert (rop(problem).active, rop(problem).places) == ((1,), {0: 1})
    for search in (exact, exhaustive):
        assert (search(problem).active, search(problem).places) == ((1, 2), {0: 0, 1: 0})


def test_rop_takes_the_last_of_equally_cheap_places_and_exact_the_first() -> None:
    route = Route((Stage(1, (0, 100), 10), Stage(3, (0, 0), 10)))
    problem = Problem((route,), (Determinant(1, 0, 1, 0, 0, 1),), 300, inf)
    assert (rop(problem).places, exact(problem).places) == ({0: 1}, {0: 0})


def test_rop_gives_up_a_level_that_takes_all_that_is_left() -> None:
    """Line 17 as printed."""
    problem = loaded(Determinant(1, 0, 1, 0, 0, 1), lifespan=255, capacity=50)
    assert rop(problem).active == ()
    assert exact(problem) == exhaustive(problem) == promotion(problem, {0: 1}, 1)


def naive(problem: Problem, *, ordered: bool) -> tuple[int, float, int]:
    """The least merit, and the fewest active levels with it, over whole placements, each judged by itself."""
    found = []
    for active in range(problem.levels + 1):
        numbers = [i for i, one in enumerate(problem.determinants) if one.level <= active]
        for chosen in product(*(problem.determinants[i].path for i in numbers)):
            places = dict(zip(numbers, chosen, strict=True))
            one = promotion(problem, places, active)
            if not active or (one.cost <= problem.capacity and (problem.ordered(places) or not ordered)):
                found.append((*worth(problem, one), active))
    assert len(found) <= candidates(problem)
    return min(found)


@pytest.mark.parametrize("ordered", [True, False])
def test_trying_everything_misses_nothing(ordered: bool) -> None:
    for seed in range(200):
        problem = make(seed, most=300)
        best = exhaustive(problem, ordered=ordered)
        assert (*worth(problem, best), len(best.active)) == naive(problem, ordered=ordered), seed


def test_greed_loses_sometimes_and_not_often() -> None:
    """The share differs with what is drawn; docs/decisions/021 has the figures of a long run."""
    seen = tried(10_000, 600)
    needed = seen["something to promote"]
    lost = seen["rop: fewer levels fit"] + seen["rop: as many fit, dearer"]
    assert seen["exact is not exhaustive"] == 0
    assert needed > 100
    assert 0.02 < lost / needed < 0.5
    assert seen["exact: a level too late, with delays counted where they are"] < needed / 20
    assert seen["better if not ordered"] < seen["problems"] / 10


def test_searches_of_the_figure_agree() -> None:
    for determinants in range(1, 6):
        problem = one_level(determinants)
        assert rop(problem).cost == exact(problem).cost == exhaustive(problem).cost > 0
    rows = search_times(range(1, 4))
    assert [row.placements for row in rows] == [1 + 5, 1 + 5**2, 1 + 5**3]
    assert all(min(row.rop, row.exact, row.exhaustive) > 0 for row in rows)


def test_theorem_1_counts_placements() -> None:
    """Levels with paths of 2 and 2, and of 1: not active, or any place for each determinant."""
    problem = loaded(
        Determinant(1, 0, 1, 0, 0, 1),
        Determinant(1, 0, 1, 0, 0, 1),
        Determinant(2, 0, 1, 0, 1, 1),
        lifespan=inf,
    )
    assert search_space(problem) == (1 + 2 * 2) * (1 + 1)
    assert candidates(problem) == 1 + 4 + 4 * 1
