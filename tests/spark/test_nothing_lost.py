"""What flows on Spark lost or got wrong, each through the public interface alone.

Tests beside the parts that were changed look at more cases; these also run on code that lacks those parts.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import penstock

A = "CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0"
TEXTS = pa.schema([("ts", pa.int64()), ("x", pa.int32()), ("s", pa.string()), ("t", pa.string())])


class Kept:
    """A sink that keeps the rows of a step, once."""

    def __init__(self) -> None:
        self.steps: dict[int, list[Any]] = {}

    def __call__(self, frame: Any, step: int) -> None:
        self.steps[step] = frame.collect()

    def column(self, name: str) -> list[Any]:
        return sorted(row[name] for rows in self.steps.values() for row in rows)


def rows(times: range) -> list[dict[str, int]]:
    return [{"ts": t, "x": t} for t in times]


def run(session: Any, *, flush: bool = True) -> None:
    handle = session.start(trigger={"availableNow": True}, flush=flush)
    try:
        handle.awaitTermination()
    finally:
        handle.stop()


def test_rows_under_the_number_of_a_batch_that_is_gone(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's newest offsets are removed: the next rows are answered, or the flow refuses to go on."""
    kept = Kept()

    def take(times: range) -> None:
        session = penstock.connect(spark, checkpoint=str(tmp_path), cells=1)
        session.execute(A)
        session.query("SELECT x FROM a [RANGE 10]", name="q").foreach_batch(kept)
        session.push("a", rows(times))
        run(session)

    take(range(10))
    take(range(10, 20))
    for log in ("offsets", "commits", "sources/0"):
        for name in ("1", ".1.crc"):
            (tmp_path / "spark" / log / name).unlink(missing_ok=True)
    with pytest.raises(penstock.StateError, match="restore the whole directory"):
        take(range(20, 30))
    assert kept.column("x") == list(range(20))


def test_a_step_of_an_older_driver_takes_no_rows_of_a_newer_one(spark: SparkSession, tmp_path: Path) -> None:
    kept = Kept()

    def connected() -> Any:
        session = penstock.connect(spark, checkpoint=str(tmp_path), cells=1)
        session.execute(A)
        session.query("SELECT x FROM a [RANGE 10]", name="q").foreach_batch(kept)
        return session

    older = connected()
    older.push("a", rows(range(10)))
    run(older, flush=False)
    newer = connected()
    run(older)  # a step without rows
    for times in (range(10, 20), range(20, 30)):
        newer.push("a", rows(times))
        run(newer)
    assert kept.column("x") == list(range(30))


def test_texts_pushed_by_threads(spark: SparkSession, tmp_path: Path) -> None:
    threads, pushes, size = 8, 20, 500
    session = penstock.connect(spark, checkpoint=str(tmp_path), cells=1)
    session.execute("CREATE STREAM a (ts BIGINT, x INT, s STRING, t STRING) WATERMARK ts DELAY OF INTERVAL 0")
    kept = Kept()
    session.query("SELECT x, s, t FROM a [RANGE 5]", name="q").foreach_batch(kept)
    failed: list[BaseException] = []

    def push(thread: int) -> None:
        try:
            for number in range(pushes):
                first = (thread * pushes + number) * size
                values = range(first, first + size)
                given = [{"ts": 1, "x": x, "s": f"text {x}", "t": f"{x % 977}"} for x in values]
                session.push("a", pa.Table.from_pylist(given, schema=TEXTS) if number % 2 else given)
        except BaseException as error:  # noqa: BLE001 - raised below
            failed.append(error)

    started = [threading.Thread(target=push, args=(thread,)) for thread in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    assert not failed
    run(session)
    assert kept.column("x") == list(range(threads * pushes * size))
    found = [row for step in kept.steps.values() for row in step]
    assert [row for row in found if (row["s"], row["t"]) != (f"text {row['x']}", f"{row['x'] % 977}")] == []


@pytest.mark.parametrize("run_again", [True, False], ids=["run without rows", "not run"])
def test_an_update_of_a_table_before_a_restart(spark: SparkSession, tmp_path: Path, run_again: bool) -> None:
    kept = Kept()

    def connected() -> Any:
        session = penstock.connect(spark, checkpoint=str(tmp_path), cells=2)
        session.execute(A)
        session.create_table("names", [{"k": 1, "n": "old"}])
        query = session.query("SELECT n FROM a [RANGE 10], names WHERE x = k", name="q")
        query.foreach_batch(kept)
        return session

    session = connected()
    session.push("a", [{"ts": 1, "x": 1}])
    run(session, flush=False)
    session.update_table("names", insert=[{"k": 1, "n": "new"}], delete=[{"k": 1, "n": "old"}], at=5)
    if run_again:
        run(session, flush=False)
    session = connected()
    session.push("a", [{"ts": 6, "x": 1}])
    run(session)
    assert kept.column("n") == ["new", "old"]


def test_other_cells_after_a_step_without_rows_of_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    """The streams lay out their columns differently, so that a step with rows of one lacks the time of the other."""
    kept = Kept()
    for number, streams in ((2, "a"), (3, "b"), (1, "ab")):
        session = penstock.connect(spark, checkpoint=str(tmp_path), cells=number)
        session.execute(A)
        session.execute("CREATE STREAM b (x BIGINT, ts BIGINT) WATERMARK ts DELAY OF INTERVAL 0")
        query = session.query("SELECT a.x FROM a [RANGE 100], b [RANGE 100] WHERE a.x = b.x", name="q")
        query.foreach_batch(kept)
        for stream in streams:
            first = 10 * (3 - number)
            session.push(stream, [{"ts": first + n, "x": n} for n in range(3)])
        run(session, flush=number == 1)
    assert kept.column("x") == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]


def plus(number: int) -> Callable[[int], int]:
    return lambda x: x + number


def test_a_function_that_closes_over_another_value(spark: SparkSession, tmp_path: Path) -> None:
    def start(function: Callable[[int], int]) -> None:
        session = penstock.connect(spark, checkpoint=str(tmp_path), cells=1)
        session.execute(A)
        session.create_function("f", function, returns="INT")
        session.query("SELECT f(x) AS y FROM a [RANGE 10]", name="q").foreach_batch(lambda *_: None)
        session.push("a", rows(range(3)))
        run(session)

    start(plus(1))
    start(plus(1))
    with pytest.raises(penstock.StateError, match="function f"):
        start(plus(2))


def test_rows_behind_a_silent_stream(spark: SparkSession, tmp_path: Path) -> None:
    kept = Kept()
    session = penstock.connect(spark, checkpoint=str(tmp_path), cells=1)
    session.execute(A)
    session.execute(A.replace(" a ", " silent "))
    query = session.query(
        "SELECT a.x FROM a [RANGE 5] LEFT JOIN silent [RANGE 5] ON a.x = silent.x", name="q"
    )
    query.foreach_batch(kept)
    handle = session.start(trigger={"processingTime": "0 seconds"})
    try:
        session.push("a", rows(range(1, 10)))
        handle.processAllAvailable()
        assert kept.column("x") == []
        assert handle.lastProgress["waiting"] == {"a": 9}
        assert handle.lastProgress["heldBackBy"] == "silent"
        session.advance(5, stream="silent")
        handle.processAllAvailable()
    finally:
        handle.stop()
    assert kept.column("x") == [1, 2, 3, 4, 5]


def test_a_worker_process_that_is_stopped(spark: SparkSession, tmp_path: Path) -> None:
    spark = spark.newSession()
    spark.conf.set("spark.penstock.worker.timeout", "5s")
    kept = Kept()
    session = penstock.connect(spark, checkpoint=str(tmp_path), cells=1)
    session.execute(A)
    session.query("SELECT x FROM a [RANGE 100]", name="q").foreach_batch(kept)
    handle = session.start(trigger={"processingTime": "0 seconds"})
    stopped: list[int] = []
    try:
        session.push("a", rows(range(3)))
        handle.processAllAvailable()
        stopped = worker_processes(tmp_path)
        assert stopped
        for process in stopped:
            os.kill(process, signal.SIGSTOP)
        session.push("a", rows(range(3, 6)))
        assert ends_within(60, handle.processAllAvailable)
        assert kept.column("x") == [0, 1, 2, 3, 4]
    finally:
        for process in set(stopped) & set(worker_processes(tmp_path)):
            os.kill(process, signal.SIGCONT)
        handle.stop()


def test_worker_processes_are_not_reached_in_a_directory_of_all_users(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Whoever makes a directory of a known name in the shared temporary directory first could answer for them."""
    shared = Path(tempfile.gettempdir()) / f"penstock-{os.getuid()}"
    session = penstock.connect(spark, checkpoint=str(tmp_path), cells=1)
    session.execute(A)
    session.query("SELECT x FROM a [RANGE 10]", name="q").foreach_batch(lambda *_: None)
    before = set(shared.rglob("*"))
    handle = session.start(trigger={"processingTime": "0 seconds"})
    try:
        session.push("a", rows(range(3)))
        handle.processAllAvailable()
        assert worker_processes(tmp_path)
        assert set(shared.rglob("*")) <= before
    finally:
        handle.stop()


def worker_processes(checkpoint: Path) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if "penstock.spark.worker_process" in line and f"\0{checkpoint}\0" in line:
                found.append(int(entry.name))
    return found


def ends_within(seconds: float, work: Callable[[], object]) -> bool:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()


@pytest.mark.parametrize("by", ["table", "path"])
def test_a_reader_of_a_view_that_is_replaced_meanwhile(spark: SparkSession, tmp_path: Path, by: str) -> None:
    """A reader that has looked a view up before a step reads it after: the answer of then, whole."""
    place, name = tmp_path / "view", f"replaced_{by}"
    session = penstock.connect(spark, checkpoint=str(tmp_path / "checkpoint"), cells=1)
    session.execute(A)
    query = session.query("SELECT COUNT(*) AS n, MAX(x) AS m FROM a [RANGE 1000]", name="q")
    if by == "table":
        query.to_table(name, mode="view")
    else:
        query.write(format="parquet", path=str(place), mode="view")
    for times in (range(5), range(5, 9)):
        before = None if times[0] == 0 else answer(spark, name if by == "table" else place)
        session.push("a", rows(times))
        run(session)
        if before is not None:
            assert [tuple(row) for row in before.collect()] == [(5, 4)]
    after = answer(spark, name if by == "table" else place)
    assert [tuple(row) for row in after.collect()] == [(9, 8)]


def answer(spark: SparkSession, place: str | Path) -> Any:
    frame = spark.table(place) if isinstance(place, str) else spark.read.parquet(str(place))
    frame.schema  # noqa: B018 - files are looked up here
    return frame


def test_a_view_of_a_catalog_that_forgets(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's default catalog is gone with its process; the files of its tables are not."""
    kept = tmp_path / "kept"
    for times in (range(5), range(5, 9)):
        session = penstock.connect(spark, checkpoint=str(tmp_path / "checkpoint"), cells=1)
        session.execute(A)
        query = session.query("SELECT COUNT(*) AS n FROM a [RANGE 1000]", name="q")
        query.to_table("of_a_forgetful_catalog", mode="view")
        session.push("a", rows(times))
        run(session)
        place = (
            Path(spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:")) / "of_a_forgetful_catalog"
        )
        assert [row["n"] for row in spark.table("of_a_forgetful_catalog").collect()] == [times[-1] + 1]
        if times[0] == 0:
            shutil.copytree(place, kept)
            spark.sql("DROP TABLE of_a_forgetful_catalog")
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(kept, place)
