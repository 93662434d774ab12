"""How far ahead rows may be: one time far in the future must not make all later rows late.

Invariant  row by row, so cutting a push changes nothing: a row is too far ahead by what came before it, and then changes nothing.
TIMESTAMP  declared (AHEAD AT MOST): ahead of the wall clock. By default: more than a year ahead both of the wall clock and of the
           newest row before it; the first row of a stream passes. So recorded and made-up times pass.
BIGINT     declared: ahead of the newest row before it, or of the watermark if `advance` raised it further. By default: no bound.
"""

from __future__ import annotations

import time

import numpy as np

from penstock.kernels.state.live_row_events import too_far
from penstock.plan.catalog import UNLIMITED, Stream
from penstock.types.batch import Ints, Mask
from penstock.types.data_type import Type
from penstock.types.event_time import EARLIEST, FIRST_INSTANT, LATEST, MICROSECONDS
from penstock.types.memory import room

YEAR = 366 * MICROSECONDS["DAY"]
"""How far ahead rows may be by default."""


def wall_clock() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


class AheadBound:
    """The bound of one stream; `limit` is what costs something in every push."""

    def __init__(self, stream: Stream) -> None:
        self._delay = stream.delay
        self._by_wall = stream.time_type is Type.TIMESTAMP
        self._declared = stream.ahead
        self._first = FIRST_INSTANT if self._by_wall else EARLIEST

    @staticmethod
    def of(stream: Stream) -> AheadBound | None:
        """None: rows may be any time ahead."""
        if stream.ahead == UNLIMITED or (stream.ahead is None and stream.time_type is not Type.TIMESTAMP):
            return None
        return AheadBound(stream)

    def limit(self, watermark: int, newest: int | None) -> int:
        """No time up to it is too far ahead, whatever else comes in the same push."""
        if self._by_wall:
            return wall_clock() + (YEAR if self._declared is None else self._declared)
        assert self._declared is not None
        reference = self._reference(watermark, newest)
        return EARLIEST if reference is None else reference + self._declared

    def _reference(self, watermark: int, newest: int | None) -> int | None:
        """What rows are compared with, besides the wall clock; None: the next row may be anything."""
        if newest is None:
            return watermark + self._delay if watermark > self._first and not self._by_wall else None
        return max(newest, watermark + self._delay)

    def ceiling(self, newest: int | None) -> int:
        """For a step of rows without an order: no row of it may be beyond this; `newest`: of the rows before the step."""
        if self._by_wall and self._declared is not None:
            return wall_clock() + self._declared
        if newest is None:
            return LATEST
        if self._by_wall:
            return max(wall_clock(), newest) + YEAR
        assert self._declared is not None
        return newest + self._declared

    def beyond(self, ts: Ints, watermark: int, newest: int | None) -> Mask | None:
        """Which rows are too far ahead; None: no row is."""
        limit = self.limit(watermark, newest)
        if int(ts.max()) <= limit:
            return None
        far = room(len(ts), np.bool_)
        if self._by_wall and self._declared is not None:
            np.greater(ts, limit, out=far)
            return far
        reference = self._reference(watermark, newest)
        floor, bound = (limit, YEAR) if self._declared is None else (EARLIEST - 1, self._declared)
        known = reference is not None
        return far if too_far(ts, floor, known, reference if known else EARLIEST, bound, far) else None
