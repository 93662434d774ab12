"""Gives every occurrence of a subplan its own nodes.

An outer join stands in the plan as an inner join beside an anti join, both over the same inputs, and a CTE may be read
twice. A running plan finds operators, stages and state by the identity of their node, so no two places may share one.
"""

from __future__ import annotations

from copy import copy

from penstock.plan.nodes import Node
from penstock.rules.walk import rebuilt


def separate_occurrences(root: Node) -> Node:
    """An equal plan that is a tree of nodes, each with one parent."""
    seen: set[int] = set()

    def separate(node: Node) -> Node:
        inputs = tuple(separate(i) for i in node.inputs)
        if any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
            return rebuilt(node, inputs)
        if id(node) in seen:
            return copy(node)
        seen.add(id(node))
        return node

    return separate(root)
