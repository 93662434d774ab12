"""What would take more memory or time than a machine has is an error that says so."""

from __future__ import annotations

from typing import Any

import pytest

import penstock
from penstock.types import limits

CREATE = (
    "CREATE STREAM a (ts BIGINT, k INT, s STRING) WATERMARK ts DELAY OF INTERVAL 0;"
    "CREATE STREAM b (ts BIGINT, k INT, s STRING) WATERMARK ts DELAY OF INTERVAL 0"
)


def connected(**options: Any) -> penstock.Session:
    session = penstock.connect(**options)
    session.execute(CREATE)
    return session


def doubled(times: int, source: str = "SELECT k, s FROM a [RANGE 5]") -> str:
    for _ in range(times):
        source = f"SELECT k, s || s AS s FROM ({source}) AS q"
    return source


def row(ts: int, s: str | None, k: int = 1) -> dict[str, Any]:
    return {"ts": ts, "k": k, "s": s}


def test_a_text_that_doubles_itself_is_refused_before_it_is_made() -> None:
    session = connected()
    session.query(f"SELECT length(s) AS n FROM ({doubled(27)}) AS q")
    other = session.query("SELECT s FROM a [RANGE 5]")
    session.push("a", [row(1, "x")])
    with pytest.raises(penstock.DataError, match=r"\|\| would make a text of 33,554,432 bytes, more than 16"):
        session.advance(1)
    assert other.snapshot().to_pylist() == [{"s": "x"}]


def test_texts_up_to_the_limit_are_made() -> None:
    session = connected()
    query = session.query(f"SELECT length(s) AS n FROM ({doubled(24)}) AS q")
    session.push("a", [row(1, "x"), row(1, None)])
    session.advance(1)
    assert sorted(query.snapshot().column("n").to_pylist(), key=str) == [1 << 24, None]


@pytest.mark.parametrize(
    "made",
    [
        "replace(s, 'x', 'xxxxxxxxxxxxxxxx')",
        "replace(s, left(s, 1), 'xxxxxxxxxxxxxxxx')",
        "concat(s, s, s, s, s, s, s, s, s)",
        "'y' || s || s || s || s || s || s || s || s || s",
    ],
)
def test_other_functions_that_make_texts_longer(made: str) -> None:
    session = connected()
    session.query(f"SELECT {made} AS t FROM a [RANGE 5]")
    session.push("a", [row(1, "x" * (1 << 21))])
    with pytest.raises(penstock.DataError, match="more than 16 MiB"):
        session.advance(1)


def test_rows_that_a_condition_leaves_out_do_not_count() -> None:
    session = connected()
    query = session.query(
        "SELECT length(CASE WHEN length(s) < 10 THEN concat(s, s, s, s, s, s, s, s, s) END) AS n FROM a [RANGE 5]"
    )
    session.push("a", [row(1, "x" * (1 << 21)), row(1, "xy")])
    session.advance(1)
    assert sorted(query.snapshot().column("n").to_pylist(), key=str) == [18, None]


def test_a_condition_on_a_text_that_doubles_itself_is_planned() -> None:
    """Below all the projections it would have as many parts as the text has letters."""
    session = connected()
    query = session.query(f"SELECT k FROM ({doubled(20)}) AS q WHERE s <> '' AND k > 0")
    session.push("a", [row(1, "x"), row(1, ""), row(1, "x", 0)])
    session.advance(1)
    assert query.snapshot().to_pylist() == [{"k": 1}]


def test_a_join_of_more_inputs_than_its_kernels_number() -> None:
    session = connected()
    wide = "".join(f" JOIN b [RANGE 5] AS t{i} ON t{i - 1}.k = t{i}.k" for i in range(1, 130))
    with pytest.raises(penstock.PlanError, match="one join of 130 inputs; there are at most 128"):
        session.query(f"SELECT t0.k FROM a [RANGE 5] AS t0{wide}")
    some = "".join(f" JOIN b [RANGE 5] AS t{i} ON t{i - 1}.k = t{i}.k" for i in range(1, 100))
    more = "".join(f" JOIN b [RANGE 5] AS u{i} ON q.k = u{i}.k" for i in range(60))
    query = session.query(f"SELECT q.k FROM (SELECT t0.k FROM a [RANGE 5] AS t0{some}) AS q{more}")
    session.push("a", [row(1, "x", 1), row(1, "x", 2)])
    session.push("b", [row(1, "x", 2)])
    session.advance(1)
    assert query.snapshot().to_pylist() == [{"k": 2}]


def test_planning_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    session = connected()
    monkeypatch.setattr(limits, "PLAN_SECONDS", -1.0)
    with pytest.raises(penstock.PlanError, match="planning takes more than -1 s"):
        session.query("SELECT a.k FROM a [RANGE 5] LEFT JOIN b [RANGE 5] ON a.k = b.k", name="q")
    assert not session.queries
    monkeypatch.undo()
    session.query("SELECT a.k FROM a [RANGE 5] LEFT JOIN b [RANGE 5] ON a.k = b.k", name="q")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a.k FROM a [RANGE 50] JOIN b [RANGE 50] ON a.k = b.k",
        "SELECT a.k FROM a [RANGE 50] JOIN b [ROWS 500] ON a.k = b.k",
        "SELECT a.k FROM a [RANGE 50] LEFT ANTI JOIN b [RANGE 50] ON a.k = b.k",
    ],
)
def test_a_join_that_makes_too_many_rows_of_one_step_stops(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "RESULT_ROWS", 10_000)
    session = connected(share=False)
    session.query(text, name="q")
    other = session.query("SELECT COUNT(*) AS n FROM a [RANGE 50]", name="other")
    session.push("b", [row(1, "x") for _ in range(400)])
    session.push("a", [row(2, "x") for _ in range(400)])
    with pytest.raises(penstock.StateError, match="more than 10,000 rows in one step"):
        session.advance(2)
    assert other.snapshot().to_pylist() == [{"n": 400}]


THREE = "SELECT a.k FROM a [RANGE 50], b [RANGE 50], c [RANGE 50] WHERE a.k = b.k AND b.k = c.k"


@pytest.mark.parametrize(
    "options", [{"join": "tree"}, {"join": "tree", "demand": "off"}, {"join": "eddy"}, {}]
)
@pytest.mark.parametrize("last", [1, 200])
def test_a_join_of_three_that_makes_too_many_rows_of_one_step_stops(
    options: dict[str, Any], last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of `c` come last: all of them make too many, or the only one."""
    monkeypatch.setattr(limits, "RESULT_ROWS", 10_000)
    session = connected(**options)
    session.execute("CREATE STREAM c (ts BIGINT, k INT, s STRING) WATERMARK ts DELAY OF INTERVAL 0")
    session.query(THREE, name="wide")
    other = session.query("SELECT COUNT(*) AS n FROM a [RANGE 50]", name="other")
    session.push("a", [row(1, "x") for _ in range(200)])
    session.push("b", [row(1, "x") for _ in range(200)])
    session.advance(1)
    session.push("c", [row(2, "x") for _ in range(last)])
    with pytest.raises(
        penstock.StateError, match="a join of query wide makes more than 10,000 rows in one step"
    ):
        session.advance(2)
    assert other.snapshot().to_pylist() == [{"n": 200}]
    session.push("c", [row(3, "x")])
    session.advance(3)


PAIRS = "SELECT a.k FROM a [RANGE 50], b [RANGE 50] WHERE a.k = b.k"
GROUPS = "SELECT a.s, COUNT(*) AS n FROM a [RANGE 50], b [RANGE 50] WHERE a.k = b.k{more} GROUP BY a.s"


@pytest.mark.parametrize(
    ("wide", "narrow", "rows", "most"),
    [
        (PAIRS, f"{PAIRS} AND b.s = 'y'", 100, 5_000),
        (PAIRS, f"{PAIRS} AND b.s = 'y'", 1, 50),
        (GROUPS.format(more=""), GROUPS.format(more=" AND b.s = 'y'"), 100, 5_000),
        ("SELECT a.k FROM a [RANGE 50], b [RANGE 50], b [RANGE 50] AS c WHERE a.k = b.k AND b.k = c.k", PAIRS, 10, 50_000),
        ("SELECT a.k FROM a [RANGE 50], b [RANGE 50], b [RANGE 50] AS c WHERE a.k = b.k AND b.k = c.k", PAIRS, 1, 5_000),
    ],
    ids=["pairs", "pairs of one row", "groups", "three", "three of one row"],
)  # fmt: skip
def test_of_joins_that_share_their_rows_the_one_that_makes_too_many_stops(
    wide: str, narrow: str, rows: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def played(queries: list[str]) -> tuple[list[list[str]], list[penstock.PenstockError]]:
        session = connected(join="eddy")
        made = [session.query(sql, name=f"q{n}") for n, sql in enumerate(queries)]
        told, errors = [], []
        session.push("b", [row(1, "x" if i % 25 else "y") for i in range(100)])
        for ts, come in ((1, 0), (2, rows), (3, 1)):
            session.push("a", [row(ts, "x") for _ in range(come)])
            try:
                session.advance(ts)
            except penstock.PenstockError as error:
                errors.append(error)
            told += [sorted(map(repr, t.to_pylist())) for t in (made[-1].changes(), made[-1].snapshot())]
        assert [made[0].exception()] == (errors or [None])
        made[0].drop()
        return told, errors

    alone, _ = played([narrow])
    assert played([wide, narrow]) == (alone, [])
    monkeypatch.setattr(limits, "RESULT_ROWS", most)
    beside, (error,) = played([wide, narrow])
    assert isinstance(error, penstock.StateError)
    assert error.message == f"a join of query q0 makes more than {most:,} rows in one step"
    assert beside == alone


def test_a_query_that_remembers_too_much_stops_alone() -> None:
    session = connected(query_bytes=2_000_000)
    session.query("SELECT DISTINCT k FROM a", name="grows")
    other = session.query("SELECT COUNT(*) AS n FROM a [RANGE 5] WHERE k < 10", name="other")
    session.push("a", [row(1, "x", k) for k in range(100)])
    session.advance(1)
    session.push("a", [row(2, "x", k) for k in range(200_000)])
    with pytest.raises(penstock.StateError, match=r"query grows remembers .* more than connect"):
        session.advance(2)
    session.push("a", [row(9, "x")])
    session.advance(9)
    assert other.snapshot().to_pylist() == [{"n": 1}]
