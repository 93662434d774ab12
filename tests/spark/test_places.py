"""Where a checkpoint can be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import penstock


@pytest.fixture
def elsewhere(spark: SparkSession) -> Iterator[SparkSession]:
    """A Spark whose paths mean another file system unless they say so, as on a cluster with HDFS; nobody answers there."""
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    before = settings.get("fs.defaultFS")
    settings.set("fs.defaultFS", "hdfs://127.0.0.1:9/")
    yield spark
    settings.set("fs.defaultFS", before)


def test_on_a_mounted_file_system_that_is_not_the_default(elsewhere: SparkSession, tmp_path: Path) -> None:
    session = penstock.connect(elsewhere, checkpoint=str(tmp_path / "a b"), cells=2)
    session.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
    kept: list[Any] = []
    query = session.query("SELECT x, COUNT(*) AS n FROM a [RANGE 10] GROUP BY x", name="counted")
    query.foreach_batch(lambda frame, _: kept.extend(frame.toArrow().to_pylist()))
    session.push("a", [{"ts": 5, "x": 1}, {"ts": 6, "x": 1}])
    handle = session.start(trigger={"availableNow": True})
    handle.awaitTermination()
    handle.stop()
    assert [(row["__ts"], row["n"]) for row in sorted(kept, key=str)][-1] == (6, 2)
    assert session.late("a").count() == 0


@pytest.mark.parametrize("place", ["hdfs://host/a", "s3a://bucket/a", "dbfs:/a"])
def test_what_is_not_mounted_is_refused(place: str) -> None:
    with pytest.raises(penstock.StateError, match="is not a directory that processes can open"):
        penstock.connect(object(), checkpoint=place, cells=2)
