"""Names for columns that were given none.

The rule: a column is called as it is called, without its alias; an operator stands in parentheses
between its operands, `(x + 1)`; a call is in lower case, `count(*)`; a literal as written. Anything
else is its own text with the white space squeezed.
"""

from __future__ import annotations

from sqlglot import exp

from penstock.sql.parser.source_text import Source, span_of
from penstock.types.names import shown

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.DPipe: "||",
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip


def name_of(node: exp.Expr, source: Source, depth: int = 0) -> str:
    """The name of an unnamed output column."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Column):
        return node.name
    operator = _OPERATORS.get(type(node))
    if operator is not None and depth < 20:
        left, right = (name_of(part, source, depth + 1) for part in (node.this, node.expression))
        return f"({left} {operator} {right})"
    if isinstance(node, exp.Anonymous) and depth < 20:
        return f"{str(node.name).lower()}({', '.join(_argument(a, source, depth + 1) for a in node.expressions)})"
    return shown(" ".join(source.cut(span_of(node)).split()))


def _argument(node: exp.Expr, source: Source, depth: int) -> str:
    if isinstance(node, exp.Star):
        return "*"
    if isinstance(node, exp.Distinct):
        return "DISTINCT " + ", ".join(name_of(part, source, depth) for part in node.expressions)
    return name_of(node, source, depth)


def distinct_names(names: list[str]) -> list[str]:
    """Repeated names get _1, _2; names differ however they are cased."""
    taken: set[str] = set()
    given: list[str] = []
    for name in names:
        unique, count = name, 0
        while unique.lower() in taken:
            count += 1
            unique = f"{name}_{count}"
        taken.add(unique.lower())
        given.append(unique)
    return given
