"""Threads share a session on Spark: rows arrive as they were pushed, declarations one after the other."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import penstock

THREADS, PUSHES, ROWS = 6, 40, 100


@pytest.fixture
def often() -> Iterator[None]:
    """Threads take turns after microseconds."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(*tasks: Callable[[], None]) -> None:
    """Run in a thread each; raises what any of them raised."""
    failed: list[BaseException] = []

    def run(task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as error:  # noqa: BLE001 - raised below
            failed.append(error)

    threads = [threading.Thread(target=run, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


@pytest.mark.usefixtures("often")
def test_threads_push_while_others_declare(spark: SparkSession, tmp_path: Path) -> None:
    session = penstock.connect(spark, checkpoint=str(tmp_path), cells=1)
    session.execute("CREATE STREAM a (ts BIGINT, s STRING, t STRING) WATERMARK ts DELAY OF INTERVAL 0")
    session.execute("CREATE TABLE names (k STRING, n STRING)")
    session.query("SELECT s FROM a [RANGE 5]", name="first")

    def push(thread: int) -> None:
        for number in range(PUSHES):
            texts = [f"{thread} {number} {row}" for row in range(ROWS)]
            session.push("a", {"ts": [number] * ROWS, "s": texts, "t": texts[::-1]})

    def refused() -> None:
        for number in range(PUSHES):
            with pytest.raises(penstock.DataError):
                session.push("a", [{"ts": None, "s": f"refused {number}", "t": "x"}])

    def declare() -> None:
        for number in range(PUSHES // 4):
            session.query(f"SELECT s FROM a [RANGE 9] WHERE t = 'text {number}'", name=f"q{number}")
            session.explain()
            session.drop(f"q{number}")

    def update(thread: int) -> None:
        for number in range(PUSHES):
            session.update_table("names", insert=[{"k": f"{thread}", "n": f"{thread} {number}"}])

    updates = [lambda thread=thread: update(thread) for thread in range(3)]
    together(*(lambda thread=t: push(thread) for t in range(THREADS)), *updates, refused, declare)
    found: Counter[Any] = Counter()
    for file in session.flow.store.pushed("a").glob("*.parquet"):
        rows = pq.read_table(file).to_pylist()
        assert [row["t"] for row in rows] == [row["s"] for row in rows][::-1]
        found.update((row["ts"], row["s"]) for row in rows)
    pushed = [(n, f"{t} {n} {row}") for t in range(THREADS) for n in range(PUSHES) for row in range(ROWS)]
    assert found == Counter(pushed)
    told = [
        tables["insert"].to_pylist()[0]
        for tables in session.flow._updates.of(session.catalog.tables["names"])
    ]
    assert Counter(row["n"] for row in told) == Counter(f"{t} {n}" for t in range(3) for n in range(PUSHES))
    assert all(row["n"].startswith(row["k"]) for row in told)
    assert list(session.queries) == ["first"]


@pytest.mark.usefixtures("often")
def test_threads_use_a_session_while_steps_run(spark: SparkSession, tmp_path: Path) -> None:
    """Sinks use it, too: whoever waits for a step does not hold what the step waits for."""
    session = penstock.connect(spark, checkpoint=str(tmp_path), cells=1)
    session.execute("CREATE STREAM a (ts BIGINT, s STRING) WATERMARK ts DELAY OF INTERVAL 0")
    found: list[str] = []

    def sink(frame: Any, step: int) -> None:
        found.extend(row["s"] for row in frame.collect())
        assert session.queries["first"].matched >= 0
        session.explain()

    session.query("SELECT s FROM a [RANGE 5]", name="first").foreach_batch(sink)
    handle = session.start(trigger={"processingTime": "0 seconds"})

    def push(thread: int) -> None:
        for number in range(10):
            session.push("a", [{"ts": 1000, "s": f"{thread} {number}"}])

    def declare(thread: int) -> None:
        for number in range(3):
            session.query(f"SELECT s FROM a [RANGE {number + 6}]", name=f"q{thread}{number}").drop()

    together(*(lambda t=t: push(t) for t in range(3)), *(lambda t=t: declare(t) for t in range(2)))
    session.push("a", [{"ts": 1001, "s": "last"}])
    handle.processAllAvailable()
    handle.stop()
    assert sorted(found) == sorted(f"{t} {n}" for t in range(3) for n in range(10))
