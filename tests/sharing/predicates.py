"""Predicates as queries have them, without queries."""

from __future__ import annotations

from penstock.api.session import Session
from penstock.optimizer import optimize
from penstock.plan.expressions import Expression
from penstock.plan.nodes import Filter, Node
from penstock.sql import bind, parse


def predicate(session: Session, text: str, stream: str = "a") -> Expression | None:
    """What `WHERE text` asks of the stream's rows; None: of every row TRUE."""
    bound = bind(parse(f"SELECT 1 AS one FROM {stream} WHERE {text}")[0], session.catalog)
    node: Node = optimize(bound.query.root)
    while node.inputs:
        if isinstance(node, Filter):
            return node.predicate
        (node,) = node.inputs
    return None
