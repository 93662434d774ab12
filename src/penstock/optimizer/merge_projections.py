"""A projection of a projection is one projection.

Unless the upper one reads something computed more than once: then it stays computed once, below.
"""

from __future__ import annotations

from collections import Counter

from penstock.plan.expressions import Call, Named, columns
from penstock.plan.nodes import Node, Project
from penstock.plan.projections import through
from penstock.plan.traversal import bottom_up


def merge_projections(root: Node) -> Node:
    """Projections that follow each other as one.

    >>> from penstock.sql import bind, parse
    >>> from penstock.plan.catalog import Catalog
    >>> from penstock.plan.explain import outline
    >>> catalog = Catalog()
    >>> made, = parse("CREATE STREAM a (ts BIGINT, x INT, y INT) WATERMARK ts DELAY OF 0")
    >>> catalog.streams["a"] = bind(made, catalog).stream
    >>> text = "SELECT z + 1 AS u FROM (SELECT x, x * y AS z FROM a [RANGE 5]) AS v"
    >>> print(outline(merge_projections(bind(parse(text)[0], catalog).query.root)))
    project ((CAST(x AS BIGINT) * CAST(y AS BIGINT)) + 1) AS u
      window [RANGE 5]
        stream a
    """
    return bottom_up(root, merged)


def merged(node: Node) -> Node:
    """The node over what its projection reads, if it is one of a projection."""
    if not (isinstance(node, Project) and isinstance(node.input, Project)):
        return node
    below = node.input
    uses = Counter(c.index for o in node.outputs for c in columns(o.expression))
    if any(isinstance(below.outputs[i].expression, Call) and n > 1 for i, n in uses.items()):
        return node
    outputs = tuple(Named(through(o.expression, below), o.name) for o in node.outputs)
    return Project(below.input, outputs, node.alias)
