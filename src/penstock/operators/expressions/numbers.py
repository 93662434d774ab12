"""Arithmetic and mathematics: BIGINT that overflows, division by zero and bad domains give NULL."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from penstock.operators.expressions.compiled import (
    Builder,
    Function,
    Nullable,
    Part,
    Run,
    partial,
    strict,
)
from penstock.plan.expressions import Call, Expression, Literal
from penstock.types.batch import Array, Mask
from penstock.types.data_type import Type
from penstock.types.event_time import FIRST_MICROSECOND, LAST_MICROSECOND

_MIN = np.iinfo(np.int64).min
_WIDTH = {Type.TINYINT: 7, Type.SMALLINT: 15, Type.INT: 31, Type.DATE: 31, Type.BOOLEAN: 1}
_SMALL = frozenset(("length", "year", "month", "day", "hour", "minute", "second", "dayofweek", "sign"))


def bits(expression: Expression) -> int:
    """A bound b with |value| <= 2**b, from types and literals alone; 64 if none is known. It saves
    the check for overflow where INT columns are added or multiplied."""
    if isinstance(expression, Literal):
        return abs(expression.value).bit_length() if isinstance(expression.value, int) else 64
    if not isinstance(expression, Call):
        return _WIDTH.get(expression.type, 64)
    name = expression.function
    inner = [bits(a) for a in expression.arguments]
    if name in ("+", "-"):
        bound = max(inner) + 1
    elif name == "*":
        bound = sum(inner)
    elif name in ("neg", "abs", "floor", "ceil") or (
        name == "cast" and expression.arguments[0].type.is_integer
    ):
        bound = inner[0]
    elif name in _SMALL:
        bound = 32
    else:
        bound = 64
    return min(bound, _WIDTH.get(expression.type, 64), 64)


def _add(a: Array, b: Array) -> tuple[Array, Mask]:
    r = a + b
    return r, ((a ^ r) & (b ^ r)) < 0


def _subtract(a: Array, b: Array) -> tuple[Array, Mask]:
    r = a - b
    return r, ((a ^ b) & (a ^ r)) < 0


def _multiply(a: Array, b: Array) -> tuple[Array, Mask]:
    r = a * b
    if _magnitude(a) + _magnitude(b) <= 62:
        return r, np.zeros(len(r), np.bool_)
    # r // a is b again unless the product wrapped; -1 * MIN is the one wrap that division cannot show.
    divisor = np.where((a == 0) | (a == -1), 1, a)
    quotient = r // divisor
    wrapped = np.where(a == -1, b == _MIN, (a != 0) & ((quotient != b) | (r % divisor != 0)))
    return r, wrapped


def _magnitude(a: Array) -> int:
    return max(int(a.max()).bit_length(), int(a.min()).bit_length()) if len(a) else 0


def _in_range(checked: Nullable) -> Nullable:
    """Results that are TIMESTAMPs stay within the years 1 to 9999."""

    def function(a: Array, b: Array) -> tuple[Array, Mask]:
        r, bad = checked(a, b)
        return r, bad | (r < FIRST_MICROSECOND) | (r > LAST_MICROSECOND)

    return function


_EXACT: dict[str, tuple[Function, Nullable]] = {
    "+": (np.add, _add),
    "-": (np.subtract, _subtract),
    "*": (np.multiply, _multiply),
}


def _sums(call: Call, parts: Sequence[Part]) -> Run:
    plain, checked = _EXACT[call.function]
    if call.type is Type.DOUBLE:
        return strict(parts, quiet(plain))
    if call.type is Type.TIMESTAMP:
        return partial(parts, _in_range(checked))
    if bits(call) <= 62:
        return strict(parts, plain)
    return partial(parts, checked)


def quiet(function: Function) -> Function:
    """Infinities and NaN are values here, not accidents to warn about."""

    def silent(*arguments: Array) -> Array:
        with np.errstate(all="ignore"):
            return function(*arguments)

    return silent


def _divide(_: Call, parts: Sequence[Part]) -> Run:
    if parts[1].constant is not None and parts[1].constant[0][0] != 0:
        return strict(parts, quiet(np.divide))
    divide = quiet(np.divide)
    return partial(parts, lambda a, b: (divide(a, b), b == 0))


def _modulo(call: Call, parts: Sequence[Part]) -> Run:
    if call.type is Type.DOUBLE:
        remainder = quiet(np.fmod)
        return partial(parts, lambda a, b: (remainder(a, b), _spread_zero(a, b)))

    def whole(a: Array, b: Array) -> tuple[Array, Mask]:
        # x % -1 is x % 1, and MIN % -1 traps on some machines.
        return np.fmod(a, np.where((b == 0) | (b == -1), 1, b)), _spread_zero(a, b)

    return partial(parts, whole)


def _spread_zero(a: Array, b: Array) -> Mask:
    return np.broadcast_to(b == 0, np.broadcast_shapes(a.shape, b.shape))


def _negate(call: Call, parts: Sequence[Part]) -> Run:
    if call.type is Type.DOUBLE or bits(call) <= 62:
        return strict(parts, np.negative)
    return partial(parts, lambda a: (np.negative(a), a == _MIN))


def _absolute(call: Call, parts: Sequence[Part]) -> Run:
    if call.type is Type.DOUBLE or bits(call) <= 62:
        return strict(parts, np.abs)
    return partial(parts, lambda a: (np.abs(a), a == _MIN))


def _round_half_away(a: Array) -> Array:
    whole = np.trunc(a)
    rounded: Array = np.copysign(np.abs(whole) + (np.abs(a - whole) >= 0.5), a)
    return rounded


def _round(call: Call, parts: Sequence[Part]) -> Run:
    digits = call.arguments[1]
    assert isinstance(digits, Literal) and isinstance(digits.value, int)
    places = digits.value
    if call.type is Type.BIGINT:
        return _round_whole(parts[:1], places)

    def function(a: Array) -> Array:
        if places == 0:
            return np.where(np.isfinite(a), _round_half_away(a), a)
        scale = 10.0 ** abs(places)
        rounded = _round_half_away(a * scale) / scale if places > 0 else _round_half_away(a / scale) * scale
        # Scaling up may overflow; then there was nothing behind the point to round.
        return np.where(np.isfinite(rounded) & np.isfinite(a), rounded, a)

    return strict(parts[:1], quiet(function))


def _round_whole(parts: Sequence[Part], places: int) -> Run:
    if places >= 0:
        return parts[0].run
    if places < -19:
        return strict(parts, np.zeros_like)
    if places == -19:
        # Half of 10**19 is 5 * 10**18: beyond it, rounding leaves BIGINT.
        half = 5 * 10**18
        return partial(parts, lambda a: (np.zeros_like(a), (a >= half) | (a <= -half)))
    scale = 10**-places
    half = scale // 2

    def function(a: Array) -> tuple[Array, Mask]:
        rest = np.fmod(a, scale)
        base = a - rest
        up = np.where(rest >= half, scale, np.where(rest <= -half, -scale, 0))
        return _add(base, up)

    return partial(parts, function)


def _whole_or(function: Function) -> Builder:
    def build(call: Call, parts: Sequence[Part]) -> Run:
        return parts[0].run if call.type is Type.BIGINT else strict(parts, function)

    return build


def _sign(_: Call, parts: Sequence[Part]) -> Run:
    return strict(parts, lambda a: (a > 0).astype(np.int32) - (a < 0))


def _domain(function: Function, outside: Callable[[Array], Mask]) -> Builder:
    silent = quiet(function)

    def build(_: Call, parts: Sequence[Part]) -> Run:
        return partial(parts, lambda a: (silent(a), outside(a)))

    return build


def _power(_: Call, parts: Sequence[Part]) -> Run:
    silent = quiet(np.float_power)  # np.power rounds by batch: see the test

    def function(a: Array, b: Array) -> tuple[Array, Mask]:
        r = silent(a, b)
        return r, np.isnan(r) & ~(np.isnan(a) | np.isnan(b))

    return partial(parts, function)


def builders() -> dict[str, Builder]:
    return {
        **dict.fromkeys(_EXACT, _sums),
        "/": _divide,
        "%": _modulo,
        "neg": _negate,
        "abs": _absolute,
        "round": _round,
        "floor": _whole_or(np.floor),
        "ceil": _whole_or(np.ceil),
        "sign": _sign,
        "sqrt": _domain(np.sqrt, lambda a: a < 0),
        "ln": _domain(np.log, lambda a: a <= 0),
        "log10": _domain(np.log10, lambda a: a <= 0),
        "exp": lambda _, parts: strict(parts, quiet(np.exp)),
        "power": _power,
    }
