"""What a plan costs per time unit, and how many rows it holds (Golab & Özsu 2005, §5.4.1).

For every edge: how many rows begin per time unit (λ), how many are taken back by negative tuples, how many are live (N).
A row lives N/λ time units on the average (Little), so the three say all. With them an operator costs:

    selection, projection, union   Σλ
    join            λ1·N2/d + λ2·N1/d, and so on along the walk of more inputs
    anti join       λ1·N2/d, and 2·λ2·N1/d: a right row is looked at when it comes and when it goes
    DISTINCT (δ*), INTERSECT, EXCEPT
                    Σλ; twice that where every copy must be known (two-buffer δ, the ALL forms)
    GROUP BY        2·λ·C with C aggregates: a row counts when it comes and when it goes
    reliable        Σλ of the groups by level

Two things differ from the paper. Its joins scan (λ1·N2, which it misprints as λ1·N1) and its negation searches sorted counts
(log d); here keys hash, so what counts is the partners met: N/d of d values. And the paper doubles the cost of whatever
negative tuples pass; here they pay for themselves, as rows of their own, so that an edge on which one row in ten is
taken back costs a tenth more. With `negative=True` every row is taken back, as where windows send their expiries: twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import expm1, prod

from penstock.plan import deadline
from penstock.plan.expressions import Expression, columns
from penstock.plan.fingerprint import fingerprint
from penstock.plan.nodes import (
    Aggregate,
    AntiJoin,
    Distinct,
    Except,
    Filter,
    Intersect,
    Join,
    Node,
    OuterJoin,
    Project,
    Relation,
    Reliable,
    Scan,
    Shared,
    StreamKind,
    ToStream,
    Union,
    Windowed,
)
from penstock.plan.selectivity import distinct, selectivity
from penstock.plan.statistics import HORIZON, MOST_MATCHES, Statistics, unit
from penstock.plan.update_pattern import is_table
from penstock.plan.windows import Range, Rows


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is expected of the edge that leaves a node, and of the node."""

    rate: float
    """Rows that begin per time unit."""
    back: float
    """Rows that are taken back before their announced end, per time unit."""
    size: float
    """Rows that are live."""
    values: tuple[float, ...]
    """How many values each column takes over time; at least one."""
    cost: float = 0.0
    """Work of this node per time unit, in rows looked at."""
    state: float = 0.0
    """Rows this node holds."""
    inputs: tuple[Estimate, ...] = ()
    total: float = field(init=False)
    """Work of the node and of all below it; what several nodes read counts for each of them."""
    held: float = field(init=False)
    """Rows held by the node and by all below it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", self.cost + sum(i.total for i in self.inputs))
        object.__setattr__(self, "held", self.state + sum(i.held for i in self.inputs))

    @property
    def premature(self) -> float:
        """The share of rows that end before they were announced to."""
        return min(1.0, self.back / self.rate) if self.rate else 0.0

    @property
    def moves(self) -> float:
        """Rows that pass the edge per time unit, of either sign."""
        return self.rate + self.back


def estimate(node: Node, statistics: Statistics, *, negative: bool = False) -> Estimate:
    """The node and all below it.

    >>> from penstock.sql import bind, parse
    >>> from penstock.plan.catalog import Catalog
    >>> catalog = Catalog()
    >>> for name in "ab":
    ...     made, = parse(f"CREATE STREAM {name} (ts BIGINT, x INT, y INT) WATERMARK ts DELAY OF 0")
    ...     catalog.streams[name] = bind(made, catalog).stream
    >>> text = "SELECT a.y FROM a [RANGE 500], b [RANGE 500] WHERE a.x = b.x"
    >>> selection = bind(parse(text)[0], catalog).query.root.input
    >>> found = estimate(selection, Statistics(rates={"a": 2.0}, distincts={("a", "x"): 50.0}))
    >>> pairs = found.inputs[0]
    >>> [i.size for i in pairs.inputs], pairs.size, round(found.rate), round(found.size)
    ([1000.0, 500.0], 500000.0, 20, 5000)
    """
    return _Model(statistics, negative).of(node)


def by_node(root: Node, statistics: Statistics) -> dict[int, Estimate]:
    """The estimate of every node, by its identity."""
    found: dict[int, Estimate] = {}

    def walk(node: Node, one: Estimate) -> None:
        if id(node) in found:
            return
        found[id(node)] = one
        for below, its in zip(node.inputs, one.inputs, strict=True):
            walk(below, its)

    walk(root, estimate(root, statistics))
    return found


@dataclass(frozen=True, slots=True)
class _Model:
    known: Statistics
    negative: bool
    shared_ones: dict[int, Estimate] = field(default_factory=dict)
    """By identity, of subplans that several nodes read."""

    def of(self, node: Node) -> Estimate:
        deadline.check()
        if id(node) in self.shared_ones:
            return self.shared_ones[id(node)]
        made: Estimate = _RULES[type(node)](self, node, tuple(map(self.of, node.inputs)))
        if isinstance(node, Shared):
            self.shared_ones[id(node)] = made
        return made

    # ------------------------------------------------------------------ sources

    def scan(self, node: Scan, _: Sequence[Estimate]) -> Estimate:
        rate = self.known.rate(node.stream)
        values = tuple(self.known.distinct(node.stream, i) for i in range(len(node.schema)))
        return Estimate(rate, 0.0, rate * _span(node), values)

    def relation(self, node: Relation, _: Sequence[Estimate]) -> Estimate:
        size = self.known.size(node.table)
        most = max(size, 1.0)  # no share of the values of an empty table has a meaning
        values = tuple(min(most, self.known.distinct(node.table, i)) for i in range(len(node.schema)))
        return Estimate(0.0, 0.0, size, values)

    def windowed(self, node: Windowed, inputs: Sequence[Estimate]) -> Estimate:
        (below,) = inputs
        window, rate, back, size = node.window, below.rate, 0.0, below.size
        if isinstance(window, Range):
            size, back = min(size, rate * window.length), rate if self.negative else 0.0
        elif isinstance(window, Rows):
            groups = live(prod(below.values[k] for k in window.partition), size)
            size, back = min(size, window.count * groups), rate
        return Estimate(rate, back, size, below.values, rate, size if back else 0.0, (below,))

    # ------------------------------------------------------------------ a row at a time

    def filter(self, node: Filter, inputs: Sequence[Estimate]) -> Estimate:
        (below,) = inputs
        share = self.known.selectivities.get(fingerprint(node)) if self.known.selectivities else None
        if share is None:
            share = selectivity(node.predicate, below.values, self.known)
        return Estimate(
            below.rate * share,
            below.back * share,
            below.size * share,
            below.values,
            below.moves,
            0.0,
            (below,),
        )

    def project(self, node: Project, inputs: Sequence[Estimate]) -> Estimate:
        (below,) = inputs
        values = tuple(max(1.0, distinct(o.expression, below.values)) for o in node.outputs)
        return Estimate(below.rate, below.back, below.size, values, below.moves, 0.0, (below,))

    def shared(self, _: Shared, inputs: Sequence[Estimate]) -> Estimate:
        (below,) = inputs
        return Estimate(below.rate, below.back, below.size, below.values, 0.0, 0.0, (below,))

    def union(self, _: Union, inputs: Sequence[Estimate]) -> Estimate:
        rate, back, size = (sum(getattr(i, what) for i in inputs) for what in ("rate", "back", "size"))
        values = tuple(map(max, zip(*(i.values for i in inputs), strict=True)))
        return Estimate(rate, back, size, values, rate + back, 0.0, tuple(inputs))

    # ------------------------------------------------------------------ joins

    def join(self, node: Join, inputs: Sequence[Estimate]) -> Estimate:
        tests = _Tests(node.predicates, inputs, self.known)
        cost = rate = back = 0.0
        for i, one in enumerate(inputs):
            if not is_table(node.inputs[i]):
                met, made = tests.walk(i)
                cost += one.moves * (1.0 + met)
                rate += one.rate * made
                back += one.back * made
        size = tests.results
        state = sum(i.size for i in inputs)
        return Estimate(rate, back, size, tests.values, cost, state, tuple(inputs))

    def anti_join(self, node: AntiJoin, inputs: Sequence[Estimate]) -> Estimate:
        left, right = inputs
        tests = _Tests(node.predicates, inputs, self.known)
        met_right, pairs = tests.walk(0)
        met_left, _ = tests.walk(1)
        alone = 1.0 - self._matched(node, pairs)
        # An arrival on the right takes back what it matches and nobody matched before; later these rows come again.
        hidden = right.rate * (pairs / right.size if right.size else 0.0) * left.size * alone
        ends = max(right.rate, right.back) if right.size < right.rate * _span(node) else right.back
        cost = left.rate * (1.0 + met_right) + left.back + (right.rate + ends) * (1.0 + met_left)
        again = min(hidden, ends * (pairs / right.size if right.size else 0.0) * left.size * alone)
        return Estimate(
            left.rate * alone + again, hidden + left.back * alone, left.size * alone, left.values,
            cost, left.size + right.size, (left, right),
        )  # fmt: skip

    def outer_join(self, node: OuterJoin, inputs: Sequence[Estimate]) -> Estimate:
        """Its branches, over inputs that are there once."""
        known = {id(below): its for below, its in zip(node.inputs, inputs, strict=True)}
        made: list[Estimate] = []

        def of(one: Node) -> Estimate:
            if id(one) not in known:
                made.append(_RULES[type(one)](self, one, tuple(map(of, one.inputs))))
                return made[-1]
            return known[id(one)]

        found = of(node.branches)
        cost, state = sum(one.cost for one in made), sum(one.state for one in made)
        values = tuple(v for i in inputs for v in i.values)
        return Estimate(found.rate, found.back, found.size, values, cost, state, tuple(inputs))

    def _matched(self, node: AntiJoin | Except, pairs: float) -> float:
        """The share of left rows with a match: those a Poisson process of this mean does not miss."""
        if isinstance(node, AntiJoin) and self.known.matches:
            text = " AND ".join(map(str, node.predicates))
            for name in (text, fingerprint(node)):
                if name in self.known.matches:
                    return self.known.matches[name]
        return min(MOST_MATCHES, -expm1(-pairs))

    # ------------------------------------------------------------------ by value

    def distinct(self, _: Distinct, inputs: Sequence[Estimate]) -> Estimate:
        (below,) = inputs
        shown = live(prod(below.values), below.size)
        share = shown / below.size if below.size else 1.0
        known, state = (2.0, below.size + shown) if below.back else (1.0, shown)
        return Estimate(
            below.rate * share, below.back * share, shown, below.values, known * below.moves, state, (below,)
        )

    def intersect(self, node: Intersect, inputs: Sequence[Estimate]) -> Estimate:
        left, right = inputs
        values = tuple(map(min, left.values, right.values))
        domain = max(prod(left.values), prod(right.values))
        one, other = (live(domain, i.size) for i in inputs)
        size = min(left.size, right.size) if node.all else one * other / domain
        counts = node.all or left.back > 0 or right.back > 0
        rate = sum(i.rate * size / i.size for i in inputs if i.size)
        back = sum(i.back * size / i.size for i in inputs if i.size)
        moves = left.moves + right.moves
        state = left.size + right.size if counts else one + other
        return Estimate(rate, back, size, values, moves * (2.0 if counts else 1.0), state, (left, right))

    def except_(self, node: Except, inputs: Sequence[Estimate]) -> Estimate:
        left, right = inputs
        domain = max(prod(left.values), prod(right.values))
        one, other = (live(domain, i.size) for i in inputs)
        alone = 1.0 - self._matched(node, right.size / domain)
        size = (left.size if node.all else one) * alone
        counts = node.all or left.back > 0 or right.back > 0
        hidden = right.rate / domain * size
        back = hidden + (left.back * size / left.size if left.size else 0.0)
        rate = (left.rate * size / left.size if left.size else 0.0) + hidden
        state = left.size + right.size if counts else one + other
        return Estimate(rate, back, size, left.values, 2.0 * (left.moves + right.moves), state, (left, right))

    # ------------------------------------------------------------------ groups and streams

    def aggregate(self, node: Aggregate, inputs: Sequence[Estimate]) -> Estimate:
        (below,) = inputs
        keys = tuple(max(1.0, distinct(k.expression, below.values)) for k in node.keys)
        groups = max(1.0, live(prod(keys), below.size))
        news = 2.0 * below.rate
        values = keys + (max(below.size, 1.0),) * len(node.aggregations)
        cost = 2.0 * below.rate * max(1, len(node.aggregations)) + below.back
        return Estimate(news, news, groups, values, cost, below.size + groups, (below,))

    def reliable(self, node: Reliable, inputs: Sequence[Estimate]) -> Estimate:
        rows, gone = inputs
        keys = rows.values[: node.keys]
        groups = max(1.0, live(prod(keys), rows.size))
        values = keys + (groups,) * (len(node.schema) - len(keys))
        rate = rows.rate + gone.rate
        state = groups * (node.levels + 2.0)
        return Estimate(rate, rate, groups, values, rows.moves + gone.moves, state, (rows, gone))

    def to_stream(self, node: ToStream, inputs: Sequence[Estimate]) -> Estimate:
        (below,) = inputs
        whole = node.kind is StreamKind.RSTREAM
        rate = (below.rate + below.back) * below.size if whole else below.rate
        size = rate * _span(node)
        return Estimate(rate, 0.0, size, below.values, below.moves + rate, below.size, (below,))


class _Tests:
    """The predicates of a join: which inputs each concerns, and what it lets through."""

    def __init__(
        self, predicates: Sequence[Expression], inputs: Sequence[Estimate], known: Statistics
    ) -> None:
        self._sizes = [i.size for i in inputs]
        self.values = tuple(v for i in inputs for v in i.values)
        owner = [k for k, i in enumerate(inputs) for _ in i.values]
        self._tests = [
            (
                frozenset(owner[c.index] for c in columns(p)),
                selectivity(p, self.values, known),
                getattr(p, "function", "") == "=",
            )
            for p in predicates
        ]

    def walk(self, start: int) -> tuple[float, float]:
        """Partners that a row of one input meets on its way through the others, and results it makes.

        As joins do it: next the input with the fewest partners; what is no equality is tested on each.
        """
        bound, partial, met = {start}, self._share({start}, {start}), 0.0
        while len(bound) < len(self._sizes):
            rest = set(range(len(self._sizes))) - bound
            target = min(rest, key=lambda j: self._sizes[j] * self._share(bound | {j}, {j}, equal=True))
            bound.add(target)
            met += partial * self._sizes[target] * self._share(bound, {target}, equal=True)
            partial *= self._sizes[target] * self._share(bound, {target})
        return met, partial

    def _share(self, bound: set[int], new: set[int], *, equal: bool = False) -> float:
        """What passes the tests that can be made now and could not before."""
        return prod(
            share
            for concerned, share, equality in self._tests
            if concerned <= bound and concerned & new and (equality or not equal)
        )

    @property
    def results(self) -> float:
        return prod(self._sizes) * prod(share for _, share, _ in self._tests)


def live(values: float, rows: float) -> float:
    """How many of so many values are there among so many rows.

    >>> round(live(100, 10), 1), round(live(100, 1000), 1), live(1e18, 50.0)
    (9.5, 100.0, 50.0)
    """
    return -expm1(-rows / values) * values if values < 1e12 else rows


def _span(node: Node) -> float:
    """How long what never ends has lasted."""
    while not isinstance(node, Scan):
        below = next((i for i in node.inputs if not is_table(i)), None)
        if below is None:
            return HORIZON
        node = below
    return HORIZON * unit(node.stream)


_RULES: dict[type, Callable[..., Estimate]] = {
    Scan: _Model.scan,
    Relation: _Model.relation,
    Windowed: _Model.windowed,
    Filter: _Model.filter,
    Project: _Model.project,
    Shared: _Model.shared,
    Join: _Model.join,
    AntiJoin: _Model.anti_join,
    OuterJoin: _Model.outer_join,
    Distinct: _Model.distinct,
    Union: _Model.union,
    Intersect: _Model.intersect,
    Except: _Model.except_,
    Aggregate: _Model.aggregate,
    Reliable: _Model.reliable,
    ToStream: _Model.to_stream,
}
