"""A query's answer, kept up to date from its changes (Golab & Özsu 2005, Definition 2).

The view holds on to the batches that were sent; rows that ended are dropped when a whole batch is over and
when they have become the majority, so that upkeep is O(1) a change.

WEAKEST, WEAK   a row is there until its exp
STRICT          '-' takes away one equal row with the same exp

(The answer of a GROUP BY that replaces its rows is held by its groups.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.data.batch import Array, Batch, Column, concat
from penstock.data.types import Type
from penstock.state import words
from penstock.state.arena import Arena
from penstock.state.registry import Registry


class View:
    """`types` are all columns of a change."""

    def __init__(self, types: Sequence[Type]) -> None:
        self._types = list(types)
        self._chunks: list[Batch] = []
        self._rows = 0
        self._limit = 1 << 16

    def add(self, batch: Batch, now: int) -> None:
        """Take changes whose columns are gathered for good."""
        self._chunks.append(batch)
        self._rows += len(batch)
        if self._rows > self._limit:
            self.compact(now)

    def compact(self, now: int) -> None:
        """Let go of rows that ended."""
        live = self.at(now)
        self._chunks = [live]
        self._rows = len(live)
        self._limit = max(1 << 16, 4 * self._rows)

    def at(self, now: int) -> Batch:
        """The rows alive at the clock."""
        kept = []
        for chunk in self._chunks:
            alive = chunk.exp > now
            if alive.any():
                kept.append(chunk if alive.all() else chunk.take(np.flatnonzero(alive)))
        live = _whole(kept, len(self._types))
        if live.sign is not None:
            live = live.take(self._net(live))
            live.sign = None
            kept = [live]
        self._chunks = kept
        self._rows = sum(len(c) for c in kept)
        return live

    def _net(self, batch: Batch) -> Array:
        """Positions of '+' rows that no '-' took away."""
        n = len(batch)
        assert batch.sign is not None
        table = np.column_stack([words.rows(batch.columns, self._types, n), batch.exp])
        ids = Registry(Arena(), "view", table.shape[1]).ids(table)
        net = np.bincount(ids, weights=batch.sign, minlength=1).astype(np.int64)
        rows = np.flatnonzero(batch.sign > 0)
        return rows[words.copies(ids[rows]) < net[ids[rows]]]

    def save(self, arena: Arena, now: int) -> None:
        """Lay the rows alive at the clock into an arena."""
        self.compact(now)
        (live,) = self._chunks
        arena.keep_rows("view", live)

    def take_up(self, arena: Arena) -> None:
        """Hold what was saved."""
        live = arena.rows("view", self._types)
        if live is not None:
            self._chunks, self._rows = [live], len(live)
            self._limit = max(self._limit, 4 * len(live))

    @property
    def size_bytes(self) -> int:
        return sum(
            c.ts.nbytes + c.exp.nbytes + sum(col.values.nbytes for col in c.columns) for c in self._chunks
        )

    def columns_in_use(self) -> list[tuple[Type, Column]]:
        """Every column the view holds, with its type."""
        return [(t, col) for c in self._chunks for t, col in zip(self._types, c.columns, strict=True)]


def _whole(chunks: Sequence[Batch], width: int) -> Batch:
    if not chunks:
        none = np.empty(0, np.int64)
        return Batch(none, none, tuple(Column(none) for _ in range(width)))
    if len(chunks) == 1:
        return chunks[0]
    sign = None
    if any(c.sign is not None for c in chunks):
        sign = np.concatenate([np.ones(len(c), np.int8) if c.sign is None else c.sign for c in chunks])
    return Batch(
        np.concatenate([c.ts for c in chunks]),
        np.concatenate([c.exp for c in chunks]),
        tuple(concat(parts) for parts in zip(*(c.columns for c in chunks), strict=True)),
        sign,
    )
