"""Outer joins give DuckDB's answers at every instant, whatever stands above and below them."""

from __future__ import annotations

from tests.equivalence.outer import check


def test_full_joins_of_rows_that_all_have_null_keys() -> None:
    feed = {"a": [{"ts": 1, "k": None, "v": 1}], "b": [{"ts": 1, "k": None, "v": 2}]}
    check(
        lambda w: (
            f"SELECT x.k AS k1, y.k AS k2, z.v AS v3 FROM {w('b', 5)} AS x FULL JOIN {w('a', 5)} AS y"
            f" ON x.k = y.k FULL JOIN {w('b', 5)} AS z ON y.k = z.k"
        ),
        feed,
        [1, 3, 6],
    )
