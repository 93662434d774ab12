"""Move predicates towards the rows they concern.

Through projections (by substitution), unions and DISTINCT; into joins, and through them to the one input
they mention. Never below a count window: which rows are the last n would change.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from penstock.data.types import Type
from penstock.plan.expressions import Call, Column, Expression, columns, conjuncts, rewrite, shifted
from penstock.plan.nodes import Distinct, Filter, Join, Node, Project, Union
from penstock.rules.walk import bottom_up


def push_filters(root: Node) -> Node:
    """Every predicate as low as it can go.

    >>> from penstock.language import bind, parse
    >>> from penstock.plan.catalog import Catalog
    >>> from penstock.plan.explain import outline
    >>> catalog = Catalog()
    >>> for name in "ab":
    ...     made, = parse(f"CREATE STREAM {name} (ts BIGINT, x INT, y INT) WATERMARK ts DELAY OF 0")
    ...     catalog.streams[name] = bind(made, catalog).stream
    >>> text = "SELECT a.x FROM a [RANGE 5], b [RANGE 5] WHERE a.x = b.x AND a.y > 1"
    >>> print(outline(push_filters(bind(parse(text)[0], catalog).query.root)))
    project a.x AS x
      join of 2 on (a.x = b.x)
        select (a.y > 1)
          window [RANGE 5]
            stream a
        window [RANGE 5]
          stream b
    """
    return bottom_up(root, _push)


def _push(node: Node) -> Node:
    if isinstance(node, Filter):
        return _settle(node.input, conjuncts(node.predicate))
    if isinstance(node, Join) and node.predicates:
        parts = tuple(c for p in node.predicates for c in conjuncts(p))
        return _into_join(Join(node.inputs), parts)
    return node


def _settle(node: Node, parts: Sequence[Expression]) -> Node:
    """The node with the conjuncts applied as low as they can be."""
    if not parts:
        return node
    if isinstance(node, Filter):
        return _settle(node.input, (*conjuncts(node.predicate), *parts))
    if isinstance(node, Project):
        return Project(_settle(node.input, [_through(p, node) for p in parts]), node.outputs, node.alias)
    if isinstance(node, Distinct):
        return Distinct(_settle(node.input, parts))
    if isinstance(node, Union):
        return Union(tuple(_settle(i, parts) for i in node.inputs))
    if isinstance(node, Join):
        return _into_join(node, parts)
    return Filter(node, conjunction(parts))


def _through(predicate: Expression, project: Project) -> Expression:
    return rewrite(predicate, lambda c: project.outputs[c.index].expression)


def _into_join(join: Join, parts: Sequence[Expression]) -> Node:
    """Each conjunct to the one input it mentions, or to the join."""
    starts = [0]
    for node in join.inputs:
        starts.append(starts[-1] + len(node.schema))
    own: list[list[Expression]] = [[] for _ in join.inputs]
    shared = list(join.predicates)
    for part in parts:
        inputs = {_input_of(c, starts) for c in columns(part)}
        if len(inputs) == 1:
            (i,) = inputs
            own[i].append(shifted(part, -starts[i]))
        else:
            shared.append(part)
    inputs_now = tuple(_settle(n, p) for n, p in zip(join.inputs, own, strict=True))
    return Join(inputs_now, tuple(shared))


def _input_of(column: Column, starts: Sequence[int]) -> int:
    return max(i for i, start in enumerate(starts[:-1]) if start <= column.index < starts[i + 1])


def conjunction(parts: Sequence[Expression]) -> Expression:
    return reduce(lambda a, b: Call("and", (a, b), Type.BOOLEAN), parts)
