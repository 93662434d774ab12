"""What queries can use of a stream: the columns they read, and the predicates that stand right above its scans.

A row for which every predicate above some scan is true may matter to that query; a row that fails at every scan of every
query matters to none. Windows that count rows see them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from penstock.plan.expressions import Expression, columns, conjuncts
from penstock.plan.nodes import Aggregate, AntiJoin, Filter, Join, Node, Project, Scan, Union, Windowed
from penstock.plan.windows import Rows

Needed = frozenset[int]


@dataclass(frozen=True, slots=True)
class Reading:
    """One scan of one query."""

    scan: Scan
    columns: Needed
    """Positions in the stream's schema; its time is always among them."""
    predicates: tuple[Expression, ...]
    """Rows for which one of them is not true are of no use here."""


def readings(root: Node) -> Iterator[Reading]:
    """Every scan below a node that is wanted whole.

    >>> from penstock.language import bind, parse
    >>> from penstock.plan.catalog import Catalog
    >>> from penstock.rules import optimize
    >>> catalog = Catalog()
    >>> made, = parse("CREATE STREAM a (ts BIGINT, x INT, y INT, z INT) WATERMARK ts DELAY OF 0")
    >>> catalog.streams["a"] = bind(made, catalog).stream
    >>> text = "SELECT l.x FROM a [RANGE 5] AS l, a [RANGE 5] AS r WHERE l.x = r.z AND l.y > 2 AND l.y < 9"
    >>> for found in readings(optimize(bind(parse(text)[0], catalog).query.root)):
    ...     print(found.scan.alias, sorted(found.columns), *found.predicates)
    l [0, 1, 2] (l.y > 2) (l.y < 9)
    r [0, 3]
    """
    yield from _readings(root, _all(root), ())


def _readings(node: Node, needed: Needed, predicates: tuple[Expression, ...]) -> Iterator[Reading]:
    match node:
        case Scan():
            yield Reading(node, needed | {node.stream.time}, predicates)
        case Filter():
            below = predicates + conjuncts(node.predicate)
            yield from _readings(node.input, needed | _read([node.predicate]), below)
        case Windowed(window=Rows() as window):
            yield from _readings(node.input, needed | frozenset(window.partition), ())
        case Windowed():
            yield from _readings(node.input, needed, predicates)
        case Project():
            yield from _readings(node.input, _read([node.outputs[i].expression for i in needed]), ())
        case Aggregate():
            read = [k.expression for k in node.keys]
            read += [a.argument for a in node.aggregations if a.argument is not None]
            yield from _readings(node.input, _read(read), ())
        case Join():
            yield from _side_by_side(node.inputs, needed | _read(node.predicates))
        case AntiJoin():
            yield from _side_by_side((node.left, node.right), needed | _read(node.predicates))
        case Union():
            for below_it in node.inputs:
                yield from _readings(below_it, needed, ())
        case _:
            for below_it in node.inputs:
                yield from _readings(below_it, _all(below_it), ())


def _side_by_side(inputs: tuple[Node, ...], needed: Needed) -> Iterator[Reading]:
    start = 0
    for one in inputs:
        end = start + len(one.schema)
        yield from _readings(one, frozenset(c - start for c in needed if start <= c < end), ())
        start = end


def _all(node: Node) -> Needed:
    return frozenset(range(len(node.schema)))


def _read(expressions: Iterable[Expression]) -> Needed:
    return frozenset(c.index for e in expressions for c in columns(e))
