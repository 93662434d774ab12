"""Selection and projection: stateless, order-keeping.

Paper      Golab & Özsu 2005, §2.1.
Invariant  a row and its negative tuple meet the same fate, since expressions are deterministic.
Pattern    as the input (rule 1).
State      none.
Cost       O(rows).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.operators.capabilities import Share
from penstock.operators.contract import Site, empty
from penstock.plan.expressions import Column as ColumnRef
from penstock.plan.expressions import Expression, Named
from penstock.types.batch import ABSENT, Batch


class Selection:
    """Rows for which the predicate is true."""

    def __init__(self, site: Site, predicate: Expression) -> None:
        self._test = site.evaluator.predicate(predicate)
        self._text = str(predicate)
        self._share = Share()

    def step(self, inputs: Sequence[Batch], now: int) -> Batch:
        (batch,) = inputs
        if not len(batch):
            return batch
        rows = np.flatnonzero(self._test(batch.columns, len(batch)))
        self._share.count(len(batch), len(rows))
        return batch if len(rows) == len(batch) else batch.take(rows)

    def shares(self) -> dict[str, float]:
        share = self._share.value
        return {} if share is None else {self._text: share}


class Projection:
    """Computed columns; those nobody reads are not computed."""

    def __init__(self, site: Site, outputs: Sequence[Named], needed: frozenset[int]) -> None:
        self._width = len(outputs)
        self._direct = [n.expression.index if isinstance(n.expression, ColumnRef) else -1 for n in outputs]
        self._run = [
            site.evaluator.compile(n.expression) if i in needed and self._direct[i] < 0 else None
            for i, n in enumerate(outputs)
        ]

    def step(self, inputs: Sequence[Batch], now: int) -> Batch:
        (batch,) = inputs
        if not len(batch):
            return empty(self._width)
        columns = batch.columns
        return batch.with_columns(
            tuple(
                columns[direct] if direct >= 0 else ABSENT if run is None else run(columns, len(batch))
                for direct, run in zip(self._direct, self._run, strict=True)
            )
        )
