"""Dates and timestamps as text: one reading for literals and for CAST."""

from __future__ import annotations

import datetime as dt
import re

from penstock.types.event_time import EPOCH, FIRST_MICROSECOND, LAST_MICROSECOND

_INSTANT = re.compile(
    r"\s*(\d{4})-(\d{1,2})-(\d{1,2})"
    r"(?:[ T](\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?\s*(Z|[+-]\d{2}(?::?\d{2})?)?)?\s*",
    re.ASCII,
)
_MICROSECOND = dt.timedelta(microseconds=1)


def parse_timestamp(text: str) -> int | None:
    """Microseconds since 1970 (UTC): `2024-05-01`, `2024-05-01 12:30[:15[.25]]`, `T` between, an offset or
    `Z` behind; None if it is anything else. Digits beyond the microsecond are cut off."""
    match = _INSTANT.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    try:
        instant = dt.datetime(
            int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0),
            int((fraction or "0")[:6].ljust(6, "0")),
        )  # fmt: skip
    except ValueError:
        return None
    micros = (instant - EPOCH) // _MICROSECOND
    if zone and zone != "Z":
        minutes = int(zone[1:3]) * 60 + int(zone[3:].lstrip(":") or 0)
        micros -= (-minutes if zone[0] == "-" else minutes) * 60_000_000
    return micros if FIRST_MICROSECOND <= micros <= LAST_MICROSECOND else None


def parse_date(text: str) -> int | None:
    """Days since 1970 of `2024-05-01`; None if it is anything else."""
    match = _INSTANT.fullmatch(text)
    if match is None or match.group(4) is not None:
        return None
    micros = parse_timestamp(text)
    return None if micros is None else micros // 86_400_000_000
