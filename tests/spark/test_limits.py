"""Limits on Spark: what a query remembers, and how many of the rows that were set aside are kept."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.spark.rejected_files import held_rows
from tests.spark.test_sessions import A, Kept
from tests.spark.test_stopped_queries import run

GOOD = "SELECT x, COUNT(*) AS n FROM a [RANGE 10] GROUP BY x"
GROWS = {
    "alone": "SELECT DISTINCT y FROM a",
    "two stages": "SELECT n, COUNT(*) AS m FROM (SELECT y, COUNT(*) AS n FROM a GROUP BY y) AS g GROUP BY n",
}

Connect = Callable[..., Any]


@pytest.fixture
def connect(spark: SparkSession, tmp_path: Path) -> Connect:
    def made(**options: Any) -> Any:
        session = penstock.connect(spark, checkpoint=str(tmp_path / "checkpoint"), cells=2, **options)
        session.execute(A)
        return session

    return made


def rows(begin: int, end: int) -> pa.Table:
    """As many values of y as rows."""
    ts = range(begin, end)
    return pa.table(
        {
            "ts": pa.array(ts, pa.int64()),
            "x": pa.array((t % 5 for t in ts), pa.int32()),
            "y": pa.array(ts, pa.int32()),
            "s": pa.nulls(len(ts), pa.string()),
        }
    )


def watched(session: Any, kept: dict[str, Kept], **queries: str) -> None:
    for name, text in queries.items():
        session.query(text, name=name).foreach_batch(kept.setdefault(name, Kept()))


@pytest.mark.parametrize("grows", GROWS.values(), ids=GROWS)
def test_a_query_that_remembers_too_much_stops_alone(connect: Connect, grows: str) -> None:
    kept: dict[str, Kept] = {}
    session = connect(query_bytes=1_000_000)
    watched(session, kept, good=GOOD, grows=grows)
    session.push("a", rows(0, 100))
    run(session, flush=False)
    told = {step: table.num_rows for step, table in kept["grows"].steps.items()}
    assert told
    session.push("a", rows(100, 60_000))
    run(session, flush=False)
    error = session.queries["grows"].exception()
    assert isinstance(error, penstock.StateError)
    assert "query grows remembers" in str(error)
    assert "more than connect(query_bytes=1,000,000) allows" in str(error)
    assert session.queries["good"].exception() is None
    assert {step: table.num_rows for step, table in kept["grows"].steps.items()} == told
    # It stays stopped while nothing changes, and begins anew once it may remember more.
    again = connect(query_bytes=1_000_000)
    watched(again, kept, good=GOOD, grows=grows)
    again.push("a", rows(60_000, 60_100))
    run(again, flush=False)
    assert again.queries["grows"].exception() is not None
    more: dict[str, Kept] = {"good": kept["good"]}
    last = connect(query_bytes=100_000_000)
    watched(last, more, good=GOOD, grows=grows)
    last.push("a", rows(60_100, 120_000))
    run(last, flush=True)
    assert last.queries["grows"].exception() is None
    assert more["grows"].steps
    here = penstock.connect()
    here.execute(A)
    query = here.query(GOOD)
    here.push("a", rows(0, 120_000))
    here.advance(119_999)
    expected = query.changes()
    found = kept["good"].rows(expected.column_names)
    assert found == sorted((tuple(row.values()) for row in expected.to_pylist()), key=repr)


def test_a_flow_of_one_query_goes_on_once_it_may_remember_more(connect: Connect) -> None:
    """The step that failed is repeated: nothing is lost."""
    kept: dict[str, Kept] = {}
    session = connect(query_bytes=1_000_000)
    watched(session, kept, grows=GROWS["alone"])
    session.push("a", rows(0, 60_000))
    with pytest.raises(penstock.StateError, match="query grows remembers"):
        run(session, flush=False)
    session.flow.close()
    more = connect()
    watched(more, kept, grows=GROWS["alone"])
    run(more)
    assert len(kept["grows"].rows(["y"])) == 60_000


def late(begin: int, end: int) -> pa.Table:
    return rows(begin, end).set_column(0, "ts", pa.array([0] * (end - begin), pa.int64()))


def push_late(session: Any, handle: Any) -> None:
    """300 rows in steps of 50."""
    for begin in range(0, 300, 50):
        session.push("a", late(begin, begin + 50))
        handle.processAllAvailable()


def test_the_newest_late_rows_are_kept_and_all_are_counted(connect: Connect) -> None:
    kept: dict[str, Kept] = {}
    session = connect(keep_late=100)
    watched(session, kept, good=GOOD)
    handle = session.start(trigger={"processingTime": "0 seconds"})
    session.push("a", rows(10_000, 10_100))
    handle.processAllAvailable()
    assert session.late("a").count() == 0
    assert session.late("a").schema["ts"].metadata == {"not_kept": 0}
    with pytest.warns(penstock.StreamWarning, match="stream a: more rows are late than are kept") as told:
        push_late(session, handle)
    assert len([one for one in told if "than are kept" in str(one.message)]) == 1
    found = session.late("a")
    values = [row.y for row in found.collect()]
    assert 100 <= len(values) <= 125
    assert set(values) > set(range(250, 300))
    assert found.schema["ts"].metadata == {"not_kept": 300 - len(values)}
    handle.stop()
    # The count survives the driver, and a step of many late rows leaves no more.
    again = connect(keep_late=100)
    watched(again, kept, good=GOOD)
    again.push("a", late(300, 3_000))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # most rows are late, too
        run(again)
    found = again.late("a")
    assert 100 <= found.count() <= 125
    assert found.schema["ts"].metadata == {"not_kept": 3_000 - found.count()}
    assert all(row.y >= 300 for row in found.collect())


def test_none_of_the_late_rows_need_be_kept(connect: Connect) -> None:
    kept: dict[str, Kept] = {}
    session = connect(keep_late=0)
    watched(session, kept, good=GOOD)
    session.push("a", rows(10_000, 10_100))
    run(session, flush=False)
    session.push("a", late(0, 50))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        handle = run(session, flush=False)
    assert any(progress["late"] == {"a": 50} for progress in handle.recentProgress)
    assert session.late("a").count() == 0
    assert session.late("a").schema["ts"].metadata == {"not_kept": 50}


def test_files_that_do_not_say_how_many_rows_they_have_are_counted(connect: Connect) -> None:
    session = connect(keep_late=100)
    watched(session, {}, good=GOOD)
    folder = session.flow.store.set_aside("late", "a")
    folder.mkdir(parents=True)
    for step in (1, 2, 3):
        pq.write_table(late(0, 40), str(folder / f"{step:012d}-0.parquet"))
    assert held_rows(folder) == 120
    session.push("a", rows(10_000, 10_100))
    run(session, flush=False)
    session.push("a", late(100, 130))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(session, flush=False)
    assert min(place.name[:12] for place in folder.glob("0*.parquet")) == f"{2:012d}"
    assert held_rows(folder) == 110
