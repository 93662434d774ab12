"""Stages: a query whose rows must be together by one key, and their results by another.

`stages` places a query as `place` does, or cuts its plan. The parts below the cut are placed on their own. Their changes are
dealt out again by a key of the part above, which reads them as inner inputs (`plan.exchange_input`) beside streams of its
own. Cells of the part above are other cells than those below: each stage has a clock.

Time       an inner input's watermark is the least clock of the cells below, plus one.
Equality   a '-' names values and an end, not a row: it may come from another cell than the '+'. Inner inputs are dealt out
           by values alone, so it finds its way. Pairs of one instant cross too: an operator in one engine sees them as well.
Groups     a part below sends '-' for the row that a group replaces, since the part above does not know its key.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.partitioning.exchange_points import Cut, cuts
from penstock.partitioning.placement import Placement, place
from penstock.plan.catalog import Stream
from penstock.plan.deadline import planning
from penstock.plan.exchange_input import inner_stream, leaf
from penstock.plan.expressions import Column, Expression, Named
from penstock.plan.nodes import Node, Project, Scan
from penstock.plan.query_root import Root
from penstock.plan.rank_levels import Levels
from penstock.plan.required_columns import Needed, all_of, needed_below
from penstock.plan.traversal import with_inputs
from penstock.plan.update_pattern import group_root, is_table, judge, pattern
from penstock.types.data_type import Type
from penstock.types.schema import Schema

MOST_COPIES = 2.0
"""Copies of a row, on average, that cost no more than a second exchange."""


@dataclass(frozen=True, slots=True)
class Lower:
    """A part below the cut, whose changes are the rows of `stream`."""

    placement: Placement
    stream: Stream

    @property
    def name(self) -> str:
        """Under which its cells run it."""
        return self.stream.name

    def rows(self, changes: pa.Table) -> pa.Table:
        """What the part said, as rows of the stream that the part above reads."""
        sign = pc.if_else(
            pc.equal(changes.column("__op"), "+"), pa.scalar(1, pa.int8()), pa.scalar(-1, pa.int8())
        )
        return changes.remove_column(0).add_column(2, "__sign", sign)


@dataclass(frozen=True, slots=True)
class Stages:
    """One query over the cells of one stage or two."""

    root: Root
    """The query whole: how far back its rows matter (`partitioning.log_retention`) is told by this."""
    lower: tuple[Lower, ...]
    """The first stage; none: the query was not cut."""
    upper: Placement
    """The part whose changes are the query's."""

    @property
    def parts(self) -> Iterator[Placement]:
        """All placements, the lower first."""
        yield from (low.placement for low in self.lower)
        yield self.upper

    def named(self, name: str) -> Iterator[tuple[int, str, Placement]]:
        """Every part with its stage, 0 or 1, and the name it runs under; a query that was not cut runs in the first."""
        yield from ((0, low.name, low.placement) for low in self.lower)
        yield int(bool(self.lower)), name, self.upper

    @property
    def cells(self) -> int:
        """How many take part."""
        return max(len(part.cells) for part in self.parts)

    @property
    def is_spread(self) -> bool:
        return any(part.is_spread for part in self.parts)

    def __str__(self) -> str:
        """For EXPLAIN: `stage 1: a by hash(x) over 4, b by hash(x) over 4; 1 copy a row; stage 2: q@1 by hash(s) over 4; 1 copy a row`."""
        if not self.lower:
            return str(self.upper)
        first = "; ".join(
            f"{low.name} from {low.placement}" if len(self.lower) > 1 else str(low.placement)
            for low in self.lower
        )
        return f"stage 1: {first}; stage 2: {self.upper}"


def stages(
    root: Root,
    cells: int,
    name: str,
    rates: Mapping[str, float] | None = None,
    *,
    netted: bool = True,
    accepts: Callable[[Expression], bool] | None = None,
) -> Stages:
    """The query in one stage, or in two if that is worth a second exchange; see `place` for what is given.

    >>> from penstock.sql import bind, parse
    >>> from penstock.plan.catalog import Catalog
    >>> from penstock.plan.query_root import top
    >>> from penstock.optimizer import optimize
    >>> catalog = Catalog()
    >>> for stream in "ab":
    ...     made, = parse(f"CREATE STREAM {stream} (ts BIGINT, x INT, s STRING) WATERMARK ts DELAY OF 0")
    ...     catalog.streams[stream] = bind(made, catalog).stream
    >>> text = "SELECT b.s, COUNT(*) AS n FROM a [RANGE 5], b [RANGE 5] WHERE a.x = b.x GROUP BY b.s"
    >>> root = top(optimize(bind(parse(text)[0], catalog).query.root))
    >>> print(stages(root, 4, "q"))
    stage 1: a by hash(x) over 4, b by hash(x) over 4; 1 copy a row; stage 2: q@1 by hash(s) over 4; 1 copy a row
    """
    with planning():
        one = whole(root, cells, name, rates, netted=netted, accepts=accepts)
        if cells == 1 or _is_good(one.upper):
            return one

        found = two_stages(root, cells, name, rates, netted=netted, accepts=accepts)
        return min((f for f in found if _is_worth_it(f, one)), key=_cost, default=one)


def whole(
    root: Root,
    cells: int,
    name: str,
    rates: Mapping[str, float] | None = None,
    *,
    netted: bool = True,
    accepts: Callable[[Expression], bool] | None = None,
) -> Stages:
    """The query in one stage."""
    return Stages(root, (), place(root, cells, name, rates, netted=netted, accepts=accepts))


def two_stages(
    root: Root,
    cells: int,
    name: str,
    rates: Mapping[str, float] | None = None,
    *,
    netted: bool = True,
    accepts: Callable[[Expression], bool] | None = None,
) -> Iterator[Stages]:
    """Every way to cut the query that spreads all that lies below the cut, the highest cuts first."""
    for plan, cut in cuts(root.node):
        above, parts = _parted(plan, cut, name, root.levels)
        lower = tuple(
            Lower(place(part, cells, stream.name, rates, accepts=accepts), stream) for part, stream in parts
        )
        if all(low.placement.is_spread for low in lower):
            upper = dataclasses.replace(root, node=above, group=root.group and group_root(above)[0])
            yield Stages(root, lower, place(upper, cells, name, rates, netted=netted, accepts=accepts))


def _is_good(placement: Placement) -> bool:
    """Whether a second exchange would cost more than it could save."""
    return placement.is_spread and placement.copies <= MOST_COPIES


def _is_worth_it(cut: Stages, one: Stages) -> bool:
    """Above a cut one cell may remain only if one cell was all there was."""
    return not one.is_spread or (cut.upper.is_spread and _copies(cut) < _copies(one))


def _cost(cut: Stages) -> tuple[bool, float]:
    """The part above spread if that can be, with few copies. Else the first: it leaves least for the one cell."""
    return not cut.upper.is_spread, _copies(cut) if cut.upper.is_spread else 0.0


def _copies(cut: Stages) -> float:
    """How often a row is sent on its way through all stages."""
    return max((low.placement.copies for low in cut.lower), default=0.0) + cut.upper.copies


# ------------------------------------------------------------------ cutting a plan


def _parted(plan: Node, cut: Cut, name: str, levels: Levels) -> tuple[Node, list[tuple[Root, Stream]]]:
    """The part above, and every part below with the stream that its changes are."""
    leaves: dict[Node, Node] = {}
    parts = []
    for number, (node, needed) in enumerate(_carried(plan, cut).items(), 1):
        carried = sorted(needed) or [0]
        below = Project(node, tuple(_outputs(node.schema, carried)))
        stream = inner_stream(f"{name}@{number}", below.schema, _time_type(node))
        leaves[node] = leaf(stream, pattern(node), node.schema, carried)
        # No group: what a group's row replaces must be told to those who do not know its key.
        part = Root(below, len(carried), judge(below), None, (), False, levels=levels, inner=True)
        parts.append((part, stream))

    def rebuilt(node: Node) -> Node:
        return leaves.get(node) or with_inputs(node, tuple(map(rebuilt, node.inputs)))

    return rebuilt(plan), parts


def _carried(plan: Node, cut: Cut) -> dict[Node, Needed]:
    """The cut nodes from left to right, each with the columns that somebody above reads."""
    found: dict[Node, Needed] = {}

    def walk(node: Node, needed: Needed) -> None:
        if node in cut:
            found[node] = found.get(node, frozenset()) | needed
            return
        for below, read in zip(node.inputs, needed_below(node, needed), strict=True):
            walk(below, read)

    walk(plan, all_of(plan))
    return found


def _outputs(schema: Schema, carried: Sequence[int]) -> Iterator[Named]:
    """Columns under names of their own: those of a join may share one."""
    taken = {"__op", "__ts", "__exp", "__sign"}
    for i in carried:
        field = schema[i]
        name = field.name
        while name.lower() in taken:
            name += "_"
        taken.add(name.lower())
        yield Named(Column(i, field.type, field.name), name)


def _time_type(node: Node) -> Type:
    """How the streams below tell time; all of a session's do it alike."""
    while not isinstance(node, Scan):
        node = next(i for i in node.inputs if not is_table(i))
    return node.stream.time_type
