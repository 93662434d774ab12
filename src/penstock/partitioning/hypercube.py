"""How many parts to cut each dimension of a grid into (Afrati & Ullman 2010, by branch and bound over whole numbers).

The busiest cell is what counts: it takes rate / (shares of the dimensions that deal a scan out) rows of each scan. A
dimension that deals out everything divides all of it; one that deals out a part of the scans copies the others. So the
least load also avoids what a prime number of cells invites: a chain of three over 5 cells takes 2 × 2 of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from penstock.partitioning.equal_terms import is_constant
from penstock.partitioning.keys import Dimension, Key
from penstock.types.data_type import Type

MOST = 5
"""Dimensions tried at once, those that deal out most: with 8 streams and 1000 cells that takes a second."""

_VALUES = {Type.BOOLEAN: 3, Type.TINYINT: 257}
"""Types with so few values, NULL among them, that more parts would stay empty."""


def grid(dimensions: Sequence[Dimension], rates: Sequence[float], cells: int) -> list[tuple[Dimension, int]]:
    """Dimensions of the grid with the least load of a cell, each with its share (2 or more); none: one cell.

    Among grids with equal load the one that makes fewest copies, and among those the first found is taken.
    """
    useful = [d for d in dimensions if not any(_beats(e, d, cells) for e in dimensions)]
    useful.sort(key=lambda d: -sum(r for r, key in zip(rates, d, strict=True) if key is not None))
    parts = [[None if key is None else _parts(key) for key in d] for d in useful[:MOST]]
    search = _Search(parts, rates)
    search.go((), cells)
    return [(d, share) for d, share in zip(useful, search.best, strict=False) if share > 1]


def _beats(one: Dimension, other: Dimension, cells: int) -> bool:
    """Whether it deals out all that the other does and more, in as many parts as there are cells."""
    pairs = list(zip(one, other, strict=True))
    more = any(a is not None and b is None for a, b in pairs)
    return more and all(b is None or (a is not None and _parts(a) >= cells) for a, b in pairs)


@dataclass
class _Search:
    """Shares for one dimension after the other; what cannot become better than the best is left."""

    parts: Sequence[Sequence[int | None]]
    """By dimension and scan: into how many parts the key can cut; None: there is none."""
    rates: Sequence[float]
    best: tuple[int, ...] = ()
    cost: tuple[float, float] = field(init=False)
    """Load of a cell and copies made."""

    def __post_init__(self) -> None:
        self.cost = (sum(self.rates), sum(self.rates))

    def go(self, shares: tuple[int, ...], left: int) -> None:
        """Try what remains for the dimensions behind these; `left` is how many parts they may make."""
        cost = self._least(shares, left)
        if cost >= self.cost:
            return
        if len(shares) == len(self.parts):
            self.best, self.cost = shares, cost
            return
        most = max(p for p in self.parts[len(shares)] if p is not None)
        for share in range(min(left, most), 0, -1):
            self.go((*shares, share), left // share)

    def _least(self, shares: Sequence[int], left: int) -> tuple[float, float]:
        """What a grid that begins with these shares costs at least."""
        load = copies = 0.0
        behind = self.parts[len(shares) :]
        for scan, rate in enumerate(self.rates):
            cut = copied = 1
            for parts, share in zip(self.parts, shares, strict=False):
                most = parts[scan]
                if most is None:
                    copied *= share
                else:
                    cut *= min(share, most)
            if any(parts[scan] is not None for parts in behind):
                cut *= left
            load += rate / cut
            copies += rate * copied
        return round(load, 9), round(copies, 9)


def _parts(key: Key) -> int:
    """Into how many parts a key can cut at most."""
    return prod(1 if is_constant(t) else _VALUES.get(t.type, 1 << 31) for t in key)
