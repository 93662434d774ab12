"""Memory after all rows have expired: it goes back, and what comes next is answered as if it had stayed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.runtime import embedded

WINDOW = 100
QUERIES = [
    "SELECT a.v, b.x FROM a [RANGE 100], b [RANGE 100] WHERE a.v = b.v",
    "SELECT DISTINCT v FROM a [RANGE 100]",
    "SELECT v, COUNT(*) AS n, MAX(x) AS m FROM a [RANGE 100] GROUP BY v",
    "SELECT v FROM a [RANGE 100] EXCEPT SELECT v FROM b [RANGE 100]",
    "SELECT v FROM a [RANGE 100] INTERSECT ALL SELECT v FROM b [RANGE 100]",
    "SELECT a.v, b.x FROM a [RANGE 100] LEFT JOIN b [RANGE 50] ON a.v = b.v",
    "SELECT v FROM a [RANGE 100 SLIDE 30] AS l WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 100] AS r WHERE r.v = l.v)",
    "ISTREAM(SELECT DISTINCT v FROM a [RANGE 100])",
    "SELECT SUM(v) AS n FROM a [RANGE 100]",
]


def rows(n: int, first: int, seed: int) -> pa.Table:
    drawn = np.random.default_rng(seed)
    ts = first + np.arange(n) * 60 // n
    return pa.table(
        {"ts": ts, "v": drawn.integers(0, n, n), "x": pa.array(drawn.integers(0, 9, n), pa.int32())}
    )


def connected(sql: str) -> tuple[penstock.Session, penstock.Query]:
    session = penstock.connect()
    streams = (
        f"CREATE STREAM {n} (ts BIGINT, v BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0" for n in "ab"
    )
    session.execute("; ".join(streams))
    return session, session.query(sql)


@pytest.mark.parametrize("sql", QUERIES[:-1])
def test_room_goes_back_when_the_last_row_has_expired(sql: str) -> None:
    session, query = connected(sql)
    for stream in "ab":
        session.push(stream, rows(100_000, 0, 1))
    session.advance(60)
    query.changes()
    assert session.size_bytes > 4_000_000
    session.advance(60 + 2 * WINDOW)
    query.changes()
    assert session.size_bytes < 200_000


@pytest.mark.parametrize("sql", QUERIES)
def test_answers_are_those_of_a_session_that_keeps_its_room(
    sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def played() -> list[object]:
        session, query = connected(sql)
        told: list[object] = []
        for round_ in range(4):
            first = round_ * 300
            for stream, seed in (("a", 2 * round_), ("b", 2 * round_ + 1)):
                session.push(stream, rows(500, first, seed))
            for t in (first + 30, first + 159, first + 160, first + 161, first + 290):
                session.advance(t)
                told.append(sorted(map(repr, query.changes().to_pylist())))
                if query.pattern != "MONOTONIC":
                    told.append(sorted(map(repr, query.snapshot().to_pylist())))
        return told

    kept = played()
    monkeypatch.setattr(embedded, "LARGE", 0)
    assert played() == kept
