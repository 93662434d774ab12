"""Batches without rows, first or later, of any source: a Spark as it comes leaves such a step's tasks out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import penstock
from tests.spark.test_sessions import Kept


@pytest.fixture
def default(spark: SparkSession) -> SparkSession:
    """Spark with adaptive execution, which is on by default."""
    made = spark.newSession()
    made.conf.set("spark.sql.adaptive.enabled", "true")
    return made


@pytest.mark.parametrize("cells", [1, 2])
@pytest.mark.parametrize("unread", [False, True])
def test_steps_whose_rows_are_all_filtered_out(
    default: SparkSession, tmp_path: Path, cells: int, unread: bool
) -> None:
    """The first, the third and the last batch have no row that is let through."""
    (tmp_path / "in").mkdir()
    (tmp_path / "other").mkdir()
    source = default.readStream.schema("ts BIGINT, x INT").parquet(str(tmp_path / "in")).where("x > 10")
    session = penstock.connect(default, checkpoint=str(tmp_path / "checkpoint"), cells=cells)
    session.create_stream("a", source, time="ts")
    if unread:  # Spark counts the rows of streams that no query reads
        other = default.readStream.schema("ts BIGINT, x INT").parquet(str(tmp_path / "other"))
        session.create_stream("b", other.where("x > 10"), time="ts")
    kept = Kept()
    session.query("SELECT x, COUNT(*) AS n FROM a [RANGE 4] GROUP BY x", name="q").foreach_batch(kept)
    handle = session.start(trigger={"processingTime": "0 seconds"})
    for number, x in enumerate((1, 11, 2, 11, 3)):
        rows = pa.table({"ts": pa.array([number], pa.int64()), "x": pa.array([x], pa.int32())})
        pq.write_table(rows, tmp_path / f"{number}.parquet")
        (tmp_path / f"{number}.parquet").rename(tmp_path / "in" / f"{number}.parquet")
        handle.processAllAvailable()
    handle.stop()
    session.start(trigger={"availableNow": True}).awaitTermination()
    assert kept.rows(["__op", "__ts", "x", "n"]) == [("+", 1, 11, 1), ("+", 3, 11, 2)]
    session.flow.close()


def test_a_rate_source_on_a_spark_as_it_comes(default: SparkSession, tmp_path: Path) -> None:
    """Its first batch is always empty."""
    session = penstock.connect(default, checkpoint=str(tmp_path / "checkpoint"), cells=2)
    source = default.readStream.format("rate").option("rowsPerSecond", 20).load()
    session.create_stream("r", source, time="timestamp")
    found: list[Any] = []
    query = session.query("SELECT value FROM r [RANGE INTERVAL 1 HOUR]", name="q")
    query.foreach_batch(lambda frame, _: found.extend(row["value"] for row in frame.collect()))
    handle = session.start(trigger={"processingTime": "0 seconds"})
    until = time.monotonic() + 120
    while len(found) < 60 and handle.isActive and time.monotonic() < until:
        time.sleep(0.1)
    error = handle.exception()
    handle.stop()
    assert error is None
    # The newest rows wait for the watermark, in no particular order of their values.
    assert sorted(found)[:20] == list(range(20))
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("zone", ["UTC", "America/Juneau", "Pacific/Kiritimati"])
def test_what_is_true_from_the_beginning_can_be_collected(
    default: SparkSession, tmp_path: Path, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A global aggregate has a row before any other; PySpark makes its time a local one."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        session = penstock.connect(default, checkpoint=str(tmp_path / "checkpoint"), cells=1)
        source = default.readStream.format("rate").option("rowsPerSecond", 20).load()
        session.create_stream("r", source, time="timestamp")
        found: list[Any] = []
        query = session.query("SELECT COUNT(*) AS n FROM r [RANGE 5 SECONDS]", name="q")
        query.foreach_batch(lambda frame, _: found.extend(frame.collect()))
        handle = session.start(trigger={"processingTime": "0 seconds"})
        until = time.monotonic() + 60
        while len(found) < 5 and handle.isActive and time.monotonic() < until:
            time.sleep(0.1)
        handle.stop()
        assert handle.exception() is None
        assert [row.n for row in found[:2]] == [0, 1]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_the_error_of_a_sink_is_what_the_flow_reports(quick: SparkSession, tmp_path: Path) -> None:
    session = penstock.connect(quick, checkpoint=str(tmp_path / "checkpoint"), cells=1)
    session.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")

    def refuse(frame: Any, step: int) -> None:
        raise ValueError("the sink is full")

    session.query("SELECT x FROM a [RANGE 5]", name="q").foreach_batch(refuse)
    session.push("a", [{"ts": 1, "x": 1}, {"ts": 9, "x": 1}])
    handle = session.start(trigger={"processingTime": "0 seconds"})
    with pytest.raises(penstock.StateError, match="the sink is full"):
        handle.awaitTermination(60)
    assert "the sink is full" in str(handle.exception())
    handle.stop()
