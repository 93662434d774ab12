"""The ways in which a plan's rows can be dealt out along one dimension of a grid of cells.

A *dimension* says for every scan of the plan by which key its rows are dealt out, or that they go everywhere. It is
exact if at every node, for every coordinate c, the rows that arise at c are those of the whole answer whose place is c:
then the answer is the disjoint union over c. A grid is exact if each of its dimensions is, since a row is in a cell
exactly if it is there along every dimension.

The search goes from the root, which wants every row once, down to the scans:

    scan, filter, projection, RANGE, UNION ALL   any place will do
    join            parts that are equal in every result are dealt out by that; the others go everywhere
    anti join       the left as wanted; the right by an equal term, or everywhere
    outer join      the side whose rows are kept as wanted, the other by an equal term, or everywhere;
                    if both are kept, both by equal terms
    GROUP BY        by a key of the group
    DISTINCT, INTERSECT, EXCEPT, ISTREAM, DSTREAM
                    by a column: equal rows are together
    PARTITION BY k ROWS n                        by k
    inner input     by a column, so that a '-' goes where its '+' went
    ROWS n, RSTREAM                              all rows in one place
    aggregate without GROUP BY                   everywhere, since it has a row even where there is no input
    table           everywhere

What goes everywhere is computed everywhere alike, whatever it is. (Afrati & Ullman 2010 for joins; Okcan & Riedewald 2011
for joins without an equality.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from itertools import islice, product

from penstock.partitioning.equal_terms import Classes, Members, bare, is_constant, told_by
from penstock.plan import deadline
from penstock.plan.exchange_input import HEAD
from penstock.plan.expressions import Column, Expression, Literal, columns, rewrite, shifted
from penstock.plan.function_signatures import cast, common
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
    StreamKind,
    ToStream,
    Union,
    Windowed,
)
from penstock.plan.update_pattern import is_lookup, is_table
from penstock.plan.windows import Announced, Rows, Unbounded
from penstock.types.data_type import Type

Key = tuple[Expression, ...]
"""Terms over a stream's columns; rows with equal terms are together."""

Dimension = tuple[Key | None, ...]
"""For each scan, from left to right, its key; None: its rows go everywhere."""

MOST = 32
"""Ways looked at for one node: plans with more have many alike."""


class Place(Enum):
    ANY = "each row once, wherever"
    EVERYWHERE = "each row at every coordinate"


Want = Place | Expression
"""An expression over the node's schema: each row once, where the hash of the expression says."""

ONE_PLACE = Literal(0, Type.INT)
"""A key that all rows share."""

_ANY, _EVERYWHERE = Place.ANY, Place.EVERYWHERE


def dimensions(root: Node, accepts: Callable[[Expression], bool] | None = None) -> list[Dimension]:
    """All that were found, with keys as long as can be; none if the query cannot be spread.

    `accepts` tells which terms whoever routes can compute; by default all.
    """
    found = (_telling(way, accepts) for way in merged(_ways(root, _ANY)))
    return [way for way in found if way is not None]


def goes_anywhere(node: Node) -> bool:
    """Whether no row meets another row of a stream: then any way of dealing rows out, each once, is exact."""
    if isinstance(node, Scan | Relation):
        return True
    if isinstance(node, Windowed):
        return not isinstance(node.window, Rows | Announced) and goes_anywhere(node.input)
    if isinstance(node, Join):
        return all(map(goes_anywhere, node.inputs)) and sum(not is_table(i) for i in node.inputs) == 1
    if isinstance(node, OuterJoin) and not is_lookup(node):
        return False
    return isinstance(node, Filter | Project | Union | OuterJoin) and all(map(goes_anywhere, node.inputs))


def merged(ways: Sequence[Dimension]) -> list[Dimension]:
    """Dimensions that deal out the same scans as one with a longer key, which spreads better."""
    by_support: dict[tuple[bool, ...], Dimension] = {}
    for way in ways:
        support = tuple(key is not None for key in way)
        held = by_support.setdefault(support, way)
        mine, its = _components(way), _components(held)
        if held is not way and mine is not None and its is not None:
            longer = its + [c for c in mine if c not in its]
            by_support[support] = _of_components(longer, support)
    return list(by_support.values())


def _components(way: Dimension) -> list[Key] | None:
    """The keys position by position; None if their lengths differ (then they have nothing to do with each other)."""
    keys = [key for key in way if key is not None]
    return list(zip(*keys, strict=True)) if len({len(k) for k in keys}) == 1 else None


def _of_components(components: Sequence[Key], support: Sequence[bool]) -> Dimension:
    keys = iter(zip(*components, strict=True))
    return tuple(next(keys) if dealt else None for dealt in support)


def _telling(way: Dimension, accepts: Callable[[Expression], bool] | None) -> Dimension | None:
    """The way by accepted terms, and without what all rows share; None if nothing is left."""
    components = _components(way)
    if components is not None:
        components = [
            c
            for c in components
            if not all(map(is_constant, c)) and (accepts is None or all(map(accepts, c)))
        ]
        return _of_components(components, [key is not None for key in way]) if components else None
    terms = [t for key in way if key is not None for t in key]
    refused = accepts is not None and not all(map(accepts, terms))
    return None if refused or all(map(is_constant, terms)) else way


# ------------------------------------------------------------------ the search


def _ways(node: Node, want: Want) -> list[Dimension]:
    deadline.check()
    return _RULES[type(node)](node, want)


def _side_by_side(inputs: Sequence[Sequence[Dimension]]) -> list[Dimension]:
    """Every choice of one way for each input."""
    return [sum(choice, ()) for choice in islice(product(*inputs), MOST)]


def _alike(ways: Sequence[Dimension]) -> list[Dimension]:
    """The same with numbers cast to one type, where each scan has one term and all are compared with each other."""
    cast_ways = []
    for way in ways:
        terms = [key[0] for key in way if key is not None]
        if all(t.type.is_numeric for t in terms):
            target = common(tuple(t.type for t in terms))
            way = tuple(None if key is None else (cast(key[0], target),) for key in way)
        cast_ways.append(way)
    return cast_ways


def _first(node: Node, terms: Sequence[Expression]) -> list[Dimension]:
    """The ways to deal out a node by one of several terms that are equal where it matters."""
    return next((ways for ways in (_ways(node, t) for t in terms) if ways), [])


def _scan(node: Scan, want: Want) -> list[Dimension]:
    if want is _EVERYWHERE:
        return [(None,)]
    if isinstance(want, Place):
        return [(tuple(Column(i, f.type, f.name) for i, f in enumerate(node.schema)),)]
    named = rewrite(want, lambda c: Column(c.index, c.type, node.stream.schema[c.index].name))
    return [((bare(named),),)]


def _relation(_: Relation, want: Want) -> list[Dimension]:
    return [()] if want is _EVERYWHERE else []


def _filter(node: Filter, want: Want) -> list[Dimension]:
    return _ways(node.input, want)


def _project(node: Project, want: Want) -> list[Dimension]:
    if not isinstance(want, Place):
        want = rewrite(want, lambda c: node.outputs[c.index].expression)
    return _ways(node.input, want)


def _windowed(node: Windowed, want: Want) -> list[Dimension]:
    window = node.window
    if isinstance(window, Announced):
        return _by_columns(node, want, range(HEAD, len(node.schema)))  # a '-' goes where its '+' went
    if not isinstance(window, Rows):
        return _ways(node.input, want)
    if not _comes_in_order(node.input):
        return []  # which rows are the last n depends on an order that only a whole input has
    return _by_columns(node, want, window.partition)


def _comes_in_order(node: Node) -> bool:
    """Whether rows arise in the order in which they arrived, also in a cell that has only some of them."""
    while isinstance(node, Filter | Project) or (
        isinstance(node, Windowed) and isinstance(node.window, Unbounded)
    ):
        node = node.input
    return isinstance(node, Scan)


def _by_columns(node: Windowed | Distinct | ToStream, want: Want, known: Sequence[int]) -> list[Dimension]:
    """Rows that agree on the `known` columns must be together; with none, all rows."""
    if want is _EVERYWHERE:
        return _ways(node.input, want)
    if not isinstance(want, Place):
        return _ways(node.input, want) if told_by(want, known) else []
    if not known:
        return _ways(node.input, ONE_PLACE)
    return _alike([way for k in known for way in _ways(node.input, _column(node, k))])


def _column(node: Node, index: int) -> Column:
    field = node.schema[index]
    return Column(index, field.type, field.name)


def _distinct(node: Distinct, want: Want) -> list[Dimension]:
    return _by_columns(node, want, range(len(node.schema)))


def _to_stream(node: ToStream, want: Want) -> list[Dimension]:
    """By value: what goes and comes in one instant is no news. RSTREAM says all whenever something changes."""
    return _by_columns(node, want, () if node.kind is StreamKind.RSTREAM else range(len(node.schema)))


def _aggregate(node: Aggregate, want: Want) -> list[Dimension]:
    if want is _EVERYWHERE:
        return _ways(node.input, want)
    keys = [k.expression for k in node.keys]
    if not keys:
        return []
    if isinstance(want, Place):
        return _alike([way for key in keys for way in _ways(node.input, key)])
    if not told_by(want, range(len(keys))):
        return []
    return _ways(node.input, rewrite(want, lambda c: keys[c.index]))


def _reliable(node: Reliable, want: Want) -> list[Dimension]:
    """A group's rows and estimates together, with all levels of it."""
    if want is _EVERYWHERE:
        return _side_by_side([_ways(i, want) for i in node.inputs])
    if isinstance(want, Place):
        keys = [_column(node, k) for k in range(node.keys)]
        return _alike([way for key in keys for way in _side_by_side([_ways(i, key) for i in node.inputs])])
    return _side_by_side([_ways(i, want) for i in node.inputs]) if told_by(want, range(node.keys)) else []


def _union(node: Union, want: Want) -> list[Dimension]:
    if want is _ANY:  # each input on its own, the ways first that deal out most of it
        each = (merged(_ways(i, want)) for i in node.inputs)
        return _side_by_side([sorted(ways, key=lambda way: way.count(None)) for ways in each])
    return _side_by_side([_ways(i, want) for i in node.inputs])


def _set_operation(node: Intersect | Except, want: Want) -> list[Dimension]:
    if want is _EVERYWHERE:
        return _side_by_side([_ways(i, want) for i in node.inputs])
    every = range(len(node.schema))
    if isinstance(want, Place):
        return _alike([way for k in every for way in _both(node, _column(node, k))])
    return _both(node, want) if told_by(want, every) else []


def _both(node: Intersect | Except, term: Expression) -> list[Dimension]:
    """Equal rows of both sides together; a side that cannot be dealt out so may be everywhere."""
    left, right = _ways(node.left, term), _ways(node.right, term)
    if left:
        return _side_by_side([left, right or _ways(node.right, _EVERYWHERE)])
    if isinstance(node, Intersect):
        return _side_by_side([_ways(node.left, _EVERYWHERE), right])
    return []


def _join(node: Join, want: Want) -> list[Dimension]:
    everywhere = [_ways(i, _EVERYWHERE) for i in node.inputs]
    if want is _EVERYWHERE:
        return _side_by_side(everywhere)
    classes = Classes(node.predicates, [i.schema for i in node.inputs])
    if not isinstance(want, Place):
        return _together(node, _members(node, classes, want), everywhere)
    found = []
    for i, one in enumerate(node.inputs):
        found += _side_by_side([merged(_ways(one, want)) if i == j else w for j, w in enumerate(everywhere)])
    return found + _alike([way for members in classes for way in _together(node, members, everywhere)])


def _members(node: Join, classes: Classes, term: Expression) -> Members:
    """By which terms each input can be dealt out so that results are where `term` says."""
    if is_constant(term):
        return {i: [term] for i in range(len(node.inputs))}
    start = 0
    for i, one in enumerate(node.inputs):
        end = start + len(one.schema)
        if all(start <= c.index < end for c in columns(term)):
            return classes.of(i, shifted(term, -start))
        start = end
    return {}  # it takes columns of several inputs to compute


def _together(node: Join, members: Members, everywhere: Sequence[Sequence[Dimension]]) -> list[Dimension]:
    """Inputs dealt out by terms of one class; those that have none, or cannot be, are everywhere."""
    keyed = [_first(one, members.get(i, ())) for i, one in enumerate(node.inputs)]
    if not any(keyed):
        return []
    return _side_by_side([mine or rest for mine, rest in zip(keyed, everywhere, strict=True)])


def _anti(node: AntiJoin, want: Want) -> list[Dimension]:
    right = _ways(node.right, _EVERYWHERE)
    if want is _EVERYWHERE:
        return _side_by_side([_ways(node.left, want), right])
    classes = Classes(node.predicates, [node.left.schema, node.right.schema])
    if not isinstance(want, Place):
        members = {0: [want], 1: [want]} if is_constant(want) else classes.of(0, want)
        return _beside(node, {**members, 0: [want]}, right)
    alone = _side_by_side([merged(_ways(node.left, want)), right])
    return alone + _alike([way for members in classes for way in _beside(node, members, right)])


def _beside(node: AntiJoin, members: Members, everywhere: list[Dimension]) -> list[Dimension]:
    """The left, whose rows are the answer, by one of its terms; the right by an equal one, or everywhere."""
    left = _first(node.left, members.get(0, ()))
    return _side_by_side([left, _first(node.right, members.get(1, ())) or everywhere])


def _outer(node: OuterJoin, want: Want) -> list[Dimension]:
    everywhere = [_ways(i, _EVERYWHERE) for i in node.inputs]
    if want is _EVERYWHERE:
        return _side_by_side(everywhere)
    classes = Classes(node.predicates, [i.schema for i in node.inputs])
    if not isinstance(want, Place):
        return _beside_kept(node, _kept_members(node, classes, want), everywhere)
    alone: list[Dimension] = []
    if node.kind != "full":
        kept = 0 if node.keeps_left else 1
        alone = _side_by_side(
            [merged(_ways(i, want)) if k == kept else everywhere[k] for k, i in enumerate(node.inputs)]
        )
    return alone + _alike([way for members in classes for way in _beside_kept(node, members, everywhere)])


def _kept_members(node: OuterJoin, classes: Classes, term: Expression) -> Members:
    """By which terms the sides can be dealt out so that results are where `term` says.

    Of a side whose rows may be missing `term` would be NULL: only the kept side's columns tell.
    """
    if is_constant(term):
        return {0: [term], 1: [term]}
    if node.kind == "full":
        return {}
    width = len(node.left.schema)
    read = [c.index for c in columns(term)]
    if node.keeps_left:
        return {**classes.of(0, term), 0: [term]} if max(read) < width else {}
    if min(read) < width:
        return {}
    own = shifted(term, -width)
    return {**classes.of(1, own), 1: [own]}


def _beside_kept(
    node: OuterJoin, members: Members, everywhere: Sequence[Sequence[Dimension]]
) -> list[Dimension]:
    """Sides whose rows are kept by one of their terms, the other by an equal one, or everywhere."""
    keeps = (node.keeps_left, node.keeps_right)
    each = []
    for i, one in enumerate(node.inputs):
        keyed = _first(one, members.get(i, ()))
        each.append(keyed if keyed or keeps[i] else everywhere[i])
    return _side_by_side(each)


_RULES: dict[type, Callable[..., list[Dimension]]] = {
    Scan: _scan,
    Relation: _relation,
    Windowed: _windowed,
    Filter: _filter,
    Project: _project,
    Join: _join,
    AntiJoin: _anti,
    OuterJoin: _outer,
    Distinct: _distinct,
    Union: _union,
    Intersect: _set_operation,
    Except: _set_operation,
    Aggregate: _aggregate,
    Reliable: _reliable,
    ToStream: _to_stream,
}
