"""What part of a step's units a query really gets beside others, for it to plan with.

Paper      Works 2013, §9.1: several queries on one processor. Its latency model (4.3.3) speaks of the time that one query has.
Measured   who still has work when a step ends got what there was for it; who has none could have had more: what nobody used, an equal part at
           the least, and no less than before. So those who shed down to what they hope for ask for more again.
Bounds     never below what is guaranteed. Of a query alone all units are its own, and nothing is remembered.
"""

from __future__ import annotations

RECENT = 0.25
"""What the last step counts for."""


class Share:
    """Of one query, or of those that ride together."""

    def __init__(self) -> None:
        self.known: float | None = None
        """Part of a step's units; None: there were no others."""

    def hoped(self, units: float, fair: float, floor: float) -> float:
        """Units that it may hope for. `fair`: what it would have if all had the same; `floor`: what is guaranteed.

        >>> one = Share()
        >>> one.hoped(100, 50, 5)
        50
        >>> for _ in range(30):
        ...     one.note(100, 50, 10, 0, waits=True)
        >>> round(one.hoped(100, 50, 5)), one.hoped(100, 50, 20)
        (10, 20)
        """
        return fair if self.known is None else max(self.known * units, floor)

    def note(self, units: float, fair: float, had: float, left: float, *, waits: bool) -> None:
        """A step is over, in which it had so many units. `left`: what nobody used; `waits`: it has more to do."""
        before = fair / units if self.known is None else self.known
        now = had / units if waits else max((had + left) / units, fair / units, before)
        self.known = min(before + RECENT * (now - before), 1.0)

    def forget(self) -> None:
        """It is alone."""
        self.known = None
