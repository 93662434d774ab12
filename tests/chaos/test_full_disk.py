"""A checkpoint on a disk that is really full: the flow stops with an error, and goes on without loss once there is room."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import penstock
from tests.chaos.small_disk import SmallDisk
from tests.spark.conftest import spark  # noqa: F401 - a fixture


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with SmallDisk(tmp_path / "checkpoint", 24) as made:
        if not made.mounted:
            pytest.skip("to mount a small disk, tests must run as root")
        yield made


def rows(first: int) -> list[dict[str, int]]:
    return [{"ts": i, "x": i} for i in range(first, first + 100)]


def test_a_flow_on_a_full_disk(disk: SmallDisk, spark: SparkSession, tmp_path: Path) -> None:  # noqa: F811
    got: dict[int, list[int]] = {}

    def connect() -> penstock.Session:
        session = penstock.connect(spark, checkpoint=str(disk.place), cells=2)
        session.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
        query = session.query("SELECT x FROM a [RANGE 10]", name="q")
        query.foreach_batch(lambda frame, step: got.update({step: [r["x"] for r in frame.collect()]}))
        return session

    session = connect()
    session.push("a", rows(0))
    session.start(trigger={"availableNow": True}, flush=False).awaitTermination()
    session.push("a", rows(100))
    disk.fill()
    with pytest.raises((penstock.PenstockError, OSError), match="No space left"):
        session.push("a", rows(200))
    with pytest.raises(penstock.PenstockError, match="No space left"):
        session.start(trigger={"availableNow": True}, flush=False).awaitTermination()
    disk.free()
    session = connect()
    session.push("a", rows(200))
    session.start(trigger={"availableNow": True}).awaitTermination()
    assert sorted(x for part in got.values() for x in part) == list(range(300))


LIMITED = """
import resource, sys
import penstock
from penstock.errors import StateError
from penstock.spark.checkpoint import Store, read_json, write_json
store = Store(sys.argv[1])
store.open(1)
store.put("steps", 1, {"step": 1})
resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))
try:
    store.put("steps", 1, {"step": 2, "long": "x" * 1000})
except StateError as error:
    print(error.__cause__.errno)
print(store.get("steps", 1))
"""


def test_a_file_that_cannot_grow_leaves_the_one_before(tmp_path: Path) -> None:
    """A limit of the kernel's on file sizes needs no rights: half a file is written, then no more."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path)], capture_output=True, text=True, check=True
    )
    number, kept = done.stdout.splitlines()
    assert os.strerror(int(number)) == "File too large"
    assert kept == "{'step': 1}"
    assert [p.name for p in (tmp_path / "steps").iterdir()] == ["000000000001.json"]
