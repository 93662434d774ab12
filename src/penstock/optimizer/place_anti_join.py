"""Negation above a join or below it: whichever is expected to cost less (Golab & Özsu 2005, §5.4.2 and Figure 6).

    anti join (A ⋈ C) with B    =    (anti join A with B) ⋈ C         if its predicates read A and B only

Both show the pair (a, c) exactly while both rows live and no row of B matches a, with the same announced end: not only the
answer is the same, the changes are. Above, the join below it sees no negative tuple (update pattern simplification); below, the
join sees fewer rows. If the join makes a column of A equal to one of C, the negation may as well ask C.

A plain table is looked up as of its result's ts, which is when the parts of the result came, and not when a negation shows it
again. So a negation goes above a join with a plain table, always: there it cannot bring the look-up a negative tuple.
Plans whose left input looks tables up itself are left as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, islice, product

from penstock.optimizer.equal_columns import EqualColumns
from penstock.optimizer.flatten_joins import flatten
from penstock.optimizer.pull_up_projections import looks_up
from penstock.plan.cost import estimate
from penstock.plan.expressions import Column, Expression, columns, rewrite
from penstock.plan.nodes import AntiJoin, Join, Node
from penstock.plan.statistics import Statistics
from penstock.plan.traversal import bottom_up
from penstock.plan.update_pattern import is_table

WORTH = 0.9
"""Estimates are rough: a plan is rewritten if that promises to save a tenth."""

MOST = 64
"""Placements looked at for one join."""

ABOVE = -1


@dataclass(frozen=True, slots=True)
class Negation:
    """An anti join taken out of a plan: its right input, and its predicates over the whole join's columns, then the right's."""

    right: Node
    predicates: tuple[Expression, ...]
    at: int
    """The input of the join it stood over, or ABOVE."""


def place_negation(root: Node, statistics: Statistics) -> Node:
    """Every anti join next to a join on the cheaper side of it.

    >>> from penstock.sql import bind, parse
    >>> from penstock.plan.catalog import Catalog
    >>> from penstock.plan.explain import outline
    >>> catalog = Catalog()
    >>> for name in "abc":
    ...     made, = parse(f"CREATE STREAM {name} (ts BIGINT, x INT, y INT) WATERMARK ts DELAY OF 0")
    ...     catalog.streams[name] = bind(made, catalog).stream
    >>> text = "SELECT 1 AS k FROM a [RANGE 9] LEFT ANTI JOIN b [RANGE 9] ON a.x = b.x JOIN c [RANGE 9] ON a.y = c.y"
    >>> plan = bind(parse(text)[0], catalog).query.root
    >>> print(outline(place_negation(plan, Statistics(rates={"c": 0.01}))))
    project 1 AS k
      anti join on (a.x = b.x)
        join of 2 on (a.y = c.y)
          window [RANGE 9]
            stream a
          window [RANGE 9]
            stream c
        window [RANGE 9]
          stream b
    >>> place_negation(plan, Statistics(rates={"c": 100.0})) == plan
    True
    """
    return bottom_up(root, lambda node: _placed(node, statistics))


def _placed(node: Node, statistics: Statistics) -> Node:
    found = _taken_apart(node)
    if found is None:
        return node
    join, negations = found
    ways = [_places(join, n) for n in negations]
    plans = [_built(join, negations, choice) for choice in islice(product(*ways), MOST)]
    if any(is_table(i) and looks_up(i) for i in join.inputs):
        return plans[0]
    best, cost = node, WORTH * estimate(node, statistics).total
    for plan in plans:
        total = estimate(plan, statistics).total
        if total < cost:
            best, cost = plan, total
    return best


def _taken_apart(node: Node) -> tuple[Join, list[Negation]] | None:
    """A join and the anti joins right above it and right below, the uppermost first; None if there is nothing to move."""
    upper: list[AntiJoin] = []
    while isinstance(node, AntiJoin):
        upper.append(node)
        node = node.left
    if not isinstance(node, Join):
        return None
    inputs, negations, start = [], [], 0
    total = len(node.schema)
    for i, one in enumerate(node.inputs):
        width = len(one.schema)
        while isinstance(one, AntiJoin) and not looks_up(one.left) and not is_table(one.left):
            predicates = tuple(_moved(p, width, start, total - width) for p in one.predicates)
            negations.append(Negation(one.right, predicates, i))
            one = one.left
        inputs.append(one)
        start += width
    negations = [Negation(u.right, u.predicates, ABOVE) for u in upper] + negations
    if any(isinstance(i, Join) for i in inputs):
        negations = [Negation(n.right, n.predicates, ABOVE) for n in negations]
    join = flatten(Join(tuple(inputs), node.predicates))
    assert isinstance(join, Join)
    return (join, negations) if negations else None


def _moved(predicate: Expression, width: int, left: int, right: int) -> Expression:
    """A predicate whose left columns (the first `width`) move by `left` and the others by `right`."""
    return rewrite(
        predicate, lambda c: Column(c.index + (left if c.index < width else right), c.type, c.name)
    )


def _places(join: Join, negation: Negation) -> list[int]:
    """Where a negation may stand, above the join first."""
    if any(is_table(i) and looks_up(i) for i in join.inputs):
        return [ABOVE]
    return [ABOVE, *(i for i in range(len(join.inputs)) if _asked(join, negation, i) is not None)]


def _asked(join: Join, negation: Negation, place: int) -> tuple[Expression, ...] | None:
    """A negation's predicates over one input of the join and the right input, if that input has what they read."""
    if is_table(join.inputs[place]):
        return None
    total = len(join.schema)
    starts = list(accumulate((len(i.schema) for i in join.inputs), initial=0))
    own = range(starts[place], starts[place + 1])
    equal = EqualColumns(join.predicates)
    read = {c.index for p in negation.predicates for c in columns(p) if c.index < total}
    stand_in = {c: c if c in own else min((e for e in equal.of(c) if e in own), default=-1) for c in read}
    if (not read and place != negation.at) or -1 in stand_in.values():
        return None
    names = {c.index: c.name for p in (*join.predicates, *negation.predicates) for c in columns(p)}

    def local(column: Column) -> Column:
        if column.index < total:
            there = stand_in[column.index]
            return Column(there - own.start, column.type, names[there])
        return Column(column.index - total + len(own), column.type, column.name)

    return tuple(rewrite(p, local) for p in negation.predicates)


def _built(join: Join, negations: Sequence[Negation], places: Sequence[int]) -> Node:
    """The plan with each negation where it is told to be; the first is the uppermost."""
    inputs = list(join.inputs)
    for negation, place in reversed(list(zip(negations, places, strict=True))):
        if place != ABOVE:
            asked = _asked(join, negation, place)
            assert asked is not None
            inputs[place] = AntiJoin(inputs[place], negation.right, asked)
    plan: Node = Join(tuple(inputs), join.predicates)
    for negation, place in reversed(list(zip(negations, places, strict=True))):
        if place == ABOVE:
            plan = AntiJoin(plan, negation.right, negation.predicates)
    return plan
