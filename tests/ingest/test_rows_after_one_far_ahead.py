"""One row with a time far in the future does not make those after it late."""

from __future__ import annotations

import datetime as dt
import warnings

import penstock


def test_ten_thousand_rows_after_one_of_the_year_2200() -> None:
    now = dt.datetime.now(dt.UTC).replace(tzinfo=None, microsecond=0)
    session = penstock.connect()
    session.execute("CREATE STREAM a (ts TIMESTAMP, x INT) WATERMARK ts DELAY OF INTERVAL 5 SECONDS")
    query = session.query("SELECT COUNT(*) AS n FROM a [UNBOUNDED]")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for start in (0, 1):
            session.push("a", [{"ts": now + dt.timedelta(seconds=start), "x": start}])
            if not start:
                session.push("a", [{"ts": dt.datetime(2200, 1, 1), "x": -1}])
        rows = [{"ts": now + dt.timedelta(seconds=2 + i), "x": i} for i in range(10_000)]
        session.push("a", rows)
        session.advance(now + dt.timedelta(days=1))
    assert session.late("a").num_rows == 0
    assert query.snapshot().to_pylist() == [{"n": 10_002}]
