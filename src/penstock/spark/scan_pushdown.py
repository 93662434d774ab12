"""What is left out before rows travel: rows that no query can use, and columns that none reads.

Only what means the same to Spark, to Arrow and to a cell is left out: comparisons of whole numbers, times and truth values, equality of
strings, NULL tests, and AND, OR, NOT of them. Late rows pass as they are, since somebody may want to see them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

from penstock.plan.expressions import Call, Expression, Literal
from penstock.plan.expressions import Column as Plain
from penstock.planner.scan_requirements import Reading, readings
from penstock.spark.flow_plan import Flowing
from penstock.types.data_type import Type

MOST = 32
"""Scans of a stream beyond which testing every row costs more than it saves."""

_COMPARED = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip

Term = Any
"""An expression of Spark's or of Arrow's: both have Python's signs for comparing, and for AND, OR and NOT of three values."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one of them says the rest."""

    column: Callable[[str], Term]
    literal: Callable[[Any], Term]
    is_null: Callable[[Term], Term]
    wide: Callable[[Term], Term]
    """A whole number as BIGINT."""


def by_stream(plan: Flowing) -> dict[str, list[Reading]]:
    """The scans of all queries, by the stream that was declared."""
    declared = {fed.name: fed.stream for fed in plan.inputs}
    found: dict[str, list[Reading]] = {}
    for part in (part for query in plan.queries.values() for part in query.parts):
        for reading in readings(part.root.node):
            stream = declared.get(reading.scan.stream.name.lower())
            if stream in plan.catalog.streams:  # and not made in a cell
                found.setdefault(stream, []).append(reading)
    return found


def used_slots(plan: Flowing, read: dict[str, list[Reading]]) -> dict[str, set[int]]:
    """By stream, the shared columns that any of its scans reads: all if rows are counted, in the order of their whole content, or if somebody wants to
    see those that are dropped."""
    counted = {fed.stream for fed in plan.inputs if fed.counted or plan.policies.keep_dropped}
    places = plan.layout.places
    return {
        name: set(places[name]) if name in counted else {places[name][c] for r in found for c in r.columns}
        for name, found in read.items()
    }


def wanted(read: list[Reading], places: tuple[int, ...], say: Dialect) -> Term | None:
    """Rows that any of a stream's scans can use; None: all."""
    if len(read) > MOST:
        return None
    parts = []
    for reading in read:
        told = [p for p in (_told(e, places, say) for e in reading.predicates) if p is not None]
        if not told:
            return None
        parts.append(reduce(operator.and_, told))
    return reduce(operator.or_, parts)


def _told(expression: Expression, places: tuple[int, ...], say: Dialect) -> Term | None:
    """A predicate in a dialect; None if it might not mean the same."""
    if not isinstance(expression, Call):
        return None
    name, arguments = expression.function, expression.arguments
    if name in ("and", "or"):
        parts = [_told(a, places, say) for a in arguments]
        if any(p is None for p in parts):
            return None
        return reduce(operator.and_ if name == "and" else operator.or_, [p for p in parts if p is not None])
    if name == "not":
        inner = _told(arguments[0], places, say)
        return None if inner is None else ~inner
    if name in ("is_null", "is_not_null") and isinstance(arguments[0], Plain):
        absent = say.is_null(say.column(f"c{places[arguments[0].index]}"))
        return absent if name == "is_null" else ~absent
    if name == "in":
        any_of = [_compared("=", arguments[0], one, places, say) for one in arguments[1:]]
        if any(p is None for p in any_of):
            return None
        return reduce(operator.or_, [p for p in any_of if p is not None])
    if name in _COMPARED:
        return _compared(name, arguments[0], arguments[1], places, say)
    return None


def _compared(
    name: str, left: Expression, right: Expression, places: tuple[int, ...], say: Dialect
) -> Term | None:
    kinds = {left.type, right.type}
    alike = len(kinds) == 1 and (
        left.type in (Type.TIMESTAMP, Type.DATE, Type.BOOLEAN)
        or (left.type is Type.STRING and name in ("=", "<>"))
    )
    if not (alike or all(k.is_integer for k in kinds)):
        return None
    one, other = _value(left, places, say), _value(right, places, say)
    return None if one is None or other is None else _COMPARED[name](one, other)


def _value(term: Expression, places: tuple[int, ...], say: Dialect) -> Term | None:
    if isinstance(term, Plain):
        column = say.column(f"c{places[term.index]}")
        return say.wide(column) if term.type.is_integer else column
    if isinstance(term, Literal) and term.value is not None:
        return say.literal(term.value)
    if isinstance(term, Call) and term.function == "cast" and term.type is Type.BIGINT:
        (inner,) = term.arguments
        return _value(inner, places, say) if inner.type.is_integer else None
    return None
