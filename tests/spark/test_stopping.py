"""A flow that is stopped in the middle of a step: no failure, and the step is done at the next start."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import penstock
from penstock.spark.handle import QUIET

TWO_STAGES = (
    "SELECT n, COUNT(*) AS m FROM (SELECT x, COUNT(*) AS n FROM a [RANGE 9] GROUP BY x) AS g GROUP BY n"
)


class Flow:
    """A sink that, given the value 2, runs a job of Spark's for as long as the file `hold` is there."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.hold, self.begun = folder / "hold", folder / "begun"
        self.got: dict[int, list[int]] = {}
        self.session = penstock.connect(spark, checkpoint=str(folder / "checkpoint"), cells=2)
        self.session.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
        self.session.query("SELECT x FROM a [RANGE 9]", name="q").foreach_batch(self.take)

    def take(self, frame: DataFrame, step: int) -> None:
        hold, begun = self.hold, self.begun

        def wait(row: object) -> None:
            while hold.exists():
                begun.touch()
                time.sleep(0.02)

        rows = [row["x"] for row in frame.collect()]
        if 2 in rows:
            frame.sparkSession.sparkContext.parallelize([step], 1).foreach(wait)
        self.got[step] = rows

    @property
    def rows(self) -> list[int]:
        return sorted(x for rows in self.got.values() for x in rows)


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize("behind", [False, True], ids=["alone", "while a step without rows waits"])
def test_stop_in_the_middle_of_a_step(behind: bool, spark: SparkSession, tmp_path: Path) -> None:
    flow = Flow(spark, tmp_path)
    if behind:
        flow.session.query(TWO_STAGES, name="staged")
    flow.hold.touch()
    handle = flow.session.start()
    flow.session.push("a", [{"ts": 1, "x": 1}, {"ts": 2, "x": 0}])
    wait_until(lambda: flow.rows == [1])
    flow.session.push("a", [{"ts": 3, "x": 2}, {"ts": 4, "x": 0}])
    wait_until(flow.begun.exists)
    if behind:
        time.sleep(QUIET + 1)
    handle.stop()
    assert handle.exception() is None
    assert handle.awaitTermination(60)
    assert flow.rows == [1]
    flow.hold.unlink()
    handle = flow.session.start()
    flow.session.push("a", [{"ts": 5, "x": 3}])
    handle.processAllAvailable()
    handle.stop()
    assert handle.exception() is None
    assert flow.rows == [0, 0, 1, 2]
