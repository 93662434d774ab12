"""How far ahead rows may be: one time far in the future must not make all later rows late.

Invariant  row by row, so cutting a push changes nothing: a row is too far ahead by what came before it, and then changes nothing.
TIMESTAMP  declared (AHEAD AT MOST): ahead of the wall clock. By default: more than a year ahead both of the wall clock and of the
           newest row before it; the first row of a stream: ten years ahead of the wall clock. So recorded and made-up times pass.
BIGINT     declared: ahead of the newest row before it, or of the watermark if `advance` raised it further. By default: no bound.
"""

from __future__ import annotations

import time

import numpy as np

from penstock.data.batch import Ints, Mask
from penstock.data.clock import EARLIEST, FIRST_MICROSECOND, LATEST, MICROSECONDS
from penstock.data.memory import room
from penstock.data.types import Type
from penstock.kernels.events import too_far
from penstock.plan.catalog import UNLIMITED, Stream

YEAR = 366 * MICROSECONDS["DAY"]
FIRST_ROW = 10 * YEAR
"""How far ahead of the wall clock the first row of a stream may be by default."""


def wall_clock() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


class AheadBound:
    """The bound of one stream; `limit` is what costs something in every push."""

    def __init__(self, stream: Stream) -> None:
        self._delay = stream.delay
        self._by_wall = stream.time_type is Type.TIMESTAMP
        self._declared = stream.ahead
        self._first = FIRST_MICROSECOND if self._by_wall else EARLIEST

    @staticmethod
    def of(stream: Stream) -> AheadBound | None:
        """None: rows may be any time ahead."""
        if stream.ahead == UNLIMITED or (stream.ahead is None and stream.time_type is not Type.TIMESTAMP):
            return None
        return AheadBound(stream)

    def limit(self, watermark: int) -> int:
        """No time up to it is too far ahead, whatever else comes in the same push."""
        if self._by_wall:
            return wall_clock() + (YEAR if self._declared is None else self._declared)
        assert self._declared is not None
        return watermark + self._delay + self._declared if watermark > self._first else EARLIEST

    def ceiling(self, newest: int | None) -> int:
        """For a step of rows without an order: no row of it may be beyond this; `newest`: of the rows before the step."""
        if not self._by_wall:
            assert self._declared is not None
            return LATEST if newest is None else newest + self._declared
        if self._declared is not None:
            return wall_clock() + self._declared
        if newest is None:
            return wall_clock() + FIRST_ROW
        return max(wall_clock(), newest) + YEAR

    def beyond(self, ts: Ints, watermark: int) -> Mask | None:
        """Which rows are too far ahead; None: no row is."""
        limit = self.limit(watermark)
        if int(ts.max()) <= limit:
            return None
        reference, known, first = watermark + self._delay, watermark > self._first, LATEST
        bound = YEAR if self._declared is None else self._declared
        if self._by_wall and self._declared is not None:
            reference, known, bound = EARLIEST, True, 0
        elif self._by_wall:
            first = limit - YEAR + FIRST_ROW
        far = room(len(ts), np.bool_)
        floor = limit if self._by_wall else EARLIEST - 1
        return far if too_far(ts, floor, known, reference, first, bound, far) else None
