"""Terms: expressions by which rows can be told apart, and which of them a join makes equal.

Two things make keys of different inputs comparable. A cast that loses nothing (INT to BIGINT, FLOAT to DOUBLE) keeps
the number, so terms are written without it and compared as numbers; the key is cast to the common type at the end. And
an equality that every result of a join satisfies puts its two sides into one class, and their casts with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.operators.join.predicates import take_apart
from penstock.plan.expressions import Call, Column, Expression, columns, rewrite
from penstock.plan.function_signatures import cast
from penstock.types.data_type import INTEGERS, Type
from penstock.types.schema import Schema

Members = dict[int, list[Expression]]
"""The terms of one class by input, each over its own input's schema."""


def bare(expression: Expression) -> Expression:
    """The expression without casts on top that keep the number as it is.

    >>> from penstock.plan.expressions import Column
    >>> x, y = Column(0, Type.INT, "x"), Column(1, Type.BIGINT, "y")
    >>> str(bare(cast(x, Type.DOUBLE))), str(bare(cast(y, Type.DOUBLE)))
    ('x', 'CAST(y AS DOUBLE)')
    """
    while isinstance(expression, Call) and expression.function == "cast":
        inner = expression.arguments[0]
        if not _keeps_number(inner.type, expression.type):
            break
        expression = inner
    return expression


def _keeps_number(source: Type, target: Type) -> bool:
    if source in INTEGERS and target in INTEGERS:
        return INTEGERS.index(source) <= INTEGERS.index(target)
    if target is Type.DOUBLE:
        return source in (Type.TINYINT, Type.SMALLINT, Type.INT, Type.FLOAT)
    return target is Type.FLOAT and source in (Type.TINYINT, Type.SMALLINT)


def is_constant(expression: Expression) -> bool:
    """Whether it is the same for all rows."""
    return next(columns(expression), None) is None


def told_by(expression: Expression, known: Sequence[int]) -> bool:
    """Whether rows that agree, as SQL groups them, on the `known` columns agree on the expression.

    0.0 and -0.0 are one value there, and a function may tell them apart: what is computed from floats does not count.
    """
    read = list(columns(expression))
    plain = not isinstance(bare(expression), Call)
    return all(c.index in known for c in read) and (plain or not any(c.type.is_float for c in read))


class Classes:
    """Terms of several inputs that are equal in every combination of rows that satisfies the predicates."""

    def __init__(self, predicates: Sequence[Expression], schemas: Sequence[Schema]) -> None:
        self._class: dict[tuple[int, Expression], list[tuple[int, Expression]]] = {}
        equalities, _ = take_apart(predicates, schemas)
        for e in equalities:
            self._join((e.left, _nameless(e.left_key)), (e.right, _nameless(e.right_key)))
        self._close()

    def _join(self, a: tuple[int, Expression], b: tuple[int, Expression]) -> None:
        one, other = (self._class.setdefault(term, [term]) for term in (a, b))
        if one is not other:
            one.extend(other)
            for term in other:
                self._class[term] = one

    def _close(self) -> None:
        """If x = y and CAST(x AS DOUBLE) = z, then CAST(y AS DOUBLE) = z."""
        for place, term in list(self._class):
            if isinstance(term, Call) and term.function == "cast" and term.type.is_numeric:
                inner = (place, bare(term.arguments[0]))
                for other, equal in list(self._class.get(inner, ())):
                    if equal.type.is_numeric:
                        self._join((place, term), (other, bare(cast(equal, term.type))))

    def __iter__(self) -> Iterator[Members]:
        """Every class that reaches two inputs, in the order in which the predicates name them."""
        seen: list[list[tuple[int, Expression]]] = []
        for terms in self._class.values():
            if not any(terms is s for s in seen):
                seen.append(terms)
                yield _by_input(terms)

    def of(self, place: int, term: Expression) -> Members:
        """The class of a term, which may be alone in it."""
        term = _nameless(term)
        return _by_input(self._class.get((place, term), [(place, term)]))


def _nameless(term: Expression) -> Expression:
    """A column is the same whatever it is called."""
    return rewrite(bare(term), lambda c: Column(c.index, c.type, f"#{c.index}"))


def _by_input(terms: Sequence[tuple[int, Expression]]) -> Members:
    found: Members = {}
    for place, term in terms:
        found.setdefault(place, []).append(term)
    return found
