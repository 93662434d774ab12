"""What may get in comes out the same."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from penstock.ingest.convert import read_rows, write_column, write_time
from penstock.state.strings import Strings
from penstock.types.data_type import Type
from penstock.types.event_time import FOREVER
from penstock.types.schema import Field

UTC = dt.timezone.utc  # noqa: UP017 - the alias reads the same in both spellings
NOON = dt.datetime(2024, 5, 1, 12, 0, 0, 250)

GOOD: list[tuple[Type, object, list[object]]] = [
    (Type.BOOLEAN, [True, None, False], [True, None, False]),
    (Type.INT, [1, None, -5], [1, None, -5]),
    (Type.INT, pa.array([1, None, 2**31 - 1], pa.int64()), [1, None, 2**31 - 1]),
    (Type.INT, pa.array([7, 8], pa.uint8()), [7, 8]),
    (Type.INT, np.array([7, 8], np.int64), [7, 8]),
    (Type.INT, np.arange(10, dtype=np.int64)[::3], [0, 3, 6, 9]),
    (Type.INT, [np.int8(3), np.uint64(4)], [3, 4]),
    (Type.INT, pd.Series([1, None], dtype="Int64"), [1, None]),
    (Type.BIGINT, pa.array([1, 2, 3, 4]).slice(1, 2), [2, 3]),
    (Type.BIGINT, pa.chunked_array([[1], [], [2, None]]), [1, 2, None]),
    (Type.BIGINT, pa.chunked_array([], pa.int64()), []),
    (Type.BIGINT, pa.nulls(2), [None, None]),
    (Type.BIGINT, pa.array([5, 5, None]).dictionary_encode(), [5, 5, None]),
    (Type.DOUBLE, [1, 2.5, None, 10**20], [1.0, 2.5, None, 1e20]),
    (Type.DOUBLE, [np.float32(0.5), np.int64(3)], [0.5, 3.0]),
    (Type.DOUBLE, pa.array([1, 2], pa.int32()), [1.0, 2.0]),
    (Type.DOUBLE, pd.Series([1.0, math.nan]), [1.0, None]),
    (Type.FLOAT, [1.5, math.inf], [1.5, math.inf]),
    (Type.STRING, ["a", None, "", "日本"], ["a", None, "", "日本"]),
    (Type.STRING, pa.array(["a", None, "b"], pa.large_string()).slice(1), [None, "b"]),
    (Type.STRING, pa.array(["a", None, "b"], pa.string_view()), ["a", None, "b"]),
    (Type.STRING, pa.array(["a", None, "a"]).dictionary_encode().slice(1), [None, "a"]),
    (Type.STRING, pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array([None, "b"])), [None, "b", None]),
    (Type.STRING, pa.chunked_array([["a"], ["b"]]).dictionary_encode(), ["a", "b"]),
    (Type.STRING, pd.Series(["a", None]), ["a", None]),
    (Type.STRING, pd.Series(["a", "b", "a"], dtype="category"), ["a", "b", "a"]),
    (Type.STRING, np.array(["a", "bc"]), ["a", "bc"]),
    (Type.TIMESTAMP, [NOON, None, NOON.replace(tzinfo=dt.timezone(dt.timedelta(hours=2)))],
     [NOON, None, NOON - dt.timedelta(hours=2)]),
    (Type.TIMESTAMP, [pd.Timestamp(NOON), pd.NaT, np.datetime64(NOON), dt.date(2024, 5, 1)],
     [NOON, None, NOON, dt.datetime(2024, 5, 1)]),
    (Type.TIMESTAMP, pd.Series([pd.Timestamp(NOON, tz="Europe/Berlin")]), [NOON - dt.timedelta(hours=2)]),
    (Type.TIMESTAMP, pa.array([1, None], pa.timestamp("s")), [dt.datetime(1970, 1, 1, 0, 0, 1), None]),
    (Type.TIMESTAMP, pa.array([-1], pa.timestamp("ns", "UTC")), [dt.datetime(1969, 12, 31, 23, 59, 59, 999999)]),
    (Type.TIMESTAMP, pa.array([1], pa.date32()), [dt.datetime(1970, 1, 2)]),
    (Type.TIMESTAMP, np.array(["2024-05-01", "NaT"], "M8[D]"), [dt.datetime(2024, 5, 1), None]),
    (Type.DATE, [dt.date(2024, 5, 1), None], [dt.date(2024, 5, 1), None]),
    (Type.DATE, pa.array([86_400_000], pa.date64()), [dt.date(1970, 1, 2)]),
    (Type.INTERVAL, [dt.timedelta(seconds=1), None], [dt.timedelta(seconds=1), None]),
    (Type.INTERVAL, pa.array([1], pa.duration("s")), [dt.timedelta(seconds=1)]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "given", "expected"), GOOD, ids=range(len(GOOD)))
def test_columns_round_trip(kind: Type, given: object, expected: list[object]) -> None:
    strings = Strings()
    (column,) = read_rows({"V": given}, (Field("v", kind),), strings)
    assert column.values.dtype == kind.dtype
    array = write_column(column, kind, strings)
    array.validate(full=True)
    assert array.type == kind.arrow
    assert array.to_pylist() == expected


@pytest.mark.parametrize("make", [
    lambda rows: rows,
    pa.Table.from_pylist,
    lambda rows: pa.Table.from_pylist(rows).to_batches()[0],
    pd.DataFrame,
    lambda rows: {name: [row[name] for row in rows] for name in rows[0]},
    lambda rows: [{name.upper(): row[name] for name in reversed(row)} for row in rows],
])  # fmt: skip
def test_every_container_reads_the_same(make: Any) -> None:
    rows = [{"ts": 1, "x": 2, "s": "a", "d": 0.5}, {"ts": 2, "x": 3, "s": "b", "d": -1.0}]
    schema = (
        Field("ts", Type.BIGINT), Field("x", Type.INT), Field("s", Type.STRING), Field("d", Type.DOUBLE),
    )  # fmt: skip
    strings = Strings()
    columns = read_rows(make(rows), schema, strings, frozenset({0}))
    back = [write_column(c, f.type, strings).to_pylist() for c, f in zip(columns, schema, strict=True)]
    assert back == [[1, 2], [2, 3], ["a", "b"], [0.5, -1.0]]


def test_zero_rows() -> None:
    schema = (Field("ts", Type.TIMESTAMP), Field("s", Type.STRING))
    table = pa.table({"ts": pa.array([], pa.timestamp("us")), "s": pa.array([], pa.string())})
    containers: list[object] = [[], {"ts": [], "s": []}, table]
    for data in containers:
        columns = read_rows(data, schema, Strings(), frozenset({0}))
        assert [len(c) for c in columns] == [0, 0]


def test_plain_columns_are_not_copied() -> None:
    array = pa.array(np.arange(100))
    (column,) = read_rows({"v": array}, (Field("v", Type.BIGINT),), Strings())
    assert column.values.__array_interface__["data"][0] == array.buffers()[1].address
    assert write_column(column, Type.BIGINT, Strings()).buffers()[1].address == array.buffers()[1].address


def test_nan_is_a_value_in_rows() -> None:
    (column,) = read_rows([{"v": math.nan}], (Field("v", Type.DOUBLE),), Strings())
    assert column.valid is None and math.isnan(column.values[0])


def test_times_leave_with_forever_as_null() -> None:
    values = np.array([0, 5, FOREVER])
    assert write_time(values, Type.BIGINT, True).to_pylist() == [0, 5, None]
    assert write_time(values[:2], Type.TIMESTAMP, True).type == pa.timestamp("us")
    assert write_time(values[:2], Type.BIGINT, False).null_count == 0
