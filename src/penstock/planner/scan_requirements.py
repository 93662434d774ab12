"""What queries can use of a stream: the columns they read, and the predicates that stand right above its scans.

A row for which every predicate above some scan is true may matter to that query; a row that fails at every scan of every
query matters to none. Windows that count rows see them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.plan.expressions import Expression, conjuncts
from penstock.plan.nodes import Filter, Node, Scan, Shared, Windowed
from penstock.plan.required_columns import Needed, all_of, needed_below
from penstock.plan.windows import Rows


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

    >>> from penstock.sql import bind, parse
    >>> from penstock.plan.catalog import Catalog
    >>> from penstock.optimizer import optimize
    >>> catalog = Catalog()
    >>> made, = parse("CREATE STREAM a (ts BIGINT, x INT, y INT, z INT) WATERMARK ts DELAY OF 0")
    >>> catalog.streams["a"] = bind(made, catalog).stream
    >>> text = "SELECT l.x FROM a [RANGE 5] AS l, a [RANGE 5] AS r WHERE l.x = r.z AND l.y > 2 AND l.y < 9"
    >>> for found in readings(optimize(bind(parse(text)[0], catalog).query.root)):
    ...     print(found.scan.alias, sorted(found.columns), *found.predicates)
    l [0, 1, 2] (l.y > 2) (l.y < 9)
    r [0, 3]
    """
    yield from _readings(root, all_of(root), (), set())


def _readings(
    node: Node, needed: Needed, predicates: tuple[Expression, ...], seen: set[int]
) -> Iterator[Reading]:
    if isinstance(node, Shared):  # all columns are read
        if id(node) in seen:
            return
        seen.add(id(node))
    match node:
        case Scan():
            yield Reading(node, needed | {node.stream.time}, predicates)
            return
        case Filter():
            passed = predicates + conjuncts(node.predicate)
        case Windowed(window=window) if not isinstance(window, Rows):
            passed = predicates
        case _:
            passed = ()
    for below, columns in zip(node.inputs, needed_below(node, needed), strict=True):
        yield from _readings(below, columns, passed, seen)
