"""DISTINCT over a join that keeps nothing but the join's key is INTERSECT: no result of the join is ever made.

    DISTINCT k of (A ⋈ C on k)    =    INTERSECT of the k of A and the k of C, NULLs left out

A value is there while both sides have it. Its copies are pairs that end with the first of the two, so the greatest end of a copy
is the lesser of both sides' greatest ends, which is what INTERSECT announces: the changes are the same. A may itself be a
join; but INTERSECT of an INTERSECT would be wrong: what the inner one announced is never revised. The same holds for
negative input, where DISTINCT clings to any pair that ends when announced and INTERSECT to a copy of one side.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from penstock.optimizer.equal_columns import EqualColumns, equality
from penstock.plan.cost import estimate
from penstock.plan.expressions import (
    Call,
    Column,
    Expression,
    Named,
    columns,
    conjunction,
    rewrite,
)
from penstock.plan.nodes import Distinct, Filter, Intersect, Join, Node, Project
from penstock.plan.projections import is_pick
from penstock.plan.statistics import Statistics
from penstock.plan.traversal import bottom_up
from penstock.plan.update_pattern import Pattern, is_table, pattern
from penstock.types.data_type import Type

Pair = tuple[Column, Column]
"""A column of the input taken out, and one of the rest that equals it."""


def intersect_keys(root: Node, statistics: Statistics) -> Node:
    """Such DISTINCTs as INTERSECT, where that costs less.

    >>> from penstock.sql import bind, parse
    >>> from penstock.plan.catalog import Catalog
    >>> from penstock.plan.explain import outline
    >>> from penstock.optimizer.push_down_predicates import push_filters
    >>> catalog = Catalog()
    >>> for name in "ab":
    ...     made, = parse(f"CREATE STREAM {name} (ts BIGINT, x INT, y INT) WATERMARK ts DELAY OF 0")
    ...     catalog.streams[name] = bind(made, catalog).stream
    >>> text = "SELECT DISTINCT b.x FROM a [RANGE 500], b [RANGE 500] WHERE a.x = b.x"
    >>> plan = push_filters(bind(parse(text)[0], catalog).query.root)
    >>> print(outline(intersect_keys(plan, Statistics())))
    project x
      intersect
        project a.x AS x
          window [RANGE 500]
            stream a
        project b.x AS x
          select (b.x IS NOT NULL)
            window [RANGE 500]
              stream b
    """
    return bottom_up(root, lambda node: _intersected(node, statistics))


def _intersected(node: Node, statistics: Statistics) -> Node:
    match node:
        case Distinct(Project(input=Join() as join) as kept) if is_pick(kept) and _is_plain(join):
            ways = [w for i in reversed(range(len(join.inputs))) for w in _without(join, i, kept)]
            return min([node, *ways], key=lambda way: round(estimate(way, statistics).total, 6))
    return node


def _is_plain(join: Join) -> bool:
    return pattern(join) is not Pattern.STRICT and not any(map(is_table, join.inputs))


def _without(join: Join, out: int, kept: Project) -> Iterator[Node]:
    """The keys of one input beside those of all others, if the columns kept are these and no more."""
    starts = list(accumulate((len(i.schema) for i in join.inputs), initial=0))
    own = range(starts[out], starts[out + 1])
    pairs: list[Pair] = []
    rest: list[Expression] = []
    for predicate in join.predicates:
        if not any(c.index in own for c in columns(predicate)):
            rest.append(predicate)
            continue
        pair = equality(predicate)
        if pair is None or (pair[0].index in own) == (pair[1].index in own):
            return
        pairs.append(pair if pair[0].index in own else (pair[1], pair[0]))
    equal = EqualColumns(join.predicates)
    keys_at = {c.index: place for place, pair in reversed(list(enumerate(pairs))) for c in pair}
    outputs = [equal.of(o.expression.index) for o in kept.outputs if isinstance(o.expression, Column)]
    places = [min((keys_at[c] for c in same if c in keys_at), default=-1) for same in outputs]
    if not pairs or -1 in places or not keys_at.keys() <= set().union(*outputs):
        return
    # Columns of the rest that equal the same column of the input taken out are equal to each other.
    first: dict[int, Column] = {}
    for mine, its in pairs:
        if first.setdefault(mine.index, its).index != its.index:
            rest.append(_equal(first[mine.index], its))
    left = _keys(_others(join, own, out, rest), [_past(its, own) for _, its in pairs])
    keys = [Column(mine.index - own.start, mine.type, mine.name) for mine, _ in pairs]
    known = conjunction([Call("is_not_null", (k,), Type.BOOLEAN) for k in dict.fromkeys(keys)])
    both = Intersect(left, _keys(Filter(join.inputs[out], known), keys))
    picked = zip(kept.outputs, places, strict=True)
    shown = tuple(Named(Column(place, o.expression.type, o.name), o.name) for o, place in picked)
    yield Project(both, shown, kept.alias)


def _equal(one: Column, other: Column) -> Expression:
    return Call("=", (one, other), Type.BOOLEAN)


def _past(column: Column, own: range) -> Column:
    """A column of the others once the input taken out is gone."""
    index = column.index if column.index < own.start else column.index - len(own)
    return Column(index, column.type, column.name)


def _others(join: Join, own: range, out: int, predicates: list[Expression]) -> Node:
    inputs = join.inputs[:out] + join.inputs[out + 1 :]
    if len(inputs) == 1 and not predicates:
        return inputs[0]
    moved = tuple(rewrite(p, lambda c: _past(c, own)) for p in predicates)
    return Filter(inputs[0], conjunction(moved)) if len(inputs) == 1 else Join(inputs, moved)


def _keys(node: Node, keys: list[Column]) -> Node:
    return Project(node, tuple(Named(k, f"k{i}" if len(keys) > 1 else _short(k)) for i, k in enumerate(keys)))


def _short(column: Column) -> str:
    return column.name.rpartition(".")[2]
