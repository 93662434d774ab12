"""Budgets that are times: nothing is lost or made twice, steps take about as long as they may, and one that was late does not make the next ones short."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.overload.budget import LEAST, MOST, Spending
from penstock.plan.policies import Policies

DECLARED = """CREATE STREAM a (ts BIGINT, k INT, x INT) WATERMARK ts DELAY OF INTERVAL 0;
CREATE STREAM b (ts BIGINT, k INT, x INT) WATERMARK ts DELAY OF INTERVAL 0"""
THETA = (
    "SELECT a.x, b.x AS y FROM a [RANGE 40], b [RANGE 40] WHERE a.x + b.x < 12 {} RANK 1 CRITERIA (a.x < 3)"
)
STEPS, LENGTH = 20, 10


def told(seed: int, lifespan: str, **options: Any) -> tuple[Counter[Any], bool, int]:
    """Results, whether it was busy, and rows that were dropped."""
    rng = random.Random(seed)
    session: Any = penstock.connect(**options)
    session.execute(DECLARED)
    query = session.query(THETA.format(lifespan), name="q")
    found: Counter[Any] = Counter()
    busy = False
    for step in range(STEPS):
        many = 60 if 5 <= step < 15 else 5
        for name in "ab":
            at = sorted(rng.randrange(step * LENGTH, (step + 1) * LENGTH) for _ in range(many))
            session.push(name, [{"ts": t, "k": rng.randrange(9), "x": rng.randrange(60)} for t in at])
        session.advance((step + 1) * LENGTH - 1)
        busy |= bool(query.load.get("busy"))
        found.update(map(tuple, (row.values() for row in query.changes().to_pylist())))
    session.drain()
    found.update(map(tuple, (row.values() for row in query.changes().to_pylist())))
    ranks = query.load.get("ranks", [])
    return found, busy, sum(row["expired"] + row["shed"] for row in ranks)


@pytest.mark.parametrize("allocation", ["promote", "fifo"])
def test_without_a_lifespan_all_is_told_in_the_end(allocation: str) -> None:
    whole, _, _ = told(1, "")
    found, busy, dropped = told(1, "", budget="200 microseconds", allocation=allocation)
    assert busy and not dropped
    assert found == whole


def test_what_is_told_is_true_and_the_rest_was_dropped() -> None:
    whole, _, _ = told(2, "")
    found, busy, dropped = told(2, "LIFESPAN 2 MILLISECONDS", budget="200 microseconds", allocation="promote")
    assert busy and found <= whole
    assert (found == whole) is (not dropped)


def test_steps_are_as_long_as_they_may_be() -> None:
    """Forty rows a step that wait half a millisecond each, and ten milliseconds for them: about twenty are worked on, step after step."""

    def wait(xs: pa.Array) -> pa.Array:
        time.sleep(len(xs) / 2000)
        return pa.array([True] * len(xs))

    session: Any = penstock.connect(budget="10 milliseconds", allocation="fifo")
    session.execute(DECLARED)
    session.create_function("wait", wait, returns="BOOLEAN", cost=500, vectorized=True)
    query = session.query("SELECT a.x FROM a [RANGE 10] WHERE wait(a.x) LIFESPAN 40 MILLISECONDS", name="q")
    made = []
    for step in range(24):
        session.push("a", [{"ts": step, "k": 0, "x": n} for n in range(40)])
        session.advance(step)
        made.append(len(query.changes()))
    late = made[12:]
    assert query.load["busy"]
    assert 3 < sum(late) / len(late) < 36, made


def test_a_step_that_took_long_is_forgotten() -> None:
    spending = Spending(Policies(budget=10_000))
    spending.wall = 10_000
    for _ in range(20):
        spending.learn(10_000, 8_000, busy=True)
    usual = spending.pace(busy=True)
    assert usual == pytest.approx(0.8)
    spending.learn(10, 500_000, busy=True)
    assert spending.pace(busy=True) < MOST * usual
    for _ in range(20):
        spending.learn(10_000, 8_000, busy=True)
    assert spending.pace(busy=True) == pytest.approx(usual, rel=0.05)
    assert LEAST * 10_000 / 0.85 < spending.units() <= 10_000 / 0.79
