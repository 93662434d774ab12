"""A predicate as clauses: every clause must hold, and holds if one of its atoms does (conjunctive normal form).

Paper      Madden et al. 2002, §2.2 (predicates of many queries in one index, a bit per disjunction).
An atom compares a *subject* — any expression over the row — with constants, so that all queries that ask something of
the same subject can ask together. WHERE wants TRUE: NULL counts as not true, so NOT goes inwards to the comparisons
(`NOT x < 3` is `x >= 3`, and NULL is neither). What is no comparison is a subject of its own that must be true or false.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from penstock.plan.expressions import Call, Expression, Literal, Value, columns
from penstock.types.data_type import Type

MOST = 16
"""Clauses; a predicate that would make more is one subject."""


@dataclass(frozen=True, slots=True)
class Atom:
    """`test` is a comparison, `is_null`, `is_not_null`, `prefix` or `not_prefix`."""

    subject: Expression
    test: str
    value: Value = None


Clause = tuple[Atom, ...]
"""A disjunction; without atoms it never holds."""

NEVER: Clause = ()
_OPPOSITE = {
    "=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">",
    "is_null": "is_not_null", "is_not_null": "is_null", "prefix": "not_prefix", "not_prefix": "prefix",
}  # fmt: skip
_SWAPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def clauses(predicate: Expression) -> tuple[Clause, ...]:
    """What must hold for the predicate to be TRUE.

    >>> from penstock.plan.expressions import Column
    >>> x, y = Column(0, Type.INT, "x"), Column(1, Type.INT, "y")
    >>> def less(a, b): return Call("<", (a, b), Type.BOOLEAN)
    >>> three = Literal(3, Type.INT)
    >>> for clause in clauses(Call("not", (Call("or", (less(x, three), less(three, y)), Type.BOOLEAN),), Type.BOOLEAN)):
    ...     print([f"{a.subject} {a.test} {a.value}" for a in clause])
    ['x >= 3']
    ['y <= 3']
    """
    made = _wanted(predicate, True)
    return ((Atom(predicate, "=", True),),) if made is None else made


def _wanted(expression: Expression, value: bool) -> tuple[Clause, ...] | None:
    """When the expression is certainly `value`; None: that would be too many clauses."""
    if isinstance(expression, Literal):
        return () if expression.value is value else (NEVER,)
    if isinstance(expression, Call):
        if expression.function == "not":
            return _wanted(expression.arguments[0], not value)
        if expression.function in ("and", "or"):
            parts = [_wanted(a, value) for a in expression.arguments]
            whole = [p for p in parts if p is not None]
            if len(whole) < len(parts):
                return None
            return _all(whole) if (expression.function == "and") is value else _any(whole)
        if expression.function == "in":
            return _listed(expression, value)
    return ((_atom(expression, value),),)


def _all(parts: list[tuple[Clause, ...]]) -> tuple[Clause, ...] | None:
    made = tuple(dict.fromkeys(clause for part in parts for clause in part))
    return made if len(made) <= MOST else None


def _any(parts: list[tuple[Clause, ...]]) -> tuple[Clause, ...] | None:
    """One of several conjunctions: distributed."""
    size = 1
    for part in parts:
        size *= len(part)
    if size > MOST:
        return None
    return _all([(_merged(choice),) for choice in product(*parts)])


def _merged(choice: tuple[Clause, ...]) -> Clause:
    return tuple(dict.fromkeys(atom for clause in choice for atom in clause))


def _listed(expression: Call, value: bool) -> tuple[Clause, ...]:
    """IN: one of the items; NOT IN: none of them, and never if one is NULL."""
    subject, *items = expression.arguments
    if not all(isinstance(i, Literal) for i in items):
        return ((Atom(expression, "=", value),),)
    known = [i.value for i in items if isinstance(i, Literal) and i.value is not None]
    subject = _bare(subject)
    if value:
        return (tuple(Atom(subject, "=", v) for v in known),)
    if len(known) < len(items):
        return (NEVER,)
    return tuple((Atom(subject, "<>", v),) for v in known)


def _atom(expression: Expression, value: bool) -> Atom:
    made = _comparison(expression)
    if made is None:
        return Atom(expression, "=", value)
    return made if value else Atom(made.subject, _OPPOSITE[made.test], made.value)


_EXACT = {
    Type.TINYINT: {Type.SMALLINT, Type.INT, Type.BIGINT, Type.FLOAT, Type.DOUBLE},
    Type.SMALLINT: {Type.INT, Type.BIGINT, Type.FLOAT, Type.DOUBLE},
    Type.INT: {Type.BIGINT, Type.DOUBLE},
    Type.FLOAT: {Type.DOUBLE},
}
"""Casts that lose nothing: comparing before and after is the same."""


def _bare(subject: Expression) -> Expression:
    """The subject without casts that were made for the comparison."""
    while isinstance(subject, Call) and subject.function == "cast":
        inner = subject.arguments[0]
        if subject.type not in _EXACT.get(inner.type, ()):
            break
        subject = inner
    return subject


def _comparison(expression: Expression) -> Atom | None:
    if not isinstance(expression, Call):
        return None
    name, arguments = expression.function, expression.arguments
    if name in ("is_null", "is_not_null"):
        return Atom(arguments[0], name)
    if name in _SWAPPED:
        left, right = arguments
        if isinstance(left, Literal):
            left, right, name = right, left, _SWAPPED[name]
        if isinstance(right, Literal) and right.value is not None and any(columns(left)):
            return Atom(_bare(left), name, right.value)
    if name == "like" and len(arguments) == 2 and isinstance(arguments[1], Literal):
        start = _prefix(arguments[1].value)
        if start is not None:
            return Atom(arguments[0], "prefix", start)
    return None


def _prefix(pattern: Value) -> str | None:
    """What a text must begin with, if the pattern asks for nothing else."""
    if not isinstance(pattern, str) or not pattern.endswith("%"):
        return None
    start = pattern[:-1]
    return None if not start or any(c in start for c in "%_\\") else start
