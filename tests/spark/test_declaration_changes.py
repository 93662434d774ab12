"""A checkpoint goes on with declarations that say the same otherwise, or more; what it refuses says what would work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.spark import driver as flows
from tests.spark.test_sessions import QUERIES, A, B, Kept, drawn, told

BOUNDED = [name for name in QUERIES if name != "last"]


@pytest.fixture
def connect(spark: SparkSession, tmp_path: Path) -> Callable[[], Any]:
    return lambda: penstock.connect(spark, checkpoint=str(tmp_path / "checkpoint"), cells=2)


def run(session: Any, *, flush: bool = False) -> None:
    handle = session.start(trigger={"availableNow": True}, flush=flush)
    handle.awaitTermination()
    handle.stop()


class Parts:
    """The same rows in parts: to one embedded session, and to a flow that is declared anew for every part."""

    def __init__(self, connect: Callable[[], Any], script: str, names: list[str]) -> None:
        self.connect = connect
        self.here = penstock.connect()
        self.here.execute(script)
        self.queries = {name: self.here.query(QUERIES[name], name=name) for name in names}
        self.kept = {name: Kept() for name in names}

    def declare(self, script: str, texts: dict[str, str] | None = None) -> Any:
        there = self.connect()
        there.execute(script)
        for name in self.queries:
            there.query((texts or QUERIES)[name], name=name).foreach_batch(self.kept[name])
        return there

    def push(self, there: Any, rows: dict[str, list[dict[str, Any]]]) -> None:
        for name, given in rows.items():
            if given:
                self.here.push(name, given)
                columns = [field.name for field in there.catalog.streams[name].schema]
                there.push(name, [{column: row.get(column) for column in columns} for row in given])

    def check(self) -> None:
        for name, query in self.queries.items():
            expected = query.changes()
            assert expected.num_rows, name
            assert self.kept[name].rows(expected.column_names) == told(expected), name


def cut(rows: dict[str, list[dict[str, Any]]], part: int, size: int = 30) -> dict[str, list[dict[str, Any]]]:
    return {name: given[size * part : size * part + size] for name, given in rows.items()}


def test_texts_are_compared_by_what_they_mean(connect: Callable[[], Any]) -> None:
    written = {
        "picked": "select  x, s\n  from a [range 10] -- a comment\n where (Y > 2)",
        "joined": "SELECT l.x, l.s, r.d FROM a [RANGE 20] AS l, b [RANGE 10] r WHERE r.x = l.x",
        "sums": "SELECT x, SUM(y) AS t, MAX(s) AS m FROM A [RANGE 20]  GROUP BY x",
    }
    parts, rows = Parts(connect, A + B, list(written)), drawn(1, 60)
    for part, texts in enumerate((None, written)):
        there = parts.declare(A + B, texts)
        parts.push(there, cut(rows, part))
        run(there)
    parts.check()
    for text in (
        "SELECT x, s FROM a [RANGE 11] WHERE y > 2",
        "SELECT x, s AS t FROM a [RANGE 10] WHERE y > 2",
    ):
        with pytest.raises(penstock.StateError, match=r"query picked is not what.*another name.*begins anew"):
            parts.declare(A + B, {**written, "picked": text}).start(trigger={"availableNow": True})


def test_a_query_that_was_dropped_begins_anew_under_its_name(connect: Callable[[], Any]) -> None:
    """What the error of another text advises."""
    rows = drawn(1, 60)
    first = connect()
    first.execute(A)
    first.query("SELECT x FROM a [RANGE 10]", name="q").foreach_batch(Kept())
    first.push("a", rows["a"][:30])
    run(first)
    other, kept = connect(), Kept()
    other.execute(A)
    other.query("SELECT y FROM a [RANGE 10]", name="q")
    with pytest.raises(penstock.StateError, match="begins anew"):
        other.start(trigger={"availableNow": True})
    other.drop("q")
    other.query("SELECT y FROM a [RANGE 10]", name="q").foreach_batch(kept)
    other.push("a", rows["a"][30:])
    run(other, flush=True)
    assert sorted(row[0] for row in kept.rows(["y"])) == sorted(row["y"] for row in rows["a"][30:])


@pytest.mark.parametrize("delays", [(5, 20), (20, 5)])
def test_another_delay(connect: Callable[[], Any], delays: tuple[int, int]) -> None:
    names = ["joined", "values", "met"]
    parts, rows = Parts(connect, (A + B).replace("5", "20"), names), drawn(2, 90)
    for part, delay in enumerate((delays[0], delays[1], delays[1])):
        there = parts.declare((A + B).replace("INTERVAL 5", f"INTERVAL {delay}"))
        parts.push(there, cut(rows, part))
        run(there, flush=part == 2)
        assert there.flow.known.watermarks["a"] >= there.flow.known.newest["a"] - delay
    parts.here.advance(max(row["ts"] for given in rows.values() for row in given))
    parts.check()


def test_a_longer_delay_waits_for_later_rows(connect: Callable[[], Any]) -> None:
    kept = Kept()
    for delay, times in ((0, [100]), (50, [200, 160, 155]), (50, [300])):
        session = connect()
        session.execute(A.replace("INTERVAL 5", f"INTERVAL {delay}"))
        session.query("SELECT x FROM a [RANGE 10]", name="q").foreach_batch(kept)
        session.push("a", [{"ts": ts, "x": ts, "y": 1, "s": None} for ts in times])
        run(session)
    assert [row[0] for row in kept.rows(["x"])] == [100, 155, 160, 200]
    assert session.late("a").count() == 0


WIDE = A.replace("x INT, y INT", "x BIGINT, y BIGINT")
MORE = "CREATE STREAM a (z DOUBLE, ts BIGINT, s STRING, y INT, x INT, w STRING) WATERMARK ts DELAY OF INTERVAL 5;"


@pytest.mark.parametrize("changed", [WIDE, MORE], ids=["wider", "more columns"])
def test_streams_take_wider_and_more_columns(connect: Callable[[], Any], changed: str) -> None:
    """State, and queries in two stages, are made anew from the logged rows; a change is told once."""
    parts, rows = Parts(connect, A + B, BOUNDED), drawn(3, 120)
    for part, script in enumerate((A, A, changed, changed)):
        there = parts.declare(script + B)
        parts.push(there, cut(rows, part))
        run(there)
    parts.check()
    assert there.flow.store.deal == 1


def test_values_that_the_old_type_could_not_hold(connect: Callable[[], Any]) -> None:
    kept, large = Kept(), 10**12
    for script, value in ((A, 7), (WIDE, large)):
        session = connect()
        session.execute(script)
        session.query("SELECT x, COUNT(*) AS n FROM a [RANGE 10] GROUP BY x", name="q").foreach_batch(kept)
        session.push("a", [{"ts": value, "x": value, "y": 1, "s": None}])
        run(session, flush=True)
    assert kept.rows(["__op", "x", "n"]) == [("+", large, 1), ("+", 7, 1)]


def test_a_new_query_reads_a_new_column_and_a_new_table(connect: Callable[[], Any]) -> None:
    kept = Kept()
    first = connect()
    first.execute(A)
    first.query("SELECT x FROM a [RANGE 10]", name="old").foreach_batch(Kept())
    first.push("a", [{"ts": 1, "x": 1, "y": 1, "s": None}])
    run(first)
    for ts in (2, 3):
        then = connect()
        then.execute(MORE)
        then.query("SELECT x FROM a [RANGE 10]", name="old").foreach_batch(Kept())
        then.create_table("names", [{"k": "w2", "n": "two"}, {"k": "w3", "n": "three"}])
        then.query("SELECT x, n FROM a [RANGE 10], names WHERE w = k", name="new").foreach_batch(kept)
        then.push("a", [{"z": 0.5, "ts": ts, "s": None, "y": 1, "x": ts, "w": f"w{ts}"}])
        run(then, flush=ts == 3)
    assert kept.rows(["x", "n"]) == [(2, "two"), (3, "three")]


def test_columns_change_after_a_step_that_was_cut_short(
    connect: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step is repeated as it was decided, with rows as Spark reads them now."""
    parts, rows = Parts(connect, A + B, ["joined", "sums", "met"]), drawn(4, 120)
    for part, script in enumerate((A, A, MORE, MORE)):
        there = parts.declare(script + B)
        parts.push(there, cut(rows, part))
        if part == 1:
            with monkeypatch.context() as patched:
                patched.setattr(flows.step_task, "raise_errors", _lost)
                with pytest.raises(penstock.StateError, match="the driver is gone"):
                    run(there)
            there.flow.close()
            assert there.flow.step > there.flow.done
        else:
            run(there)
    parts.check()


def _lost(_: object) -> None:
    raise penstock.StateError("the driver is gone")


def test_streams_are_added(connect: Callable[[], Any]) -> None:
    """Also before known ones in the script, and while the last batch was not done."""
    parts, rows = Parts(connect, A + B, ["picked", "values"]), drawn(5, 90)
    kept = Kept()
    for part, script in enumerate(
        (A + B, "CREATE STREAM c (ts BIGINT, k STRING) WATERMARK ts DELAY OF 5;" + A + B)
    ):
        there = parts.declare(script)
        parts.push(there, cut(rows, part))
        if part:
            there.query("SELECT k FROM c [RANGE 10]", name="third").foreach_batch(kept)
            there.push("c", [{"ts": ts, "k": f"k{ts}"} for ts in range(200, 210)])
        run(there, flush=part == 1)
    parts.here.advance(209)
    parts.check()
    assert sorted({row[0] for row in kept.rows(["k"])}) == [f"k{ts}" for ts in range(200, 210)]


@pytest.mark.parametrize(
    ("script", "error"),
    [
        (A.replace("y INT", "y SMALLINT"), r"column y is INT there, SMALLINT here.*may become wider"),
        (A.replace("y INT", "y DOUBLE"), r"column y is INT there, DOUBLE here.*under another name"),
        (A.replace("y INT, ", ""), r"column y is missing.*declare y INT still"),
        (A.replace("WATERMARK ts", "WATERMARK x").replace("x INT", "x BIGINT"), r"its time is ts BIGINT there"),
        (A.replace("s STRING", "s STRING, more INT"), r"query all would have other columns.*name its columns"),
        (B, r"stream a is in the checkpoint and is not declared.*declare it as before"),
    ],
)  # fmt: skip
def test_what_is_refused_says_what_would_work(connect: Callable[[], Any], script: str, error: str) -> None:
    first = connect()
    first.execute(A)
    first.query("SELECT * FROM a [RANGE 10]", name="all").foreach_batch(Kept())
    first.push("a", drawn(1, 3)["a"])
    run(first)
    other = connect()
    other.execute(script)
    star = "SELECT * FROM a [RANGE 10]" if script != B else "SELECT * FROM b [RANGE 10]"
    other.query(star, name="all" if script != B else "other").foreach_batch(Kept())
    with pytest.raises(penstock.StateError, match=error):
        other.start(trigger={"availableNow": True})


def test_functions_that_no_query_calls_may_change(connect: Callable[[], Any]) -> None:
    def started(by: int, version: int | None = None) -> Any:
        session = connect()
        session.execute(A)
        session.create_function("used", lambda x: x + by, "BIGINT", version=version)
        session.create_function("unused", lambda x: x * by, "BIGINT")
        session.query("SELECT used(x) AS u FROM a [RANGE 10]", name="q").foreach_batch(Kept())
        return session

    for _ in range(2):
        session = started(1)
        session.push("a", [{"ts": 1, "x": 1, "y": 1, "s": None}])
        run(session)
    with pytest.raises(penstock.StateError, match=r"function used, which query q calls, is not the one"):
        started(2).start(trigger={"availableNow": True})
    other = started(2)
    other.drop("q")
    other.query("SELECT x FROM a [RANGE 10]", name="r").foreach_batch(Kept())
    other.push("a", [{"ts": 2, "x": 1, "y": 1, "s": None}])
    run(other)
    assert other.flow.done == other.flow.step


def test_a_function_is_known_by_the_version_that_is_given(connect: Callable[[], Any]) -> None:
    for by, version in ((1, "one"), (2, "one"), (2, "two")):
        session = connect()
        session.execute(A)
        session.create_function("f", lambda x, by=by: x + by, "BIGINT", version=version)
        session.query("SELECT f(x) AS u FROM a [RANGE 10]", name="q").foreach_batch(Kept())
        session.push("a", [{"ts": by, "x": 1, "y": 1, "s": None}])
        if version == "one":
            run(session)
        else:
            with pytest.raises(penstock.StateError, match=r"version one there.*version two here"):
                session.start(trigger={"availableNow": True})
