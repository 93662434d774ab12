"""What NULLs make of predicates."""

from __future__ import annotations

from collections.abc import Container

from penstock.plan.expressions import Call, Column, Expression, Literal

_PASSES_NULL = frozenset(("=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "neg", "cast", "not"))
"""NULL whenever an argument is."""


def rejects_nulls(predicate: Expression, missing: Container[int]) -> bool:
    """Whether a predicate cannot be true where all these columns are NULL.

    >>> from penstock.types.data_type import Type
    >>> x, y = (Column(i, Type.INT, n) for i, n in enumerate("xy"))
    >>> over = Call(">", (x, y), Type.BOOLEAN)
    >>> rejects_nulls(over, [1]), rejects_nulls(Call("is_null", (y,), Type.BOOLEAN), [1])
    (True, False)
    """
    if isinstance(predicate, Call):
        if predicate.function == "and":
            return any(rejects_nulls(a, missing) for a in predicate.arguments)
        if predicate.function == "or":
            return all(rejects_nulls(a, missing) for a in predicate.arguments)
        if predicate.function == "is_not_null":
            return _is_null(predicate.arguments[0], missing)
    return _is_null(predicate, missing)


def _is_null(expression: Expression, missing: Container[int]) -> bool:
    """Whether it is certainly NULL then."""
    if isinstance(expression, Column):
        return expression.index in missing
    if isinstance(expression, Literal):
        return expression.value is None
    return expression.function in _PASSES_NULL and any(_is_null(a, missing) for a in expression.arguments)
