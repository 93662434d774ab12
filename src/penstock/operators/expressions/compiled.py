"""What a compiled expression is made of.

A part runs on the columns of the input and gives values and validity (None: nothing is NULL). Constant parts give
arrays of length 1 and let NumPy broadcast them, so `x > 5` never makes a column of fives. Values under NULL
may be anything; no step may raise or warn because of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.errors import DataError
from penstock.plan.expressions import Call, Expression
from penstock.types.batch import Array, Column, Ints, Mask, Rows
from penstock.types.data_type import Type

Pair = tuple[Array, Mask | None]
Run = Callable[[Sequence[Column], int], Pair]
Function = Callable[..., Array]
Nullable = Callable[..., tuple[Array, Mask]]
"""Gives values and a mask of rows that become NULL."""


@dataclass(frozen=True, slots=True)
class Part:
    """A compiled subexpression; `constant` holds its value if it has one."""

    expression: Expression
    run: Run
    constant: Pair | None = None

    @property
    def type(self) -> Type:
        return self.expression.type

    @property
    def is_null(self) -> bool:
        return self.constant is not None and self.constant[1] is not None


Builder = Callable[[Call, Sequence[Part]], Run]


class RowError(DataError):
    """A function failed on a row (counted from 0; None: on all rows together) of these columns.

    Whoever knows more of the row says so as the error passes: `only` which row of all it is, operators its time.
    """

    def __init__(
        self, what: str, columns: Sequence[Column], row: int | None, rows: int, *, hint: str | None = None
    ) -> None:
        self.place = f"a batch of {rows} rows" if row is None else f"row {row} in a batch of {rows}"
        super().__init__(f"{what} ({self.place})", hint=hint)
        self.what = what
        self.columns = columns
        self.row = row
        self.ts: int | None = None

    def among(self, columns: Sequence[Column], picked: Rows, rows: int) -> RowError:
        """The same, where the columns were only the picked rows of these."""
        row = None if self.row is None else int(picked[self.row])
        return RowError(self.what, columns, row, rows, hint=self.hint)

    def note_time(self, ts: Ints) -> None:
        """Times of all rows: that of its row, or of the first, is kept."""
        self.ts = int(ts[self.row or 0])

    def told(self, time: str | None) -> DataError:
        """What the user sees."""
        since = "" if time is None else f", from ts {time} on" if self.row is None else f", ts {time}"
        return DataError(f"{self.what} ({self.place}{since})", hint=self.hint)


def both(left: Mask | None, right: Mask | None) -> Mask | None:
    if left is None:
        return right
    return left if right is None else left & right


def without(valid: Mask | None, bad: Mask) -> Mask | None:
    """Validity less the bad rows; stays None while nothing is bad."""
    if not bad.any():
        return valid
    return ~bad if valid is None else valid & ~bad


def true_rows(pair: Pair) -> Mask:
    values, valid = pair
    return values if valid is None else values & valid


def known_false(pair: Pair) -> Mask:
    values, valid = pair
    return ~values if valid is None else ~values & valid


def fitted(pair: Pair, rows: int) -> Pair:
    """Where constant branches were chosen among, values or validity may still be of length 1."""
    values, valid = pair
    if len(values) != rows:
        values = np.repeat(values, rows)
    if valid is not None and len(valid) != rows:
        valid = np.repeat(valid, rows)
    return values, valid


def spread(array: Array, rows: int) -> Array:
    """A constant's array of length 1 as a column of its own, for kernels that do not broadcast."""
    return array if len(array) == rows else np.repeat(array, rows)


def strict(parts: Sequence[Part], function: Function) -> Run:
    """NULL if any argument is NULL; the function sees values only."""
    if len(parts) == 1:
        run = parts[0].run

        def one(columns: Sequence[Column], rows: int) -> Pair:
            values, valid = run(columns, rows)
            return function(values), valid

        return one
    if len(parts) == 2 and alike(parts[0].expression, parts[1].expression):
        run = parts[0].run

        def twice(columns: Sequence[Column], rows: int) -> Pair:
            values, valid = run(columns, rows)
            return function(values, values), valid

        return twice
    if len(parts) == 2:
        first, second = parts[0].run, parts[1].run

        def two(columns: Sequence[Column], rows: int) -> Pair:
            left, left_valid = first(columns, rows)
            right, right_valid = second(columns, rows)
            return function(left, right), both(left_valid, right_valid)

        return two
    runs = [part.run for part in parts]

    def many(columns: Sequence[Column], rows: int) -> Pair:
        pairs = [run(columns, rows) for run in runs]
        valid: Mask | None = None
        for _, mask in pairs:
            valid = both(valid, mask)
        return function(*(values for values, _ in pairs)), valid

    return many


def alike(one: Expression, other: Expression) -> bool:
    """Whether two arguments are one, to the letter: 0.0 equals -0.0, and is another number."""
    return repr(one) == repr(other) and not calls_python(one)


def partial(parts: Sequence[Part], function: Nullable) -> Run:
    """Like `strict`, for functions that are NULL outside their domain."""
    runs = [part.run for part in parts]

    def run(columns: Sequence[Column], rows: int) -> Pair:
        pairs = [one(columns, rows) for one in runs]
        valid: Mask | None = None
        for _, mask in pairs:
            valid = both(valid, mask)
        values, bad = function(*(values for values, _ in pairs))
        if len(bad) != len(values):  # a constant is bad for every row
            bad = np.repeat(bad, len(values))
        return values, without(valid, bad)

    return run


GROWS = ("||", "concat", "replace")
"""Functions whose results may be longer than a text may be."""


def calls_python(expression: Expression) -> bool:
    """Whether a Python function is called in it."""
    return isinstance(expression, Call) and (
        expression.function.startswith("udf:") or any(map(calls_python, expression.arguments))
    )


def raises(expression: Expression) -> bool:
    """Whether it may fail on a row: such parts run only on the rows that ask for them."""
    return isinstance(expression, Call) and (
        expression.function.startswith("udf:")
        or expression.function in GROWS
        or any(map(raises, expression.arguments))
    )


def only(run: Run, columns: Sequence[Column], rows: Mask) -> Pair:
    """The part on some rows only; the others are NULL."""
    picked = np.flatnonzero(rows)
    try:
        values, valid = run([column.take(picked) for column in columns], len(picked))
    except RowError as failed:
        raise failed.among(columns, picked, len(rows)) from failed.__cause__
    all_values = np.zeros(len(rows), values.dtype)
    all_valid = np.zeros(len(rows), np.bool_)
    all_values[picked] = values
    all_valid[picked] = True if valid is None else valid
    return all_values, all_valid
