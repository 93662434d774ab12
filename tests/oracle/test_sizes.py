"""Small cases with all internal sizes lowered: state grows, is cut and changes its form after a few rows."""

from __future__ import annotations

import os
from dataclasses import fields

import pytest

from penstock.types import sizes
from tests.oracle import campaign
from tests.oracle.large import campaign as large

CASES = int(os.environ.get("PENSTOCK_CASES", "600")) // 4
BLOCK = 25


@pytest.mark.parametrize("first", range(0, CASES, BLOCK))
def test_answers_are_those_of_duckdb_with_lowered_sizes(first: int) -> None:
    with sizes.lowered():
        outcome = campaign.run(range(20_000 + first, 20_000 + min(first + BLOCK, CASES)), kept=1)
        for failure in outcome.failures:
            small = campaign.minimised(failure, seconds=10)
            pytest.fail(f"with lowered sizes: {small.text}", pytrace=False)
    assert outcome.tally.comparisons >= 20 * outcome.cases


@pytest.mark.parametrize("first", range(0, CASES // 3, BLOCK))
def test_options_change_nothing_with_lowered_sizes(first: int) -> None:
    with sizes.lowered():
        seeds = range(30_000 + first, 30_000 + min(first + BLOCK, CASES // 3))
        outcome = large.run(seeds, least=30, most=600, kept=1)
        for failure in outcome.failures:
            pytest.fail(f"with lowered sizes: {large.minimised(failure, seconds=20).text}", pytrace=False)
    assert outcome.tally.comparisons >= 10 * outcome.cases


def test_lowered_sizes_are_below_the_usual_ones() -> None:
    for one in fields(sizes.Sizes):
        assert 0 < getattr(sizes.LOWERED, one.name) < getattr(sizes.DEFAULT, one.name), one.name
    with sizes.lowered():
        assert sizes.current is sizes.LOWERED
    assert sizes.current is sizes.DEFAULT
