"""Rows that no window can hold; sinks that share a place."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import penstock

ROWS = "ts BIGINT, x INT, _corrupt_record STRING"


def ended(session: Any) -> Any:
    handle = session.start(trigger={"availableNow": True})
    handle.awaitTermination()
    handle.stop()
    return handle


@pytest.mark.parametrize("declared", [True, False])
def test_rows_without_a_time_are_left_out_and_counted(
    spark: SparkSession, tmp_path: Path, declared: bool
) -> None:
    """Of any source, whether Penstock or the caller makes the frame; `_corrupt_record` is Spark's own name."""
    (tmp_path / "in").mkdir()
    lines = [
        '{"ts": 1, "x": 1}',
        '{"x": 2}',
        "{",
        '{"ts": "late", "x": 3}',
        '{"ts": 4, "x": "?"}',
        '{"ts": 5}',
    ]
    (tmp_path / "in" / "1.json").write_text("\n".join(lines))
    session = penstock.connect(spark, checkpoint=str(tmp_path / "checkpoint"), cells=2)
    if declared:
        session.execute(
            f"CREATE STREAM a ({ROWS}) USING json OPTIONS (path '{tmp_path / 'in'}') WATERMARK ts DELAY OF INTERVAL 0"
        )
    else:
        session.create_stream("a", spark.readStream.schema(ROWS).json(str(tmp_path / "in")), time="ts")
    found: list[Any] = []
    session.query("SELECT x FROM a [RANGE 10]", name="q").foreach_batch(
        lambda f, _: found.extend(f.collect())
    )
    handle = ended(session)
    assert sorted((row["__ts"], row["x"]) for row in found if row["x"]) == [(1, 1)]
    assert sorted(row["__ts"] for row in found) == [1, 4, 5]
    told = [step["unread"] for step in handle.recentProgress if step["unread"]]
    assert told == [{"a": {"unplaced": 3, "malformed": 3, "example": '{"ts": 4, "x": "?"}'}}]
    assert session.late("a").count() == 0


def test_a_source_may_know_its_columns_itself(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's `rate` refuses to be told them, as Delta does."""
    session = penstock.connect(spark, checkpoint=str(tmp_path), cells=1)
    session.execute(
        "CREATE STREAM ticks (value BIGINT, timestamp TIMESTAMP) USING rate WATERMARK timestamp DELAY OF INTERVAL 0 SECONDS"
    )
    frame = session._fed("ticks", session.catalog.streams["ticks"])
    assert frame.isStreaming
    assert sorted(frame.columns) == ["timestamp", "value"]


def test_queries_and_flows_share_a_folder(spark: SparkSession, tmp_path: Path) -> None:
    """Steps have the same numbers everywhere; what one writes is not another's to replace."""
    for flow in range(2):
        session = penstock.connect(spark, checkpoint=str(tmp_path / f"checkpoint{flow}"), cells=2)
        session.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
        for name in ("low", "high"):
            query = session.query(
                f"SELECT x FROM a [RANGE 10] WHERE x {'<' if name == 'low' else '>'} 5", name=name
            )
            query.write(path=str(tmp_path / "out"))
            query.to_table("penstock_shared")
        session.push("a", [{"ts": 1, "x": 1 + flow}, {"ts": 1, "x": 8 + flow}])
        ended(session)
    assert sorted(row["x"] for row in spark.read.parquet(str(tmp_path / "out")).collect()) == [1, 2, 8, 9]
    assert sorted(row["x"] for row in spark.table("penstock_shared").collect()) == [1, 2, 8, 9]


def test_a_table_gets_what_it_is_made_of(spark: SparkSession, tmp_path: Path) -> None:
    """Files of another kind would spoil it; a column may be called like a line of its description."""
    spark.sql("CREATE TABLE penstock_orc (x INT, Location STRING) USING orc")
    spark.sql("CREATE TABLE penstock_csv (x INT, Location STRING) USING csv")
    for name in ("orc", "csv"):
        session = penstock.connect(spark, checkpoint=str(tmp_path / name), cells=1)
        session.execute(
            "CREATE STREAM a (ts BIGINT, x INT, Location STRING) WATERMARK ts DELAY OF INTERVAL 0"
        )
        query = session.query("SELECT x, Location FROM a [RANGE 10]", name="q")
        query.to_table(f"penstock_{name}", mode="view")
        session.push("a", [{"ts": 1, "x": 1, "Location": "here"}])
        if name == "orc":
            ended(session)
        else:
            with pytest.raises(penstock.DataError, match="table penstock_csv is made of csv"):
                ended(session)
    assert [tuple(row) for row in spark.table("penstock_orc").collect()] == [(1, "here")]


def test_the_lines_of_the_readme_run(spark: SparkSession, tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    _, code = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "1.json").write_text(
        '{"ts": 1, "item": "cup", "qty": 2}\n{"ts": 5, "item": "cup", "qty": 1}\n'
    )
    code = code.replace("/data", str(tmp_path)).replace(
        '"processingTime": "1 second"', '"availableNow": True'
    )
    spark.sql("DROP TABLE IF EXISTS sold")
    exec(code, {"spark": spark, "penstock": penstock})
    assert [tuple(r) for r in spark.table("sold").collect()] == [("cup", 3)]


def test_a_view_begins_with_its_query(spark: SparkSession, tmp_path: Path) -> None:
    """Nobody kept the answer of a query that ran without one: it is not to be had from the middle on."""
    shown: dict[int, list[Any]] = {}

    def started() -> Any:
        session = penstock.connect(spark, checkpoint=str(tmp_path / "checkpoint"), cells=1)
        session.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
        return session

    def viewed(session: Any, name: str) -> None:
        query = session.query("SELECT DISTINCT x FROM a [RANGE 100]", name=name)
        query.foreach_batch(lambda frame, step: shown.update({step: frame.collect()}), mode="view")

    session = started()
    plain = session.query("SELECT DISTINCT x FROM a [RANGE 100]", name="plain")
    viewed(session, "kept")
    session.push("a", [{"ts": 1, "x": 7}])
    ended(session)
    with pytest.raises(penstock.StateError, match="query plain has begun without a view"):
        plain.foreach_batch(lambda *_: None, mode="view")
    session = started()
    with pytest.raises(penstock.StateError, match="query plain has begun without a view"):
        viewed(session, "plain")
    session = started()
    viewed(session, "kept")
    session.push("a", [{"ts": 2, "x": 8}])
    ended(session)
    assert sorted(row["x"] for row in shown[max(shown)]) == [7, 8]
