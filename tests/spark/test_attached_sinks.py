"""Sinks attached to queries that are registered while the flow runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import penstock

COUNTS = "SELECT x, COUNT(*) AS n FROM a [RANGE 100] GROUP BY x"


@pytest.fixture
def running(spark: SparkSession, tmp_path: Path) -> Iterator[tuple[Any, Any]]:
    """A session whose flow has taken its first rows, and the handle."""
    session = penstock.connect(spark, checkpoint=str(tmp_path / "checkpoint"), cells=2)
    session.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
    session.query("SELECT x FROM a [RANGE 10]", name="first").foreach_batch(lambda *_: None)
    handle = session.start(trigger={"processingTime": "0 seconds"})
    push(session, handle, range(1, 4))
    yield session, handle
    handle.stop()


def push(session: Any, handle: Any, times: range) -> None:
    session.push("a", [{"ts": t, "x": t % 2} for t in times])
    handle.processAllAvailable()


def view(spark: SparkSession, name: str) -> list[tuple[int, int]]:
    return sorted(tuple(row) for row in spark.table(name).collect())


def test_a_view_is_attached_after_steps_have_passed(
    spark: SparkSession, running: tuple[Any, Any], tmp_path: Path
) -> None:
    session, handle = running
    query = session.query(COUNTS, name="counts")
    push(session, handle, range(4, 8))
    query.to_table("attached_counts", mode="view")
    assert view(spark, "attached_counts") == [], "readers find the table at once"
    push(session, handle, range(10, 14))
    assert view(spark, "attached_counts") == [(0, 2), (1, 1)], "of the rows since then"
    changes: list[Any] = []
    query.foreach_batch(lambda frame, _: changes.extend(frame.collect()))
    push(session, handle, range(14, 15))
    assert [(row["x"], row["n"]) for row in changes if row["__op"] == "+"] == [(1, 2)]


def test_a_sink_that_is_refused_leaves_the_query_as_it_was(
    spark: SparkSession, running: tuple[Any, Any]
) -> None:
    session, handle = running
    spark.sql("CREATE TABLE attached_csv (x INT, n BIGINT) USING csv")
    query = session.query(COUNTS, name="counts")
    with pytest.raises(penstock.DataError, match="table attached_csv is made of csv"):
        query.to_table("attached_csv", mode="view")
    push(session, handle, range(4, 8))
    assert "counts" not in session.flow.declared.since, "it waits for a sink"
    query.to_table("attached_again", mode="view")
    push(session, handle, range(10, 13))
    assert view(spark, "attached_again") == [(0, 1), (1, 1)]


def test_a_view_comes_before_other_sinks(running: tuple[Any, Any]) -> None:
    session, handle = running
    query = session.query(COUNTS, name="counts").foreach_batch(lambda *_: None)
    push(session, handle, range(4, 8))
    with pytest.raises(penstock.StateError, match="has begun without a view") as refused:
        query.to_table("attached_late", mode="view")
    assert "first" in str(refused.value.hint)
    assert not session.spark.catalog.tableExists("attached_late")


def test_a_query_without_a_sink_begins_with_one_for_all_queries_or_the_next_start(
    running: tuple[Any, Any],
) -> None:
    session, handle = running
    session.query(COUNTS, name="counts")
    assert "counts" not in session.flow.declared.queries
    told: set[str] = set()
    session.foreach_batch(lambda frame, _: told.update(row["__query"] for row in frame.collect()))
    session.query("SELECT x FROM a [RANGE 5] WHERE x = 1", name="odd")
    push(session, handle, range(4, 8))
    assert told == {"first", "counts", "odd"}
    session.queries["odd"].drop()
    session.query("SELECT x FROM a [RANGE 5]", name="odd").drop()
    assert "odd" not in session.queries
