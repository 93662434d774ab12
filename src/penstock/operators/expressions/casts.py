"""CAST: what does not fit or does not read as the target is NULL; floats are cut towards zero, as in Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.operators.expressions.compiled import Builder, Pair, Part, Run, partial, strict
from penstock.operators.expressions.strings import PerCode, per_code
from penstock.operators.expressions.timestamps import DAY, HOUR, MINUTE, SECOND
from penstock.plan.expressions import Call
from penstock.plan.timestamp_text import parse_timestamp
from penstock.state.arrow_columns import to_arrow
from penstock.state.strings import Strings
from penstock.types.batch import Array, Column, Mask
from penstock.types.data_type import Type

_BOUND = {Type.TINYINT: 2**7, Type.SMALLINT: 2**15, Type.INT: 2**31, Type.BIGINT: 2**63}
_WHOLE = re.compile(r"\s*([+-]?\d+)(?:\.\d*)?\s*", re.ASCII)
_REAL = re.compile(
    r"\s*[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?|nan)\s*", re.ASCII | re.IGNORECASE
)
_YES = frozenset(("true", "t", "yes", "y", "1"))
_NO = frozenset(("false", "f", "no", "n", "0"))


def builders(strings: Strings) -> dict[str, Builder]:
    def build(call: Call, parts: Sequence[Part]) -> Run:
        source, target = parts[0].type, call.type
        if target is Type.STRING:
            return _to_text(parts[0], strings)
        if source is Type.STRING:
            read = _reader(target)
            memo = PerCode(strings, target.dtype, lambda codes: read(strings.decode(codes)))
            return per_code(parts[0], memo)
        return _between(parts, source, target)

    return {"cast": build}


# ------------------------------------------------------------------ fixed width to fixed width


def _between(parts: Sequence[Part], source: Type, target: Type) -> Run:
    dtype = target.dtype
    if target is Type.BOOLEAN:
        return strict(parts, lambda a: a != 0)
    if (source, target) == (Type.DATE, Type.TIMESTAMP):
        return strict(parts, lambda a: a.astype(np.int64) * DAY)
    if (source, target) == (Type.TIMESTAMP, Type.DATE):
        return strict(parts, lambda a: (a // DAY).astype(np.int32))
    if source.is_integer and target.is_integer and _BOUND[target] < _BOUND[source]:
        low, high = -_BOUND[target], _BOUND[target] - 1
        return partial(parts, lambda a: (a.astype(dtype), (a < low) | (a > high)))
    if source.is_float and target.is_integer:
        return partial(parts, _cut(target))
    if source is Type.DOUBLE and target is Type.FLOAT:
        return partial(parts, _single)
    return strict(parts, lambda a: a.astype(dtype))


def _cut(target: Type) -> Callable[[Array], tuple[Array, Mask]]:
    bound = float(_BOUND[target])

    def function(a: Array) -> tuple[Array, Mask]:
        whole = np.trunc(a.astype(np.float64, copy=False))
        fits = (whole >= -bound) & (whole < bound)  # false for NaN
        return np.where(fits, whole, 0.0).astype(target.dtype), ~fits

    return function


def _single(a: Array) -> tuple[Array, Mask]:
    with np.errstate(over="ignore", invalid="ignore"):
        r = a.astype(np.float32)
    return r, np.isinf(r) & np.isfinite(a)


# ------------------------------------------------------------------ to text


def _to_text(part: Part, strings: Strings) -> Run:
    source, inner = part.type, part.run
    if source is Type.BOOLEAN:
        words = np.array([strings.pin("false"), strings.pin("true")], np.int32)
        return strict((part,), lambda a: words.take(a.view(np.int8)))
    write = _WRITERS.get(source)

    def run(columns: Sequence[Column], rows: int) -> Pair:
        values, valid = inner(columns, rows)
        if write is not None:
            return write(values, valid, strings), valid
        texts = to_arrow(Column(values, valid), source, strings).cast(pa.string())
        if source is Type.TIMESTAMP:
            texts = pc.replace_substring_regex(texts, pattern=r"\.?0+$", replacement="")
        return strings.encode(texts).values, valid

    return run


def _distinct(
    write: Callable[[Array], list[str]], bits: type
) -> Callable[[Array, Mask | None, Strings], Array]:
    """Text for each distinct value; floats are told apart by their bits, so that -0.0 stays itself."""

    def function(values: Array, valid: Mask | None, strings: Strings) -> Array:
        if valid is not None:
            values = np.where(valid, values, values.dtype.type(0))
        distinct: Array
        distinct, inverse = np.unique(values.view(bits), return_inverse=True)
        texts = write(distinct.view(values.dtype))
        return strings.encode(pa.array(texts, pa.string())).values.take(inverse)

    return function


def _interval_text(micros: int) -> str:
    sign, micros = ("-", -micros) if micros < 0 else ("", micros)
    fraction = micros % SECOND
    tail = f".{fraction:06d}".rstrip("0") if fraction else ""
    return f"{sign}{micros // HOUR:02d}:{micros // MINUTE % 60:02d}:{micros // SECOND % 60:02d}{tail}"


_WRITERS: dict[Type, Callable[[Array, Mask | None, Strings], Array]] = {
    Type.DOUBLE: _distinct(lambda a: [repr(v) for v in a.tolist()], np.int64),
    Type.FLOAT: _distinct(lambda a: [repr(float(str(v))) for v in a], np.int32),
    Type.INTERVAL: _distinct(lambda a: [_interval_text(v) for v in a.tolist()], np.int64),
}


# ------------------------------------------------------------------ from text


def _whole(text: str) -> int | None:
    match = _WHOLE.fullmatch(text)
    # int() refuses thousands of digits; nothing that long fits anyway.
    return int(match.group(1)) if match is not None and len(text) < 400 else None


def _real(text: str) -> float | None:
    return float(text) if _REAL.fullmatch(text) else None


def _boolean(text: str) -> bool | None:
    word = text.strip().lower()
    return True if word in _YES else False if word in _NO else None


def _date(text: str) -> int | None:
    micros = parse_timestamp(text)
    return None if micros is None else micros // DAY


def _reader(target: Type) -> Callable[[pa.StringArray], Column]:
    parse: Callable[[str], int | float | bool | None]
    if target.is_integer:
        bound = _BOUND[target]

        def parse(text: str) -> int | None:
            value = _whole(text)
            return value if value is not None and -bound <= value < bound else None

    else:
        parse = _PARSERS[target]

    def compute(texts: pa.StringArray) -> Column:
        parsed = [parse(text) for text in texts.to_pylist()]
        valid = np.array([value is not None for value in parsed], np.bool_)
        values = np.array([0 if value is None else value for value in parsed])
        if target is Type.FLOAT:
            fitted, infinite = _single(values.astype(np.float64))
            return Column(fitted, valid & ~infinite)
        return Column(values.astype(target.dtype), None if valid.all() else valid)

    return compute


_PARSERS: dict[Type, Callable[[str], int | float | bool | None]] = {
    Type.FLOAT: _real,
    Type.DOUBLE: _real,
    Type.BOOLEAN: _boolean,
    Type.TIMESTAMP: parse_timestamp,
    Type.DATE: _date,
}
