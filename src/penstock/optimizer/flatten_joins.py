"""Joins of joins become one join, so that a walk may visit the inputs in any order."""

from __future__ import annotations

from penstock.plan.expressions import Expression, shifted
from penstock.plan.nodes import Join, Node
from penstock.plan.traversal import bottom_up

MOST_JOINED = 128
"""Inputs that one join walks: its kernels number them by a byte."""


def flatten_joins(root: Node) -> Node:
    """Nested joins as one.

    >>> from penstock.sql import bind, parse
    >>> from penstock.plan.catalog import Catalog
    >>> from penstock.plan.explain import outline
    >>> catalog = Catalog()
    >>> for name in "ab":
    ...     made, = parse(f"CREATE STREAM {name} (ts BIGINT, x INT, y INT) WATERMARK ts DELAY OF 0")
    ...     catalog.streams[name] = bind(made, catalog).stream
    >>> text = "SELECT 1 AS one FROM a [RANGE 5] JOIN b [RANGE 5] ON a.x = b.x, a [NOW] AS c WHERE c.y = b.y"
    >>> print(outline(flatten_joins(bind(parse(text)[0], catalog).query.root)).splitlines()[2].strip())
    join of 3 on (a.x = b.x)
    """
    return bottom_up(root, flatten)


def flatten(node: Node) -> Node:
    """A join of joins as one; other nodes as they are."""
    if not isinstance(node, Join) or not any(isinstance(i, Join) for i in node.inputs):
        return node
    inputs: list[Node] = []
    predicates: list[Expression] = list(node.predicates)
    start = 0
    for one in node.inputs:
        if isinstance(one, Join):
            inputs.extend(one.inputs)
            predicates.extend(shifted(p, start) for p in one.predicates)
        else:
            inputs.append(one)
        start += len(one.schema)
    if len(inputs) > MOST_JOINED:
        return node
    return Join(tuple(inputs), tuple(predicates))
