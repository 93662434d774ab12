"""Move predicates towards the rows they concern.

Through projections (by substitution), unions and anti joins; into joins, and through them to the one input they mention.
What an anti join asks of its right input alone is asked there. Through what works value by value (DISTINCT, INTERSECT,
EXCEPT, ISTREAM, DSTREAM, and GROUP BY if only keys are mentioned): a value passes with all its copies or with none.

What is asked above an outer join of a side whose rows may be missing, and cannot be true of NULLs, makes
these rows no results: a FULL JOIN becomes a LEFT JOIN, a LEFT JOIN an inner one. Of the kept side it goes below.

Never below a count window: which rows are the last n would change. Nor below RSTREAM, which says all whenever anything
changes, nor below the GROUP BY that a query ends in: with HAVING such a query sends '-', whatever HAVING says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.plan import deadline
from penstock.plan.expressions import (
    Call,
    Column,
    Expression,
    columns,
    conjunction,
    conjuncts,
    rewrite,
    shifted,
)
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
    Scan,
    Shared,
    StreamKind,
    ToStream,
    Union,
    Windowed,
)
from penstock.plan.nulls import rejects_nulls
from penstock.plan.traversal import with_inputs
from penstock.plan.windows import Range, Unbounded

MOST_PARTS = 4096
"""Of a predicate that goes below a projection: through columns that are computed from columns twice it would double each time."""


def push_filters(root: Node) -> Node:
    """Every predicate as low as it can go.

    >>> from penstock.sql import bind, parse
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
    return _push(root, {}, top=True)


def _push(node: Node, shared: dict[int, Node], *, top: bool = False) -> Node:
    """The plan below a node settled; `top`: nothing but projections and filters stand above it."""
    if isinstance(node, Shared):
        if id(node) not in shared:
            shared[id(node)] = with_inputs(node, (_push(node.input, shared),))
        return shared[id(node)]
    deadline.check()
    passed = top and isinstance(node, Project | Filter)
    node = with_inputs(node, tuple(_push(i, shared, top=passed) for i in node.inputs))
    if isinstance(node, Filter):
        return _settle(node.input, conjuncts(node.predicate), top=top)
    if isinstance(node, Join) and node.predicates:
        return _into_join(Join(node.inputs), _parts(node.predicates))
    if isinstance(node, AntiJoin) and node.predicates:
        return _into_anti_join(node)
    if isinstance(node, OuterJoin) and node.predicates:
        return _into_outer_join(node)
    return node


def _parts(predicates: Sequence[Expression]) -> tuple[Expression, ...]:
    return tuple(c for p in predicates for c in conjuncts(p))


def _settle(node: Node, parts: Sequence[Expression], *, top: bool = False) -> Node:
    """The node with the conjuncts applied as low as they can be."""
    if not parts:
        return node
    match node:
        case Filter():
            return _settle(node.input, (*conjuncts(node.predicate), *parts), top=top)
        case Project():
            passing, kept = _divided(parts, lambda p: _grown(p, node) <= MOST_PARTS)
            below = _settle(node.input, [_through(p, node) for p in passing], top=top)
            made = Project(below, node.outputs, node.alias)
            return Filter(made, conjunction(kept)) if kept else made
        case Union() | Distinct():
            return with_inputs(node, tuple(_settle(i, parts) for i in node.inputs))
        case Join():
            return _into_join(node, parts)
        case AntiJoin():
            return AntiJoin(_settle(node.left, parts), node.right, node.predicates)
        case OuterJoin():
            return _above_outer_join(node, parts)
        case Windowed(window=Range() | Unbounded()) if not isinstance(node.input, Scan):
            return Windowed(_settle(node.input, parts), node.window)
        case Intersect() | Except() | ToStream(kind=StreamKind.ISTREAM | StreamKind.DSTREAM):
            return _by_value(node, parts)
        case Aggregate() if node.keys and not top:
            return _into_groups(node, parts)
    return Filter(node, conjunction(parts))


def _by_value(node: Intersect | Except | ToStream, parts: Sequence[Expression]) -> Node:
    passing, kept = _divided(parts, _is_of_values)
    made = with_inputs(node, tuple(_settle(i, passing) for i in node.inputs))
    return Filter(made, conjunction(kept)) if kept else made


def _is_of_values(part: Expression) -> bool:
    """0.0 and -0.0 are one value, and a function may tell them apart: what reads floats stays above."""
    return not any(c.type.is_float for c in columns(part))


def _into_groups(node: Aggregate, parts: Sequence[Expression]) -> Node:
    def is_of_keys(part: Expression) -> bool:
        read = [c.index for c in columns(part)]
        return bool(read) and max(read) < len(node.keys) and _is_of_values(part)

    passing, kept = _divided(parts, is_of_keys)
    asked = [rewrite(p, lambda c: node.keys[c.index].expression) for p in passing]
    made = Aggregate(_settle(node.input, asked), node.keys, node.aggregations)
    return Filter(made, conjunction(kept)) if kept else made


def _into_anti_join(node: AntiJoin) -> Node:
    width = len(node.left.schema)

    def is_of_right(part: Expression) -> bool:
        read = [c.index for c in columns(part)]
        return bool(read) and min(read) >= width

    right, kept = _divided(_parts(node.predicates), is_of_right)
    return AntiJoin(node.left, _settle(node.right, [shifted(p, -width) for p in right]), tuple(kept))


def _into_outer_join(node: OuterJoin) -> Node:
    """What ON asks of the side alone whose rows are not kept is asked there: a row that fails it has no partner."""
    width = len(node.left.schema)
    parts = _parts(node.predicates)
    left, right = node.left, node.right
    if node.kind == "left":
        own, kept = _divided(parts, lambda p: _reads(p, width, len(node.schema)))
        right = _settle(right, [shifted(p, -width) for p in own])
    elif node.kind == "right":
        own, kept = _divided(parts, lambda p: _reads(p, 0, width))
        left = _settle(left, own)
    else:
        kept = list(parts)
    return OuterJoin(left, right, tuple(kept), node.keeps_left, node.keeps_right)


def _above_outer_join(node: OuterJoin, parts: Sequence[Expression]) -> Node:
    width, total = len(node.left.schema), len(node.schema)
    # A row of one side without a partner has NULLs for the other side.
    keeps_left = node.keeps_left and not any(rejects_nulls(p, range(width, total)) for p in parts)
    keeps_right = node.keeps_right and not any(rejects_nulls(p, range(width)) for p in parts)
    if not (keeps_left or keeps_right):
        return _into_join(Join(node.inputs), (*_parts(node.predicates), *parts))
    left, right = node.left, node.right
    kept = list(parts)
    if not keeps_right:
        own, kept = _divided(kept, lambda p: _reads(p, 0, width))
        left = _settle(left, own)
    elif not keeps_left:
        own, kept = _divided(kept, lambda p: _reads(p, width, total))
        right = _settle(right, [shifted(p, -width) for p in own])
    made = _into_outer_join(OuterJoin(left, right, node.predicates, keeps_left, keeps_right))
    return Filter(made, conjunction(kept)) if kept else made


def _reads(part: Expression, start: int, stop: int) -> bool:
    """Whether an expression reads columns, all in this span."""
    read = [c.index for c in columns(part)]
    return bool(read) and min(read) >= start and max(read) < stop


def _divided(
    parts: Sequence[Expression], passes: Callable[[Expression], bool]
) -> tuple[list[Expression], list[Expression]]:
    return [p for p in parts if passes(p)], [p for p in parts if not passes(p)]


def _through(predicate: Expression, project: Project) -> Expression:
    return rewrite(predicate, lambda c: project.outputs[c.index].expression)


def _grown(predicate: Expression, project: Project) -> int:
    """How many parts a predicate has below a projection: each column that it reads becomes what computes it."""
    return _size(predicate) + sum(_size(project.outputs[c.index].expression) for c in columns(predicate))


def _size(expression: Expression) -> int:
    return 1 + sum(map(_size, expression.arguments)) if isinstance(expression, Call) else 1


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
