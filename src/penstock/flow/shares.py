"""How many parts to cut each dimension of a grid into (Afrati & Ullman 2010, by trying all grids).

The busiest cell is what counts: it takes rate / (shares of the dimensions that deal a scan out) rows of each scan. A
dimension that deals out everything divides all of it; one that deals out a part of the scans copies the others. So the
least load also avoids what a prime number of cells invites: a chain of three over 5 cells takes 2 × 2 of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from penstock.data.types import Type
from penstock.flow.dimensions import Dimension, Key
from penstock.flow.terms import is_constant

MOST = 6
"""Dimensions tried at once: those that deal out most."""

_VALUES = {Type.BOOLEAN: 3, Type.TINYINT: 257}
"""Types with so few values, NULL among them, that more parts would stay empty."""


def grid(dimensions: Sequence[Dimension], rates: Sequence[float], cells: int) -> list[tuple[Dimension, int]]:
    """Dimensions of the grid with the least load of a cell, each with its share (2 or more); none: one cell."""
    ordered = sorted(dimensions, key=lambda d: -sum(r for r, key in zip(rates, d, strict=True) if key))
    tried = ordered[:MOST]
    best = min(_products(len(tried), cells), key=lambda shares: _cost(tried, shares, rates))
    return [(d, share) for d, share in zip(tried, best, strict=True) if share > 1]


def _products(factors: int, most: int) -> Iterator[tuple[int, ...]]:
    """All tuples of that many factors whose product is at most `most`."""
    if factors == 0:
        yield ()
        return
    for first in range(1, most + 1):
        for rest in _products(factors - 1, most // first):
            yield (first, *rest)


def _cost(
    dimensions: Sequence[Dimension], shares: Sequence[int], rates: Sequence[float]
) -> tuple[float, float, int, tuple[int, ...]]:
    """What the busiest cell takes, then the copies made; then few cells, and the order of the dimensions."""
    load = copies = 0.0
    for scan, rate in enumerate(rates):
        keys = [(d[scan], share) for d, share in zip(dimensions, shares, strict=True)]
        load += rate / prod(min(share, _parts(key)) for key, share in keys if key is not None)
        copies += rate * prod(share for key, share in keys if key is None)
    return round(load, 9), round(copies, 9), prod(shares), tuple(-s for s in shares)


def _parts(key: Key) -> int:
    """Into how many parts a key can cut at most."""
    return prod(1 if is_constant(t) else _VALUES.get(t.type, 1 << 31) for t in key)
