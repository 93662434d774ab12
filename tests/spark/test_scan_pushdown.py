"""Spark leaves out what no query can use, and nobody can tell."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.spark import driver, parquet_reader
from penstock.spark.checkpoint import Store, read_segment
from tests.spark.test_sessions import A, Kept, told

SELECTIVE = {
    "one": "SELECT x FROM a [RANGE 10] WHERE y = 3",
    "some": "SELECT DISTINCT y FROM a [RANGE 9] WHERE y IN (0, 1) AND x * 2 > 3",
    "none": "SELECT y FROM a WHERE NOT (y < 4 OR x IS NULL) OR y <= -1",
}


@pytest.mark.parametrize("by_cells", [True, False])
def test_rows_and_columns_left_out(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_cells: bool
) -> None:
    """Whether cells read the files that rows wait in, or Spark does."""
    monkeypatch.setattr(driver, "THIN", 0)
    monkeypatch.setattr(parquet_reader, "MOST_CELLS", 8 if by_cells else 0)
    rng = random.Random(5)
    rows = [
        {"ts": i - rng.randrange(25), "x": rng.choice([1, 2, None]), "y": rng.choice([0, 2, 2, 2, 2, 3, 4]), "s": rng.choice("pq")}
        for i in range(200)
    ]  # fmt: skip
    rows.append({"ts": 260, "x": 1, "y": 2, "s": "t"})  # of no use, but time passes
    here = penstock.connect()
    there = penstock.connect(spark, checkpoint=str(tmp_path), cells=2)
    for session in (here, there):
        session.execute(A)
    kept = {name: Kept() for name in SELECTIVE}
    queries = {name: here.query(text, name=name) for name, text in SELECTIVE.items()}
    for name, text in SELECTIVE.items():
        there.query(text, name=name).foreach_batch(kept[name])
    late: list[dict[str, Any]] = []
    for begin, end in ((0, 70), (70, 140), (140, 201)):
        reached = max((row["ts"] for row in rows[:begin]), default=-100) - 5
        late += [row for row in rows[begin:end] if row["ts"] < reached]
        in_time = [row for row in rows[begin:end] if row["ts"] >= reached]
        here.push("a", sorted(in_time, key=lambda row: row["ts"]))
        there.push("a", rows[begin:end])
        handle = there.start(trigger={"availableNow": True}, flush=False)
        handle.awaitTermination()
        handle.stop()
    assert there.clock == here.clock == 260 - 6
    assert sum(p["numInputRows"] for p in handle.recentProgress) == len(rows)
    for name, query in queries.items():
        expected = query.changes()
        assert expected.num_rows > 3
        assert kept[name].rows(expected.column_names) == told(expected), name
    assert len(late) > 2
    assert told(there.late("a").toArrow()) == sorted((tuple(row.values()) for row in late), key=repr)
    store = Store(tmp_path)
    logged = [
        read_segment(store.log(cell, step))[1]["rows"] for cell in range(2) for step in store.logs(cell)
    ]
    assert sum(t.num_rows for t in logged) < 0.6 * 2 * len(rows), "two inputs, and most rows did not travel"
    assert any("c2" in t.column_names and "c3" not in t.column_names for t in logged), "nor does s"


def test_rows_are_counted_in_the_order_of_their_whole_content(spark: SparkSession, tmp_path: Path) -> None:
    """Which of two rows at one time is the last one cannot hang on what other queries read."""
    rows = [{"ts": 5, "x": 1, "y": 9, "s": "p"}, {"ts": 5, "x": 2, "y": 3, "s": "p"}, {"ts": 20, "x": 0, "y": 0, "s": "p"}]  # fmt: skip
    said = []
    for others in ([], ["SELECT x FROM a [RANGE 1]"]):
        session = penstock.connect(spark, checkpoint=str(tmp_path / str(len(others))), cells=2)
        session.execute(A)
        kept = Kept()
        session.query("SELECT y FROM a [ROWS 1]", name="last").foreach_batch(kept)
        for text in others:
            session.query(text)
        session.push("a", rows)
        handle = session.start(trigger={"availableNow": True})
        handle.awaitTermination()
        handle.stop()
        said.append(kept.rows(["__op", "__ts", "y"]))
    assert said[0] == said[1] == [("+", 20, 0), ("+", 5, 3), ("-", 20, 3)]
