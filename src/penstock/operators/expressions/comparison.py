"""Comparisons: NaN equals itself and is greater than every other number; strings compare as UTF-8 bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from penstock.operators.expressions.compiled import Builder, Pair, Part, Run, strict
from penstock.operators.expressions.strings import PerCode, per_code
from penstock.plan.expressions import Call
from penstock.plan.expressions import Column as ColumnName
from penstock.state.strings import Strings
from penstock.types.batch import Array, Column, Mask
from penstock.types.data_type import Type

Compare = Callable[[Array, Array], Mask]

_PLAIN: dict[str, Compare] = {
    "=": np.equal,
    "<>": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def _float_equal(a: Array, b: Array) -> Mask:
    equal: Mask = (a == b) | ((a != a) & (b != b))  # noqa: PLR0124 - x != x is NaN, and cheaper than isnan
    return equal


def _float_less(a: Array, b: Array) -> Mask:
    less: Mask = (a < b) | ((b != b) & (a == a))  # noqa: PLR0124
    return less


_FLOAT: dict[str, Compare] = {
    "=": _float_equal,
    "<>": lambda a, b: ~_float_equal(a, b),
    "<": _float_less,
    "<=": lambda a, b: ~_float_less(b, a),
    ">": lambda a, b: _float_less(b, a),
    ">=": lambda a, b: ~_float_less(a, b),
}

_NUMBER_RIGHT: dict[str, Compare] = {
    # The right side is known not to be NaN: one pass, and NaN on the left still counts as greatest.
    "=": np.equal,
    "<>": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": lambda a, b: ~(a <= b),
    ">=": lambda a, b: ~(a < b),
}

_SWAPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def equality(kind: Type) -> Compare:
    return _float_equal if kind.is_float else np.equal


def greater(kind: Type, strings: Strings) -> Compare:
    return _comparator(">", kind, strings)


def _comparator(name: str, kind: Type, strings: Strings) -> Compare:
    if kind.is_float:
        return _FLOAT[name]
    if kind is Type.STRING and name not in ("=", "<>"):
        against_zero = _PLAIN[name]
        zero = np.zeros(1, np.int8)
        return lambda a, b: against_zero(
            strings.compare(np.ascontiguousarray(a), np.ascontiguousarray(b)), zero
        )
    return _PLAIN[name]


def builders(strings: Strings) -> dict[str, Builder]:
    def build(call: Call, parts: Sequence[Part]) -> Run:
        name = call.function
        left, right = parts
        if left.constant is not None:
            left, right, name = right, left, _SWAPPED[name]
        test = _comparator(name, left.type, strings)
        if right.constant is None:
            return strict((left, right), test)
        beside = right.constant[0]
        if left.type.is_float and not np.isnan(beside[0]):
            test = _NUMBER_RIGHT[name]
        if left.type is Type.STRING and name not in ("=", "<>"):
            memo = PerCode(strings, np.dtype(np.bool_), lambda codes: Column(test(codes, beside)))
            return per_code(left, memo)
        if not isinstance(left.expression, ColumnName):
            return strict((left,), lambda values: test(values, beside))
        index = left.expression.index

        def column_and_literal(columns: Sequence[Column], _: int) -> Pair:
            column = columns[index]
            return test(column.values, beside), column.valid

        return column_and_literal

    return dict.fromkeys(_PLAIN, build)
