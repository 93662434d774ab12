"""Outer joins on Spark, with plain tables that change between steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import penstock

QUERY = (
    "SELECT a.x, n, b.ts AS t FROM a [RANGE 2] LEFT JOIN names ON a.x = k LEFT JOIN b [RANGE 2] ON a.x = b.x"
)


def declared(session: Any) -> Any:
    for name in "ab":
        session.execute(f"CREATE STREAM {name} (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
    session.create_table("names", [{"k": 1, "n": "one"}])
    return session.query(QUERY, name="q")


def pushed(session: Any, ts: int) -> None:
    session.push("a", [{"ts": ts, "x": x} for x in (1, 2)])
    session.push("b", [{"ts": ts, "x": ts}])


def updated(session: Any) -> None:
    session.update_table("names", insert=[{"k": 2, "n": "two"}], delete=[{"k": 1, "n": "one"}], at=2)


def told(rows: Iterable[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((r["__ts"], r["__op"], r["x"], r["n"] or "", r["t"] or 0, r["__exp"]) for r in rows)


def test_rows_keep_what_they_found_in_a_plain_table(spark: SparkSession, tmp_path: Path) -> None:
    """Over cells and a restart, below an outer join of streams: the changes of an embedded session."""
    found: dict[int, list[Any]] = {}

    def started() -> Any:
        session = penstock.connect(spark, checkpoint=str(tmp_path / "checkpoint"), cells=2)
        declared(session).foreach_batch(lambda frame, step: found.update({step: frame.collect()}))
        return session

    def fed(session: Any, ts: int, *, flush: bool = False) -> None:
        pushed(session, ts)
        handle = session.start(trigger={"availableNow": True}, flush=flush)
        handle.awaitTermination()
        handle.stop()

    session = started()
    fed(session, 1)
    updated(session)
    session = started()
    fed(session, 2)
    fed(session, 3, flush=True)

    here = penstock.connect()
    query = declared(here)
    pushed(here, 1)
    updated(here)
    pushed(here, 2)
    pushed(here, 3)
    here.advance(3)
    expected = told(query.changes().to_pylist())
    assert told(row for rows in found.values() for row in rows) == expected
    assert {(1, 2, ""), (2, 1, ""), (2, 2, "two")} <= {(ts, x, n) for ts, _, x, n, *_ in expected}
