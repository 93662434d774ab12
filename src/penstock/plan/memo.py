"""Functions of a plan's nodes that are computed once a node: plans may share subplans."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from penstock.plan.nodes import Node

T = TypeVar("T")


def once_a_node(function: Callable[[Node], T]) -> Callable[[Node], T]:
    """A recursive function that visits a shared subplan once in a call; nothing outlives the call."""
    local = threading.local()

    def remembering(node: Node) -> T:
        known: dict[int, tuple[Node, T]] | None = getattr(local, "known", None)
        if known is None:  # the outermost call
            local.known = {}
            try:
                return function(node)
            finally:
                local.known = None
        if id(node) not in known:
            known[id(node)] = node, function(node)  # the node too: its identity must stay its own
        return known[id(node)][1]

    remembering.__doc__ = function.__doc__
    return remembering
