"""What is run on a Spark with Delta; see test_delta.py."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from scripts import delta
from scripts.maven import pyspark

import penstock
from penstock.spark.local import local_spark
from penstock.spark.sinks import formats
from tests.spark.test_sessions import A, drawn, told

QUERIES = {
    "picked": "SELECT x, s FROM a [RANGE 10] WHERE y > 2",
    "sums": "SELECT x, SUM(y) AS t, MAX(s) AS m FROM a [RANGE 20] GROUP BY x",
}
"""Changes that end as announced, and others."""
ROWS = drawn(3, 40)["a"]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Skips if no Delta is made for this Spark, and the newest one does not fit it."""
    home = tmp_path_factory.mktemp("delta")
    # Most of the time goes into code that runs once; Delta's default are fifty tasks for every look at a table.
    settings = {
        "spark.databricks.delta.snapshotPartitions": 1,
        "spark.sql.warehouse.dir": home / "warehouse",
    }
    told = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    quick = ["--driver-java-options", "-XX:TieredStopAtLevel=1 -Xss16m"]
    os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join([*delta.arguments(), *told, *quick, "pyspark-shell"])
    made = local_spark("local[2]", "penstock delta tests")
    reason = delta.misfit(made, home / "tried")
    if reason is not None:
        made.stop()
        if pyspark().startswith(delta.SPARKS):
            pytest.fail(reason)
        pytest.skip(reason)
    yield made
    made.stop()


def session(spark: SparkSession, checkpoint: Path) -> Any:
    made = penstock.connect(spark, checkpoint=str(checkpoint), cells=2)
    made.execute(A)
    return made


def run(session: Any, **how: Any) -> None:
    handle = session.start(trigger={"availableNow": True}, **how)
    try:
        handle.awaitTermination()
    finally:
        handle.stop()


def embedded(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The queries after these rows, where nothing can be lost."""
    here = penstock.connect()
    here.execute(A)
    queries = {name: here.query(text, name=name) for name, text in QUERIES.items()}
    here.push("a", rows)
    here.advance(rows[-1]["ts"])
    return queries


def table(spark: SparkSession, path: Path) -> Any:
    return told(spark.read.format("delta").load(str(path)).toArrow())


def versions(path: Path) -> int:
    return len(list((path / "_delta_log").glob("*.json")))


def test_changes_and_answers_through_a_crash(spark: SparkSession, tmp_path: Path) -> None:
    """A sink behind Delta's fails: Spark asks for the batch again, and the flow gives the step again."""
    spark.sql("CREATE TABLE kept (__op STRING, __ts BIGINT, __exp BIGINT, x INT, s STRING) USING delta")
    seen: list[tuple[int, int]] = []

    def fails_at_first(_: Any, step: int) -> None:
        seen.append((step, versions(tmp_path / "sums")))
        if len(seen) == 1:
            raise OSError("no room")

    for attempt in range(2):
        there = session(spark, tmp_path / "checkpoint")
        there.query(QUERIES["picked"], name="picked").to_table("kept")
        query = there.query(QUERIES["sums"], name="sums").write("delta", str(tmp_path / "sums"))
        query.foreach_batch(fails_at_first).write("delta", str(tmp_path / "now"), mode="view")
        there.write("delta", str(tmp_path / "all"))
        if attempt == 0:
            there.push("a", ROWS[:25])
            with pytest.raises(penstock.StateError, match="no room"):
                run(there)
        else:
            there.push("a", ROWS[25:])
            run(there)
    assert seen[0] == seen[1] == (1, 1), "the step was repeated, and left out"
    queries = embedded(ROWS)
    changes, answer = queries["sums"].changes(), queries["sums"].snapshot()
    assert changes.num_rows > 50 and answer.num_rows > 2
    assert table(spark, tmp_path / "sums") == told(changes)
    assert table(spark, tmp_path / "now") == told(answer)
    together = spark.read.format("delta").load(str(tmp_path / "all")).where("__query = 'sums'")
    assert told(together.select(*changes.column_names).toArrow()) == told(changes)
    assert told(spark.table("kept").toArrow()) == told(queries["picked"].changes())


def test_flows_share_a_table(spark: SparkSession, tmp_path: Path) -> None:
    """Steps have the same numbers everywhere; Delta is told whose they are."""
    frame = spark.createDataFrame(
        [("+", 1, 11, 7, "p")], "__op STRING, __ts BIGINT, __exp BIGINT, x INT, s STRING"
    )
    for checkpoint in ("one", "two", "one"):
        there = session(spark, tmp_path / checkpoint)
        there.query(QUERIES["picked"], name="picked")
        formats.writer(there.flow, "picked", "delta", str(tmp_path / "out"), False, {})(frame, 5)
    assert table(spark, tmp_path / "out") == [("+", 1, 11, 7, "p")] * 2


def test_streams_and_tables_from_delta(spark: SparkSession, tmp_path: Path) -> None:
    """What Delta has more columns of, and in another order, is taken by name."""
    query = "SELECT a.ts, a.x, n.name FROM a [RANGE 20], names AS n WHERE a.x = n.x"
    names = [{"x": x, "name": f"n{x}"} for x in (1, 2, 4)]
    stored = "name STRING, more DOUBLE, x INT"
    frame = spark.createDataFrame([(row["name"], 0.5, row["x"]) for row in names], stored)
    frame.write.format("delta").save(str(tmp_path / "names"))
    columns = "s STRING, y INT, x INT, more DOUBLE, ts BIGINT"
    for part in (ROWS[:25], ROWS[25:]):  # in two runs
        rows = [(row["s"], row["y"], row["x"], 0.5, row["ts"]) for row in part]
        appended = spark.createDataFrame(rows, columns).coalesce(1).write.format("delta")
        appended.mode("append").save(str(tmp_path / "a"))
        there = penstock.connect(spark, checkpoint=str(tmp_path / "checkpoint"), cells=2)
        there.execute(A.replace("WATERMARK", f"USING delta OPTIONS (path '{tmp_path / 'a'}') WATERMARK"))
        there.execute(
            f"CREATE TABLE names (x INT, name STRING) USING delta OPTIONS (path '{tmp_path / 'names'}')"
        )
        there.query(query, name="named").write("delta", str(tmp_path / "named"))
        run(there, flush=part[-1] is ROWS[-1])
    here = penstock.connect()
    here.execute(A)
    here.create_table("names", names)
    named = here.query(query, name="named")
    here.push("a", ROWS)
    here.advance(ROWS[-1]["ts"])
    expected = told(named.changes())
    assert len(expected) > 10
    assert table(spark, tmp_path / "named") == expected
