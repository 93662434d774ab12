"""Files that cells read themselves: the same rows to the same cells as through Spark, or left to Spark."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions

from penstock.data.types import Type
from penstock.flow.partition import Axis, Routing
from penstock.plan.expressions import Call, Column, Expression
from penstock.runtime.spark.hashed import Share
from penstock.runtime.spark.routes import _cells

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
    return [(term,) for term in every] + [tuple(chance.sample(every, 3)) for _ in range(4)]


def test_rows_go_to_the_cells_that_spark_sends_them_to(spark: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(5)
    rows = 400
    table = pa.table(
        {f"c{i}": pa.array([drawn(chance, k) for _ in range(rows)], k.arrow) for i, k in enumerate(KINDS)}
    )
    places = tuple(range(len(KINDS)))
    routings = [Routing((Axis(share, key),), 1) for key in keys(chance) for share in (4, 3)]
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
