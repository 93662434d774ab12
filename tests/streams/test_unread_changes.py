"""Changes that nobody reads: counted in sizes, and bounded with a warning first."""

from __future__ import annotations

import pytest

import penstock

STATELESS = "SELECT x, y FROM a [RANGE 2] WHERE x >= 0"
GROUPS = "SELECT x, COUNT(*) AS n FROM a [RANGE 2] GROUP BY x"
ROW_BYTES = 16 + 12
"""At least, of a change: two times and two columns."""


def connected(**options: object) -> penstock.Session:
    session = penstock.connect(**options)
    session.execute("CREATE STREAM a (ts BIGINT, x INT, y BIGINT) WATERMARK ts DELAY OF INTERVAL 0")
    return session


def feed(session: penstock.Session, steps: int, first: int = 0) -> None:
    for t in range(first, first + steps):
        session.push("a", {"ts": [t] * 1000, "x": list(range(1000)), "y": [t] * 1000})
        session.advance(t)


@pytest.mark.parametrize("sql", [STATELESS, GROUPS])
def test_sizes_count_what_nobody_has_read(sql: str) -> None:
    session = connected()
    query = session.query(sql)
    feed(session, 20)
    query.changes()
    empty, empty_query = session.size_bytes, query.size_bytes
    feed(session, 50, 20)
    unread = 50_000 * ROW_BYTES
    assert query.unread_bytes >= unread
    assert query.size_bytes - empty_query >= unread
    assert session.size_bytes - empty >= 0.8 * unread
    assert query.changes().num_rows >= 50_000
    assert query.unread_bytes == 0
    assert session.size_bytes - empty < unread / 10


def test_sizes_count_rows_that_wait_for_the_clock() -> None:
    session = connected()
    session.execute("CREATE STREAM b (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
    session.query("SELECT a.x FROM a [RANGE 2], b [RANGE 2] WHERE a.x = b.x")
    empty = session.size_bytes
    session.push("a", {"ts": list(range(9000)), "x": [1] * 9000, "y": [1] * 9000})
    assert session.size_bytes - empty >= 9000 * 20


@pytest.mark.parametrize("sql", [STATELESS, GROUPS])
def test_unread_changes_are_bounded_with_a_warning_first(sql: str) -> None:
    session = connected(unread_bytes=1_000_000)
    query = session.query(sql, keep=True)
    with pytest.warns(
        penstock.UnreadWarning, match=rf"query {query.name}: .* bytes .* beyond 1,000,000"
    ) as told:
        feed(session, 200)
    assert len(told) == 1
    assert session.size_bytes < 2_500_000
    with pytest.raises(penstock.StateError, match=r"[\d,]+ changes were discarded.*snapshot"):
        query.changes()
    query.changes()
    assert query.snapshot().num_rows >= 1000
    feed(session, 1, 200)
    assert query.changes().num_rows >= 1000, "later changes are read as ever"


def test_who_reads_is_never_bounded() -> None:
    session = connected(unread_bytes=1_000_000)
    query = session.query(GROUPS)
    rows = 0
    for t in range(100):
        feed(session, 1, t)
        rows += query.changes().num_rows
    assert rows >= 100_000


def test_without_a_bound_everything_is_kept() -> None:
    session = connected(unread_bytes=None)
    query = session.query(STATELESS)
    feed(session, 100)
    assert query.changes().num_rows == 100_000


@pytest.mark.parametrize("wrong", [0, -1, "much", True, 1.5])
def test_a_bound_is_a_number_of_bytes(wrong: object) -> None:
    with pytest.raises(penstock.StateError, match="unread_bytes"):
        penstock.connect(unread_bytes=wrong)
