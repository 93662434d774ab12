"""A table as it changes: what it holds at the clock, and updates that wait for theirs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.errors import DataError, StateError
from penstock.plan.catalog import Table
from penstock.state import key_words
from penstock.state.arena import Arena
from penstock.state.value_ids import Registry
from penstock.types.batch import Array, Batch, Column, concat
from penstock.types.data_type import Type
from penstock.types.event_time import FOREVER


class RelationState:
    """Versions of a table: `content`, and `waiting`, updates of it as (at, '-' rows, '+' rows) in order of `at`.

    Queries whose clocks differ see different versions. Updates that all of them have seen are part of `content` (`forget`).
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self._types = [f.type for f in table.schema]
        self.content: tuple[Column, ...] = tuple(Column(np.empty(0, t.dtype)) for t in self._types)
        self.waiting: list[tuple[int, tuple[Column, ...], tuple[Column, ...]]] = []
        self._versions: dict[int, tuple[Column, ...]] = {}
        """By the instant of an update: the content with it, where a query has needed that."""

    def update(self, at: int, clock: int, delete: tuple[Column, ...], insert: tuple[Column, ...]) -> None:
        """Schedule an update; deletes name rows of the table as it will be then."""
        if at <= clock:
            raise DataError(
                f"table {self.table.name}: an update at {at} is too late: the clock is at {clock}",
                hint="leave out `at`, or give a later time",
            )
        before = [u for u in self.waiting if u[0] < at]
        same = [u for u in self.waiting if u[0] == at]
        after = [u for u in self.waiting if u[0] > at]
        for _, gone, new in same:
            # One instant, one change: what came and went within it was never there.
            kept, left = _matched(new, delete, self._types)
            delete = _joined(gone, gather(delete, left))
            insert = _joined(gather(new, kept), insert)
        waiting = [*before, (at, delete, insert), *after]
        future = self.content
        for _, gone, new in waiting:
            future = _applied(future, gone, new, self._types, self.table.name)
        self.waiting = waiting

    def at(self, clock: int) -> tuple[Column, ...]:
        """The content with all updates up to an instant."""
        content = self.content
        for at, gone, new in self.waiting:
            if at > clock:
                break
            if at not in self._versions:
                self._versions[at] = _applied(content, gone, new, self._types, self.table.name)
            content = self._versions[at]
        return content

    def between(self, clock: int, until: int) -> Batch:
        """The updates after one instant and up to another."""
        parts: list[tuple[int, int, tuple[Column, ...]]] = []
        for at, gone, new in self.waiting:
            if clock < at <= until:
                parts += [(at, -1, gone), (at, 1, new)]
        return changes(parts, self._types)

    def forget(self, clock: int) -> None:
        """Updates up to the clock become part of the content: every query has seen them."""
        if not self.waiting or self.waiting[0][0] > clock:
            return
        self.content = self.at(clock)
        self.waiting = [update for update in self.waiting if update[0] > clock]
        self._versions = {at: made for at, made in self._versions.items() if at > clock}

    def initial(self, since: int, clock: int) -> Batch:
        """The content at the clock as changes at a query's first instant."""
        return changes([(since, 1, self.at(clock))], self._types)

    def since(self, since: int, content: tuple[Column, ...], updates: Batch) -> Batch:
        """The content before a step and the step's updates, as one batch for a query that begins with it.

        Updates in the first instant are applied to the content: '-' rows name rows that are there already.
        """
        first = updates.ts == since
        if first.any():
            now = updates.take(np.flatnonzero(first))
            assert now.sign is not None and updates.sign is not None
            gone = gather(now.columns, np.flatnonzero(now.sign < 0))
            new = gather(now.columns, np.flatnonzero(now.sign > 0))
            content = _applied(content, gone, new, self._types, self.table.name)
            updates = updates.take(np.flatnonzero(~first))
        begun = changes([(since, 1, content)], self._types)
        if not len(updates):
            return begun
        assert begun.sign is not None and updates.sign is not None
        return Batch(
            np.concatenate([begun.ts, updates.ts]),
            np.concatenate([begun.exp, updates.exp]),
            _joined(begun.columns, updates.columns),
            np.concatenate([begun.sign, updates.sign]),
        )

    def save(self, arena: Arena) -> None:
        """Lay the content and the updates that wait into an arena."""
        arena.keep_columns("content", self.content)
        arena.keep("ats", np.array([at for at, _, _ in self.waiting], np.int64))
        for k, (_, gone, new) in enumerate(self.waiting):
            arena.keep_columns(f"{k}.gone", gone)
            arena.keep_columns(f"{k}.new", new)

    def take_up(self, arena: Arena) -> None:
        """Be the table that was saved."""

        def columns(name: str) -> tuple[Column, ...]:
            found = arena.columns(name, self._types)
            if found is None:
                raise StateError(f"there are no columns {name}")
            return found

        self.content = columns("content")
        ats = arena.taken("ats", np.int64).tolist()
        self.waiting = [(at, columns(f"{k}.gone"), columns(f"{k}.new")) for k, at in enumerate(ats)]

    def columns_in_use(self) -> list[tuple[Column, ...]]:
        parts = [part for _, gone, new in self.waiting for part in (gone, new)]
        return [self.content, *parts, *self._versions.values()]


def gather(columns: Sequence[Column], rows: Array) -> tuple[Column, ...]:
    return tuple(Column(c.values[rows], None if c.valid is None else c.valid[rows]) for c in columns)


def _joined(a: Sequence[Column], b: Sequence[Column]) -> tuple[Column, ...]:
    return tuple(concat([x, y]) for x, y in zip(a, b, strict=True))


def changes(parts: Sequence[tuple[int, int, tuple[Column, ...]]], types: Sequence[Type]) -> Batch:
    """Rows with a time and a sign as a batch."""
    filled = [p for p in parts if len(p[2][0])]
    none = np.empty(0, np.int64)
    if not filled:
        return Batch(none, none, tuple(Column(none) for _ in types), np.empty(0, np.int8))
    ts = np.concatenate([np.full(len(c[0]), at, np.int64) for at, _, c in filled])
    sign = np.concatenate([np.full(len(c[0]), s, np.int8) for _, s, c in filled])
    columns = tuple(concat(c) for c in zip(*(p[2] for p in filled), strict=True))
    return Batch(ts, np.full(len(ts), FOREVER), columns, sign)


def _matched(rows: Sequence[Column], wanted: Sequence[Column], types: Sequence[Type]) -> tuple[Array, Array]:
    """Positions of `rows` that no wanted row takes, and of wanted rows that found none."""
    n, m = len(rows[0]), len(wanted[0])
    both = _joined(rows, wanted)
    table = key_words.rows(both, types, n + m)
    ids = Registry(Arena(), "match", table.shape[1]).ids(table)
    have, want = key_words.copies(ids[:n]), key_words.copies(ids[n:])
    had = np.bincount(ids[:n], minlength=int(ids.max()) + 1) if n + m else np.zeros(1, np.int64)
    asked = np.bincount(ids[n:], minlength=len(had)) if n + m else had
    return np.flatnonzero(have >= asked[ids[:n]]), np.flatnonzero(want >= had[ids[n:]])


def _applied(
    content: tuple[Column, ...], gone: tuple[Column, ...], new: tuple[Column, ...],
    types: Sequence[Type], name: str,
) -> tuple[Column, ...]:  # fmt: skip
    if len(gone[0]):
        kept, missing = _matched(content, gone, types)
        if len(missing):
            raise DataError(
                f"table {name}: row {int(missing[0])} to delete is not in the table",
                hint="a row to delete names all columns",
            )
        content = gather(content, kept)
    return _joined(content, new) if len(new[0]) else content
