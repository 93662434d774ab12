"""Three-valued logic, NULL tests, CASE, COALESCE, IN."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np

from penstock.operators.expressions.comparison import equality, greater
from penstock.operators.expressions.compiled import (
    Builder,
    Pair,
    Part,
    Run,
    both,
    fitted,
    known_false,
    only,
    raises,
    strict,
    true_rows,
)
from penstock.plan.expressions import Call
from penstock.state.strings import Strings
from penstock.types.batch import Array, Column, Mask
from penstock.types.data_type import Type
from penstock.types.memory import room

Test = Callable[[Sequence[Column], int], Mask]
"""Rows for which something is TRUE."""


def kleene_and(left: Pair, right: Pair) -> Pair:
    if left[1] is None and right[1] is None:
        return left[0] & right[0], None
    true = true_rows(left) & true_rows(right)
    return true, true | known_false(left) | known_false(right)


def kleene_or(left: Pair, right: Pair) -> Pair:
    if left[1] is None and right[1] is None:
        return left[0] | right[0], None
    true = true_rows(left) | true_rows(right)
    return true, true | (known_false(left) & known_false(right))


def _chain(step: Callable[[Pair, Pair], Pair]) -> Builder:
    def build(_: Call, parts: Sequence[Part]) -> Run:
        runs = [part.run for part in parts]

        def run(columns: Sequence[Column], rows: int) -> Pair:
            return fitted(reduce(step, [one(columns, rows) for one in runs]), rows)

        def guarded(columns: Sequence[Column], rows: int) -> Pair:
            # A Python function in a later argument sees only rows the earlier ones have not decided.
            pair = runs[0](columns, rows)
            for one, part in zip(runs[1:], parts[1:], strict=True):
                if raises(part.expression):
                    undecided = ~(known_false(pair) if step is kleene_and else true_rows(pair))
                    undecided = np.broadcast_to(undecided, (rows,))
                    pair = step(pair, only(one, columns, undecided))
                else:
                    pair = step(pair, one(columns, rows))
            return fitted(pair, rows)

        return guarded if any(raises(p.expression) for p in parts[1:]) else run

    return build


def _not(_: Call, parts: Sequence[Part]) -> Run:
    return strict(parts, np.logical_not)


def _null_test(wanted: bool) -> Builder:
    def build(_: Call, parts: Sequence[Part]) -> Run:
        inner = parts[0].run

        def run(columns: Sequence[Column], rows: int) -> Pair:
            valid = inner(columns, rows)[1]
            if valid is None:
                return np.full(rows, not wanted), None
            return (~valid if wanted else valid), None

        return run

    return build


def _truth_test(test: Callable[[Pair], Mask], negated: bool) -> Builder:
    def build(_: Call, parts: Sequence[Part]) -> Run:
        inner = parts[0].run

        def run(columns: Sequence[Column], rows: int) -> Pair:
            answer = test(inner(columns, rows))
            return (~answer if negated else answer), None

        return run

    return build


def _distinctness(distinct: bool) -> Builder:
    def build(_: Call, parts: Sequence[Part]) -> Run:
        same = equality(parts[0].type)
        first, second = parts[0].run, parts[1].run

        def run(columns: Sequence[Column], rows: int) -> Pair:
            (left, left_valid), (right, right_valid) = first(columns, rows), second(columns, rows)
            equal = same(left, right)
            if left_valid is not None or right_valid is not None:
                here = np.True_ if left_valid is None else left_valid
                there = np.True_ if right_valid is None else right_valid
                equal = np.where(here & there, equal, ~(here | there))
            return (~equal if distinct else equal), None

        return run

    return build


def _choose(chosen: Mask, new: Pair, old: Pair) -> Pair:
    values = np.where(chosen, new[0], old[0])
    if new[1] is None and old[1] is None:
        return values, None
    valid = np.where(chosen, True if new[1] is None else new[1], True if old[1] is None else old[1])
    return values, valid


def chosen(tests: Sequence[Test], branches: Sequence[Part], last: Part) -> Run:
    """CASE: the branch of the first test that is TRUE. None of it is a Python function."""
    constants = [b.constant for b in (*branches, last)]
    known = [c[0][0] for c in constants if c is not None and (c[1] is None or c is constants[-1])]
    if len(known) == len(constants):
        is_null = last.is_null

        def picked(columns: Sequence[Column], rows: int) -> Pair:
            values = room(rows, last.type.dtype)
            values.fill(known[-1])
            masks = [test(columns, rows) for test in tests]
            for mask, value in zip(reversed(masks), reversed(known[:-1]), strict=True):
                np.copyto(values, value, where=mask)
            return values, reduce(np.logical_or, masks) if is_null else None

        return picked

    def run(columns: Sequence[Column], rows: int) -> Pair:
        pair = last.run(columns, rows)
        for test, branch in zip(reversed(tests), reversed(branches), strict=True):
            pair = _choose(test(columns, rows), branch.run(columns, rows), pair)
        return fitted(pair, rows)

    return run


def _case(_: Call, parts: Sequence[Part]) -> Run:
    """CASE with Python functions: each sees only the rows that reach it."""
    conditions, branches, last = parts[0:-1:2], parts[1:-1:2], parts[-1]
    steps = [(c.run, b.run) for c, b in zip(conditions, branches, strict=True)]

    def guarded(columns: Sequence[Column], rows: int) -> Pair:
        pair: Pair = (np.zeros(rows, last.type.dtype), np.zeros(rows, np.bool_))
        waiting = np.ones(rows, np.bool_)
        for condition, branch in steps:
            here = only(condition, columns, waiting)
            chosen = true_rows(here)
            pair = _choose(chosen, only(branch, columns, chosen), pair)
            waiting &= ~chosen
        return _choose(waiting, only(last.run, columns, waiting), pair)

    # only() gathers rows, and constants are of length 1 there: numpy's assignment broadcasts them.
    return guarded


def _coalesce(_: Call, parts: Sequence[Part]) -> Run:
    runs = [part.run for part in parts]

    def run(columns: Sequence[Column], rows: int) -> Pair:
        pair = runs[0](columns, rows)
        for one, part in zip(runs[1:], parts[1:], strict=True):
            valid = pair[1]
            if valid is None:
                break
            if raises(part.expression):
                other = only(one, columns, np.broadcast_to(~valid, (rows,)))
            else:
                other = one(columns, rows)
            pair = _choose(valid, (pair[0], None), other)
        return fitted(pair, rows)

    return run


def _extreme(strings: Strings, least: bool) -> Builder:
    """GREATEST and LEAST: NULLs are skipped, NaN is the greatest."""

    def build(call: Call, parts: Sequence[Part]) -> Run:
        above = greater(call.type, strings)
        runs = [part.run for part in parts]

        def step(left: Pair, right: Pair) -> Pair:
            better = above(left[0], right[0]) if least else above(right[0], left[0])
            if left[1] is None and right[1] is None:
                return np.where(better, right[0], left[0]), None
            here = np.True_ if left[1] is None else left[1]
            there = np.True_ if right[1] is None else right[1]
            chosen = there & (better | ~here)
            return np.where(chosen, right[0], left[0]), np.asarray(here | there)

        def run(columns: Sequence[Column], rows: int) -> Pair:
            return fitted(reduce(step, [one(columns, rows) for one in runs]), rows)

        return run

    return build


def _in(_: Call, parts: Sequence[Part]) -> Run:
    """TRUE if found; else NULL if an item is NULL; else FALSE."""
    items = [p.constant[0] for p in parts[1:] if p.constant is not None and p.constant[1] is None]
    some_null = len(items) < len(parts) - 1
    inner, kind = parts[0].run, parts[0].type
    member = _member(np.unique(np.concatenate(items)) if items else np.empty(0, kind.dtype), kind)

    def run(columns: Sequence[Column], rows: int) -> Pair:
        values, valid = inner(columns, rows)
        found = member(values)
        return found, both(valid, found) if some_null else valid

    return run


def _member(items: Array, kind: Type) -> Callable[[Array], Mask]:
    same = equality(kind)
    if len(items) == 0:
        return lambda values: np.zeros(len(values), np.bool_)
    if len(items) <= 4:
        singles = [items[i : i + 1] for i in range(len(items))]

        def few(values: Array) -> Mask:
            found = same(values, singles[0])
            for item in singles[1:]:
                found |= same(values, item)
            return found

        return few
    last = len(items) - 1

    def many(values: Array) -> Mask:
        places = np.minimum(np.searchsorted(items, values), last)
        return same(items.take(places), values)

    return many


def builders(strings: Strings) -> dict[str, Builder]:
    return {
        "and": _chain(kleene_and),
        "or": _chain(kleene_or),
        "not": _not,
        "is_null": _null_test(True),
        "is_not_null": _null_test(False),
        "is_true": _truth_test(true_rows, False),
        "is_not_true": _truth_test(true_rows, True),
        "is_false": _truth_test(known_false, False),
        "is_not_false": _truth_test(known_false, True),
        "is_distinct": _distinctness(True),
        "is_not_distinct": _distinctness(False),
        "case": _case,
        "coalesce": _coalesce,
        "greatest": _extreme(strings, least=False),
        "least": _extreme(strings, least=True),
        "in": _in,
    }


NULL_AWARE = frozenset(
    ("and", "or", "is_null", "is_not_null", "is_true", "is_not_true", "is_false", "is_not_false",
     "is_distinct", "is_not_distinct", "case", "coalesce", "greatest", "least", "in")
)  # fmt: skip
"""Functions that can have a value though an argument is NULL."""
