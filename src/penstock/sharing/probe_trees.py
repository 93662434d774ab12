"""The trees of hops along which rows walk through shared SteMs; see `kernels.join.shared_probe`.

A shape — which roles, connected by which equalities — has a walk from each of its roles. It visits next the connected role
in which fewest partners were met. Walks that begin with the same hops share them, so that a query over (a, b) and one over
(a, b, c) look for b once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.kernels.join import shared_probe
from penstock.types.batch import Array

UNKNOWN = 1e6
"""Partners per probe of a hop that nobody has made yet."""


@dataclass(frozen=True, slots=True)
class Side:
    """A role and one of its SteM's indexes."""

    role: int
    index: int


Hop = tuple[Side, Side]
"""Who is visited, and who gives the key."""
Leg = tuple[Hop, tuple[Hop, ...]]
"""A hop, and all others that lead from what is bound to the same role: what the row visited must equal besides."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Roles, and the pairs of indexes that connect them (each way)."""

    roles: tuple[int, ...]
    hops: tuple[Hop, ...]

    def walk(self, start: int, met: Mapping[Hop, float]) -> list[Leg]:
        """From a role through all others."""
        bound: set[int] = {start}
        made: list[Leg] = []
        while len(bound) < len(self.roles):
            open_ = [hop for hop in self.hops if hop[1].role in bound and hop[0].role not in bound]
            best = min(open_, key=lambda hop: (met.get(hop, UNKNOWN), hop[0].role, hop[1].role))
            more = (hop for hop in open_ if hop[0].role == best[0].role and hop != best)
            made.append((best, tuple(more)))
            bound.add(best[0].role)
        return made


@dataclass(slots=True)
class _Node:
    leg: Leg | None
    below: dict[Leg, _Node] = field(default_factory=dict)
    ends: list[int] = field(default_factory=list)
    """Shapes whose results are whole here."""
    passes: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Trees:
    """As arrays."""

    nodes: Array
    roots: Array
    need: Array
    done: Array
    source: Array
    """Of a node: the virtual source whose tuples are whole there, or -1."""
    checks: Array
    """What nodes compare besides their keys: an index of the SteM visited, the role that gives the word, its SteM and index."""
    hops: list[Hop]
    depth: int

    @property
    def is_pairs(self) -> bool:
        """Every walk is one hop, and what is met there is whole."""
        return (
            self.depth <= 2
            and bool((self.nodes[:, shared_probe.NEXT] < 0).all())
            and bool((self.source >= 0).all())
            and not len(self.checks)
        )


def trees(
    shapes: Sequence[Shape],
    members: Array,
    sources: Mapping[tuple[int, ...], int],
    homes: Sequence[int],
    indexes: Mapping[Side, int],
    met: Mapping[Hop, float],
) -> Trees:
    """`members[shape]`: the bitmap of its queries; `sources[roles]`: the number of the virtual source; `homes[role]`: its
    SteM; `indexes[side]`: the index's number there."""
    tops = [_Node(None) for _ in homes]
    depth = 1
    for number, shape in enumerate(shapes):
        for start in shape.roles:
            node = tops[start]
            legs = shape.walk(start, met)
            depth = max(depth, len(legs) + 1)
            for leg in legs:
                node = node.below.setdefault(leg, _Node(leg))
                node.passes.append(number)
            node.ends.append(number)
    found: list[_Node] = []
    numbers: dict[int, int] = {}

    def gather(node: _Node) -> None:
        for one in node.below.values():
            numbers[id(one)] = len(found)
            found.append(one)
            gather(one)

    for top in tops:
        gather(top)
    nodes = np.full((max(len(found), 1), 10), -1, np.int64)
    checks: list[tuple[int, int, int, int]] = []
    need = np.zeros((len(nodes), members.shape[1]), np.uint64)
    done = np.zeros_like(need)
    ends = np.full(len(nodes), -1, np.int64)

    def first(node: _Node) -> int:
        """The first of its children, linked to the others."""
        last = -1
        for one in reversed(list(node.below.values())):
            at = numbers[id(one)]
            nodes[at, shared_probe.NEXT] = last
            last = at
        return last

    for at, node in enumerate(found):
        assert node.leg is not None
        (target, giver), more = node.leg
        nodes[at, shared_probe.ROLE], nodes[at, shared_probe.EDGE] = target.role, homes[target.role]
        nodes[at, shared_probe.INDEX] = indexes[target]
        nodes[at, shared_probe.GIVER], nodes[at, shared_probe.GIVER_EDGE] = giver.role, homes[giver.role]
        nodes[at, shared_probe.GIVER_INDEX] = indexes[giver]
        nodes[at, shared_probe.CHECK] = len(checks)
        checks += [(indexes[own], other.role, homes[other.role], indexes[other]) for own, other in more]
        nodes[at, shared_probe.CHECKED] = len(checks)
        nodes[at, shared_probe.CHILD] = first(node)
        for number in node.passes:
            need[at] |= members[number]
        for number in node.ends:
            done[at] |= members[number]
            ends[at] = sources[shapes[number].roles]
    roots = np.array([first(top) for top in tops], np.int64)
    compared = np.array(checks, np.int64).reshape(-1, 4)
    hops = [n.leg[0] for n in found if n.leg is not None]
    return Trees(nodes, roots, need, done, ends, compared, hops, depth)
