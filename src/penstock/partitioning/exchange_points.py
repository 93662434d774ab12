"""Where a plan can be cut, so that what lies below is dealt out by one key and what lies above by another.

An edge can be cut right below an operator that asks for rows to be together, if below it rows meet each other too: else
there is nothing to gain. So projections and filters stay with the part below, and fewer columns cross. Below a window
that counts rows nothing is cut: which rows are the last n depends on an order that only one cell has. A join of three and
more streams is also looked at as a join with a join.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product

from penstock.partitioning.equal_terms import Classes
from penstock.partitioning.keys import goes_anywhere
from penstock.plan.expressions import Column, Expression, Named, columns, rewrite
from penstock.plan.nodes import (
    Aggregate,
    AntiJoin,
    Distinct,
    Except,
    Intersect,
    Join,
    Node,
    OuterJoin,
    Project,
    Reliable,
    ToStream,
    Windowed,
)
from penstock.plan.traversal import has_shared, with_inputs
from penstock.plan.update_pattern import is_table
from penstock.plan.windows import Rows

Cut = frozenset[Node]
"""Nodes whose changes are dealt out again; nodes that are equal give the same changes, and one of them does."""

MOST = 32
"""Cuts looked at for one node, the highest first."""


def cuts(root: Node) -> Iterator[tuple[Node, Cut]]:
    """Plans equal to this one, each with nodes of it to cut above."""
    if has_shared(root):
        return
    for plan in (root, *_nestings(root)):
        for cut in _cuts(plan):
            if cut:
                yield plan, cut


def _cuts(node: Node) -> list[Cut]:
    """All ways to cut below a node, no cut among them."""
    if isinstance(node, Windowed) and isinstance(node.window, Rows):
        return [frozenset()]
    each = []
    for below in node.inputs:
        ways = _cuts(below)
        if _gathers(node) and not goes_anywhere(below):
            ways.insert(0, frozenset([below]))
        each.append(ways)
    return list(dict.fromkeys(frozenset().union(*choice) for choice in islice(product(*each), MOST)))


def _gathers(node: Node) -> bool:
    """Whether an operator asks for rows to be together."""
    return isinstance(
        node, Join | AntiJoin | OuterJoin | Aggregate | Reliable | Distinct | Intersect | Except | ToStream
    )


# ------------------------------------------------------------------ joins of joins


def _nestings(node: Node) -> Iterator[Node]:
    """The plan with one of its joins as a join with a join."""
    if isinstance(node, Join):
        yield from _nested(node)
    for place, below in enumerate(node.inputs):
        for other in _nestings(below):
            yield with_inputs(node, (*node.inputs[:place], other, *node.inputs[place + 1 :]))


def _nested(node: Join) -> Iterator[Node]:
    """For every class of equal terms, its streams joined first. Tables come last: they are looked up at a result's ts."""
    streams = [i for i, one in enumerate(node.inputs) if not is_table(one)]
    classes = Classes(node.predicates, [i.schema for i in node.inputs])
    for inner in dict.fromkeys(tuple(i for i in streams if i in members) for members in classes):
        if 2 <= len(inner) < len(streams):
            yield with_first(node, inner)


def with_first(node: Join, inner: Sequence[int]) -> Project:
    """The join of these inputs joined with the others: the same rows with the same columns."""
    order = [*inner, *(i for i in range(len(node.inputs)) if i not in inner)]
    starts = [sum(len(i.schema) for i in node.inputs[:at]) for at in range(len(node.inputs))]
    old = [starts[i] + c for i in order for c in range(len(node.inputs[i].schema))]
    new = {column: place for place, column in enumerate(old)}
    width = sum(len(node.inputs[i].schema) for i in inner)

    def moved(expression: Expression) -> Expression:
        return rewrite(expression, lambda c: Column(new[c.index], c.type, c.name))

    first: list[Expression] = []
    rest: list[Expression] = []
    for predicate in map(moved, node.predicates):
        read = [c.index for c in columns(predicate)]
        (first if read and max(read) < width else rest).append(predicate)
    below = Join(tuple(node.inputs[i] for i in inner), tuple(first))
    above = Join((below, *(node.inputs[i] for i in order[len(inner) :])), tuple(rest))
    outputs = tuple(Named(moved(Column(i, f.type, f.name)), f.name) for i, f in enumerate(node.schema))
    return Project(above, outputs)
