"""Which columns of its inputs a node reads, given those that somebody reads of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.plan.expressions import Expression, columns
from penstock.plan.nodes import (
    Aggregate,
    AntiJoin,
    Filter,
    Join,
    Node,
    OuterJoin,
    Project,
    Union,
    Windowed,
)
from penstock.plan.windows import Rows

Needed = frozenset[int]


def all_of(node: Node) -> Needed:
    return frozenset(range(len(node.schema)))


def needed_below(node: Node, needed: Needed) -> list[Needed]:
    """For each input the positions read; set operations compare whole rows and read all."""
    match node:
        case Windowed(window=Rows(partition=partition)):
            return [needed | frozenset(partition)]
        case Windowed() | Union():
            return [needed for _ in node.inputs]
        case Filter():
            return [needed | _read([node.predicate])]
        case Project():
            return [_read(node.outputs[i].expression for i in needed)]
        case Join() | OuterJoin():
            return _side_by_side(node.inputs, needed | _read(node.predicates))
        case AntiJoin():
            left, right = _side_by_side(node.inputs, _read(node.predicates))
            return [needed | left, right]
        case Aggregate():
            arguments = [a.argument for a in node.aggregations if a.argument is not None]
            return [_read([*(k.expression for k in node.keys), *arguments])]
    return [all_of(i) for i in node.inputs]


def _side_by_side(inputs: Sequence[Node], needed: Needed) -> list[Needed]:
    """Positions over the inputs' schemas one after the other as positions of each."""
    found, start = [], 0
    for one in inputs:
        end = start + len(one.schema)
        found.append(frozenset(c - start for c in needed if start <= c < end))
        start = end
    return found


def _read(expressions: Iterable[Expression]) -> Needed:
    return frozenset(c.index for e in expressions for c in columns(e))
