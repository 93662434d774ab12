"""DISTINCT goes where it changes nothing.

Over rows that are told apart by columns they still have, such as those of another DISTINCT, of INTERSECT, of joins of these: no value ever
has two copies, so each is shown as it is. And on the right of a negation that asks whether there is a row, not how many.

Not elsewhere: DISTINCT announces the end of the copy it shows and never revises it, so whatever reads ends can tell.
"""

from __future__ import annotations

from penstock.optimizer.equal_columns import EqualColumns
from penstock.plan.expressions import Column
from penstock.plan.nodes import (
    Aggregate,
    AntiJoin,
    Distinct,
    Except,
    Filter,
    Intersect,
    Join,
    Node,
    Project,
    Reliable,
    Windowed,
)
from penstock.plan.traversal import bottom_up
from penstock.plan.update_pattern import group_root, is_table
from penstock.plan.windows import Rows

Key = frozenset[int]


def drop_distinct(root: Node) -> Node:
    """The plan without needless DISTINCTs.

    >>> from penstock.sql import bind, parse
    >>> from penstock.plan.catalog import Catalog
    >>> from penstock.plan.explain import outline
    >>> catalog = Catalog()
    >>> made, = parse("CREATE STREAM a (ts BIGINT, x INT, y INT) WATERMARK ts DELAY OF 0")
    >>> catalog.streams["a"] = bind(made, catalog).stream
    >>> text = "SELECT DISTINCT y, x FROM (SELECT DISTINCT x, y FROM a [RANGE 5]) AS v WHERE x > 1"
    >>> print(outline(drop_distinct(bind(parse(text)[0], catalog).query.root)))
    project y, x
      select (x > 1)
        distinct
          project x, y
            window [RANGE 5]
              stream a
    """
    return bottom_up(root, _dropped)


def _dropped(node: Node) -> Node:
    match node:
        # A GROUP BY that a query ends in says its changes in another way: let it not become one.
        case Distinct() if group_root(node.input)[0] is None and key(node.input) is not None:
            return node.input
        case Except(all=False):
            return Except(node.left, without_distinct(node.right))
    return node


def without_distinct(node: Node) -> Node:
    """The node for somebody who asks which values there are, not how often."""
    match node:
        case Distinct():
            return without_distinct(node.input)
        case Filter() | Project():
            below = without_distinct(node.input)
            if below is node.input:
                return node
            if isinstance(node, Filter):
                return Filter(below, node.predicate)
            return Project(below, node.outputs, node.alias)
    return node


def key(node: Node) -> Key | None:
    """Columns on which no two live rows agree, if there are such."""
    match node:
        case Distinct() | Intersect(all=False) | Except(all=False):
            return frozenset(range(len(node.schema)))
        case Filter():
            return key(node.input)
        case AntiJoin():
            return key(node.left)
        case Windowed(window=Rows(count=1, partition=partition)) if partition:
            return frozenset(partition)
        case Aggregate():
            return frozenset(range(len(node.keys)))
        case Reliable():
            return frozenset(range(node.keys))
        case Join() if not any(map(is_table, node.inputs)):
            return _of_join(node)
        case Project():
            return _picked(node)
    return None


def _of_join(node: Join) -> Key | None:
    found: set[int] = set()
    start = 0
    for one in node.inputs:
        own = key(one)
        if own is None:
            return None
        found.update(start + k for k in own)
        start += len(one.schema)
    return frozenset(found)


def _picked(node: Project) -> Key | None:
    """The key, if every column of it, or one that a join makes equal to it, is still there."""
    below = key(node.input)
    if below is None:
        return None
    equal = EqualColumns(node.input.predicates if isinstance(node.input, Join) else ())
    kept = {o.expression.index: i for i, o in enumerate(node.outputs) if isinstance(o.expression, Column)}
    found = [next((kept[e] for e in equal.of(k) if e in kept), None) for k in below]
    return None if None in found else frozenset(f for f in found if f is not None)
