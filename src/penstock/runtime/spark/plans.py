"""From declarations to what a cell runs: physical inputs, their routing, and plans over them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.plan.catalog import Catalog, Stream
from penstock.plan.nodes import Node, Scan, Windowed
from penstock.plan.roots import Root
from penstock.plan.windows import Rows
from penstock.runtime.spark.declared import Declared, planned
from penstock.runtime.spark.layout import Layout, lay_out


@dataclass(frozen=True, slots=True)
class Input:
    """Rows of one stream spread over the cells in one way."""

    name: str
    stream: str
    """The stream's key."""
    logical: Stream
    counted: bool
    """A window counts its rows."""

    def counts(self, cell: int) -> bool:
        """Whether this cell's copy of a row is the one that is counted."""
        return True


@dataclass(frozen=True, slots=True)
class Flowing:
    """All a cell needs to know."""

    catalog: Catalog
    """Inputs as streams."""
    inputs: tuple[Input, ...]
    roots: dict[str, Root]
    kept: tuple[str, ...]
    """Queries whose answers are kept as views."""
    layout: Layout


def flowing(declared: Declared, catalog: Catalog, cells: int) -> Flowing:
    roots = {name: planned(sql, catalog) for name, sql in declared.queries.items()}
    read = {s.name.lower() for r in roots.values() for s in _scanned(r.node)}
    counted = {s for r in roots.values() for s in _counted(r.node)}
    inputs = tuple(Input(k, k, s, k in counted) for k, s in catalog.streams.items() if k in read)
    streams = {i.name: replace(i.logical, name=i.name) for i in inputs}
    return Flowing(
        Catalog(streams, dict(catalog.tables), dict(catalog.functions)),
        inputs,
        roots,
        tuple(declared.kept),
        lay_out(declared.streams.values()),
    )


def _scanned(node: Node) -> list[Stream]:
    if isinstance(node, Scan):
        return [node.stream]
    return [s for i in node.inputs for s in _scanned(i)]


def _counted(node: Node) -> list[str]:
    """Streams below a window that counts rows."""
    if isinstance(node, Windowed) and isinstance(node.window, Rows):
        return [s.name.lower() for s in _scanned(node)]
    return [s for i in node.inputs for s in _counted(i)]
