"""Columns to Arrow and back, without silent loss.

What comes in may be narrower or wider than declared; a value that does not fit raises `Misfit`, which knows
the row. Ints fit floats and dates fit timestamps; a float is rounded to FLOAT and nanoseconds are cut to
microseconds, because that is what those types mean; nothing else changes its value.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from penstock.state.strings import Strings, validity
from penstock.types.batch import Array, Column, Mask
from penstock.types.data_type import Type
from penstock.types.event_time import EPOCH, FIRST_MICROSECOND, LAST_MICROSECOND

DAY = 86_400_000_000
_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_INT64 = np.iinfo(np.int64)
_GREATEST = {Type.TINYINT: 2**7 - 1, Type.SMALLINT: 2**15 - 1, Type.INT: 2**31 - 1, Type.BIGINT: 2**63 - 1}


class Misfit(Exception):  # noqa: N818 - a finding, turned into a DataError by whoever knows the place
    """A value (or, with row None, a whole column) that does not fit the declared type."""

    def __init__(self, why: str, row: int | None = None) -> None:
        self.why = why
        self.row = row
        super().__init__(why)


# ------------------------------------------------------------------ out


def to_arrow(column: Column, kind: Type, strings: Strings) -> pa.Array:
    """The column as an Arrow array; without a copy if it is of fixed width."""
    values, valid = column.values, column.valid
    if kind is Type.STRING:
        return strings.decode(values, valid)
    rows = len(values)
    if kind is Type.NULL:
        return pa.nulls(rows)
    if kind is Type.BOOLEAN:
        payload = np.packbits(values, bitorder="little")
    else:
        payload = np.ascontiguousarray(values, kind.dtype)
    bitmap = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind.arrow, rows, [bitmap, pa.py_buffer(payload)])


# ------------------------------------------------------------------ in, from Arrow


def as_it_lies(array: pa.Array | pa.ChunkedArray, kind: Type) -> Column | None:
    """Numbers of the declared type in one piece, none of them NULL, without a copy; else None.

    Arrow's memory is lent for good if nobody can write to it: so it is with what was read from a socket, a file or another
    process, and with read-only NumPy arrays. Other columns are read-only, and what they lie in may change.
    """
    if isinstance(array, pa.Array) and kind.is_numeric and array.type == kind.arrow and not array.null_count:
        payload = array.buffers()[1]
        if payload is None or payload.is_mutable or not len(array):
            return Column(seen(array, kind.dtype))
        return Column(np.asarray(_Lent(payload, kind.dtype, len(array), array.offset)), lent=True)
    return None


def seen(array: pa.Array, dtype: np.dtype[np.generic]) -> Array:
    """Numbers without NULLs, read-only and without a copy; Arrow's own `to_numpy` loads pandas for that, where it is installed."""
    found = raw(array, dtype)
    found.flags.writeable = False
    return found


class _Lent:
    """Memory as NumPy sees it, held by the array that is made of it. It is called writable, because kernels are compiled for such
    arrays; nothing writes to what was pushed."""

    __slots__ = ("__array_interface__", "_payload")

    def __init__(self, payload: pa.Buffer, dtype: np.dtype[np.generic], rows: int, offset: int) -> None:
        self._payload = payload
        self.__array_interface__ = {
            "data": (payload.address + offset * dtype.itemsize, False),
            "shape": (rows,),
            "typestr": dtype.str,
            "version": 3,
        }


def from_arrow(array: pa.Array, kind: Type, strings: Strings) -> Column:
    """The array as a column of the declared type; plain ones without a copy (read-only then)."""
    plain = as_it_lies(array, kind)
    if plain is not None:
        return plain
    source = array.type
    if pa.types.is_null(source):
        return Column(np.zeros(len(array), kind.dtype), np.zeros(len(array), np.bool_))
    if kind is Type.STRING:
        return _strings(array, strings)
    if pa.types.is_dictionary(source):
        array = array.cast(source.value_type)
        source = array.type
    reader = _READERS.get(kind)
    if reader is None:
        raise Misfit(f"{kind} columns cannot be fed")
    return reader(array, source, kind)


def _strings(array: pa.Array, strings: Strings) -> Column:
    source = array.type
    inner = source.value_type if pa.types.is_dictionary(source) else source
    if pa.types.is_string_view(inner):
        _utf8(array.dictionary if inner is not source else array)
        array = array.cast(pa.large_string())
    elif not (pa.types.is_string(inner) or pa.types.is_large_string(inner)):
        raise Misfit(_no_way(source, Type.STRING))
    else:
        _utf8(array.dictionary if inner is not source else array)
    return strings.encode(array)


def _utf8(array: pa.Array) -> None:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise Misfit(f"not valid UTF-8 ({error})") from None


def _no_way(source: pa.DataType, kind: Type) -> str:
    return f"Arrow type {source} does not fit {kind}"


def raw(array: pa.Array, dtype: np.dtype[np.generic] | type[np.generic]) -> Array:
    """The payload as it lies there, NULL or not."""
    width = np.dtype(dtype).itemsize
    payload = array.buffers()[1]
    if payload is None or len(array) == 0:
        return np.zeros(len(array), dtype)
    return np.frombuffer(payload, dtype, len(array), array.offset * width)


def _first(bad: Mask, valid: Mask | None) -> int | None:
    """The first row that is bad and not NULL."""
    if valid is not None:
        bad = bad & valid
    return int(bad.argmax()) if bad.any() else None


def _read_boolean(array: pa.Array, source: pa.DataType, kind: Type) -> Column:
    if not pa.types.is_boolean(source):
        raise Misfit(_no_way(source, kind))
    payload = array.buffers()[1]
    if payload is None or len(array) == 0:
        return Column(np.zeros(len(array), np.bool_), validity(array))
    stop = array.offset + len(array)
    bits = np.unpackbits(np.frombuffer(payload, np.uint8), count=stop, bitorder="little")
    return Column(bits[array.offset :].view(np.bool_), validity(array))


def _read_integer(array: pa.Array, source: pa.DataType, kind: Type) -> Column:
    if not pa.types.is_integer(source):
        raise Misfit(_no_way(source, kind))
    given = raw(array, np.dtype(source.to_pandas_dtype()))
    valid = validity(array)
    return Column(narrow(given, valid, kind), valid)


def narrow(given: Array, valid: Mask | None, kind: Type) -> Array:
    """Integers in the declared width, each checked."""
    dtype = kind.dtype
    if given.dtype == dtype:
        return given
    fitted = given.astype(dtype)
    wraps = given.dtype == np.uint64  # compared with int64 it would become a float
    bad = given > np.uint64(_GREATEST[kind]) if wraps else fitted != given
    row = _first(bad, valid)
    if row is not None:
        raise Misfit(f"{given[row]} does not fit {kind}", row)
    return fitted


def _read_float(array: pa.Array, source: pa.DataType, kind: Type) -> Column:
    if not (pa.types.is_integer(source) or pa.types.is_floating(source)):
        raise Misfit(_no_way(source, kind))
    given = raw(array, np.dtype(source.to_pandas_dtype()))
    valid = validity(array)
    return Column(round_float(given, valid, kind), valid)


def round_float(given: Array, valid: Mask | None, kind: Type) -> Array:
    """Numbers as floats; one that would become infinite is refused."""
    if given.dtype == kind.dtype:
        return given
    with np.errstate(over="ignore"):
        fitted = given.astype(kind.dtype)
    if kind is Type.FLOAT and given.dtype == np.float64:
        row = _first(np.isinf(fitted) & np.isfinite(given), valid)
        if row is not None:
            raise Misfit(f"{given[row]} does not fit FLOAT", row)
    return fitted


def _read_timestamp(array: pa.Array, source: pa.DataType, kind: Type) -> Column:
    valid = validity(array)
    if pa.types.is_timestamp(source):
        return Column(instants(raw(array, np.int64), source.unit, valid), valid)
    if pa.types.is_date(source):
        days = _read_date(array, source, Type.DATE)
        return Column(days.values.astype(np.int64) * DAY, valid)
    raise Misfit(_no_way(source, kind))


def instants(given: Array, unit: str, valid: Mask | None) -> Array:
    """Counts of a unit since 1970 as microseconds in the range of TIMESTAMP."""
    if unit == "ns":
        return given // 1000  # int64 nanoseconds are always in range
    scale = _MICROSECONDS[unit]
    if len(given) and (
        given.min() * 1.0 * scale < FIRST_MICROSECOND or given.max() * 1.0 * scale > LAST_MICROSECOND
    ):
        bad = (given < -(-FIRST_MICROSECOND // scale)) | (given > LAST_MICROSECOND // scale)
        row = _first(bad, valid)
        if row is not None:
            raise Misfit(f"{given[row]} {unit} since 1970 is outside the years 1 to 9999", row)
        given = np.where(bad, 0, given)
    return given if scale == 1 else given * scale


def _read_date(array: pa.Array, source: pa.DataType, kind: Type) -> Column:
    valid = validity(array)
    if pa.types.is_date32(source):
        days = raw(array, np.int32)
    elif pa.types.is_date64(source):
        days = raw(array, np.int64) // 86_400_000
    else:
        raise Misfit(_no_way(source, kind))
    low, high = FIRST_MICROSECOND // DAY, LAST_MICROSECOND // DAY
    if len(days) and (days.min() < low or days.max() > high):
        bad = (days < low) | (days > high)
        row = _first(bad, valid)
        if row is not None:
            raise Misfit(f"{days[row]} days since 1970 is outside the years 1 to 9999", row)
        days = np.where(bad, 0, days)
    return Column(days.astype(np.int32, copy=False), valid)


def _read_interval(array: pa.Array, source: pa.DataType, kind: Type) -> Column:
    if not pa.types.is_duration(source):
        raise Misfit(_no_way(source, kind))
    given, valid = raw(array, np.int64), validity(array)
    if source.unit == "ns":
        return Column(given // 1000, valid)
    scale = _MICROSECONDS[source.unit]
    limit = _INT64.max // scale
    bad = (given > limit) | (given < -limit)
    row = _first(bad, valid)
    if row is not None:
        raise Misfit(f"{given[row]} {source.unit} does not fit INTERVAL", row)
    return Column(given if scale == 1 else np.where(bad, 0, given) * scale, valid)


_Reader = Callable[[pa.Array, pa.DataType, Type], Column]
_READERS: dict[Type, _Reader] = {
    Type.BOOLEAN: _read_boolean,
    Type.TINYINT: _read_integer,
    Type.SMALLINT: _read_integer,
    Type.INT: _read_integer,
    Type.BIGINT: _read_integer,
    Type.FLOAT: _read_float,
    Type.DOUBLE: _read_float,
    Type.TIMESTAMP: _read_timestamp,
    Type.DATE: _read_date,
    Type.INTERVAL: _read_interval,
}


# ------------------------------------------------------------------ in, from Python objects


def from_python(values: Sequence[object], kind: Type, strings: Strings) -> Column:
    """Python values (None is NULL) as a column. Types are looked at per distinct type, not per value;
    only a list with something unusual in it is walked."""
    kinds = set(map(type, values))
    nulls = type(None) in kinds
    if nulls:
        kinds.discard(type(None))
    if not kinds <= _PLAIN[kind]:
        values = [_usual(value, kind, row) for row, value in enumerate(values)]
        nulls = any(value is None for value in values)
    valid = np.array([value is not None for value in values], np.bool_) if nulls else None
    if kind is Type.STRING:
        try:
            if len(values) <= 2:  # a row or two: Arrow would cost more than it saves
                codes = [0 if text is None else strings.code(text) for text in values]  # type: ignore[arg-type]
                return Column(np.array(codes, np.int32), valid)
            return strings.encode(pa.array(values, pa.string()))
        except UnicodeEncodeError:
            for row, value in enumerate(values):
                if isinstance(value, str) and not _encodable(value):
                    raise Misfit(f"{value!r} is not valid Unicode", row) from None
            raise
    if nulls:
        values = [_ZERO[kind] if value is None else value for value in values]
    return Column(_BUILD[kind](values, kind), valid)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _usual(value: object, kind: Type, row: int) -> object:
    """NumPy scalars, pandas values and subclasses as the plain Python value the builder expects."""
    if value is None or type(value) in _PLAIN[kind]:
        return value
    module = type(value).__module__
    if module.startswith("pandas") and str(value) in ("NaT", "<NA>"):
        return None
    if isinstance(value, np.datetime64 | np.timedelta64):
        if np.isnat(value):
            return None
        wanted = Type.TIMESTAMP if isinstance(value, np.datetime64) else Type.INTERVAL
        plain = value.astype("M8[us]" if wanted is Type.TIMESTAMP else "m8[us]").item()
        if wanted is kind and isinstance(plain, dt.datetime | dt.timedelta):
            return plain
    elif isinstance(value, np.generic):
        plain = value.item()
        if type(plain) in _PLAIN[kind]:
            return plain
    elif isinstance(value, _BASES[kind]) and not (
        isinstance(value, bool) or (kind is Type.DATE and isinstance(value, dt.datetime))
    ):
        return value
    raise Misfit(f"{_brief(value)} ({type(value).__name__}) does not fit {kind}", row)


def _brief(value: object) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a foreign object's repr may do anything; the row is refused all the same
        text = "a value"
    return text if len(text) <= 60 else text[:57] + "..."


def _build_integers(values: Sequence[object], kind: Type) -> Array:
    try:
        return narrow(np.array(values, np.int64), None, kind)
    except OverflowError:
        for row, value in enumerate(values):
            if isinstance(value, int) and not _INT64.min <= value <= _INT64.max:
                raise Misfit(f"{_brief(value)} does not fit {kind}", row) from None
        raise


def _build_floats(values: Sequence[object], kind: Type) -> Array:
    try:
        return round_float(np.array(values, np.float64), None, kind)
    except OverflowError:
        for row, value in enumerate(values):
            if isinstance(value, int) and abs(value) > 2**1023:
                raise Misfit(f"{_brief(value)} does not fit {kind}", row) from None
        raise


def _build_booleans(values: Sequence[object], kind: Type) -> Array:
    return np.array(values, kind.dtype)


def _build_instants(values: Sequence[object], kind: Type) -> Array:
    out = np.empty(len(values), kind.dtype)
    for row, value in enumerate(values):
        try:
            out[row] = _instant(value)
        except (OverflowError, ValueError):
            raise Misfit(f"{_brief(value)} is outside the years 1 to 9999", row) from None
    return out


def _instant(value: object) -> int:
    if not isinstance(value, dt.datetime):
        assert isinstance(value, dt.date)
        return (value.toordinal() - EPOCH.toordinal()) * DAY
    offset = value.utcoffset()
    apart = value.replace(tzinfo=None) - EPOCH
    if offset is not None:
        apart -= offset
    micros = (apart.days * 86_400 + apart.seconds) * 1_000_000 + apart.microseconds
    if not FIRST_MICROSECOND <= micros <= LAST_MICROSECOND:
        raise OverflowError
    return micros


def _build_dates(values: Sequence[object], kind: Type) -> Array:
    first = EPOCH.toordinal()
    return np.array([v.toordinal() - first for v in values if isinstance(v, dt.date)], kind.dtype)


def _build_intervals(values: Sequence[object], kind: Type) -> Array:
    out = np.empty(len(values), kind.dtype)
    for row, v in enumerate(values):
        assert isinstance(v, dt.timedelta)
        micros = (v.days * 86_400 + v.seconds) * 1_000_000 + v.microseconds
        if not _INT64.min <= micros <= _INT64.max:
            raise Misfit(f"{_brief(v)} does not fit {kind}", row)
        out[row] = micros
    return out


_INTS = frozenset({int})
_PLAIN: dict[Type, frozenset[type]] = {
    Type.BOOLEAN: frozenset({bool}),
    Type.TINYINT: _INTS,
    Type.SMALLINT: _INTS,
    Type.INT: _INTS,
    Type.BIGINT: _INTS,
    Type.FLOAT: frozenset({float, int}),
    Type.DOUBLE: frozenset({float, int}),
    Type.STRING: frozenset({str}),
    Type.TIMESTAMP: frozenset({dt.datetime, dt.date}),
    Type.DATE: frozenset({dt.date}),
    Type.INTERVAL: frozenset({dt.timedelta}),
    Type.NULL: frozenset(),
}
_BASES: dict[Type, tuple[type, ...]] = {kind: tuple(plain) for kind, plain in _PLAIN.items()}
_ZERO: dict[Type, object] = {
    **dict.fromkeys(_PLAIN, 0),
    Type.BOOLEAN: False,
    Type.TIMESTAMP: EPOCH,
    Type.DATE: EPOCH.date(),
    Type.INTERVAL: dt.timedelta(0),
}
_BUILD: dict[Type, Callable[[Sequence[object], Type], Array]] = {
    Type.BOOLEAN: _build_booleans,
    **dict.fromkeys((Type.TINYINT, Type.SMALLINT, Type.INT, Type.BIGINT), _build_integers),
    **dict.fromkeys((Type.FLOAT, Type.DOUBLE), _build_floats),
    Type.TIMESTAMP: _build_instants,
    Type.DATE: _build_dates,
    Type.INTERVAL: _build_intervals,
}
