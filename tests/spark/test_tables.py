"""Tables of a flow: what they hold after a restart, and from which instant an update holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.spark.checkpoint import Store
from penstock.spark.table_updates import TableUpdates

NAMES = [{"k": 1, "n": "one"}, {"k": 2, "n": "two"}]


def test_a_table_is_what_the_checkpoint_holds(spark: SparkSession, tmp_path: Path) -> None:
    """A program that starts again gives the first content again; rows that came since can be deleted, those gone cannot."""
    found: dict[int, list[Any]] = {}

    def started() -> Any:
        session = penstock.connect(spark, checkpoint=str(tmp_path / "checkpoint"), cells=2)
        session.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
        session.create_table("names", NAMES)
        query = session.query("SELECT n FROM a [RANGE 10], names WHERE x = k", name="q")
        query.foreach_batch(lambda frame, step: found.update({step: frame.collect()}))
        return session

    def fed(session: Any, ts: int, *, flush: bool = False) -> None:
        session.push("a", [{"ts": ts, "x": x} for x in (1, 2, 3)])
        handle = session.start(trigger={"availableNow": True}, flush=flush)
        handle.awaitTermination()
        handle.stop()

    session = started()
    fed(session, 1)
    session.update_table("names", insert=[{"k": 3, "n": "three"}], delete=NAMES[:1], at=2)
    fed(session, 2)
    session = started()
    with pytest.raises(penstock.DataError, match="to delete is not in the table"):
        session.update_table("names", delete=NAMES[:1])
    session.update_table("names", delete=[{"k": 3, "n": "three"}], at=3)
    fed(session, 3, flush=True)
    told = sorted((row["__ts"], row["n"]) for rows in found.values() for row in rows)
    assert told == [(1, "one"), (1, "two"), (2, "three"), (2, "two"), (3, "two")]


def test_an_update_holds_from_one_instant_on_in_every_cell(spark: SparkSession, tmp_path: Path) -> None:
    """Queries in one cell each, over streams that are not equally far: an update begins where none of them has been."""
    streams = {"left": "a", "right": "b"}
    there = penstock.connect(spark, checkpoint=str(tmp_path / "checkpoint"), cells=2)
    there.execute(";".join(f"CREATE STREAM {s} (ts BIGINT, x INT) WATERMARK ts DELAY OF 0" for s in "ab"))
    there.create_table("names", NAMES, retroactive=True)
    for name, stream in streams.items():
        there.query(f"SELECT COUNT(*) AS n FROM {stream} [RANGE 100], names WHERE x = k", name=name)
    found: dict[int, list[Any]] = {}
    there.foreach_batch(lambda frame, step: found.update({step: frame.collect()}))
    assert {tuple(q.upper.cells) for q in there.flow.plan().queries.values()} == {(0,), (1,)}

    def step(rows: dict[str, list[int]], *, flush: bool = False) -> None:
        for stream, times in rows.items():
            there.push(stream, [{"ts": ts, "x": 3} for ts in times])
        there.start(trigger={"availableNow": True}, flush=flush).awaitTermination()

    step({"a": [1, 20], "b": [1, 5]})
    assert there.clock == 4
    with pytest.raises(penstock.DataError, match="an update at 4 is too late: the clock is at 4"):
        there.update_table("names", insert=NAMES[:1], at=4)
    there.update_table("names", insert=[{"k": 3, "n": "three"}])
    there.update_table("names", insert=[{"k": 3, "n": "drei"}], at=9)
    step({"a": [30], "b": [25, 30]}, flush=True)
    there.flow.close()
    told = {name: sorted((row["__ts"], row["n"]) for rows in found.values() for row in rows
                         if row["__query"] == name and row["n"]) for name in streams}  # fmt: skip
    # The cell of `left` has applied all before 20.
    assert told == {"left": [(20, 4), (30, 6)], "right": [(20, 4), (25, 6), (30, 8)]}


@pytest.mark.parametrize("run_again", [True, False], ids=["run without rows", "not run"])
@pytest.mark.parametrize("flush", [True, False])
def test_an_update_outlives_a_run_without_rows(
    spark: SparkSession, tmp_path: Path, run_again: bool, flush: bool
) -> None:
    """Once `update_table` has returned, the update is there after a restart, and once."""
    found: dict[int, list[Any]] = {}

    def started() -> Any:
        session = penstock.connect(spark, checkpoint=str(tmp_path / "checkpoint"), cells=2)
        session.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
        session.create_table("names", NAMES)
        query = session.query("SELECT n FROM a [RANGE 10], names WHERE x = k", name="q")
        query.foreach_batch(lambda frame, step: found.update({step: frame.collect()}))
        return session

    def run(session: Any) -> None:
        handle = session.start(trigger={"availableNow": True}, flush=flush)
        handle.awaitTermination()
        handle.stop()

    session = started()
    session.push("a", [{"ts": 1, "x": x} for x in (1, 2, 3)])
    run(session)
    session.update_table("names", insert=[{"k": 3, "n": "three"}], delete=NAMES[:1], at=5)
    if run_again:
        run(session)
        assert len(session.flow.store.updates()) == 2
    session = started()
    with pytest.raises(penstock.DataError, match="to delete is not in the table"):
        session.update_table("names", delete=NAMES[:1])
    for ts in (6, 8):
        session.push("a", [{"ts": ts, "x": x} for x in (1, 2, 3)])
        run(session)
        session = started()
    told = sorted((row["__ts"], row["n"]) for rows in found.values() for row in rows)
    after = [(8, "three"), (8, "two")] if flush else []
    assert told == [(1, "one"), (1, "two"), (6, "three"), (6, "two"), *after]


def test_an_update_written_with_a_step_does_not_wait_any_more(tmp_path: Path) -> None:
    """A driver lost between writing the step and removing the waiting file applies the update once."""
    store = Store(tmp_path)
    rows = {part: pa.table({"k": [1]}) for part in ("delete", "insert")}
    waiting = TableUpdates(store, 0)
    for first in (True, False):
        waiting.add({"table": "t", "at": None, "first": first}, rows, durable=not first)
    assert waiting.write(1, {"t"}, 7) == ["000000000001-0.arrow", "000000000001-1.arrow"]
    assert not TableUpdates(store, 1)
    assert not list((tmp_path / "tables" / "waiting").iterdir())


def test_an_update_waits_until_its_step_is_decided(tmp_path: Path) -> None:
    store = Store(tmp_path)
    rows = {part: pa.table({"k": [1]}) for part in ("delete", "insert")}
    waiting = TableUpdates(store, 0)
    waiting.add({"table": "t", "at": None, "first": False}, rows, durable=True)
    waiting.add({"table": "u", "at": None, "first": False}, rows, durable=True)
    waiting.write(1, {"t", "u"}, 7)
    again = TableUpdates(store, 0)
    assert again.write(1, {"t"}, 7) == ["000000000001-0.arrow"]  # the other table was dropped
    again.held()
    assert not TableUpdates(store, 0)
