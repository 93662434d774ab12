"""Queries over a table that is still empty: planned, replanned once its size is known, and right when rows come."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import penstock

TWICE = "SELECT r.x FROM a [RANGE 10] JOIN r ON a.x = r.x JOIN r AS r2 ON a.x = r2.x"


@pytest.mark.parametrize(
    ("sql", "answer"),
    [
        ("SELECT x FROM a [RANGE 10] WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.x = a.x)", {4}),
        (
            "SELECT x FROM a [RANGE 10] WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.x = a.x AND r.x IN (3, 5))",
            {4},
        ),
        (f"SELECT v.x FROM ({TWICE}) AS v WHERE NOT EXISTS (SELECT 1 FROM r AS s WHERE s.x = v.x)", set()),
        (f"SELECT v.x FROM ({TWICE}) AS v WHERE NOT EXISTS (SELECT 1 FROM r AS s WHERE s.x = v.x + 1)", {3}),
        ("SELECT DISTINCT r.x FROM a [RANGE 10] JOIN r ON a.x = r.x", {3}),
    ],
)
def test_answers(sql: str, answer: set[int]) -> None:
    session = penstock.connect()
    session.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
    session.create_table("r", pa.schema([("x", pa.int32())]).empty_table(), retroactive=True)
    query = session.query(sql)
    for start in range(0, 100_000, 20_000):  # enough for another plan to be looked for
        times = np.arange(start, start + 20_000) // 4
        session.push("a", {"ts": times, "x": np.arange(20_000, dtype=np.int32) % 7})
    session.update_table("r", insert=[{"x": 3}])
    session.push("a", [{"ts": 30_000, "x": 3}, {"ts": 30_001, "x": 4}])
    session.advance(30_001)
    assert {row["x"] for row in query.snapshot().to_pylist()} == answer
