"""Criteria that are asked at once find what asking them one by one finds, of the same rows."""

from __future__ import annotations

import random

import numpy as np
import pytest

from penstock.overload.criteria import Assessment, can_ask_at_once
from penstock.plan.expression_cost import CALL
from penstock.plan.expressions import Expression, Literal
from penstock.state.priority_queue import BACK_BURNER, LEVEL
from tests.overload.test_many import Flow, steps
from tests.sharing.predicates import predicate
from tests.sharing.test_eddy import Bench, Writer


@pytest.mark.parametrize("seed", range(6))
def test_the_first_criteria_that_hold_are_found(seed: int) -> None:
    """Ranges, IN lists, prefixes, NOT, NULL, NaN, texts of all kinds; several owners, levels that come twice."""
    rng = random.Random(seed)
    bench, writer = Bench(seed=seed), Writer(rng)
    held = bench.session.engine.strings
    pinned = len(held)
    given: list[tuple[int, int, Expression]] = []
    owners, levels = rng.choice((1, 3)), rng.choice((2, 9))
    for _ in range(rng.choice((6, 40, 90))):
        text = writer.predicate(rng.randint(0, 3))
        found = predicate(bench.session, text) if "odd" not in text and "half" not in text else None
        if found is not None and not isinstance(found, Literal):
            given.append((rng.randrange(owners), rng.randrange(levels), found))
    given.sort(key=lambda one: one[:2])
    asked = Assessment(given, owners, bench.evaluator)
    for rows in (1, 300, 1000):
        batch = bench.batch(writer.rows(rows))
        best = asked.best(batch.columns, batch.ts, levels)
        for owner in range(owners):
            alone = np.full(rows, levels)
            for who, level, criteria in given:
                if who == owner:
                    true = bench.evaluator.predicate(criteria)(batch.columns, rows)
                    alone[true & (alone > level)] = level
            assert np.array_equal(best[owner], alone)
    asked.close()
    bench.evaluator.release()
    held.sweep(np.zeros(held.capacity, np.bool_))
    assert len(held) <= pinned, "nothing holds on to the texts any more"


SQL = """
    SELECT a.x, b.z FROM a [RANGE 200], b [RANGE 100] WHERE a.x = b.x
    RANK 1 CRITERIA (a.y > {} AND a.x IN ({}, {}))
    RANK 2 CRITERIA (b.z < {} OR a.y BETWEEN {} AND {})
    RANK 3 CRITERIA (a.y + b.z > {})
"""
QUERIES = {
    f"q{n}": (SQL.format(90 - n, n, n + 9, n, 5 * n, 5 * n + 3, 150 + n), 1.0 + n % 3) for n in range(40)
}


def test_classifiers_count_as_if_they_asked_one_by_one() -> None:
    """A core of forty queries has few determinants, of many alternatives each."""
    flow = Flow(QUERIES, budget=10, significance="impartial")
    for until, tables in steps(3, 60, 4):
        flow.take(until, tables)
    (routes,) = flow.pipeline("q0").scheduler.cores
    assert len(routes.determinants) <= 3 * 9
    assert sum(len(one.alternatives) for one in routes.determinants) > 150
    drawn = np.random.default_rng(1)
    for which, (stop, *_) in routes.routes_by.items():
        rows = np.concatenate([chunk for lane in stop.every() for chunk in lane.chunks()], axis=1)
        rows[LEVEL] = drawn.choice((2, 5, BACK_BURNER), rows.shape[1])
        stop.assessed = tuple(one for one in routes.determinants if one.inputs == {which})
        mine, before = rows.copy(), [(one.tested, one.passed) for one in routes.shares]
        routes.classify(stop, mine)
        counted = {
            one: (share.tested - tested, share.passed - passed)
            for one, share, (tested, passed) in zip(routes.determinants, routes.shares, before, strict=True)
        }
        for one in stop.assessed:
            open_ = np.flatnonzero(rows[LEVEL] > one.level)
            true = [routes.holds(criteria, rows[:, open_]) for criteria in one.alternatives]
            found = open_[np.logical_or.reduce(true)]
            rows[LEVEL, found] = one.level
            assert counted[one] == (len(open_), len(found))
        assert np.array_equal(mine[LEVEL], rows[LEVEL])
        assert np.array_equal(routes.levels_at(stop, rows), rows[LEVEL])
        assert len(np.unique(rows[LEVEL])) > 3


def test_what_is_asked_at_once_costs_a_look_for_each_subject() -> None:
    (routes,) = Flow(QUERIES, budget=10).pipeline("q0").scheduler.cores
    own = [one for one in routes.determinants if one.inputs == {0}]
    assert sum(one.cost for one in own) == pytest.approx(2 * CALL), "a.x and a.y, whoever asks"
    few = dict(list(QUERIES.items())[:1])
    (routes,) = Flow(few, budget=10).pipeline("q0").scheduler.cores
    assert [len(one.alternatives) for one in routes.determinants] == [1, 1, 1, 1]
    assert routes.determinants[0].cost == pytest.approx(3 * CALL), "few are asked one by one"


def test_functions_are_asked_one_by_one() -> None:
    bench = Bench()
    plain = [predicate(bench.session, f"x > {n}") for n in range(8)]
    called = predicate(bench.session, "odd(x)")
    assert can_ask_at_once([one for one in plain if one is not None])
    assert called is not None and not can_ask_at_once([one for one in (*plain, called) if one is not None])
