"""Rows whose time is far in the future: set aside with a warning, so that those after them are not late."""

from __future__ import annotations

import datetime as dt
import warnings

import pyarrow as pa
import pytest

import penstock
from penstock.plan.catalog import UNLIMITED, Catalog, Stream
from penstock.sql import CreateStream, bind, parse

NOW = dt.datetime.now(dt.UTC).replace(tzinfo=None, microsecond=0)
SECOND, DAY, YEAR = dt.timedelta(seconds=1), dt.timedelta(days=1), dt.timedelta(days=366)


def connected(
    clauses: str, kind: str = "TIMESTAMP", **options: object
) -> tuple[penstock.Session, penstock.Query]:
    session = penstock.connect(**options)
    session.execute(f"CREATE STREAM a (ts {kind}, x INT) WATERMARK ts DELAY OF INTERVAL 0 {clauses}")
    return session, session.query("SELECT x FROM a [UNBOUNDED]", keep=True)


def push_in_parts(session: penstock.Session, given: list[dict[str, object]], size: int) -> None:
    for begin in range(0, len(given), size):
        session.push("a", given[begin : begin + size])


def rows(times: list[object], first: int = 0) -> list[dict[str, object]]:
    return [{"ts": t, "x": first + i} for i, t in enumerate(times)]


def taken(session: penstock.Session, query: penstock.Query) -> list[int]:
    session.advance(session.engine.sources["a"].watermark)
    return sorted(query.snapshot().column("x").to_pylist())


@pytest.mark.parametrize("as_arrow", [False, True])
def test_a_row_years_ahead_does_not_make_later_rows_late(as_arrow: bool) -> None:
    session, query = connected("")
    schema = pa.schema([("ts", pa.timestamp("us")), ("x", pa.int32())])

    def push(given: list[dict[str, object]]) -> None:
        session.push("a", pa.RecordBatch.from_pylist(given, schema=schema) if as_arrow else given)

    push(rows([NOW - 9 * SECOND, NOW - 8 * SECOND]))
    with pytest.warns(penstock.StreamWarning, match=r"stream a: a row at 2099-01-01.*s\.ahead\('a'\)"):
        push(rows([dt.datetime(2099, 1, 1)], 2))
    push(rows([NOW - 7 * SECOND, NOW - 6 * SECOND], 3))
    assert session.late("a").num_rows == 0
    assert session.ahead("a").column("x").to_pylist() == [2]
    assert taken(session, query) == [0, 1, 3, 4]


def test_the_warning_comes_once() -> None:
    session, _ = connected("")
    with pytest.warns(penstock.StreamWarning):
        session.push("a", rows([NOW, dt.datetime(2099, 1, 1)]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session.push("a", rows([dt.datetime(2100, 1, 1)], 2))
    assert session.ahead("a").num_rows == 2


@pytest.mark.parametrize(
    "times",
    [
        [dt.datetime(1999, 1, 1) + n * 40 * DAY for n in range(5)],
        [dt.datetime(2012, 1, 1), dt.datetime(2016, 1, 1), dt.datetime(2020, 1, 1)],
        [NOW + 4 * YEAR + n * 300 * DAY for n in range(5)],
        [dt.datetime(4000, 1, 1) + n * 300 * DAY for n in range(5)],
        [NOW, NOW + 100 * DAY],
    ],
    ids=["old", "old with gaps", "made up", "far", "near"],
)
def test_recorded_and_made_up_times_pass_by_default(times: list[object]) -> None:
    session, query = connected("")
    session.push("a", rows(times))
    assert taken(session, query) == list(range(len(times)))


def test_a_declared_bound_is_ahead_of_the_wall_clock() -> None:
    session, query = connected("AHEAD AT MOST INTERVAL 1 HOUR")
    with pytest.warns(penstock.StreamWarning):
        session.push(
            "a", rows([NOW, NOW + 30 * 60 * SECOND, NOW + 2 * 3600 * SECOND, NOW + 31 * 60 * SECOND])
        )
    assert session.ahead("a").column("x").to_pylist() == [2]
    assert taken(session, query) == [0, 1, 3]


def test_without_a_limit_rows_may_be_any_time_ahead() -> None:
    session, query = connected("AHEAD UNLIMITED")
    session.push("a", rows([NOW, dt.datetime(9999, 1, 1)]))
    assert session.ahead("a").num_rows == 0
    assert session.engine.sources["a"].watermark > 0
    assert session.late("a").num_rows == 0
    assert query.matched == 1


def test_plain_units_have_no_bound_by_default() -> None:
    session, query = connected("", "BIGINT")
    session.push("a", rows([1, 2**60, 2**61 - 2]))
    assert taken(session, query) == [0, 1, 2]


@pytest.mark.parametrize("cut", [1, 2, 3, 7])
def test_a_declared_bound_of_plain_units_is_ahead_of_the_newest_row(cut: int) -> None:
    session, query = connected("AHEAD AT MOST 10", "BIGINT")
    given = rows([1000, 1005, 1016, 1015, 900, 1025, 5000])
    with pytest.warns(penstock.StreamWarning):
        push_in_parts(session, given, cut)
    assert session.ahead("a").column("ts").to_pylist() == [1016, 5000]
    assert session.late("a").column("ts").to_pylist() == [900]
    session.advance(4995)
    session.push("a", rows([5000], 7))
    assert taken(session, query) == [0, 1, 3, 5, 7]


def test_late_rows_are_kept_up_to_a_bound_and_all_counted() -> None:
    session, _ = connected("", "BIGINT", keep_late=100)
    session.push("a", rows([10_000]))
    with pytest.warns(penstock.StreamWarning, match="more rows are late than are kept") as told:
        push_in_parts(session, rows(list(range(900))), 30)
    assert len(told) == 1
    assert session.late("a").column("x").to_pylist() == list(range(800, 900))
    assert session.late("a").schema.metadata == {b"not_kept": b"800"}
    assert session.ahead("a").schema.metadata == {b"not_kept": b"0"}
    assert session.engine.sources["a"].late_rows == 900
    assert session.engine.sources["a"].size_bytes < 125 * 12 + 100


def test_it_is_said_once_when_most_rows_are_late() -> None:
    session, _ = connected("", "BIGINT")
    session.push("a", rows([10**9]))
    with pytest.warns(
        penstock.StreamWarning, match=r"stream a: 1,\d+ of the last 1,\d+ rows are late"
    ) as told:
        push_in_parts(session, rows(list(range(5000))), 500)
    assert len(told) == 1
    assert session.late("a").num_rows == 5000


def test_rows_set_aside_come_back_with_a_saved_state() -> None:
    from penstock.durability import snapshot

    session, _ = connected("AHEAD AT MOST 10", "BIGINT")
    with pytest.warns(penstock.StreamWarning):
        session.push("a", rows([1, 100]))
    queries = [(s.name, s.root, True) for s in session.engine.queries.values()]
    again = snapshot.restore(session.catalog, queries, snapshot.dump(session.engine))
    assert again.sources["a"].ahead_rows == 1


def declared(clauses: str, kind: str = "TIMESTAMP") -> Stream:
    statement = bind(parse(f"CREATE STREAM a (ts {kind}) WATERMARK ts {clauses}")[0], Catalog())
    assert isinstance(statement, CreateStream)
    return statement.stream


def test_clauses_of_a_watermark_stand_in_any_order() -> None:
    made = declared(
        "IDLE AFTER INTERVAL 30 SECONDS AHEAD AT MOST INTERVAL 1 HOUR UNIT MILLISECONDS DELAY OF INTERVAL 5 SECONDS"
    )
    assert (made.delay, made.ahead, made.idle, made.unit) == (5_000_000, 3_600_000_000, 30_000_000, 1000)
    assert declared("UNIT SECONDS").unit == 1_000_000
    assert declared("AHEAD UNLIMITED", "BIGINT").ahead == UNLIMITED
    assert declared("AHEAD AT MOST 5 DELAY OF 3", "BIGINT").ahead == 5


@pytest.mark.parametrize(
    ("clauses", "kind", "message"),
    [
        ("", "BIGINT", "expected DELAY OF"),
        ("DELAY OF 1 DELAY OF 2", "BIGINT", "DELAY is there twice"),
        ("AHEAD UNLIMITED AHEAD AT MOST 5", "BIGINT", "AHEAD is there twice"),
        ("AHEAD AT MOST 5 SECONDS", "BIGINT", "plain number"),
        ("AHEAD AT MOST 5", "TIMESTAMP", "needs a unit"),
        ("AHEAD AT MOST -5", "BIGINT", "cannot be negative"),
        ("IDLE AFTER 5", "BIGINT", "IDLE AFTER takes a length of time"),
        ("UNIT SECONDS", "BIGINT", "UNIT is for a TIMESTAMP column"),
        ("UNIT HOURS", "TIMESTAMP", "times are not counted in HOURS"),
        ("UNIT FORTNIGHTS", "TIMESTAMP", "no unit FORTNIGHTS"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(clauses: str, kind: str, message: str) -> None:
    with pytest.raises(penstock.PenstockError, match=message) as refused:
        declared(clauses, kind)
    assert refused.value.line == 1


def test_create_stream_takes_the_same_as_arguments() -> None:
    session = penstock.connect()
    session.create_stream(
        "a", {"ts": "BIGINT", "x": "INT"}, time="ts", unit="milliseconds", ahead="1 hour", idle="30 seconds"
    )
    made = session.catalog.streams["a"]
    assert (made.time_type.value, made.unit, made.ahead, made.idle) == (
        "TIMESTAMP",
        1000,
        3_600_000_000,
        30_000_000,
    )
    session.create_stream("b", {"ts": "TIMESTAMP"}, time="ts", ahead="unlimited")
    assert session.catalog.streams["b"].ahead == UNLIMITED
    for wrong in ({"unit": 5}, {"ahead": "soon"}, {"idle": 30}):
        with pytest.raises(penstock.BindError):
            session.create_stream("c", {"ts": "TIMESTAMP"}, time="ts", **wrong)
