"""Names and checkpoint directories of any characters: files stay inside the checkpoint, and every row is answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import penstock

STREAMS = ["../../../escaped", "/abs", "..", "a=1", "_hidden", "[b]", "größe *?", "n" * 300]
QUERIES = ["..", "/together", "x", "x/view", "../up", "é" * 300]


def kept(found: dict[str, list[Any]], name: str) -> Any:
    return lambda frame, step: found.setdefault(name, []).extend(frame.collect())


def test_names_stay_inside_the_checkpoint(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "one" / "two" / "checkpoint"
    found: dict[str, list[Any]] = {}
    for ts in (10, 20):
        session = penstock.connect(spark, checkpoint=str(place), cells=1)
        for name in STREAMS:
            session.create_stream(name, {"ts": "BIGINT", "x": "INT"}, time="ts")
        union = " UNION ALL ".join(f"SELECT x FROM `{name}` [RANGE 100]" for name in STREAMS)
        for name in QUERIES:
            session.query(union, name=name).foreach_batch(kept(found, name))
            session.queries[name.lower()].foreach_batch(lambda frame, step: None, mode="view")
        session.foreach_batch(kept(found, "all"))
        for number, name in enumerate(STREAMS):
            session.push(name, [{"ts": ts, "x": number}, {"ts": ts - 15, "x": -1}])
        handle = session.start(trigger={"availableNow": True})
        handle.awaitTermination()
        handle.stop()
    for name in QUERIES:
        answered = sorted(row["x"] for row in found[name] if row["__op"] == "+")
        assert answered == sorted([*range(len(STREAMS))] * 2 + [-1] * len(STREAMS)), name
    assert len(found["all"]) == sum(len(found[name]) for name in QUERIES)
    for name in STREAMS:
        assert [row["x"] for row in session.late(name).collect()] == [-1], name
    assert [entry.name for entry in tmp_path.iterdir()] == ["one"]
    assert [entry.name for entry in (tmp_path / "one").iterdir()] == ["two"]
    assert [entry.name for entry in (tmp_path / "one" / "two").iterdir()] == ["checkpoint"]


@pytest.mark.parametrize("folder", ["[b]", "{b,c}", "a\\b", "*", "a?c", "x=1", "a b%20c", "é#+"])
def test_checkpoint_directories_of_any_name(spark: SparkSession, tmp_path: Path, folder: str) -> None:
    """A query in two stages, so that results go through files of the checkpoint, too."""
    found: dict[str, list[Any]] = {}
    (tmp_path / "b").mkdir()  # what a pattern could mean
    place = tmp_path / folder / "checkpoint"
    for ts in (10, 20):
        session = penstock.connect(spark, checkpoint=str(place), cells=2)
        session.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
        session.query("SELECT x FROM a [RANGE 5]", name="plain").foreach_batch(kept(found, "plain"))
        counted = "SELECT n, COUNT(*) AS m FROM (SELECT x, COUNT(*) AS n FROM a [RANGE 5] GROUP BY x) AS g GROUP BY n"
        session.query(counted, name="counted").foreach_batch(kept(found, "counted"))
        session.push("a", [{"ts": ts + i // 5, "x": i} for i in range(10)])
        handle = session.start(trigger={"availableNow": True})
        handle.awaitTermination()
        handle.stop()
    assert sorted(row["x"] for row in found["plain"]) == sorted([*range(10)] * 2)
    assert max(row["m"] for row in found["counted"]) == 10
