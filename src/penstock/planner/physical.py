"""From plan to running operators.

Walks the plan once, top down with the columns that are still needed, bottom up with operators chosen by the
update patterns of their inputs, and by the execution that was asked for (`plan.state_upkeep`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.kernels.sets import distinct as sets
from penstock.kernels.sets import multiset
from penstock.operators.aggregate.group_by import Grouping
from penstock.operators.aggregate.sliding_sums import SlidingSums, slides
from penstock.operators.contract import Operator, Site
from penstock.operators.expressions.evaluator import Evaluator
from penstock.operators.filter_project import Projection, Selection
from penstock.operators.join.anti_join import AntiJoinOperation
from penstock.operators.join.fifo_join import FifoJoin, is_connected
from penstock.operators.join.lookup_anti_join import LookupAntiJoin
from penstock.operators.join.multiway_join import MultiwayJoin
from penstock.operators.join.predicates import take_apart
from penstock.operators.join.shared_join_output import Met
from penstock.operators.join.tree_join import TreeJoin
from penstock.operators.pipeline import Key, Pipeline
from penstock.operators.retracting_window import Negatives
from penstock.operators.sampled_aggregate.operator import ReliableAnswers
from penstock.operators.set_ops.distinct import SetOperation
from penstock.operators.set_ops.multiset import BagOperation
from penstock.operators.to_stream import ToStreamOperation
from penstock.operators.union import MergeUnion
from penstock.operators.windows import (
    AnnouncedWindow,
    RangeWindow,
    RowsWindow,
    SlidingWindow,
    UnboundedWindow,
)
from penstock.partitioning.exchange_points import with_first
from penstock.plan.edge import Edge, edge
from penstock.plan.expressions import Expression
from penstock.plan.fingerprint import likeness
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
    ToStream,
    Union,
    Windowed,
)
from penstock.plan.query_root import Root
from penstock.plan.required_columns import Needed, all_of, needed_below
from penstock.plan.state_upkeep import Expiry, Upkeep
from penstock.plan.traversal import down_to
from penstock.plan.update_pattern import Pattern, is_table, pattern
from penstock.plan.windows import Announced, Range, Rows
from penstock.planner.sharable_joins import SharedJoin, is_leaf, is_stateless, shared_join
from penstock.sharing.join_catalog import FAR, Input
from penstock.sharing.join_catalog import Equality as KeysEqual
from penstock.state.arena import Arena
from penstock.state.strings import Strings


class Shares(Protocol):
    """Where plans find what they share with others; each gives the source of a plan that begins so."""

    def leaf(self, stream: str, predicate: Expression | None) -> Key:
        """With the rows of a stream for which a predicate is true."""
        ...

    def join(self, inputs: Sequence[Input], equalities: Sequence[KeysEqual]) -> tuple[Key, list[int]]:
        """With a join; and where each input's columns begin in its tuples."""
        ...


def build(
    root: Root,
    evaluator: Evaluator,
    strings: Strings,
    since: int,
    upkeep: Upkeep,
    arena: Arena | None = None,
    *,
    may_move: bool = False,
    shares: Shares | None = None,
    meets: bool = False,
    prefix: str = "",
) -> Pipeline:
    """A pipeline for a query that sees instants from `since` on; over an arena of saved arrays, where it was.

    `may_move`: another plan may take its place. `shares`: streams are filtered elsewhere, and if it `meets` others joined.
    `prefix`: of its arrays' names, where others have theirs in the same arena.
    """
    pipeline = Pipeline(Arena() if arena is None else arena, root, may_move=may_move)
    builder = _Builder(pipeline, evaluator, strings, since, root, upkeep, may_move, shares, meets, prefix)
    builder.build(root.node, all_of(root.node))
    if pipeline.lazy:
        names = tuple(field.name for field in root.said)
        met = tuple(operator.inputs for operator, _ in pipeline.stages if isinstance(operator, Met))
        pipeline.likeness = (likeness(root.node), names, met)
    return pipeline


class _Builder:
    def __init__(
        self,
        pipeline: Pipeline,
        evaluator: Evaluator,
        strings: Strings,
        since: int,
        root: Root,
        upkeep: Upkeep,
        may_move: bool,
        shares: Shares | None,
        meets: bool,
        prefix: str,
    ) -> None:
        self._pipeline = pipeline
        self._prefix = prefix
        self._evaluator = evaluator
        self._strings = strings
        self._since = since
        self._upkeep = upkeep
        self._may_move = may_move
        self._asked: set[int] = set()
        """Nodes, by identity, of which somebody wants to be told every end."""
        self._path: list[Node] = []
        """The node that is being built, last, below those that wait for it."""
        self._built: dict[int, int] = {}
        """Stages of nodes, by identity, that several operators of one node read."""
        self._aware = upkeep.expiry.aware
        self._replacing = root.group if root.judged.pattern is not Pattern.STRICT else None
        pipeline.told = self._tells(root.node) and self._replacing is None
        self._shares = shares if self._aware and upkeep.expiry is not Expiry.NEGATIVE else None
        pipeline.shares = self._shares is not None
        pipeline.meets = pipeline.shares and meets
        pipeline.lazy = pipeline.shares and is_stateless(root.node, meets)

    def build(self, node: Node, needed: Needed) -> int:
        """The number of the stage (or source) that gives this node's changes."""
        if id(node) in self._built:
            return self._built[id(node)]
        self._path.append(node)
        stage = _BUILDERS[type(node)](self, node, needed)
        self._path.pop()
        self._pipeline.places[id(node)] = stage
        return stage

    def _below(self, node: Node, needed: Needed) -> list[int]:
        """The same for its inputs."""
        return [self.build(*one) for one in zip(node.inputs, needed_below(node, needed), strict=True)]

    def _edges(self, node: Node) -> list[Edge]:
        """What its operator is told about the edges below."""
        return [edge(i, told=self._tells(i)) for i in node.inputs]

    def _tells(self, node: Node) -> bool:
        """Whether every end of its rows is told."""
        if id(node) in self._asked:
            return True
        if self._upkeep.expiry is Expiry.HYBRID:
            return pattern(node) is Pattern.STRICT
        return self._upkeep.expiry is Expiry.NEGATIVE

    def _site(self) -> Site:
        """Where the next operator of the node that is being built lives."""
        node, pipeline = self._path[-1], self._pipeline
        name = f"{self._prefix}{len(pipeline.stages)}.{type(node).__name__.lower()}"
        pipeline.names.setdefault(id(node), []).append(name)
        return Site(
            pipeline.arena,
            name,
            self._evaluator,
            self._since,
            self._upkeep,
            self._tells(node),
            self._may_move,
        )

    def _stage(self, operator: Operator, *inputs: int) -> int:
        pipeline = self._pipeline
        pipeline.operators.setdefault(id(self._path[-1]), []).append(operator)
        pipeline.stages.append((operator, inputs))
        return len(pipeline.stages) - 1

    def _source(self, kind: str, name: str) -> int:
        key = (kind, name.lower())
        if key not in self._pipeline.sources:
            self._pipeline.sources.append(key)
        return -1 - self._pipeline.sources.index(key)

    def _stream(self, scan: Scan) -> int:
        self._pipeline.time_type = scan.stream.time_type
        return self._source("stream", scan.stream.name)

    def scan(self, node: Scan, needed: Needed) -> int:
        """A stream without a window never ends its rows."""
        return self._stage(UnboundedWindow(), self._stream(node))

    def relation(self, node: Relation, needed: Needed) -> int:
        return self._source("table", node.table.name)

    def windowed(self, node: Windowed, needed: Needed) -> int:
        (read,) = needed_below(node, needed)
        if not isinstance(node.input, Scan):
            below = self.build(node.input, read)
        elif self._pipeline.lazy and self._shares is not None:
            below = self._leaf(node.input, None)
        else:
            below = self._stream(node.input)
        return self._window(node, needed, read, below)

    def _leaf(self, scan: Scan, predicate: Expression | None) -> int:
        """The rows of a stream for which the predicate is true."""
        assert self._shares is not None
        self._pipeline.time_type = scan.stream.time_type
        return self._shared(self._shares.leaf(scan.stream.name.lower(), predicate))

    def _shared(self, source: Key) -> int:
        if source not in self._pipeline.sources:
            self._pipeline.sources.append(source)
        return -1 - self._pipeline.sources.index(source)

    def _window(self, node: Windowed, needed: Needed, read: Needed, below: int) -> int:
        window = node.window
        operator: Operator
        if isinstance(window, Rows):
            operator = RowsWindow(self._site(), node.schema, sorted(read), window.partition, window.count)
        elif isinstance(window, Announced):
            operator = AnnouncedWindow()
        elif not isinstance(window, Range):
            operator = UnboundedWindow()
        elif window.slide == 1:
            operator = RangeWindow(window)
        else:
            operator = SlidingWindow(self._site(), window, node.schema, sorted(needed))
        stage = self._stage(operator, below)
        if self._tells(node) and isinstance(window, Range | Announced):
            return self._told(node, stage, needed)
        return stage

    def filter(self, node: Filter, needed: Needed) -> int:
        if self._shares is not None and isinstance(node.input, Windowed) and is_leaf(node.input):
            assert isinstance(node.input.input, Scan)
            # A row's lifetime hangs on nothing but its time: the predicate may come first.
            leaf = self._leaf(node.input.input, node.predicate)
            self._path.append(node.input)
            stage = self._window(node.input, needed, needed, leaf)
            self._path.pop()
            return stage
        below = self._below(node, needed)
        return self._stage(Selection(self._site(), node.predicate), *below)

    def project(self, node: Project, needed: Needed) -> int:
        below = self._below(node, needed)
        return self._stage(Projection(self._site(), node.outputs, needed), *below)

    def join(self, node: Join, needed: Needed) -> int:
        if self._pipeline.meets:
            found = shared_join(node)
            if found is not None:
                return self._meeting(node, found, needed)
        if self._upkeep.tree is not None:
            found_tree = self._tree_below_tables(node, needed)
            if found_tree is not None:
                return found_tree
        schemas = [i.schema for i in node.inputs]
        below = self._below(node, needed)
        patterns = [pattern(i) for i in node.inputs]
        equalities, residuals = take_apart(node.predicates, schemas)
        fifo = all(p in (Pattern.MONOTONIC, Pattern.WEAKEST) for p in patterns)
        tables = [is_table(i) for i in node.inputs]
        site = self._site()
        operator: Operator
        walkable = is_connected(len(below), equalities) and (len(below) == 2 or not residuals)
        tree = self._upkeep.tree
        if self._aware and fifo and walkable and not any(tables) and tree is not None and len(below) > 2:
            operator = TreeJoin(site, schemas, equalities, needed, tree)
        elif self._aware and fifo and walkable and not any(tables):
            operator = FifoJoin(site, schemas, equalities, residuals, needed)
        else:
            lookups = [t and p is not Pattern.STRICT for t, p in zip(tables, patterns, strict=True)]
            operator = MultiwayJoin(site, schemas, node.predicates, self._edges(node), lookups, needed)
        return self._stage(operator, *below)

    def _tree_below_tables(self, node: Join, needed: Needed) -> int | None:
        """A tree of the streams, and tables above it: they are looked up as of a result's ts, which is known there. None: no tree can be made."""
        tree = self._upkeep.tree
        streams = [i for i, one in enumerate(node.inputs) if not is_table(one)]
        if tree is None or not self._aware or not 2 < len(streams) < len(node.inputs):
            return None
        moved = with_first(node, streams)
        above = moved.input
        assert isinstance(above, Join)
        below = above.inputs[0]
        assert isinstance(below, Join)
        schemas = [i.schema for i in below.inputs]
        equalities, residuals = take_apart(below.predicates, schemas)
        fifo = all(pattern(i) in (Pattern.MONOTONIC, Pattern.WEAKEST) for i in below.inputs)
        if not fifo or residuals or not is_connected(len(schemas), equalities):
            return None
        (read,) = needed_below(moved, needed)
        own = needed_below(above, read)
        rows = self._below(below, own[0])
        joined = self._stage(TreeJoin(self._site(), schemas, equalities, own[0], tree), *rows)
        tables = [self.build(*one) for one in zip(above.inputs[1:], own[1:], strict=True)]
        lookups = [False, *(pattern(i) is not Pattern.STRICT for i in above.inputs[1:])]
        looked_up = MultiwayJoin(
            self._site(),
            [i.schema for i in above.inputs],
            above.predicates,
            self._edges(above),
            lookups,
            read,
        )
        found = self._stage(looked_up, joined, *tables)
        return self._stage(Projection(self._site(), moved.outputs, needed), found)

    def _meeting(self, node: Join, found: SharedJoin, needed: Needed) -> int:
        """The join in the shared SteMs; here only what is the query's own."""
        assert self._shares is not None
        inputs = found.inputs(needed)
        source, places = self._shares.join(inputs, found.equalities)
        self._pipeline.time_type = found.scans[0].stream.time_type
        own = [
            (at, len(one.schema), None if one.window == FAR else one.window)
            for at, one in zip(places, inputs, strict=True)
        ]
        return self._stage(Met(self._site(), own, found.tests), self._shared(source))

    def anti_join(self, node: AntiJoin, needed: Needed) -> int:
        below = self._below(node, needed)
        schemas = (node.left.schema, node.right.schema)
        edges = self._edges(node)
        lookup = is_table(node.right) and pattern(node.right) is not Pattern.STRICT
        operator: Operator
        if lookup and not edges[0].matches:
            operator = LookupAntiJoin(self._site(), schemas, node.predicates)
        else:
            operator = AntiJoinOperation(self._site(), schemas, node.predicates, edges, needed, lookup=lookup)
        return self._stage(operator, *below)

    def outer_join(self, node: OuterJoin, needed: Needed) -> int:
        """Its branches, over inputs that run once."""
        for below, read in zip(node.inputs, needed_below(node, needed), strict=True):
            self._built[id(below)] = self.build(below, read)
        stage = self.build(node.branches, needed)
        for below in node.inputs:
            if not isinstance(below, Shared):
                self._built.pop(id(below), None)
        self._pipeline.parts[id(node)] = [id(one) for one in down_to(node.branches, node.inputs)]
        return stage

    def shared(self, node: Shared, _: Needed) -> int:
        """Once, with all columns, for all that read it."""
        stage = self._built[id(node)] = self.build(node.input, all_of(node))
        return stage

    def union(self, node: Union, needed: Needed) -> int:
        below = self._below(node, needed)
        if self._tells(node):
            # Where one input tells of all its ends, all must: nobody above could tell which rows are whose.
            below = [
                s if self._tells(i) else self._told(i, s, needed)
                for i, s in zip(node.inputs, below, strict=True)
            ]
        return self._stage(MergeUnion(), *below)

    def _told(self, node: Node, stage: int, needed: Needed) -> int:
        """The edge that leaves a node, with every end told."""
        return self._stage(Negatives(self._site(), node.schema, sorted(needed), edge(node)), stage)

    def distinct(self, node: Distinct, needed: Needed) -> int:
        return self._set_operation(node, needed, sets.DISTINCT, multiset.DISTINCT, counts=False)

    def intersect(self, node: Intersect, needed: Needed) -> int:
        in_bags = multiset.INTERSECT_ALL if node.all else multiset.INTERSECT
        return self._set_operation(node, needed, sets.INTERSECT, in_bags, counts=node.all)

    def except_(self, node: Except, needed: Needed) -> int:
        in_bags = multiset.EXCEPT_ALL if node.all else multiset.EXCEPT
        return self._set_operation(node, needed, sets.EXCEPT, in_bags, counts=node.all)

    def _set_operation(self, node: Node, needed: Needed, in_sets: int, in_bags: int, *, counts: bool) -> int:
        """Where ends are known in advance and copies need not be counted, three numbers a value do."""
        below = self._below(node, needed)
        patterns = [pattern(i) for i in node.inputs]
        site = self._site()
        if counts or Pattern.STRICT in patterns or not self._aware:
            strict = pattern(node) is Pattern.STRICT or self._tells(node)
            operator = BagOperation(site, node.schema, in_bags, self._edges(node), retracts=strict)
            return self._stage(operator, *below)
        stage = self._stage(SetOperation(site, node.schema, in_sets), *below)
        return self._told(node, stage, all_of(node)) if self._tells(node) else stage

    def aggregate(self, node: Aggregate, needed: Needed) -> int:
        below = self._below(node, needed)
        retracts = node is not self._replacing
        operator: Operator
        if self._aware and not retracts and slides(node, pattern(node.input)):
            operator = SlidingSums(self._site(), node)
        else:
            (below_it,) = self._edges(node)
            brief = id(node) in self._asked
            operator = Grouping(self._site(), node, below_it, retracts, self._strings, brief=brief)
        return self._stage(operator, *below)

    def reliable(self, node: Reliable, needed: Needed) -> int:
        """Over told edges: a group that loses its last row at a level says so."""
        self._asked.update(id(i) for i in node.inputs if isinstance(i, Aggregate))
        below = [
            s if self._tells(i) else self._told(i, s, all_of(i))
            for i, s in zip(node.inputs, self._below(node, needed), strict=True)
        ]
        return self._stage(ReliableAnswers(self._site(), node, self._strings), *below)

    def to_stream(self, node: ToStream, needed: Needed) -> int:
        below = self._below(node, needed)
        operator = ToStreamOperation(self._site(), node.schema, node.kind, *self._edges(node))
        return self._stage(operator, *below)


_BUILDERS: dict[type, Callable[..., int]] = {
    Scan: _Builder.scan,
    Relation: _Builder.relation,
    Windowed: _Builder.windowed,
    Filter: _Builder.filter,
    Project: _Builder.project,
    Join: _Builder.join,
    AntiJoin: _Builder.anti_join,
    OuterJoin: _Builder.outer_join,
    Shared: _Builder.shared,
    Union: _Builder.union,
    Distinct: _Builder.distinct,
    Intersect: _Builder.intersect,
    Except: _Builder.except_,
    Aggregate: _Builder.aggregate,
    Reliable: _Builder.reliable,
    ToStream: _Builder.to_stream,
}
