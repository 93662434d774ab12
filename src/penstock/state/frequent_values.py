"""Which values are frequent, in bounded memory, and small tables of values.

Paper      Metwally, Agrawal, El Abbadi 2005 (Space-Saving) in place of the lossy counting that Works 2013, §6.4 names.
Invariant  a value counted more often than 1 / `room` of all is there, and its count is too high by `error` at the most.
State      `room` values and their counts, however many there are.
Cost       O(room) a value that is counted; O(1) a key that is looked up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.kernels.state import frequent_values
from penstock.state.arena import power_of_two
from penstock.types.batch import Ints

Floats = NDArray[np.float64]
GONE = 1e-3
"""A count that has faded to so little is none."""


class Table:
    """Values, each with a number from 0, in an order that is looked up at once for many keys."""

    __slots__ = ("_value", "_which", "size")

    def __init__(self, values: Ints, numbers: Ints) -> None:
        slots = power_of_two(max(4, 2 * len(values)))
        self.size = len(values)
        self._value, self._which = np.zeros(slots, np.int64), np.empty(slots, np.int64)
        frequent_values.fill(values.astype(np.int64), numbers.astype(np.int64), self._value, self._which)

    def find(self, keys: Ints) -> Ints:
        """The number of each key, -1 for none."""
        out = np.empty(len(keys), np.int64)
        frequent_values.find(np.ascontiguousarray(keys), self._value, self._which, out)
        return out


class Frequent:
    """`sides`: who is counted. A side's values make the sketch (`count`), or are counted for the values in it alone (`meet`)."""

    def __init__(self, room: int, sides: int) -> None:
        self.room, self.sides = room, sides
        self._used = 0
        self._value = np.zeros(room, np.int64)
        self._count, self._error = np.zeros(room), np.zeros(room)
        self._beside = np.zeros((2 * sides, room))
        self.total = np.zeros(sides)
        """By side: how many were counted, also of values that are not there."""
        self.came = np.zeros(sides)
        """By side: how many came to be met, with any value."""
        self.grown = False
        """Whether there is a new value since somebody looked."""
        self._table: Table | None = None

    def __len__(self) -> int:
        return self._used

    @property
    def values(self) -> Ints:
        return self._value[: self._used]

    @property
    def counts(self) -> Floats:
        return self._count[: self._used]

    @property
    def sure(self) -> Floats:
        """What was counted of each value for certain."""
        found: Floats = self.counts - self._error[: self._used]
        return found

    @property
    def unseen(self) -> float:
        """How probably the next one has a value that is not there: as often as values were seen once (Good 1953), and for what was
        counted of those that had to go."""
        all_ = float(self.total.sum())
        once = float((self.counts <= 1).sum())
        return 1.0 if all_ <= 0 else min(1.0, (once + all_ - float(self.sure.sum())) / all_)

    def counted(self, side: int) -> Floats:
        """By value: how many of a side made it frequent, since it is there."""
        return self._beside[side, : self._used]

    def met(self, side: int) -> Floats:
        """By value: how many of a side came with it, since it is there."""
        return self._beside[self.sides + side, : self._used]

    def count(self, side: int, keys: Ints, weight: float = 1.0) -> None:
        if len(keys):
            self._table = None
            before = self.values.copy()
            self.total[side] += weight * len(keys)
            self._used = int(
                frequent_values.space_saving(
                    np.ascontiguousarray(keys), float(weight), self._used, self._value, self._count, self._error,
                    self._beside, side,
                )
            )  # fmt: skip
            self.grown = self.grown or len(before) < self._used or bool((before != self.values).any())

    def meet(self, side: int, keys: Ints) -> None:
        """Rows of a side come: count those whose value is there."""
        self.came[side] += len(keys)
        if not self._used or not len(keys):
            return
        if self._table is None:
            self._table = Table(self.values, np.arange(self._used))
        places = self._table.find(keys)
        self._beside[self.sides + side, : self._used] += np.bincount(
            places[places >= 0], minlength=self._used
        )

    @property
    def rest(self) -> float:
        """What may have been counted of a value that is not there."""
        return float(self.counts.min()) if self._used == self.room else 0.0

    @property
    def beside(self) -> Floats:
        """By side `counted`, then by side `met`."""
        return self._beside[:, : self._used]

    def extended(self, other: Frequent) -> Frequent:
        """With the values that only another has, as that one counts them. It is for looking at, not for counting."""
        more = np.flatnonzero(~np.isin(other.values, self.values))
        made = Frequent(self._used + len(more), self.sides)
        made.fill(
            np.concatenate([self.values, other.values[more]]),
            np.concatenate([self.counts, other.counts[more]]),
            np.concatenate([self._error[: self._used], other._error[more]]),
            np.concatenate([self.beside, other.beside[:, more]], axis=1),
        )
        made.total[:], made.came[:] = self.total, self.came
        return made

    def fill(self, values: Ints, counts: Floats, errors: Floats, beside: Floats) -> None:
        """Be what was counted elsewhere."""
        used = self._used = len(values)
        self._value[:used], self._count[:used], self._error[:used] = values, counts, errors
        self._beside[:, :used] = beside
        self._table = None

    def fade(self, by: float) -> None:
        """Forget a part of everything, and values of which nothing is left."""
        self._table = None
        for one in (self._count, self._error, self._beside, self.total, self.came):
            one *= by
        kept = np.flatnonzero(self.counts > GONE)
        if len(kept) < self._used:
            self._value[: len(kept)] = self._value[kept]
            self._count[: len(kept)], self._error[: len(kept)] = self._count[kept], self._error[kept]
            self._beside[:, : len(kept)] = self._beside[:, kept]
            self._used = len(kept)

    def save(self) -> dict[str, Any]:
        used = self._used
        return {
            "value": self.values.tolist(),
            "count": self.counts.tolist(),
            "error": self._error[:used].tolist(),
            "beside": self._beside[:, :used].tolist(),
            "total": self.total.tolist(),
            "came": self.came.tolist(),
            "grown": self.grown,
        }

    def take_up(self, was: Mapping[str, Any]) -> None:
        self.fill(*(np.array(was[part]) for part in ("value", "count", "error", "beside")))
        self.total[:], self.came[:], self.grown = was["total"], was["came"], was["grown"]
