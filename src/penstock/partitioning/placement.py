"""Placements: how the rows of each stream are spread over cells so that a query's answer is the union of the cells'.

`place` turns the plan of one query into a plan over *inputs*: streams as a routing deals them out. Every cell that takes
part runs this plan over what it is sent and knows nothing of the others. Cells form a grid (`dimensions` says along
which keys, `shares` how fine); a row goes to the cells that have its coordinate along every dimension that deals out
its scan, which makes copies along the others. A query whose rows cannot be dealt out runs in one cell, chosen by its name.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from penstock.partitioning.hypercube import grid
from penstock.partitioning.keys import Dimension, Key, dimensions, goes_anywhere
from penstock.plan.catalog import Stream
from penstock.plan.expressions import Expression
from penstock.plan.nodes import (
    Aggregate,
    Distinct,
    Node,
    Relation,
    Reliable,
    Scan,
    Shared,
    StreamKind,
    ToStream,
    Windowed,
)
from penstock.plan.query_root import Root
from penstock.plan.traversal import bottom_up, every, has_shared
from penstock.plan.update_pattern import Pattern, group_root
from penstock.plan.windows import Rows


@dataclass(frozen=True, slots=True)
class Axis:
    """One dimension as a stream sees it: rows are dealt out over `share` parts by the hash of `key` (terms over the
    stream's columns), or copied to all of them if there is none."""

    share: int
    key: Key | None

    def __str__(self) -> str:
        told = "copies" if self.key is None else f"hash({', '.join(map(str, self.key))})"
        return f"{told} over {self.share}"


@dataclass(frozen=True, slots=True)
class Routing:
    """Where a stream's rows go: the cell at the origin plus a mixed-radix number, one digit for each axis.

    The last axis is the lowest digit. Without axes every row goes to the cell at the origin.
    """

    axes: tuple[Axis, ...] = ()
    origin: int = 0

    @property
    def cells(self) -> range:
        """All cells that rows can go to."""
        return range(self.origin, self.origin + prod(a.share for a in self.axes))

    @property
    def copies(self) -> int:
        """How many cells each row goes to."""
        return prod(a.share for a in self.axes if a.key is None)

    def is_first_copy(self, cell: int) -> bool:
        """Whether a row that this cell has is to be counted here and not in the cells with its copies."""
        number = cell - self.origin
        for axis in reversed(self.axes):
            number, digit = divmod(number, axis.share)
            if axis.key is None and digit:
                return False
        return True

    def __str__(self) -> str:
        if not self.axes:
            return f"in cell {self.origin}"
        dealt = [str(a) for a in self.axes if a.key is not None]
        if not dealt:
            return "everywhere"
        return f"by {' × '.join(dealt)}" + (f" in {self.copies} copies" if self.copies > 1 else "")


@dataclass(frozen=True, slots=True)
class Input:
    """A stream as one routing deals it out: what a cell's engine knows as a stream."""

    stream: Stream
    routing: Routing

    @property
    def name(self) -> str:
        """The same in every process; ends in a digest of the routing, so that no two inputs share a name."""
        routing = hashlib.sha256(repr(self.routing).encode()).hexdigest()[:12]
        return f"{self.stream.name}#{routing}"

    @property
    def declared(self) -> Stream:
        """The stream that a cell is told of."""
        return dataclasses.replace(self.stream, name=self.name)


@dataclass(frozen=True, slots=True)
class Placement:
    """One query over cells: its plan over inputs, and where it runs."""

    root: Root
    """Scans inputs; otherwise the query's own."""
    scans: tuple[tuple[str, Input], ...]
    """Every scan from left to right: its alias and what it reads."""
    tables: tuple[str, ...]
    """Aliases of the tables it reads, which every cell holds."""
    cells: range
    """The cells that run the query."""
    copies: float
    """How often a row of its streams is sent, on average."""
    why: str = ""
    """Why the query has one cell only."""

    @property
    def inputs(self) -> tuple[Input, ...]:
        """What it reads, each once."""
        return tuple(dict.fromkeys(i for _, i in self.scans))

    @property
    def goes_anywhere(self) -> bool:
        """Rows need not follow the routing, as long as each goes to one cell; nothing is taken back."""
        return self.root.judged.pattern is not Pattern.STRICT and goes_anywhere(self.root.node)

    @property
    def is_spread(self) -> bool:
        return len(self.cells) > 1

    def __str__(self) -> str:
        """For EXPLAIN: `a by hash(x) over 4, c everywhere; 1.33 copies a row`."""
        parts = [f"{alias} {i.routing}" for alias, i in self.scans]
        parts += [f"{alias} everywhere" for alias in self.tables if self.is_spread]
        copies = f"{self.copies:.2f}".rstrip("0").rstrip(".")
        told = f"{copies} {'copy' if copies == '1' else 'copies'} a row"
        return f"{', '.join(parts)}; {told}" + (f" ({self.why})" if self.why else "")


def place(
    root: Root,
    cells: int,
    name: str,
    rates: Mapping[str, float] | None = None,
    *,
    netted: bool = True,
    accepts: Callable[[Expression], bool] | None = None,
) -> Placement:
    """The placement of a query over that many cells.

    `rates`: how many rows each stream has (by name in lower case; 1 if not said). `netted`: whoever gathers the changes
    cancels '-' and '+' of equal rows in one instant that come from different cells. If nobody does, equal rows of a
    STRICT query are kept together. `accepts`: which terms whoever routes can compute; by default all.

    >>> from penstock.sql import bind, parse
    >>> from penstock.plan.catalog import Catalog
    >>> from penstock.plan.query_root import top
    >>> from penstock.optimizer import optimize
    >>> catalog = Catalog()
    >>> for stream in "abc":
    ...     made, = parse(f"CREATE STREAM {stream} (ts BIGINT, x INT, y INT) WATERMARK ts DELAY OF 0")
    ...     catalog.streams[stream] = bind(made, catalog).stream
    >>> text = "SELECT a.ts FROM a [RANGE 5], b [RANGE 5], c [RANGE 5] WHERE a.x = b.x AND b.y = c.y"
    >>> root = top(optimize(bind(parse(text)[0], catalog).query.root))
    >>> print(place(root, 2, "q"))
    a by hash(x) over 2, b by hash(x) over 2, c everywhere; 1.33 copies a row
    >>> print(place(root, 4, "q"))
    a by hash(x) over 2 in 2 copies, b by hash(x) over 2 × hash(y) over 2, c by hash(y) over 2 in 2 copies; 1.67 copies a row
    """
    if cells < 1:
        raise ValueError("a query runs in at least one cell")
    leaves = list(_leaves(root.node))
    scans = [leaf for leaf in leaves if isinstance(leaf, Scan)]
    weights = [float((rates or {}).get(s.stream.name.lower(), 1.0)) for s in scans]
    apart = netted or root.judged.pattern is not Pattern.STRICT
    shares = has_shared(root.node)
    found = [] if shares else dimensions(root.node if apart else Distinct(root.node), accepts)
    axes = grid(found, weights, cells) if cells > 1 else []
    if axes:
        origin, why = 0, ""
    else:
        origin, why = home(name, cells), _why(root.node) if cells > 1 else ""
    inputs = [Input(s.stream, _routing(axes, i, origin)) for i, s in enumerate(scans)]
    return Placement(
        _over(root, inputs),
        tuple((s.alias, i) for s, i in zip(scans, inputs, strict=True)),
        tuple(leaf.alias for leaf in leaves if isinstance(leaf, Relation)),
        range(origin, origin + prod(share for _, share in axes)),
        _copies(inputs, scans, weights),
        why,
    )


def home(name: str, cells: int) -> int:
    """The one cell of a query that cannot be spread: other names, other cells."""
    return int.from_bytes(hashlib.sha256(name.lower().encode()).digest()[:8], "big") % cells


def _routing(axes: Sequence[tuple[Dimension, int]], scan: int, origin: int) -> Routing:
    return Routing(tuple(Axis(share, dimension[scan]) for dimension, share in axes), origin)


def _copies(inputs: Sequence[Input], scans: Sequence[Scan], weights: Sequence[float]) -> float:
    """Rows sent for a row that came; scans that read one input are sent it once."""
    streams = dict(zip((s.stream.name for s in scans), weights, strict=True))
    sent = sum(streams[i.stream.name] * i.routing.copies for i in dict.fromkeys(inputs))
    return sent / sum(streams.values())


def _leaves(node: Node) -> Iterator[Node]:
    """Scans and tables from left to right."""
    return (one for one in every(node) if not one.inputs)


def _over(root: Root, inputs: Sequence[Input]) -> Root:
    """The root with its scans, from left to right, reading these inputs."""
    left = iter(inputs)

    def reading(node: Node) -> Node:
        return Scan(next(left).declared, node.alias) if isinstance(node, Scan) else node

    node = bottom_up(root.node, reading)
    return dataclasses.replace(root, node=node, group=root.group and group_root(node)[0])


def _why(node: Node) -> str:
    """What stands in the way of spreading a query."""
    if isinstance(node, Shared):
        return f"{node.name}, which is read more than once, runs in one place"
    if isinstance(node, Aggregate | Reliable) and not node.keys:
        return "an aggregate without GROUP BY takes all rows"
    if isinstance(node, Windowed) and isinstance(node.window, Rows) and not node.window.partition:
        return "ROWS without PARTITION BY counts all rows"
    if isinstance(node, ToStream) and node.kind is StreamKind.RSTREAM:
        return "RSTREAM repeats all rows"
    return next((why for why in map(_why, node.inputs) if why != _NO_KEY), _NO_KEY)


_NO_KEY = "no key keeps together all that belong together"
