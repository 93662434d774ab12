"""Threads share an embedded session: every call is whole, and answers are those of some order of the calls."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

import penstock

THREADS, PUSHES, ROWS = 4, 30, 50


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Threads take turns after microseconds."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_all_calls_at_once() -> None:
    session = penstock.connect()
    session.execute("CREATE STREAM a (ts BIGINT, s STRING) WATERMARK ts DELAY OF INTERVAL 1000")
    session.execute("CREATE TABLE names (k STRING)")
    query = session.query("SELECT s FROM a [RANGE 5]", name="first")
    failed: list[BaseException] = []
    found: Counter[str] = Counter()

    def push(thread: int) -> None:
        for number in range(PUSHES):
            texts = [f"{thread} {number} {row}" for row in range(ROWS)]
            session.push("a", {"ts": [number] * ROWS, "s": texts})

    def read() -> None:
        for _ in range(PUSHES):
            found.update(query.changes().column("s").to_pylist())
            query.snapshot()
            assert query.matched >= 0 and query.size_bytes >= 0 and session.size_bytes >= 0
            query.explain()

    def declare() -> None:
        for number in range(PUSHES):
            session.query(f"SELECT s FROM a [RANGE 9] WHERE s = 'text {number}'", name=f"q{number}")
            session.explain()
            session.update_table("names", insert=[{"k": f"key {number}"}])
            session.drop(f"q{number}")
            assert "first" in session.queries

    def run(task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as error:  # noqa: BLE001 - asserted below
            failed.append(error)

    tasks = [*(lambda t=t: push(t) for t in range(THREADS)), read, declare]
    threads = [threading.Thread(target=run, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    session.advance(PUSHES)
    found.update(query.changes().column("s").to_pylist())
    assert found == Counter(
        f"{t} {n} {row}" for t in range(THREADS) for n in range(PUSHES) for row in range(ROWS)
    )
