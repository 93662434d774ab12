"""Fingerprints: equal for sub-plans that mean the same, so that queries can share them.

Aliases and output names are ways of speaking and do not count; streams, windows, predicates, columns read and
everything that changes an answer do. Conjuncts, and the two sides of a symmetric comparison, may be written in
any order.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any

from penstock.plan.catalog import Function
from penstock.plan.expressions import Aggregation, Column, Expression, Literal, conjuncts
from penstock.plan.nodes import (
    Aggregate,
    AntiJoin,
    Distinct,
    Except,
    Filter,
    Intersect,
    Join,
    Node,
    OuterJoin,
    Project,
    Relation,
    Reliable,
    Scan,
    Shared,
    ToStream,
    Union,
    Windowed,
)

_FUNCTION = re.compile(r"udf:(\w+)")
_SYMMETRIC = {"=", "<>", "+", "*", "and", "or", "is_distinct", "is_not_distinct"}
_TURNED = {">": "<", ">=": "<="}


def fingerprint(node: Node) -> str:
    """A short name for what a plan computes.

    >>> from penstock.sql import bind, parse
    >>> from penstock.plan.catalog import Catalog
    >>> catalog = Catalog()
    >>> (made,) = parse("CREATE STREAM a (ts BIGINT, x INT, y INT) WATERMARK ts DELAY OF 0")
    >>> catalog.streams["a"] = bind(made, catalog).stream
    >>> def of(text): return fingerprint(bind(parse(text)[0], catalog).query.root)
    >>> of("SELECT x FROM a [RANGE 5] WHERE x > 1 AND y = 2") == of("SELECT u.x AS z FROM a [RANGE 5] u WHERE 2 = y AND x > 1")
    True
    >>> of("SELECT x FROM a [RANGE 5]") == of("SELECT x FROM a [RANGE 6]")
    False
    """
    return hashlib.sha256(describe(node).encode()).hexdigest()[:16]


def describe(node: Node) -> str:
    """The plan as one line of canonical text."""
    numbers: dict[int, int] = {}

    def of(node: Node) -> str:
        if isinstance(node, Shared):
            if id(node) in numbers:
                return f"shared[{numbers[id(node)]}]"
            numbers[id(node)] = len(numbers)
        return f"{_OWN[type(node)](node)}({', '.join(map(of, node.inputs))})"

    return of(node)


def likeness(node: Node) -> str:
    """The same without its selections: plans alike in all else say the same of a row that they select."""
    if isinstance(node, Filter):
        return likeness(node.input)
    return f"{_OWN[type(node)](node)}({', '.join(likeness(i) for i in node.inputs)})"


def _expression(expression: Expression) -> str:
    if isinstance(expression, Column):
        return f"#{expression.index}"
    if isinstance(expression, Literal):
        return f"{expression.type}:{expression.value!r}"
    parts, name = [_expression(a) for a in expression.arguments], expression.function
    if name in _SYMMETRIC:
        parts.sort()
    elif name in _TURNED:
        parts, name = parts[::-1], _TURNED[name]
    return f"{name}:{expression.type}({', '.join(parts)})"


def _all_of(predicates: tuple[Expression, ...]) -> str:
    return " & ".join(sorted(_expression(c) for p in predicates for c in conjuncts(p)))


def predicate_text(predicate: Expression) -> str:
    """A predicate as canonical text."""
    return _all_of((predicate,))


def functions_in(text: str, functions: Mapping[str, Function]) -> tuple[int, ...]:
    """Which Python functions a canonical text speaks of: another may have come to have the name since."""
    names = sorted(set(_FUNCTION.findall(text)))
    return tuple(id(functions.get(n) or functions.get(n.lower())) for n in names)


def _aggregation(aggregation: Aggregation) -> str:
    inner = "*" if aggregation.argument is None else _expression(aggregation.argument)
    return f"{aggregation.function}{' distinct' if aggregation.distinct else ''} {inner}"


def _join(node: Join) -> str:
    return f"join[{_all_of(node.predicates)}]"


def _aggregate(node: Aggregate) -> str:
    keys = ", ".join(_expression(k.expression) for k in node.keys)
    return f"aggregate[{keys}; {', '.join(_aggregation(a) for a in node.aggregations)}]"


def _reliable(node: Reliable) -> str:
    answers = ", ".join(map(_aggregation, node.aggregations))
    return f"reliable[{node.keys}; {answers}; {node.levels}; {node.error!r} {node.relative}]"


_OWN: dict[type, Callable[[Any], str]] = {
    Scan: lambda n: f"stream {n.stream.name.lower()}",
    Relation: lambda n: f"table {n.table.name.lower()}",
    Windowed: lambda n: f"window[{n.window}]",
    Filter: lambda n: f"select[{_all_of((n.predicate,))}]",
    Project: lambda n: f"project[{', '.join(_expression(o.expression) for o in n.outputs)}]",
    Join: _join,
    AntiJoin: lambda n: f"anti[{_all_of(n.predicates)}]",
    OuterJoin: lambda n: f"{n.kind}[{_all_of(n.predicates)}]",
    Distinct: lambda _: "distinct",
    Shared: lambda _: "shared",
    Union: lambda _: "union",
    Intersect: lambda n: f"intersect[{n.all}]",
    Except: lambda n: f"except[{n.all}]",
    Aggregate: _aggregate,
    Reliable: _reliable,
    ToStream: lambda n: n.kind.value,
}
