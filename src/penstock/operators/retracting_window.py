"""A window that is kept, and says with a negative tuple when a row leaves it: the start of a told edge.

Paper      Golab & Özsu 2005, §2.3.1 (the negative tuple approach; Hammad et al. 2003).
Invariant  the same rows as below; every end, also one as announced, is a '-' at its time.
Pattern    as below.
State      the live rows. Cost: O(rows that come and go).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.operators.capabilities import Holding
from penstock.operators.contract import Site, empty, placed
from penstock.plan.edge import Edge
from penstock.state.live_rows import Roster
from penstock.types.batch import Batch
from penstock.types.schema import Schema


class Negatives:
    """From an edge whose ends are announced to one whose ends are told."""

    def __init__(self, site: Site, schema: Schema, stored: Sequence[int], edge: Edge) -> None:
        self._stored = tuple(stored)
        self._width = len(schema)
        self._roster = Roster(site.arena, site.name, [schema[i].type for i in stored], edge, site.upkeep)

    def holdings(self) -> list[Holding]:
        return [Holding("window", self._roster.structure, len(self._roster))]

    def shrink(self, coming: int) -> None:
        self._roster.shrink(coming)

    def step(self, inputs: Sequence[Batch], now: int) -> Batch:
        (batch,) = inputs
        stored = tuple(batch.columns[i] for i in self._stored) if len(batch) else ()
        events = self._roster.step(batch.with_columns(stored), now)
        if not len(events.times):
            return empty(self._width)
        columns = self._roster.columns(events.slots)
        for column in columns:
            _ = column.values
        exp = self._roster.slab["exp"][events.slots]
        self._roster.finish()
        out = placed(columns, self._stored, self._width)
        return Batch(events.times, exp, out, np.ascontiguousarray(events.signs))
