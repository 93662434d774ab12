"""What a tree of joins fixes once: nodes, keys, paths to the root, and walks that find what waits, as one array of numbers.

`kernels.tree.climb` says where each table begins; tables of lists hold, per entry, where the list begins and how long it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.kernels.hash.mix import GOLDEN
from penstock.kernels.tree import climb as kernel
from penstock.operators.join.predicates import Equality
from penstock.plan.join_tree import Demand, Pairs, leaves
from penstock.types.batch import Ints

_MODES = {Demand.OFF: kernel.OFF, Demand.DOE: kernel.DOE, Demand.JIT: kernel.JIT}


@dataclass(frozen=True, slots=True)
class Same:
    """Word `mine` of source `left` equals word `theirs` of source `right`; `factor` belongs to both in sums of keys."""

    left: int
    mine: int
    right: int
    theirs: int
    factor: int

    def seen_from(self, source: int) -> Same:
        if source == self.left:
            return self
        return Same(self.right, self.theirs, self.left, self.mine, self.factor)


@dataclass(frozen=True, slots=True)
class Inner:
    """A node: its children, and the sources below it."""

    left: int
    right: int
    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Hop:
    """A source's rows are found by the index toward `via` (-1: all are looked at) and compared; with them a node is `made` (-1: none)."""

    target: int
    via: int
    check: list[Same]
    made: int = -1


@dataclass(slots=True)
class Layout:
    """A tree over sources whose equalities are `same`."""

    nodes: list[Inner]
    same: list[Same]
    demand: Demand
    indexes: dict[tuple[int, int], int] = field(default_factory=dict)
    """By (source, neighbour): the number of the index."""
    _ways: list[Same] = field(init=False)
    """Equalities as seen from either side."""

    def __post_init__(self) -> None:
        self._ways = [one for s in self.same for one in (s, s.seen_from(s.right))]

    @property
    def sources(self) -> int:
        return (len(self.nodes) + 1) // 2

    @property
    def root(self) -> int:
        return len(self.nodes) - 1

    @property
    def inner(self) -> range:
        """Nodes that keep partial results."""
        return range(self.sources, self.root)

    def between(self, sources: Sequence[int], others: Sequence[int]) -> list[Same]:
        """Equalities from one set of sources to another."""
        return [one for one in self._ways if one.left in sources and one.right in others]

    def parent(self, u: int) -> int:
        return next(v for v, node in enumerate(self.nodes) if u in (node.left, node.right) and u != v)

    def sibling(self, u: int) -> int:
        above = self.nodes[self.parent(u)]
        return above.right if above.left == u else above.left

    # ------------------------------------------------------------------ numbers

    @property
    def node_registers(self) -> int:
        return self.sources * kernel.SOURCE_WORDS

    @property
    def index_registers(self) -> int:
        return self.node_registers + len(self.nodes) * kernel.NODE_WORDS

    @property
    def ask_registers(self) -> int:
        return self.index_registers + len(self.indexes) * kernel.INDEX_WORDS

    @property
    def counters(self) -> int:
        return self.ask_registers + len(self.nodes) * self.sources * kernel.ASK_WORDS

    @property
    def order_registers(self) -> int:
        return self.counters + kernel.COUNTERS

    @property
    def registers(self) -> int:
        return self.order_registers + len(self.nodes) * self.sources

    def spec(self) -> Ints:
        """All of it, for kernels."""
        n, every = self.sources, range(len(self.nodes))
        made = [0] * kernel.HEADER
        made[kernel.SOURCES], made[kernel.ROOT], made[kernel.DEMAND] = n, self.root, _MODES[self.demand]
        made[kernel.NODE], made[kernel.INDEX] = self.node_registers, self.index_registers
        made[kernel.ASK], made[kernel.COUNT], made[kernel.ORDER] = (
            self.ask_registers,
            self.counters,
            self.order_registers,
        )
        _lists(made, kernel.PATH, [self._path(u) for u in every], 2)
        _lists(made, kernel.CROSS, [self._cross(u) for u in every], 5)
        _lists(made, kernel.KEYS, [self._keys(u, j) for u in every for j in range(n)], 4)
        _lists(made, kernel.TOWARD, [self._toward(u, j) for u in every for j in range(n)], 2)
        _table(made, kernel.PAIR, [self.indexes.get((i, j), -1) for i in range(n) for j in range(n)])
        _table(made, kernel.VIA, [self._via(u, j) for u in every for j in range(n)])
        start = _table(made, kernel.KIN, [0] * (4 * len(self.nodes)))
        for u, node in enumerate(self.nodes):
            made[start + 4 * u : start + 4 * u + 4] = [node.left, node.right, len(made), len(node.sources)]
            made += node.sources
        _lists(made, kernel.OUTSIDE, [self._outside(k) for k in range(n)], 1)
        _walks(made, kernel.WALK, [self._walk(u, k) for u in every for k in range(n)])
        _walks(made, kernel.ONWARD, [self._onward(u) for u in every])
        return np.array(made, np.int64)

    def _path(self, u: int) -> list[int]:
        """(node that is made, sibling that is met) from a node to the root."""
        found = []
        while u != self.root:
            found += [self.parent(u), self.sibling(u)]
            u = self.parent(u)
        return found

    def _cross(self, u: int) -> list[int]:
        if u == self.root:
            return []
        across = self.between(self.nodes[u].sources, self.nodes[self.sibling(u)].sources)
        return [word for s in across for word in (s.left, s.mine, s.right, s.theirs, s.factor)]

    def _keys(self, u: int, j: int) -> list[int]:
        if j in self.nodes[u].sources:
            return []
        toward = self.between(self.nodes[u].sources, [j])
        return [word for s in toward for word in (s.left, s.mine, s.theirs, s.factor)]

    def _toward(self, u: int, j: int) -> list[int]:
        """The same from the source's side."""
        if j in self.nodes[u].sources:
            return []
        return [word for s in self.between(self.nodes[u].sources, [j]) for word in (s.theirs, s.factor)]

    def _via(self, u: int, j: int) -> int:
        """A source below u that is compared with j."""
        if j in self.nodes[u].sources:
            return -1
        return next((s.left for s in self.between(self.nodes[u].sources, [j])), -1)

    def _outside(self, k: int) -> list[int]:
        """Nodes that a source is outside of, children before parents."""
        return [u for u, node in enumerate(self.nodes[: self.root]) if k not in node.sources]

    def _walk(self, u: int, k: int) -> list[Hop]:
        """An order in which rows below u that equal a row of k are found: who is reached by whom (-1: all rows are looked at),
        and what is compared. Next is whoever is compared most with those before."""
        if self.demand is Demand.OFF or u < self.sources or u == self.root or k in self.nodes[u].sources:
            return []
        return self._through(self.nodes[u].sources, [k] if self.demand is Demand.JIT else [])

    def _through(self, sources: Sequence[int], before: Sequence[int]) -> list[Hop]:
        bound, left = list(before), list(sources)
        steps = []
        while left:
            target = max(left, key=lambda t: (len(self.between([t], bound)), -left.index(t)))
            check = self.between([target], bound)
            via = next((b for b in bound if any(s.right == b for s in check)), -1)
            steps.append(Hop(target, via, check))
            bound.append(target)
            left.remove(target)
        return steps

    def _onward(self, u: int) -> list[Hop]:
        """An order in which all that is missing is found where node u is bound: sibling after sibling on the way to the root."""
        steps: list[Hop] = []
        while self.demand is Demand.JIT and u != self.root:
            steps += self._through(self.nodes[self.sibling(u)].sources, self.nodes[u].sources)
            u = self.parent(u)
            steps[-1] = replace(steps[-1], made=u)
        return steps

    def order(self, u: int) -> list[int]:
        """Whom a node asks, at first: those it is compared with most."""
        outside = [j for j in range(self.sources) if j not in self.nodes[u].sources]
        return sorted(outside, key=lambda j: -len(self.between(self.nodes[u].sources, [j])))


def _walks(made: list[int], header: int, walks: Sequence[Sequence[Hop]]) -> None:
    """Of every hop of a walk: who is reached by whom, where its comparisons are and how many, and which node is made."""
    start = _table(made, header, [0] * (2 * len(walks)))
    for w, steps in enumerate(walks):
        checks = []
        for hop in steps:
            checks.append((len(made), len(hop.check)))
            made += [word for one in hop.check for word in (one.mine, one.right, one.theirs)]
        made[start + 2 * w : start + 2 * w + 2] = [len(made), len(steps)]
        for hop, place in zip(steps, checks, strict=True):
            made += [hop.target, hop.via, *place, hop.made]


def _table(made: list[int], header: int, words: Sequence[int]) -> int:
    made[header] = len(made)
    made += words
    return made[header]


def _lists(made: list[int], header: int, lists: Sequence[Sequence[int]], width: int) -> None:
    """Where each list begins and how many entries of `width` words it has; then the lists."""
    start = _table(made, header, [0] * (2 * len(lists)))
    for i, words in enumerate(lists):
        made[start + 2 * i : start + 2 * i + 2] = [len(made), len(words) // width]
        made += words


def _factor(number: int) -> int:
    """An odd number for an equality, far from those of others: sums of products by them are a family of hashes (Dietzfelbinger)."""
    word = pow(int(GOLDEN), 2 * number + 3, 1 << 64)
    return word - (1 << 64) if word >> 63 else word


def laid_out(
    pairs: Pairs, equalities: Sequence[Equality], words: Sequence[Sequence[object]], demand: Demand
) -> Layout:
    """`words[i]`: the key expressions of source i, each a word of its rows."""
    n = len(words)
    same: list[Same] = []
    for e in equalities:
        one = Same(
            e.left,
            1 + words[e.left].index(e.left_key),
            e.right,
            1 + words[e.right].index(e.right_key),
            _factor(len(same)),
        )
        same.append(one)
    nodes = [Inner(-1, -1, (i,)) for i in range(n)]

    def add(tree: Pairs) -> int:
        if isinstance(tree, int):
            return tree
        left, right = add(tree[0]), add(tree[1])
        nodes.append(Inner(left, right, tuple(sorted(leaves(tree)))))
        return len(nodes) - 1

    add(pairs)
    made = Layout(nodes, same, demand)
    if demand is not Demand.OFF:
        neighbours = sorted({(s.left, s.right) for s in same} | {(s.right, s.left) for s in same})
        made.indexes |= {pair: number for number, pair in enumerate(neighbours)}
    return made
