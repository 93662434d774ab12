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

from .test_sessions import Kept


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
