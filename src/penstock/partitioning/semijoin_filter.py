"""Which changes of a part below a cut can be left where they were made, since the part above has nobody for them yet.

Paper      Yang & Papadias 2008: a consumer tells its producer what it does not demand; here between stages of cells.
Where      the part above joins an inner input with a stream of its own, and a row of each is in every result. Then a row of the
           inner input is of no use before a row of the stream with the same key comes.
Not where  rows are taken back or end in the order in which they came: one that is sent after others would break that order.
           Not against another inner input either, which may itself be held back: two could wait for each other for ever.

A key is what both are dealt out by: equal in every result, computed alike from either side's columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.partitioning.keys import Key
from penstock.partitioning.placement import Input
from penstock.partitioning.stages import Stages
from penstock.plan.nodes import Filter, Join, Node, Project, Scan, Windowed
from penstock.plan.traversal import every
from penstock.plan.update_pattern import Pattern
from penstock.plan.windows import Announced, Range, Unbounded, Window


@dataclass(frozen=True, slots=True)
class Sieve:
    """Rows of the part `part` wait for rows of the input `other` of the second stage."""

    part: str
    """The name of the inner input's stream."""
    key: Key
    """Over its columns."""
    other: Input
    other_key: Key
    lives: int | None
    """How long a row of the other lives at most; None: for ever."""

    @property
    def name(self) -> str:
        return f"{self.part}<{self.other.name.lower()}"


def sieves(query: Stages) -> Iterator[Sieve]:
    """Every pair of an inner input and a stream that is good for it.

    >>> from penstock.partitioning.stages import stages
    >>> from penstock.sql import bind, parse
    >>> from penstock.plan.catalog import Catalog
    >>> from penstock.plan.query_root import top
    >>> from penstock.optimizer import optimize
    >>> catalog = Catalog()
    >>> for stream in "abc":
    ...     made, = parse(f"CREATE STREAM {stream} (ts BIGINT, x INT, y INT) WATERMARK ts DELAY OF 0")
    ...     catalog.streams[stream] = bind(made, catalog).stream
    >>> text = "SELECT a.ts FROM a [RANGE 5], b [RANGE 5], c [RANGE 7] WHERE a.x = b.x AND b.y = c.y"
    >>> found, = sieves(stages(top(optimize(bind(parse(text)[0], catalog).query.root)), 8, "q"))
    >>> found.part, found.other.stream.name, *map(str, found.key + found.other_key), found.lives
    ('q@1', 'c', 'y', 'y', 7)
    """
    if not query.lower:
        return
    inputs = {i.name: i for i in query.upper.inputs}
    scanned = [i.name for _, i in query.upper.scans]
    parts = {low.stream.name for low in query.lower}
    for join in _joins(query.upper.root.node):
        leaves = {name: window for below in join.inputs for name, window in _leaf(below)}
        own = [
            name
            for name, window in leaves.items()
            if isinstance(window, Announced)
            and window.pattern in (Pattern.WEAK, Pattern.MONOTONIC)
            and scanned.count(name) == 1
        ]
        others = {n: w for n, w in leaves.items() if inputs[n].stream.name not in parts}
        for name in own:
            for other, window in others.items():
                if isinstance(window, Range | Unbounded):
                    yield from _between(inputs[name], inputs[other], window)


def _between(inner: Input, other: Input, window: Range | Unbounded) -> Iterator[Sieve]:
    lives = None
    if isinstance(window, Range):
        lives = window.length + (window.slide if window.slide > 1 else 0)
    for mine, its in zip(inner.routing.axes, other.routing.axes, strict=True):
        if mine.key is not None and its.key is not None:
            yield Sieve(inner.stream.name, mine.key, other, its.key, lives)
            return


def _joins(node: Node) -> Iterator[Join]:
    yield from (one for one in every(node) if isinstance(one, Join))


def _leaf(node: Node) -> Iterator[tuple[str, Window]]:
    """The input that a join reads with nothing but selections and one window between, if that is what it reads."""
    window: Window | None = None
    while isinstance(node, Project | Filter | Windowed):
        if isinstance(node, Windowed):
            if window is not None:
                return
            window = node.window
        node = node.input
    if isinstance(node, Scan):
        yield node.stream.name, Unbounded() if window is None else window
