"""Joins of joins become one join, so that a walk may visit the inputs in any order."""

from __future__ import annotations

from penstock.plan.expressions import Expression, shifted
from penstock.plan.nodes import Join, Node
from penstock.rules.walk import bottom_up


def flatten_joins(root: Node) -> Node:
    return bottom_up(root, _flatten)


def _flatten(node: Node) -> Node:
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
    return Join(tuple(inputs), tuple(predicates))
