"""Malformed rows through the session: refused with their place, and nothing of them is applied.

Two sessions get the same good pushes; one also gets bad ones in between, made by spoiling good rows. Both must
answer alike all the time. PENSTOCK_FUZZ_ROWS says how many spoiled rows are tried.
"""

from __future__ import annotations

import datetime as dt
import decimal
import os
import random
from collections.abc import Callable

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import penstock

ROWS = int(os.environ.get("PENSTOCK_FUZZ_ROWS", "20000"))
PUSH = 50

COLUMNS = {
    "ts": pa.int64(), "i": pa.int32(), "b": pa.int64(), "d": pa.float64(), "s": pa.string(), "f": pa.bool_(),
    "o": pa.int8(), "t": pa.timestamp("us"), "e": pa.date32(),
}  # fmt: skip

SCHEMA = """(ts BIGINT, i INT, b BIGINT, d DOUBLE, s STRING, f BOOLEAN, o TINYINT, t TIMESTAMP, e DATE)
    WATERMARK ts DELAY OF INTERVAL 3"""

QUERIES = [
    "SELECT i, s, d, f, t, e FROM a [RANGE 6]",
    "SELECT s, COUNT(*) AS n, SUM(b) AS u, MAX(d) AS m, MIN(t) AS t FROM a [RANGE 6] GROUP BY s",
    "SELECT l.s, r.o FROM a [RANGE 4] AS l, a [RANGE 3] AS r WHERE l.i = r.i",
    "SELECT DISTINCT s, o FROM a [ROWS 30]",
    "SELECT a.s, n.v FROM a [RANGE 4], n WHERE a.i = n.k",
]

Row = dict[str, object]


def good_row(rng: random.Random, ts: int) -> Row:
    return {
        "ts": ts,
        "i": rng.choice([None, *range(5)]),
        "b": rng.choice([0, 1, -1, 2**62, -(2**62)]),
        "d": rng.choice([None, 0.5, -1.0, 1e300]),
        "s": rng.choice([None, "", "x", "é€𝄞", f"s{ts}"]),
        "f": rng.choice([None, True, False]),
        "o": rng.randrange(-128, 128),
        "t": dt.datetime(2026, 1, 1, 0, 0, ts % 60),
        "e": rng.choice([None, dt.date(2026, 1, 1)]),
    }


class Odd:
    """An object no type takes, whose methods all fail."""

    def __int__(self) -> int:
        raise RuntimeError("asked for an int")

    def __len__(self) -> int:
        raise RuntimeError("asked for a length")

    def __bool__(self) -> bool:
        raise RuntimeError("asked for a truth")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("compared")

    __hash__ = object.__hash__


NESTED: list[object] = [[], [1], {"a": {"b": [1]}}, (1, 2), {1}, object(), Odd(), b"\xff\xfe", 1j]
VALUES: dict[str, list[object]] = {
    "ts": [None, "5", 1.5, float("nan"), 2**63, 2**61, -(2**63), -(2**61) - 1, 10**40, True, dt.datetime(2026, 1, 1)],
    "i": [2**31, -(2**31) - 1, "1", 1.0, float("nan"), decimal.Decimal(1), True, "", dt.date(2026, 1, 1)],
    "b": [2**63, -(2**63) - 1, "x", 0.5, float("inf"), decimal.Decimal("1.5")],
    "d": ["1.5", True, 10**400, decimal.Decimal("NaN"), dt.timedelta(1)],
    "s": [5, 1.5, True, b"bytes", "\ud800", "ok\udfff", dt.date(2026, 1, 1), decimal.Decimal(1)],
    "f": [0, 1, "true", 1.0, np.int8(1)],
    "o": [128, -129, 1.5, "1", np.int64(300)],
    "t": [5, "2026-01-01", 1.5, True],
    "e": [5, "2026-01-01", 20000.5, True],
}  # fmt: skip


def spoil_value(rng: random.Random, rows: list[Row]) -> tuple[object, str]:
    at, column = rng.randrange(len(rows)), rng.choice(list(VALUES))
    rows[at][column] = rng.choice(VALUES[column] + NESTED)
    return rows, f"row {at}, column {column}"


def spoil_columns(rng: random.Random, rows: list[Row]) -> tuple[object, str]:
    """The same, handed over as a dict of lists."""
    spoiled, place = spoil_value(rng, rows)
    assert isinstance(spoiled, list)
    return {c: [row[c] for row in spoiled] for c in COLUMNS}, place


def lose_column(rng: random.Random, rows: list[Row]) -> tuple[object, str]:
    at, column = rng.randrange(len(rows)), rng.choice(list(COLUMNS))
    del rows[at][column]
    return rows, f"row {at}: column {column} is missing"


def add_column(rng: random.Random, rows: list[Row]) -> tuple[object, str]:
    at = rng.randrange(len(rows))
    rows[at][rng.choice(["extra", "TS ", "__op", ""])] = 1
    return rows, f"row {at}: there is no column"


def odd_key(rng: random.Random, rows: list[Row]) -> tuple[object, str]:
    at = rng.randrange(len(rows))
    rows[at][rng.choice([5, None, (1,), b"ts"])] = 1  # type: ignore[index]
    return rows, f"row {at}: a column's name"


def double_key(rng: random.Random, rows: list[Row]) -> tuple[object, str]:
    at = rng.randrange(len(rows))
    rows[at]["TS"] = 1
    return rows, f"row {at}: column TS is there twice"


def odd_row(rng: random.Random, rows: list[Row]) -> tuple[object, str]:
    at = rng.randrange(len(rows))
    mixed: list[object] = list(rows)
    mixed[at] = rng.choice([None, 5, "row", [1], (1, 2), b"", Odd(), list(rows[at].items())])
    return mixed, f"row {at} is "


def ragged(rng: random.Random, rows: list[Row]) -> tuple[object, str]:
    columns = {c: [row[c] for row in rows] for c in COLUMNS}
    columns[rng.choice(list(COLUMNS))].pop()
    return columns, "columns differ in length"


def odd_column(rng: random.Random, rows: list[Row]) -> tuple[object, str]:
    columns: dict[str, object] = {c: [row[c] for row in rows] for c in COLUMNS}
    column = rng.choice(list(COLUMNS))
    columns[column] = rng.choice([None, 5, "text", {1: 2}, np.zeros((2, 2)), Odd(), iter([1])])
    return columns, f"column {column}"


def arrow_type(rng: random.Random, rows: list[Row]) -> tuple[object, str]:
    column = rng.choice(list(COLUMNS))
    table = pa.Table.from_pylist(rows, schema=pa.schema(COLUMNS))
    wrong = {
        "i": pa.array([2**40] * len(rows)), "b": pa.array([2**64 - 1] * len(rows), pa.uint64()),
        "d": pa.array([decimal.Decimal(1)] * len(rows)), "s": pa.array([b"\xff"] * len(rows)),
        "f": pa.array([1] * len(rows)), "o": pa.array([1.0] * len(rows)), "t": pa.array([1] * len(rows)),
        "e": pa.array(["x"] * len(rows)), "ts": pa.array([None] * len(rows), pa.int64()),
    }  # fmt: skip
    return table.set_column(table.column_names.index(column), column, wrong[column]), f"column {column}"


def broken_utf8(rng: random.Random, rows: list[Row]) -> tuple[object, str]:
    n = len(rows)
    payload = bytes([0x61] * (n - 1) + [0xC3])
    places = np.arange(n + 1, dtype=np.int32)
    column = pa.StringArray.from_buffers(n, pa.py_buffer(places), pa.py_buffer(payload))
    table = pa.Table.from_pylist(rows, schema=pa.schema(COLUMNS))
    return table.set_column(table.column_names.index("s"), "s", column), "column s: not valid UTF-8"


def pandas_floats(rng: random.Random, rows: list[Row]) -> tuple[object, str]:
    """Integers with gaps become floats in pandas."""
    rows[0]["i"] = None
    rows[1]["i"] = 1
    frame = pd.DataFrame({c: [row[c] for row in rows] for c in COLUMNS})
    return frame.astype({"i": "float64"}), "column i: float values"


def odd_container(rng: random.Random, rows: list[Row]) -> tuple[object, str]:
    kinds = [
        None,
        5,
        "rows",
        b"rows",
        {1, 2},
        iter(rows),
        np.zeros(3),
        pa.array([1]),
        object(),
        Odd(),
        rows[0].items(),
    ]
    return rng.choice(kinds), "rows cannot be read from"


SPOILERS: list[Callable[[random.Random, list[Row]], tuple[object, str]]] = [
    spoil_value, spoil_value, spoil_columns, lose_column, add_column, odd_key, double_key, odd_row, ragged,
    odd_column, arrow_type, broken_utf8, pandas_floats, odd_container,
]  # fmt: skip


def connected() -> penstock.Session:
    s = penstock.connect()
    s.execute(f"CREATE STREAM a {SCHEMA}")
    s.create_table("n", [{"k": 1, "v": "one"}, {"k": 2, "v": "two"}])
    for text in QUERIES:
        s.query(text)
    return s


def answers(s: penstock.Session) -> object:
    """A snapshot is a bag: its order depends on when ended rows were let go."""
    return s.clock, [
        (q.changes().to_pylist(), sorted(map(str, q.snapshot().to_pylist()))) for q in s.queries.values()
    ]


@pytest.mark.slow
def test_spoiled_rows_are_refused_and_leave_no_trace() -> None:
    rng = random.Random(20260131)
    fuzzed, twin = connected(), connected()
    tried = push = 0
    while tried < ROWS:
        push += 1
        good = [good_row(rng, 2 * push + rng.randrange(4)) for _ in range(rng.choice([1, 2, 5]))]
        rows = [good_row(rng, 2 * push + rng.randrange(4)) for _ in range(rng.choice([2, 3, PUSH]))]
        tried += len(rows)
        spoil = rng.choice(SPOILERS)
        spoiled, place = spoil(rng, rows)
        watermark = fuzzed.engine.sources["a"].watermark
        with pytest.raises(penstock.DataError) as caught:
            fuzzed.push("a", spoiled)
        assert place in str(caught.value), (spoil.__name__, str(caught.value))
        assert fuzzed.engine.sources["a"].watermark == watermark
        for s in (fuzzed, twin):
            s.push("a", good)
        if push % 5 == 0:
            assert answers(fuzzed) == answers(twin)
    for s in (fuzzed, twin):
        s.advance(10**6)
    assert answers(fuzzed) == answers(twin)
    assert fuzzed.late("a").equals(twin.late("a"))
    assert fuzzed.size_bytes == twin.size_bytes


def test_spoiled_updates_leave_the_table_as_it_was() -> None:
    rng = random.Random(5)
    fuzzed, twin = connected(), connected()
    bad = [
        {"insert": [{"k": "x", "v": "y"}]}, {"insert": [{"k": 1}]}, {"delete": [{"k": 9, "v": "none"}]},
        {"insert": [{"k": 3, "v": "x"}], "delete": [{"k": 9, "v": "none"}]}, {"insert": 5}, {"delete": "x"},
        {"insert": [{"k": 3, "v": "x"}], "at": -5}, {"insert": [{"k": 3, "v": "x"}], "at": "soon"},
        {"delete": [{"k": 1, "v": "one"}] * 2},
    ]  # fmt: skip
    for at in range(60):
        with pytest.raises(penstock.DataError):
            fuzzed.update_table("n", **rng.choice(bad))  # type: ignore[arg-type]
        for s in (fuzzed, twin):
            s.push("a", [good_row(random.Random(at), at)])
        assert answers(fuzzed) == answers(twin)
