"""Every setting gives the same answers when nothing is overloaded: pairs of settings, each met at least once."""

from __future__ import annotations

import os
from itertools import combinations, product

import pytest

from tests.equivalence.test_cuts import hold
from tests.oracle import case as cases
from tests.oracle.check import judge
from tests.oracle.trace import Cut, record

SETTINGS = {
    "join": ("auto", "eddy", "tree", "mjoin"),
    "demand": ("jit", "doe", "off"),
    "expiry": ("upa", "direct", "negative", "hybrid"),
    "allocation": ("prefer", "promote", "semantic", "random", "fifo"),
}
CASES = max(int(os.environ.get("PENSTOCK_CASES", "600")) // 100, 1)


def covering() -> list[dict[str, str]]:
    """Few combinations in which every two values of different settings meet (greedy)."""
    names = list(SETTINGS)
    every = [dict(zip(names, values, strict=True)) for values in product(*SETTINGS.values())]

    def pairs(row: dict[str, str]) -> set[tuple[str, str, str, str]]:
        return {(a, row[a], b, row[b]) for a, b in combinations(names, 2)}

    missing = set().union(*map(pairs, every))
    chosen = []
    while missing:
        best = max(every, key=lambda row: len(pairs(row) & missing))
        chosen.append(best)
        missing -= pairs(best)
    return chosen


@pytest.mark.parametrize("number", range(len(covering())))
def test_settings_change_nothing(number: int) -> None:
    options = covering()[number]
    for seed in range(70_000 + number * CASES, 70_000 + (number + 1) * CASES):
        case = cases.make(seed)
        plain = record(case, Cut("random", seed))
        other = record(case, Cut("random", seed), {**options, "seed": seed})
        judge(case, other)
        hold(case, plain, other, f"{options} differs from the defaults")
