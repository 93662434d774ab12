"""However small the budget and whoever gets it: once nothing waits any more, everything has been said, and nothing else."""

from __future__ import annotations

import os
import random

import pytest

from tests.equivalence.test_cuts import hold
from tests.oracle import case as cases
from tests.oracle.trace import Cut, record

CASES = int(os.environ.get("PENSTOCK_CASES", "600")) // 5
BLOCK = 10
ALLOCATIONS = ("prefer", "promote", "semantic", "random", "fifo")


@pytest.mark.parametrize("first", range(310_000, 310_000 + CASES, BLOCK))
def test_a_budget_changes_when_and_not_what(first: int) -> None:
    for seed in range(first, first + BLOCK):
        case = cases.make(seed)
        drawn = random.Random(seed)
        options = {
            "budget": drawn.choice((0, 1, 3, 10, 40, 200, 10_000)),
            "allocation": drawn.choice(ALLOCATIONS),
        }
        plain = record(case, Cut("random", seed))
        hold(case, plain, record(case, Cut("random", seed), options), f"{options} differs")
