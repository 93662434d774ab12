"""Casts, common types, and literals that give way to what stands beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from penstock.plan.expressions import Call, Expression, Literal
from penstock.plan.timestamp_text import parse_date, parse_timestamp
from penstock.types.data_type import INTEGERS, Type

SPAN = {
    Type.TINYINT: 2**7,
    Type.SMALLINT: 2**15,
    Type.INT: 2**31,
    Type.BIGINT: 2**63,
}
"""An integer type holds -SPAN <= x < SPAN."""

TIMES = (Type.TIMESTAMP, Type.DATE)


class FunctionError(Exception):
    """No such function, or arguments of the wrong type: a message and a hint, no place."""

    def __init__(self, message: str, hint: str = "") -> None:
        self.message = message
        self.hint = hint
        super().__init__(message)


def cast(expression: Expression, target: Type) -> Expression:
    """An explicit CAST; refuses what has no meaning.

    A number out of the target's range and a text that does not read as the target give NULL. A float
    becomes an integer by truncation towards zero, as in Spark. Booleans and integers are 1 and 0.
    """
    source = expression.type
    if source is target:
        return expression
    if source is Type.NULL:
        return Literal(None, target)
    allowed = (
        (source.is_numeric and target.is_numeric)
        or target is Type.STRING
        or (source is Type.STRING and target not in (Type.INTERVAL, Type.NULL))
        or (source is Type.BOOLEAN and target.is_integer)
        or (source.is_integer and target is Type.BOOLEAN)
        or (source in TIMES and target in TIMES)
    )
    if not allowed:
        raise FunctionError(f"cannot cast {source} to {target}", _cast_hint(source, target))
    if isinstance(expression, Literal):
        folded = _fold_cast(expression, target)
        if folded is not None:
            return folded
    return Call("cast", (expression,), target)


def common(types: tuple[Type, ...]) -> Type:
    """The type to which all can be cast without a string ever becoming a number or the reverse."""
    known = list(dict.fromkeys(t for t in types if t is not Type.NULL))
    if not known:
        return Type.NULL
    if len(known) == 1:
        return known[0]
    if all(t.is_integer for t in known):
        return max(known, key=INTEGERS.index)
    if all(t.is_numeric for t in known):
        return Type.DOUBLE
    if all(t in TIMES for t in known):
        return Type.TIMESTAMP
    raise FunctionError(
        f"{' and '.join(str(t) for t in known)} have no common type",
        "CAST them to one type",
    )


# ------------------------------------------------------------------ casts of literals


def _fold_cast(literal: Literal, target: Type) -> Literal | None:
    """The literal in the target type, or None to leave the work to the evaluator."""
    value = literal.value
    if value is None:
        return Literal(None, target)
    if literal.type.is_integer and target.is_integer and isinstance(value, int):
        return Literal(value, target) if -SPAN[target] <= value < SPAN[target] else Literal(None, target)
    if literal.type.is_numeric and target is Type.DOUBLE and isinstance(value, (int, float)):
        return Literal(float(value), target)
    if literal.type is Type.STRING and isinstance(value, str):
        if target is Type.TIMESTAMP:
            return Literal(parse_timestamp(value), target)
        if target is Type.DATE:
            micros = parse_timestamp(value)
            return Literal(None if micros is None else micros // 86_400_000_000, target)
    return None


def _cast_hint(source: Type, target: Type) -> str:
    if source in TIMES and target.is_integer:
        return "epoch(ts) gives seconds"
    if source.is_integer and target is Type.TIMESTAMP:
        return "to_timestamp(seconds) gives a TIMESTAMP"
    return "cast to STRING first"


def unify(arguments: Sequence[Expression], compared: bool = False) -> tuple[tuple[Expression, ...], Type]:
    """The arguments in one type. Literals give way: to a narrower column they fit, to a time they spell,
    and where values are only compared, 5.0 to an integer column."""
    fixed = [a.type for a in arguments if not isinstance(a, Literal)]
    settled = [_settle(a, fixed, compared) if isinstance(a, Literal) else a for a in arguments]
    target = common(tuple(a.type for a in settled))
    return tuple(cast(a, target) for a in settled), target


def _settle(literal: Literal, beside: list[Type], compared: bool) -> Literal:
    value = literal.value
    kinds = {t for t in beside if t is not Type.NULL}
    if value is None or not kinds:
        return literal
    if literal.type is Type.STRING and isinstance(value, str) and kinds <= set(TIMES):
        target = Type.DATE if kinds == {Type.DATE} else Type.TIMESTAMP
        parsed = parse_date(value) if target is Type.DATE else None
        if parsed is None:
            # '2024-05-01 12:00' beside a DATE: compare as instants rather than cut the time off.
            target, parsed = Type.TIMESTAMP, parse_timestamp(value)
        if parsed is None:
            raise FunctionError(f"{literal} is not a {target}", "write it like '2024-05-01 12:30:00'")
        return Literal(parsed, target)
    if not all(k.is_integer for k in kinds):
        return literal
    target = max(kinds, key=INTEGERS.index)
    if literal.type.is_float and isinstance(value, float) and compared:
        # Exact below 2**53: there a BIGINT compares with the literal the same in both types.
        if not (math.isfinite(value) and value.is_integer() and abs(value) < 2**53):
            return literal
        value = int(value)
    elif not literal.type.is_integer:
        return literal
    assert isinstance(value, int)
    return Literal(value, target) if -SPAN[target] <= value < SPAN[target] else literal
