"""A query's answer, kept up to date from its changes (Golab & Özsu 2005, Definition 2).

The view holds on to the batches that were sent; rows that ended are dropped when a whole batch is over and
when they have become the majority, so that upkeep is O(1) a change.

WEAKEST, WEAK   a row is there until its exp
STRICT          '-' takes away one equal row with the same exp
by key          a newer row with the same key replaces the older
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
    """`types` are all columns of a change, `key` those that replace rows (None: nothing does)."""

    def __init__(self, types: Sequence[Type], key: tuple[int, ...] | None) -> None:
        self._types = list(types)
        self._key = key
        self._chunks: list[Batch] = []
        self._rows = 0
        self._limit = 1 << 16

    def add(self, batch: Batch, now: int) -> None:
        """Take changes whose columns are gathered for good."""
        self._chunks.append(batch)
        self._rows += len(batch)
        if self._rows > self._limit:
            self._compact(now)

    def _compact(self, now: int) -> None:
        live = self.at(now)
        self._chunks = [live]
        self._rows = len(live)
        self._limit = max(1 << 16, 4 * self._rows)

    def at(self, now: int) -> Batch:
        """The rows alive at the clock."""
        if self._key is not None:
            return self._by_key(now)
        kept = []
        for chunk in self._chunks:
            alive = chunk.exp > now
            if alive.any():
                kept.append(chunk if alive.all() else chunk.take(np.flatnonzero(alive)))
        self._chunks = kept
        self._rows = sum(len(c) for c in kept)
        whole = _whole(kept, len(self._types))
        return whole if whole.sign is None else whole.take(self._net(whole))

    def _net(self, batch: Batch) -> Array:
        """Positions of '+' rows that no '-' took away."""
        n = len(batch)
        assert batch.sign is not None
        ids = self._ids(batch.columns, self._types, n, batch.exp)
        net = np.bincount(ids, weights=batch.sign, minlength=1).astype(np.int64)
        rows = np.flatnonzero(batch.sign > 0)
        return rows[words.copies(ids[rows]) < net[ids[rows]]]

    def _by_key(self, now: int) -> Batch:
        whole = _whole(self._chunks, len(self._types))
        n = len(whole)
        if n == 0:
            return whole
        assert self._key is not None
        columns = [whole.columns[k] for k in self._key]
        ids = self._ids(columns, [self._types[k] for k in self._key], n, None)
        last = np.full(int(ids.max()) + 1, -1, np.int64)
        last[ids] = np.arange(n)
        rows = np.sort(last[last >= 0])
        alive = whole.exp[rows] > now
        if whole.sign is not None:
            alive &= whole.sign[rows] > 0
        live = whole.take(rows[alive])
        return Batch(live.ts, live.exp, live.columns)

    def _ids(self, columns: Sequence[Column], types: Sequence[Type], n: int, exp: Array | None) -> Array:
        table = words.rows(columns, types, n)
        if exp is not None:
            table = np.column_stack([table, exp])
        return Registry(Arena(), "view", table.shape[1]).ids(table)

    @property
    def size_bytes(self) -> int:
        return sum(
            c.ts.nbytes + c.exp.nbytes + sum(col.values.nbytes for col in c.columns) for c in self._chunks
        )

    def columns_in_use(self) -> list[tuple[Type, Column]]:
        """Every column the view holds, with its type."""
        return [
            (t, col) for c in self._chunks for t, col in zip(self._types, c.columns, strict=True)
        ]


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
