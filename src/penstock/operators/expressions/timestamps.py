"""Parts of timestamps: microseconds since 1970, no zone, weeks from Monday."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.operators.expressions.compiled import Builder, Function, Part, Run, partial, strict
from penstock.plan.expressions import Call, Literal
from penstock.types.batch import Array, Mask
from penstock.types.event_time import FIRST_MICROSECOND, LAST_MICROSECOND

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_FIXED = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": SECOND,
    "minute": MINUTE,
    "hour": HOUR,
    "day": DAY,
}


def _calendar(a: Array, unit: str) -> Array:
    """Whole days, months or years since 1970, by NumPy's proleptic Gregorian calendar."""
    days = (a // DAY).view("M8[D]")
    return days.astype(f"M8[{unit}]").view(np.int64)


def _micros(units: Array, unit: str) -> Array:
    return units.view(f"M8[{unit}]").astype("M8[D]").view(np.int64) * DAY


def _day(a: Array) -> Array:
    months = _calendar(a, "M")
    days: Array = a // DAY - _micros(months, "M") // DAY + 1
    return days


_PARTS: dict[str, Function] = {
    "year": lambda a: _calendar(a, "Y") + 1970,
    "month": lambda a: _calendar(a, "M") % 12 + 1,
    "day": _day,
    "hour": lambda a: a // HOUR % 24,
    "minute": lambda a: a // MINUTE % 60,
    "second": lambda a: a // SECOND % 60,
    "dayofweek": lambda a: (a // DAY + 3) % 7 + 1,  # 1970 began on a Thursday
    "epoch": lambda a: a // SECOND,
}


def _part(call: Call, parts: Sequence[Part]) -> Run:
    return strict(parts, _in_calendar(_PARTS[call.function]))


def _in_calendar(function: Function) -> Function:
    """Values under NULL may lie outside the calendar, where NumPy would wrap with a warning."""
    return lambda a: function(np.clip(a, FIRST_MICROSECOND, LAST_MICROSECOND))


def _truncate(call: Call, parts: Sequence[Part]) -> Run:
    unit = call.arguments[0]
    assert isinstance(unit, Literal) and isinstance(unit.value, str)
    return strict(parts[1:], _in_calendar(_truncation(unit.value)))


def _truncation(unit: str) -> Function:
    if unit in _FIXED:
        length = _FIXED[unit]
        return lambda a: a - a % length
    if unit == "week":
        # The first day of year 1 is a Monday: no week reaches back beyond the calendar.
        return lambda a: (a // DAY - (a // DAY + 3) % 7) * DAY
    if unit == "quarter":
        return lambda a: _micros((m := _calendar(a, "M")) - m % 3, "M")
    letter = "M" if unit == "month" else "Y"
    return lambda a: _micros(_calendar(a, letter), letter)


def _to_timestamp(_: Call, parts: Sequence[Part]) -> Run:
    low, high = FIRST_MICROSECOND // SECOND, LAST_MICROSECOND // SECOND

    def function(a: Array) -> tuple[Array, Mask]:
        bad = (a < low) | (a > high)
        return np.where(bad, 0, a) * SECOND, bad

    return partial(parts, function)


def builders() -> dict[str, Builder]:
    return {**dict.fromkeys(_PARTS, _part), "date_trunc": _truncate, "to_timestamp": _to_timestamp}
