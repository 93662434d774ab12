"""What a calm step will take, before it is taken.

Paper      Works 2013, §4.2 asks when a system is overloaded; the answer has to be there before the work is done.
Invariant  units are the rows that come and, for every pair of them with a row that another stream holds, what such pairs took of late: a burst on
           a stream that meets full windows costs more than as many rows of another, also in its first step.
State      by input, how many rows are held until which instant, some dozens of such.
Cost       some additions a step and input.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from penstock.types.batch import Batch, Ints

GUESS = 1.0
"""Units that a row takes beside one for itself, before any was worked on."""
RECENT = 0.9
"""What a step's numbers are worth, by the step after it."""
PARTS = 32
"""A part of what is held is no smaller than this part of it, or a step's rows."""


class Held:
    """Rows of one input, by when they end."""

    def __init__(self, parts: Iterable[tuple[int, int]] = ()) -> None:
        self.parts = deque(parts)
        self.count = sum(n for _, n in self.parts)

    @classmethod
    def of(cls, ends: Ints) -> Held:
        parts = np.array_split(np.sort(ends), min(PARTS, max(len(ends), 1)))
        return cls((int(part[-1]), len(part)) for part in parts if len(part))

    def put(self, batch: Batch) -> int:
        """Rows that come, less those taken back; how many that is."""
        net = len(batch) if batch.sign is None else int(batch.sign.sum())
        few = self.parts and self.parts[-1][1] * PARTS < self.count
        before = self.parts.pop()[1] if few else 0
        self.parts.append((int(batch.exp[-1]), before + net))
        self.count += net
        return net

    def end(self, now: int) -> None:
        while self.parts and self.parts[0][0] <= now:
            self.count -= self.parts.popleft()[1]


class Forecast:
    """Of all cores of a query; `tables`: by input, whether it is one. What rows find there is part of what a row takes."""

    def __init__(self, tables: Sequence[Sequence[bool]]) -> None:
        self._tables = tables
        self.held = [[Held() for _ in own] for own in tables]
        self._rows = self._pairs = self._beyond = 0.0
        """Of late: rows, pairs that could be, and units beyond a unit a row."""

    def put(self, rows: Sequence[Sequence[Batch]], now: int) -> float:
        """What came until an instant; how many pairs it makes possible."""
        pairs = 0.0
        for own, held, tables in zip(rows, self.held, self._tables, strict=True):
            total = 0
            for one in held:
                one.end(now)
                total += one.count
            for batch, one, table in zip(own, held, tables, strict=True):
                if not table and len(batch):
                    pairs += len(batch) * (total - one.count)
                    total += one.put(batch)  # rows of a step meet each other too
        return pairs

    def expected(self, rows: int, pairs: float) -> float:
        """Units that they would take."""
        if self._pairs:
            return rows + pairs * self._beyond / self._pairs
        return rows + rows * (self._beyond / self._rows if self._rows else GUESS)

    def learn(self, rows: int, pairs: float, units: float) -> None:
        """So many took so much."""
        if rows:
            self._rows = RECENT * self._rows + rows
            self._pairs = RECENT * self._pairs + pairs
            self._beyond = RECENT * self._beyond + max(units - rows, 0.0)

    def look(self, core: int, which: int, ends: Ints) -> None:
        """These rows and no others are held of an input."""
        if not self._tables[core][which]:
            self.held[core][which] = Held.of(ends)

    # ------------------------------------------------------------------ leaving and coming back

    def save(self) -> dict[str, Any]:
        return {
            "late": [self._rows, self._pairs, self._beyond],
            "held": [[list(one.parts) for one in own] for own in self.held],
        }

    def take_up(self, was: dict[str, Any]) -> None:
        self._rows, self._pairs, self._beyond = was["late"]
        self.held = [[Held((end, n) for end, n in parts) for parts in own] for own in was["held"]]
