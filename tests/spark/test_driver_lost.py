"""The driver is lost between two of its writes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import penstock
from tests.spark.test_sessions import Kept, drawn, told

DECLARED = "CREATE STREAM a (ts BIGINT, x INT, y INT, s STRING) WATERMARK ts DELAY OF INTERVAL 5"
QUERY = "SELECT x, SUM(y) AS t, COUNT(*) AS n FROM a [RANGE 20] GROUP BY x"


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path) -> Callable[..., Any]:
    """What has come, through a driver that begins anew; what it gives to a sink."""

    def run(rows: list[dict[str, Any]], sink: Callable[[Any, int], None], *, flush: bool = False) -> None:
        session = penstock.connect(spark, checkpoint=str(tmp_path), cells=2)
        session.execute(DECLARED)
        session.query(QUERY, name="sums").foreach_batch(sink)
        if rows:
            session.push("a", rows)
        handle = session.start(trigger={"availableNow": True}, flush=flush)
        try:
            handle.awaitTermination()
        finally:
            handle.stop()

    return run


def expected(rows: list[dict[str, Any]]) -> Any:
    session = penstock.connect()
    session.execute(DECLARED)
    query = session.query(QUERY, name="sums")
    session.push("a", rows)
    session.advance(rows[-1]["ts"])
    return query.changes()


def test_in_the_sinks_of_a_step_without_rows(run: Callable[..., Any], tmp_path: Path) -> None:
    """Spark does not ask for it again: the flow itself must."""
    rows, kept = drawn(5, 40)["a"], Kept()

    def failing(frame: Any, step: int) -> None:
        if step == 2:
            raise OSError("the sink is full")
        kept(frame, step)

    with pytest.raises(penstock.PenstockError, match="the sink is full"):
        run(rows[:30], failing)
    run(rows[30:], kept, flush=True)
    whole = expected(rows)
    assert 2 in kept.steps
    assert kept.rows(whole.column_names) == told(whole)


def test_a_step_without_rows_fails_while_rows_come(spark: SparkSession, tmp_path: Path) -> None:
    """What comes after it must not be worked on before it is done: cells would lack it for good."""
    rows, kept = drawn(5, 40)["a"], Kept()
    full = threading.Event()

    def failing(frame: Any, step: int) -> None:
        if step == 2 and not full.is_set():
            full.set()
            raise OSError("the sink is full")
        kept(frame, step)

    session = penstock.connect(spark, checkpoint=str(tmp_path), cells=2)
    session.execute(DECLARED)
    session.query(QUERY, name="sums").foreach_batch(failing)
    session.push("a", rows[:30])
    handle = session.start(trigger={"processingTime": "0 seconds"})
    assert full.wait(60)
    session.push("a", rows[30:])
    with pytest.raises(penstock.PenstockError, match="the sink is full"):
        handle.awaitTermination(60)
    assert handle.status["message"] == "Stopped"
    with pytest.raises(penstock.PenstockError, match="step 2 has not been done"):
        session.flow.flush()
    handle = session.start(trigger={"availableNow": True}, flush=True)
    handle.awaitTermination()
    handle.stop()
    whole = expected(rows)
    assert 2 in kept.steps
    assert kept.rows(whole.column_names) == told(whole)


def test_before_spark_notes_a_batch_that_is_done(run: Callable[..., Any], tmp_path: Path) -> None:
    """A step without rows may have followed by then; Spark asks for the batch again."""
    rows, kept = drawn(6, 40)["a"], Kept()
    run(rows[:30], kept)
    commits = sorted((tmp_path / "spark" / "commits").glob("[0-9]*"))
    assert len(commits) == 1 and max(kept.steps) == 2
    for file in (commits[0], commits[0].with_name(f".{commits[0].name}.crc")):
        file.unlink(missing_ok=True)
    run(rows[30:], kept, flush=True)
    whole = expected(rows)
    assert kept.rows(whole.column_names) == told(whole)
