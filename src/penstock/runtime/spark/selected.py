"""What Spark leaves out before rows travel: rows that no query can use, and columns that none reads.

Only what means the same to Spark and to a cell is left to Spark: comparisons of whole numbers, times and truth values, equality of
strings, NULL tests, and AND, OR, NOT of them. Late rows pass as they are, since somebody may want to see them.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from penstock.data.types import Type
from penstock.flow.needs import Reading, readings
from penstock.plan.expressions import Call, Expression, Literal
from penstock.plan.expressions import Column as Plain
from penstock.runtime.spark.plans import Flowing

MOST = 32
"""Scans of a stream beyond which testing every row costs more than it saves."""

_COMPARED = {
    "=": Column.__eq__, "<>": Column.__ne__, "<": Column.__lt__, "<=": Column.__le__, ">": Column.__gt__, ">=": Column.__ge__,
}  # fmt: skip


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


def used_slots(read: list[Reading], places: tuple[int, ...]) -> set[int]:
    """The shared columns that any of a stream's scans reads."""
    return {places[c] for reading in read for c in reading.columns}


def wanted(read: list[Reading], places: tuple[int, ...]) -> Column | None:
    """Rows that any of a stream's scans can use; None: all."""
    if len(read) > MOST:
        return None
    parts = []
    for reading in read:
        told = [p for p in (_told(e, places) for e in reading.predicates) if p is not None]
        if not told:
            return None
        parts.append(reduce(Column.__and__, told))
    return reduce(Column.__or__, parts)


def _told(expression: Expression, places: tuple[int, ...]) -> Column | None:
    """A predicate as Spark says it; None if it might not mean the same."""
    if not isinstance(expression, Call):
        return None
    name, arguments = expression.function, expression.arguments
    if name in ("and", "or"):
        parts = [_told(a, places) for a in arguments]
        if any(p is None for p in parts):
            return None
        return reduce(Column.__and__ if name == "and" else Column.__or__, [p for p in parts if p is not None])
    if name == "not":
        inner = _told(arguments[0], places)
        return None if inner is None else ~inner
    if name in ("is_null", "is_not_null") and isinstance(arguments[0], Plain):
        column = F.col(f"c{places[arguments[0].index]}")
        return column.isNull() if name == "is_null" else column.isNotNull()
    if name == "in":
        any_of = [_compared("=", arguments[0], one, places) for one in arguments[1:]]
        if any(p is None for p in any_of):
            return None
        return reduce(Column.__or__, [p for p in any_of if p is not None])
    if name in _COMPARED:
        return _compared(name, arguments[0], arguments[1], places)
    return None


def _compared(name: str, left: Expression, right: Expression, places: tuple[int, ...]) -> Column | None:
    kinds = {left.type, right.type}
    alike = len(kinds) == 1 and (
        left.type in (Type.TIMESTAMP, Type.DATE, Type.BOOLEAN)
        or (left.type is Type.STRING and name in ("=", "<>"))
    )
    if not (alike or all(k.is_integer for k in kinds)):
        return None
    one, other = _value(left, places), _value(right, places)
    return None if one is None or other is None else _COMPARED[name](one, other)


def _value(term: Expression, places: tuple[int, ...]) -> Column | None:
    if isinstance(term, Plain):
        column = F.col(f"c{places[term.index]}")
        return column.cast("bigint") if term.type.is_integer else column
    if isinstance(term, Literal) and term.value is not None:
        return F.lit(term.value)
    if isinstance(term, Call) and term.function == "cast" and term.type is Type.BIGINT:
        (inner,) = term.arguments
        return _value(inner, places) if inner.type.is_integer else None
    return None
