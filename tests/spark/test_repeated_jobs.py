"""Python workers of Spark's that die: where Spark does not repeat tasks, the job is run again, a few times."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import penstock
from penstock.errors import StateError
from penstock.spark.tasks import ATTEMPTS, run_again_if_worker_died


def dying(times: int, counted: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Passes rows on; the worker is killed on the way so many times."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.slice(0, 1)
            with counted.open("a") as file:
                file.write("x")
            if counted.stat().st_size <= times:
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch.slice(1)

    return pass_on


def test_a_sink_whose_python_worker_dies(spark: SparkSession, tmp_path: Path) -> None:
    session = penstock.connect(spark, checkpoint=str(tmp_path / "checkpoint"), cells=1)
    session.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
    got: dict[int, list[int]] = {}

    def take(frame: DataFrame, step: int) -> None:
        whole = frame.mapInArrow(dying(1, tmp_path / "counted"), frame.schema)
        got[step] = [row["x"] for row in whole.collect()]

    session.query("SELECT x FROM a [RANGE 10]", name="q").foreach_batch(take)
    session.push("a", [{"ts": x, "x": x} for x in range(10)])
    session.start(trigger={"availableNow": True}).awaitTermination()
    assert sorted(x for part in got.values() for x in part) == list(range(10))
    assert (tmp_path / "counted").stat().st_size > 1


def test_a_job_whose_python_workers_die_again_and_again(spark: SparkSession, tmp_path: Path) -> None:
    counted = tmp_path / "counted"
    frame = spark.range(0, 10, 1, 1).mapInArrow(dying(100, counted), "id BIGINT")
    with pytest.raises(StateError, match="step 7 cannot be completed: Python workers of Spark's die again"):
        run_again_if_worker_died(spark, "step 7", frame.collect)
    assert counted.stat().st_size == ATTEMPTS


def test_a_job_that_fails_otherwise_is_not_run_again(spark: SparkSession, tmp_path: Path) -> None:
    counted = tmp_path / "counted"

    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with counted.open("a") as file:
            file.write("x")
        raise ValueError("a mistake")
        yield from batches

    frame = spark.range(0, 10, 1, 1).mapInArrow(fail, "id BIGINT")
    with pytest.raises(Exception, match="a mistake"):
        run_again_if_worker_died(spark, "step 7", frame.collect)
    assert counted.stat().st_size == 1
