"""Drawn queries over drawn streams, each compared with DuckDB at dozens of instants.

`PENSTOCK_CASES` sets the number of cases (default 600, some 50,000 comparisons; `test_large` and `test_sizes` add the rest of 300,000).
"""

from __future__ import annotations

import os

import pytest

from tests.oracle import campaign

CASES = int(os.environ.get("PENSTOCK_CASES", "600"))
BLOCK = 25


@pytest.mark.parametrize("first", range(0, CASES, BLOCK))
def test_answers_are_those_of_duckdb(first: int) -> None:
    outcome = campaign.run(range(first, min(first + BLOCK, CASES)), kept=1)
    for failure in outcome.failures:
        small = campaign.minimised(failure, seconds=10)
        pytest.fail(f"{small.text}\n\n{campaign.as_example(small)}", pytrace=False)
    assert outcome.tally.snapshots >= 5 * outcome.cases
    assert outcome.tally.comparisons >= 20 * outcome.cases
