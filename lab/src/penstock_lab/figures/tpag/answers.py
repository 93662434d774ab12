"""Answers by window and sector, and which of them are right.

A window is what is alive at an instant at which windows slide. An answer is of a population: a set of levels, told by its flag (a
bit a level, level 1 lowest, insignificant ticks highest). It is right if it is within 5 % of the mean of *that* population,
all of whose ticks were processed (§5.5.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock_lab.figures.tp.feed import Feed
from penstock_lab.figures.tp.load import Floats, Ints
from penstock_lab.figures.tp.stocks import LEVELS, SECTORS

WITHIN = 0.05
PARTS = LEVELS + 1
"""The levels and what has none."""
ALL = (1 << PARTS) - 1
INSIGNIFICANT = 1 << LEVELS

_NUMBER = {name: at for at, name in enumerate(SECTORS)}


@dataclass(frozen=True, slots=True)
class Answers:
    """[windows × sectors]; a price of NaN: no answer."""

    price: Floats
    flag: Ints

    @property
    def given(self) -> NDArray[np.bool_]:
        return ~np.isnan(self.price)


class Sheet:
    """What a query says of every window and sector, by its changes: values, NaN where it says nothing."""

    def __init__(self, feed: Feed, slide: int, columns: tuple[str, ...]) -> None:
        self._slide = slide
        self._first = -(-feed.start // slide)
        self._many = feed.stop // slide - self._first
        self._columns = columns
        self.values = np.full((self._many, len(SECTORS), len(columns)), np.nan)

    def take(self, changes: pa.Table) -> None:
        """A '+' says something until `__exp`, a '-' takes back what was said."""
        if not changes.num_rows:
            return
        begin, end = (changes[c].cast(pa.int64()).to_numpy() for c in ("__ts", "__exp"))
        places = [np.clip(-(-t // self._slide) - self._first, 0, self._many).tolist() for t in (begin, end)]
        sectors = [_NUMBER[name] for name in changes["sector"].to_pylist()]
        told: Any = np.column_stack([_numbers(changes[name]) for name in self._columns])
        told[np.equal(changes["__op"].to_pylist(), "-")] = np.nan
        for a, b, sector, row in zip(*places, sectors, told, strict=True):
            self.values[a:b, sector] = row


def _numbers(column: pa.ChunkedArray) -> Floats:
    if (
        pa.types.is_string(column.type)
        or pa.types.is_large_string(column.type)
        or pa.types.is_dictionary(column.type)
    ):
        return np.array([int(bits[::-1], 2) for bits in column.to_pylist()], np.float64)
    found: Floats = column.cast(pa.float64()).to_numpy()
    return found


def sampled(sheet: Sheet) -> Answers:
    """Of TP-Ag, which says itself which levels an answer is of."""
    price, flag = sheet.values[..., 0], sheet.values[..., 1]
    return Answers(price, np.nan_to_num(flag).astype(np.int64))


def plain(sheet: Sheet) -> Answers:
    """Of an ordinary GROUP BY: the levels that its ticks have; where one has none, all that there are."""
    price, counts = sheet.values[..., 0], np.nan_to_num(sheet.values[..., 1 : 1 + PARTS])
    flag = ((counts > 0) << np.arange(PARTS)).sum(axis=-1)
    return Answers(price, np.where(flag & INSIGNIFICANT, ALL, flag))


@dataclass(frozen=True, slots=True)
class Truth:
    """[windows × sectors × levels]: the ticks there are, and the sum of their prices."""

    counts: Floats
    totals: Floats

    def mean(self, flag: Ints) -> Floats:
        """Of the levels of a flag, by window and sector; NaN: they have no tick."""
        used = (flag[..., None] >> np.arange(PARTS)) & 1
        count = (self.counts * used).sum(axis=-1)
        total = (self.totals * used).sum(axis=-1)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)

    def right(self, answers: Answers) -> NDArray[np.bool_]:
        """By window and sector: whether there is an answer, and it is right."""
        true = self.mean(answers.flag)
        return answers.given & (np.abs(answers.price - true) <= WITHIN * np.abs(true))

    @property
    def answers(self) -> int:
        """As many as there would be, were there no limit."""
        return int((self.counts.sum(axis=-1) > 0).sum())


COUNTED = (
    "price",
    *(f"count{level}" for level in range(1, PARTS + 1)),
    *(f"total{level}" for level in range(1, PARTS + 1)),
)
"""What `stock_aggregate(counted=True)` says."""


def truth(sheet: Sheet) -> Truth:
    """Of a session without limit."""
    every = np.nan_to_num(sheet.values)
    return Truth(every[..., 1 : 1 + PARTS], every[..., 1 + PARTS :])
