"""Changes that nobody reads: counted in sizes, and bounded with a warning first."""

from __future__ import annotations

import warnings

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
    assert session.size_bytes < 4_000_000
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


@pytest.mark.parametrize("options", [{}, {"share": False}, {"budget": 10**9}], ids=str)
@pytest.mark.parametrize("sql", [STATELESS, GROUPS, "SELECT DISTINCT x FROM a [RANGE 2]"])
def test_a_program_that_reads_after_every_call_loses_nothing(sql: str, options: dict[str, object]) -> None:
    """Also if one call makes more changes than may wait; it is warned once at most."""
    session, free = connected(unread_bytes=100_000, **options), connected(unread_bytes=None, **options)
    query, other = session.query(sql), free.query(sql)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for t in range(0, 60, 20):
            rows = {"ts": [t + i // 1000 for i in range(20_000)], "x": list(range(20_000)), "y": [t] * 20_000}
            for one in (session, free):
                one.push("a", rows)
                one.advance(t + 19)
            found = query.changes()
            assert found.num_rows >= 20_000
            assert found.equals(other.changes())
    assert len(told) <= 1


@pytest.mark.parametrize("options", [{}, {"share": False}, {"budget": 10**9}], ids=str)
@pytest.mark.parametrize("size", [2_000, 60_000])
def test_a_warning_comes_before_anything_is_discarded(size: int, options: dict[str, object]) -> None:
    session = connected(unread_bytes=1_000_000, **options)
    query = session.query("SELECT x FROM a [RANGE 10]")
    warned, pushed = False, 0
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for part in range(240_000 // size):
            ts = [part * size + i for i in range(size)]
            session.push("a", {"ts": ts, "x": ts, "y": ts})
            session.advance(ts[-1])
            pushed += size
            warned |= bool(told)
            if not warned:
                assert query.unread_bytes < 3_000_000
        assert session.size_bytes < 12_000_000
        with pytest.raises(penstock.StateError, match="changes were discarded"):
            query.changes()
    assert [type(one.message) for one in told] == [penstock.UnreadWarning]


def test_sizes_count_rows_that_wait_for_a_budget() -> None:
    session = connected(budget=10)
    session.query("SELECT x, COUNT(*) AS n FROM a [RANGE 1000000] GROUP BY x")
    empty = session.size_bytes
    session.push("a", {"ts": list(range(9000)), "x": [1] * 9000, "y": [1] * 9000})
    assert session.size_bytes - empty >= 9000 * 12


def test_without_a_bound_everything_is_kept() -> None:
    session = connected(unread_bytes=None)
    query = session.query(STATELESS)
    feed(session, 100)
    assert query.changes().num_rows == 100_000


@pytest.mark.parametrize("wrong", [0, -1, "much", True, 1.5])
def test_a_bound_is_a_number_of_bytes(wrong: object) -> None:
    with pytest.raises(penstock.StateError, match="unread_bytes"):
        penstock.connect(unread_bytes=wrong)
