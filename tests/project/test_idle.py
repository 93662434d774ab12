"""A stream that falls silent need not hold the others back."""

from __future__ import annotations

import pytest

import penstock


def session() -> penstock.Session:
    s = penstock.connect()
    s.execute(
        "CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF 0;"
        "CREATE STREAM b (ts BIGINT, x INT) WATERMARK ts DELAY OF 0;"
    )
    return s


def test_advance_of_one_stream_lets_the_clock_pass_it() -> None:
    s = session()
    q = s.query("SELECT x FROM a [RANGE 10] UNION ALL SELECT x FROM b [RANGE 10]")
    s.push("a", [{"ts": 1, "x": 1}, {"ts": 5, "x": 2}])
    assert q.changes().num_rows == 0, "b has said nothing yet"
    s.advance(3, stream="b")
    assert q.changes().column("x").to_pylist() == [1]
    assert s.clock == 3
    s.push("b", [{"ts": 2, "x": 9}, {"ts": 4, "x": 8}])
    assert s.late("b").to_pylist() == [{"ts": 2, "x": 9}]
    s.advance(10, stream="b")
    assert s.clock == 4, "a has come to 5 only"
    assert q.changes().column("x").to_pylist() == [8]


def test_an_unknown_stream_is_refused() -> None:
    s = session()
    with pytest.raises(penstock.DataError, match="no stream c"):
        s.advance(3, stream="c")
