"""Typed, bound, immutable expressions.

A `Column` names a position in the schema of the node's input (for a join: the inputs' schemas one
after the other). Everything that computes is a `Call`; `plan.function_signatures` builds calls and checks types,
`operators.expressions.evaluator` runs them. SQL's three-valued logic holds throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from penstock.types.data_type import Type

Value = bool | int | float | str | None
"""A literal: strings stay text here; timestamps, intervals and dates are integers."""


@dataclass(frozen=True, slots=True)
class Literal:
    value: Value
    type: Type

    def __str__(self) -> str:
        if self.value is None:
            return "NULL"
        if self.type is Type.STRING:
            return "'" + str(self.value).replace("'", "''") + "'"
        if self.type in (Type.TIMESTAMP, Type.DATE, Type.INTERVAL):
            return f"{self.type} {self.value}"
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Column:
    index: int
    type: Type
    name: str

    def __post_init__(self) -> None:
        if self.index < 0:
            raise ValueError(f"column {self.name} has no position")

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Call:
    """`function` is a key of `plan.functions.FUNCTIONS`, or `udf:<name>` for a registered Python function."""

    function: str
    arguments: tuple[Expression, ...]
    type: Type

    def __str__(self) -> str:
        return show(self)


Expression = Literal | Column | Call


@dataclass(frozen=True, slots=True)
class Aggregation:
    """One aggregate: COUNT (argument None means COUNT(*)), SUM, AVG, MIN, MAX, STDDEV."""

    function: str
    argument: Expression | None
    distinct: bool
    type: Type

    def __str__(self) -> str:
        inner = "*" if self.argument is None else str(self.argument)
        return f"{self.function.upper()}({'DISTINCT ' if self.distinct else ''}{inner})"


@dataclass(frozen=True, slots=True)
class Named:
    """An output column of a projection."""

    expression: Expression
    name: str

    def __str__(self) -> str:
        shown = str(self.expression)
        return shown if shown == self.name else f"{shown} AS {self.name}"


_INFIX = {"=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "and", "or", "like", "||"}


def show(call: Call) -> str:
    """SQL-like text, for EXPLAIN and fingerprints."""
    parts = [str(argument) for argument in call.arguments]
    if call.function in _INFIX and len(parts) == 2:
        return f"({parts[0]} {call.function.upper()} {parts[1]})"
    if call.function == "not":
        return f"(NOT {parts[0]})"
    if call.function in ("is_null", "is_not_null"):
        return f"({parts[0]} {call.function.replace('_', ' ').upper()})"
    if call.function == "cast":
        return f"CAST({parts[0]} AS {call.type})"
    if call.function == "in":
        return f"({parts[0]} IN ({', '.join(parts[1:])}))"
    return f"{call.function}({', '.join(parts)})"


def columns(expression: Expression) -> Iterator[Column]:
    """Every column the expression reads, left to right, repeats included."""
    if isinstance(expression, Column):
        yield expression
    elif isinstance(expression, Call):
        for argument in expression.arguments:
            yield from columns(argument)


def rewrite(expression: Expression, change: Callable[[Column], Expression]) -> Expression:
    """The expression with every column replaced."""
    if isinstance(expression, Column):
        return change(expression)
    if isinstance(expression, Call):
        arguments = tuple(rewrite(argument, change) for argument in expression.arguments)
        return Call(expression.function, arguments, expression.type)
    return expression


def shifted(expression: Expression, by: int) -> Expression:
    """The expression over a schema whose columns have moved by `by` places."""
    return rewrite(expression, lambda c: Column(c.index + by, c.type, c.name))


def conjuncts(expression: Expression) -> tuple[Expression, ...]:
    """The parts of a conjunction, flattened."""
    if isinstance(expression, Call) and expression.function == "and":
        return tuple(part for argument in expression.arguments for part in conjuncts(argument))
    return (expression,)


def conjunction(parts: Sequence[Expression]) -> Expression:
    """All of them, at least one, halved again and again: thousands of parts are no deeper than a dozen."""
    if len(parts) == 1:
        return parts[0]
    middle = (len(parts) + 1) // 2
    return Call("and", (conjunction(parts[:middle]), conjunction(parts[middle:])), Type.BOOLEAN)
