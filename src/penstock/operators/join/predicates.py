"""Join predicates taken apart: equalities between two inputs, and the rest.

An equality makes keys: each side is computed over its own input and turned into a 64-bit word that is
equal exactly when SQL's `=` is true (rows with a NULL key join nothing and never enter). The rest is tested on
candidate results as soon as all inputs it mentions are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.kernels.hash.mix import mix_rows
from penstock.operators.contract import Site
from penstock.operators.expressions.compiled import RowError
from penstock.operators.expressions.evaluator import Computed, Predicate
from penstock.plan.expressions import Call, Expression, columns, shifted
from penstock.state import key_words as words
from penstock.types.batch import Batch, Column, Ints, Mask
from penstock.types.data_type import Type
from penstock.types.schema import Schema


@dataclass(frozen=True, slots=True)
class Equality:
    """own(input `left`) = own(input `right`), each over its own input's schema."""

    left: int
    left_key: Expression
    right: int
    right_key: Expression
    whole: Expression
    """The predicate itself, over the inputs' schemas side by side."""

    def side(self, which: int) -> Expression:
        return self.left_key if which == self.left else self.right_key


@dataclass(frozen=True, slots=True)
class Residual:
    """Any other predicate, and the inputs it mentions."""

    inputs: frozenset[int]
    whole: Expression


def offsets(schemas: Sequence[Schema]) -> list[int]:
    """Where each input's columns begin."""
    return [sum(len(s) for s in schemas[:i]) for i in range(len(schemas))]


def take_apart(
    predicates: Sequence[Expression], schemas: Sequence[Schema]
) -> tuple[list[Equality], list[Residual]]:
    starts = offsets(schemas)

    def inputs_of(expression: Expression) -> frozenset[int]:
        return frozenset(
            max(i for i, start in enumerate(starts) if start <= c.index and len(schemas[i]))
            for c in columns(expression)
        )

    equalities, rest = [], []
    for predicate in predicates:
        if isinstance(predicate, Call) and predicate.function == "=":
            a, b = predicate.arguments
            left, right = inputs_of(a), inputs_of(b)
            if len(left) == 1 and len(right) == 1 and left != right:
                (i,), (j,) = left, right
                equalities.append(Equality(i, shifted(a, -starts[i]), j, shifted(b, -starts[j]), predicate))
                continue
        # A predicate without columns is tested like one that mentions every input.
        everything = frozenset(range(len(schemas)))
        rest.append(Residual(inputs_of(predicate) or everything, predicate))
    return equalities, rest


class KeyMaker:
    """Keys of one input: one index per distinct tuple of key expressions."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._expressions: list[Expression] = []
        self._run: list[Computed] = []
        self._indexes: list[tuple[int, ...]] = []

    def index(self, keys: Sequence[Expression]) -> int:
        """The number of the index over these expressions (made if need be); () is 'all rows'."""
        wanted = tuple(self._number(k) for k in keys)
        if wanted not in self._indexes:
            self._indexes.append(wanted)
        return self._indexes.index(wanted)

    def _number(self, key: Expression) -> int:
        if key not in self._expressions:
            self._expressions.append(key)
            self._run.append(self._site.evaluator.compile(key))
        return self._expressions.index(key)

    @property
    def count(self) -> int:
        return len(self._indexes)

    @property
    def indexes(self) -> list[tuple[Expression, ...]]:
        """Of each index its key expressions."""
        return [tuple(self._expressions[k] for k in index) for index in self._indexes]

    @property
    def texts(self) -> list[Expression]:
        """The key expressions that are strings."""
        return [e for e in self._expressions if e.type is Type.STRING]

    def clean(self, batch: Batch, *, narrow: bool = False) -> tuple[Batch, list[Ints]]:
        """The rows that can join at all, and each index's keys for them; `narrow`: integers of any width, for whoever writes them down as words."""
        n = len(batch)
        if n == 0:
            return batch, [_NO_KEYS] * len(self._indexes)
        try:
            values = [run(batch.columns, n) for run in self._run]
        except RowError as failed:
            failed.note_time(batch.ts)
            raise
        valid = _all_valid(values)
        plain = [
            c.values if narrow and e.type.is_integer else words.plain(c, e.type)
            for c, e in zip(values, self._expressions, strict=True)
        ]
        if valid is not None and not valid.all():
            rows = np.flatnonzero(valid)
            batch = batch.take(rows)
            plain = [p[rows] for p in plain]
        return batch, [key_words([plain[k] for k in index], len(batch)) for index in self._indexes]

    def parts(self, index: int, of: Sequence[Column], n: int) -> list[Ints]:
        """What the keys of (clean) rows in an index are made of: a word for each of its expressions."""
        return [words.plain(self._run[k](of, n), self._expressions[k].type) for k in self._indexes[index]]

    @property
    def strings(self) -> list[Type]:
        """Types of the keys that are strings: their codes must be held while a row is."""
        return [e.type for e in self.texts]

    def held(self, batch: Batch) -> tuple[Column, ...]:
        """The string keys of a (clean) batch, to be stored with its rows."""
        return tuple(
            run(batch.columns, len(batch))
            for run, e in zip(self._run, self._expressions, strict=True)
            if e.type is Type.STRING
        )

    def can_match(self, batch: Batch) -> Mask:
        """Which rows have no NULL in any key."""
        valid = _all_valid([run(batch.columns, len(batch)) for run in self._run])
        return np.ones(len(batch), np.bool_) if valid is None else valid


_NO_KEYS = np.empty(0, np.int64)


def _all_valid(values: Sequence[Column]) -> Mask | None:
    valid: Mask | None = None
    for column in values:
        if column.valid is not None:
            valid = column.valid if valid is None else valid & column.valid
    return valid


def key_words(parts: Sequence[Ints], n: int) -> Ints:
    """One word per row: the word itself, or a hash of several (then equality is tested again)."""
    if not parts:
        return np.zeros(n, np.int64)
    if len(parts) == 1:
        return parts[0]
    out = np.empty(n, np.int64)
    mix_rows(np.column_stack(parts).astype(np.int64, copy=False), out)
    return out


class Tester:
    """Predicates over the inputs' columns side by side."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._known: dict[Expression, Predicate] = {}

    def test(self, predicate: Expression, columns: Sequence[Column], ts: Ints) -> Mask:
        """Which candidates pass; `ts`: when each would begin."""
        if predicate not in self._known:
            self._known[predicate] = self._site.evaluator.predicate(predicate)
        try:
            return self._known[predicate](columns, len(ts))
        except RowError as failed:
            failed.note_time(ts)
            raise
