"""When to look for what has ended, for structures that find it only by looking through everything.

Cost  one look whenever half of the time until the last known end has passed: O(1) a row, and a few looks through what is left
      once nothing comes any more.
"""

from __future__ import annotations

from penstock.state.calendar import latest
from penstock.types.batch import Ints
from penstock.types.event_time import EARLIEST, FOREVER


class Due:
    """The last end among rows that came, and when to look next."""

    __slots__ = ("_last", "_next")

    def __init__(self) -> None:
        self._last = EARLIEST
        self._next = FOREVER

    def note(self, ends: Ints, now: int) -> None:
        """Rows came."""
        self._last = max(self._last, latest(ends, now))
        if self._next == FOREVER:
            self.looked(now)

    def passed(self, now: int) -> bool:
        return now >= self._next

    def looked(self, now: int) -> None:
        """What has ended by now is gone."""
        left = self._last - now
        self._next = now + max(left // 2, 1) if left > 0 else FOREVER
