"""Functions and their types: builds checked calls, inserting casts.

The binder calls `call` and `aggregate`; what does not fit raises `FunctionError`, to which the binder
adds the place. The rules, in short:

- Strings never turn into numbers or back unless CAST says so. (A string *literal* beside a TIMESTAMP or
  DATE is read as one: there is no other way to write them shorter, and a bad one is an error here.)
- `+ - *` of integers give BIGINT, and NULL where that overflows; `/` gives DOUBLE; dividing by zero, and
  `sqrt`, `ln`, `log10`, `power` outside their domain, give NULL.
- NaN equals itself and is greater than every other number; -0.0 equals 0.0.
- NULL fits every type. `greatest` and `least` skip NULLs, everything else passes them on.

Casts of literals are done here, so that `x > 5` stays a column beside a literal whatever x's width;
`operators.expressions.evaluator` folds other constants.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence

from penstock.plan.coercion import SPAN, TIMES, FunctionError, cast, common, unify
from penstock.plan.expressions import Aggregation, Call, Expression, Literal
from penstock.types.data_type import Type

__all__ = ["AGGREGATES", "ALIASES", "FUNCTIONS", "FunctionError", "aggregate", "call", "cast", "common"]

Arguments = tuple[Expression, ...]
Rule = Callable[[str, Arguments], Expression]

UNITS = (
    "microsecond", "millisecond", "second", "minute", "hour",
    "day", "week", "month", "quarter", "year",
)  # fmt: skip
"""What `date_trunc` cuts at; weeks begin on Monday."""

ALIASES = {
    "!=": "<>", "==": "=", "mod": "%", "substr": "substring", "len": "length", "char_length": "length",
    "pow": "power", "ceiling": "ceil", "startswith": "starts_with", "endswith": "ends_with",
    "dayofmonth": "day", "isodow": "dayofweek", "ifnull": "coalesce", "nvl": "coalesce",
}  # fmt: skip


# ------------------------------------------------------------------ what the binder calls


def call(function: str, *arguments: Expression) -> Expression:
    """A checked call, its arguments cast to what the function takes."""
    name = function.lower()
    name = ALIASES.get(name, name)
    rule = FUNCTIONS.get(name)
    if rule is None:
        near = difflib.get_close_matches(name, FUNCTIONS, n=1, cutoff=0.7)
        raise FunctionError(
            f"unknown function {function}",
            f"did you mean {near[0]}?" if near else "register Python functions with create_function",
        )
    return rule(name, arguments)


def aggregate(function: str, argument: Expression | None, distinct: bool = False) -> Aggregation:
    """A checked aggregate; its name is kept in lower case.

    SUM, AVG and STDDEV get a BIGINT or DOUBLE argument. DISTINCT is dropped where it changes nothing
    (MIN, MAX), and COUNT of a literal is COUNT(*), so that equal aggregates are equal plans.
    """
    name = _AGGREGATE_ALIASES.get(function.lower(), function.lower())
    if name not in AGGREGATES:
        near = difflib.get_close_matches(name, AGGREGATES, n=1)
        known = ", ".join(a.upper() for a in AGGREGATES)
        raise FunctionError(
            f"unknown aggregate {function}",
            f"did you mean {near[0].upper()}?" if near else f"there are {known}",
        )
    if argument is None:
        if name != "count":
            raise FunctionError(f"{name.upper()}(*) has no meaning", "only COUNT takes *")
        if distinct:
            raise FunctionError("COUNT(DISTINCT *) is not supported", "name the column to count")
        return Aggregation("count", None, False, Type.BIGINT)
    if name == "count":
        if isinstance(argument, Literal) and argument.value is not None and not distinct:
            return Aggregation("count", None, False, Type.BIGINT)
        return Aggregation(name, argument, distinct, Type.BIGINT)
    if name in ("min", "max"):
        return Aggregation(name, argument, False, argument.type)
    kind = argument.type
    if not (kind.is_numeric or kind is Type.NULL):
        hint = "CAST it to BIGINT or DOUBLE" if kind in (Type.STRING, Type.BOOLEAN) else "it takes numbers"
        raise FunctionError(f"{name.upper()} does not take {kind}", hint)
    wide = cast(argument, Type.DOUBLE if kind.is_float else Type.BIGINT)
    result = Type.BIGINT if name == "sum" and wide.type is Type.BIGINT else Type.DOUBLE
    return Aggregation(name, wide, distinct, result)


# ------------------------------------------------------------------ rules


def _refuse(name: str, arguments: Sequence[Expression], hint: str = "") -> FunctionError:
    types = " and ".join(str(a.type) for a in arguments) or "no arguments"
    if not hint and any(a.type is Type.STRING for a in arguments):
        hint = "CAST the string explicitly, like CAST(s AS DOUBLE)"
    return FunctionError(f"{_shown(name)} does not take {types}", hint or "CAST the arguments explicitly")


def _shown(name: str) -> str:
    return name.replace("_", " ").upper() if name.startswith("is_") or name in ("and", "or", "not") else name


def _count(name: str, arguments: Arguments, least: int, most: int | None) -> None:
    n = len(arguments)
    if n < least or (most is not None and n > most):
        wanted = (
            f"{least}" if least == most else f"at least {least}" if most is None else f"{least} to {most}"
        )
        raise FunctionError(f"{_shown(name)} takes {wanted} argument{'' if wanted == '1' else 's'}, not {n}")


def _logic(name: str, arguments: Arguments) -> Expression:
    one = name not in ("and", "or")
    _count(name, arguments, 1 if one else 2, 1 if one else None)
    if any(a.type not in (Type.BOOLEAN, Type.NULL) for a in arguments):
        raise _refuse(name, arguments, "it takes BOOLEAN: write a comparison, like x <> 0")
    return Call(name, tuple(cast(a, Type.BOOLEAN) for a in arguments), Type.BOOLEAN)


def _null_test(name: str, arguments: Arguments) -> Expression:
    _count(name, arguments, 1, 1)
    return Call(name, arguments, Type.BOOLEAN)


def _comparison(name: str, arguments: Arguments) -> Expression:
    _count(name, arguments, 2, 2)
    try:
        unified, _ = unify(arguments, compared=True)
    except FunctionError as error:
        if error.message.endswith("no common type"):
            raise _refuse(name, arguments) from None
        raise
    return Call(name, unified, Type.BOOLEAN)


def _arithmetic(name: str, arguments: Arguments) -> Expression:
    _count(name, arguments, 2, 2)
    left, right = (a.type for a in arguments)
    if name in ("+", "-", "*") and not {left, right}.isdisjoint((*TIMES, Type.INTERVAL)):
        return _time_arithmetic(name, arguments)
    if not all(t.is_numeric or t is Type.NULL for t in (left, right)):
        raise _refuse(name, arguments)
    whole = not (left.is_float or right.is_float)
    target = Type.BIGINT if whole and name != "/" else Type.DOUBLE
    return Call(name, tuple(cast(a, target) for a in arguments), target)


def _time_arithmetic(name: str, arguments: Arguments) -> Expression:
    a, b = arguments
    if name == "+" and (a.type in (Type.INTERVAL, Type.NULL)) and b.type in TIMES:
        a, b = b, a
    if name == "*" and b.type is Type.INTERVAL:
        a, b = b, a
    if name == "*" and a.type is Type.INTERVAL and (b.type.is_integer or b.type is Type.NULL):
        return Call("*", (a, cast(b, Type.BIGINT)), Type.INTERVAL)
    if name != "*" and b.type in (Type.INTERVAL, Type.NULL):
        base = Type.TIMESTAMP if a.type in TIMES else Type.INTERVAL
        if a.type in (*TIMES, Type.INTERVAL, Type.NULL):
            return Call(name, (cast(a, base), cast(b, Type.INTERVAL)), base)
    if name == "-" and b.type in TIMES and a.type in (*TIMES, Type.NULL):
        return Call("-", (cast(a, Type.TIMESTAMP), cast(b, Type.TIMESTAMP)), Type.INTERVAL)
    if name == "+" and a.type in (Type.NULL, Type.INTERVAL) and b.type in (Type.NULL, Type.INTERVAL):
        return Call("+", (cast(a, Type.INTERVAL), cast(b, Type.INTERVAL)), Type.INTERVAL)
    raise _refuse(name, arguments, "times take intervals, like ts + INTERVAL 5 SECONDS")


def _negate(name: str, arguments: Arguments) -> Expression:
    _count(name, arguments, 1, 1)
    (a,) = arguments
    if isinstance(a, Literal) and a.type.is_numeric and isinstance(a.value, (int, float)):
        value = -a.value
        if a.type.is_float:
            return Literal(value, a.type)
        # -(2147483648) was read as BIGINT because the sign comes apart from the digits.
        kind = Type.INT if a.type is Type.BIGINT and value == -(2**31) else a.type
        if value >= SPAN[kind]:
            kind = Type.BIGINT
        return Literal(value if value < SPAN[kind] else None, kind)
    if a.type is Type.INTERVAL:
        return Call(name, arguments, Type.INTERVAL)
    return _same_number(name, arguments)


def _same_number(name: str, arguments: Arguments) -> Expression:
    """Integers stay whole (BIGINT), floats become DOUBLE."""
    _count(name, arguments, 1, 1)
    kind = arguments[0].type
    if not (kind.is_numeric or kind is Type.NULL):
        raise _refuse(name, arguments)
    target = Type.BIGINT if kind.is_integer else Type.DOUBLE
    return Call(name, (cast(arguments[0], target),), target)


def _sign(name: str, arguments: Arguments) -> Expression:
    inner = _same_number(name, arguments)
    assert isinstance(inner, Call)
    return Call(name, inner.arguments, Type.INT)


def _round(name: str, arguments: Arguments) -> Expression:
    """Half away from zero, as SQL users expect."""
    _count(name, arguments, 1, 2)
    inner = _same_number(name, arguments[:1])
    assert isinstance(inner, Call)
    digits = arguments[1] if len(arguments) == 2 else Literal(0, Type.INT)
    if not (isinstance(digits, Literal) and digits.type.is_integer and isinstance(digits.value, int)):
        raise FunctionError("round takes a whole number of digits as a literal", "write it like round(x, 2)")
    if abs(digits.value) > 308:
        raise FunctionError("round takes between -308 and 308 digits")
    return Call(name, (*inner.arguments, Literal(digits.value, Type.INT)), inner.type)


def _in(name: str, arguments: Arguments) -> Expression:
    """Items that are not literals make it a disjunction of equalities: the same in three-valued logic."""
    _count(name, arguments, 2, None)
    try:
        unified, _ = unify(arguments, compared=True)
    except FunctionError as error:
        if error.message.endswith("no common type"):
            raise _refuse("IN", arguments) from None
        raise
    if all(isinstance(a, Literal) for a in unified[1:]):
        return Call(name, unified, Type.BOOLEAN)
    tests = [_comparison("=", (unified[0], item)) for item in unified[1:]]
    return tests[0] if len(tests) == 1 else _logic("or", tuple(tests))


def _case(name: str, arguments: Arguments) -> Expression:
    """Always with an ELSE, NULL if none was written."""
    _count(name, arguments, 2, None)
    if len(arguments) % 2 == 0:
        arguments = (*arguments, Literal(None, Type.NULL))
    conditions = arguments[0:-1:2]
    if any(c.type not in (Type.BOOLEAN, Type.NULL) for c in conditions):
        raise _refuse("WHEN", conditions, "a condition is BOOLEAN")
    values, kind = unify((*arguments[1:-1:2], arguments[-1]))
    parts: list[Expression] = []
    for condition, value in zip(conditions, values, strict=False):
        parts += (cast(condition, Type.BOOLEAN), value)
    return Call(name, (*parts, values[-1]), kind)


def _alike(name: str, arguments: Arguments) -> Expression:
    _count(name, arguments, 1, None)
    unified, kind = unify(arguments)
    return unified[0] if len(unified) == 1 else Call(name, unified, kind)


def _nullif(name: str, arguments: Arguments) -> Expression:
    _count(name, arguments, 2, 2)
    first = arguments[0]
    return _case("case", (_comparison("=", arguments), Literal(None, first.type), first))


def _like(name: str, arguments: Arguments) -> Expression:
    _count(name, arguments, 2, 3)
    if any(a.type not in (Type.STRING, Type.NULL) for a in arguments):
        raise _refuse("LIKE", arguments, "CAST to STRING explicitly")
    if not all(isinstance(a, Literal) for a in arguments[1:]):
        raise FunctionError("LIKE takes its pattern as a literal", "write it like s LIKE 'a%'")
    texts = tuple(cast(a, Type.STRING) for a in arguments)
    if len(texts) == 3:
        escape = texts[2]
        if isinstance(escape, Literal) and isinstance(escape.value, str) and len(escape.value) != 1:
            raise FunctionError("ESCAPE takes one character")
    return Call(name, texts, Type.BOOLEAN)


def _date_trunc(name: str, arguments: Arguments) -> Expression:
    _count(name, arguments, 2, 2)
    unit = arguments[0]
    if not (isinstance(unit, Literal) and isinstance(unit.value, str)):
        raise FunctionError("date_trunc takes its unit as a literal", "write it like date_trunc('hour', ts)")
    word = unit.value.lower()
    word = word if word in UNITS else word.removesuffix("s")
    if word not in UNITS:
        raise FunctionError(f"date_trunc does not know {unit.value!r}", f"units are {', '.join(UNITS)}")
    inner = _fixed((Type.TIMESTAMP,), Type.TIMESTAMP)(name, arguments[1:])
    assert isinstance(inner, Call)
    return Call(name, (Literal(word, Type.STRING), *inner.arguments), Type.TIMESTAMP)


def _cast_rule(name: str, arguments: Arguments) -> Expression:
    raise FunctionError(f"{name} of {len(arguments)} arguments lacks a type", "write CAST(x AS type)")


def _fits(source: Type, wanted: Type) -> bool:
    if source in (wanted, Type.NULL):
        return True
    if wanted is Type.DOUBLE:
        return source.is_numeric
    if wanted is Type.BIGINT:
        return source.is_integer
    return wanted is Type.TIMESTAMP and source is Type.DATE


def _fixed(wanted: tuple[Type, ...], result: Type, least: int | None = None) -> Rule:
    """Arguments of given types; the last may be left out down to `least`."""

    def rule(name: str, arguments: Arguments) -> Expression:
        _count(name, arguments, len(wanted) if least is None else least, len(wanted))
        if not all(_fits(a.type, w) for a, w in zip(arguments, wanted, strict=False)):
            hint = f"it takes {' and '.join(str(w) for w in wanted)}: CAST explicitly"
            raise _refuse(name, arguments, hint)
        given = tuple(cast(a, w) for a, w in zip(arguments, wanted, strict=False))
        return Call(name, given, result)

    return rule


def _texts(name: str, arguments: Arguments) -> Expression:
    """NULL if any part is NULL, for `concat` as for `||`."""
    _count(name, arguments, 2 if name == "||" else 1, None)
    if any(a.type not in (Type.STRING, Type.NULL) for a in arguments):
        raise _refuse(name, arguments, "CAST to STRING explicitly")
    return Call(name, tuple(cast(a, Type.STRING) for a in arguments), Type.STRING)


_S, _N, _D, _T, _B = Type.STRING, Type.BIGINT, Type.DOUBLE, Type.TIMESTAMP, Type.BOOLEAN

FUNCTIONS: dict[str, Rule] = {
    **dict.fromkeys(("and", "or", "not", "is_true", "is_false", "is_not_true", "is_not_false"), _logic),
    **dict.fromkeys(("is_null", "is_not_null"), _null_test),
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "is_distinct", "is_not_distinct"), _comparison),
    **dict.fromkeys(("+", "-", "*", "/", "%"), _arithmetic),
    "neg": _negate,
    "||": _texts,
    "concat": _texts,
    "like": _like,
    "in": _in,
    "case": _case,
    **dict.fromkeys(("coalesce", "greatest", "least"), _alike),
    "nullif": _nullif,
    **dict.fromkeys(("upper", "lower", "trim", "ltrim", "rtrim"), _fixed((_S,), _S)),
    "length": _fixed((_S,), _N),
    "substring": _fixed((_S, _N, _N), _S, least=2),
    **dict.fromkeys(("left", "right"), _fixed((_S, _N), _S)),
    "replace": _fixed((_S, _S, _S), _S),
    **dict.fromkeys(("starts_with", "ends_with", "contains"), _fixed((_S, _S), _B)),
    **dict.fromkeys(("abs", "floor", "ceil"), _same_number),
    "round": _round,
    "sign": _sign,
    **dict.fromkeys(("sqrt", "exp", "ln", "log10"), _fixed((_D,), _D)),
    "power": _fixed((_D, _D), _D),
    **dict.fromkeys(("year", "month", "day", "hour", "minute", "second", "dayofweek"), _fixed((_T,), _N)),
    "date_trunc": _date_trunc,
    "epoch": _fixed((_T,), _N),
    "to_timestamp": _fixed((_N,), _T),
    "cast": _cast_rule,
}
"""Name → the rule that checks and types a call."""

AGGREGATES = ("count", "sum", "avg", "min", "max", "stddev")
_AGGREGATE_ALIASES = {"stddev_samp": "stddev", "mean": "avg"}
