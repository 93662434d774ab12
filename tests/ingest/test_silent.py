"""Streams that are silent in an embedded session: named, and idle if they declare when."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import penstock
from penstock.ingest import source

JOIN = "SELECT a.x FROM a [RANGE 2], b [RANGE 2] WHERE a.x = b.x"


def connected(clause: str = "") -> tuple[penstock.Session, penstock.Query]:
    """Two streams that one query reads both, and a query that counts the first."""
    session = penstock.connect()
    session.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
    session.execute(f"CREATE STREAM b (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0 {clause}")
    session.query(JOIN)
    return session, session.query("SELECT COUNT(*) AS n FROM a [RANGE 1000000]")


def push(session: penstock.Session, stream: str, times: range) -> None:
    session.push(stream, {"ts": list(times), "x": [1] * len(times)})


def push_parts(session: penstock.Session, count: int) -> None:
    for part in range(count):
        push(session, "a", range(part * 20_000, part * 20_000 + 20_000))


def test_the_stream_that_holds_the_clock_back_is_named_once() -> None:
    session, query = connected()
    with pytest.warns(
        penstock.StreamWarning, match=r"stream b has had no rows and holds the clock back"
    ) as told:
        push_parts(session, 45)
    assert len(told) == 1
    assert "held back by stream b: rows wait, 900,000 of a" in session.explain()
    session.advance(899_999, stream="b")
    assert query.snapshot().column("n").to_pylist() == [899_999]
    assert "held back" not in session.explain()


def test_streams_that_are_pushed_one_after_the_other_are_no_cause_for_a_warning() -> None:
    session, query = connected()
    push(session, "a", range(300_000))
    push(session, "b", range(300_000))
    assert query.snapshot().column("n").to_pylist() == [299_999]


def test_an_idle_stream_is_not_waited_for_until_it_has_rows_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(source, "time", SimpleNamespace(monotonic=lambda: now[0]))
    session, query = connected("IDLE AFTER INTERVAL 20 SECONDS")
    push(session, "a", range(10))
    push(session, "b", range(5))
    assert session.clock == 3
    now[0] += 21
    assert session.clock == 8, "as far as the stream that is not idle"
    assert query.snapshot().column("n").to_pylist() == [9]
    push(session, "b", range(7, 12))
    assert session.late("b").column("ts").to_pylist() == [7, 8]
    push(session, "a", range(10, 40))
    assert session.clock == 10
