"""Where a checkpoint can be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import penstock
from penstock.spark.filesystem import Remote, located, remove_all, uri, whole
from tests.spark.test_rescale import BOUNDED
from tests.spark.test_sessions import Kept, declare, drawn, told


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


def test_on_a_file_system_that_is_not_mounted(spark: SparkSession, tmp_path: Path) -> None:
    """Every file goes through pyarrow; the flow is stopped, and goes on; cells change their number."""
    checkpoint = f"fsspec+file://{tmp_path}/checkpoint"
    here = penstock.connect()
    queries = declare(here, BOUNDED)
    kept = {name: Kept() for name in BOUNDED}
    for part, cells in enumerate((2, 2, 3)):
        there = penstock.connect(spark, checkpoint=checkpoint, cells=cells)
        assert isinstance(there.flow.store.root, Remote)
        for name, query in declare(there, BOUNDED).items():
            query.foreach_batch(kept[name])
        rows = drawn(part, 30, start=60 * part)
        for name in "ab":
            given = [r for r in rows[name] if r["ts"] >= 60 * part]
            here.push(name, given)
            there.push(name, given)
        handle = there.start(trigger={"availableNow": True}, flush=part == 2)
        handle.awaitTermination()
        handle.stop()
    here.advance(there.clock)
    for name, query in queries.items():
        expected = query.changes()
        assert kept[name].rows(expected.column_names) == told(expected), name
    assert there.late("a").count() == 0
    assert not list((tmp_path / "checkpoint" / "hosts").iterdir())
    assert not list((tmp_path / "checkpoint").rglob(".*.tmp"))


def test_remote_places_are_like_paths(tmp_path: Path) -> None:
    root = located(f"fsspec+file://{tmp_path}")
    place = root / "a" / "b.json"
    assert isinstance(place, Remote)
    assert (place.name, str(place.parent), uri(place)) == (
        "b.json",
        f"{root}/a",
        f"file://{tmp_path}/a/b.json",
    )
    assert not place.exists() and not list((root / "a").iterdir())
    with pytest.raises(FileNotFoundError):
        place.unlink()
    with whole(place, once=True) as file:
        file.write(b"first")
    with pytest.raises(FileExistsError), whole(place, once=True) as file:
        file.write(b"second")
    with pytest.raises(TypeError), whole(place) as file:
        file.write("no bytes")  # type: ignore[arg-type]
    assert place.read_bytes() == b"first"
    assert (
        [p.name for p in (root / "a").glob("*.json")]
        == ["b.json"]
        == [p.name for p in (root / "a").iterdir()]
    )
    assert cloudpickle.loads(cloudpickle.dumps(place)).read_bytes() == b"first"
    remove_all(root / "a")
    remove_all(root / "a")
    assert not (root / "a").is_dir()


@pytest.mark.parametrize("place", ["nowhere://host/a", "dbfs:/a", "hdfs://127.0.0.1:9/a"])
def test_what_cannot_be_opened_is_refused(quick: SparkSession, place: str) -> None:
    with pytest.raises(penstock.StateError, match="cannot be opened"):
        penstock.connect(quick, checkpoint=place, cells=2)
