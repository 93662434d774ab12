"""Cores: the parts of a plan in which rows may be worked on out of turn, and what stands above them.

A core selects and joins rows of windowed streams and looks plain tables up; its results end as announced. Each of them is the
same whenever it is made, so its rows may wait, and go by rank. What is above (DISTINCT, GROUP BY, EXCEPT, a window by count …) must
see changes in event-time order: it reads a core as an inner input, behind the core's progress.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.errors import PlanError
from penstock.plan.catalog import Stream
from penstock.plan.exchange_input import inner_stream, leaf
from penstock.plan.expressions import (
    Column,
    Expression,
    Named,
    columns,
    conjuncts,
    rewrite,
    shifted,
)
from penstock.plan.nodes import (
    Aggregate,
    Cover,
    Filter,
    Join,
    Node,
    Project,
    Rank,
    Relation,
    Reliable,
    Scan,
    Shared,
    Windowed,
)
from penstock.plan.projections import through
from penstock.plan.query_root import Root
from penstock.plan.rank_levels import Disjunct, disjuncts
from penstock.plan.sampled_aggregate import is_estimates
from penstock.plan.traversal import every, with_inputs
from penstock.plan.update_pattern import group_root, pattern
from penstock.plan.windows import Announced, Rows
from penstock.types.data_type import Type
from penstock.types.schema import Schema


@dataclass(frozen=True, slots=True)
class Input:
    """What a core reads: rows with a lifetime, and which of them it wants."""

    node: Node
    tests: tuple[Expression, ...]
    """Over the node's schema."""
    table: bool

    @property
    def schema(self) -> Schema:
        return self.node.schema


@dataclass(frozen=True, slots=True)
class Covered:
    """A rank of which every object is to be worked on in every period: columns over an input's own schema, criteria over it and the
    tables they read, side by side."""

    level: int
    which: int
    tables: tuple[int, ...]
    predicates: tuple[Expression, ...]
    """What joins rows of the input and of these tables."""
    criteria: Expression
    by: tuple[int, ...]
    every: int
    schema: Schema
    time: int | None
    """The column that tells when a row came."""


@dataclass(frozen=True, slots=True)
class Core:
    """`node`: the part of the plan; `above`: its projections and filters over the join, outermost first."""

    node: Node
    inputs: tuple[Input, ...]
    predicates: tuple[Expression, ...]
    """Over the inputs' schemas side by side."""
    above: tuple[Node, ...]
    stream: Stream | None
    """As which the plan above reads its changes; None: they are the query's own."""
    carried: tuple[int, ...]
    """Which of its columns that stream brings."""

    def covered(self, ranks: Sequence[Rank], over: Schema) -> tuple[Covered, ...]:
        """COVER clauses over a query's FROM as they are over one of this core's inputs."""
        found = _places(self.schema)
        made = []
        for rank in ranks:
            if rank.cover is None:
                continue
            read = [*columns(rank.criteria), *rank.cover.by]
            if not all(len(found.get((over[c.index].qualifier, over[c.index].name), [])) == 1 for c in read):
                continue
            made.append(self._covered(rank, rank.cover, over, found))
        return tuple(made)

    def _covered(
        self, rank: Rank, cover: Cover, over: Schema, found: Mapping[tuple[str, str], list[int]]
    ) -> Covered:
        starts = side_by_side(self.inputs)
        by = [found[over[c.index].qualifier, over[c.index].name][0] for c in cover.by]
        which = input_at(starts, by[0])
        criteria = _moved(rank.criteria, over, found)
        tables = self._linked(which, {input_at(starts, c.index) for c in columns(criteria)} - {which})
        inputs = (which, *tables)
        place = {
            starts[i] + k: at
            for i, start in zip(inputs, side_by_side([self.inputs[i] for i in inputs]), strict=True)
            for k, at in enumerate(range(start, start + len(self.inputs[i].schema)))
        }

        def own(expression: Expression) -> Expression:
            return rewrite(expression, lambda c: Column(place[c.index], c.type, c.name))

        joins = [p for p in self.predicates if all(input_at(starts, c.index) in inputs for c in columns(p))]
        return Covered(
            rank.level,
            which,
            tables,
            tuple(map(own, joins)) if tables else (),
            own(criteria),
            tuple(k - starts[which] for k in by),
            cover.every,
            self.inputs[which].schema,
            time_of(self.inputs[which]),
        )

    def _linked(self, which: int, wanted: set[int]) -> tuple[int, ...]:
        """Tables, with those between them and an input by which rows of it find theirs."""
        starts = side_by_side(self.inputs)
        met = [{input_at(starts, c.index) for c in columns(p)} for p in self.predicates]
        way: dict[int, set[int]] = {which: set()}
        while not wanted <= way.keys():
            step = next(
                (
                    (i, way[j])
                    for some in met
                    for i in some
                    for j in some & way.keys()
                    if self._is_next(i, some, way)
                ),
                None,
            )
            if step is None:
                unknown = self.inputs[min(wanted - way.keys())].schema[0].qualifier
                raise PlanError(
                    f"COVER cannot tell which rows of {unknown} belong to a row of the stream",
                    hint="the tables that its criteria read are joined with the stream itself, or with each other",
                )
            way[step[0]] = step[1] | {step[0]}
        return tuple(sorted(set().union(*(way[i] for i in wanted))))

    def _is_next(self, which: int, met: set[int], way: Mapping[int, set[int]]) -> bool:
        """Whether a predicate over these inputs leads to a table from inputs that are reached."""
        return which not in way and self.inputs[which].table and met - {which} <= way.keys()

    @property
    def schema(self) -> Schema:
        """The inputs' columns side by side."""
        return tuple(field for one in self.inputs for field in one.schema)

    def disjuncts(self, ranks: Sequence[Rank], over: Schema) -> tuple[Disjunct, ...]:
        """Criteria over a query's FROM as determinants over this core's columns; those that read anything else are left out."""
        found: Mapping[tuple[str, str], list[int]] = _places(self.schema)
        made = []
        for rank in ranks:
            for one in disjuncts(rank):
                where = [
                    found.get((over[c.index].qualifier, over[c.index].name), [])
                    for c in columns(one.criteria)
                ]
                if all(len(at) == 1 for at in where):
                    made.append(Disjunct(rank.level, _moved(one.criteria, over, found)))
        return tuple(made)


def _places(schema: Schema) -> dict[tuple[str, str], list[int]]:
    found: dict[tuple[str, str], list[int]] = {}
    for i, field in enumerate(schema):
        found.setdefault((field.qualifier, field.name), []).append(i)
    return found


def _moved(expression: Expression, over: Schema, places: Mapping[tuple[str, str], list[int]]) -> Expression:
    def moved(column: Column) -> Expression:
        field = over[column.index]
        (at,) = places[field.qualifier, field.name]
        return Column(at, column.type, column.name)

    return rewrite(expression, moved)


def cores(root: Root, name: str) -> tuple[Root | None, tuple[Core, ...]]:
    """A query's plan above its cores, and the cores; no plan above: the only core is all there is."""
    whole = _core(root.node)
    if whole is not None:
        return None, (whole,)
    found: list[Core] = []

    shared: dict[int, Node] = {}

    def cut(node: Node) -> Node:
        if is_estimates(node):
            return node
        if isinstance(node, Shared):
            if id(node) not in shared:
                shared[id(node)] = with_inputs(node, (cut(node.input),))
            return shared[id(node)]
        core = _core(node)
        if core is None:
            return with_inputs(node, tuple(map(cut, node.inputs)))
        carried = tuple(range(len(node.schema)))
        names = tuple(Named(Column(i, f.type, f.name), f"c{i}") for i, f in enumerate(node.schema))
        stream = inner_stream(f"{name}#{len(found) + 1}", Project(node, names).schema, _time_type(core))
        found.append(replace(core, stream=stream, carried=carried))
        return leaf(stream, pattern(node), node.schema, carried)

    above = cut(root.node)
    group = group_root(above)[0] if root.group is not None else None
    return replace(root, node=above, group=group), tuple(found)


def estimated(above: Node, cores: Sequence[Core]) -> tuple[int, tuple[Expression, ...]] | None:
    """The core whose results are grouped by groups that answer from samples, and the groups' keys over its columns."""
    for node in every(above):
        if isinstance(node, Reliable):
            assert isinstance(node.rows, Aggregate)
            for n, core in enumerate(cores):
                if core.stream is not None and _reads(node.rows.input, core.stream.name):
                    keys = [key.expression for key in node.rows.keys[: node.keys]]
                    for project in (p for p in core.above if isinstance(p, Project)):
                        keys = [through(key, project) for key in keys]
                    return n, tuple(keys)
    return None


def _reads(node: Node, stream: str) -> bool:
    """Whether a node is the changes of a stream and nothing else."""
    while isinstance(node, Project | Windowed):
        node = node.input
    return isinstance(node, Scan) and node.stream.name == stream


def _time_type(core: Core) -> Type:
    (scan, *_) = (_scan(one.node) for one in core.inputs if not one.table)
    return scan.stream.time_type


def _scan(node: Node) -> Scan:
    while not isinstance(node, Scan):
        (node,) = node.inputs
    return node


def time_of(one: Input) -> int | None:
    """Which column of a stream's rows tells when they came, if they still have it."""
    node = one.node.input if isinstance(one.node, Windowed) else one.node
    return node.stream.time if isinstance(node, Scan) else None


def _core(node: Node) -> Core | None:
    """The core that a node is, if it is one."""
    above: list[Node] = []
    below = node
    while isinstance(below, Project | Filter):
        above.append(below)
        below = below.input
    inputs = [_input(i) for i in (below.inputs if isinstance(below, Join) else (below,))]
    known = [i for i in inputs if i is not None]
    if len(known) < len(inputs) or all(i.table for i in known):
        return None
    predicates = below.predicates if isinstance(below, Join) else ()
    if len(known) == 1 and not isinstance(below, Join):
        # Filters over the only input come first.
        while above and isinstance(last := above[-1], Filter):
            known[0] = replace(known[0], tests=(*known[0].tests, *conjuncts(last.predicate)))
            above.pop()
    return Core(node, tuple(known), predicates, tuple(above), None, ())


def _input(node: Node) -> Input | None:
    """A stream or a plain table, behind whatever looks at single rows only."""
    tests: list[Expression] = []
    below = node
    while isinstance(below, Filter):
        tests += conjuncts(below.predicate)
        below = below.input
    base: Node = below
    while isinstance(base, Filter | Project):
        base = base.input
    if isinstance(base, Relation) and not base.table.retroactive:
        return Input(node, (), True)
    if isinstance(base, Scan) or (
        isinstance(base, Windowed)
        and isinstance(base.input, Scan)
        and not isinstance(base.window, Rows | Announced)
    ):
        return Input(below, tuple(tests), False)
    return None


def input_at(starts: Sequence[int], column: int) -> int:
    """Which input a column is of, by where each one's begin."""
    return max(i for i, start in enumerate(starts) if start <= column)


def side_by_side(inputs: Sequence[Input]) -> list[int]:
    """Where each input's columns begin."""
    return [sum(len(i.schema) for i in inputs[:k]) for k in range(len(inputs))]


def own_tests(core: Core, which: int) -> tuple[Expression, ...]:
    """What an input's rows must pass, over the inputs' columns side by side."""
    start = side_by_side(core.inputs)[which]
    return tuple(shifted(test, start) for test in core.inputs[which].tests)
