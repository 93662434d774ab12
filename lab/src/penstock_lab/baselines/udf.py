"""The same with a costly function of the quote for a predicate, another one a query.

No table of constants can hold functions, so nothing groups them. A static plan that joins once must apply them above the join: to a quote
as often as it has articles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock_lab.baselines.niagara import Join, copy, read, tables
from penstock_lab.reference import MIX, njit

Array = NDArray[Any]
Predicate = Callable[[pa.Array], pa.Array]
"""From prices to whether a quote is wanted."""

LONGEST = 4000
"""Rounds that a call spins at most, some microseconds; the least is 0 and all between are as likely."""


@njit
def _spin(prices, seed, longest, above, wanted):  # type: ignore[no-untyped-def]
    """Spends the time of every call, which its price and the seed decide, and says what it says."""
    spent = np.uint64(0)
    for i in range(len(prices)):
        drawn = (np.uint64(prices[i]) + seed) * MIX
        rounds = (drawn >> np.uint64(40)) % np.uint64(longest + 1)
        for _ in range(rounds):
            drawn ^= drawn << np.uint64(13)
            drawn ^= drawn >> np.uint64(7)
            drawn ^= drawn << np.uint64(17)
        spent ^= drawn
        wanted[i] = prices[i] > above
    return spent


def predicate(above: int, seed: int, longest: int = LONGEST) -> Predicate:
    """`price > above`, said after a while."""
    start = np.uint64(seed * 2 + 1)

    def wanted(prices: pa.Array) -> pa.Array:
        values = prices.to_numpy(zero_copy_only=False)
        found = np.empty(len(values), np.bool_)
        _spin(values, start, longest, above, found)
        return pa.array(found)

    return wanted


class JoinFirst:
    """One join, then every query's function over all joined rows; those wanted are copied."""

    def __init__(self, articles: pa.RecordBatch, predicates: Sequence[Predicate], session: Any) -> None:
        self.join, self.predicates = Join(articles, session), predicates

    def __call__(self, quotes: pa.RecordBatch) -> list[pa.Table]:
        joined = self.join(read(quotes))
        prices = pa.array(joined["price"])
        wanted = [_rows(predicate(prices)) for predicate in self.predicates]
        begins = np.cumsum([0, *map(len, wanted)])[:-1]
        return tables(copy(joined, np.concatenate(wanted)), begins)


def _rows(wanted: pa.Array) -> Array:
    return np.flatnonzero(wanted.to_numpy(zero_copy_only=False)).astype(np.int32)
