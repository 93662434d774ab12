"""Expressions, compiled once into nested closures over NumPy and run on columns.

Invariant  three-valued logic exactly; the result's dtype is that of the expression's type.
Cost       one NumPy pass per function and batch, a few microseconds for a batch of one row; string functions
           once per distinct string; only scalar Python functions see single rows.

Constant subexpressions are computed when compiling. A Python function guarded by CASE, COALESCE, AND or OR is
called only for the rows that reach it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from penstock.errors import DataError
from penstock.operators.expressions import (
    casts,
    comparison,
    logic,
    numbers,
    result_marks,
    timestamps,
)
from penstock.operators.expressions.compiled import (
    Builder,
    Pair,
    Part,
    Run,
    known_false,
    only,
    raises,
    true_rows,
)
from penstock.operators.expressions.python_functions import python_call
from penstock.operators.expressions.strings import Texts
from penstock.plan.catalog import Function
from penstock.plan.expressions import Call, Expression, Literal, conjuncts
from penstock.plan.expressions import Column as ColumnName
from penstock.plan.expressions import columns as columns_in
from penstock.state.strings import Strings
from penstock.types.batch import Column, Mask, Rows
from penstock.types.data_type import Type

MANY, FEW, WORTH = 256, 6, 4
"""Rows from which on, and one in how many of which, must pass the first test of several so that the others look at these alone; and
how many functions these must have."""

Computed = Callable[[Sequence[Column], int], Column]
Predicate = Callable[[Sequence[Column], int], Mask]


class Evaluator:
    """Compiles expressions over one string pool; literals it compiles are pinned there until `release`."""

    def __init__(self, strings: Strings, functions: Mapping[str, Function]) -> None:
        self.strings = strings
        self.functions = functions
        self._pins: dict[str, int] = {}
        self._along: list[Callable[[], None]] = []
        self._builders: dict[str, Builder] = {
            **logic.builders(strings),
            **comparison.builders(strings),
            **numbers.builders(),
            **timestamps.builders(),
            **casts.builders(strings),
            **Texts(strings).builders(),
        }

    def compile(self, expression: Expression) -> Computed:
        """The expression as a function of the input's columns and number of rows."""
        if isinstance(expression, ColumnName):
            index = expression.index
            return lambda columns, _: columns[index]
        part = self._part(expression)
        if part.constant is not None:
            values, valid = part.constant
            return lambda _, rows: Column(
                np.repeat(values, rows), None if valid is None else np.zeros(rows, np.bool_)
            )
        run = part.run
        return lambda columns, rows: Column(*run(columns, rows))

    def release(self) -> None:
        """What was compiled here is not run any more: its literals may go."""
        for code in self._pins.values():
            self.strings.unpin(code)
        self._pins.clear()
        for release in self._along:
            release()

    def along(self, release: Callable[[], None]) -> None:
        """Something else that holds on to strings is to be let go of with it."""
        self._along.append(release)

    def predicate(self, expression: Expression) -> Predicate:
        """The rows for which the expression is TRUE; NULL counts as not true, which is all WHERE asks."""
        return self._decided(expression, wanted=True)

    # -------------------------------------------------------------- parts

    def _part(self, expression: Expression) -> Part:
        if isinstance(expression, Literal):
            return _constant(expression, self._literal(expression))
        if isinstance(expression, ColumnName):
            return Part(expression, _column(expression.index))
        name = expression.function
        if name == "case" and not raises(expression):
            return self._case(expression)
        parts = [self._part(argument) for argument in expression.arguments]
        if name.startswith("udf:"):
            return Part(expression, python_call(self._function(name[4:]), parts, self.strings))
        if name not in logic.NULL_AWARE and any(part.is_null for part in parts):
            return _constant(expression, _null(expression.type))
        run = self._builders[name](expression, parts)
        if all(part.constant is not None for part in parts):
            return _constant(expression, self._folded(expression, run))
        return Part(expression, run)

    def _case(self, expression: Call) -> Part:
        """Of conditions nothing counts but where they are TRUE."""
        given = expression.arguments
        tests = [self._decided(condition, wanted=True) for condition in given[0:-1:2]]
        branches = [self._part(branch) for branch in given[1:-1:2]]
        last = self._part(given[-1])
        run = logic.chosen(tests, branches, last)
        if next(columns_in(expression), None) is None:
            return _constant(expression, self._folded(expression, run))
        return Part(expression, self._marked(expression, [b.constant for b in branches], last.constant, run))

    def _marked(
        self, expression: Call, branches: Sequence[Pair | None], last: Pair | None, otherwise: Run
    ) -> Run:
        """By marks, if branches are whole numbers that are known and every test asks something of single columns."""
        known = [b[0][0] for b in branches if b is not None and b[1] is None]
        asked = [self._asked(condition) for condition in expression.arguments[0:-1:2]]
        tests = [one for one in asked if one is not None]
        if (
            expression.type is not Type.INT
            or last is None
            or len(known) < len(branches)
            or not len(branches) == len(tests) <= result_marks.MOST
        ):
            return otherwise
        return result_marks.marked(tests, known, None if last[1] is not None else int(last[0][0]), otherwise)

    def _asked(self, condition: Expression) -> result_marks.Asked | None:
        """A test in parts. Where rows are stored anything may stand at slots that nobody holds: of strings nothing is asked there."""
        parts = [(part, frozenset(columns_in(part))) for part in conjuncts(condition)]
        single = [(p, c) for p, c in parts if len(c) == 1 and all(k.type is not Type.STRING for k in c)]
        if not single:
            return None
        others = [part for part, read in parts if (part, read) not in single]
        rest = self._decided(_all(others), wanted=True) if others else None
        return result_marks.Asked(
            tuple(self._decided(part, wanted=True) for part, _ in single),
            tuple(k.index for _, read in single for k in read),
            rest,
            tuple(sorted({k.index for part in others for k in columns_in(part)})),
        )

    def _function(self, name: str) -> Function:
        function = self.functions.get(name) or self.functions.get(name.lower())
        if function is None:
            raise DataError(f"function {name} is not registered", hint="call create_function first")
        return function

    def _literal(self, literal: Literal) -> Pair:
        if literal.value is None:
            return _null(literal.type)
        if literal.type is Type.STRING:
            return np.array([self._pin(str(literal.value))], np.int32), None
        return np.array([literal.value], literal.type.dtype), None

    def _pin(self, text: str) -> int:
        if text not in self._pins:
            self._pins[text] = self.strings.pin(text)
        return self._pins[text]

    def _folded(self, expression: Expression, run: Run) -> Pair:
        values, valid = run((), 1)
        if valid is not None:
            if not valid[0]:
                return _null(expression.type)
            valid = None
        if expression.type is Type.STRING:
            self._pin(self.strings.text(int(values[0])))
        return np.array(values), valid

    # -------------------------------------------------------------- predicates

    def _decided(self, expression: Expression, wanted: bool) -> Predicate:
        """Rows where the expression is certainly `wanted`: NULLs drop out without ever being tracked."""
        if isinstance(expression, Call):
            name = expression.function
            if name == "not":
                return self._decided(expression.arguments[0], not wanted)
            if name in ("and", "or"):
                meet = (name == "and") == wanted
                return self._joined(expression, wanted, meet)
        part = self._part(expression)
        if part.constant is not None:
            values, valid = part.constant
            answer = valid is None and bool(values[0]) is wanted
            return lambda _, rows: np.full(rows, answer)
        run = part.run
        if wanted:

            def true(columns: Sequence[Column], rows: int) -> Mask:
                values, valid = run(columns, rows)
                return values if valid is None else values & valid

            return true
        return lambda columns, rows: known_false(run(columns, rows))

    def _joined(self, expression: Call, wanted: bool, meet: bool) -> Predicate:
        costly = [a for a in expression.arguments if raises(a)]
        if costly and not meet:
            # Rows that an earlier disjunct has decided must not reach a Python function: evaluate in full.
            run = self._part(expression).run
            pick = true_rows if wanted else known_false
            return lambda columns, rows: pick(run(columns, rows))
        cheap = [a for a in expression.arguments if not raises(a)]
        if meet:
            cheap.sort(key=_size)
        tests = [self._decided(a, wanted) for a in cheap]
        rest = frozenset(c.index for a in cheap[1:] for c in columns_in(a))
        sieves = meet and len(cheap) > 1 and sum(map(_size, cheap[1:])) >= WORTH
        last = [self._decided(a, wanted) for a in costly]

        def joined(columns: Sequence[Column], rows: int) -> Mask:
            mask = tests[0](columns, rows)
            if sieves and rows >= MANY and FEW * np.count_nonzero(mask) < rows:
                return _sieved(tests[1:], rest, columns, mask)
            for test in tests[1:]:
                mask = mask & test(columns, rows) if meet else mask | test(columns, rows)
            return mask

        if not last:
            return joined

        def guarded(columns: Sequence[Column], rows: int) -> Mask:
            mask = joined(columns, rows) if tests else np.ones(rows, np.bool_)
            for test in last:
                pair = only(lambda c, n, test=test: (test(c, n), None), columns, mask)  # type: ignore[misc]
                mask = pair[0]
            return mask

        return guarded


def _all(tests: Sequence[Expression]) -> Expression:
    return tests[0] if len(tests) == 1 else Call("and", tuple(tests), Type.BOOLEAN)


def _size(expression: Expression) -> int:
    """How many functions it has."""
    return 1 + sum(map(_size, expression.arguments)) if isinstance(expression, Call) else 0


def _sieved(tests: Sequence[Predicate], read: frozenset[int], columns: Sequence[Column], mask: Mask) -> Mask:
    """Tests that see only the rows that have passed so far; columns that nobody has read are gathered for these alone."""
    places = np.flatnonzero(mask)
    memo: dict[int, Rows] = {}
    some = [column.take(places, memo) if i in read else column for i, column in enumerate(columns)]
    passed = tests[0](some, len(places))
    for test in tests[1:]:
        passed = passed & test(some, len(places))
    made = np.zeros(len(mask), np.bool_)
    made[places[passed]] = True
    return made


def _column(index: int) -> Run:
    def run(columns: Sequence[Column], _: int) -> Pair:
        column = columns[index]
        return column.values, column.valid

    return run


def _null(kind: Type) -> Pair:
    return np.zeros(1, kind.dtype), np.zeros(1, np.bool_)


def _constant(expression: Expression, pair: Pair) -> Part:
    return Part(expression, lambda _, __: pair, pair)
