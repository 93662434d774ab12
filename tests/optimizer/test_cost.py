"""The cost model's rates and sizes against what the engine really does on even data."""

from __future__ import annotations

import random

import pytest

from penstock.optimizer import optimize
from penstock.plan.cost import estimate
from penstock.plan.statistics import Statistics
from tests.optimizer.twice import Twice

DDL = ";".join(f"CREATE STREAM {s} (ts BIGINT, x INT, y INT) WATERMARK ts DELAY OF INTERVAL 0" for s in "abc")
RATES = {"a": 2.0, "b": 1.0, "c": 3.0}
VALUES = 20
WARM, LAST = 150, 550


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT x FROM a [RANGE 50] WHERE x = 3 OR y <> 4",
        "SELECT a.y, b.y AS z FROM a [RANGE 50], b [RANGE 20] WHERE a.x = b.x",
        "SELECT a.y, b.y AS z FROM a [RANGE 30], b [RANGE 20], c [RANGE 10] WHERE a.x = b.x AND b.y = c.y",
        "SELECT x FROM a [RANGE 50] UNION ALL SELECT y FROM b [RANGE 20]",
        "SELECT DISTINCT x, y FROM a [RANGE 100]",
        "SELECT x, y FROM a [RANGE 50] INTERSECT SELECT x, y FROM c [RANGE 50]",
        "SELECT x, y FROM a [RANGE 50] WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 20] WHERE b.x = a.x)",
        "SELECT x, y FROM a [RANGE 50] EXCEPT ALL SELECT x, y FROM b [RANGE 50]",
        "SELECT a.x, c.y FROM a [RANGE 40] LEFT ANTI JOIN b [RANGE 10] ON b.x = a.x JOIN c [RANGE 9] ON a.y = c.y",
    ],
)
def test_rates_and_sizes_are_near(sql: str) -> None:
    """Within a third: enough to tell plans apart that differ by more."""
    twice = Twice(DDL, sql)
    values = {(s, column): float(VALUES) for s in RATES for column in "xy"}
    known = Statistics(rates=RATES, distincts=values)
    plan = optimize(twice.written, known)
    twice.add("q", plan)
    rng = random.Random(sql)
    twice.feed({name: drawn(rng, rate) for name, rate in RATES.items()}, LAST)
    begun, back, live = measured(twice)
    expected = estimate(plan, known)
    assert begun == pytest.approx(expected.rate, rel=0.33)
    assert live == pytest.approx(expected.size, rel=0.33)
    assert back == pytest.approx(expected.back, rel=0.33, abs=0.05)


def drawn(rng: random.Random, rate: float) -> list[tuple[int, int, int]]:
    times = sorted(rng.randrange(LAST) for _ in range(int(rate * LAST)))
    return [(ts, rng.randrange(VALUES), rng.randrange(VALUES)) for ts in times]


def measured(twice: Twice) -> tuple[float, float, float]:
    """Rows begun and rows taken back per time unit, and rows live on the average, once windows are full."""
    begun = back = 0
    lived = 0.0
    for (op, ts, exp, *_), copies in twice.said()["q"].items():
        lasting = max(0, min(exp, LAST) - max(ts, WARM)) * copies
        lived += lasting if op == "+" else -lasting
        if WARM <= ts < LAST:
            begun += copies if op == "+" else 0
            back += copies if op == "-" else 0
    span = LAST - WARM
    return begun / span, back / span, lived / span


def test_negative_tuples_double_what_they_pass_through() -> None:
    """§5.4.1: in the negative tuple approach windows send every expiry, and joins look at it again."""
    written = Twice(DDL, "SELECT a.y FROM a [RANGE 50], b [RANGE 50] WHERE a.x = b.x").written
    plan = optimize(written)
    direct, negative = (estimate(plan, Statistics(), negative=n).inputs[0] for n in (False, True))
    assert negative.cost == 2 * direct.cost
    assert (direct.premature, negative.premature) == (0.0, 1.0)


def test_a_join_costs_the_partners_met() -> None:
    plan = optimize(Twice(DDL, "SELECT a.y FROM a [RANGE 50], b [RANGE 100] WHERE a.x = b.x").written)
    known = Statistics(rates={"a": 2.0, "b": 3.0}, distincts={("a", "x"): 10.0, ("b", "x"): 10.0})
    assert estimate(plan, known).inputs[0].cost == pytest.approx(2 * (1 + 300 / 10) + 3 * (1 + 100 / 10))


def test_what_was_measured_counts() -> None:
    plan = optimize(Twice(DDL, "SELECT x FROM a [RANGE 50] WHERE y < 7").written)
    assert estimate(plan, Statistics()).rate == pytest.approx(0.1)
    assert estimate(plan, Statistics(selectivities={"(y < 7)": 0.7})).rate == pytest.approx(0.7)


def test_timestamps_count_in_seconds() -> None:
    """Nobody has a row per microsecond: without numbers, streams are taken to have one per second."""
    ddl = "CREATE STREAM t (ts TIMESTAMP, x INT) WATERMARK ts DELAY OF INTERVAL 0 SECONDS"
    plan = optimize(Twice(ddl, "SELECT x FROM t [RANGE 5 MINUTES]").written)
    assert estimate(plan, Statistics()).size == pytest.approx(300.0)
