"""Columns and batches: what flows on every edge.

A `Column` is a NumPy array with an optional validity mask. It may be *lazy*: a base array and row
numbers into it, gathered once, when somebody asks. So a join's result is row ids until it leaves, and
a column nobody reads is never copied.

A `Batch` is a set of changes in event-time order: `ts` (when it becomes true), `exp` (when it stops
being true as far as is known), `sign` (None: all are '+'), the columns, and room for `rank` and
`lineage`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.types.event_time import FOREVER
from penstock.types.memory import copied, joined, taken

Array = NDArray[Any]
Ints = NDArray[np.int64]
Rows = NDArray[np.int64] | NDArray[np.int32]
Mask = NDArray[np.bool_]


_NOTHING: Array = np.empty(0, np.int8)


class Column:
    """Values and validity (None: nothing is NULL); values under NULL are unspecified."""

    __slots__ = ("_base", "_rows", "_valid", "_values", "lent")
    _taken = staticmethod(taken)
    """How rows are gathered."""

    def __init__(self, values: Array, valid: Mask | None = None, *, lent: bool = False) -> None:
        self._values: Array | None = values
        self._valid = valid
        self.lent = lent
        """In memory that others have too, and nobody will write to."""
        self._base: Column | None = None
        self._rows: Rows | None = None

    @classmethod
    def lazy(cls, values: Array, valid: Mask | None, rows: Rows) -> Column:
        """`values[rows]`, gathered when first asked for."""
        return cls.over(Column(values, valid), rows)

    @classmethod
    def over(cls, base: Column, rows: Rows) -> Column:
        """The same of a column."""
        column = cls(_NOTHING)
        column._values = None
        column._base, column._rows = base, rows
        return column

    def _gather(self) -> None:
        base, rows = self._base, self._rows
        assert base is not None and rows is not None
        self._values = self._taken(base.values, rows)
        valid = base.valid
        self._valid = None if valid is None else valid.take(rows)
        self._base = self._rows = None

    @property
    def values(self) -> Array:
        if self._values is None:
            self._gather()
        return self._values  # type: ignore[return-value]

    @property
    def valid(self) -> Mask | None:
        if self._values is None:
            self._gather()
        return self._valid

    @property
    def held(self) -> tuple[Column, Rows] | None:
        """What it is to be gathered from, and the rows; None: it has been, or never was to be."""
        base, rows = self._base, self._rows
        return None if base is None or rows is None else (base, rows)

    def __len__(self) -> int:
        return len(self._rows) if self._rows is not None else len(self.values)

    def take(self, rows: Rows, memo: dict[int, Rows] | None = None) -> Column:
        """The column at these rows, still lazy; `memo` shares composed row numbers between columns."""
        if self._rows is None:
            return Column.over(self, rows)
        inner = self._rows
        composed = None if memo is None else memo.get(id(inner))
        if composed is None:
            composed = inner.take(rows)
            if memo is not None:
                memo[id(inner)] = composed
        assert self._base is not None
        return self.over(self._base, composed)

    def copy(self, *, lent: bool = False) -> Column:
        """The same rows in memory of its own."""
        values, valid = self.values, self._valid
        return Column(copied(values), None if valid is None else valid.copy(), lent=lent)

    def kept(self) -> Column:
        """The same rows in memory that stays as it is, so that whoever keeps it next need not copy it again."""
        return self if self.lent else self.copy(lent=True)

    def slice(self, start: int, stop: int) -> Column:
        """Rows [start, stop): a view."""
        if self._rows is not None and self._base is not None:
            return self.over(self._base, self._rows[start:stop])
        valid = self._valid
        return Column(self.values[start:stop], None if valid is None else valid[start:stop], lent=self.lent)


def concat(columns: Sequence[Column]) -> Column:
    """One column after the other."""
    if len(columns) == 1:
        return columns[0]
    values = joined([c.values for c in columns])
    valids = [c.valid for c in columns]
    if all(v is None for v in valids):
        return Column(values)
    masks = [np.ones(len(c), np.bool_) if c.valid is None else c.valid for c in columns]
    return Column(values, np.concatenate(masks))


class Batch:
    """Changes of one edge in event-time order."""

    __slots__ = ("columns", "exp", "lineage", "rank", "sign", "ts")

    def __init__(
        self,
        ts: Ints,
        exp: Ints,
        columns: tuple[Column, ...],
        sign: NDArray[np.int8] | None = None,
        rank: NDArray[np.int8] | None = None,
        lineage: Array | None = None,
    ) -> None:
        self.ts = ts
        self.exp = exp
        self.columns = columns
        self.sign = sign
        self.rank = rank
        self.lineage = lineage

    def __len__(self) -> int:
        return len(self.ts)

    def with_columns(self, columns: tuple[Column, ...]) -> Batch:
        return Batch(self.ts, self.exp, columns, self.sign, self.rank, self.lineage)

    def take(self, rows: Rows) -> Batch:
        """The changes at these positions, in this order."""
        memo: dict[int, Rows] = {}
        ts = taken(self.ts, rows)
        return Batch(
            ts,
            ts if self.exp is self.ts else taken(self.exp, rows),
            tuple(c.take(rows, memo) for c in self.columns),
            None if self.sign is None else self.sign.take(rows),
            None if self.rank is None else self.rank.take(rows),
            None if self.lineage is None else self.lineage[rows],
        )

    def slice(self, start: int, stop: int) -> Batch:
        """Changes [start, stop): a view."""
        if start == 0 and stop == len(self):
            return self
        return Batch(
            self.ts[start:stop],
            self.exp[start:stop],
            tuple(c.slice(start, stop) for c in self.columns),
            None if self.sign is None else self.sign[start:stop],
            None if self.rank is None else self.rank[start:stop],
            None if self.lineage is None else self.lineage[start:stop],
        )


class _Endless:
    """One array for all who need it."""

    array = np.empty(0, np.int64)


def endless(rows: int) -> Ints:
    """Ends of rows that never end; nobody writes to them."""
    if len(_Endless.array) < rows:
        _Endless.array = np.full(max(1 << 12, 2 * rows), FOREVER)
    return _Endless.array[:rows]


def is_endless(exp: Ints) -> bool:
    """Whether these are such ends, as far as can be told without looking at them."""
    return exp.base is _Endless.array


def gather(columns: Sequence[Column], rows: Rows) -> tuple[Column, ...]:
    """Several columns at the same rows."""
    memo: dict[int, Rows] = {}
    return tuple(c.take(rows, memo) for c in columns)


def same(a: Column, b: Column) -> Mask:
    """Row by row: equal values, or both NULL, or both NaN."""
    equal: Mask = a.values == b.values
    if a.values.dtype.kind == "f":
        equal |= np.isnan(a.values) & np.isnan(b.values)
    if a.valid is None and b.valid is None:
        return equal
    there = np.ones(len(equal), np.bool_)
    left = there if a.valid is None else a.valid
    right = there if b.valid is None else b.valid
    return np.where(left & right, equal, left == right)


class Absent(Column):
    """A column nobody downstream reads."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(np.empty(0, np.int8))

    def take(self, rows: Rows, memo: dict[int, Rows] | None = None) -> Column:
        return self

    def slice(self, start: int, stop: int) -> Column:
        return self


ABSENT = Absent()
