"""Windows: how long a row of a stream stays alive."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.data.clock import LATEST


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


Window = Range | Rows | Unbounded
