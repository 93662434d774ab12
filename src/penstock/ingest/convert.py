"""Where data enters and leaves: Arrow, pandas, columns or rows of Python objects.

Nothing is converted with loss and nothing is guessed: a column is found by its name (in any case), a value fits its
declared type or a `DataError` names the row (counted from 0), the column, the value and the type. Whatever else is
wrong with what was given is a `DataError` too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import DataError
from penstock.kernels.state.live_row_events import outside
from penstock.state.arena import power_of_two
from penstock.state.arrow_columns import Misfit, as_it_lies, from_arrow, from_python, to_arrow
from penstock.state.strings import Strings
from penstock.types.batch import Array, Column, Ints, is_endless
from penstock.types.data_type import Type
from penstock.types.event_time import EARLIEST, FOREVER, LATEST
from penstock.types.schema import Field, Schema

_NOTHING: frozenset[int] = frozenset()
_ACCEPTED = "give an Arrow table or batch, a pandas DataFrame, a dict of columns or a list of dicts"
_TABLES = (pa.RecordBatch, pa.Table)
FOREIGN = (
    pa.ArrowException,
    ValueError,
    TypeError,
    OverflowError,
    KeyError,
    AttributeError,
    NotImplementedError,
)
"""What Arrow and pandas raise on data they cannot read."""


def read_rows(
    data: object, schema: Schema, strings: Strings, required: frozenset[int] = _NOTHING
) -> tuple[Column, ...]:
    """The data as columns of the schema; `required` are the positions of time columns: there NULL is
    refused, and so is an instant too far out for windows to be added to it."""
    columns = _columns(data, schema, strings)
    for position in required:
        _check_time(columns[position], schema[position])
    return columns


def write_column(column: Column, kind: Type, strings: Strings) -> pa.Array:
    """A column as it leaves: no copy if it is of fixed width."""
    return to_arrow(column, kind, strings)


def write_time(values: Ints, time_type: Type, forever_is_null: bool) -> pa.Array:
    """`__ts` or `__exp`: BIGINT units or a timestamp; FOREVER leaves as NULL."""
    kind = Type.TIMESTAMP if time_type is Type.TIMESTAMP else Type.BIGINT
    valid = None
    if forever_is_null and is_endless(values):
        return _nulls(kind, power_of_two(max(len(values), 1024))).slice(0, len(values))
    if forever_is_null:
        if len(values) and values.max() == FOREVER:
            valid = values != FOREVER
    bitmap = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    payload = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind.arrow, len(values), [bitmap, payload])


@cache
def _nulls(kind: Type, rows: int) -> pa.Array:
    return pa.nulls(rows, kind.arrow)


# ------------------------------------------------------------------ kinds of containers


def _columns(data: object, schema: Schema, strings: Strings) -> tuple[Column, ...]:
    if isinstance(data, _TABLES):
        arrays = [_in_one_piece(data.column(place)) for place in _match(data.schema.names, schema)]
        columns = [as_it_lies(array, field.type) for array, field in zip(arrays, schema, strict=True)]
        return tuple(
            [
                _guarded(_read_array, array, field, strings) if column is None else column
                for column, array, field in zip(columns, arrays, schema, strict=True)
            ]
        )
    if isinstance(data, list | tuple):
        return _read_list(data, schema, strings)
    if isinstance(data, Mapping):
        return _read_mapping(data, schema, strings)
    if _is_pandas(data, "DataFrame"):
        return _read_pandas(data, schema, strings)
    raise DataError(f"rows cannot be read from {_a(data)}", hint=_ACCEPTED)


def _guarded(
    read: Callable[[Any, Type, Strings], Column], values: object, field: Field, strings: Strings
) -> Column:
    try:
        return read(values, field.type, strings)
    except Misfit as misfit:
        place = f"column {field.name}" if misfit.row is None else f"row {misfit.row}, column {field.name}"
        raise DataError(f"{place}: {misfit.why}", hint=_hint(field)) from None
    except FOREIGN as error:
        raise DataError(f"column {field.name}: {_first_line(error)}", hint=_hint(field)) from error


def _hint(field: Field) -> str:
    if field.type.is_integer:
        return f"{field.name} is declared {field.type}: send whole numbers of that range, NULL as None"
    if field.type is Type.TIMESTAMP:
        return (
            f"{field.name} is declared TIMESTAMP: send datetime objects, or columns of times"
            " (texts: pandas.to_datetime)"
        )
    return f"{field.name} is declared {field.type}"


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__


def _in_one_piece(array: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The array itself if it has one chunk, as most have."""
    return array.chunk(0) if isinstance(array, pa.ChunkedArray) and array.num_chunks == 1 else array


def _read_array(array: pa.Array | pa.ChunkedArray, kind: Type, strings: Strings) -> Column:
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):  # some types stay in chunks
            array = pa.concat_arrays(array.chunks)
    return from_arrow(array, kind, strings)


def _read_list(rows: Sequence[object], schema: Schema, strings: Strings) -> tuple[Column, ...]:
    names = [field.name for field in schema]
    width = len(names)
    try:
        if all(type(row) is dict and len(row) == width for row in rows):
            lists = [[row[name] for row in rows] for name in names]  # type: ignore[index]
        else:
            lists = _match_rows(rows, schema)
    except KeyError:
        lists = _match_rows(rows, schema)
    return tuple(
        _guarded(from_python, values, field, strings) for values, field in zip(lists, schema, strict=True)
    )


def _match_rows(rows: Sequence[object], schema: Schema) -> list[list[object]]:
    """Row by row: names in another case, and the error if that was not it."""
    lists: list[list[object]] = [[] for _ in schema]
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise DataError(f"row {number} is {_a(row)}, not a dict", hint=_ACCEPTED)
        keys = list(row)
        try:
            places = _match(keys, schema)
        except DataError as error:
            raise DataError(f"row {number}: {error.message}", hint=error.hint) from None
        for values, place in zip(lists, places, strict=True):
            values.append(row[keys[place]])
    return lists


def _read_mapping(data: Mapping[object, object], schema: Schema, strings: Strings) -> tuple[Column, ...]:
    keys = list(data)
    places = _match(keys, schema)
    columns = tuple(
        _guarded(_read_any, data[keys[place]], field, strings)
        for place, field in zip(places, schema, strict=True)
    )
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        shown = ", ".join(f"{f.name} has {len(c)}" for f, c in zip(schema, columns, strict=True))
        raise DataError(
            f"columns differ in length: {shown}", hint="give every column the same number of rows"
        )
    return columns


def _read_any(values: object, kind: Type, strings: Strings) -> Column:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return _read_array(values, kind, strings)
    if isinstance(values, np.ndarray):
        return _read_numpy(values, kind, strings)
    if isinstance(values, list | tuple | range):
        return from_python(values, kind, strings)
    if _is_pandas(values, "Series"):
        return _read_series(values, kind, strings)
    raise Misfit(
        f"{_a(values)} is not a column: give a list, an Arrow or a NumPy array; one row is a list of one dict"
    )


def _read_numpy(values: Array, kind: Type, strings: Strings) -> Column:
    if values.ndim != 1:
        raise Misfit(f"an array of {values.ndim} dimensions is not a column")
    if isinstance(values, np.ma.MaskedArray) or values.dtype.kind in "OUS":
        return from_python(values.tolist(), kind, strings)
    return from_arrow(pa.array(np.ascontiguousarray(values)), kind, strings)


def _read_pandas(frame: Any, schema: Schema, strings: Strings) -> tuple[Column, ...]:
    places = _match(list(frame.columns), schema)
    return tuple(
        _guarded(_read_series, frame.iloc[:, place], field, strings)
        for place, field in zip(places, schema, strict=True)
    )


def _read_series(series: Any, kind: Type, strings: Strings) -> Column:
    """pandas' missing values (NaN among them) are NULL."""
    if series.dtype == object:
        missing = series.isna().tolist()
        values = [None if gone else value for value, gone in zip(series.tolist(), missing, strict=True)]
        return from_python(values, kind, strings)
    array = pa.array(series, from_pandas=True)
    if not len(array):
        return from_python([], kind, strings)  # pandas gives columns without rows whatever type it likes
    if kind.is_integer and pa.types.is_floating(array.type):
        raise Misfit(f"float values do not fit {kind} (pandas makes floats of integers with gaps: use Int64)")
    return _read_array(array, kind, strings)


# ------------------------------------------------------------------ names


def _match(given: Sequence[object], schema: Schema) -> list[int]:
    """For each field its position in what was given; names match in any case."""
    if given == [field.name for field in schema]:
        return list(range(len(schema)))
    expected = "expected columns: " + ", ".join(str(field) for field in schema)
    places: dict[str, int] = {}
    for place, name in enumerate(given):
        if not isinstance(name, str):
            raise DataError(f"a column's name is {_a(name)}, not a string", hint=expected)
        if name.lower() in places:
            raise DataError(f"column {name} is there twice", hint=expected)
        places[name.lower()] = place
    for field in schema:
        if field.name.lower() not in places:
            raise DataError(f"column {field.name} is missing", hint=f"{expected}; send None for NULL")
    if len(places) > len(schema):
        known = {field.name.lower() for field in schema}
        extra = next(name for name in given if str(name).lower() not in known)
        raise DataError(f"there is no column {extra}", hint=expected)
    return [places[field.name.lower()] for field in schema]


def _is_pandas(value: object, name: str) -> bool:
    """Without importing pandas, which need not be there: if it is not loaded, this is not from it."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, getattr(pandas, name))


def _a(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


# ------------------------------------------------------------------ time columns


def _check_time(column: Column, field: Field) -> None:
    values, valid = column.values, column.valid
    if valid is not None and not valid.all():
        row = int((~valid).argmax())
        raise DataError(
            f"row {row}, column {field.name}: NULL in the time column", hint="every row needs a time"
        )
    row = outside(values, EARLIEST, LATEST) if field.type is Type.BIGINT else -1
    if row >= 0:
        raise DataError(
            f"row {row}, column {field.name}: {values[row]} is out of range for a time",
            hint="times lie between -2^61 and 2^61",
        )
