"""Functions of a plan's nodes that are computed once a node: plans may share subplans, and recursion would not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from penstock.plan.nodes import Node

T = TypeVar("T")

MOST_NODES = 1 << 14
"""Remembered by one function before it forgets all of them."""


def once_a_node(function: Callable[[Node], T]) -> Callable[[Node], T]:
    """The function with its last results, by the identity of nodes: these never change."""
    known: dict[int, tuple[Node, T]] = {}

    def remembering(node: Node) -> T:
        found = known.get(id(node))
        if found is not None and found[0] is node:
            return found[1]
        made = function(node)
        if len(known) >= MOST_NODES:
            known.clear()
        known[id(node)] = node, made
        return made

    remembering.__doc__ = function.__doc__
    return remembering
