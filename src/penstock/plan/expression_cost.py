"""What expressions cost, in work units: a unit is about one visit of a row in compiled code."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.plan.catalog import Function
from penstock.plan.expressions import Call, Expression

CALL = 0.05
"""A NumPy pass over a column, for one of its rows."""


def units(expression: Expression, functions: Mapping[str, Function]) -> float:
    """For one row; a Python function costs what it was registered with.

    >>> from penstock.types.data_type import Type
    >>> from penstock.plan.expressions import Column
    >>> x = Column(0, Type.INT, "x")
    >>> units(Call("<", (x, x), Type.BOOLEAN), {})
    0.05
    """
    if not isinstance(expression, Call):
        return 0.0
    own = CALL
    if expression.function.startswith("udf:"):
        known = functions.get(expression.function[4:].lower())
        own = CALL if known is None else known.cost
    return own + sum(units(argument, functions) for argument in expression.arguments)
