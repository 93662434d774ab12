"""Clocks of machines that jump lose no rows: what is pushed counts, whenever its file says it was made."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock

DAY = 86_400


@pytest.mark.parametrize("ahead", [30 * DAY, -3000 * DAY])
def test_rows_pushed_while_a_clock_was_wrong(ahead: int, spark: SparkSession, tmp_path: Path) -> None:
    session = penstock.connect(spark, checkpoint=str(tmp_path / "checkpoint"), cells=1)
    session.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
    got: list[int] = []
    query = session.query("SELECT x FROM a [RANGE 100]", name="q")
    query.foreach_batch(lambda frame, step: got.extend(row["x"] for row in frame.collect()))
    for i in range(3):
        before = set((tmp_path / "checkpoint/pushed/a").glob("*.parquet"))
        session.push("a", [{"ts": i, "x": i}])
        (made,) = set((tmp_path / "checkpoint/pushed/a").glob("*.parquet")) - before
        at = time.time() + (ahead if i == 1 else 0)
        os.utime(made, (at, at))
        session.start(trigger={"availableNow": True}, flush=False).awaitTermination()
    session.push("a", [{"ts": 50, "x": 50}])
    session.start(trigger={"availableNow": True}).awaitTermination()
    assert got == [0, 1, 2, 50]
