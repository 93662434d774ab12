"""What stands at the top of a query: its visible columns and, for GROUP BY, the key that replaces rows."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.plan.expressions import Column, Named
from penstock.plan.nodes import Aggregate, Filter, Node, Project
from penstock.plan.rank_levels import RANK, UNRANKED, Levels
from penstock.plan.update_pattern import Judged, group_root, judge_query
from penstock.types.schema import Schema


@dataclass(frozen=True, slots=True)
class Root:
    """A plan ready to be run: `visible` columns are the answer; `key` says which columns replace rows."""

    node: Node
    visible: int
    judged: Judged
    group: Aggregate | None
    key: tuple[int, ...]
    hidden_key: bool
    """Some key column is not among the visible ones: the key travels as `__key`."""
    faithful: bool = True
    """Every aggregate is visible as it is, so that a changed group is a changed row."""
    extra: int = 0
    """Columns behind the visible ones that changes have and snapshots have not: what is said about a row."""
    levels: Levels = UNRANKED
    """What P-CQL's clauses say, for those who run it by rank."""
    inner: bool = False
    """Another part of the plan reads the changes: as an operator would get them, also those that cancel in an instant."""

    @property
    def said(self) -> Schema:
        """The columns of a change that are not its time, its end and its sign."""
        return self.node.schema[: self.visible + self.extra]


def top(node: Node, levels: Levels = UNRANKED) -> Root:
    """The root of a plan, with unselected GROUP BY keys carried along behind the visible columns."""
    extra = int(node.schema[-1].name == RANK)
    visible = len(node.schema) - extra
    judged = judge_query(node)
    group, _ = group_root(node)
    if group is None:
        return Root(node, visible, judged, None, (), False, extra=extra, levels=levels)
    carried = _carry(node, len(group.keys))
    where = {key: i for i, key in reversed(list(enumerate(_traced(carried))))}
    key = tuple(where[k] for k in range(len(group.keys)))
    faithful = all(len(group.keys) + i in where for i in range(len(group.aggregations)))
    hidden = any(k >= visible for k in key)
    return Root(carried, visible, judged, group, key, hidden, faithful, levels=levels)


def _traced(node: Node) -> list[int]:
    """For every column the position of the aggregate's column it repeats, or -1."""
    if isinstance(node, Aggregate):
        return list(range(len(node.schema)))
    if isinstance(node, Filter):
        return _traced(node.input)
    assert isinstance(node, Project)
    below = _traced(node.input)
    return [below[n.expression.index] if isinstance(n.expression, Column) else -1 for n in node.outputs]


def _carry(node: Node, keys: int) -> Node:
    """The same plan with every key among its columns, missing ones appended."""
    if isinstance(node, Aggregate):
        return node
    if isinstance(node, Filter):
        return Filter(_carry(node.input, keys), node.predicate)
    assert isinstance(node, Project)
    below = _carry(node.input, keys)
    source = _traced(below)
    present = {source[n.expression.index] for n in node.outputs if isinstance(n.expression, Column)}
    extra = []
    for k in range(keys):
        if k not in present:
            at = source.index(k)
            field = below.schema[at]
            extra.append(Named(Column(at, field.type, field.name), f"__key{k}"))
    return Project(below, node.outputs + tuple(extra), node.alias)
