"""What is declared in another order is the same; a step that is asked for again is the step that was decided."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.spark.driver import Flow

QUERIES = {
    "of a": "SELECT x, COUNT(*) AS n FROM a [RANGE 10] GROUP BY x",
    "both": "SELECT x FROM a [RANGE 10] EXCEPT SELECT y FROM b [RANGE 10]",
    "of b": "SELECT DISTINCT y FROM b [RANGE 10]",
}


class Crash(Exception):
    """What a killed driver looks like from within."""


@pytest.mark.parametrize("crash", [False, True])
def test_another_order_after_a_restart(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crash: bool
) -> None:
    """Also when the flow was stopped between deciding a step and asking the cells for it."""
    found: dict[int, list[Any]] = {}

    def started(order: int) -> Any:
        session = penstock.connect(spark, checkpoint=str(tmp_path / "checkpoint"), cells=2)
        streams = ["a (ts BIGINT, x INT)", "b (y INT, ts BIGINT)"][::order]
        session.execute(";".join(f"CREATE STREAM {s} WATERMARK ts DELAY OF INTERVAL 5" for s in streams))
        for name, text in list(QUERIES.items())[::order]:
            session.query(text, name=name)
        session.foreach_batch(lambda frame, step: found.update({step: frame.collect()}))
        return session

    def step(session: Any, first: int, *, flush: bool) -> None:
        for ts in range(first, first + 10):
            session.push("a", [{"ts": ts, "x": ts % 3}])
            session.push("b", [{"ts": ts, "y": ts % 5}])
        handle = session.start(trigger={"availableNow": True}, flush=flush)
        try:
            handle.awaitTermination()
        finally:
            handle.stop()

    step(started(1), 0, flush=False)
    with monkeypatch.context() as patch:
        if crash:
            patch.setattr(Flow, "_ask", crashing)
        with pytest.raises(penstock.StateError, match="the flow failed") if crash else nullcontext():
            step(started(1), 10, flush=False)
    step(started(-1), 20, flush=True)

    here = penstock.connect()
    here.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 5")
    here.execute("CREATE STREAM b (y INT, ts BIGINT) WATERMARK ts DELAY OF INTERVAL 5")
    queries = {name: here.query(text, name=name) for name, text in QUERIES.items()}
    here.push("a", [{"ts": ts, "x": ts % 3} for ts in range(30)])
    here.push("b", [{"ts": ts, "y": ts % 5} for ts in range(30)])
    here.advance(29)
    for name, query in queries.items():
        expected = query.changes()
        got = [tuple(row[c] for c in expected.column_names)
               for rows in found.values() for row in rows if row["__query"] == name]  # fmt: skip
        assert sorted(got) == sorted(tuple(row.values()) for row in expected.to_pylist()), name


def crashing(*_: Any) -> Any:
    raise Crash
