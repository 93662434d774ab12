"""What users hand to a session's methods, checked: names, flags, times, delays, and the columns of data."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from penstock.errors import BindError, DataError, StateError
from penstock.ingest.convert import FOREIGN
from penstock.types import names
from penstock.types.event_time import MICROSECONDS


def microseconds(value: dt.datetime | str) -> int:
    """An instant in microseconds since 1970; a zone, if there is one, is taken into account."""
    if isinstance(value, str):
        try:
            value = dt.datetime.fromisoformat(value)
        except ValueError:
            raise DataError(f"{value!r} is not a time", hint="write 2026-01-31T12:00:00") from None
    since = value.replace(tzinfo=None) - dt.datetime(1970, 1, 1) - (value.utcoffset() or dt.timedelta())
    return since // dt.timedelta(microseconds=1)


def interval(value: str, what: str) -> int:
    """A length of time in microseconds.

    >>> interval("50 milliseconds", "a budget")
    50000
    """
    number, _, unit = value.strip().upper().partition(" ")
    length = MICROSECONDS.get(unit.strip()) or MICROSECONDS.get(unit.strip().removesuffix("S"))
    if not number.isdecimal() or length is None or int(number) == 0:
        raise StateError(f"{value!r} is not {what}", hint="give a length of time, like '50 milliseconds'")
    return int(number) * length


def sql_text(value: object, method: str) -> str:
    if not isinstance(value, str):
        raise StateError(f"{method} takes SQL text, not {type(value).__name__}")
    return value


def checked_name(value: object, what: str) -> str:
    wrong = names.fault(value) if isinstance(value, str) else "a name is a string"
    if wrong is not None:
        said = ascii(value)
        said = said if len(said) <= 80 else said[:76] + " ..."
        raise BindError(
            f"{said} is not a name for {what}: {wrong}",
            hint="names are strings of printable characters, no control or direction marks",
        )
    assert isinstance(value, str)
    return value


def flag(value: object, what: str) -> bool:
    if not isinstance(value, bool):
        raise StateError(f"{what}={value!r} is neither True nor False")
    return value


def delay_clause(value: object, time_type: str, what: str = "a delay") -> str:
    """A number counts the stream's time units: microseconds for TIMESTAMP."""
    if isinstance(value, dt.timedelta):
        return f"INTERVAL {value // dt.timedelta(microseconds=1)} MICROSECONDS"
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return f"INTERVAL {value} MICROSECONDS" if time_type == "TIMESTAMP" else f"INTERVAL {value}"
    if isinstance(value, str) and _AMOUNT.fullmatch(value.upper().removeprefix("INTERVAL").strip()):
        return f"INTERVAL {value.upper().removeprefix('INTERVAL').strip()}"
    raise BindError(f"{value!r} is not {what}", hint="give a number of time units, or '5 seconds'")


def watermark_clauses(unit: object, ahead: object, idle: object, time_type: str) -> str:
    """The clauses of WATERMARK after the delay, from arguments."""
    found = ""
    if unit is not None:
        if not isinstance(unit, str) or not unit.isalpha():
            raise BindError(f"{unit!r} is not a unit of time", hint="seconds, milliseconds or microseconds")
        found += f" UNIT {unit.upper()}"
    if isinstance(ahead, str) and ahead.upper() == "UNLIMITED":
        found += " AHEAD UNLIMITED"
    elif ahead is not None:
        found += f" AHEAD AT MOST {delay_clause(ahead, time_type, 'a time ahead')}"
    if idle is not None:
        if isinstance(idle, int | np.integer) and not isinstance(idle, bool):
            raise BindError(f"idle={idle!r} has no unit", hint="give a length of time, like '30 seconds'")
        found += f" IDLE AFTER {delay_clause(idle, time_type, 'a length of time')}"
    return found


def quoted_name(name: object, what: str) -> str:
    return "`" + checked_name(name, what).replace("`", "``") + "`"


_NAMED = [
    (pa.types.is_boolean, "BOOLEAN"), (pa.types.is_int8, "TINYINT"), (pa.types.is_int16, "SMALLINT"),
    (pa.types.is_uint8, "SMALLINT"), (pa.types.is_int32, "INT"), (pa.types.is_uint16, "INT"),
    (pa.types.is_integer, "BIGINT"), (pa.types.is_float32, "FLOAT"), (pa.types.is_floating, "DOUBLE"),
    (pa.types.is_timestamp, "TIMESTAMP"), (pa.types.is_date, "DATE"),
    (pa.types.is_string, "STRING"), (pa.types.is_large_string, "STRING"),
    (pa.types.is_string_view, "STRING"),
]  # fmt: skip


_AMOUNT = re.compile(r"\s*\d+(\s+[A-Za-z]+)?\s*")
_TYPE = re.compile(r"\s*[A-Za-z_]+\s*(\(\s*\d+\s*\))?\s*")


def column_clauses(name: str, data: object, types: Mapping[str, str] | None = None) -> str:
    """The columns of a declaration, from data or from a schema; of some the types are given."""
    columns = []
    for column, found in _declared(data):
        kind = (types or {}).get(column, found)
        quoted = quoted_name(column, "a column")
        if not _TYPE.fullmatch(kind):
            raise BindError(f"column {column}: {kind!r} is not a type")
        columns.append(f"{quoted} {kind}")
    if not columns:
        raise DataError(f"{name} has no columns", hint="give rows, a schema, or {column: type}")
    return ", ".join(columns)


def is_schema(data: object) -> bool:
    """Whether there are columns and types only, no rows."""
    if isinstance(data, Mapping):
        return bool(data) and all(isinstance(v, str) for v in data.values())
    return isinstance(data, pa.Schema)


def must_be_empty(name: str, data: object) -> None:
    """Refuse rows where only columns are read: they would be lost without a word."""
    if is_schema(data):
        return
    count = data.num_rows if isinstance(data, pa.Table | pa.RecordBatch) else len(data)  # type: ignore[arg-type]
    if isinstance(data, Mapping):
        count = pa.table(dict(data)).num_rows
    if count:
        raise DataError(
            f"stream {name}: there are {count:,} rows, and create_stream takes columns only",
            hint=f"give a schema or {{column: type}}, and then the rows: s.push({name!r}, rows)",
        )


def _declared(data: object) -> Iterator[tuple[str, str]]:
    """Column names and SQL types of a schema, a frame, or rows."""
    if isinstance(data, Mapping) and is_schema(data):
        yield from data.items()
        return
    for field in _arrow_schema(data):
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        named = next((sql for test, sql in _NAMED if test(kind)), None)
        if named is None:
            raise DataError(f"column {field.name} has type {field.type}, which has no SQL type here")
        yield field.name, named


def _arrow_schema(data: object) -> pa.Schema:
    try:
        if isinstance(data, pa.Schema):
            return data
        if isinstance(data, pa.Table | pa.RecordBatch):
            return data.schema
        if isinstance(data, list):
            return pa.Table.from_pylist(data).schema
        if isinstance(data, Mapping):
            return pa.table(dict(data)).schema
        return pa.Schema.from_pandas(data, preserve_index=False)
    except FOREIGN as error:
        raise DataError(f"no column types can be read from {type(data).__name__}: {error}") from None
