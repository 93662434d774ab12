"""Partial results on demand and significance together: what is not made because nobody can use it is never a result that matters.

`demand=` is kept to while a query is calm and while it is busy; what is told in the end is the same in every mode. Under load what is spared is spent on
other rows, so what is dropped differs; that all of it is counted is in `test_suppressed.py`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock

STREAMS = "".join(
    f"CREATE STREAM {name} (ts BIGINT, x INT, y INT) WATERMARK ts DELAY OF INTERVAL 0;" for name in "abc"
)
SQL = (
    "SELECT a.x, a.y AS p, b.y AS q, c.y AS r FROM a [RANGE 200], b [RANGE 200], c [RANGE 100]"
    " WHERE a.x = b.x AND b.y = c.y"
)
RANKS = "RANK 1 CRITERIA (c.y < 2) RANK 2 CRITERIA (a.y > 15)"
STEPS = 14


def steps() -> list[tuple[int, dict[str, pa.Table]]]:
    """Of what a and b make together little finds a partner in c, and in some steps nothing does."""
    drawn = np.random.default_rng(4)
    made = []
    for step in range(STEPS):
        tables = {}
        for name, rows in (("a", 40), ("b", 40), ("c", 3 if step % 3 else 25)):
            ts = np.sort(drawn.integers(step * 100, (step + 1) * 100, rows))
            values = {"x": drawn.integers(0, 12, rows), "y": drawn.integers(0, 20, rows)}
            tables[name] = pa.table({"ts": ts, **{k: v.astype("i4") for k, v in values.items()}})
        made.append(((step + 1) * 100 - 1, tables))
    return made


def run(
    lifespan: str = "", *, calm: int = 0, **options: Any
) -> tuple[Counter[tuple[Any, ...]], dict[str, Any]]:
    """What is told, and what became of rows. The first steps, `calm`, bring few of them."""
    session = penstock.connect(**options)
    session.execute(STREAMS)
    query = session.query(f"{SQL} {lifespan} {RANKS}", name="q")
    told: Counter[tuple[Any, ...]] = Counter()
    for step, (until, tables) in enumerate(steps()):
        for name, rows in tables.items():
            session.push(name, rows.slice(0, 8) if step < calm else rows)
        session.advance(until)
        told.update(tuple(row.values()) for row in query.changes().to_pylist())
    session.drain()
    told.update(tuple(row.values()) for row in query.changes().to_pylist())
    return told, query.load


@pytest.mark.parametrize("allocation", ["prefer", "promote", "semantic", "random", "fifo"])
def test_demand_changes_no_answer(allocation: str) -> None:
    truth, _ = run(calm=5)
    assert len(truth) > 100
    for demand in ("jit", "doe", "off"):
        told, load = run(calm=5, budget=600, allocation=allocation, demand=demand)
        assert told == truth, demand
        assert load["in_time"] > 0, "it was calm"
        assert any(one["delivered"] for one in load["ranks"]), "and busy"


@pytest.mark.parametrize("allocation", ["prefer", "promote", "semantic", "random", "fifo"])
def test_demand_hides_nothing_that_matters(allocation: str) -> None:
    """Under load only results of the query are told in any mode, and where something is missing something was dropped, and counted."""
    truth, _ = run(calm=5)
    suppressed = {}
    for demand in ("jit", "doe", "off"):
        told, load = run("LIFESPAN 2500", calm=5, budget=350, allocation=allocation, demand=demand)
        assert told <= truth
        assert truth - told and sum(one["expired"] + one["shed"] for one in load["ranks"]) > 0
        assert any(row[-1] == 1 for row in told)
        suppressed[demand] = sum(one["suppressed"] for one in load["ranks"]) + load["suppressed"]
    assert suppressed["jit"] > suppressed["off"] == 0


@pytest.mark.parametrize("demand", ["jit", "doe", "off"])
def test_calm_joins_ask_as_they_are_told(demand: str) -> None:
    """With so much of a budget that nothing ever waits, what is asked is what is asked without one."""
    counted = {}
    for budget in (None, 10**9):
        session = penstock.connect(
            demand=demand, join="mjoin", **({} if budget is None else {"budget": budget})
        )
        session.execute(STREAMS)
        query = session.query(f"{SQL} {RANKS}", name="q")
        for turn in range(4):
            for until, tables in steps():
                for name, rows in tables.items():
                    later = pc.add(rows["ts"], STEPS * 100 * turn)
                    session.push(name, rows.set_column(0, "ts", later))
                session.advance(until + STEPS * 100 * turn)
        counted[budget] = query.partial_results
    with_one = counted[10**9]
    assert with_one["made"] == counted[None]["made"] > 0
    assert with_one["suppressed"] == counted[None]["suppressed"]
    assert with_one["asked"] == counted[None]["asked"]
    assert bool(with_one["asked"]) == (demand != "off")
    assert query.load["suppressed"] == with_one["suppressed"]
