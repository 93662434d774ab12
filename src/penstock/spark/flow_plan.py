"""From declarations to what cells run: inputs, their routing, and plans over them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from penstock.engine.clock_groups import ClockGroups, Reading, risen
from penstock.partitioning.log_retention import horizon
from penstock.partitioning.placement import Input, Placement, place
from penstock.partitioning.semijoin_filter import Sieve, sieves
from penstock.partitioning.stages import Lower, Stages, stages, whole
from penstock.plan.catalog import Catalog, Stream
from penstock.plan.expressions import Call, Column, Expression
from penstock.plan.function_signatures import FunctionError, common
from penstock.plan.nodes import Node, Scan, Windowed
from penstock.plan.policies import Policies
from penstock.plan.query_root import Root, top
from penstock.plan.rank_levels import USUAL
from penstock.plan.sampled_aggregate import partial
from penstock.plan.state_upkeep import Upkeep
from penstock.plan.traversal import every
from penstock.plan.windows import Rows
from penstock.spark.declarations_log import Declared, planned
from penstock.spark.union_layout import Layout, lay_out
from penstock.types.data_type import Type
from penstock.types.event_time import EARLIEST

Rates = Mapping[str, float]
"""How many rows streams have, in proportion."""


@dataclass(frozen=True, slots=True)
class Fed:
    """An input as rows of a step carry it: by its place in `Flowing.inputs`."""

    input: Input
    stage: int
    """Which of a cell's stages reads it: 0, or 1 above a cut."""
    below: str | None
    """The query whose part below a cut gives the rows; None: a stream that was declared."""
    counted: bool
    """A window counts its rows."""
    speaks: bool
    """The first input of a declared stream: late rows are counted here."""

    @property
    def name(self) -> str:
        """The key of the stream that a stage's engine knows."""
        return self.input.name.lower()

    @property
    def stream(self) -> str:
        """The key of the stream that was declared, or that is named after a part below."""
        return self.input.stream.name.lower()


@dataclass(frozen=True, slots=True)
class Flowing:
    """All queries of a flow, placed."""

    catalog: Catalog
    """As declared."""
    inputs: tuple[Fed, ...]
    queries: dict[str, Stages]
    begun: dict[str, tuple[str, int | None]]
    """What a query says and since when, under the names of its parts too: the same name with another meaning is another query."""
    kept: tuple[str, ...]
    """Queries whose answers are kept as views."""
    layout: Layout
    """Of the declared streams; then of those between stages."""
    upkeep: Upkeep
    policies: Policies
    weights: dict[str, float]
    """What queries count for beside each other, under the names of their parts too."""
    readings: tuple[Reading, ...]
    """Which declared streams queries read together, and since when the first of them does."""
    sieves: tuple[Sieve, ...] = ()
    """What parts below cuts may keep back."""

    def together(self) -> dict[str, Type]:
        """The columns of all queries' changes in one table: of one name one type, text where they have none in common."""
        found: dict[str, Type] = {}
        for query in self.queries.values():
            for field in query.root.said:
                try:
                    found[field.name] = common((found.get(field.name, Type.NULL), field.type))
                except FunctionError:
                    found[field.name] = Type.STRING
        return found

    def keeps(self, name: str) -> bool | None:
        """Whether a query's answer is kept; if not, nobody asks for it."""
        return True if name in self.kept else None

    @property
    def horizon(self) -> int | None:
        """How far back rows can matter to any of the queries; None: there is no end to it."""
        found = [horizon(q.root.node, kept=name in self.kept) for name, q in self.queries.items()]
        return None if None in found else max((f for f in found if f is not None), default=0)

    @property
    def lower(self) -> dict[str, Lower]:
        """The parts below cuts, by the names they run under."""
        return {low.name: low for query in self.queries.values() for low in query.lower}

    def _parts(self, cell: int, stage: int) -> Iterator[tuple[str, Placement]]:
        """What a stage of a cell runs: below cuts parts, elsewhere whole queries."""
        for query, placed in self.queries.items():
            for own, name, part in placed.named(query):
                if own == stage and cell in part.cells:
                    yield name, part

    def roots(self, cell: int, stage: int) -> dict[str, Root]:
        """The plans that a stage of a cell runs."""
        return {name: part.root for name, part in self._parts(cell, stage)}

    def clock_groups(self, watermarks: Mapping[str, int]) -> ClockGroups:
        """Which declared streams share a clock, and where they stand once all that these watermarks allow is applied."""
        groups = ClockGroups.of(self.readings, {}, EARLIEST - 1)
        risen(groups, watermarks)
        return groups

    def part_streams(self, part: str) -> frozenset[str]:
        """The declared streams that a part below a cut reads, by their keys."""
        return _declared(self.lower[part].placement, self.catalog.streams)

    def read_by(self, query: str) -> frozenset[str]:
        """The declared streams that a query reads, by their keys."""
        parts = (_declared(part, self.catalog.streams) for part in self.queries[query].parts)
        return frozenset().union(*parts)

    def read(self, cell: int, stage: int = 0) -> set[str]:
        """The declared streams that a stage of a cell reads, by their keys."""
        read = {i.stream.name.lower() for _, part in self._parts(cell, stage) for i in part.inputs}
        return read & self.catalog.streams.keys()

    def streams(self, cell: int, stage: int) -> dict[str, Stream]:
        """The inputs that a stage of a cell reads."""
        read = {i.name.lower() for _, part in self._parts(cell, stage) for i in part.inputs}
        return {f.name: f.input.declared for f in self.inputs if f.stage == stage and f.name in read}


def flowing(declared: Declared, catalog: Catalog, cells: int, rates: Rates) -> Flowing:
    """Plan and place every query; the same in every process. `rates`: see `place`."""
    queries = {name: _planned(name, declared, catalog, cells, rates) for name in declared.queries}
    begun = {name: (sql, declared.since.get(name)) for name, sql in declared.queries.items()}
    begun |= {low.name: begun[name] for name, query in queries.items() for low in query.lower}
    inner = [low.stream for query in queries.values() for low in query.lower]
    return Flowing(
        catalog,
        tuple(_fed(queries)),
        queries,
        begun,
        tuple(declared.kept),
        lay_out([*declared.streams.values(), *inner]),
        declared.upkeep,
        declared.policies,
        _weights(declared, queries),
        _readings(declared, queries),
        tuple(sieve for query in queries.values() for sieve in sieves(query)),
    )


def _declared(part: Placement, streams: Mapping[str, Stream]) -> frozenset[str]:
    """The declared streams that a part of a query reads, by their keys."""
    return frozenset(key for key in (i.stream.name.lower() for i in part.inputs) if key in streams)


def _readings(declared: Declared, queries: dict[str, Stages]) -> tuple[Reading, ...]:
    found: dict[frozenset[str], int] = {}
    for name, query in queries.items():
        streams = frozenset().union(*(_declared(part, declared.streams) for part in query.parts))
        since = declared.since.get(name)
        since = EARLIEST if since is None else since
        found[streams] = min(found.get(streams, since), since)
    return tuple(Reading(streams, since) for streams, since in found.items())


def _weights(declared: Declared, queries: dict[str, Stages]) -> dict[str, float]:
    made = {name: declared.weights.get(name, USUAL) for name in queries}
    return made | {low.name: made[name] for name, query in queries.items() for low in query.lower}


def _fed(queries: dict[str, Stages]) -> Iterator[Fed]:
    """Every input of every stage, once."""
    parts = [(stage, part) for name, query in queries.items() for stage, _, part in query.named(name)]
    below = {low.stream.name: name for name, query in queries.items() for low in query.lower}
    counted = {(stage, name) for stage, part in parts for name in _counted(part.root.node)}
    seen: set[tuple[int, str]] = set()
    spoken: set[str] = set()
    for stage, part in parts:
        for read in part.inputs:
            if (stage, read.name) not in seen:
                seen.add((stage, read.name))
                stream = read.stream.name
                speaks = stream not in below and stream not in spoken
                spoken.add(stream)
                yield Fed(read, stage, below.get(stream), (stage, read.name.lower()) in counted, speaks)


def _planned(name: str, declared: Declared, catalog: Catalog, cells: int, rates: Rates) -> Stages:
    """A query's plan, placed.

    Of groups that answer from samples the GROUP BY is placed as it was written. What expires in a cell is estimated there, so the
    estimates (`plan.sampled_aggregate`) come into the plan of a cell and not before.
    """
    policies = declared.policies
    node, levels = planned(declared.queries[name], catalog, declared.altered.get(name, {}).values())
    clock = next((s.time_type for s in catalog.streams.values()), Type.TIMESTAMP)
    sampled = partial(node, levels, clock, policies)
    if sampled is None:
        return _placed(top(node, levels), cells, name, rates, waits=policies.budget is not None)
    written = replace(sampled, node=node, visible=len(node.schema), extra=0)
    found = place(written, cells, name, rates, netted=False, accepts=can_hash)
    made = partial(found.root.node, levels, clock, policies)
    assert made is not None, "over other streams it is the same plan"
    return Stages(sampled, (), replace(found, root=made))


def _placed(root: Root, cells: int, name: str, rates: Rates, *, waits: bool) -> Stages:
    """Nobody gathers a step's changes before the sinks: equal rows of a STRICT query stay together.

    `waits`: rows may wait, so that a clock does not tell until when a part below has said everything: the query is not cut.
    """
    found = stages(root, cells, name, rates, netted=False, accepts=can_hash)
    odd = any(f.type in (Type.INTERVAL, Type.NULL) for low in found.lower for f in low.stream.schema)
    if odd or (waits and found.lower):
        return whole(root, cells, name, rates, netted=False, accepts=can_hash)  # Spark has no such columns
    return found


def can_hash(term: Expression) -> bool:
    """Whether Spark can compute a routing key as a cell would: columns, and casts between numbers that lose nothing."""
    if isinstance(term, Column):
        return True
    if not isinstance(term, Call) or term.function != "cast":
        return False
    (argument,) = term.arguments
    kinds = (argument.type, term.type)
    if argument.type.is_integer:
        # To FLOAT Spark goes by way of DOUBLE in one step and without rounding twice: numbers that a cell finds equal would part.
        exact = argument.type in (Type.TINYINT, Type.SMALLINT) or term.type is not Type.FLOAT
        return can_hash(argument) and (term.type.is_integer or (term.type.is_float and exact))
    return can_hash(argument) and all(kind.is_float for kind in kinds)


def _counted(node: Node) -> list[str]:
    """Inputs below a window that counts rows."""
    counting = (n for n in every(node) if isinstance(n, Windowed) and isinstance(n.window, Rows))
    return [s for one in counting for s in _scanned(one)]


def _scanned(node: Node) -> list[str]:
    return [one.stream.name.lower() for one in every(node) if isinstance(one, Scan)]
