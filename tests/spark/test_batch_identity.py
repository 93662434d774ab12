"""A batch of Spark's is known by its offsets and files, not by its number alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.spark.batch_identity import Batch, describe
from tests.spark.test_sessions import Kept


def logged(root: Path, batch: int, *offsets: str) -> None:
    place = root / "offsets" / str(batch)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(
        "\n".join(["v1", json.dumps({"batchTimestampMs": batch}, separators=(",", ":")), *offsets])
    )


def entry(root: Path, number: str, files: dict[str, int]) -> None:
    """An entry of a file source's log: paths with the entries that they came with."""
    place = root / "sources" / "0" / number
    place.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"path": path, "batchId": n}, separators=(",", ":")) for path, n in files.items()]
    place.write_text("\n".join(["v1", *lines]))


def test_offsets_tell_batches_apart(tmp_path: Path) -> None:
    logged(tmp_path, 0, '{"t":{"0":5}}')
    logged(tmp_path, 1, '{"t":{"0":9}}')
    first, second = describe(tmp_path, 0), describe(tmp_path, 1)
    first.must_follow(Batch())
    second.must_follow(first)
    describe(tmp_path, 1).must_repeat(second)
    logged(tmp_path, 1, '{"t":{"0":10}}')
    other = describe(tmp_path, 1)
    with pytest.raises(penstock.StateError, match=r"batch 1 is not what it was: .* other offsets") as error:
        other.must_repeat(second)
    assert "restore the whole directory" in str(error.value.hint)
    logged(tmp_path, 2, '{"t":{"0":12}}')
    describe(tmp_path, 2).must_follow(other)
    with pytest.raises(penstock.StateError, match="does not begin where batch 1 ended"):
        describe(tmp_path, 2).must_follow(second)
    with pytest.raises(penstock.StateError, match="batch 2 comes after batch 0"):
        describe(tmp_path, 2).must_follow(first)
    with pytest.raises(penstock.StateError, match="offsets/3 is not there"):
        describe(tmp_path, 3)


def test_files_tell_batches_apart(tmp_path: Path) -> None:
    """The numbers in a file source's offsets say nothing of its files."""
    logged(tmp_path, 0, '{"logOffset":8}')
    logged(tmp_path, 1, '{"logOffset":9}')
    entry(tmp_path, "9.compact", {"/old": 8, "/x": 9, "/y": 9})
    made = describe(tmp_path, 1)
    entry(tmp_path, "9.compact", {"/other": 8, "/y": 9, "/x": 9})
    assert describe(tmp_path, 1) == made
    entry(tmp_path, "9", {"/x": 9, "/y": 9})
    assert describe(tmp_path, 1) == made
    entry(tmp_path, "9", {"/x": 9, "/z": 9})
    with pytest.raises(penstock.StateError, match=r"batch 1 is not what it was: .* other files"):
        describe(tmp_path, 1).must_repeat(made)


def test_offsets_that_go_back_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's last batch is removed, by hand or by a partial restore: new rows under its number must not pass for the old ones."""
    checkpoint = tmp_path / "checkpoint"
    kept = Kept()

    def run(rows: range) -> Any:
        session = penstock.connect(spark, checkpoint=str(checkpoint), cells=1)
        session.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
        session.query("SELECT x FROM a [RANGE 10]", name="q").foreach_batch(kept)
        session.push("a", [{"ts": x, "x": x} for x in rows])
        handle = session.start(trigger={"availableNow": True})
        try:
            handle.awaitTermination()
        finally:
            handle.stop()

    run(range(10))
    run(range(10, 20))
    shutil.copytree(checkpoint / "spark", tmp_path / "whole")
    for name in (
        "offsets/1",
        "offsets/.1.crc",
        "commits/1",
        "commits/.1.crc",
        "sources/0/1",
        "sources/0/.1.crc",
    ):
        (checkpoint / "spark" / name).unlink(missing_ok=True)
    for again in (range(20, 30), range(30, 40)):
        with pytest.raises(penstock.StateError, match=r"batch 1 is not what it was"):
            run(again)
    shutil.rmtree(checkpoint / "spark")
    shutil.copytree(tmp_path / "whole", checkpoint / "spark")
    run(range(40, 50))
    assert [row[0] for row in kept.rows(["x"])] == sorted(range(50), key=lambda x: repr((x,)))
