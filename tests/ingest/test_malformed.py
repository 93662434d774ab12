"""What must not get in, and what the error says about it."""

from __future__ import annotations

import datetime as dt
import decimal
import random
import struct
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from penstock.errors import DataError
from penstock.ingest.convert import read_rows
from penstock.state.strings import Strings
from penstock.types.data_type import Type
from penstock.types.schema import Field

SCHEMA = (Field("ts", Type.BIGINT), Field("x", Type.INT), Field("s", Type.STRING))


def one(kind: Type, value: object, column: str = "v") -> Any:
    return (Field(column, kind),), [{column: value}]


def arrow_text(payload: bytes) -> pa.Array:
    offsets = pa.py_buffer(struct.pack("<ii", 0, len(payload)))
    return pa.StringArray.from_buffers(1, offsets, pa.py_buffer(payload))


class Odd:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


ROWS: list[tuple[object, str]] = [
    (None, "rows cannot be read from None"),
    (5, "rows cannot be read from a int"),
    ("ts,x,s", "rows cannot be read from a str"),
    (iter([{}]), "rows cannot be read from a list_iterator"),
    (object(), "rows cannot be read from a object"),
    ([5], "row 0 is a int, not a dict"),
    ([{"ts": 1, "x": 2, "s": "a"}, None], "row 1 is None"),
    ([{"ts": 1, "x": 2}], "row 0: column s is missing"),
    ([{"ts": 1, "x": 2, "s": "a", "z": 0}], "row 0: there is no column z"),
    ([{"ts": 1, "x": 2, 3: "a"}], "row 0: a column's name is a int"),
    ([{"ts": 1, "x": 2, "s": "a"}, {"ts": 1, "x": "2", "s": "a"}], "row 1, column x: '2' (str) does not fit INT"),
    ([{"ts": 1, "x": 2.0, "s": "a"}], "row 0, column x: 2.0 (float) does not fit INT"),
    ([{"ts": 1, "x": True, "s": "a"}], "row 0, column x: True (bool) does not fit INT"),
    ([{"ts": 1, "x": 5_000_000_000, "s": "a"}], "row 0, column x: 5000000000 does not fit INT"),
    ([{"ts": 10**30, "x": 1, "s": "a"}], "row 0, column ts: 1000000000000000000000000000000 does not fit BIGINT"),
    ([{"ts": None, "x": 1, "s": "a"}], "row 0, column ts: NULL in the time column"),
    ([{"ts": 2**62, "x": 1, "s": "a"}], "row 0, column ts: 4611686018427387904 is out of range"),
    ([{"ts": 1, "x": 1, "s": b"a"}], "row 0, column s: b'a' (bytes) does not fit STRING"),
    ([{"ts": 1, "x": 1, "s": "\ud800"}], "row 0, column s: '\\ud800' is not valid Unicode"),
    ([{"ts": 1, "x": 1, "s": 1}], "row 0, column s: 1 (int) does not fit STRING"),
    ([{"ts": 1, "x": [1], "s": "a"}], "row 0, column x: [1] (list) does not fit INT"),
    ([{"ts": 1, "x": Odd(), "s": "a"}], "row 0, column x: a value (Odd) does not fit INT"),
    ([{"ts": 1, "x": 1, "s": "a"}, {"ts": 1, "X": 1, "x": 1}], "row 1: column x is there twice"),
    ({"ts": [1], "x": [1]}, "column s is missing"),
    ({"ts": [1], "x": [1], "s": ["a"], 4: [1]}, "a column's name is a int"),
    ({"ts": [1], "x": [1, 2], "s": ["a"]}, "columns differ in length: ts has 1, x has 2, s has 1"),
    ({"ts": [1], "x": 1, "s": ["a"]}, "column x: a int is not a column"),
    ({"ts": [1], "x": np.zeros((1, 1), np.int32), "s": ["a"]}, "an array of 2 dimensions"),
    ({"ts": [1], "x": np.array([1.0]), "s": ["a"]}, "column x: Arrow type double does not fit INT"),
    ({"ts": [1], "x": np.array([1 + 2j]), "s": ["a"]}, "column x: "),
    (pa.table({"ts": [1], "x": [1]}), "column s is missing"),
    (pa.table({"ts": [1], "x": [1], "s": ["a"], "y": [1]}), "there is no column y"),
    (pa.table([pa.array([1]), pa.array([1]), pa.array(["a"])], names=["ts", "x", "X"]), "column X is there twice"),
    (pa.table({"ts": [1, 2], "x": [1, 2**31], "s": ["a", "b"]}), "row 1, column x: 2147483648 does not fit INT"),
    (pa.table({"ts": [1], "x": [1.0], "s": ["a"]}), "column x: Arrow type double does not fit INT"),
    (pa.table({"ts": [1], "x": ["1"], "s": ["a"]}), "column x: Arrow type string does not fit INT"),
    (pa.table({"ts": [1], "x": [[1]], "s": ["a"]}), "column x: Arrow type list"),
    (pa.table({"ts": [1], "x": [{"a": 1}], "s": ["a"]}), "column x: Arrow type struct"),
    (pa.table({"ts": [1], "x": [decimal.Decimal(1)], "s": ["a"]}), "column x: Arrow type decimal"),
    (pa.table({"ts": [1], "x": [1], "s": [b"a"]}), "column s: Arrow type binary does not fit STRING"),
    (pa.table({"ts": [1], "x": [1], "s": arrow_text(b"\xff\xfe")}), "column s: not valid UTF-8"),
    (pa.table({"ts": [1], "x": [1], "s": arrow_text(b"\xed\xa0\x80")}), "column s: not valid UTF-8"),
    (pa.table({"ts": pa.array([2**63], pa.uint64()), "x": [1], "s": ["a"]}), "9223372036854775808 does not fit BIGINT"),
    (pa.table({"ts": pa.array([1, None]), "x": [1, 1], "s": ["a", "b"]}), "row 1, column ts: NULL in the time"),
    (pd.DataFrame({"ts": [1], "x": [1]}), "column s is missing"),
    (pd.DataFrame({"ts": [1, 2], "x": [1, None], "s": ["a", "b"]}), "use Int64"),
    (pd.DataFrame({"ts": [1, 2], "x": pd.Series([1, "a"], dtype=object), "s": ["a", "b"]}), "row 1, column x: 'a'"),
    (pd.DataFrame([[1, 1, "a"]]), "a column's name is a int"),
    (pd.DataFrame([[1, 1, 2]], columns=["ts", "x", "x"]), "column x is there twice"),
]  # fmt: skip


def test_a_frame_without_rows_is_no_rows_whatever_types_pandas_gave_it() -> None:
    frame = pd.DataFrame({"ts": [], "x": [], "s": []}, dtype="float64")
    assert [len(column) for column in read_rows(frame, SCHEMA, Strings(), frozenset({0}))] == [0, 0, 0]


@pytest.mark.parametrize(("data", "message"), ROWS, ids=range(len(ROWS)))
def test_refused_rows(data: object, message: str) -> None:
    with pytest.raises(DataError) as error:
        read_rows(data, SCHEMA, Strings(), frozenset({0}))
    assert message in str(error.value)


VALUES: list[tuple[Type, object, str]] = [
    (Type.BOOLEAN, 1, "1 (int) does not fit BOOLEAN"),
    (Type.TINYINT, 128, "128 does not fit TINYINT"),
    (Type.SMALLINT, -32769, "-32769 does not fit SMALLINT"),
    (Type.FLOAT, 1e300, "1e+300 does not fit FLOAT"),
    (Type.DOUBLE, True, "True (bool) does not fit DOUBLE"),
    (Type.DOUBLE, "1", "'1' (str) does not fit DOUBLE"),
    (Type.DOUBLE, 10**400, "does not fit DOUBLE"),
    (Type.DOUBLE, decimal.Decimal(1), "Decimal('1') (Decimal) does not fit DOUBLE"),
    (Type.TIMESTAMP, 5, "5 (int) does not fit TIMESTAMP"),
    (Type.TIMESTAMP, "2024-01-01", "'2024-01-01' (str) does not fit TIMESTAMP"),
    (Type.TIMESTAMP, dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=5))), "outside the years 1 to 9999"),
    (Type.DATE, dt.datetime(2024, 1, 1), "does not fit DATE"),
    (Type.DATE, 5, "5 (int) does not fit DATE"),
    (Type.INTERVAL, 5, "5 (int) does not fit INTERVAL"),
    (Type.INTERVAL, dt.timedelta.max, "does not fit INTERVAL"),
    (Type.INT, np.float64(1), "does not fit INT"),
    (Type.INT, np.True_, "does not fit INT"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "message"), VALUES, ids=lambda v: str(v)[:20])
def test_refused_values(kind: Type, value: object, message: str) -> None:
    schema, rows = one(kind, value)
    with pytest.raises(DataError) as error:
        read_rows(rows, schema, Strings())
    assert f"row 0, column v: {message}" in str(error.value) or message in str(error.value)
    assert "row 0, column v" in str(error.value)


def test_timestamps_out_of_range_in_arrow() -> None:
    far = pa.array([0, 2**62], pa.int64())
    for unit in ("s", "ms", "us"):
        with pytest.raises(DataError, match=r"row 1, column v: .* outside the years 1 to 9999"):
            read_rows({"v": far.cast(pa.timestamp(unit))}, (Field("v", Type.TIMESTAMP),), Strings())


def test_a_refusal_leaves_no_trace_in_the_names_it_lists() -> None:
    with pytest.raises(DataError) as error:
        read_rows([{"ts": 1}], SCHEMA, Strings())
    assert "expected columns: ts BIGINT, x INT, s STRING" in str(error.value)


def junk(rng: random.Random, depth: int = 0) -> Any:
    leaves = [
        None, True, 0, -1, 2**31, 10**30, 1.5, float("nan"), "a", "\ud800", b"x", dt.datetime(2024, 1, 1),
        dt.date(2024, 1, 1), dt.timedelta(1), decimal.Decimal("1.5"), object(), Odd(), np.int8(3), np.float32(1),
        np.datetime64("2024-01-01"), np.datetime64("NaT"), pd.NaT, pd.NA, pd.Timestamp("2024-01-01", tz="UTC"),
        pd.Timedelta(5), 1j, ..., int, range(3), np.array([1, 2]), pa.scalar(5),
    ]  # fmt: skip
    pick = rng.random()
    if depth > 2 or pick < 0.5:
        return rng.choice(leaves)
    keys = ["ts", "x", "s", "TS", "z", 5, None]
    if pick < 0.75:
        return {key: junk(rng, depth + 1) for key in rng.sample(keys, rng.choice((2, 3, 3, 4)))}
    if pick < 0.9:
        return [junk(rng, depth + 1) for _ in range(rng.randrange(4))]
    values = [junk(rng, depth + 3) for _ in range(rng.randrange(3))]
    try:
        return rng.choice((pa.array, np.array, pd.Series, tuple))(values)
    except Exception:  # noqa: BLE001 - what cannot be built cannot be sent
        return values


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [k for k in Type if k is not Type.NULL])
def test_anything_is_read_or_refused(kind: Type) -> None:
    """Only DataError comes out, whatever goes in; what is read has the declared dtype."""
    rng = random.Random(str(kind))
    schema = (Field("ts", Type.BIGINT), Field("x", kind))
    strings = Strings()
    read = 0
    for _ in range(400):
        shape = rng.randrange(4)
        value = junk(rng, 2)
        data = (
            [{"ts": 1, "x": value}, {"x": junk(rng, 2), "ts": rng.choice((1, value))}] if shape == 0
            else [{"ts": 1, "x": value}] if shape == 1
            else {"ts": [1], "x": junk(rng, 1)} if shape == 2
            else junk(rng)
        )  # fmt: skip
        try:
            columns = read_rows(data, schema, strings, frozenset({0}))
        except DataError as error:
            assert str(error)  # noqa: PT017
        else:
            read += 1
            assert [c.values.dtype for c in columns] == [f.type.dtype for f in schema]
            assert len({len(c) for c in columns}) == 1
    assert read > 0
