"""Reads between steps: what a budget has room for is applied up to the clock, and the next step pays for it."""

from __future__ import annotations

import pytest

import penstock

JOIN = "SELECT a.x, b.x AS y FROM a [RANGE 50], b [RANGE 50] WHERE a.x = b.x"


def connected(budget: object) -> penstock.Session:
    session = penstock.connect(budget=budget)
    session.execute(
        "; ".join(f"CREATE STREAM {n} (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0" for n in "ab")
    )
    return session


@pytest.mark.parametrize("budget", [10_000, "1 minute"])
@pytest.mark.parametrize(
    "sql", ["SELECT x FROM a [RANGE 50]", "SELECT x, COUNT(*) AS n FROM a [RANGE 50] GROUP BY x", JOIN]
)
def test_reads_show_rows_up_to_the_clock(budget: object, sql: str) -> None:
    limited, free = connected(budget), connected(None)
    queries = [(s, s.query(sql)) for s in (limited, free)]
    for t in range(0, 40, 2):
        for session, _ in queries:
            for stream in "ab":
                session.push(stream, [{"ts": t, "x": t % 3}, {"ts": t + 1, "x": 1}])
        (one, limited_query), (other, free_query) = queries
        assert one.clock == other.clock == t
        shown = [sorted(q.snapshot().to_pylist(), key=repr) for q in (limited_query, free_query)]
        assert shown[0] == shown[1], t
        told = [sorted(q.changes().to_pylist(), key=repr) for q in (limited_query, free_query)]
        assert told[0] == told[1], t
        assert limited_query.matched == free_query.matched


def test_reads_give_no_units_beyond_those_of_steps() -> None:
    session = connected(100)
    query = session.query("SELECT a.x FROM a [RANGE 5000], b [RANGE 5000] WHERE a.x = b.x")
    applied = []
    for t in range(300):
        for stream in "ab":
            session.push(stream, [{"ts": t, "x": 1}])
        session.push("a", [{"ts": t + 1, "x": 2}])
        applied.append(query.matched)
    assert applied[2] > 0, "what fits is applied at once"
    assert applied[-1] == applied[150], "reading often does not buy work"
    session.advance(299)
    session.drain()
    assert query.matched == 300 * 300
