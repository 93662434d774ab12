"""Scalar expressions, each function said three times: in our SQL, in DuckDB's, in Python.

Types are names of SQL types; `TIME` is the type of a time column (BIGINT or TIMESTAMP by schema) and
always an integer here. NULL is None; logic has three values; NaN equals itself and is greater than all.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Value = Any
Env = dict[tuple[str, str], Value]
NAN = float("nan")
EPOCH = dt.datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Col:
    alias: str
    name: str
    type: str
    bare: bool = False
    """Written without its alias (only where that is unambiguous)."""


@dataclass(frozen=True, slots=True)
class Lit:
    value: Value
    type: str


@dataclass(frozen=True, slots=True)
class Call:
    function: str
    arguments: tuple[Expr, ...]
    type: str


@dataclass(frozen=True, slots=True)
class Agg:
    """COUNT, SUM, AVG, MIN, MAX, STDDEV; no argument means COUNT(*)."""

    function: str
    argument: Expr | None
    distinct: bool
    type: str


Expr = Col | Lit | Call | Agg


@dataclass(frozen=True, slots=True)
class Function:
    ours: Callable[..., str]
    duck: Callable[..., str]
    value: Callable[..., Value]
    strict: bool = True
    """NULL in, NULL out."""


def order(value: Value) -> Value:
    """A key that compares NaN equal to itself and greater than every number."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return (0, value) if isinstance(value, int) and not isinstance(value, bool) else value


def _compare(test: Callable[[Value, Value], bool]) -> Callable[[Value, Value], bool]:
    return lambda a, b: test(order(a), order(b))


def _infix(symbol: str) -> Callable[..., str]:
    return lambda a, b: f"({a} {symbol} {b})"


def _same(template: str) -> dict[str, Callable[..., str]]:
    return {"ours": template.format, "duck": template.format}


def _and(a: Value, b: Value) -> Value:
    return False if a is False or b is False else None if a is None or b is None else True


def _or(a: Value, b: Value) -> Value:
    return True if a is True or b is True else None if a is None or b is None else False


def _member(x: Value, *members: Value) -> Value:
    if x is None:
        return None
    if any(m is not None and order(m) == order(x) for m in members):
        return True
    return None if None in members else False


def _not(a: Value) -> Value:
    return None if a is None else not a


def _like(text: str, pattern: str) -> bool:
    parts = {"%": ".*", "_": "."}
    return re.fullmatch("".join(parts.get(c, re.escape(c)) for c in pattern), text, re.DOTALL) is not None


def _remainder(a: int, b: int) -> int | None:
    return None if b == 0 else int(math.copysign(abs(a) % abs(b), a))


def _between(x: Value, low: Value, high: Value) -> Value:
    left = None if x is None or low is None else order(x) >= order(low)
    right = None if x is None or high is None else order(x) <= order(high)
    return _and(left, right)


def _case(*parts: Value) -> Value:
    pairs, last = parts[: len(parts) // 2 * 2], parts[-1] if len(parts) % 2 else None
    for condition, result in zip(pairs[::2], pairs[1::2], strict=True):
        if condition is True:
            return result
    return last


def _case_sql(*parts: str) -> str:
    pairs = parts[: len(parts) // 2 * 2]
    whens = " ".join(f"WHEN {c} THEN {v}" for c, v in zip(pairs[::2], pairs[1::2], strict=True))
    return f"CASE {whens}{f' ELSE {parts[-1]}' if len(parts) % 2 else ''} END"


def _switch(x: Value, *parts: Value) -> Value:
    flat = list(parts)
    for i in range(0, len(parts) - 1, 2):
        flat[i] = x is not None and parts[i] is not None and order(x) == order(parts[i])
    return _case(*flat)


def _list(word: str) -> Callable[..., str]:
    return lambda x, *members: f"({x} {word} ({', '.join(members)}))"


def _first(*values: Value) -> Value:
    return next((v for v in values if v is not None), None)


def _best(pick: Callable[..., Value]) -> Callable[..., Value]:
    def choose(*values: Value) -> Value:
        there = [v for v in values if v is not None]
        return pick(there, key=order) if there else None

    return choose


FUNCTIONS: dict[str, Function] = {
    "+": Function(_infix("+"), _infix("+"), lambda a, b: a + b),
    "-": Function(_infix("-"), _infix("-"), lambda a, b: a - b),
    "*": Function(_infix("*"), _infix("*"), lambda a, b: a * b),
    "/": Function(
        _infix("/"),
        lambda a, b: f"(CAST({a} AS DOUBLE) / NULLIF(CAST({b} AS DOUBLE), 0))",
        lambda a, b: None if b == 0 else a / b,
    ),
    "%": Function(_infix("%"), lambda a, b: f"({a} % NULLIF({b}, 0))", _remainder),
    "neg": Function(**_same("(- {0})"), value=lambda a: -a),
    "abs": Function(**_same("ABS({0})"), value=abs),
    "floor": Function(**_same("FLOOR({0})"), value=lambda a: float(math.floor(a))),
    "ceil": Function(**_same("CEIL({0})"), value=lambda a: float(math.ceil(a))),
    "=": Function(_infix("="), _infix("="), _compare(lambda a, b: a == b)),
    "<>": Function(_infix("<>"), _infix("<>"), _compare(lambda a, b: a != b)),
    "<": Function(_infix("<"), _infix("<"), _compare(lambda a, b: a < b)),
    "<=": Function(_infix("<="), _infix("<="), _compare(lambda a, b: a <= b)),
    ">": Function(_infix(">"), _infix(">"), _compare(lambda a, b: a > b)),
    ">=": Function(_infix(">="), _infix(">="), _compare(lambda a, b: a >= b)),
    "and": Function(_infix("AND"), _infix("AND"), _and, strict=False),
    "or": Function(_infix("OR"), _infix("OR"), _or, strict=False),
    "not": Function(**_same("(NOT {0})"), value=_not),
    "is null": Function(**_same("({0} IS NULL)"), value=lambda a: a is None, strict=False),
    "is not null": Function(**_same("({0} IS NOT NULL)"), value=lambda a: a is not None, strict=False),
    "between": Function(**_same("({0} BETWEEN {1} AND {2})"), value=_between, strict=False),
    "not between": Function(
        **_same("({0} NOT BETWEEN {1} AND {2})"), value=lambda *a: _not(_between(*a)), strict=False
    ),
    "in": Function(_list("IN"), _list("IN"), _member, strict=False),
    "not in": Function(_list("NOT IN"), _list("NOT IN"), lambda *a: _not(_member(*a)), strict=False),
    "like": Function(_infix("LIKE"), _infix("LIKE"), _like),
    "not like": Function(_infix("NOT LIKE"), _infix("NOT LIKE"), lambda *a: not _like(*a)),
    "case": Function(_case_sql, _case_sql, _case, strict=False),
    "switch": Function(
        lambda x, *parts: _case_sql(*parts).replace("CASE", f"CASE {x}", 1),
        lambda x, *parts: _case_sql(*parts).replace("CASE", f"CASE {x}", 1),
        _switch,
        strict=False,
    ),
    "coalesce": Function(
        lambda *a: f"COALESCE({', '.join(a)})", lambda *a: f"COALESCE({', '.join(a)})", _first, strict=False
    ),
    "nullif": Function(
        **_same("NULLIF({0}, {1})"),
        value=lambda a, b: None if a is not None and b is not None and order(a) == order(b) else a,
        strict=False,
    ),
    "greatest": Function(**_same("GREATEST({0}, {1})"), value=_best(max), strict=False),
    "least": Function(**_same("LEAST({0}, {1})"), value=_best(min), strict=False),
    "upper": Function(**_same("UPPER({0})"), value=str.upper),
    "lower": Function(**_same("LOWER({0})"), value=str.lower),
    "trim": Function(**_same("TRIM({0})"), value=lambda s: s.strip(" ")),
    "length": Function(**_same("LENGTH({0})"), value=len),
    "substring": Function(
        **_same("SUBSTRING({0}, {1}, {2})"), value=lambda s, start, n: s[start - 1 : start - 1 + n]
    ),
    "||": Function(_infix("||"), _infix("||"), lambda a, b: a + b),
    "to string": Function(
        "CAST({0} AS STRING)".format, "CAST({0} AS VARCHAR)".format, str
    ),
    "to double": Function(**_same("CAST({0} AS DOUBLE)"), value=float),
    "to bigint": Function(**_same("CAST({0} AS BIGINT)"), value=int),
    "udf": Function("odd_one({0})".format, "((3 * {0}) + 1)".format, lambda a: 3 * a + 1),
}  # fmt: skip


def evaluate(expr: Expr, env: Env, group: list[Env] | None = None) -> Value:
    """The value of an expression on one row; aggregates are taken over `group`."""
    if isinstance(expr, Col):
        return env[expr.alias, expr.name]
    if isinstance(expr, Lit):
        return expr.value
    if isinstance(expr, Agg):
        assert group is not None
        return aggregate(expr, group)
    function = FUNCTIONS[expr.function]
    arguments = [evaluate(a, env, group) for a in expr.arguments]
    if function.strict and None in arguments:
        return None
    return function.value(*arguments)


def aggregate(agg: Agg, group: list[Env]) -> Value:
    if agg.argument is None:
        return len(group)
    values = [v for v in (evaluate(agg.argument, env) for env in group) if v is not None]
    if agg.distinct:
        values = list({order(v): v for v in values}.values())
    if agg.function == "COUNT":
        return len(values)
    if not values:
        return None
    match agg.function:
        case "SUM":
            return math.fsum(values) if isinstance(values[0], float) else sum(values)
        case "AVG":
            return math.fsum(values) / len(values)
        case "MIN":
            return min(values, key=order)
        case "MAX":
            return max(values, key=order)
        case "STDDEV":
            return statistics.stdev(values) if len(values) > 1 else None
    raise ValueError(agg.function)


def ours(expr: Expr) -> str:
    """Our SQL."""
    if isinstance(expr, Col):
        return expr.name if expr.bare else f"{expr.alias}.{expr.name}"
    if isinstance(expr, Lit):
        return literal(expr)
    if isinstance(expr, Agg):
        return _agg(expr, ours)
    return FUNCTIONS[expr.function].ours(*map(ours, expr.arguments))


def duck(expr: Expr) -> str:
    """DuckDB's SQL; integers are BIGINT there and decimal literals DOUBLE, as they are here."""
    if isinstance(expr, Col):
        return f"{expr.alias}.{expr.name}"
    if isinstance(expr, Lit):
        if expr.value is None or expr.type not in ("STRING", "BOOLEAN"):
            whole = isinstance(expr.value, int) and expr.type != "BOOLEAN"
            shown = "NULL" if expr.value is None else str(int(expr.value) if whole else expr.value)
            return f"CAST({shown} AS {DUCK_TYPES[expr.type]})"
        return literal(expr)
    if isinstance(expr, Agg):
        return _agg(expr, duck)
    return FUNCTIONS[expr.function].duck(*map(duck, expr.arguments))


DUCK_TYPES = {
    "INT": "BIGINT", "BIGINT": "BIGINT", "DOUBLE": "DOUBLE", "STRING": "VARCHAR",
    "BOOLEAN": "BOOLEAN", "TIME": "BIGINT", "INTERVAL": "BIGINT", "TINYINT": "BIGINT", "SMALLINT": "BIGINT",
    "FLOAT": "DOUBLE", "DATE": "BIGINT", "TIMESTAMP": "BIGINT",
}  # fmt: skip


def _agg(agg: Agg, show: Callable[[Expr], str]) -> str:
    inner = "*" if agg.argument is None else show(agg.argument)
    return f"{agg.function}({'DISTINCT ' if agg.distinct else ''}{inner})"


def literal(lit: Lit) -> str:
    """A literal of our SQL. TIME and INTERVAL literals of microseconds come as `Micros`."""
    if lit.value is None:
        return "NULL"
    if lit.type == "STRING":
        return "'" + lit.value.replace("'", "''") + "'"
    if lit.type == "BOOLEAN":
        return "TRUE" if lit.value else "FALSE"
    if lit.type == "DATE":
        return f"DATE '{moment(lit.value * 86_400_000_000).date()}'"
    if lit.type in ("TINYINT", "SMALLINT", "FLOAT"):
        return f"CAST({lit.value} AS {lit.type})"
    if isinstance(lit.value, Micros):
        return (
            f"INTERVAL {interval(lit.value)}"
            if lit.type == "INTERVAL"
            else f"TIMESTAMP '{moment(lit.value)}'"
        )
    return str(lit.value)


class Micros(int):
    """An instant or a length in microseconds; marks literals of schemas with TIMESTAMP time."""


def moment(micros: int) -> dt.datetime:
    return EPOCH + dt.timedelta(microseconds=micros)


def interval(micros: int) -> str:
    """`5 SECONDS`, in the largest unit that fits."""
    for name, size in (
        ("HOUR", 3_600_000_000),
        ("MINUTE", 60_000_000),
        ("SECOND", 1_000_000),
        ("MILLISECOND", 1000),
    ):
        if micros and micros % size == 0:
            return f"{micros // size} {name}{'S' if micros != size else ''}"
    return f"{micros} MICROSECONDS"


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and all its parts."""
    yield expr
    if isinstance(expr, Call):
        for argument in expr.arguments:
            yield from walk(argument)
    elif isinstance(expr, Agg) and expr.argument is not None:
        yield from walk(expr.argument)
