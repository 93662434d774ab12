"""Files that cells read themselves: the same rows to the same cells as through Spark, or left to Spark."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession, functions

import penstock
from penstock.partitioning.placement import Axis, Routing
from penstock.plan.expressions import Call, Column, Expression
from penstock.spark import parquet_reader
from penstock.spark.flow_plan import can_hash
from penstock.spark.parquet_folders import folder
from penstock.spark.partition_filter import Share
from penstock.spark.shuffle import _cells
from penstock.types.data_type import Type
from tests.spark.test_sessions import Kept

KINDS = (Type.BIGINT, Type.INT, Type.SMALLINT, Type.TINYINT, Type.DOUBLE, Type.FLOAT, Type.STRING, Type.BOOLEAN)  # fmt: skip


def drawn(chance: random.Random, kind: Type) -> object:
    """Values of a type, the odd ones often."""
    if chance.random() < 0.15:
        return None
    if kind is Type.STRING:
        return "".join(
            chance.choice("aé€😀z ") for _ in range(chance.choice((0, 1, 3, 4, 7, 8, 11, 31, 40, 70)))
        )
    if kind is Type.BOOLEAN:
        return chance.random() < 0.5
    if kind.is_float:
        return chance.choice((0.0, -0.0, float("nan"), -float("nan"), float("inf"), chance.gauss(0, 1e9)))
    bits = 8 * kind.dtype.itemsize - 1
    return chance.choice((0, -1, 2**bits - 1, -(2**bits), chance.randrange(-(2**bits), 2**bits)))


def keys(chance: random.Random) -> list[tuple[Expression, ...]]:
    plain: list[Expression] = [Column(i, kind, f"c{i}") for i, kind in enumerate(KINDS)]
    wide: list[Expression] = [Call("cast", (plain[i],), to) for i, to in ((1, Type.BIGINT), (0, Type.DOUBLE), (2, Type.FLOAT), (5, Type.DOUBLE))]  # fmt: skip
    every = [*plain, *wide]
    return [(term,) for term in every] + [tuple(chance.sample(every, 3)) for _ in range(3)]


def test_rows_go_to_the_cells_that_spark_sends_them_to(spark: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(5)
    rows = 400
    table = pa.table(
        {f"c{i}": pa.array([drawn(chance, k) for _ in range(rows)], k.arrow) for i, k in enumerate(KINDS)}
    )
    places = tuple(range(len(KINDS)))
    routings = [Routing((Axis(share, key),), 1) for key in keys(chance) for share in chance.sample((4, 3), 1)]
    one, other = (Axis(2, key) for key in keys(chance)[:2])
    routings += [Routing((one, Axis(3, None), other)), Routing((), 2)]
    frame = spark.createDataFrame(table).coalesce(1)
    told = frame.select(*(functions.array(*_cells(r, places)).alias(f"r{i}") for i, r in enumerate(routings)))
    for routing, sent in zip(routings, told.toArrow().columns, strict=True):
        want = np.zeros((rows, 13), bool)
        for row, cells in enumerate(sent.to_pylist()):
            want[row, cells] = True
        for cell in range(13):
            share = Share(routing, cell, places)
            found = np.zeros(rows, bool) if share.is_empty else share.rows(table)
            assert (found == want[:, cell]).all(), (str(routing), cell)


A, B = "ts TIMESTAMP, x INT, s STRING, d DOUBLE", "ts TIMESTAMP, x BIGINT, e DATE"
QUERIES = {
    "joined": "SELECT a.x, a.s, b.e FROM a [RANGE 5 SECONDS], b [RANGE 3 SECONDS] WHERE a.x = b.x",
    "named": "SELECT s, COUNT(*) AS n FROM a [RANGE 4 SECONDS] GROUP BY s",
    "some": "SELECT x, d FROM a [RANGE 1 SECOND] WHERE x > 2 AND s <> 'q'",
}


def batch(chance: random.Random, name: str, begin: int, kinds: dict[str, pa.DataType]) -> pa.Table:
    rows = 60
    late = [begin + i // 20 - (5 if i % 17 == 3 else 0) for i in range(rows)]
    columns: dict[str, list[Any]] = {
        "ts": [None if i % 13 == 5 else 1_000_000 * max(t, 0) for i, t in enumerate(late)],
        "x": [chance.choice([None, 1, 2, 3, 4]) for _ in range(rows)],
        "s": [chance.choice([None, "p", "q", "größer"]) for _ in range(rows)],
        "d": [chance.random() for _ in range(rows)],
        "e": [chance.randrange(9) for _ in range(rows)],
    }
    names = {"a": ["ts", "x", "s", "d"], "b": ["ts", "x", "e"]}[name]
    usual = {"ts": pa.timestamp("us", "UTC"), "x": pa.int32() if name == "a" else pa.int64(), "s": pa.string(), "d": pa.float64(), "e": pa.date32()}  # fmt: skip
    return pa.table({n: pa.array(columns[n], {**usual, **kinds}[n]) for n in names})


def played(spark: SparkSession, folder_: Path, checkpoint: Path) -> tuple[dict[str, Any], Any, list[Any]]:
    session = penstock.connect(spark, checkpoint=str(checkpoint), cells=2)
    for name, columns in (("a", A), ("b", B)):
        reader = spark.readStream.schema(columns).option("maxFilesPerTrigger", 1)
        session.create_stream(name, reader.parquet(str(folder_ / name)), time="ts")
    kept = {name: Kept() for name in QUERIES}
    for name, text in QUERIES.items():
        session.query(text, name=name).foreach_batch(kept[name])
    handle = session.start(trigger={"availableNow": True})
    handle.awaitTermination()
    handle.stop()
    late = sorted((tuple(row.values()) for row in session.late("a").toArrow().to_pylist()), key=repr)
    said = {
        name: sink.rows(list(next(iter(sink.steps.values())).column_names)) for name, sink in kept.items()
    }
    steps = [(p["sources"], p["late"], p["unread"], p["watermarks"]) for p in handle.recentProgress]
    return said, late, steps


def test_files_read_by_cells_and_by_spark(
    quick: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads: the same changes, late rows and counts. The second file of `a` is one that only Spark can read as declared."""
    chance = random.Random(3)
    for name in "ab":
        for number in range(3):
            kinds = {"ts": pa.timestamp("ms", "UTC")} if (name, number) == ("a", 1) else {}
            made = batch(chance, name, 3 * number, kinds)
            place = tmp_path / "in" / name / f"{number} %41 [x]é.parquet"
            place.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(
                made.rename_columns([n.upper() if number == 2 else n for n in made.column_names]), place
            )
    fitted: list[bool] = []
    fits = parquet_reader.fits
    monkeypatch.setattr(parquet_reader, "fits", lambda *told: fitted.append(fits(*told)) or fitted[-1])
    by_cells = played(quick, tmp_path / "in", tmp_path / "1")
    assert fitted.count(False) == 1
    assert fitted.count(True) >= 4
    monkeypatch.setattr(parquet_reader, "MOST_CELLS", 0)
    by_spark = played(quick, tmp_path / "in", tmp_path / "2")
    assert by_cells == by_spark
    said, late, steps = by_cells
    assert all(len(rows) > 15 for rows in said.values()), {name: len(rows) for name, rows in said.items()}
    assert len(late) > 3
    assert all(row[3] is not None for row in late), "whole, though no query reads d of them"
    assert sum(unread["a"]["unplaced"] for _, _, unread, _ in steps if unread) == 3 * 5


def test_a_folder_is_recognised_if_nothing_else_is_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    session = penstock.connect()
    session.execute(f"CREATE STREAM a ({A}) WATERMARK ts DELAY OF INTERVAL 0 SECONDS")
    stream = session.catalog.streams["a"]
    plain = spark.readStream.schema(A)
    there = str(tmp_path)
    (tmp_path / "k=1").mkdir()
    assert folder(plain.parquet(there), stream) is not None
    archive = {"cleanSource": "archive", "sourceArchiveDir": f"{there}/done"}
    assert folder(spark.readStream.schema(A).options(**archive).parquet(there), stream) is not None
    for other in (
        plain.parquet(there).where("x > 1"),
        plain.json(there),
        plain.option("mergeSchema", "true").parquet(there),
        plain.parquet(f"{there}/*"),
        plain.parquet(f"{there}/k=1"),
        spark.readStream.schema(A.replace("TIMESTAMP", "TIMESTAMP_NTZ")).parquet(there),
        spark.readStream.schema(A.replace("INT", "BIGINT")).parquet(there),
    ):
        assert folder(other, stream) is None


def test_keys_that_spark_rounds_otherwise_are_not_hashed() -> None:
    """CAST(CAST(x AS FLOAT) AS DOUBLE) is CAST(x AS DOUBLE) to Spark."""
    for kind, hashed in ((Type.SMALLINT, True), (Type.INT, False), (Type.BIGINT, False)):
        assert can_hash(Call("cast", (Column(0, kind, "x"),), Type.FLOAT)) == hashed
        assert can_hash(Call("cast", (Column(0, kind, "x"),), Type.DOUBLE))
