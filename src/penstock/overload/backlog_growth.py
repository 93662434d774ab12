"""Whether what waits grows without end: step after step more comes than is worked on, and no LIFESPAN lets go of anything.

Measured over stretches of steps, since single steps bring more or less. What has grown for some stretches on end will go on to.
"""

from __future__ import annotations

from collections.abc import Sequence

STRETCH = 16
"""Steps that are compared as one."""
SURE = 3
"""Stretches on end after which it is said."""


class Growth:
    """Of the backlog of one query, in units."""

    def __init__(self) -> None:
        self._before: float | None = None
        self.a_step = 0.0
        """Units a step over the last stretch."""
        self.stop()

    def stop(self) -> None:
        """Nothing waits any more."""
        self._steps = self._grown = 0
        self._before, self.a_step = None, 0.0

    def note(self, backlog: float) -> None:
        """So much waits after a step.

        >>> growth = Growth()
        >>> for step in range(64):
        ...     growth.note(10.0 * step)
        >>> growth.a_step, growth.goes_on
        (10.0, True)
        >>> for _ in range(16):
        ...     growth.note(630.0)
        >>> growth.a_step, growth.goes_on
        (0.0, False)
        """
        self._steps += 1
        if self._steps % STRETCH:
            return
        if self._before is not None:
            self.a_step = (backlog - self._before) / STRETCH
            self._grown = self._grown + 1 if self.a_step > 0 else 0
        self._before = backlog

    @property
    def goes_on(self) -> bool:
        return self._grown >= SURE

    def save(self) -> list[float | None]:
        return [self._steps, self._grown, self._before, self.a_step]

    def take_up(self, was: Sequence[float | None]) -> None:
        steps, grown, self._before, rate = was
        self._steps, self._grown, self.a_step = int(steps or 0), int(grown or 0), rate or 0.0
