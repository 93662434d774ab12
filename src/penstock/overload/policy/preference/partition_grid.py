"""How the rows of a core's inputs are dealt out over cells: in how many a row is, and which values a cell can meet at all.

What a cell has counted of rows that others have copies of counts for all of them; a value whose rows all go to another cell promises
nothing here; and of what all cells have counted together a part is this one's (`partitioning.placement`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from penstock.overload.operator_queues import Routes
from penstock.overload.policy.preference.join_attributes import Attribute
from penstock.partitioning.placement import Axis, Routing
from penstock.partitioning.router import Router
from penstock.plan.expressions import Column as ColumnRef
from penstock.plan.expressions import Expression, rewrite
from penstock.plan.nodes import Filter, Node, Project, Scan, Windowed
from penstock.plan.projections import through
from penstock.state.strings import Strings
from penstock.types.batch import Array, Column, Ints


@dataclass(frozen=True, slots=True)
class Dealt:
    """Of the streams that a cell's engine knows, by their names in lower case; `cell`: which one it is."""

    routings: Mapping[str, Routing]
    cell: int


class Grid:
    """The cells of one core, seen from one of them."""

    def __init__(self, core: Routes, dealt: Dealt) -> None:
        self._core = core
        self._cell = dealt.cell
        found = {i: self._scan(one.node) for i, one in enumerate(core.core.inputs)}
        self._axes: dict[int, tuple[Axis, ...]] = {
            i: dealt.routings[scan].axes for i, scan in found.items() if scan in dealt.routings
        }
        self._origin = next((dealt.routings[s].origin for s in found.values() if s in dealt.routings), 0)

    def _scan(self, node: Node) -> str:
        """The stream that an input reads, if it reads one."""
        while isinstance(node, Project | Filter | Windowed):
            node = node.input
        return node.stream.name.lower() if isinstance(node, Scan) else ""

    def copies(self, inputs: Iterable[int]) -> int:
        """In how many cells a result of these inputs is made."""
        own = [self._axes.get(i) for i in inputs]
        if any(axes is None for axes in own):
            return 1
        by_axis = zip(*(axes for axes in own if axes is not None), strict=True)
        return prod(of[0].share for of in by_axis if all(axis.key is None for axis in of))

    def parts(self, which: int, attribute: Attribute | None = None) -> int:
        """Over how many parts the rows of an input are dealt out; with an attribute: those of one of its values."""
        but = {} if attribute is None else self._along(attribute)
        axes = enumerate(self._axes.get(which, ()))
        return prod(axis.share for k, axis in axes if axis.key is not None and k not in but)

    def comes(self, attribute: Attribute, parts: Sequence[Ints], strings: Strings) -> Array:
        """Which values of an attribute rows of this cell can have; `parts`: the words they are made of."""
        here = np.ones(len(parts[0]), np.bool_)
        for at, terms in self._along(attribute).items():
            here &= self._dealt_here(at, [(parts[place], term) for place, term in terms], strings)
        return here

    def _dealt_here(self, at: int, terms: Sequence[tuple[Ints, Expression]], strings: Strings) -> Array:
        """Which values this cell has along an axis."""
        shares = [axis.share for axis in next(iter(self._axes.values()))]
        key = tuple(ColumnRef(n, term.type, "") for n, (_, term) in enumerate(terms))
        axes = tuple(Axis(share, key if k == at else None) for k, share in enumerate(shares))
        raw = [(values.view(np.float64) if term.type.is_float else values, term) for values, term in terms]
        router = Router(Routing(axes), strings, {})
        places = router.places(
            [Column(values.astype(term.type.dtype)) for values, term in raw], len(terms[0][0])
        )
        router.release()
        step = prod(shares[at + 1 :])
        mine = (self._cell - self._origin) // step % shares[at]
        found_here: Array = (places // np.uint64(step)) % np.uint64(shares[at]) == mine
        return found_here

    def _along(self, attribute: Attribute) -> dict[int, list[tuple[int, Expression]]]:
        """The axes along which rows are dealt out by an attribute or some of its keys: which of these are hashed."""
        found: dict[int, list[tuple[int, Expression]]] = {}
        for i, index in attribute.sides.items():
            terms = [
                _nameless(self._below(self._core.core.inputs[i].node, key))
                for key in self._core.key_of(i, index)
            ]
            for k, axis in enumerate(self._axes.get(i, ())):
                by = () if axis.key is None else tuple(map(_nameless, axis.key))
                if axis.share > 1 and by and set(by) <= set(terms):
                    found.setdefault(k, [(terms.index(term), term) for term in by])
        return found

    def _below(self, node: Node, term: Expression) -> Expression:
        """A term over an input as it is over the stream."""
        while isinstance(node, Project | Filter | Windowed):
            term = through(term, node) if isinstance(node, Project) else term
            node = node.input
        return term


def _nameless(term: Expression) -> Expression:
    return rewrite(term, lambda column: ColumnRef(column.index, column.type, ""))
