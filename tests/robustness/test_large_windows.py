"""Windows and instants larger than the sizes at which state and outputs grow."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import penstock

RANGE = 1000
INSTANTS = (499, 1124, 1249)
QUERIES = {
    "distinct": "SELECT DISTINCT v FROM a {w}",
    "left join": "SELECT a.x, b.x AS y FROM a {w} LEFT JOIN b {w} ON a.v = b.v",
    "full join": "SELECT a.x, b.x AS y FROM a {w} FULL JOIN b {w} ON a.v = b.v",
    "except": "SELECT v FROM a {w} EXCEPT SELECT v FROM b {w}",
    "intersect": "SELECT v FROM a {w} INTERSECT SELECT v FROM b {w}",
    "not exists": "SELECT x FROM a {w} WHERE NOT EXISTS (SELECT 1 FROM b {w} WHERE a.v = b.v)",
    "group by": "SELECT v, COUNT(*) AS n, MAX(x) AS m FROM a {w} GROUP BY v",
}


def _rows(n: int, rng: np.random.Generator) -> pa.Table:
    """Every value twice, in random places."""
    return pa.table(
        {
            "ts": np.arange(n) // 400,
            "x": np.arange(n, dtype=np.int32),
            "v": (rng.permutation(n) // 2).astype(np.int32),
        }
    )


def _session(**options: Any) -> penstock.Session:
    session = penstock.connect(**options)
    for name in "ab":
        session.execute(f"CREATE STREAM {name} (ts BIGINT, x INT, v INT) WATERMARK ts DELAY OF INTERVAL 0")
    return session


def _differences(sql: str, streams: dict[str, pa.Table], at: int, got: pa.Table) -> tuple[int, int]:
    """Rows that the answer has too many and too few, by DuckDB over the rows alive at `at`."""
    with duckdb.connect() as con:
        con.register("got", got)
        for name, rows in streams.items():
            con.register(f"all_{name}", rows)
            con.execute(
                f"CREATE VIEW {name} AS SELECT * FROM all_{name} WHERE ts <= {at} AND ts + {RANGE} > {at}"
            )
        want = sql.format(w="")
        count = "SELECT count(*) FROM ({} EXCEPT ALL {})".format
        extra = con.sql(count("FROM got", f"({want})")).fetchall()[0][0]
        missing = con.sql(count(f"({want})", "FROM got")).fetchall()[0][0]
        return extra, missing


@pytest.mark.parametrize("options", [{}, {"eager": 1}], ids=["default", "eager"])
@pytest.mark.parametrize("name", QUERIES)
def test_answers_over_large_windows_equal_duckdb(name: str, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(1)
    session = _session(**options)
    query = session.query(QUERIES[name].format(w=f"[RANGE {RANGE}]"), name="q")
    session.query("SELECT x FROM b [RANGE 10]", name="beside")
    streams = {stream: _rows(200_000, rng) for stream in "ab"}
    for stream, rows in streams.items():
        session.push(stream, rows)
    for at in INSTANTS:
        session.advance(at)
        assert _differences(QUERIES[name], streams, at, query.snapshot()) == (0, 0), at


@pytest.mark.parametrize("rows", [100, 200, 300, 1000])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT v FROM a [RANGE 10]",
        "SELECT v FROM a [RANGE 10] INTERSECT SELECT v FROM b [RANGE 10]",
        "SELECT v FROM a [RANGE 10] EXCEPT SELECT v FROM b [RANGE 2]",
    ],
)
def test_values_shown_in_an_instant_larger_than_the_first_output_buffer_are_followed_up(
    sql: str, rows: int
) -> None:
    """All values of an instant are scheduled for their next change, also when the output grew in it."""
    session = _session(eager=1)
    query = session.query(sql, name="q")
    values = np.arange(rows, dtype=np.int32)
    for ts in (0, 5):
        for stream in "ab":
            session.push(stream, pa.table({"ts": np.full(rows, ts), "x": values, "v": values}))
    for at in (8, 9, 12, 14):  # the rows of instant 0 end at 10, those of instant 5 at 15
        session.advance(at)
        assert sorted(query.snapshot()["v"].to_pylist()) == values.tolist(), at
    session.advance(15)
    assert query.snapshot().num_rows == 0
