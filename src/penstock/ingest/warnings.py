"""What a session warns of: rows that are set aside, and streams that hold others back. In words, once a stream."""

from __future__ import annotations

import datetime as dt

from penstock.errors import StreamWarning
from penstock.plan.catalog import Stream
from penstock.types.data_type import Type
from penstock.types.event_time import EPOCH

MANY = 1_000
"""Rows of a stream after which it is judged whether most of them are late."""

HELD_TIMES = 16
"""Slices of rows that came for other streams while one held the clock back, after which that is said: who pushes streams one after the
other is not warned."""


def shown_time(stream: Stream, instant: int) -> str:
    """An instant as a reader of the stream knows it."""
    if stream.time_type is not Type.TIMESTAMP:
        return str(instant)
    return str(EPOCH + dt.timedelta(microseconds=instant))


def far_notice(stream: Stream, instant: int) -> Warning:
    return StreamWarning(
        f"stream {stream.name}: a row at {shown_time(stream, instant)} is too far ahead and was set aside, as others like it"
        f" will be{_far_help(stream)}"
    )


def far_notice_of(stream: Stream) -> Warning:
    """Of rows whose times are not at hand."""
    return StreamWarning(
        f"stream {stream.name}: rows are too far ahead and were set aside, as others like them will be{_far_help(stream)}"
    )


def _far_help(stream: Stream) -> str:
    unit = (
        "" if stream.time_type is not Type.TIMESTAMP else "; if its times are whole numbers, check their UNIT"
    )
    return f": s.ahead({stream.name!r}) has them; declare WATERMARK … AHEAD AT MOST …, or AHEAD UNLIMITED to take them{unit}"


def held_notice(stream: Stream, waiting: int, watermark: int | None) -> Warning:
    """`watermark`: None if no row has come."""
    at = "has had no rows" if watermark is None else f"is at {shown_time(stream, watermark)}"
    return StreamWarning(
        f"stream {stream.name} {at} and holds the clock back: {waiting:,} rows of other streams wait; if it is idle, call"
        f" s.advance(t, stream={stream.name!r}) or declare WATERMARK … IDLE AFTER INTERVAL …"
    )


def lost_notice(kind: str, name: str) -> Warning:
    """`kind`: "late" or "ahead"."""
    what = "late" if kind == "late" else "too far ahead"
    return StreamWarning(
        f"stream {name}: more rows are {what} than are kept; the oldest are gone from s.{kind}({name!r}) and only"
        " counted: connect(keep_late=…) keeps more"
    )


class Lateness:
    """Says once that most rows of a stream are late, and once that late rows are not all kept."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._rows = self._late = 0
        self._told: set[str] = set()

    def note(self, rows: int, late: int, lost: int) -> list[Warning]:
        """So many rows have come, and so many of them were late."""
        self._rows += rows
        self._late += late
        found: list[Warning] = []
        if self._rows >= MANY:
            if 2 * self._late > self._rows and "late" not in self._told:
                self._told.add("late")
                found.append(
                    StreamWarning(
                        f"stream {self._name}: {self._late:,} of the last {self._rows:,} rows are late and were set aside"
                        f" (s.late({self._name!r})); give the stream a longer delay, or look for a row with a time that is too great"
                    )
                )
            self._rows = self._late = 0
        if lost and "lost" not in self._told:
            self._told.add("lost")
            found.append(lost_notice("late", self._name))
        return found
