"""What an operator is told about an edge below it: in what order its rows end, and how their ends are made known.

An end is *announced* with the row (its exp), or *told* when it comes (a '-'). On told edges every end is told, also
those as announced (Golab & Özsu 2005, §2.3.1); elsewhere only those that come early.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.plan.nodes import Filter, Node, Project, Windowed
from penstock.plan.update_pattern import Pattern, pattern
from penstock.plan.windows import Rows


@dataclass(frozen=True, slots=True)
class Edge:
    """`in_order`: rows end in the order they came, whoever tells."""

    pattern: Pattern
    told: bool = False
    in_order: bool = False

    @property
    def endless(self) -> bool:
        return self.pattern is Pattern.MONOTONIC

    @property
    def matches(self) -> bool:
        """Rows may end by negative tuples."""
        return self.pattern is Pattern.STRICT or (self.told and not self.endless)


def edge(node: Node, *, told: bool = False) -> Edge:
    """The edge that leaves a node."""
    found = pattern(node)
    return Edge(found, told, found in (Pattern.MONOTONIC, Pattern.WEAKEST) or _pushed_out(node))


def _pushed_out(node: Node) -> bool:
    """Whether rows leave a count window: the oldest first, though nobody knows when."""
    while isinstance(node, Filter | Project):
        node = node.input
    return isinstance(node, Windowed) and isinstance(node.window, Rows) and not node.window.partition
