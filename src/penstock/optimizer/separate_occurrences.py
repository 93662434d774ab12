"""Gives every occurrence of a subplan its own nodes.

Rules may put one subplan into several places. A running plan finds operators, stages and state by the identity of their node, so no two places may share one;
but for `Shared`, which runs once for all its readers.
"""

from __future__ import annotations

from copy import copy

from penstock.plan.nodes import Node, Shared
from penstock.plan.traversal import rebuilt


def separate_occurrences(root: Node) -> Node:
    """An equal plan in which each node has one parent, but for those that are shared on purpose."""
    seen: set[int] = set()

    shared: dict[int, Node] = {}

    def separate(node: Node) -> Node:
        if isinstance(node, Shared):
            if id(node) not in shared:
                below = separate(node.input)
                shared[id(node)] = node if below is node.input else rebuilt(node, (below,))
            return shared[id(node)]
        inputs = tuple(separate(i) for i in node.inputs)
        if any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
            return rebuilt(node, inputs)
        if id(node) in seen:
            return copy(node)
        seen.add(id(node))
        return node

    return separate(root)
