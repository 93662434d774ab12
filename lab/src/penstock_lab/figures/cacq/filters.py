"""Five attributes with a filter each, queries that share them, and how many filters a tuple has to visit.

A tuple is done when every query is decided: one of its predicates failed, or all were passed. It is sent only to filters that some undecided query
has. So the number of visits follows from the order, and its expectation can be computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations, product

import numpy as np
import pyarrow as pa

STREAM = "readings"
ATTRIBUTES = ("alpha", "beta", "gamma", "delta", "epsilon")
VALUES = 100
"""An attribute is uniform in 0 … VALUES - 1, so `x < n` passes n per cent."""
DECLARATION = (
    f"CREATE STREAM {STREAM} (ts BIGINT, "
    + ", ".join(f"{name} INT" for name in ATTRIBUTES)
    + ") WATERMARK ts DELAY OF INTERVAL 0;"
)
_SCHEMA = pa.schema([("ts", pa.int64()), *((name, pa.int32()) for name in ATTRIBUTES)])

Filters = frozenset[int]


@dataclass(frozen=True, slots=True)
class Below:
    """A query: each of these attributes, by its place, is below a number of its own."""

    below: tuple[tuple[int, int], ...]

    @property
    def filters(self) -> Filters:
        return frozenset(attribute for attribute, _ in self.below)

    def sql(self) -> str:
        where = " AND ".join(f"{ATTRIBUTES[a]} < {n}" for a, n in self.below)
        return f"SELECT ts FROM {STREAM} WHERE {where}"

    def matches(self, batch: pa.RecordBatch) -> int:
        """How many rows it wants, the plain way."""
        columns = [batch.column(ATTRIBUTES[a]).to_numpy() < n for a, n in self.below]
        return int(np.logical_and.reduce(columns).sum())


PASSING = (10, 30, 50, 70, 90)
GROWING = tuple(Below(tuple(enumerate(PASSING[:count]))) for count in range(1, 6))
"""Query i has the first i predicates: alpha < 10, beta < 30, gamma < 50, delta < 70, epsilon < 90."""


def batches(count: int, rows: int, *, start: int = 0, seed: int = 7) -> Iterator[pa.RecordBatch]:
    random = np.random.default_rng([seed, start])
    for first in range(start, start + count * rows, rows):
        ts = pa.array(np.arange(first, first + rows, dtype=np.int64))
        values = [pa.array(random.integers(0, VALUES, rows, dtype=np.int32)) for _ in ATTRIBUTES]
        yield pa.RecordBatch.from_arrays([ts, *values], schema=_SCHEMA)


def expected(queries: Sequence[Below], passing: Sequence[int], choose: Callable[[Filters], Filters]) -> float:
    """Visits a tuple, if `choose` says which of the filters that are still wanted may be next, each as likely.

    Every attribute has one number in all queries: `passing`, per cent.
    """
    wanted = [q.filters for q in queries]

    @cache
    def visits(seen: Filters, passed: Filters, outcome: Filters) -> float:
        undecided = [f for f in wanted if f & seen <= passed and not f <= seen]
        left = frozenset[int]().union(*undecided) - seen
        if not left:
            return 0.0
        chosen = choose(left)
        return 1 + sum(visits(seen | {f}, passed | ({f} & outcome), outcome) for f in chosen) / len(chosen)

    total = 0.0
    for outcome in product((False, True), repeat=len(passing)):
        chance = float(
            np.prod([p / 100 if o else 1 - p / 100 for p, o in zip(passing, outcome, strict=True)])
        )
        total += chance * visits(frozenset(), frozenset(), frozenset(np.flatnonzero(outcome).tolist()))
    return total


def by_order(order: Sequence[int]) -> Callable[[Filters], Filters]:
    return lambda left: frozenset([next(f for f in order if f in left)])


def at_random(left: Filters) -> Filters:
    return left


def best_and_worst(queries: Sequence[Below], passing: Sequence[int]) -> tuple[float, float]:
    """Over all fixed orders."""
    every = [expected(queries, passing, by_order(order)) for order in permutations(range(len(passing)))]
    return min(every), max(every)
