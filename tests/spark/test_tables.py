"""Tables of a flow: what they hold after a restart, and from which instant an update holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import penstock

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
