"""Which plans run, and for whom: equal plans that began together are one, and joins meet where they share a stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.engine.adaptive.replanner import Replanning
from penstock.engine.clock_groups import Reading
from penstock.engine.output import Answer
from penstock.engine.rerank import check_reranked, rerank
from penstock.errors import PenstockError
from penstock.operators.contract import Site
from penstock.operators.expressions.evaluator import Evaluator
from penstock.operators.pipeline import Pipeline
from penstock.overload.priority_executor import Ranked
from penstock.overload.subscriber import Rider
from penstock.overload.subscriber_group import Riders
from penstock.plan.catalog import Function
from penstock.plan.explain import outline
from penstock.plan.fingerprint import describe, functions_in
from penstock.plan.policies import Policies
from penstock.plan.query_root import Root
from penstock.plan.rank_levels import USUAL
from penstock.plan.state_upkeep import Upkeep
from penstock.planner.physical import build
from penstock.planner.sharable_joins import meeting_streams, shared_joins
from penstock.sharing.adopt_join import adopted
from penstock.sharing.deferred_output import Owed
from penstock.sharing.shared_flow import Sharing
from penstock.state.strings import Strings
from penstock.types import sizes
from penstock.types.batch import Batch
from penstock.types.data_type import Type
from penstock.types.limits import MemoryLimitError


@dataclass(slots=True, eq=False)
class Standing:
    """A registered query as it runs."""

    name: str
    root: Root
    since: int
    reading: Reading
    evaluator: Evaluator
    pipeline: Pipeline
    said: Answer
    """As far as it has been handed over; see `answer`."""
    begun: bool = False
    failed: PenstockError | None = field(default=None)
    replanning: Replanning | None = None
    """None: there is only one plan."""
    migrations: int = 0
    owed: Owed | None = None
    """What waits to be handed over; None: everything is at once."""
    weight: float = USUAL
    """What it counts for beside others, where steps have a budget."""
    rider: Rider | None = None
    """Where steps have a budget: as whom it rides on its pipeline."""

    @property
    def answer(self) -> Answer:
        if self.owed is not None:
            self.owed.hand_over(self.said)
        return self.said

    def current(self, now: int) -> Batch | None:
        """The answer itself, if its groups hold it."""
        return self.pipeline.current(now) if self.rider is None else self.rider.above.current()

    @property
    def matched(self) -> int:
        """Result rows so far, handed over or not."""
        return self.said.matched + (0 if self.owed is None else self.owed.count)


TailKey = tuple[str | int, ...]
"""A plan as text, the Python functions in it, and when it began."""


@dataclass(slots=True)
class Tail:
    """A plan that remembers something, and the queries that are it: equal plans that began together are one."""

    key: TailKey | None
    pipeline: Pipeline
    standings: list[Standing] = field(default_factory=list)

    @property
    def fed(self) -> bool:
        """Rows have come, and what tables held before them."""
        return self.pipeline.fed if isinstance(self.pipeline, Ranked) else self.standings[0].begun

    def check_memory(self, most: int | None) -> None:
        """Whether what it remembers, and the answer, take no more than so many bytes."""
        if most is None:
            return
        held = self.pipeline.arena.size_bytes + max(s.said.size_bytes for s in self.standings)
        if held > most:
            raise MemoryLimitError(self.standings[0].name, held, most)

    def shrink(self, coming: int, now: int) -> None:
        """Give back room that neither what is remembered nor so many new rows need."""
        if self.stopped:
            return  # it may have stopped in the middle of a step
        self.pipeline.shrink(coming)
        for standing in self.standings:
            standing.said.shrink(now, coming)

    @property
    def stopped(self) -> bool:
        """All its queries met an error."""
        return all(standing.failed is not None for standing in self.standings)


class Running:
    """The plans of an engine."""

    def __init__(
        self,
        strings: Strings,
        functions: Mapping[str, Function],
        upkeep: Upkeep,
        sharing: Sharing | None,
        policies: Policies,
    ) -> None:
        self._strings = strings
        self._functions = functions
        self._upkeep = upkeep
        self._sharing = sharing
        self._policies = policies
        self._join = policies.join
        self.tails: dict[int, Tail] = {}
        """By the identity of the pipeline."""
        self._known: dict[TailKey, Tail] = {}
        self._joining: Counter[str] = Counter()
        """By stream: queries that join it in a way that could be shared."""
        self._slices: Counter[int] = Counter()

    @property
    def slice(self) -> int:
        """Rows of all streams in one step."""
        return min([sizes.current.step_rows, *(size for size, users in self._slices.items() if users)])

    def replace(self, standing: Standing, evaluator: Evaluator, pipeline: Pipeline) -> None:
        """Another plan takes the place of the one that ran for a query alone."""
        self._slices[standing.pipeline.slice] -= 1
        self._slices[pipeline.slice] += 1
        self.let_go(standing.pipeline, standing.evaluator)
        standing.evaluator, standing.pipeline = evaluator, pipeline
        self.tails[id(pipeline)] = Tail(None, pipeline, [standing])

    def tail(
        self,
        root: Root,
        since: int,
        now: int | None,
        *,
        may_move: bool,
        time_type: Type = Type.BIGINT,
    ) -> tuple[Tail, Evaluator]:
        """A plan to run: one that runs already, if it is equal and began at the same instant.

        `now`: the next instant of its streams; None: they stand at different ones.
        """
        if self._policies.budget is not None:
            rider = Rider(root)
            for tail in self.tails.values():
                if self._policies.share and since == now and isinstance(tail.pipeline, Ranked):
                    if not tail.stopped and tail.pipeline.takes(rider, since):
                        tail.pipeline.board(rider, since)
                        return tail, tail.standings[0].evaluator
            evaluator = Evaluator(self._strings, self._functions)
            riders = Riders([rider], self._policies.significance)
            ranked = Ranked(
                riders, evaluator, self._strings, self._functions, since, time_type, self._policies,
                demand=self._upkeep.demand,
            )  # fmt: skip
            return Tail(None, ranked), evaluator
        sharing = self._sharing if not may_move and since == now else None
        key: TailKey | None = None
        if sharing is not None and not root.extra:  # each says ranks of its own, and may be told others
            text = describe(root.node)
            functions = functions_in(text, self._functions)
            # In which order predicates are written decides which rows a function sees: it may fail on others.
            key = (text, *functions, since, outline(root.node) if functions else "")
        found = None if key is None else self._known.get(key)
        if found is not None:
            return found, found.standings[0].evaluator
        meets = sharing is not None and self._meets(root)
        if meets:
            self._adopt(meeting_streams(root.node), since - 1)
        evaluator = Evaluator(self._strings, self._functions)
        try:
            pipeline = build(
                root,
                evaluator,
                self._strings,
                since,
                self._upkeep,
                may_move=may_move,
                shares=sharing,
                meets=meets,
            )
        except PenstockError:
            evaluator.release()
            if sharing is not None:
                sharing.tidy()
            raise
        return Tail(key, pipeline), evaluator

    def weigh(self, standing: Standing, weight: float) -> None:
        """A query counts for something else beside others."""
        standing.weight = weight
        if standing.rider is not None:
            assert isinstance(standing.pipeline, Ranked)
            standing.pipeline.weigh(standing.rider, weight)

    def _meets(self, root: Root) -> bool:
        """Whether a query's joins go where others are joined: a walk for one query alone is quicker by itself."""
        if self._upkeep.tree is not None:
            return False
        if self._join != "auto":
            return self._join == "eddy"
        if any(self._joining[stream] for stream in meeting_streams(root.node)):
            return True
        return not all(found.alone for found in shared_joins(root.node))

    def _adopt(self, streams: set[str], now: int) -> None:
        """Let queries whose joins of these streams were by themselves go on where all are joined."""
        assert self._sharing is not None
        for tail in list(self.tails.values()):
            first = tail.standings[0]
            old = tail.pipeline
            if old.meets or not old.shares or not streams & meeting_streams(first.root.node):
                continue
            evaluator = Evaluator(self._strings, self._functions)
            tail.pipeline = adopted(
                old, first.since, evaluator, self._strings, self._upkeep, self._sharing, now,
                alone=len(tail.standings) == 1,
            )  # fmt: skip
            del self.tails[id(old)]
            first.owed = self._sharing.begin(tail.pipeline)
            if first.owed is None:
                self.tails[id(tail.pipeline)] = tail
            elif tail.key is not None:
                del self._known[tail.key]
            self._sharing.release(old)
            first.evaluator.release()
            for standing in tail.standings:
                standing.evaluator, standing.pipeline = evaluator, tail.pipeline
                self._slices[old.slice] -= 1
                self._slices[tail.pipeline.slice] += 1

    def rerank(self, standing: Standing, root: Root) -> None:
        """Let a query's results say another rank: they are what they were, and so is all that is remembered."""
        pipeline, new = standing.pipeline, root.node
        check_reranked(standing.root.node, new)
        if new == standing.root.node:
            return
        if standing.owed is not None:
            _ = standing.answer  # what has come is told by the ranks that it came by
            standing.owed.differ((*pipeline.likeness, standing.name, str(new)))
        site = Site(pipeline.arena, "rank", standing.evaluator, standing.since, self._upkeep, False, False)
        rerank(pipeline, new, site)

    def begin(self, standing: Standing, tail: Tail) -> None:
        """Let a query take part."""
        pipeline = standing.pipeline
        if not tail.standings and self._sharing is not None:
            standing.owed = self._sharing.begin(pipeline)
        tail.standings.append(standing)
        if isinstance(pipeline, Ranked):
            standing.rider = pipeline.riders.every[len(tail.standings) - 1]
        if standing.owed is None:
            self.tails[id(pipeline)] = tail
            if tail.key is not None:
                self._known[tail.key] = tail
        if pipeline.shares:
            self._joining.update(meeting_streams(standing.root.node))
        self._slices[pipeline.slice] += 1

    def retire(self, standing: Standing) -> None:
        """A query's plan runs for it no more."""
        pipeline = standing.pipeline
        if pipeline.shares:
            self._joining -= Counter(meeting_streams(standing.root.node))
        self._slices[pipeline.slice] -= 1
        tail = self.tails.get(id(pipeline))
        if tail is not None:
            tail.standings.remove(standing)
            if standing.rider is not None and tail.standings:
                assert isinstance(pipeline, Ranked)
                pipeline.leave(standing.rider)
        if standing.owed is not None:
            standing.owed.close()
        if tail is None or not tail.standings:
            self.let_go(pipeline, standing.evaluator)

    def let_go(self, pipeline: Pipeline, evaluator: Evaluator) -> None:
        """Nobody runs a plan any more."""
        tail = self.tails.pop(id(pipeline), None)
        if tail is not None and tail.key is not None:
            del self._known[tail.key]
        if self._sharing is not None:
            self._sharing.release(pipeline)
        evaluator.release()
