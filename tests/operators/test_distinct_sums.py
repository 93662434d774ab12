"""SUM, AVG, STDDEV and COUNT over DISTINCT values, against DuckDB at every instant."""

from __future__ import annotations

import random

import duckdb
import pytest

import penstock

AGGREGATES = "COUNT(DISTINCT v), SUM(DISTINCT v), AVG(DISTINCT v), STDDEV(DISTINCT v), SUM(v), COUNT(v)"


@pytest.mark.parametrize("kind", ["INT", "DOUBLE", "BIGINT"])
@pytest.mark.parametrize("window", ["RANGE 7", "ROWS 4"])
def test_distinct_sums(kind: str, window: str) -> None:
    draw = random.Random(f"{kind}{window}")
    s = penstock.connect()
    s.execute(f"CREATE STREAM a (ts BIGINT, k INT, v {kind}) WATERMARK ts DELAY OF 0")
    q = s.query(f"SELECT k, {AGGREGATES} FROM a [{window}] GROUP BY k")
    rows: list[tuple[int, int, object]] = []
    duck = duckdb.connect()
    for ts in range(60):
        for _ in range(draw.choice([0, 1, 1, 3])):
            value = draw.choice([None, 1, 2, 2, 3, 7])
            rows.append((ts, draw.choice([1, 2]), float(value) if kind == "DOUBLE" and value else value))
            s.push("a", [dict(zip(("ts", "k", "v"), rows[-1], strict=True))])
        s.advance(ts)
        alive = [r for r in rows if ts < r[0] + 7] if "RANGE" in window else rows[-4:]
        duck.execute(f"CREATE OR REPLACE TABLE a (ts BIGINT, k INT, v {kind})")
        if alive:
            duck.executemany("INSERT INTO a VALUES (?, ?, ?)", alive)
        expected = sorted(duck.execute(f"SELECT k, {AGGREGATES} FROM a GROUP BY k").fetchall())
        got = sorted(tuple(row.values()) for row in q.snapshot().to_pylist())
        assert [r[0] for r in got] == [r[0] for r in expected]
        for ours, theirs in zip(got, expected, strict=True):
            for a, b in zip(ours, theirs, strict=True):
                assert (a is None) == (b is None)
                assert a is None or a == pytest.approx(float(b), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1e15, 1.0, 0.3, 0.7], 0.3511884584284246),
        ([1e160, 1.0, 0.3, 0.7], 0.3511884584284246),
        ([float("inf"), 1.0, 0.3, 0.7], 0.3511884584284246),
    ],
)
def test_a_huge_value_leaves_no_trace(values: list[float], expected: float) -> None:
    s = penstock.connect()
    s.execute("CREATE STREAM f (ts BIGINT, v DOUBLE) WATERMARK ts DELAY OF 0")
    q = s.query("SELECT STDDEV(v) AS d, SUM(v) AS s, AVG(v) AS a FROM f [RANGE 10]")
    times = [1, 5, 6, 7]
    s.push("f", [{"ts": t, "v": v} for t, v in zip(times, values, strict=True)])
    s.advance(12)
    assert q.snapshot().to_pylist() == [
        {"d": pytest.approx(expected, rel=1e-12), "s": pytest.approx(2.0), "a": pytest.approx(2 / 3)}
    ]


def test_a_sum_beyond_the_largest_double_comes_back() -> None:
    s = penstock.connect()
    s.execute("CREATE STREAM f (ts BIGINT, v DOUBLE) WATERMARK ts DELAY OF 0")
    q = s.query("SELECT SUM(v) AS s FROM f [RANGE 10]")
    s.push("f", [{"ts": 1, "v": 1e308}, {"ts": 2, "v": 1e308}, {"ts": 8, "v": 3.0}])
    s.advance(9)
    assert q.snapshot().to_pylist() == [{"s": float("inf")}]
    s.advance(11)
    assert q.snapshot().to_pylist() == [{"s": 1e308}]
    s.advance(13)
    assert q.snapshot().to_pylist() == [{"s": 3.0}]
