"""Rows that wait before an operator: one lane a level, first in first out, each row a column of numbers.

A waiting row is a partial result: when it is alive (TS, END), the bounds that tables set to the time of its results (FROM, TO),
when the latest of its parts came (CAME, processing time) and the driving row was built (SEQ), the best level of its
parts (LEVEL: the significant rank of Works 2013, §6.1), the level that it promises to meet (PROMISE: the promising rank) at a stop
further on (DESIGNATED: its place on the route, -1 for none), from which level on it has yet to meet rows at the stop where it waits (NEXT: 0
for all; else it is in process), in which order it is to leave among equals (ORDER), and from SLOTS on the
place of each part. A level stays for ever, a promise until the designated stop; a row goes by the better one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator

import numpy as np

from penstock.types.batch import Ints

TS, END, FROM, TO, CAME, SEQ, LEVEL, PROMISE, DESIGNATED, NEXT, ORDER, SLOTS = range(12)
BACK_BURNER = 128
"""The level of a row that has none."""


def going_by(rows: Ints, active: Collection[int]) -> Ints:
    """By which level each row goes: the better of its own and of what it promises; one that is not active is none."""
    if not active:
        return np.full(rows.shape[1], BACK_BURNER)
    goes = np.full(BACK_BURNER + 1, BACK_BURNER)  # a look-up: `isin` takes ten times as long for a few rows
    goes[list(active)] = list(active)
    found: Ints = np.minimum(goes[rows[LEVEL]], goes[rows[PROMISE]])
    return found


def counted(levels: Ints) -> list[tuple[int, int]]:
    """The levels there are, best first, and how many of each: `unique` takes five times as long for a few rows."""
    if not len(levels):
        return []
    counts = np.bincount(levels)
    there = np.flatnonzero(counts)
    return list(zip(there.tolist(), counts[there].tolist(), strict=True))


def degrade(rows: Ints, at: int) -> None:
    """Rows that have passed a stop promise nothing any more if it was the designated one (§6.3.3, case 2)."""
    passed = rows[DESIGNATED] == at
    rows[PROMISE, passed] = BACK_BURNER
    rows[DESIGNATED, passed] = -1


class Lane:
    """Partial results in the order in which they came."""

    __slots__ = ("_chunks", "_rows")

    def __init__(self) -> None:
        self._chunks: deque[Ints] = deque()
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    @property
    def first(self) -> Ints:
        """The row that waits longest."""
        return self._chunks[0][:, 0]

    def put(self, rows: Ints) -> None:
        if rows.shape[1]:
            self._chunks.append(rows)
            self._rows += rows.shape[1]

    def take(self, most: int) -> Ints:
        """The first so many, or all there are."""
        taken: list[Ints] = []
        left = most
        while left > 0 and self._chunks:
            chunk = self._chunks.popleft()
            if chunk.shape[1] > left:
                self._chunks.appendleft(chunk[:, left:])
                chunk = chunk[:, :left]
            taken.append(chunk)
            left -= chunk.shape[1]
        self._rows -= most - left
        return taken[0] if len(taken) == 1 else np.concatenate(taken, axis=1)

    def take_last(self, most: int) -> Ints:
        """The last so many, or all there are, in the order in which they came."""
        taken: list[Ints] = []
        left = most
        while left > 0 and self._chunks:
            chunk = self._chunks.pop()
            if chunk.shape[1] > left:
                self._chunks.append(chunk[:, :-left])
                chunk = chunk[:, -left:]
            taken.append(chunk)
            left -= chunk.shape[1]
        self._rows -= most - left
        return taken[0] if len(taken) == 1 else np.concatenate(taken[::-1], axis=1)

    def too_old(self, before: int) -> Ints | None:
        """Rows that came before a moment, which are here no more."""
        gone: list[Ints] = []
        for n, chunk in enumerate(self._chunks):
            old = chunk[CAME] < before
            if old.any():
                gone.append(chunk[:, old])
                self._chunks[n] = chunk[:, ~old]
        if not gone:
            return None
        self._chunks = deque(chunk for chunk in self._chunks if chunk.shape[1])
        self._rows = sum(chunk.shape[1] for chunk in self._chunks)
        return np.concatenate(gone, axis=1)

    def chunks(self) -> Iterator[Ints]:
        return iter(self._chunks)

    def all(self) -> Ints | None:
        """Everything, which is here no more."""
        return self.take(self._rows) if self._rows else None
