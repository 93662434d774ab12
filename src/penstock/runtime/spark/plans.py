"""From declarations to what cells run: inputs, their routing, and plans over them."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.data.types import Type
from penstock.flow.horizon import horizon
from penstock.flow.partition import Input, Placement, place
from penstock.plan.catalog import Catalog, Stream
from penstock.plan.expressions import Call, Column, Expression
from penstock.plan.functions import FunctionError, common
from penstock.plan.nodes import Node, Scan, Windowed
from penstock.plan.roots import Root
from penstock.plan.windows import Rows
from penstock.runtime.spark.declared import Declared, planned
from penstock.runtime.spark.layout import Layout, lay_out


@dataclass(frozen=True, slots=True)
class Fed:
    """An input as rows of a step carry it: by its place in `Flowing.inputs`."""

    input: Input
    counted: bool
    """A window counts its rows."""
    speaks: bool
    """The first input of its stream: late rows are counted here."""

    @property
    def name(self) -> str:
        """The key of the stream that a cell's engine knows."""
        return self.input.name.lower()

    @property
    def stream(self) -> str:
        """The key of the stream that was declared."""
        return self.input.stream.name.lower()


@dataclass(frozen=True, slots=True)
class Flowing:
    """All queries of a flow, placed."""

    catalog: Catalog
    """As declared."""
    inputs: tuple[Fed, ...]
    placements: dict[str, Placement]
    begun: dict[str, tuple[str, int | None]]
    """What a query says and since when: the same name with another meaning is another query."""
    kept: tuple[str, ...]
    """Queries whose answers are kept as views."""
    layout: Layout

    def together(self) -> dict[str, Type]:
        """The columns of all queries' changes in one table: of one name one type, text where they have none in common."""
        found: dict[str, Type] = {}
        for placement in self.placements.values():
            for field in placement.root.node.schema[: placement.root.visible]:
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
        found = [horizon(p.root.node, kept=name in self.kept) for name, p in self.placements.items()]
        return None if None in found else max((f for f in found if f is not None), default=0)

    def roots(self, cell: int) -> dict[str, Root]:
        """The queries that a cell runs."""
        return {name: p.root for name, p in self.placements.items() if cell in p.cells}

    def read(self, cell: int) -> set[str]:
        """The declared streams that a cell reads, by their keys."""
        return {i.stream.name.lower() for p in self.placements.values() if cell in p.cells for i in p.inputs}

    def streams(self, cell: int) -> dict[str, Stream]:
        """The inputs that a cell reads."""
        read = {i.name.lower() for p in self.placements.values() if cell in p.cells for i in p.inputs}
        return {fed.name: fed.input.declared for fed in self.inputs if fed.name in read}


def flowing(declared: Declared, catalog: Catalog, cells: int) -> Flowing:
    """Plan and place every query; the same in every process."""
    placements = {name: _placed(planned(sql, catalog), cells, name) for name, sql in declared.queries.items()}
    counted = {name for p in placements.values() for name in _counted(p.root.node)}
    inputs: dict[str, Fed] = {}
    spoken: set[str] = set()
    for placement in placements.values():
        for read in placement.inputs:
            if read.name not in inputs:
                stream = read.stream.name.lower()
                inputs[read.name] = Fed(read, read.name.lower() in counted, stream not in spoken)
                spoken.add(stream)
    return Flowing(
        catalog,
        tuple(inputs.values()),
        placements,
        {name: (sql, declared.since.get(name)) for name, sql in declared.queries.items()},
        tuple(declared.kept),
        lay_out(declared.streams.values()),
    )


def _placed(root: Root, cells: int, name: str) -> Placement:
    """Nobody gathers a step's changes before the sinks: equal rows of a STRICT query stay together."""
    found = place(root, cells, name, netted=False)
    if all(can_hash(term) for i in found.inputs for axis in i.routing.axes for term in axis.key or ()):
        return found
    return place(root, 1, name, netted=False)


def can_hash(term: Expression) -> bool:
    """Whether Spark can compute a routing key as a cell would: columns, and casts between numbers that lose nothing."""
    if isinstance(term, Column):
        return True
    if not isinstance(term, Call) or term.function != "cast":
        return False
    (argument,) = term.arguments
    widens = argument.type.is_integer and (term.type.is_integer or term.type.is_float)
    return can_hash(argument) and (widens or (argument.type.is_float and term.type.is_float))


def _counted(node: Node) -> list[str]:
    """Inputs below a window that counts rows."""
    if isinstance(node, Windowed) and isinstance(node.window, Rows):
        return _scanned(node)
    return [s for i in node.inputs for s in _counted(i)]


def _scanned(node: Node) -> list[str]:
    if isinstance(node, Scan):
        return [node.stream.name.lower()]
    return [s for i in node.inputs for s in _scanned(i)]
