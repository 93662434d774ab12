"""Windows: how long a row of a stream stays alive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.types.event_time import LATEST, MICROSECONDS

if TYPE_CHECKING:
    from penstock.plan.update_pattern import Pattern


@dataclass(frozen=True, slots=True)
class Range:
    """`[RANGE w]`, `[RANGE w SLIDE l]`, `[NOW]` (w = 1): alive in [ts, ts + w), edges rounded up to l."""

    length: int
    slide: int = 1

    def __post_init__(self) -> None:
        if not (0 < self.length < LATEST and 0 < self.slide < LATEST):
            raise ValueError("a window's length and slide are positive and below 2**61")

    def __str__(self) -> str:
        slide = "" if self.slide == 1 else f" SLIDE {self.slide}"
        return f"RANGE {self.length}{slide}"

    @property
    def in_units(self) -> str:
        """As somebody would write it whose time is a TIMESTAMP."""
        slide = "" if self.slide == 1 else f" SLIDE {in_units(self.slide)}"
        return f"RANGE {in_units(self.length)}{slide}"


@dataclass(frozen=True, slots=True)
class Rows:
    """`[ROWS n]`, `[PARTITION BY k ROWS n]`: the last n rows (per key) in (ts, arrival) order."""

    count: int
    partition: tuple[int, ...] = ()
    """Positions of the partitioning columns in the stream's schema."""

    def __post_init__(self) -> None:
        if not 0 < self.count < 2**31:
            raise ValueError("ROWS takes a number from 1 to 2147483647")

    def __str__(self) -> str:
        keys = f"PARTITION BY {', '.join(f'#{i}' for i in self.partition)} " if self.partition else ""
        return f"{keys}ROWS {self.count}"


@dataclass(frozen=True, slots=True)
class Unbounded:
    """`[UNBOUNDED]` or no window: rows never expire."""

    def __str__(self) -> str:
        return "UNBOUNDED"


@dataclass(frozen=True, slots=True)
class Announced:
    """The window of an inner input (`plan.exchange_input`): its rows are changes, which carry their ends and signs."""

    pattern: Pattern
    """That of the edge whose changes they are."""

    def __str__(self) -> str:
        return f"ANNOUNCED {self.pattern}"


Window = Range | Rows | Unbounded | Announced


def in_units(microseconds: int) -> str:
    """A length in the longest unit that leaves no fraction.

    >>> in_units(90_000_000), in_units(3_600_000_000)
    ('90 SECONDS', '1 HOUR')
    """
    unit = max(
        (u for u, length in MICROSECONDS.items() if microseconds % length == 0), key=MICROSECONDS.__getitem__
    )
    count = microseconds // MICROSECONDS[unit]
    return f"{count} {unit}{'' if count == 1 else 'S'}"
