"""Columns that are equal in every result of a join."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.plan.expressions import Call, Column, Expression


def equality(predicate: Expression) -> tuple[Column, Column] | None:
    """The two columns that a predicate makes the same value.

    Of one type, and no floats: 0.0 equals -0.0 and is not the same.
    """
    match predicate:
        case Call("=", (Column() as one, Column() as other)):
            return (one, other) if one.type is other.type and not one.type.is_float else None
    return None


class EqualColumns:
    """Classes of positions that equalities lead from one to the other.

    >>> from penstock.types.data_type import Type
    >>> x, y, z = (Column(i, Type.INT, n) for i, n in enumerate("xyz"))
    >>> equal = EqualColumns([Call("=", (x, z), Type.BOOLEAN), Call("<", (x, y), Type.BOOLEAN)])
    >>> sorted(equal.of(2)), sorted(equal.of(1))
    ([0, 2], [1])
    """

    def __init__(self, predicates: Iterable[Expression]) -> None:
        self._classes: dict[int, set[int]] = {}
        for pair in filter(None, map(equality, predicates)):
            one, other = (self._classes.setdefault(c.index, {c.index}) for c in pair)
            one |= other
            for column in one:
                self._classes[column] = one

    def of(self, column: int) -> set[int]:
        """The columns equal to one, itself among them."""
        return self._classes.get(column, {column})
