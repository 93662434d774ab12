"""Rebuilding plans from below."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from penstock.plan import deadline
from penstock.plan.nodes import (
    Aggregate,
    AntiJoin,
    Distinct,
    Except,
    Filter,
    Intersect,
    Join,
    Node,
    OuterJoin,
    Project,
    Relation,
    Reliable,
    Scan,
    Shared,
    ToStream,
    Union,
    Windowed,
)


def every(node: Node) -> Iterator[Node]:
    """All nodes of a plan, outermost first, each once."""
    return _every(node, set())


def _every(node: Node, seen: set[int]) -> Iterator[Node]:
    if isinstance(node, Shared):
        if id(node) in seen:
            return
        seen.add(id(node))
    yield node
    for below in node.inputs:
        yield from _every(below, seen)


def relations_in(root: Node) -> set[str]:
    """The streams and tables that a plan reads, by their names in lower case."""
    names = set()
    for node in every(root):
        if isinstance(node, Scan):
            names.add(node.stream.name.lower())
        elif isinstance(node, Relation):
            names.add(node.table.name.lower())
    return names


def has_shared(root: Node) -> bool:
    """Whether several nodes of a plan read one subplan."""
    return any(isinstance(node, Shared) for node in every(root))


def down_to(node: Node, below: Sequence[Node]) -> Iterator[Node]:
    """A node and all below it, but neither these nodes nor what is below them."""
    if not any(node is one for one in below):
        yield node
        for one in node.inputs:
            yield from down_to(one, below)


def bottom_up(node: Node, change: Callable[[Node], Node]) -> Node:
    """The plan with `change` applied to every node, inputs first."""
    made: dict[int, Node] = {}

    def up(node: Node) -> Node:
        if id(node) in made:
            return made[id(node)]
        deadline.check()
        new = change(with_inputs(node, tuple(map(up, node.inputs))))
        if isinstance(node, Shared):
            made[id(node)] = new
        return new

    return up(node)


def with_inputs(node: Node, inputs: tuple[Node, ...]) -> Node:
    """The node over other inputs; itself if they are equal to its own."""
    return node if inputs == node.inputs else rebuilt(node, inputs)


def rebuilt(node: Node, inputs: tuple[Node, ...]) -> Node:
    """A new node over these inputs."""
    if isinstance(node, Windowed | Filter | Project | Shared | Distinct | Aggregate | ToStream):
        return replace(node, input=inputs[0])
    if isinstance(node, Reliable):
        return replace(node, rows=inputs[0], expired=inputs[1])
    if isinstance(node, AntiJoin | OuterJoin | Intersect | Except):
        return replace(node, left=inputs[0], right=inputs[1])
    if isinstance(node, Join | Union):
        return replace(node, inputs=inputs)
    return node
