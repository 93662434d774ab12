"""Types, units and windows: from words to numbers, checked against how the stream counts time."""

from __future__ import annotations

import re

from penstock.errors import BindError
from penstock.plan.catalog import UNLIMITED
from penstock.plan.windows import Range, Unbounded, Window
from penstock.sql.parser.ast import Amount, Name, WatermarkSyntax, WindowSyntax
from penstock.sql.parser.source_text import Source, Span
from penstock.types.data_type import Type
from penstock.types.event_time import LATEST, MICROSECONDS

_TYPES = {
    "BOOLEAN": Type.BOOLEAN, "BOOL": Type.BOOLEAN,
    "TINYINT": Type.TINYINT, "BYTE": Type.TINYINT, "Y": Type.TINYINT,
    "SMALLINT": Type.SMALLINT, "SHORT": Type.SMALLINT, "S": Type.SMALLINT,
    "INT": Type.INT, "INTEGER": Type.INT,
    "BIGINT": Type.BIGINT, "LONG": Type.BIGINT, "L": Type.BIGINT,
    "FLOAT": Type.FLOAT, "REAL": Type.FLOAT, "F": Type.FLOAT,
    "DOUBLE": Type.DOUBLE, "D": Type.DOUBLE,
    "STRING": Type.STRING, "VARCHAR": Type.STRING, "TEXT": Type.STRING,
    "TIMESTAMP": Type.TIMESTAMP, "TIMESTAMP_NTZ": Type.TIMESTAMP,
    "DATE": Type.DATE,
}  # fmt: skip
"""The single letters are Spark's suffixes of number literals, such as 5L."""

_OFFERED = "BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, STRING, TIMESTAMP and DATE"
_SIZED = re.compile(r"VARCHAR\(\d+\)")


def type_named(name: Name, source: Source) -> Type:
    word = name.text.upper()
    found = _TYPES.get("VARCHAR" if _SIZED.fullmatch(word) else word)
    if found is None:
        hint = (
            "use DOUBLE or BIGINT"
            if word.startswith(("DECIMAL", "NUMERIC", "DEC"))
            else f"there are {_OFFERED}"
        )
        raise source.error(BindError, f"no type {name.text}", name.span, hint)
    return found


def unit_length(unit: str, span: Span, source: Source) -> int:
    """Microseconds in a unit, singular or plural."""
    word = unit.upper()
    length = MICROSECONDS.get(word) or MICROSECONDS.get(word.removesuffix("S"))
    if length is None:
        hint = "units go from MICROSECONDS to WEEKS"
        if word.removesuffix("S") in ("MONTH", "QUARTER", "YEAR"):
            hint = "months and years have no fixed length; " + hint
        raise source.error(BindError, f"no unit {unit}", span, hint)
    return length


def time_units(amount: Amount, time: Type, what: str, source: Source) -> int:
    """An amount in the units of this kind of time: plain for BIGINT, microseconds for TIMESTAMP."""
    if time is Type.BIGINT and amount.unit is not None:
        raise source.error(
            BindError,
            f"{what} of a BIGINT time column is a plain number",
            amount.span,
            f"write {amount.value} without the unit",
        )
    if time is Type.TIMESTAMP and amount.unit is None and amount.value != 0:
        raise source.error(
            BindError,
            f"{what} of a TIMESTAMP time column needs a unit",
            amount.span,
            f"write {amount.value} SECONDS, or another unit",
        )
    return duration(amount, source)


def watermark_bounds(
    told: WatermarkSyntax, time: Type, source: Source
) -> tuple[int | None, int | None, int | None]:
    """What a stream says of its times beside their delay: `ahead`, `idle` and `unit` of `plan.catalog.Stream`."""
    ahead = UNLIMITED if told.unlimited else None
    if told.ahead is not None:
        ahead = time_units(told.ahead, time, "how far ahead a row may be", source)
        if ahead < 0:
            raise source.error(BindError, "how far ahead a row may be cannot be negative", told.ahead.span)
    idle = None
    if told.idle is not None:
        if told.idle.unit is None or told.idle.value <= 0:
            hint = "write IDLE AFTER INTERVAL 30 SECONDS: this is by the clock on the wall"
            raise source.error(BindError, "IDLE AFTER takes a length of time", told.idle.span, hint)
        idle = duration(told.idle, source)
    unit = None
    if told.unit is not None:
        if time is not Type.TIMESTAMP:
            hint = "BIGINT time counts plain units; declare the column TIMESTAMP"
            raise source.error(BindError, "UNIT is for a TIMESTAMP column", told.unit.span, hint)
        unit = unit_length(told.unit.text, told.unit.span, source)
        if unit > MICROSECONDS["SECOND"]:
            hint = "SECONDS, MILLISECONDS or MICROSECONDS"
            raise source.error(BindError, f"times are not counted in {told.unit.text}", told.unit.span, hint)
    return ahead, idle, unit


def duration(amount: Amount, source: Source) -> int:
    """Microseconds if there is a unit, else the number as it is."""
    value = (
        amount.value if amount.unit is None else amount.value * unit_length(amount.unit, amount.span, source)
    )
    if abs(value) >= LATEST:
        raise source.error(
            BindError, "the number is too large", amount.span, "it must stay below 2^61 time units"
        )
    return value


def positive(amount: Amount, time: Type, what: str, source: Source) -> int:
    value = time_units(amount, time, what, source)
    if value <= 0:
        raise source.error(BindError, f"{what} must be positive", amount.span)
    return value


def time_window(syntax: WindowSyntax, time: Type, source: Source) -> Window:
    """RANGE, NOW and UNBOUNDED; ROWS needs the input's columns and is made by the caller."""
    if syntax.kind == "UNBOUNDED":
        return Unbounded()
    if syntax.kind == "NOW":
        return Range(1)
    assert syntax.kind == "RANGE" and syntax.length is not None
    length = positive(syntax.length, time, "the length of a window", source)
    slide = 1 if syntax.slide is None else positive(syntax.slide, time, "the slide of a window", source)
    return Range(length, slide)
