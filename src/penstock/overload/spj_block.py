"""One core of a query that has a budget: its join while it is calm, its routes while it is busy.

Calm       the join runs by the ordinary operators, over the rows that windows admit. Nothing is classified, nothing waits.
Busy       rows go along routes (`overload.operator_queues`), by rank.
Moving     the rows alive on the join's inputs move over. All of them came before anything that is still to come, so when
           they came does not matter any more, and both sides know the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from penstock.operators.capabilities import Remembers
from penstock.operators.contract import Operator, Site
from penstock.operators.expressions.evaluator import Evaluator
from penstock.operators.filter_project import Projection, Selection
from penstock.operators.join.multiway_join import MultiwayJoin
from penstock.operators.pipeline import Key, Pipeline
from penstock.overload.operator_queues import Routes
from penstock.overload.spj_plan import Core, Input, side_by_side
from penstock.plan.catalog import Function
from penstock.plan.exchange_input import inner_stream, leaf
from penstock.plan.expressions import Column as ColumnRef
from penstock.plan.expressions import Named, columns
from penstock.plan.join_tree import Demand
from penstock.plan.nodes import Filter, Join, Node, Project
from penstock.plan.query_root import Root
from penstock.plan.rank_levels import Disjunct
from penstock.plan.required_columns import all_of, needed_below
from penstock.plan.state_upkeep import Upkeep
from penstock.plan.update_pattern import judge, pattern
from penstock.planner.physical import build
from penstock.state.arena import Arena
from penstock.state.strings import Strings
from penstock.types.batch import Batch, Column, Ints
from penstock.types.data_type import Type
from penstock.types.schema import Field, Schema


class Workshop:
    """Where the parts of one query are made: they share an arena, each under names of its own. `whole`: all columns of rows are kept, not only those
    that the query reads."""

    def __init__(
        self,
        arena: Arena,
        evaluator: Evaluator,
        strings: Strings,
        functions: Mapping[str, Function],
        since: int,
        time_type: Type,
        *,
        whole: bool = False,
        demand: Demand = Demand.JIT,
    ) -> None:
        self.arena, self.evaluator, self.strings, self.functions = arena, evaluator, strings, functions
        self.since, self.time_type = since, time_type
        self.upkeep = Upkeep(demand=demand)
        self.keeps_all = whole

    def site(self, name: str) -> Site:
        return Site(self.arena, name, self.evaluator, self.since, self.upkeep, tells=False, may_move=False)

    def pipeline(self, node: Node, prefix: str) -> Pipeline:
        """The ordinary operators of a part of the plan."""
        root = Root(node, len(node.schema), judge(node), None, (), False, inner=True)
        return self.whole(root, prefix)

    def whole(self, root: Root, prefix: str, since: int | None = None) -> Pipeline:
        """The same of a query's plan; `since`: the first instant it sees."""
        first = self.since if since is None else since
        return build(root, self.evaluator, self.strings, first, self.upkeep, self.arena, prefix=prefix)


class CoreRun:
    """`number`: which of the query's cores it is. `wanted`: columns that somebody reads of results; `kept`: those that are kept of
    rows, each with the instant since when it is."""

    def __init__(
        self,
        core: Core,
        number: int,
        workshop: Workshop,
        disjuncts: Sequence[Disjunct],
        wanted: frozenset[int],
        kept: Mapping[int, int],
        *,
        busy: bool,
    ) -> None:
        self.core = core
        self.workshop = workshop
        self._name = f"core{number}"
        self.windows = [
            workshop.pipeline(one.node, f"{self._name}.window{i}.") for i, one in enumerate(core.inputs)
        ]
        self.kept = dict(kept)
        for k in range(len(core.schema)) if workshop.keeps_all else wanted:
            self.kept.setdefault(k, workshop.since)
        for start, one in zip(side_by_side(core.inputs), core.inputs, strict=True):
            if one.table:  # its rows stay: who comes later reads them too
                for k in range(len(one.schema)):
                    self.kept.setdefault(start + k, workshop.since)
        for expression in (*core.predicates, *(d.criteria for d in disjuncts)):
            for column in columns(expression):
                self.kept.setdefault(column.index, workshop.since)
        self.routes = Routes(
            workshop.site(f"{self._name}.routes"),
            core,
            wanted,
            disjuncts,
            workshop.functions,
            frozenset(self.kept),
        )
        self._streams = {
            i: inner_stream(f"in{i}", _numbered(one), workshop.time_type)
            for i, one in enumerate(core.inputs)
            if not one.table
        }
        self._tests = [
            Selection(workshop.site(f"{self._name}.test{i}"), test)
            for i, test in enumerate(core.inputs[0].tests if len(core.inputs) == 1 else ())
        ]
        self._leaves: dict[int, int] = {}
        """By stream: the stage of the join's pipeline that gives its rows."""
        self._stages: list[int] = []
        """Those that run above these, up to the join."""
        self._joins: tuple[Join, Pipeline] | None = None
        """The join while it is calm; one input needs none."""
        self._counts: Counter[str] = Counter()
        """Partial results of calm times that are over."""
        self._suppressed = 0
        """Those that this calm time did not follow, when somebody asked last."""
        if len(core.inputs) > 1 and not busy:
            self._joins = self._joining()

    def widen(self, wanted: frozenset[int], read: frozenset[int], since: int, now: int) -> None:
        """Let results have more columns, and keep more of rows, for somebody who sees rows from an instant on: of those that came before
        it nobody reads them, and their times say nothing but that."""
        new = (wanted | read) - self.kept.keys()
        self.routes.wanted |= wanted
        if not new:
            if self._joins is not None:
                self._tell(*self._joins)
            return
        moves = self._joins is not None
        if moves:
            self.get_busy(now)
        self.kept |= dict.fromkeys(new, since)
        self.routes.widen(new)
        if moves:
            self.calm_down(now)

    # ------------------------------------------------------------------ calm

    def _joining(self) -> tuple[Join, Pipeline]:
        leaves: list[Node] = []
        given: dict[int, Node] = {}
        for i, one in enumerate(self.core.inputs):
            node = one.node
            if i in self._streams:
                node = given[i] = leaf(
                    self._streams[i], pattern(one.node), one.schema, range(len(one.schema))
                )
                for test in one.tests:
                    node = Filter(node, test)
            leaves.append(node)
        join = Join(tuple(leaves), self.core.predicates)
        picked = tuple(
            Named(ColumnRef(k, join.schema[k].type, join.schema[k].name), f"c{k}") for k in sorted(self.kept)
        )
        pipeline = self.workshop.pipeline(Project(join, picked), f"{self._name}.join.")
        self._leaves = {i: pipeline.places[id(node)] for i, node in given.items()}
        self._stages = pipeline.between(self._leaves.values(), join)
        self._suppressed = pipeline.counted().get("suppressed", 0)
        self._tell(join, pipeline)
        return join, pipeline

    def _tell(self, join: Join, pipeline: Pipeline) -> None:
        """Let results have no more columns than somebody reads, whatever is kept."""
        for operator in pipeline.operators[id(join)]:
            if isinstance(operator, MultiwayJoin):
                operator.told = self.routes.wanted.intersection(self.kept)

    def calm(self, rows: Sequence[Batch], feeds: Mapping[Key, Batch], now: int) -> Batch:
        """What a step's rows make, by the ordinary operators."""
        if self._joins is None:
            (batch,) = rows
            for test in self._tests:
                batch = test.step((batch,), now)
            return batch
        given = {at: rows[i] for i, at in self._leaves.items()}
        return self._joins[1].joined(self._stages, given, feeds, now)

    def spared(self) -> int:
        """Partial results that calm steps did not follow, since somebody asked last; of two inputs nothing is partial."""
        if self._joins is None or len(self.core.inputs) < 3 or not self._joins[1].counts:
            return 0
        before, self._suppressed = self._suppressed, self._joins[1].counted().get("suppressed", 0)
        return self._suppressed - before

    def counted(self) -> dict[str, int]:
        """Partial results made, suppressed, and questions asked, calm or busy, since this process began; of two inputs nothing is partial."""
        if len(self.core.inputs) < 3:
            return {}
        asking = self.routes.asking
        busy = {"made": self.routes.partial, "suppressed": asking.denied, "asked": asking.asked}
        calm = {} if self._joins is None else self._joins[1].counted()
        return {what: n + self._counts[what] + calm.get(what, 0) for what, n in busy.items()}

    @property
    def pair(self) -> float:
        """Units that a candidate of the join takes, whoever joins."""
        return 1 + max(stop.tested for stop in self.routes.stops)

    def _alive(self, which: int, now: int) -> Batch:
        """Rows of an input that have not ended, while it is calm."""
        assert self._joins is not None
        join, pipeline = self._joins
        (operator,) = (o for o in pipeline.operators[id(join)] if isinstance(o, Remembers))
        if isinstance(operator, MultiwayJoin):
            batch: Batch | None = operator.joinable(which, now)
        else:
            batch = operator.alive(which, now)
        assert batch is not None, "inputs end as announced: all their rows are known"
        return batch.take(np.flatnonzero(batch.exp > now))

    def table(self, which: int, now: int) -> Batch:
        """What a table holds."""
        return self._alive(which, now) if self._joins is not None else self.routes.alive(which, now)

    # ------------------------------------------------------------------ busy

    def get_busy(self, now: int) -> None:
        """Let the rows alive move into the routes' stocks."""
        if self._joins is None:
            return
        for i in range(len(self.core.inputs)):
            self.routes.take_over(i, self._alive(i, now))
        self._counts.update(self._joins[1].counted())
        self._joins = None
        self.workshop.arena.drop(f"{self._name}.join.")

    def calm_down(self, now: int) -> list[Ints]:
        """Nothing waits any more: go on by the ordinary operators. Returns when the rows that are held end, by input."""
        ends = []
        if len(self.core.inputs) > 1:
            self._joins = join, pipeline = self._joining()
            alive = [self.routes.alive(i, now) for i in range(len(join.inputs))]
            ends = [batch.exp for batch in alive]
            pipeline.begin_with(alive, join, now)
            self.spared()
        self.routes.forget()
        return ends

    def shrink(self, coming: int) -> None:
        """Give back room of what windows and the join remember; rows along routes keep theirs until it is calm."""
        for one in (*self.windows, *([] if self._joins is None else [self._joins[1]])):
            one.shrink(coming)

    def admit(self, rows: Sequence[Batch], came: int) -> list[tuple[int, Ints]]:
        """What comes in, by input, as rows that wait; tables change at once."""
        made = []
        for i, (one, batch) in enumerate(zip(self.core.inputs, rows, strict=True)):
            if one.table:
                if len(batch):
                    self.routes.update(i, batch)
            elif len(batch):
                made.append((i, self.routes.admit(i, batch, came)))
        return made


def as_changes(batch: Batch) -> Batch:
    """Rows as those of an inner stream (`plan.exchange_input`)."""
    sign = np.ones(len(batch), np.int8) if batch.sign is None else batch.sign
    head = (Column(batch.ts), Column(batch.exp), Column(sign))
    return Batch(batch.ts, batch.exp, head + batch.columns)


def _numbered(one: Input) -> Schema:
    return tuple(Field(f"c{k}", f.type) for k, f in enumerate(one.schema))


def wanted_of(core: Core) -> frozenset[int]:
    """Columns of the core's inputs that its results are made of."""
    needed = all_of(core.node)
    for node in core.above:
        (needed,) = needed_below(node, needed)
    return needed


def finishing(site: Site, node: Node) -> Operator:
    """A projection or a filter over a core's results."""
    if isinstance(node, Project):
        return Projection(site, node.outputs, all_of(node))
    assert isinstance(node, Filter)
    return Selection(site, node.predicate)
