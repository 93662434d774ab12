"""Functions and their types: builds checked calls, inserting casts.

The binder calls `call` and `aggregate`; what does not fit raises `FunctionError`, to which the binder
adds the place.
"""

from __future__ import annotations

from penstock.data.types import Type
from penstock.plan.expressions import Aggregation, Call, Expression, Literal


class FunctionError(Exception):
    """No such function, or arguments of the wrong type: a message and a hint, no place."""

    def __init__(self, message: str, hint: str = "") -> None:
        self.message = message
        self.hint = hint
        super().__init__(message)


def call(function: str, *arguments: Expression) -> Expression:
    """A checked call, its arguments cast to what the function takes."""
    raise FunctionError(f"unknown function {function}")


def cast(expression: Expression, target: Type) -> Expression:
    """An explicit CAST; refuses what has no meaning."""
    raise FunctionError("no cast")


def common(types: tuple[Type, ...]) -> Type:
    """The type to which all can be cast without a string ever becoming a number or the reverse."""
    raise FunctionError("no common type")


def aggregate(function: str, argument: Expression | None, distinct: bool = False) -> Aggregation:
    """A checked aggregate."""
    raise FunctionError(f"unknown aggregate {function}")
