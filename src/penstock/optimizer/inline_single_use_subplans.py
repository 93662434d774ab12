"""A subplan that one node reads is not shared: rules may then work across its edge."""

from __future__ import annotations

from collections import Counter

from penstock.plan.nodes import Node, Shared
from penstock.plan.traversal import every, with_inputs


def unshare(root: Node) -> Node:
    """The plan with `Shared` only where several nodes read it."""
    readers = Counter(id(i) for node in every(root) for i in node.inputs if isinstance(i, Shared))
    made: dict[int, Node] = {}

    def up(node: Node) -> Node:
        if id(node) in made:
            return made[id(node)]
        inputs = tuple(map(up, node.inputs))
        new = inputs[0] if isinstance(node, Shared) and readers[id(node)] < 2 else with_inputs(node, inputs)
        if isinstance(node, Shared):
            made[id(node)] = new
        return new

    return up(root)
