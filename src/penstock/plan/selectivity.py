"""What share of rows a predicate lets through, by its shape where nobody has measured it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from penstock.plan.expressions import Column, Expression, Literal, columns
from penstock.plan.statistics import HALF, NULL_SHARE, RANGE_SHARE, Statistics

_RANGES = {"<", "<=", ">", ">=", "like", "between", "starts_with", "ends_with", "contains"}


def selectivity(predicate: Expression, values: Sequence[float], statistics: Statistics) -> float:
    """The share that passes; `values`: how many values each column of the rows takes.

    >>> from penstock.types.data_type import Type
    >>> from penstock.plan.expressions import Call
    >>> x, five = Column(0, Type.INT, "x"), Literal(5, Type.INT)
    >>> [selectivity(Call(f, (x, five), Type.BOOLEAN), [20.0], Statistics()) for f in ("=", "<>", "<")]
    [0.05, 0.95, 0.1]
    >>> selectivity(Call("<", (x, five), Type.BOOLEAN), [20.0], Statistics(selectivities={"(x < 5)": 0.3}))
    0.3
    """
    measured = statistics.selectivities.get(str(predicate))
    if measured is not None:
        return measured
    if isinstance(predicate, Literal):
        return 1.0 if predicate.value is True else 0.0
    if isinstance(predicate, Column):
        return HALF

    def share(part: Expression) -> float:
        return selectivity(part, values, statistics)

    match predicate.function, predicate.arguments:
        case "and", parts:
            return prod(map(share, parts))
        case "or", parts:
            return 1.0 - prod(1.0 - share(p) for p in parts)
        case "not", (part,):
            return 1.0 - share(part)
        case (("=" | "is_not_distinct"), (one, other)):
            return 1.0 / max(distinct(one, values), distinct(other, values))
        case (("<>" | "is_distinct"), (one, other)):
            return 1.0 - 1.0 / max(distinct(one, values), distinct(other, values), 2.0)
        case "in", (one, *listed):
            return min(1.0, len(listed) / distinct(one, values))
        case "is_null", _:
            return NULL_SHARE
        case "is_not_null", _:
            return 1.0 - NULL_SHARE
    return RANGE_SHARE if predicate.function in _RANGES else HALF


def distinct(expression: Expression, values: Sequence[float]) -> float:
    """How many values an expression takes, at most: one for each combination of what it reads."""
    if isinstance(expression, Column):
        return values[expression.index]
    read = {c.index for c in columns(expression)}
    return min(prod(values[i] for i in read), 1e18)
