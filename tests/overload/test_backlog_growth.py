"""More comes than is worked on and nothing ever expires: that is said, once, and told in numbers."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import penstock
from penstock.errors import OverloadWarning

QUERY = "SELECT x FROM a [RANGE 10] WHERE x >= 0 {} RANK 1 CRITERIA (x = 0)"


def run(lifespan: str, rows: int, steps: int = 80) -> tuple[list[str], dict[str, Any]]:
    session: Any = penstock.connect(budget=20)
    session.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
    query = session.query(QUERY.format(lifespan), name="q")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(steps):
            session.push("a", [{"ts": step, "x": n} for n in range(rows)])
            session.advance(step)
    said = [str(one.message) for one in caught if issubclass(one.category, OverloadWarning)]
    return said, query.load


def test_without_a_lifespan_it_is_said_once_that_what_waits_grows() -> None:
    said, load = run("", 40)
    assert len(said) == 1 and "query q has no LIFESPAN" in said[0]
    assert load["endless"] and load["waiting"] > 1000
    per_row = load["backlog"] / load["waiting"]
    assert load["growth"] == pytest.approx(load["waiting"] / 80 * per_row, rel=0.2)


@pytest.mark.parametrize(("lifespan", "rows"), [("LIFESPAN 100 MICROSECONDS", 40), ("", 5)])
def test_nothing_is_said_where_a_lifespan_or_the_load_bounds_it(lifespan: str, rows: int) -> None:
    said, load = run(lifespan, rows)
    assert not said and not load["endless"]


def test_a_burst_that_is_worked_off_is_no_growth() -> None:
    session: Any = penstock.connect(budget=50)
    session.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
    query = session.query(QUERY.format(""), name="q")
    with warnings.catch_warnings():
        warnings.simplefilter("error", OverloadWarning)
        for step in range(120):
            session.push("a", [{"ts": step, "x": n} for n in range(40 if step < 30 else 1)])
            session.advance(step)
    assert not query.load["busy"] and query.load["growth"] == query.load["backlog"] == 0
