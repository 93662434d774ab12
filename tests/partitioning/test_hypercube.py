"""Shares: the grid found is as good as the best of all grids."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from math import prod

import pytest

from penstock.partitioning.hypercube import grid
from penstock.partitioning.keys import ONE_PLACE, Dimension
from penstock.plan.expressions import Column
from penstock.types.data_type import Type

X, E = Column(0, Type.INT, "x"), Column(1, Type.BOOLEAN, "e")


def grids(dimensions: Sequence[Dimension], cells: int) -> Iterator[list[tuple[Dimension, int]]]:
    if not dimensions:
        yield []
        return
    for share in range(1, cells + 1):
        for rest in grids(dimensions[1:], cells // share):
            yield [(dimensions[0], share), *rest]


def cost(chosen: Sequence[tuple[Dimension, int]], rates: Sequence[float]) -> tuple[float, float]:
    """Rows in the busiest cell, if keys of few values fall into as many parts; copies of all rows."""
    values = {X: 1000, E: 3, ONE_PLACE: 1}
    load = sum(
        rate / prod(min(share, values[d[i][0]]) for d, share in chosen if d[i] is not None)  # type: ignore[index]
        for i, rate in enumerate(rates)
    )
    copies = sum(rate * prod(share for d, share in chosen if d[i] is None) for i, rate in enumerate(rates))
    return round(load, 9), round(copies, 9)


@pytest.mark.parametrize("seed", range(60))
def test_no_grid_is_better(seed: int) -> None:
    rng = random.Random(seed)
    scans, cells = rng.randint(1, 4), rng.randint(2, 12)
    rates = [rng.choice((1.0, 1.0, 5.0, 0.1)) for _ in range(scans)]
    found: dict[tuple[bool, ...], Dimension] = {}
    for _ in range(rng.randint(1, 4)):
        keys = tuple(rng.choice(((X,), (X,), (E,), (ONE_PLACE,), None, None)) for _ in range(scans))
        if any(keys):
            found[tuple(k is None for k in keys)] = keys
    dimensions = list(found.values())
    chosen = grid(dimensions, rates, cells)
    assert prod(share for _, share in chosen) <= cells
    assert cost(chosen, rates) == min(cost(g, rates) for g in grids(dimensions, cells))
