"""Grouped filter: what many queries ask of one subject, answered by one look.

Paper      Madden et al. 2002, §2.2 (grouped filter).
Invariant  `table[id of a value]` has a bit for every query that does not object to the value; queries that ask nothing
           here have theirs everywhere.
State      per subject: the constants in order (*bounds* cut the values into *cells*), per cell a bitmap; per disjunction
           over several subjects a second table (*plane*) of what satisfies it here.
Cost       a look-up and words / 4 instructions a row, however many queries; adding or removing a query: O(cells).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from penstock.kernels.filters import lineage as kernels
from penstock.kernels.filters.layout import look_up_all
from penstock.operators.expressions.compiled import RowError, calls_python
from penstock.operators.expressions.evaluator import Computed, Evaluator
from penstock.operators.grouped_filter.interval_lookup import Index, numbers_index, texts_index
from penstock.operators.grouped_filter.value_domains import Mark, covered, holds_for, real_marks
from penstock.plan.expressions import Column as ColumnName
from penstock.plan.expressions import Expression
from penstock.plan.normal_form import Atom, Clause
from penstock.state.strings import Strings
from penstock.types.batch import Array, Column, Mask
from penstock.types.data_type import Type
from penstock.types.memory import aligned, room

NULL_ID = 0
_ALL = np.uint64(2**64 - 1)
_NO_MASK: Mask = np.empty(0, np.bool_)
_NONE = np.uint64(0)
FEW = 8
"""A filter leaves few words if not more than one in so many has a bit."""
_FEW = 4
"""A subject is computed for the rows alive alone if fewer than one in so many are."""


def bit_of(query: int) -> tuple[int, np.uint64]:
    """The word and the bit in it."""
    return query >> 6, np.uint64(1) << np.uint64(query & 63)


@dataclass(slots=True)
class _Asked:
    """What one query asks here."""

    must: list[Clause]
    may: dict[int, Clause]
    """By plane."""

    def atoms(self) -> list[Atom]:
        return [a for c in (*self.must, *self.may.values()) for a in c]


@dataclass(slots=True)
class GroupedFilter:
    """All predicates of a stream's queries on one subject; `words` of 64 queries each."""

    subject: Expression
    evaluator: Evaluator
    strings: Strings
    words: int
    asked: dict[int, _Asked] = field(default_factory=dict)
    """By query."""
    predicates: int = 0
    mask: Array = field(init=False)
    """The queries that ask anything here."""
    table: Array = field(init=False)
    planes: dict[int, Array] = field(default_factory=dict)
    costly: bool = field(init=False)
    """A Python function is called: only for the rows that ask for it."""
    plain: bool = field(init=False)
    """The subject is a column."""
    _compute: Computed = field(init=False)
    _bounds: list[Mark] = field(default_factory=list)
    _uses: Counter[Mark] = field(default_factory=Counter)
    _ids: Array = field(default_factory=lambda: np.ones(1, np.int32))
    """By cell."""
    _next: int = 2
    _index: Index | None = None
    _few: tuple[Array, Array, Array] | None = None
    """What `few` found, for which queries; None: nothing yet."""
    _laid: tuple[list[int], Index | None, Array | None, Array | None] = ([], None, None, None)
    """What `laid_open` told last, of which arrays."""
    _pins: dict[str, int] = field(default_factory=dict)
    """Codes of the constants that are strings."""

    def __post_init__(self) -> None:
        self.mask = np.zeros(self.words, np.uint64)
        self.table = _resized(np.empty((0, 0), np.uint64), 8, self.words, _ALL)
        self._compute = self.evaluator.compile(self.subject)
        self.costly = calls_python(self.subject)
        self.plain = isinstance(self.subject, ColumnName)

    # ------------------------------------------------------------------ who asks what

    @property
    def cells(self) -> int:
        return len(self._ids)

    @property
    def size_bytes(self) -> int:
        return int(self.table.nbytes + sum(p.nbytes for p in self.planes.values()))

    def add(self, query: int, must: list[Clause], may: dict[int, Clause]) -> None:
        """Take a query's clauses on this subject; of those in `may` other subjects may be satisfied instead."""
        self._few = None
        asked = self.asked[query] = _Asked(must, may)
        self.predicates += len(must) + len(may)
        for mark in self._marks(asked):
            self._uses[mark] += 1
            if self._uses[mark] == 1:
                self._cut(mark)
        word, bit = bit_of(query)
        self.mask[word] |= bit
        if must:
            truths = [self._truth(clause) for clause in must]
            cells = reduce(np.logical_and, (true for true, _ in truths))
            self.table[self._ids[~cells], word] &= ~bit  # until now it had its bit everywhere
            if not all(null for _, null in truths):
                self.table[NULL_ID, word] &= ~bit
        for plane, clause in may.items():
            if plane not in self.planes:
                self.planes[plane] = np.zeros_like(self.table)
            cells, null = self._truth(clause)
            self.planes[plane][self._ids[cells], word] |= bit  # and here nowhere
            if null:
                self.planes[plane][NULL_ID, word] |= bit

    def remove(self, query: int) -> None:
        """The query is gone; its bit is neutral again."""
        self._few = None
        asked = self.asked.pop(query)
        self.predicates -= len(asked.must) + len(asked.may)
        word, bit = bit_of(query)
        self.mask[word] &= ~bit
        self.table[:, word] |= bit
        for plane in asked.may:
            self.planes[plane][:, word] &= ~bit
            if not any(plane in a.may for a in self.asked.values()):
                del self.planes[plane]
        for mark in self._marks(asked):
            self._uses[mark] -= 1
            if not self._uses[mark]:
                del self._uses[mark]

    @property
    def wasteful(self) -> bool:
        """Most bounds are nobody's: `merge` would help."""
        return len(self._bounds) > 64 + 2 * len(self._uses)

    def merge(self) -> None:
        """Join cells that no query tells apart."""
        keep = [i for i, mark in enumerate(self._bounds) if mark in self._uses]
        first = [0, *(i + 1 for i in keep)]
        rows = np.concatenate([[NULL_ID], self._ids[first]])
        self._bounds = [self._bounds[i] for i in keep]
        self._ids, self._next = np.arange(1, len(rows), dtype=np.int32), len(rows)
        room = max(8, 2 * len(rows))
        self.table = _resized(self.table[rows], room, self.words, _ALL)
        self.planes = {p: _resized(t[rows], room, self.words, _NONE) for p, t in self.planes.items()}
        self._index = None
        for text in self._pins.keys() - {mark[0] for mark in self._bounds if isinstance(mark, tuple)}:
            self.strings.unpin(self._pins.pop(text))

    def widen(self, words: int) -> None:
        """Room for more queries."""
        self.words, self._few = words, None
        self.mask = np.concatenate([self.mask, np.zeros(words - len(self.mask), np.uint64)])
        self.table = _resized(self.table, len(self.table), words, _ALL)
        self.planes = {p: _resized(t, len(t), words, _NONE) for p, t in self.planes.items()}

    def few(self, start: Array) -> tuple[Array, Array] | None:
        """By id the words in which any query of `start` has a bit (where they begin, and which); None if that is more than one
        word in `FEW`. So it is where most queries ask for one value: equality first."""
        if self._few is None or not np.array_equal(self._few[0], start):
            some = (self.table[: self._next] & start) != 0
            begins = np.zeros(self._next + 1, np.int64)
            np.cumsum(some.sum(axis=1), out=begins[1:])
            self._few = start.copy(), begins, np.nonzero(some)[1].astype(np.int32)
        _, begins, listed = self._few
        return (begins, listed) if FEW * len(listed) <= self._next * self.words else None

    def _marks(self, asked: _Asked) -> list[Mark]:
        return [mark for a in asked.atoms() for span in holds_for(a)[0] for mark in span if mark is not None]

    def _cut(self, mark: Mark) -> None:
        """Let a cell end at the mark: what lies above is a cell of its own, with the same bits."""
        at = bisect_left(self._bounds, mark)
        if at < len(self._bounds) and self._bounds[at] == mark:
            return
        self._bounds.insert(at, mark)
        id_ = self._next
        self._next += 1
        if id_ == len(self.table):
            self.table = _resized(self.table, 2 * id_, self.words, _ALL)
            self.planes = {p: _resized(t, 2 * id_, self.words, _NONE) for p, t in self.planes.items()}
        for table in (self.table, *self.planes.values()):
            table[id_] = table[self._ids[at]]
        self._ids = np.insert(self._ids, at + 1, id_)
        self._index = None

    def _truth(self, clause: Clause) -> tuple[Array, bool]:
        """For every cell, and for NULL."""
        parts = [holds_for(a) for a in clause]
        spans = [span for held, _ in parts for span in held]
        return covered(spans, self._bounds, bisect_left), any(null for _, null in parts)

    # ------------------------------------------------------------------ rows

    def visit(
        self, columns: Sequence[Column], rows: Array, fresh: bool, start: Array, lineage: Array, codes: Array
    ) -> tuple[int, int, int, int, int]:
        """Let the rows alive of a group look themselves up; see `kernels.lineage.visit`."""
        n = len(lineage)
        if self.costly:
            asking = rows if fresh else rows[kernels.concerned(lineage, rows, self.mask)]
            keys, valid = self._scattered(columns, asking, n)
        elif not self.plain and _FEW * len(rows) < n:
            keys, valid = self._scattered(columns, rows, n)
        else:
            keys, valid = self._keys(columns, n)
        index = self._found()
        told: tuple[int, int, int, int, int] = kernels.visit(
            keys, valid, index.low, index.shift, index.directory, index.bounds, index.ids, index.direct,
            self.table, self.mask, rows, fresh, start, lineage, codes,
        )  # fmt: skip
        return told

    def ids(self, columns: Sequence[Column], n: int) -> Array:
        """Of every row's value."""
        keys, valid = self._keys(columns, n)
        index = self._found()
        out = room(n, np.int32)
        look_up_all(
            keys, valid, index.low, index.shift, index.directory, index.bounds, index.ids, index.direct, out
        )
        return out

    def _keys(self, columns: Sequence[Column], n: int, *, narrow: bool = False) -> tuple[Array, Mask]:
        """What is looked up, for every row; `narrow`: may be of 32 bits, and where the column is."""
        column = self._compute(columns, n)
        values, valid = column.values, column.valid
        places = self._found().places
        if places is not None:
            values = places(np.ascontiguousarray(values), valid)[0]
        elif self.subject.type.is_float:
            values = real_marks(values)
        if not narrow or values.dtype not in (np.int32, np.int64):
            values = values.astype(np.int64)
        return np.ascontiguousarray(values), _NO_MASK if valid is None else valid.copy()

    def laid_open(self, columns: Sequence[Column], n: int) -> tuple[list[int], list[Array]]:
        """What kernels that take many filters are told of a filter, and what must be held meanwhile."""
        keys, valid = self._keys(columns, n, narrow=True)
        index = self._found()
        told, *of = self._laid
        if not told or of[0] is not index or of[1] is not self.table or of[2] is not self.mask:
            told = [index.low, index.shift, index.most]
            for array in (index.directory, index.bounds, index.ids, index.direct, self.table):
                told += [array.ctypes.data, len(array)]
            told.append(self.mask.ctypes.data)
            self._laid = told, index, self.table, self.mask
        narrow = int(keys.dtype == np.int32)
        return [keys.ctypes.data, narrow, valid.ctypes.data if len(valid) else 0, *told], [keys, valid]

    def _scattered(self, columns: Sequence[Column], rows: Array, n: int) -> tuple[Array, Mask]:
        """The same for some rows; the others hold anything."""
        picked = rows.astype(np.int64)
        try:
            found, there = self._keys([c.take(picked) for c in columns], len(picked))
        except RowError as failed:
            raise failed.among(columns, picked, n) from failed.__cause__
        keys = np.zeros(n, np.int64)
        keys[picked] = found
        if not len(there):
            return keys, _NO_MASK
        valid = np.ones(n, np.bool_)
        valid[picked] = there
        return keys, valid

    def _found(self) -> Index:
        if self._index is None:
            ids = self._ids
            if self.subject.type is Type.STRING:
                self._index = texts_index(self._bounds, ids, self._next, self._pins, self.strings)
            else:
                self._index = numbers_index(np.array(self._bounds, np.int64), ids)
        return self._index

    def release(self) -> None:
        """Nobody asks here any more."""
        for code in self._pins.values():
            self.strings.unpin(code)
        self._pins.clear()
        self.evaluator.release()


def _resized(table: Array, rows: int, words: int, fill: np.uint64) -> Array:
    """With more room; bitmaps as wide as a line of the cache lie in one."""
    made = aligned((rows, words), np.uint64)
    made[:] = fill
    made[: len(table), : table.shape[1]] = table
    return made
