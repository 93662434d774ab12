"""Sentences of the public contract, one test each."""

from __future__ import annotations

import pandas as pd
import pytest

import penstock

A = "CREATE STREAM a (ts BIGINT, x BIGINT) WATERMARK ts DELAY OF 0"


def session(*statements: str) -> penstock.Session:
    s = penstock.connect()
    s.execute(";".join([A, *statements]))
    return s


def test_rows_are_taken_by_copy() -> None:
    s = session()
    q = s.query("SELECT x FROM a [RANGE 100]")
    frame = pd.DataFrame({"ts": [1, 2, 9], "x": [10, 20, 30]})
    s.push("a", frame)
    changes = q.changes()
    frame.iloc[:, 1] = 99
    s.advance(9)
    assert changes.column("x").to_pylist() == [10, 20]
    assert q.snapshot().column("x").to_pylist() == [10, 20, 30]


def test_a_table_is_taken_by_copy() -> None:
    s = session()
    frame = pd.DataFrame({"k": [1, 2], "n": [10, 20]})
    s.create_table("c", frame)
    frame.iloc[:, 0] = 99
    q = s.query("SELECT n FROM a [RANGE 10], c WHERE x = k")
    s.push("a", [{"ts": 1, "x": 1}])
    s.advance(1)
    assert q.changes().column("n").to_pylist() == [10]


@pytest.mark.parametrize(
    "wrong",
    [
        "CREATE QUERY r AS SELECT nope FROM b",
        "CREATE QUERY Q AS SELECT x FROM b",
        "DROP QUERY nobody",
        "CREATE STREAM t (ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0",
        "CREATE TABLE p (x INT) USING parquet OPTIONS (path '/nowhere')",
    ],
)
def test_a_script_is_run_whole_or_not_at_all(wrong: str) -> None:
    s = session()
    with pytest.raises(penstock.PenstockError) as caught:
        s.execute(
            "CREATE STREAM b (ts BIGINT, x INT) WATERMARK ts DELAY OF 0;"
            f"CREATE QUERY q AS SELECT x FROM b [RANGE 1];\n{wrong}"
        )
    assert caught.value.line == 2
    assert list(s.queries) == []
    assert list(s.catalog.streams) == ["a"]


@pytest.mark.parametrize("delay", [5_000_000, "5 seconds", "INTERVAL 5 SECONDS"])
def test_a_delay_is_a_number_of_time_units_or_an_interval(delay: object) -> None:
    s = penstock.connect()
    s.create_stream("z", {"ts": "TIMESTAMP", "x": "INT"}, time="ts", delay=delay)
    assert s.catalog.streams["z"].delay == 5_000_000


def test_updates_of_a_table_may_be_scheduled_in_any_order() -> None:
    s = session("CREATE TABLE c (k BIGINT, n INT)")
    q = s.query("SELECT n FROM a [RANGE 100], c WHERE x = k")
    s.advance(5)
    s.update_table("c", insert=[{"k": 1, "n": 20}], at=20)
    s.update_table("c", insert=[{"k": 1, "n": 6}])
    s.update_table("c", delete=[{"k": 1, "n": 6}], at=10)
    s.push("a", [{"ts": t, "x": 1} for t in (6, 9, 10, 19, 20)])
    s.advance(30)
    assert [(c["__ts"], c["n"]) for c in q.changes().to_pylist()] == [(6, 6), (9, 6), (20, 20)]
    with pytest.raises(penstock.DataError, match="not in the table"):
        s.update_table("c", delete=[{"k": 1, "n": 6}])


def test_matched_counts_results_and_not_their_ends() -> None:
    s = session("CREATE STREAM b (ts BIGINT, x BIGINT) WATERMARK ts DELAY OF 0")
    q = s.query("SELECT x FROM a [RANGE 10] EXCEPT ALL SELECT x FROM b [RANGE 10]")
    s.push("a", [{"ts": 1, "x": 1}, {"ts": 2, "x": 2}])
    s.push("b", [{"ts": 3, "x": 1}])
    s.advance(5)
    assert q.changes().column("__op").to_pylist() == ["+", "+", "-"]
    assert q.matched == 2
