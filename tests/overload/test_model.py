"""What placements are worth: the examples of the paper (TP, §4.1.4 and §4.3.3 to §4.3.5) by hand."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from penstock.overload.policy.promotion.model import (
    Determinant,
    Problem,
    Route,
    Stage,
    latency,
    merit,
    promotion,
)


def test_figure_4_3_a_row_waits_for_rows_of_its_rank_and_better_ones() -> None:
    """Two rows wait at rank 1; five at ranks 1 to 3."""
    route = Route((Stage(cost=7, queues=(2, 2, 1, 9), rate=1),))
    known = Determinant(level=1, route=0, cost=0, share=0, first=0, last=0)
    assert latency(route, known, 0, 0) == 3 * 7
    assert latency(route, replace(known, level=3), 0, 0) == 6 * 7
    assert route.at_rest == 15 * 7


@pytest.mark.parametrize("promoted", [0, 1, 30, 300])
def test_300_rows_and_a_costly_determinant_before_and_after_a_selective_operator(promoted: int) -> None:
    """§4.3.4: behind 300 rows a row waits 600 if they are classified after the operator, 600 + X before it."""
    selective = Stage(cost=1, queues=(0, 300), rate=300, selectivity=0.5)
    output = Stage(cost=0, queues=(0, 0), rate=150)
    route = Route((selective, output))
    one = Determinant(level=1, route=0, cost=2, share=promoted / 300, first=0, last=1)
    problem = Problem((route,), (one,), lifespan=1000, capacity=1e6)
    own = one.cost + selective.cost
    assert problem.latencies[0][1] - own == 600
    assert problem.latencies[0][0] - own == pytest.approx(600 + promoted)
    assert problem.work(0, 0, {}) == 600
    assert problem.work(0, 1, {}) == 300


def test_table_4_2_the_cheapest_of_those_that_fit_all_levels() -> None:
    plans = {
        "p1": ((52, 65, 69), 1022),
        "p2": ((69, 68, 50), 1256),
        "p3": ((60, 77, 95), 1956),
        "p4": ((83, 50, 87), 1006),
    }
    order = sorted(plans, key=lambda name: merit(*plans[name], lifespan=70))
    assert order == ["p1", "p2", "p3", "p4"]
    assert merit((70, 71, 70), 5, lifespan=70) == (-1, 5)


def test_equations_4_1_and_4_2_term_by_term() -> None:
    """Three stages, classified before the second; selectivities of 0 leave the queues as they are."""
    stages = (Stage(2, (1, 2, 10), 50, 0), Stage(3, (4, 0, 20), 50, 0), Stage(5, (1, 1, 0), 50, 0))
    one = Determinant(level=1, route=0, cost=7, share=0, first=0, last=2)
    assert latency(Route(stages), one, 1, 7) == (13 + 1) * 2 + (20 + 1) * 7 + (4 + 1) * 3 + (1 + 1) * 5
    assert latency(Route(stages), replace(one, level=2), 1, 7) == 28 + 147 + (4 + 1) * 3 + (2 + 1) * 5
    assert Route(stages).at_rest == 14 * 2 + 25 * 3 + 3 * 5


def test_rows_ahead_are_counted_where_they_will_be() -> None:
    """Ten rows at the source become twenty behind a join; a quarter of them is promoted, and five rows of the level are twice as many."""
    stages = (Stage(1, (5, 10), 50, 2.0), Stage(1, (0, 0), 100, 2.0), Stage(1, (0, 0), 200))
    one = Determinant(level=1, route=0, cost=1, share=0.25, first=0, last=2)
    assert Route(stages).at_rest == (15 + 1) + (30 + 1) + (60 + 1)
    assert latency(Route(stages), one, 0, 1) == (10 + 1) + (5 + 2.5 + 1) + (10 + 5 + 1) + (20 + 10 + 1)
    assert latency(Route(stages), one, 1, 1) == 16 + (20 + 1) + (10 + 5 + 1) + (20 + 10 + 1)


def line(
    *determinants: Determinant, lifespan: float = 1e9, capacity: float = 1e9, levels: int = 3
) -> Problem:
    """Two stages, of which the second sees half of the rows."""
    queues = (*[0] * levels, 100)
    route = Route((Stage(1, queues, 100, 0.5), Stage(1, queues, 50)))
    return Problem((route,), determinants, lifespan, capacity)


def test_a_row_waits_for_classifiers_of_its_level_and_better_ones() -> None:
    """A hundred rows before it; what costs 1, 2 and 4 on its route, in order of level, and 8 on another."""
    route = line().routes[0]
    costs = ((1, 0, 1.0), (2, 0, 2.0), (2, 0, 0.0), (3, 0, 4.0), (1, 1, 8.0))
    ranked = tuple(Determinant(level, on, cost, 0, 0, 1) for level, on, cost in costs)
    found = Problem((route, route), ranked, 1e9, 1e9).latencies
    assert [ways[0] - 2 for ways in found] == [101 * 1, 101 * 3, 101 * 3, 101 * 7, 101 * 8]


def test_a_classifier_behind_operators_that_take_all_there_is_is_too_late() -> None:
    """A hundred rows a second take a unit each before the second classifier, and there fifty are asked what costs 2."""
    one = Determinant(level=1, route=0, cost=2, share=0, first=0, last=1)
    for units, late in ((200, False), (199, True), (10, True)):
        found = replace(line(one), units=units).latencies[0]
        assert found[0] == line(one).latencies[0][0], "nowhere could it be earlier"
        assert (found[1] == inf) is late


def test_promoted_rows_skip_classifiers_of_less_significant_levels_only() -> None:
    """Properties 1 and 2: level 1 holds for a quarter of the rows, so level 2 is asked for three quarters, and level 1 for all."""
    problem = line(
        Determinant(1, 0, 1, 0.25, 0, 1), Determinant(1, 0, 1, 0.5, 0, 1), Determinant(2, 0, 1, 0.5, 0, 1)
    )
    assert promotion(problem, {0: 0, 1: 0, 2: 0}, 2).cost == 100 + 100 + 100 * 0.75 * 0.5
    assert promotion(problem, {0: 0, 1: 0, 2: 1}, 2).cost == 100 + 100 + 50 * 0.75 * 0.5
    assert promotion(problem, {0: 1, 1: 0, 2: 0}, 2).cost == 50 + 100 + 100 * 0.5
    assert problem.ordered({0: 0, 1: 0, 2: 1})
    assert not problem.ordered({0: 1, 1: 0, 2: 0})


@pytest.mark.parametrize(
    "wrong", [{"route": 1}, {"last": 2}, {"level": 4}, {"first": 2}, {"share": 1.5}, {"cost": -1}]
)
def test_ill_formed_determinants_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="Determinant"):
        line(replace(Determinant(1, 0, 1, 0.5, 0, 1), **wrong))
