"""The same text gives the same changes embedded and on Spark."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import penstock

A = "CREATE STREAM a (ts BIGINT, x INT, y INT, s STRING) WATERMARK ts DELAY OF INTERVAL 5;"
B = "CREATE STREAM b (ts BIGINT, x BIGINT, d DOUBLE) WATERMARK ts DELAY OF INTERVAL 5;"

QUERIES = {
    "picked": "SELECT x, s FROM a [RANGE 10] WHERE y > 2",
    "joined": "SELECT a.x, a.s, b.d FROM a [RANGE 20], b [RANGE 10] WHERE a.x = b.x",
    "values": "SELECT DISTINCT x FROM a [RANGE 15]",
    "only": "SELECT x FROM a [RANGE 15] EXCEPT SELECT CAST(x AS INT) AS x FROM b [RANGE 15]",
    "sums": "SELECT x, SUM(y) AS t, MAX(s) AS m FROM a [RANGE 20] GROUP BY x",
    "whole": "SELECT COUNT(*) AS n FROM b [RANGE 7]",
    "last": "SELECT x, y FROM a [PARTITION BY x ROWS 2]",
    "near": "SELECT a.y, b.d FROM a [RANGE 3], b [RANGE 3] WHERE a.y < b.d",
    "met": (
        "SELECT g.n, COUNT(*) AS m FROM (SELECT x, COUNT(*) AS n FROM a [RANGE 20] GROUP BY x) AS g, b [RANGE 10]"
        " WHERE g.n = b.x GROUP BY g.n"
    ),
    "sizes": "SELECT n, COUNT(*) AS m FROM (SELECT x, COUNT(*) AS n FROM a [RANGE 20] GROUP BY x) AS g GROUP BY n",
    "theirs": "SELECT l.x, l.y, r.y AS z FROM a [RANGE 5] AS l, a [RANGE 5] AS r WHERE l.x = r.y",
}


def drawn(seed: int, rows: int, start: int = 0) -> dict[str, list[dict[str, Any]]]:
    rng = random.Random(seed)
    made: dict[str, list[dict[str, Any]]] = {"a": [], "b": []}
    for i in range(rows):
        # No two rows of `a` at one time: a window that counts rows then sees the same order everywhere.
        ts = start + 2 * i
        made["a"].append(
            {
                "ts": ts,
                "x": rng.choice([1, 2, 3, 4, None]),
                "y": rng.randrange(5),
                "s": rng.choice(["p", "q", None]),
            }
        )
        made["b"].append(
            {
                "ts": start + rng.randrange(max(2 * i - 4, 0), 2 * i + 1),
                "x": rng.randrange(5),
                "d": rng.random() * 5,
            }
        )
    return made


def declare(session: Any, queries: Iterable[str] = QUERIES) -> dict[str, Any]:
    session.execute(A + B)
    return {name: session.query(QUERIES[name], name=name) for name in queries}


class Kept:
    """A sink that keeps what it is given, once a step."""

    def __init__(self) -> None:
        self.steps: dict[int, pa.Table] = {}

    def __call__(self, frame: Any, step: int) -> None:
        self.steps[step] = frame.toArrow()

    def rows(self, names: list[str]) -> list[tuple[Any, ...]]:
        found = [tuple(row[n] for n in names) for t in self.steps.values() for row in t.to_pylist()]
        return sorted(found, key=repr)


def told(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


@pytest.fixture
def connect(spark: SparkSession, tmp_path: Path) -> Callable[[], Any]:
    return lambda: penstock.connect(spark, checkpoint=str(tmp_path / "checkpoint"), cells=2)


def test_every_kind_of_query(connect: Callable[[], Any]) -> None:
    here, there = penstock.connect(), connect()
    queries, others = declare(here), declare(there)
    kept = {name: Kept() for name in QUERIES}
    for name, query in others.items():
        query.foreach_batch(kept[name])
    together = Kept()
    there.foreach_batch(together)
    rows = drawn(1, 60)
    for name in "ab":
        here.push(name, rows[name])
        there.push(name, rows[name])
    here.advance(max(r["ts"] for part in rows.values() for r in part))
    handle = there.start(trigger={"availableNow": True})
    handle.awaitTermination()
    handle.stop()
    for name, query in queries.items():
        expected = query.changes()
        assert kept[name].rows(expected.column_names) == told(expected), name
        assert others[name].matched == query.matched, name
        of_all = [row[1:] for row in together.rows(["__query", "__op", "__ts", "__exp"]) if row[0] == name]
        assert of_all == [row[:3] for row in sorted(told(expected), key=lambda row: repr(row[:3]))], name
    assert handle.lastProgress["queries"]["sums"]["numOutputRows"] >= 0
    assert there.clock == here.clock


def test_progress_tells_of_partial_results(connect: Callable[[], Any]) -> None:
    """Of joins of three inputs or more, for every step, by all cells together."""
    there = connect()
    there.execute(A + B)
    there.query(
        "SELECT l.x FROM a [RANGE 9] AS l, b [RANGE 9] AS r, a [RANGE 9] AS m WHERE l.x = r.x AND l.y = m.y", name="three"
    ).foreach_batch(Kept())  # fmt: skip
    there.query("SELECT x FROM a WHERE y > 1", name="plain").foreach_batch(Kept())
    # Questions are first tried after some 1,500 rows of a join.
    for name, rows in drawn(11, 3000).items():
        there.push(name, rows)
    handle = there.start(trigger={"availableNow": True})
    handle.awaitTermination()
    handle.stop()
    told = [step["queries"]["three"]["partialResults"] for step in handle.recentProgress]
    assert sum(one["made"] for one in told) > 0
    assert sum(one["asked"] for one in told) > sum(one["suppressed"] for one in told) > 0
    assert all("partialResults" not in step["queries"]["plain"] for step in handle.recentProgress)


def test_a_flow_goes_on_where_it_stopped(connect: Callable[[], Any]) -> None:
    """Stopped and started three times, from its checkpoint alone."""
    here = penstock.connect()
    queries = declare(here)
    kept = {name: Kept() for name in QUERIES}
    for part in range(3):
        there = connect()
        for name, query in declare(there).items():
            query.foreach_batch(kept[name])
        rows = drawn(part, 30, start=60 * part)
        for name in "ab":
            here.push(name, [r for r in rows[name] if r["ts"] >= 60 * part])
            there.push(name, [r for r in rows[name] if r["ts"] >= 60 * part])
        handle = there.start(trigger={"availableNow": True}, flush=part == 2)
        handle.awaitTermination()
        handle.stop()
    here.advance(max(r["ts"] for part in rows.values() for r in part))
    for name, query in queries.items():
        expected = query.changes()
        assert kept[name].rows(expected.column_names) == told(expected), name


def test_another_meaning_for_a_known_name_is_refused(connect: Callable[[], Any]) -> None:
    first = connect()
    declare(first, ["picked"])
    first.push("a", drawn(1, 3)["a"])
    first.start(trigger={"availableNow": True}).awaitTermination()
    other = connect()
    other.execute(A + B)
    other.query("SELECT y FROM a [RANGE 3]", name="picked")
    with pytest.raises(penstock.StateError, match="query picked is not what the checkpoint holds"):
        other.start(trigger={"availableNow": True})
    changed = connect()
    changed.execute(A.replace("y INT", "y STRING") + B)
    changed.query("SELECT x FROM a [RANGE 3]", name="other")
    with pytest.raises(penstock.StateError, match="stream a is not what the checkpoint holds"):
        changed.start(trigger={"availableNow": True})


def test_late_rows_are_set_aside(connect: Callable[[], Any]) -> None:
    session = connect()
    query = declare(session, ["picked"])["picked"]
    kept = Kept()
    query.foreach_batch(kept)
    session.push("a", [{"ts": 100, "x": 1, "y": 3, "s": "p"}])
    session.start(trigger={"availableNow": True}, flush=False).awaitTermination()
    session.push("a", [{"ts": t, "x": t, "y": 3, "s": None} for t in (94, 95, 200)])
    handle = session.start(trigger={"availableNow": True})
    handle.awaitTermination()
    assert [r["x"] for r in session.late("a").toArrow().to_pylist()] == [94]
    assert sum(p["late"].get("a", 0) for p in handle.recentProgress) == 1
    assert [row[1] for row in kept.rows(["__op", "x"])] == [1, 200, 95]
    assert session.late("b").count() == 0


def test_sinks_hold_changes_or_the_current_answer(
    spark: SparkSession, connect: Callable[[], Any], tmp_path: Path
) -> None:
    here, there = penstock.connect(), connect()
    names = ["picked", "values", "sums"]
    queries, others = declare(here, names), declare(there, names)
    others["picked"].write(format="parquet", path=str(tmp_path / "picked"))
    others["picked"].write(format="json", path=str(tmp_path / "view"), mode="view")
    others["values"].to_table("penstock_values")
    others["sums"].to_table("penstock_sums", mode="view")
    rows = drawn(3, 40)
    handle = there.start(trigger={"processingTime": "0 seconds"})
    for part in range(2):
        for name in "ab":
            given = rows[name][20 * part : 20 * part + 20]
            here.push(name, given)
            there.push(name, given)
        handle.processAllAvailable()
    handle.stop()
    assert there.clock == here.clock
    expected = {name: query.changes() for name, query in queries.items()}

    def same(frame: Any, table: pa.Table) -> bool:
        return told(frame.select(*table.column_names).toArrow()) == told(table)

    assert same(spark.read.parquet(str(tmp_path / "picked")), expected["picked"])
    assert same(spark.table("penstock_values"), expected["values"])
    snapshot = queries["picked"].snapshot()
    assert same(spark.read.schema("x INT, s STRING").json(str(tmp_path / "view")), snapshot)
    assert same(spark.table("penstock_sums"), queries["sums"].snapshot())


def test_queries_and_tables_change_between_steps(connect: Callable[[], Any]) -> None:
    here, there = penstock.connect(), connect()
    for session in (here, there):
        session.execute(A)
        session.create_table("names", [{"k": 1, "n": "one"}, {"k": 2, "n": "two"}])
    looked_up = "SELECT a.x, a.y, names.n FROM a [RANGE 10], names WHERE a.x = names.k"
    kept = {name: Kept() for name in ("first", "second")}
    one = here.query(looked_up, name="first")
    there.query(looked_up, name="first").foreach_batch(kept["first"])
    handle = there.start(trigger={"processingTime": "0 seconds"})
    rows = drawn(5, 60)["a"]
    for part in range(3):
        for session in (here, there):
            session.push("a", rows[20 * part : 20 * part + 20])
        handle.processAllAvailable()
        assert here.clock == there.clock
        if part == 0:
            for session in (here, there):
                session.update_table("names", insert=[{"k": 3, "n": "three"}], delete=[{"k": 1, "n": "one"}])
            there.query("SELECT DISTINCT y FROM a [RANGE 20]", name="second").foreach_batch(kept["second"])
        if part == 1:
            first = one.changes()
            there.queries["first"].drop()
            other = there.query("SELECT x FROM a [RANGE 5] WHERE y > 99", name="first")
    handle.stop()
    assert other.matched == 0
    assert kept["first"].rows(first.column_names) == told(first)
    # What is registered while rows are on their way begins with the rows after them.
    later = penstock.connect()
    later.execute(A)
    two = later.query("SELECT DISTINCT y FROM a [RANGE 20]", name="second")
    later.push("a", rows[20:])
    second = two.changes()
    assert kept["second"].rows(second.column_names) == told(second)


def test_a_failing_function_ends_the_flow_and_names_the_row(connect: Callable[[], Any]) -> None:
    session = connect()
    session.execute(A)

    def inverse(value: int) -> float:
        return 1 / value

    session.create_function("inverse", inverse, returns="DOUBLE")
    session.query("SELECT inverse(y) AS z FROM a [RANGE 5]", name="z").foreach_batch(Kept())
    session.push("a", [{"ts": t, "x": 1, "y": 3 - t, "s": None} for t in range(6)])
    handle = session.start(trigger={"availableNow": True})
    with pytest.raises(penstock.DataError, match=r"function inverse failed on \(0\).*ts 3"):
        handle.awaitTermination()
    assert not handle.isActive
    assert isinstance(handle.exception(), penstock.DataError)
