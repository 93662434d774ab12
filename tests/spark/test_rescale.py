"""A flow goes on with another number of cells, and nobody can tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.spark import partition as cells
from penstock.spark.driver import Flow
from tests.spark.test_sessions import QUERIES, A, B, Kept, drawn, told

BOUNDED = [name for name in QUERIES if name != "last"]
TABLE = "CREATE TABLE t (x INT, w INT)"
PRICED = "SELECT a.x, t.w FROM a [RANGE 20], t WHERE a.x = t.x"


def declared(session: Any, names: list[str]) -> dict[str, Any]:
    session.execute(f"{A} {B} {TABLE}")
    made = {name: session.query(QUERIES[name], name=name) for name in names}
    made["priced"] = session.query(PRICED, name="priced")
    return made


def run(session: Any) -> None:
    handle = session.start(trigger={"availableNow": True}, flush=False)
    handle.awaitTermination()
    handle.stop()


def test_other_cells_go_on(spark: SparkSession, tmp_path: Path) -> None:
    rows = drawn(3, 120)
    for row in rows["b"]:
        row["ts"] -= 20  # cells that read only the other stream must not run ahead
    here = penstock.connect()
    queries = declared(here, BOUNDED)
    kept = {name: Kept() for name in queries}
    for part, number in enumerate((2, 3, 1, 2)):
        there = penstock.connect(spark, checkpoint=str(tmp_path / "checkpoint"), cells=number)
        for name, query in declared(there, BOUNDED).items():
            query.foreach_batch(kept[name])
        if part in (0, 2):
            here.update_table("t", insert=[{"x": 1 + part, "w": 10 * part}], at=60 * part + 10)
            there.update_table("t", insert=[{"x": 1 + part, "w": 10 * part}], at=60 * part + 10)
        now = {name: given[30 * part : 30 * part + 30] for name, given in rows.items()}
        for name, given in now.items():
            here.push(name, given)
            there.push(name, given)
        run(there)
        assert there.flow.cells == (2 if part == 0 else number)
    for name, query in queries.items():
        expected = query.changes()
        assert kept[name].rows(expected.column_names) == told(expected), name
    assert [p.name for p in (tmp_path / "checkpoint" / "cells").iterdir()] == ["3"]


def test_steps_with_rows_of_one_of_two_streams(spark: SparkSession, tmp_path: Path) -> None:
    """Columns that have no value in a step are not in its log."""
    rows = drawn(8, 60)
    here = penstock.connect()
    here.execute(A + B)
    expected, kept = here.query(QUERIES["joined"], name="joined"), Kept()
    for part, number in enumerate((2, 2, 3, 1)):
        there = penstock.connect(spark, checkpoint=str(tmp_path), cells=number)
        there.execute(A + B)
        there.query(QUERIES["joined"], name="joined").foreach_batch(kept)
        for name in ("a", "b")[part % 2 : 2 if part > 1 else part % 2 + 1]:
            given = rows[name][15 * part : 15 * part + 15]
            here.push(name, given)
            there.push(name, given)
        run(there)
    changes = expected.changes()
    assert changes.num_rows > 10
    assert kept.rows(changes.column_names) == told(changes)


def test_a_log_that_does_not_reach_back(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows that count rows can need any: refused, with the query named, and the flow goes on as it was."""
    monkeypatch.setattr(cells, "LEAST_LOG", 0)
    rows = drawn(3, 90)["a"]
    for part, number in enumerate((1, 2, 1)):
        there = penstock.connect(spark, checkpoint=str(tmp_path), cells=number)
        there.execute(A)
        there.query(QUERIES["last"], name="last")
        there.push("a", rows[30 * part : 30 * part + 30])
        if number == 2:
            with pytest.raises(penstock.StateError, match=r"query last can need rows of any age"):
                run(there)
            there.flow.close()
        else:
            run(there)
        if part == 0:
            there.push("a", rows[:1])
            run(there)
            store = there.flow.store
            header = {**store.get("steps", 2), "run": there.flow.epoch}
            cells.Cell(store, 0, 1, {}).step(header, pa.table({}))
            assert store.states(0) == [2]
            store.forget_cell(0, 2, 0)
        assert there.flow.cells == 1
    assert there.clock == max(row["ts"] for row in rows) - 6


def test_cells_are_laid_out_for_the_rates_that_were_measured(spark: SparkSession, tmp_path: Path) -> None:
    """The stream with more rows is dealt out, the other is copied."""
    near = "SELECT a.y, b.d FROM a [RANGE 30], b [RANGE 30] WHERE a.y < b.d"
    here = penstock.connect()
    here.execute(A + B)
    expected, kept = here.query(near, name="near"), Kept()
    plans = []
    for part, number in enumerate((2, 3)):
        there = penstock.connect(spark, checkpoint=str(tmp_path), cells=number)
        there.execute(A + B)
        there.query(near, name="near").foreach_batch(kept)
        rows = drawn(part, 30, start=60 * part)
        now = {"a": rows["a"][::10], "b": [r for r in rows["b"] if r["ts"] >= 60 * part]}
        for name, given in now.items():
            here.push(name, given)
            there.push(name, given)
        run(there)
        assert there.flow.known.rows["b"] > 5 * there.flow.known.rows["a"] > 0
        plans.append(there.explain().rpartition("cells: ")[2])
    assert "a by hash" in plans[0] and "b everywhere" in plans[0]
    assert "b by hash" in plans[1] and "a everywhere" in plans[1]
    changes = expected.changes()
    assert changes.num_rows > 10
    assert kept.rows(changes.column_names) == told(changes)


@pytest.mark.parametrize("done", [False, True])
def test_a_driver_lost_while_cells_begin_anew(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: bool
) -> None:
    """Before or after the step that new cells begin with: what they say of old rows is not told again."""
    names = ["sizes", "sums"]
    rows = drawn(5, 60)["a"]
    here = penstock.connect()
    queries = declared(here, names)
    kept = {name: Kept() for name in queries}
    run_step = Flow._run

    def lost(flow: Flow, header: dict[str, Any], frame: Any) -> None:
        if done or "deal" not in header:
            run_step(flow, header, frame)
        if "deal" in header:
            raise OSError("the driver is gone")

    for part, number in enumerate((2, 3, 3)):
        there = penstock.connect(spark, checkpoint=str(tmp_path), cells=number)
        for name, query in declared(there, names).items():
            query.foreach_batch(kept[name])
        if part < 2:
            here.push("a", rows[30 * part : 30 * part + 30])
            there.push("a", rows[30 * part : 30 * part + 30])
        if part == 1:
            with monkeypatch.context() as patched:
                patched.setattr(Flow, "_run", lost)
                with pytest.raises(penstock.StateError, match="the driver is gone"):
                    run(there)
            there.flow.close()
        else:
            run(there)
    assert there.flow.cells == 3
    for name in names:
        expected = queries[name].changes()
        assert expected.num_rows > 10
        assert kept[name].rows(expected.column_names) == told(expected), name
