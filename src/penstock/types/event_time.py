"""Event time: instants, their bounds, and what 'forever' means.

A session counts either plain units (`BIGINT` time columns) or microseconds (`TIMESTAMP`). Both are
64-bit integers inside. Instants keep clear of the ends of the range so that `ts + range` cannot wrap.
"""

from __future__ import annotations

import datetime as dt
from typing import Final

import numpy as np

FOREVER: Final = np.iinfo(np.int64).max
"""The `exp` of a row that never expires; leaves the engine as NULL."""

EARLIEST: Final = -(2**61)
"""First instant of a session that counts plain units."""

LATEST: Final = 2**61
"""Instants and window lengths stay below this, so that sums cannot wrap."""

MICROSECONDS: Final = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}
"""Units of time, from the shortest to the longest."""

EPOCH: Final = dt.datetime(1970, 1, 1)
FIRST_MICROSECOND: Final = -62_135_596_800_000_000
"""0001-01-01: the first TIMESTAMP (Python's first datetime)."""
FIRST_INSTANT: Final = FIRST_MICROSECOND + 2 * 86_400_000_000
"""0001-01-03: where the clock of a session that counts microseconds begins. What is true from the beginning has this time; it is two days
after the first datetime, so that PySpark can make it a local one in every time zone."""
LAST_MICROSECOND: Final = 253_402_300_799_999_999
"""9999-12-31T23:59:59.999999: the last one."""
