"""However small the budget and whoever gets it: once nothing waits any more, everything has been said, and nothing else."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

import penstock
from tests.equivalence.test_cuts import hold
from tests.equivalence.test_restarts import same_after_restarts
from tests.oracle import case as cases
from tests.oracle.trace import Cut, record

CASES = int(os.environ.get("PENSTOCK_CASES", "600")) // 10
BLOCK = 10
ALLOCATIONS = ("prefer", "promote", "semantic", "random", "fifo")


def options(seed: int) -> dict[str, Any]:
    drawn = random.Random(seed)
    budget = drawn.choice((0, 1, 3, 10, 40, 200, 10_000))
    return {"budget": budget, "allocation": drawn.choice(ALLOCATIONS), "seed": seed}


@pytest.mark.parametrize("first", range(310_000, 310_000 + CASES, BLOCK))
def test_a_budget_changes_when_and_not_what(first: int) -> None:
    for seed in range(first, first + BLOCK):
        case = cases.make(seed)
        plain = record(case, Cut("random", seed))
        hold(case, plain, record(case, Cut("random", seed), options(seed)), f"{options(seed)} differs")


@pytest.mark.parametrize("first", range(320_000, 320_000 + CASES // 2, BLOCK))
def test_what_waits_survives_a_restart(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + BLOCK):
        same_after_restarts(cases.make(seed), tmp_path / "state", options(seed))


@pytest.mark.parametrize("at", [None, 20])
def test_rows_that_a_table_keeps_back_are_not_forgotten_when_nothing_waits(at: int | None) -> None:
    session = penstock.connect(budget=1)
    for name in "ab":
        session.execute(f"CREATE STREAM {name} (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
    session.create_table("t", [{"k": 1}])
    query = session.query("SELECT a.x FROM a [RANGE 20], t, b [RANGE 20] WHERE a.x = t.k AND a.x = b.x")
    session.push("a", [{"ts": 13, "x": 4}] * 3)
    session.advance(14)
    session.drain()
    session.update_table("t", insert=[{"k": 4}], at=at)
    session.push("b", [{"ts": 22, "x": 4}])
    session.advance(22)
    session.drain()
    assert query.matched == 3
