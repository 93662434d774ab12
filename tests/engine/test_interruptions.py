"""Threads that use one session at once, and steps that are cut short: nothing is lost without a word."""

from __future__ import annotations

import threading

import pytest

import penstock

STREAMS = "; ".join(
    f"CREATE STREAM {name} (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 1000" for name in "ab"
)
ROWS = 60


def test_threads_wait_for_each_other() -> None:
    session = penstock.connect()
    session.execute(STREAMS)
    query = session.query("SELECT a.x FROM a [RANGE 5000], b [RANGE 5000] WHERE a.x = b.x")
    errors: list[BaseException] = []

    def feed(stream: str) -> None:
        try:
            for i in range(ROWS):
                session.push(stream, [{"ts": i, "x": i % 7}])
                assert query.changes().num_rows == 0
                assert session.clock < 0
        except BaseException as error:  # noqa: BLE001 - told below
            errors.append(error)

    threads = [threading.Thread(target=feed, args=(stream,)) for stream in "abab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    session.advance(ROWS)
    assert errors == []
    assert query.matched == sum((2 * len(range(x, ROWS, 7))) ** 2 for x in range(7))


@pytest.mark.parametrize("budget", [None, 100])
def test_a_session_whose_step_was_cut_short_says_so(budget: int | None) -> None:
    session = penstock.connect(budget=budget)
    session.execute(STREAMS)
    armed: list[bool] = []

    def f(x: int) -> int:
        if armed:
            raise KeyboardInterrupt
        return x

    session.create_function("f", f, returns="INT")
    session.query("SELECT f(x) AS y FROM a [RANGE 5]")
    count = session.query("SELECT COUNT(*) AS n FROM a [RANGE 50]")
    session.push("a", [{"ts": 1, "x": 1}])
    session.advance(1)
    armed.append(True)
    session.push("a", [{"ts": 2, "x": 1}])
    with pytest.raises(KeyboardInterrupt):
        session.advance(2)
    assert count.changes().column("n").to_pylist()[-1] == 1, "what was told before is handed over"
    for use in (count.changes, count.snapshot, lambda: session.advance(3), lambda: session.push("a", [])):
        with pytest.raises(penstock.StateError, match="a step was cut short by KeyboardInterrupt"):
            use()
