"""What users of other engines type first: the error says how it is written here."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import pandas as pd
import pyarrow as pa
import pytest

import penstock

NOON = dt.datetime(2026, 1, 1, 12)


@pytest.fixture
def session() -> penstock.Session:
    made = penstock.connect()
    made.execute("CREATE STREAM o (ts TIMESTAMP, k INT) WATERMARK ts DELAY OF INTERVAL 0 SECONDS")
    return made


@pytest.mark.parametrize(
    ("statement", "hint"),
    [
        (
            "SELECT window(ts, '1 minute'), COUNT(*) AS n FROM o GROUP BY window(ts, '1 minute')",
            r"windows are written behind a stream: FROM s \[RANGE 5 MINUTES SLIDE 5 MINUTES\]",
        ),
        ("SELECT k FROM o [TUMBLE 1 MINUTE]", "a tumbling window slides by its length"),
    ],
)
def test_windows_of_other_dialects(session: penstock.Session, statement: str, hint: str) -> None:
    with pytest.raises(penstock.ParseError, match=hint):
        session.query(statement)


def test_the_tumbling_window_that_the_hint_names_works(session: penstock.Session) -> None:
    query = session.query("SELECT k, COUNT(*) AS n FROM o [RANGE 5 MINUTES SLIDE 5 MINUTES] GROUP BY k")
    session.push("o", [{"ts": NOON, "k": 1}, {"ts": NOON + dt.timedelta(minutes=1), "k": 1}])
    session.advance(NOON + dt.timedelta(minutes=5))
    assert query.snapshot().to_pylist() == [{"k": 1, "n": 1}]


def test_times_as_texts(session: penstock.Session) -> None:
    with pytest.raises(penstock.DataError, match=r"send datetime objects.*pandas.to_datetime"):
        session.push("o", [{"ts": "2026-01-01 12:00:00", "k": 1}])


def test_one_row_as_a_dict(session: penstock.Session) -> None:
    with pytest.raises(penstock.DataError, match="one row is a list of one dict"):
        session.push("o", {"ts": NOON, "k": 1})


@pytest.mark.parametrize("given", [pa.table, pd.DataFrame, dict, lambda rows: pa.table(rows).to_pylist()])
def test_a_stream_declared_with_rows(session: penstock.Session, given: Callable[..., object]) -> None:
    """They would be lost without a word: the rows of a stream are pushed."""
    rows = {"ts": [NOON], "k": [1]}
    with pytest.raises(penstock.DataError, match=r"stream p: there are 1 rows.*s\.push\('p', rows\)"):
        session.create_stream("p", given(rows), time="ts")
    assert "p" not in session.catalog.streams
    session.create_stream("p", pa.table(rows).schema, time="ts")
    query = session.query("SELECT k FROM p [RANGE 1 MINUTE]")
    session.push("p", pa.table(rows))
    session.advance(NOON)
    assert query.snapshot().to_pylist() == [{"k": 1}]


@pytest.mark.parametrize(
    "given", [lambda s: s, lambda s: s.empty_table(), lambda s: s.empty_table().to_pandas()]
)
def test_a_stream_declared_with_columns(session: penstock.Session, given: Callable[..., object]) -> None:
    session.create_stream("p", given(pa.schema({"ts": pa.timestamp("us"), "k": pa.int32()})), time="ts")
    assert [f.name for f in session.catalog.streams["p"].schema] == ["ts", "k"]
