"""Two drivers on one checkpoint: the one that started last goes on, the other stops, and no row is lost."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.errors import DataError, StateError
from penstock.spark import handle
from penstock.spark.checkpoint import Store
from penstock.spark.fencing import KEPT, claim, must_hold
from penstock.spark.partition import Cell
from tests.spark.test_partition import NUMBER, Driver
from tests.spark.test_sessions import Kept, drawn


def test_the_last_claim_holds(tmp_path: Path) -> None:
    epochs = [claim(tmp_path) for _ in range(KEPT + 4)]
    assert epochs == sorted(epochs)
    must_hold(tmp_path, epochs[-1])
    for epoch in ("", *epochs[:-1]):
        with pytest.raises(StateError, match="another driver has taken over the checkpoint"):
            must_hold(tmp_path, epoch)
    assert len(list((tmp_path / "epochs").iterdir())) == KEPT + 1


def test_a_step_is_written_once(tmp_path: Path) -> None:
    """A driver of an earlier epoch does not replace a step; what it wrote after the claim counts for nothing."""
    store = Store(tmp_path)
    old, new = claim(tmp_path), claim(tmp_path)
    store.decide({"step": 1, "epoch": new, "batch": 7})
    store.decide({"step": 1, "epoch": old, "batch": 8})
    assert store.get("steps", 1)["batch"] == 7
    store.decide({"step": 2, "epoch": old, "batch": 8})
    store.decide({"step": 2, "epoch": new, "batch": 9})
    assert store.get("steps", 2) == {"step": 2, "epoch": new, "batch": 9}


def test_cells_refuse_requests_and_logs_of_another_epoch(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.epoch = driver.run = claim(tmp_path)
    cell = Cell(driver.store, 0, NUMBER, {})
    given = driver.routed({n: p[:10] for n, p in drawn(2, 10).items()})[0]
    nothing = driver.routed({})[0]
    first = driver.header(flush=False)
    answer = cell.step(first, given)
    driver.note([answer])
    second = driver.header(flush=False)
    taken = claim(tmp_path)
    with pytest.raises(StateError, match="another driver has taken over"):
        cell.step(second, given)
    assert driver.store.logs(0) == [1]
    # The new driver goes on with a step of the old one, but not with another step that the old one logged under its number.
    again = Cell(driver.store, 0, NUMBER, {}).step({**first, "run": taken}, nothing)
    assert again["rows"] == answer["rows"] != {}
    with pytest.raises(StateError, match="step 1 was logged in epoch"):
        Cell(driver.store, 0, NUMBER, {}).step({**first, "run": taken, "epoch": taken}, nothing)


def test_an_old_driver_takes_a_step_after_the_new_one_has_connected(
    spark: SparkSession, tmp_path: Path
) -> None:
    kept = Kept()

    def connected() -> Any:
        session = penstock.connect(spark, checkpoint=str(tmp_path / "checkpoint"), cells=1)
        session.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
        session.query("SELECT x FROM a [RANGE 10]", name="q").foreach_batch(kept)
        return session

    def run(session: Any, rows: range) -> None:
        session.push("a", [{"ts": x, "x": x} for x in rows])
        handle = session.start(trigger={"availableNow": True})
        handle.awaitTermination()

    old = connected()
    run(old, range(10))
    new = connected()
    old.flow.flush()  # a step without rows
    run(new, range(10, 20))
    with pytest.raises(StateError, match="another driver has taken over the checkpoint"):
        old.flow.flush()
    run(new, range(20, 30))
    assert [row[0] for row in kept.rows(["x"])] == sorted(range(30), key=lambda x: repr((x,)))
    for session in (old, new):
        session.flow.close()


def test_a_driver_without_rows_notices_that_another_has_taken_over(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handle, "CLAIM_CHECK", 0.2)

    def connected() -> Any:
        session = penstock.connect(spark, checkpoint=str(tmp_path / "checkpoint"), cells=1)
        session.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
        session.query("SELECT x FROM a [RANGE 10]", name="q")
        return session

    idle = connected().start(trigger={"processingTime": "1 second"})
    newer = connected()
    newer.flow.epoch = claim(newer.flow.store.root)
    with pytest.raises(StateError, match="another driver has taken over the checkpoint"):
        idle.awaitTermination(60)
    assert not idle.isActive
    newer.flow.close()


def test_a_step_that_fails_under_a_driver_that_was_replaced_says_so(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Two drivers that write the same step may make each other fail; which of them is to stop must be clear."""
    session = penstock.connect(spark, checkpoint=str(tmp_path / "checkpoint"), cells=1)
    session.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")

    def fail(*_: Any) -> None:
        claim(session.flow.store.root)
        raise FileNotFoundError("the other driver has removed it")

    session.query("SELECT x FROM a [RANGE 10]", name="q").foreach_batch(fail)
    session.push("a", [{"ts": x, "x": x} for x in range(10)])
    handle = session.start(trigger={"availableNow": True})
    with pytest.raises(StateError, match="another driver has taken over the checkpoint"):
        handle.awaitTermination()


def test_the_error_of_a_step_is_reported_and_not_that_it_is_undone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a step runs, another thread waits to take the next one; it finds the step undone before Spark has its error."""
    monkeypatch.setattr(handle, "QUIET", 0.1)
    session = penstock.connect(spark, checkpoint=str(tmp_path / "checkpoint"), cells=2)
    session.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
    armed, settling = threading.Event(), threading.Event()
    settle = session.flow.settle

    def settled() -> None:
        settling.set()
        settle()

    def fail(*_: Any) -> None:
        if not armed.is_set():
            return
        assert settling.wait(60)
        time.sleep(0.5)  # until it waits for the lock
        raise DataError("the sink is full")

    monkeypatch.setattr(session.flow, "settle", settled)
    session.query("SELECT x FROM a [RANGE 10]", name="q").foreach_batch(fail)
    running = session.start(trigger={"processingTime": "0 seconds"})
    session.push("a", [{"ts": x, "x": x} for x in range(10)])
    running.processAllAvailable()
    settling.clear()
    armed.set()
    session.push("a", [{"ts": x, "x": x} for x in range(10, 20)])
    with pytest.raises(DataError, match="the sink is full"):
        running.awaitTermination(120)
    running.stop()


def test_a_driver_whose_tables_are_outdated_never_starts(spark: SparkSession, tmp_path: Path) -> None:
    """It may hold updates that the other driver has applied: a second try must not apply them again."""
    kept = Kept()

    def connected() -> Any:
        session = penstock.connect(spark, checkpoint=str(tmp_path / "checkpoint"), cells=1)
        session.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
        session.create_table("t", {"x": "INT", "name": "STRING"})
        session.query("SELECT a.x, t.name FROM a [RANGE 10], t WHERE a.x = t.x", name="q").foreach_batch(kept)
        return session

    def run(session: Any, ts: int) -> None:
        session.push("a", [{"ts": ts, "x": 1}])
        session.start(trigger={"availableNow": True}).awaitTermination()

    first = connected()
    run(first, 1)
    first.update_table("t", insert=[{"x": 1, "name": "one"}])
    second = connected()  # has seen the update, which no step holds yet
    run(first, 2)
    for _ in range(2):
        with pytest.raises(StateError, match="another driver has updated tables"):
            second.start(trigger={"availableNow": True})
    third = connected()
    run(third, 20)
    assert kept.rows(["__ts", "name"]) == [(2, "one"), (20, "one")]
    for session in (first, second, third):
        session.flow.close()
