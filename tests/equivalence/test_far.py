"""Walks that look ahead, as they do where a join's rows do not fit the cache, find what the others find."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.types import sizes
from tests.equivalence.test_cuts import hold
from tests.oracle import case as cases
from tests.oracle.trace import Cut, record


@pytest.mark.parametrize("ways", ["join", "join3", "join4"])
def test_looking_ahead_changes_nothing(ways: str) -> None:
    for seed in range(80_000, 80_020):
        case = cases.make(seed, wanted=frozenset({ways}))
        near = record(case, Cut("random", seed))
        with sizes.lowered(replace(sizes.DEFAULT, far_bytes=-1, farther_bytes=-1)):
            far = record(case, Cut("random", seed))
            whole = record(case, Cut("whole"), quiet=True)
        hold(case, near, far, "looking ahead differs from not looking")
        hold(case, whole, far, "a random cut differs from pushes as large as can be")
