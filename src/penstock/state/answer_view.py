"""A query's answer, kept up to date from its changes (Golab & Özsu 2005, Definition 2).

The view holds on to the batches that were sent. Large ones are let go of when they are over; small ones, and those of which
most has ended, are put together without the rows that ended. All that only when as much has come as is alive, so that upkeep is O(1) a
change.

WEAKEST, WEAK   a row is there until its exp
STRICT          '-' takes away one equal row with the same exp

That is lazy. Where it is to be up to date at any time (`Upkeep.eager`), and in the executions to compare with, the
rows alive are kept in a roster.

(The answer of a GROUP BY that replaces its rows is held by its groups.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.kernels.state.live_row_events import time_order
from penstock.plan.edge import Edge
from penstock.plan.state_upkeep import Upkeep
from penstock.state import key_words
from penstock.state.arena import Arena
from penstock.state.live_rows import Roster
from penstock.state.renumbering import SPARSE
from penstock.state.sweep_schedule import Due
from penstock.state.value_ids import Registry
from penstock.types import sizes
from penstock.types.batch import Array, Batch, Column, concat
from penstock.types.data_type import Type
from penstock.types.event_time import EARLIEST


class View:
    """`types` are all columns of a change."""

    def __init__(self, types: Sequence[Type], edge: Edge, upkeep: Upkeep) -> None:
        self._types = list(types)
        self._edge = edge
        self._upkeep = upkeep
        self._arena = Arena()
        self._roster: Roster | None = None
        self._chunks: list[Batch] = []
        self._rows = 0
        self._limit = sizes.current.view_rows
        self._due = Due()
        self._settled = 0
        """Rows that were alive when it was compacted last."""
        self.clock = EARLIEST
        """Until when changes were taken."""

    def __len__(self) -> int:
        return self._rows if self._roster is None else len(self._roster)

    @property
    def structure(self) -> str:
        """In words."""
        return "batches as they were sent" if self._roster is None else self._roster.structure

    @property
    def visits(self) -> int:
        """Rows put in, looked at and taken out."""
        return self._arena.visits

    def add(self, batch: Batch, now: int) -> None:
        """Take changes whose columns are gathered for good."""
        if len(batch):
            self._due.note(batch.exp, now)
        if self._upkeep.eager is not None or not self._upkeep.expiry.aware or self._edge.told:
            self._in_roster().step(batch, now)
            self._in_roster().finish()
        else:
            self._in_chunks().append(batch)
            self._rows += len(batch)
            self._arena.visits += len(batch)
            if self._rows > self._limit and not self._drop(now):
                self.compact(now)
        self.clock = now

    def _in_roster(self) -> Roster:
        """The rows alive before the next changes, in a roster from now on."""
        if self._roster is None:
            before = self._whole(self.clock)
            order = time_order(before.ts)
            self._chunks, self._rows = [], 0
            self._roster = Roster(self._arena, "view", self._types, self._edge, self._upkeep)
            if len(before):
                self._roster.step(before if order is None else before.take(order), self.clock)
        return self._roster

    def _in_chunks(self) -> list[Batch]:
        """The same as a batch."""
        if self._roster is not None:
            self._chunks = [self._alive(self.clock)]
            self._rows, self._roster, self._arena.arrays = len(self._chunks[0]), None, {}
        return self._chunks

    def _drop(self, now: int) -> bool:
        """Let go of large batches that are over, and copy nothing; whether that is enough."""
        if self._rows < sizes.current.view_batch_rows * len(self._chunks) or any(
            c.sign is not None for c in self._chunks
        ):
            return False
        self._arena.visits += self._rows
        alive = [int(np.count_nonzero(chunk.exp > now)) for chunk in self._chunks]
        self._chunks = [chunk for chunk, rows in zip(self._chunks, alive, strict=True) if rows]
        self._rows, live = sum(map(len, self._chunks)), sum(alive)
        self._limit = max(sizes.current.view_rows, self._rows + live)
        return self._rows <= 3 * live

    def compact(self, now: int) -> None:
        """Let go of rows that ended."""
        if self._roster is not None:
            return
        self._arena.visits += self._rows
        live = self._whole(now)
        self._chunks = [live]
        self._rows = len(live)
        self._limit = max(sizes.current.view_rows, 4 * self._rows)
        self._looked(now)

    def _looked(self, now: int) -> None:
        """Next to all rows are alive."""
        self._settled = self._rows
        self._due.looked(now)

    def shrink(self, now: int, coming: int) -> None:
        """Give back what rows that ended take, once there may be many of them, unless so many come."""
        if self._roster is not None:
            if self._due.passed(now):
                self.add(_whole((), len(self._types)), now)
                self._due.looked(now)
            self._roster.shrink(coming)
        elif self._rows > sizes.current.sparse_rows and SPARSE * coming <= self._rows:
            if self._due.passed(now) or self._rows > SPARSE * self._settled:
                if self._drop(now):
                    self._looked(now)
                else:
                    self.compact(now)

    def at(self, now: int) -> Batch:
        """The rows alive at the clock."""
        return self._whole(now) if self._roster is None else self._alive(now)

    def _alive(self, now: int) -> Batch:
        """What the roster holds."""
        assert self._roster is not None
        slots = self._roster.live()
        slots = slots[self._roster.end[slots] > now]
        exp = self._roster.slab["exp"][slots]
        return Batch(np.full(len(slots), now), exp, self._roster.columns(slots))

    def _whole(self, now: int) -> Batch:
        """What the batches hold; they are let go of."""
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
        table = np.column_stack([key_words.rows(batch.columns, self._types, n), batch.exp])
        ids = Registry(Arena(), "view", table.shape[1]).ids(table)
        net = np.bincount(ids, weights=batch.sign, minlength=1).astype(np.int64)
        rows = np.flatnonzero(batch.sign > 0)
        return rows[key_words.copies(ids[rows]) < net[ids[rows]]]

    def save(self, arena: Arena, now: int) -> None:
        """Lay the rows alive at the clock into an arena."""
        self.compact(now)
        arena.keep_rows("view", self.at(now))

    def take_up(self, arena: Arena) -> None:
        """Hold what was saved."""
        live = arena.rows("view", self._types)
        if live is not None:
            self._chunks, self._rows = [live], len(live)
            self._limit = max(self._limit, 4 * len(live))
            if len(live):
                self._due.note(live.exp, int(live.ts.max()))

    @property
    def size_bytes(self) -> int:
        return self._arena.size_bytes + sum(
            c.ts.nbytes + c.exp.nbytes + sum(col.values.nbytes for col in c.columns) for c in self._chunks
        )

    def columns_in_use(self, now: int) -> list[tuple[Type, Column]]:
        """Every column the view holds, with its type."""
        self.compact(now)
        held = self._chunks if self._roster is None else [self._alive(now)]
        return [(t, col) for c in held for t, col in zip(self._types, c.columns, strict=True)]


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
