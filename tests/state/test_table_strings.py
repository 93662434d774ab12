"""Strings of a table update live as long as the table holds them."""

from __future__ import annotations

import pyarrow as pa

import penstock


def rows(ts: int, start: int, stop: int) -> pa.Table:
    return pa.table({"ts": [ts] * (stop - start), "k": [f"v{i}" for i in range(start, stop)]})


def test_an_update_after_many_strings_keeps_its_own() -> None:
    """Applying the rows before it freed the update's strings, and later values took their codes."""
    session = penstock.connect()
    session.execute("CREATE STREAM a (ts BIGINT, k STRING) WATERMARK ts DELAY OF INTERVAL 0")
    session.create_table("n", pa.table({"k": pa.array([], pa.string())}))
    query = session.query("SELECT a.k, n.k AS held FROM a [RANGE 1000] JOIN n ON a.k = n.k")
    session.push("a", rows(0, 0, 5000))
    session.update_table("n", insert=[{"k": "of the table"}])
    session.push("a", rows(1, 5000, 6000))
    session.push("a", [{"ts": 2, "k": "of the table"}])
    session.advance(2)
    assert query.snapshot().to_pylist() == [{"k": "of the table", "held": "of the table"}]
