"""Projections of joins and anti joins that only pick columns move up past joins, anti joins and GROUP BY.

So a subquery in FROM stands no longer between a join and a join, or a join and a negation. Nothing is carried that was
not before: operators store the columns that somebody reads. A projection that computes goes below the negation in a join's
input instead, and takes along what the negation reads. A subquery that looks a plain table up stays closed, since the
table is looked up as of the *subquery's* result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from penstock.optimizer.merge_projections import merged
from penstock.plan.expressions import Column, Expression, Named, columns, rewrite
from penstock.plan.memo import once_a_node
from penstock.plan.nodes import Aggregate, AntiJoin, Join, Node, Project, Relation
from penstock.plan.projections import is_pick, through
from penstock.plan.traversal import bottom_up


def lift_projections(root: Node) -> Node:
    """Joins, anti joins and groups over what their inputs pick from.

    >>> from penstock.sql import bind, parse
    >>> from penstock.plan.catalog import Catalog
    >>> from penstock.plan.explain import outline
    >>> catalog = Catalog()
    >>> for name in "ab":
    ...     made, = parse(f"CREATE STREAM {name} (ts BIGINT, x INT, y INT) WATERMARK ts DELAY OF 0")
    ...     catalog.streams[name] = bind(made, catalog).stream
    >>> inner = "SELECT a.x AS k, b.y FROM a [RANGE 5] JOIN b [RANGE 5] ON a.y = b.y"
    >>> text = f"SELECT v.k, c.y FROM ({inner}) AS v JOIN a [NOW] AS c ON v.k = c.x"
    >>> print(outline(lift_projections(bind(parse(text)[0], catalog).query.root)))
    project v.k AS k, c.y AS y
      join of 2 on (v.k = c.x)
        join of 2 on (a.y = b.y)
          window [RANGE 5]
            stream a
          window [RANGE 5]
            stream b
        window [RANGE 1]
          stream a AS c
    """
    return bottom_up(root, _lift)


@once_a_node
def looks_up(node: Node) -> bool:
    """Whether a plain table is read somewhere below."""
    if isinstance(node, Relation):
        return not node.table.retroactive
    return any(map(looks_up, node.inputs))


def _lift(node: Node) -> Node:
    if isinstance(node, Project):
        return merged(node)
    if isinstance(node, Join):
        join = Join(tuple(map(_below_negation, node.inputs)), node.predicates)
        return _from_join(join) if any(map(_is_liftable, join.inputs)) else join
    if isinstance(node, AntiJoin) and any(map(_is_picked_join, node.inputs)):
        return _from_anti_join(node)
    if isinstance(node, Aggregate) and _is_picked_join(node.input):
        return _from_aggregate(node)
    return node


def _is_picked_join(node: Node) -> bool:
    return isinstance(node, Project) and isinstance(node.input, Join | AntiJoin) and is_pick(node)


def _is_liftable(node: Node) -> bool:
    return _is_picked_join(node) and not looks_up(node)


def _below_negation(node: Node) -> Node:
    """An anti join over a projection that computes, instead of the projection over the anti join."""
    match node:
        case Project(input=AntiJoin() as anti) if not is_pick(node) and not looks_up(node):
            pass
        case _:
            return node
    width, kept = len(anti.left.schema), len(node.outputs)
    read = sorted({c.index for p in anti.predicates for c in columns(p) if c.index < width})
    fields = anti.left.schema
    carried = tuple(Named(Column(i, fields[i].type, fields[i].name), fields[i].name) for i in read)

    def moved(column: Column) -> Column:
        index = (
            kept + read.index(column.index)
            if column.index < width
            else column.index - width + kept + len(read)
        )
        return Column(index, column.type, column.name)

    left = Project(anti.left, node.outputs + carried)
    over = AntiJoin(left, anti.right, tuple(rewrite(p, moved) for p in anti.predicates))
    picked = tuple(Named(Column(i, o.expression.type, o.name), o.name) for i, o in enumerate(node.outputs))
    return Project(over, picked, node.alias)


def _from_join(node: Join) -> Node:
    inputs, moved = _opened(node.inputs, _is_liftable)
    return Project(Join(inputs, tuple(map(moved, node.predicates))), _same(node, moved))


def _from_anti_join(node: AntiJoin) -> Node:
    (left, right), moved = _opened(node.inputs, _is_picked_join)
    made = AntiJoin(left, right, tuple(map(moved, node.predicates)))
    return made if left is node.left else Project(made, _same(node, moved))


def _from_aggregate(node: Aggregate) -> Node:
    below = node.input
    assert isinstance(below, Project)
    keys = tuple(Named(through(k.expression, below), k.name) for k in node.keys)
    aggregations = tuple(
        a if a.argument is None else replace(a, argument=through(a.argument, below))
        for a in node.aggregations
    )
    return Aggregate(below.input, keys, aggregations)


def _opened(
    inputs: Sequence[Node], opens: Callable[[Node], bool]
) -> tuple[tuple[Node, ...], Callable[[Expression], Expression]]:
    """Inputs without their projections, and how expressions over them side by side change."""
    opened: list[Node] = []
    places: list[int] = []
    start = 0
    for one in inputs:
        if isinstance(one, Project) and opens(one):
            places += [start + o.expression.index for o in one.outputs if isinstance(o.expression, Column)]
            one = one.input
        else:
            places += range(start, start + len(one.schema))
        opened.append(one)
        start += len(one.schema)

    def moved(expression: Expression) -> Expression:
        return rewrite(expression, lambda c: Column(places[c.index], c.type, c.name))

    return tuple(opened), moved


def _same(node: Node, moved: Callable[[Expression], Expression]) -> tuple[Named, ...]:
    """The columns the node had, where they are now."""
    return tuple(Named(moved(Column(i, f.type, f.name)), f.name) for i, f in enumerate(node.schema))
