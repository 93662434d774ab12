"""Rows of several inputs on their way into the rings of a join, and the order in which they are events there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from penstock.kernels.join import chains
from penstock.operators.join.predicates import KeyMaker
from penstock.types.batch import Array, Batch, Column
from penstock.types.memory import joined, room


class Rings(Protocol):
    """One ring an input."""

    def reserve(self, wanted: Sequence[int]) -> None:
        """Room for so many more rows in each."""
        ...

    def admit(self, i: int, batch: Batch, payload: Sequence[Column], keys: Sequence[Array]) -> int:
        """Write rows; where the first of them is."""
        ...


def entered(
    makers: Sequence[KeyMaker], stored: Sequence[tuple[int, ...]], inputs: Sequence[Batch], rings: Rings
) -> tuple[Array, Array, Array] | None:
    """Write all rows that can match anything; time, input and place of each, by (ts, input). None: there are none."""
    batches, keys = zip(
        *(maker.clean(raw, narrow=True) for maker, raw in zip(makers, inputs, strict=True)), strict=True
    )
    bounds = np.cumsum([0, *(len(b) for b in batches)])
    n = int(bounds[-1])
    if not n:
        return None
    rings.reserve([len(b) for b in batches])
    firsts = np.zeros(len(batches), np.int64)
    for i, (batch, maker) in enumerate(zip(batches, makers, strict=True)):
        if len(batch):
            payload = (*(batch.columns[k] for k in stored[i]), *maker.held(batch))
            firsts[i] = rings.admit(i, batch, payload, keys[i])
    ts, side, place = room(n, np.int64), room(n, np.int8), room(n, np.int32)
    chains.in_turn(joined([b.ts for b in batches]), bounds, bounds[:-1].copy(), firsts, ts, side, place)
    return ts, side, place
