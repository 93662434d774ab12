"""Scalar expressions: from sqlglot's nodes to typed, bound ones.

A table says what each node means; a node that is not in it, or carries an argument nobody asked for,
is refused. All typing is `plan.function_signatures`'; this file adds names and places.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from sqlglot import exp

from penstock.errors import BindError, ParseError, PenstockError, PlanError
from penstock.plan.catalog import Catalog
from penstock.plan.expressions import Aggregation, Call, Column, Expression, Literal
from penstock.plan.function_signatures import (
    AGGREGATES,
    ALIASES,
    FUNCTIONS,
    FunctionError,
    aggregate,
    call,
    cast,
)
from penstock.plan.timestamp_text import parse_date, parse_timestamp
from penstock.sql.binder.scope import Scope, near
from penstock.sql.binder.units import type_named, unit_length
from penstock.sql.parser.ast import Name
from penstock.sql.parser.expressions import Exists
from penstock.sql.parser.source_text import Source, Span, span_of
from penstock.types.data_type import Type
from penstock.types.event_time import LATEST

DEEPEST = 120
"""Operators nested deeper than this (AND and OR do not count) are refused, for those who walk plans."""

_AGGREGATES = {*AGGREGATES, "stddev_samp", "mean"}
_INTERNAL = {"and", "or", "not", "neg", "in", "case", "cast", "like"} | {
    name for name in FUNCTIONS if name.startswith("is_") or not name[0].isalpha()
}
"""Keys of plan.functions that are written as operators, never as calls."""

_NOT_STANDING = {"now", "current_timestamp", "current_date", "rand", "random", "uuid"}
_CALLS = {"ucase": "upper", "lcase": "lower", "character_length": "length", "signum": "sign", "log": "ln"}


@dataclass(slots=True)
class Aggregates:
    """The aggregates met so far, each once; they are columns after the input's own until grouping is done."""

    base: int
    found: list[Aggregation] = field(default_factory=list)

    def column(self, aggregation: Aggregation) -> Column:
        if aggregation not in self.found:
            self.found.append(aggregation)
        index = self.found.index(aggregation)
        return Column(self.base + index, aggregation.type, str(aggregation))


@dataclass(slots=True)
class Scalars:
    """Binds expressions over one scope. `clause` names it in errors; `aggregates` is None where none may stand."""

    scope: Scope
    catalog: Catalog
    source: Source
    clause: str
    aggregates: Aggregates | None = None
    aliases: dict[str, exp.Expr] = field(default_factory=dict)
    """Select aliases, by lower-case name: visible where no column has that name."""
    hidden: dict[str, exp.Expr] = field(default_factory=dict)
    """Select aliases that do not exist yet at this point; naming one gets its own hint."""
    places: dict[int, Span] = field(default_factory=dict)
    """Where each column was last named, for errors found later."""
    _inside: str = ""
    _depth: int = 0

    # -- entry points -----------------------------------------------------------------------------------

    def bind(self, node: exp.Expr) -> Expression:
        """The typed expression a node stands for."""
        self._depth += 1
        try:
            if self._depth > DEEPEST:
                self.fail(
                    "the expression is nested too deeply",
                    node,
                    "compute a part of it in a subquery",
                    ParseError,
                )
            binder = _BINDERS.get(type(node))
            if binder is None:
                self.fail(f"{_shown(node)} is not supported", node)
            return binder(self, node)
        except FunctionError as error:
            raise self.source.error(BindError, error.message, span_of(node), error.hint) from None
        finally:
            self._depth -= 1

    def predicate(self, node: exp.Expr) -> Expression:
        """A BOOLEAN expression."""
        bound = self.bind(node)
        if bound.type not in (Type.BOOLEAN, Type.NULL):
            hint = "write a comparison, like x > 0"
            self.fail(f"{self.clause} takes a BOOLEAN, not {bound.type}", node, hint)
        return cast(bound, Type.BOOLEAN) if bound.type is Type.NULL else bound

    def fail(
        self, message: str, node: exp.Expr, hint: str = "", kind: type[PenstockError] = BindError
    ) -> NoReturn:
        raise self.source.error(kind, message, span_of(node), hint)

    def only(self, node: exp.Expr, *known: str) -> None:
        """No argument is ignored: what is set but unknown is an error."""
        for name, value in node.args.items():
            if value not in (None, False, []) and name not in known:
                self.fail(f"{_shown(node)} with {name} is not supported", node)

    def all(self, nodes: list[exp.Expr]) -> list[Expression]:
        return [self.bind(node) for node in nodes]

    # -- names and literals -----------------------------------------------------------------------------

    def column(self, node: exp.Expr) -> Expression:
        self.only(node, "this", "table")
        if isinstance(node.this, exp.Star):
            self.fail("a star cannot stand in an expression", node, "name a column")
        name, alias = node.name, node.text("table") or None
        span = span_of(node)
        found = self.scope.find(name, alias, span, self.source)
        if found is not None:
            if isinstance(found, Column):
                self.places[found.index] = span
            return found
        meant = self.aliases.get(name.lower()) if alias is None else None
        if meant is not None:
            return self._alias(name, meant)
        error = self.scope.unknown(name, alias, span, self.source)
        if alias is None and name.lower() in self.hidden:
            error.hint = f"{self.clause} comes before SELECT: repeat the expression of {name}"
        elif name.lower() in _NOT_STANDING:
            error.hint = "an answer depends on the streams alone: use their time columns"
        raise error

    def _alias(self, name: str, meant: exp.Expr) -> Expression:
        """An alias stands for its expression, in which it does not itself exist."""
        hidden = self.aliases.pop(name.lower())
        try:
            return self.bind(meant)
        finally:
            self.aliases[name.lower()] = hidden

    def literal(self, node: exp.Expr) -> Expression:
        self.only(node, "this", "is_string")
        text = str(node.this)
        if node.args.get("is_string"):
            return Literal(text, Type.STRING)
        return self._number(text, node)

    def _number(self, text: str, node: exp.Expr) -> Literal:
        if text.isascii() and text.isdigit():
            value = int(text) if len(text) < 40 else 2**64
            if value >= 2**63:
                self.fail(f"{text[:40]} does not fit BIGINT", node, "write it as a DOUBLE, with a point")
            return Literal(value, Type.INT if value < 2**31 else Type.BIGINT)
        try:
            real = float(text)
        except ValueError:
            self.fail(f"{text} is not a number", node)
        if not math.isfinite(real):
            self.fail(f"{text} does not fit DOUBLE", node)
        return Literal(real, Type.DOUBLE)

    def constant(self, node: exp.Expr) -> Expression:
        if isinstance(node, exp.Null):
            return Literal(None, Type.NULL)
        return Literal(bool(node.this), Type.BOOLEAN)

    def interval(self, node: exp.Expr) -> Expression:
        self.only(node, "this", "unit")
        text, unit = node.this.name, node.args["unit"].name
        length = unit_length(unit, span_of(node), self.source)
        try:
            value = int(text) * length if text.lstrip("-").isdigit() else round(float(text) * length)
        except (ValueError, OverflowError):
            self.fail(f"{text!r} is not a number", node, "write INTERVAL 5 SECONDS")
        if abs(value) >= LATEST:
            self.fail("the interval is too long", node)
        return Literal(value, Type.INTERVAL)

    def conversion(self, node: exp.Expr) -> Expression:
        self.only(node, "this", "to", "action", "requires_string", "safe")
        to = node.args["to"]
        target = type_named(Name(to.name, span_of(to)), self.source)
        inner = self.bind(node.this)
        if node.args.get("action") == "literal" and isinstance(inner, Literal):
            return self._typed_literal(str(inner.value), target, node)
        return cast(inner, target)

    def _typed_literal(self, text: str, target: Type, node: exp.Expr) -> Literal:
        value = parse_timestamp(text) if target is Type.TIMESTAMP else parse_date(text)
        if value is None:
            form = "2026-01-31 12:30:00" if target is Type.TIMESTAMP else "2026-01-31"
            self.fail(f"{text!r} is not a {target}", node, f"write it like {target} '{form}'")
        return Literal(value, target)

    # -- operators --------------------------------------------------------------------------------------

    def paren(self, node: exp.Expr) -> Expression:
        self.only(node, "this")
        while isinstance(node.this, exp.Paren):
            node = node.this
        return self.bind(node.this)

    def connective(self, node: exp.Expr) -> Expression:
        """A chain of ANDs (or ORs) of any length, built as a balanced tree so that no plan grows deep."""
        kind = type(node)
        parts = [self.bind(part) for part in chain(node, kind)]
        return _balanced("and" if kind is exp.And else "or", parts)

    def negation(self, node: exp.Expr) -> Expression:
        inner = node.this
        while isinstance(inner, exp.Paren):
            inner = inner.this
        if isinstance(inner, Exists):
            self.fail(
                f"NOT EXISTS cannot stand here in {self.clause}",
                node,
                "it may only be a condition of WHERE by itself, or ANDed with others",
                PlanError,
            )
        if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
            return call("is_not_null", self.bind(inner.this))
        return call("not", self.bind(node.this))

    def exists(self, node: exp.Expr) -> Expression:
        hint = "join with the subquery; NOT EXISTS is supported in WHERE"
        self.fail("EXISTS is not supported", node, hint, PlanError)

    def binary(self, node: exp.Expr) -> Expression:
        self.only(node, "this", "expression", "typed", "safe")
        return call(_OPERATORS[type(node)], self.bind(node.this), self.bind(node.expression))

    def negative(self, node: exp.Expr) -> Expression:
        if isinstance(node.this, exp.Literal) and node.this.this == str(2**63):
            return Literal(-(2**63), Type.BIGINT)
        inner = self.bind(node.this)
        if isinstance(inner, Literal) and inner.type is Type.INTERVAL and isinstance(inner.value, int):
            return Literal(-inner.value, Type.INTERVAL)
        return call("neg", inner)

    def truth(self, node: exp.Expr) -> Expression:
        self.only(node, "this", "expression")
        value = node.expression
        if isinstance(value, exp.Null):
            return call("is_null", self.bind(node.this))
        if not isinstance(value, exp.Boolean):
            self.fail("IS takes NULL, TRUE, FALSE or DISTINCT FROM", node)
        return call("is_true" if value.this else "is_false", self.bind(node.this))

    def between(self, node: exp.Expr) -> Expression:
        self.only(node, "this", "low", "high")
        subject = self.bind(node.this)
        low = call(">=", subject, self.bind(node.args["low"]))
        return call("and", low, call("<=", subject, self.bind(node.args["high"])))

    def membership(self, node: exp.Expr) -> Expression:
        self.only(node, "this", "expressions")
        return call("in", self.bind(node.this), *self.all(node.expressions))

    def like(self, node: exp.Expr) -> Expression:
        return self._matched(node, [])

    def escape(self, node: exp.Expr) -> Expression:
        self.only(node, "this", "expression")
        if not isinstance(node.this, exp.Like) or node.expression is None:
            self.fail("ESCAPE belongs to LIKE", node, "write x LIKE 'a!%' ESCAPE '!'")
        return self._matched(node.this, [self.bind(node.expression)])

    def _matched(self, node: exp.Expr, escape: list[Expression]) -> Expression:
        self.only(node, "this", "expression", "negate")
        found = call("like", self.bind(node.this), self.bind(node.expression), *escape)
        return call("not", found) if node.args.get("negate") else found

    def case(self, node: exp.Expr) -> Expression:
        self.only(node, "this", "ifs", "default")
        subject = None if node.this is None else self.bind(node.this)
        parts: list[Expression] = []
        for branch in node.args["ifs"]:
            condition = self.bind(branch.this)
            parts.append(condition if subject is None else call("=", subject, condition))
            parts.append(self.bind(branch.args["true"]))
        default = node.args.get("default")
        if default is not None:
            parts.append(self.bind(default))
        return call("case", *parts)

    def star(self, node: exp.Expr) -> Expression:
        self.fail("a star cannot stand in an expression", node, "only COUNT(*) and SELECT * have one")

    # -- calls ------------------------------------------------------------------------------------------

    def function(self, node: exp.Expr) -> Expression:
        name = str(node.name).lower()
        registered = self.catalog.functions.get(name)
        if registered is not None:
            arguments = tuple(self._argument(a, name) for a in node.expressions)
            return Call(f"udf:{name}", arguments, registered.returns)
        if name in _AGGREGATES:
            return self._aggregate(node, name)
        if name == "if":
            return self._if(node)
        key = _CALLS.get(name, ALIASES.get(name, name))
        if key in _INTERNAL and name != "mod":
            key = ""
        if key not in FUNCTIONS:
            known = [k for k in (*FUNCTIONS, *_AGGREGATES, *self.catalog.functions) if k not in _INTERNAL]
            close = near(name, known, "the functions")
            hint = close if close.startswith("did") else "register Python functions with s.create_function"
            if name in _NOT_STANDING:
                hint = "an answer depends on the streams alone: use their time columns"
            self.fail(f"no function {name}", node, hint)
        return call(key, *(self._argument(a, name) for a in node.expressions))

    def _argument(self, node: exp.Expr, name: str) -> Expression:
        if isinstance(node, exp.Distinct):
            self.fail(f"{name} is not an aggregate, so it has no DISTINCT", node)
        return self.bind(node)

    def _if(self, node: exp.Expr) -> Expression:
        if len(node.expressions) not in (2, 3):
            self.fail("if takes a condition and one or two values", node)
        return call("case", *self.all(node.expressions))

    def _aggregate(self, node: exp.Expr, name: str) -> Expression:
        if self._inside:
            hint = "aggregate in a subquery, then aggregate that"
            self.fail(f"{name} stands inside {self._inside}", node, hint)
        if self.aggregates is None:
            hint = "write it in HAVING" if self.clause == "WHERE" else "aggregate in a subquery"
            self.fail(f"an aggregate cannot stand in {self.clause}", node, hint)
        argument, distinct = self._aggregated(node, name)
        self._inside = name
        try:
            bound = None if argument is None else self.bind(argument)
        finally:
            self._inside = ""
        return self.aggregates.column(aggregate(name, bound, distinct))

    def _aggregated(self, node: exp.Expr, name: str) -> tuple[exp.Expr | None, bool]:
        """The argument of an aggregate (None is a star) and whether it is DISTINCT."""
        arguments = node.expressions
        distinct = len(arguments) == 1 and isinstance(arguments[0], exp.Distinct)
        if distinct:
            arguments = arguments[0].expressions
        if len(arguments) != 1:
            self.fail(f"{name.upper()} takes one argument, not {len(arguments)}", node)
        return (None if isinstance(arguments[0], exp.Star) else arguments[0]), distinct


def chain(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    """The operands of a chain of one connective, left to right, through parentheses, without recursion."""
    found: list[exp.Expr] = []
    waiting = [node]
    while waiting:
        part = waiting.pop()
        inner = part
        while isinstance(inner, exp.Paren):
            inner = inner.this
        if type(inner) is kind:
            waiting += (inner.expression, inner.this)
        else:
            found.append(part)
    return found


def _balanced(name: str, parts: list[Expression]) -> Expression:
    if len(parts) == 1:
        return parts[0]
    middle = (len(parts) + 1) // 2
    return call(name, _balanced(name, parts[:middle]), _balanced(name, parts[middle:]))


def conjunction(parts: list[Expression]) -> Expression:
    """All of them; there is at least one."""
    return _balanced("and", parts)


def _shown(node: exp.Expr) -> str:
    return type(node).__name__.upper()


_OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.DPipe: "||",
    exp.NullSafeEQ: "is_not_distinct", exp.NullSafeNEQ: "is_distinct",
}  # fmt: skip

_BINDERS: dict[type[exp.Expr], Callable[[Scalars, exp.Expr], Expression]] = {
    **dict.fromkeys(_OPERATORS, Scalars.binary),
    exp.Column: Scalars.column,
    exp.Literal: Scalars.literal,
    exp.Null: Scalars.constant,
    exp.Boolean: Scalars.constant,
    exp.Interval: Scalars.interval,
    exp.Cast: Scalars.conversion,
    exp.TryCast: Scalars.conversion,
    exp.Paren: Scalars.paren,
    exp.And: Scalars.connective,
    exp.Or: Scalars.connective,
    exp.Not: Scalars.negation,
    exp.Neg: Scalars.negative,
    exp.Is: Scalars.truth,
    exp.Between: Scalars.between,
    exp.In: Scalars.membership,
    exp.Like: Scalars.like,
    exp.Escape: Scalars.escape,
    exp.Case: Scalars.case,
    exp.Star: Scalars.star,
    exp.Anonymous: Scalars.function,
    Exists: Scalars.exists,
}
