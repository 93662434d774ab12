"""Queries whose plans are cut: what their parts above say on Spark is what one engine says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import penstock
from tests.spark.test_sessions import A, B, Kept, drawn, told

TABLE = "CREATE RETROACTIVE TABLE t (x BIGINT, w INT);"
COUNTS = "(SELECT x, COUNT(*) AS n FROM a [RANGE 20] GROUP BY x) AS g"
QUERIES = {
    "sizes": f"SELECT n, COUNT(*) AS m FROM {COUNTS} GROUP BY n",
    "met": f"SELECT g.n, COUNT(*) AS m FROM {COUNTS}, b [RANGE 10] WHERE g.n = b.x GROUP BY g.n",
    "known": f"SELECT t.w, COUNT(*) AS m FROM {COUNTS}, t WHERE g.n = t.x GROUP BY t.w",
}
WEIGHTS = [{"x": n, "w": n % 2} for n in range(1, 9)]


class Pair:
    """A session here and one on Spark that are told the same."""

    def __init__(self, spark: SparkSession, checkpoint: Path, cells: int) -> None:
        self.here = penstock.connect()
        self.there = penstock.connect(spark, checkpoint=str(checkpoint), cells=cells)
        self.kept: dict[str, Kept] = {}
        self.expected: dict[str, list[pa.Table]] = {}
        self.handle: Any = None
        for session in (self.here, self.there):
            session.execute(f"{A} {B} {TABLE}")

    def register(self, name: str) -> None:
        self.here.query(QUERIES[name], name=name)
        self.there.query(QUERIES[name], name=name).foreach_batch(self.kept.setdefault(name, Kept()))

    def drop(self, name: str) -> None:
        self.expected.setdefault(name, []).append(self.here.queries[name].changes())
        for session in (self.here, self.there):
            session.drop(name)

    def feed(self, part: int, streams: str = "ab") -> None:
        """Rows from 60 × part on, later than all before."""
        rows = drawn(part, 30, start=60 * part)
        for name in streams:
            for session in (self.here, self.there):
                session.push(name, [r for r in rows[name] if r["ts"] >= 60 * part])
        if self.handle is None:
            self.handle = self.there.start(trigger={"processingTime": "0 seconds"})
        self.handle.processAllAvailable()

    def end(self) -> None:
        """All that has come is applied, and no more comes."""
        self.there.flow.flush()
        self.here.advance(self.there.clock)
        self.handle.stop()
        for name, kept in self.kept.items():
            expected = pa.concat_tables([*self.expected.get(name, []), self.here.queries[name].changes()])
            assert expected.num_rows > 10, name
            assert kept.rows(expected.column_names) == told(expected), name


def test_parts_above_read_streams_and_tables_too(spark: SparkSession, tmp_path: Path) -> None:
    pair = Pair(spark, tmp_path, 4)
    for session in (pair.here, pair.there):
        session.update_table("t", insert=[{"x": n, "w": n % 2} for n in range(1, 9)], at=3)
    for name in QUERIES:
        pair.register(name)
    assert pair.there.explain().count("stage 2") == len(QUERIES)
    pair.feed(0)
    for session in (pair.here, pair.there):
        session.update_table("t", delete=[{"x": 2, "w": 0}], insert=[{"x": 2, "w": 7}], at=75)
    pair.feed(1)
    pair.end()


def test_a_cut_query_of_the_same_name_begins_anew(spark: SparkSession, tmp_path: Path) -> None:
    """What the dropped one said last is not for the new one; a table that it reads first is there whole."""
    pair = Pair(spark, tmp_path, 4)
    for session in (pair.here, pair.there):
        session.update_table("t", insert=[{"x": n, "w": n % 2} for n in range(1, 9)], at=3)
    pair.register("sizes")
    pair.feed(0)
    pair.drop("sizes")
    pair.here.advance(59)  # where queries begin that are registered now
    for name in QUERIES:
        pair.register(name)
    pair.feed(1)
    pair.end()


def test_a_stream_that_nobody_read_before(spark: SparkSession, tmp_path: Path) -> None:
    """A query begins when no row of its streams has been passed over, however far ahead of the others those are."""
    there = penstock.connect(spark, checkpoint=str(tmp_path), cells=2)
    there.execute(A + B)
    there.query("SELECT x FROM a [RANGE 10]", name="read")
    there.push("a", [{"ts": 1, "x": 1, "y": 1, "s": "p"}])
    there.push("b", [{"ts": 50, "x": 1, "d": 1.0}])
    handle = there.start(trigger={"processingTime": "0 seconds"})
    handle.processAllAvailable()
    assert handle.lastProgress["numInputRows"] >= 0
    kept = Kept()
    there.query("SELECT x FROM b [RANGE 10]", name="later").foreach_batch(kept)
    there.push("b", [{"ts": 50, "x": 2, "d": 1.0}, {"ts": 51, "x": 3, "d": 1.0}])
    handle.processAllAvailable()
    there.flow.flush()
    handle.stop()
    assert [row[1:] for row in kept.rows(["__op", "__ts", "x"])] == [(51, 3)]
