"""A query that has a budget: what it has no units for waits, or is dropped by its lifespan; the most important goes first.

Paper      Works 2013, chapter 4.
Invariant  when nothing waits and nothing was dropped, all has been said that the ordinary plan says; later, if rows waited.
Calm       while a step's rows fit into its units, cores run by the ordinary operators (`overload.spj_block`), and nothing is classified.
Busy       else rows go along routes, by rank (`overload.operator_queues`), until nothing has waited for some steps.
Time       processing time is counted in microseconds. By the virtual clock a unit is one, and a step lasts as long as it has units,
           used or not; by the wall clock a unit takes what units took before.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from penstock.errors import PenstockError, StateError
from penstock.operators.capabilities import Holding
from penstock.operators.contract import empty
from penstock.operators.expressions.compiled import RowError
from penstock.operators.expressions.evaluator import Evaluator
from penstock.operators.pipeline import Key, Pipeline, told
from penstock.overload.backlog_growth import Growth
from penstock.overload.budget_share import Share
from penstock.overload.coverage.coverage import Coverages
from penstock.overload.coverage.subscriptions import Covering, promised
from penstock.overload.load_forecast import Forecast
from penstock.overload.metrics import place
from penstock.overload.ordered_downstream import Said, table_schemas
from penstock.overload.pending_input import Incoming, Slice
from penstock.overload.policy.allocation import Arrived, Fifo, Moment, Random, Semantic
from penstock.overload.policy.prefer import Prefer
from penstock.overload.policy.promote import Promote
from penstock.overload.policy.rank_scale import Place
from penstock.overload.scheduler import SOME, Scheduler
from penstock.overload.spj_block import CoreRun, Workshop
from penstock.overload.subscriber import Rider
from penstock.overload.subscriber_group import Riders, may_come_later, ridden
from penstock.plan.catalog import Function
from penstock.plan.expressions import columns
from penstock.plan.join_tree import Demand
from penstock.plan.nodes import Node, Reliable
from penstock.plan.policies import Policies
from penstock.plan.query_root import Root
from penstock.plan.traversal import every
from penstock.state.arena import Arena
from penstock.state.priority_queue import ORDER
from penstock.state.strings import Strings
from penstock.types.batch import Array, Batch
from penstock.types.data_type import Type

QUIET = 3
"""Steps that leave no more than the next can work on, after which a busy query becomes calm as soon as nothing waits: after a burst windows are
full of its rows, and a step that happens to bring a few more than usual is no burst."""
SURELY = 0.7
"""By the wall clock: of a step's time that arrivals would take by the ordinary operators. If it is no more for so many steps, a busy query becomes calm
though rows wait: along routes they take several times as long, so that it would stay busy with what a calm one can do."""
ALLOCATED: dict[str, type[Fifo]] = {
    "fifo": Fifo,
    "random": Random,
    "semantic": Semantic,
    "promote": Promote,
    "prefer": Prefer,
}
ORDERED = ("promote", "prefer")
"""Allocations by which the best level goes first."""
TOLD = "ranked.json"


class Ranked(Pipeline):
    """Takes rows with `step`, and works when it is its turn (`overload.budget_rounds`): `calmly`, or `begin`, `run` and `finish`. One query or several
    that ride on its core hear of it. Over an arena of saved arrays it goes on where it was."""

    def __init__(
        self,
        riders: Riders,
        evaluator: Evaluator,
        strings: Strings,
        functions: Mapping[str, Function],
        since: int,
        time_type: Type,
        policies: Policies,
        arena: Arena | None = None,
        demand: Demand = Demand.JIT,
    ) -> None:
        first = riders.every[0]
        super().__init__(Arena() if arena is None else arena, first.root, time_type=time_type)
        held = self.arena.found(TOLD, np.uint8)
        was = None if held is None else json.loads(held.tobytes())
        if was is not None:
            since = was["since"]
        for n, one in enumerate(riders.every):
            one.number, one.since = n, since
            if was is not None:
                one.number, one.since, failed = was["numbers"][n]
                one.failed = None if failed is None else StateError(failed)
        self.busy = was is not None and bool(was["busy"])
        self.riders = riders
        riders.combine()
        self._policies = policies
        self._workshop = Workshop(
            self.arena, evaluator, strings, functions, since, time_type,
            whole=policies.keep_dropped > 0, demand=demand,
        )  # fmt: skip
        self._cores = [
            CoreRun(
                core, n, self._workshop, riders.disjuncts[n], riders.wanted(n, since),
                dict(was["kept"][n]) if was is not None else dict.fromkeys(riders.read(n), since), busy=self.busy,
            )
            for n, core in enumerate(first.cores)
        ]  # fmt: skip
        self._routes = [core.routes for core in self._cores]
        for one in riders.every:
            one.board(self._workshop, self._routes, policies)
        self._shares = ridden(first, functions)
        read = [key for core in self._cores for window in core.windows for key in window.sources]
        self.sources = list(dict.fromkeys(read + first.above.tables))
        schemas = table_schemas(first.root.node)
        tables = {key: schemas[key] for key in self.sources if key[0] == "table"}
        self._forecast = Forecast([[one.table for one in core.inputs] for core in first.cores])
        self._incoming = Incoming(self._cores, tables, self._forecast)
        self.scheduler = Scheduler(self._routes, riders)
        self.scheduler.atomic = policies.allocation != "prefer"
        first.above.watch(self.scheduler)
        self.fed = False
        """Something has come: tables were told."""
        self._nothing = empty(len(first.root.node.schema))
        self._now = since - 1
        self._stale = False
        """Riders came, went or weigh something else, and levels are not numbered anew yet."""
        self._covering = Covering(self._workshop)
        self._cover()
        self._outlive()
        self.allocation = ALLOCATED[policies.allocation](self.scheduler, policies.seed)
        self._pair = max(core.pair for core in self._cores)
        self._time = self._quiet = self._steps = 0
        self.owed = 0.0
        """Units that the last step overdrew."""
        self._moment, self._came = Moment(0.0, None, 0), (0, 0.0)
        self.spent = 0.0
        """Units of the last step."""
        self._eased: float | None = None
        """By the wall clock: what a unit takes by the ordinary operators, of what it takes along routes."""
        self.growth = Growth()
        self.share = Share()
        self.worked = 0
        """Rows that the last step began with."""
        self._easy = 0
        """Steps of late in which these could have done all that came."""
        if was is not None:
            self._take_up(was)

    # ------------------------------------------------------------------ rows come

    def step(self, feeds: Mapping[Key, Batch], now: int) -> Batch:
        """Take what came; nothing is said before it is worked on."""
        self._incoming.put(feeds, now)
        self.fed = True
        return self._nothing

    # ------------------------------------------------------------------ work

    @property
    def expected(self) -> float:
        """Units that all it has would take."""
        if self.busy:
            return self.scheduler.backlog() + (self.scheduler.arriving() if len(self._incoming) else 0.0)
        return self._forecast.expected(len(self._incoming), self._incoming.pairs)

    @property
    def waiting_bytes(self) -> int:
        """Of rows that came and were not worked on yet."""
        return self._incoming.size_bytes

    @property
    def has_arrivals(self) -> bool:
        """Whether anything came, rows or time, that was not worked on yet."""
        return bool(self._incoming.slices)

    @property
    def useful(self) -> float:
        """Units that its lifespan lasts. Without one it is not late for anything, but neither is there an end to what it could owe."""
        lifespan = self.scheduler.lifespan
        return 0.0 if lifespan is None else lifespan / self.scheduler.pace

    @property
    def has_order(self) -> bool:
        """Whether some of its rows may go before others."""
        return self._policies.allocation in ORDERED and any(routes.determinants for routes in self._routes)

    def tell_time(self, pace: float, eased: float) -> None:
        """Time is the wall clock's, and a unit takes so long; by the ordinary operators so much of that."""
        self.scheduler.pace, self._time = pace, time.monotonic_ns() // 1000
        self._eased, self.scheduler.least = eased, SOME
        if self.busy:
            self.scheduler.sweep(self._time)  # time has passed since the last step

    def calmly(self) -> None:
        """A step by the ordinary operators: all that came."""
        self.worked = len(self._incoming)
        slices = self._incoming.take()
        self._steps += 1
        try:
            self._calmly(slices)
        except RowError as failed:
            raise told(failed, self.time_type) from failed.__cause__

    def begin(self, granted: float, units: float | None, *, among: bool) -> float:
        """A step along the routes: what came lines up. `granted`: units that it may hope for, of those of the step (None: no end of them).
        `among`: its levels are compared with those of others.

        Returns the units that it took to line up.
        """
        self._came = len(self._incoming), self._incoming.pairs
        self.worked = len(self._incoming)
        slices = self._incoming.take()
        self._steps += 1
        with self._telling():
            if not self.busy:
                self._get_busy()
            if among != self.scheduler.among:
                self.scheduler.among = among
                self.allocation.begin_busy()
            lifespan = self.scheduler.lifespan
            if lifespan is not None:
                # Of the time that a row has, others take their part.
                part = granted / units if units else 1.0
                self._moment = Moment(granted, lifespan / self.scheduler.pace * part, self._steps)
            else:
                self._moment = Moment(granted, None, self._steps)
            arrived, self.spent = self._arrived(slices)
            for one in self.riders.every:
                if one.aside is not None:
                    one.aside.clock, self.scheduler.moment = self._now, self._time
            for (n, which), rows in self.allocation.admitted(arrived, self._moment).items():
                self.scheduler.enqueue(n, self._routes[n].routes_by[which][0], rows)
            self.scheduler.begin()
        return self.spent

    def run(self, units: float, since: float, goes: Callable[[int], bool]) -> float:
        """Work for so many units, when so many of the step have been spent, as long as levels go; the units spent."""
        with self._telling():
            began = self._time + int(since * self.scheduler.pace)
            results, spent = self.scheduler.run(units, began, goes)
            for made in results:
                for one in self.riders.riding:
                    one.late(made, self._now)
        self.spent += spent
        return spent

    def place(self, level: int) -> Place:
        """Where a level stands on the scale of all queries."""
        return self.riders.places[level]

    def finish(self, spent: float, *, whole: bool) -> None:
        """The step is over, after so many units of all queries. `whole`: nothing was to be left over."""
        with self._telling():
            self._finish(spent, whole)

    def passed(self, lasted: int, pace: float | None) -> None:
        """A step is over for everybody."""
        if pace is None:
            self._time += lasted

    def said(self) -> list[Said]:
        """What there is to say, for each query."""
        return [one.told() for one in self.riders.every]

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except RowError as failed:
            raise told(failed, self.time_type) from failed.__cause__

    def _calmly(self, slices: Sequence[Slice]) -> None:
        before, noticing = self.arena.visits, 0.0
        for part in slices:
            self._covering.look(part)
            made: list[Batch] = []
            for n, core in enumerate(self._cores):
                noticing += self.scheduler.coverage.came_and_went(n, part.rows[n])
                made.append(core.calm(part.rows[n], part.tables, part.now))
            self._now = part.now
            for one in self.riders.riding:
                one.at_once(made, part.tables, part.now)
            self.scheduler.settle(part.now)
        rows = sum([part.size for part in slices])
        self.spent = noticing + rows + (self.arena.visits - before) * self._pair
        self._forecast.learn(rows, sum([part.pairs for part in slices]), self.spent)
        spared = sum([core.spared() for core in self._cores])
        if spared:
            self.riders.spare(spared)

    def _finish(self, spent: float, whole: bool) -> None:
        self.scheduler.sweep(self._time + int(spent * self.scheduler.pace))
        self.scheduler.settle(self._now)
        self.arena.visits += int(self.spent)
        progress = min(routes.progress(self._now) for routes in self._routes)
        for one in self.riders.riding:
            one.release(progress, self._now, ranked=self._policies.allocation in ORDERED)
        for routes in self._routes:
            routes.purge(self._now)
        self.allocation.adapt(self._moment)
        if self._would_do():
            self.scheduler.let_go()
            self._quiet = QUIET
        waits, backlog = self.scheduler.waiting, self.scheduler.backlog()
        if not waits:
            self._forecast.learn(*self._came, self.spent)
        self.growth.note(backlog)
        self._quiet = self._quiet + 1 if backlog <= self._moment.units else 0
        if not waits and (self._quiet >= QUIET or whole):
            for n, core in enumerate(self._cores):
                for which, ends in enumerate(core.calm_down(self._now)):
                    self._forecast.look(n, which, ends)
            self.busy = False
            self.growth.stop()

    def _would_do(self) -> bool:
        """Whether what comes has been little enough for the ordinary operators for some steps. Without a lifespan nothing is let go of."""
        if self._eased is None or self.scheduler.lifespan is None:
            return False
        fits = self.scheduler.arriving() * self._eased <= SURELY * self._moment.units
        self._easy = self._easy + 1 if fits else 0
        return self._easy > QUIET

    def _arrived(self, slices: Sequence[Slice]) -> tuple[Arrived, float]:
        """Rows that came, and the units it took to tell which of them COVER speaks of."""
        parts: dict[tuple[int, int], list[Array]] = {}
        noticing = 0.0
        for part in slices:
            self._covering.look(part)
            for n, core in enumerate(self._cores):
                for which, rows in core.admit(part.rows[n], self._time):
                    parts.setdefault((n, which), []).append(rows)
                    batch = part.rows[n][which]
                    joins = partial(core.routes.can_join, which, batch)
                    noticing += self.scheduler.coverage.came(n, which, batch, joins, rows[ORDER])
            for one in self.riders.riding:
                one.above.note(part.tables)
            self._now = part.now
        arrived = {key: np.concatenate(rows, axis=1) for key, rows in parts.items()}
        for n, routes in enumerate(self._routes):
            routes.note_arrivals({w: rows.shape[1] for (m, w), rows in arrived.items() if m == n})
        return arrived, noticing

    def _get_busy(self) -> None:
        for core in self._cores:
            core.get_busy(self._now)
        for routes in self._routes:
            routes.foresee()
        self.busy, self._quiet, self._easy = True, 0, 0
        self.allocation.begin_busy()

    # ------------------------------------------------------------------ who rides

    def takes(self, one: Rider, since: int) -> bool:
        """Whether another query may ride, from an instant on."""
        if self._shares is None or since < self._workshop.since:
            return False
        same = ridden(one, self._workshop.functions) == self._shares
        return same and (not self.fed or may_come_later(one))

    def board(self, one: Rider, since: int) -> None:
        """Another query rides, and sees rows from an instant on."""
        promised(one)
        one.number, one.since = 1 + max(other.number for other in self.riders.every), since
        self.riders.every.append(one)
        for n, core in enumerate(self._cores):
            core.widen(self.riders.wanted(n, self._workshop.since), self.riders.read(n), since, self._now)
        one.board(self._workshop, self._routes, self._policies)
        self._stale = True

    def leave(self, one: Rider) -> None:
        """A query is gone."""
        self.riders.every.remove(one)
        self.arena.drop(one.name)
        self._stale = True

    def alter(self, one: Rider, root: Root) -> None:
        """Go on by other ranks and another lifespan; the plan is the same but for what it says of ranks."""
        before = one.root
        one.be(root)
        try:
            if root.levels.ranks != before.levels.ranks:
                self._check_ranks(one)
            self.regroup()
        except PenstockError:
            one.be(before)
            self.regroup()
            raise
        for n, core in enumerate(self._cores):  # results say their rank: they need what the new criteria read
            core.routes.wanted |= self.riders.wanted(n, self._workshop.since)
        one.refit()

    def _check_ranks(self, one: Rider) -> None:
        """Whether other ranks can be told, also of rows that are here."""
        if one.plan is not None and any(isinstance(node, Reliable) for node in every(one.plan.node)):
            raise StateError(
                "groups that answer from samples are kept by level: their ranks stay as they are",
                hint="register the query anew, with the new ranks",
            )
        one.above.check_reranked(one.plan)
        for core, disjuncts in zip(self._cores, one.disjuncts, strict=True):
            for column in (c for d in disjuncts for c in columns(d.criteria)):
                if core.kept.get(column.index, one.since + 1) > one.since:
                    raise StateError(
                        f"the running query does not keep {column.name}, which the criteria read",
                        hint="register the query anew, with the new criteria; connect(keep_dropped=…) keeps all columns",
                    )

    def weigh(self, one: Rider, weight: float) -> None:
        """A query counts for something else beside others."""
        self._stale |= one.weight != weight
        one.weight = weight

    def ready(self) -> None:
        """Let levels be those of all that ride now; many may have come since the last step."""
        if self._stale and self.riders.every:
            self.regroup()

    def compare(self, significance: str) -> None:
        """Ranks of queries are worth this beside each other from now on."""
        if self.riders.setting != significance:
            self.riders.setting = significance
            self.regroup()

    def regroup(self) -> None:
        """Riders came, ask something else, weigh something else, or are gone."""
        self._stale = False
        before = self.riders.disjuncts
        self.riders.combine()
        other = self.riders.disjuncts != before
        if other:
            for routes, disjuncts in zip(self._routes, self.riders.disjuncts, strict=True):
                routes.rerank(disjuncts)
        if self._cover() or other:
            self.scheduler.rerank()
            self.allocation = ALLOCATED[self._policies.allocation](self.scheduler, self._policies.seed)
            self.allocation.begin_busy()
        self._outlive()

    def _cover(self) -> bool:
        """Keep to what COVER promises; whether that is something else."""
        other = self._covering.keep(self.riders, self._cores, self._now if self.fed else None)
        self.scheduler.cover(Coverages(self._covering.kept.values()))
        return other

    def _outlive(self) -> None:
        self.scheduler.lifespan = self.riders.lifespan
        for routes in self._routes:
            routes.tolerant = len(self.riders.every) > 1

    # ------------------------------------------------------------------ what is held

    def shrink(self, coming: int) -> None:
        if not self.arena.roomy:
            return
        for core in self._cores:
            core.shrink(coming)
        for one in self.riders.every:
            one.above.shrink(coming)
        for _, coverage in self.scheduler.coverage.every:
            coverage.shrink(coming)
        self.arena.look_again()

    @property
    def waiting(self) -> int:
        """Rows, whole or partial, that wait."""
        return self.scheduler.waiting

    @property
    def endless(self) -> bool:
        """What waits grows and grows, and nothing will ever be dropped."""
        return self.scheduler.lifespan is None and self.growth.goes_on

    def holdings(self, node: Node) -> list[Holding]:
        """At the root: what waits where."""
        if not self._is_root(node):
            return []
        if not self.busy:
            return [Holding("rows that wait", "calm: cores run by the ordinary operators", 0)]
        found = []
        for n, routes in enumerate(self._routes):
            for stop in routes.stops:
                assessed = sorted({d.level for d in stop.assessed})
                sorts = f", rank {', '.join(map(str, assessed))} is found before it" if assessed else ""
                found.append(Holding(place(n, stop), f"lanes by rank{sorts}", stop.waiting))
        return found

    def _is_root(self, node: Node) -> bool:
        return any(node is one.root.node for one in self.riders.every)

    def counted(self, node: Node | None = None) -> dict[str, int]:
        """Of all cores: at the root, for those who ask for a node."""
        if node is not None and not self._is_root(node):
            return {}
        told = [core.counted() for core in self._cores]
        return {
            what: sum(one.get(what, 0) for one in told)
            for what in ("made", "suppressed", "asked")
            if any(what in one for one in told)
        }

    def load(self, one: Rider | None = None) -> dict[str, Any]:
        """How it stands with a query, the first if not another: for progress, EXPLAIN and people."""
        self.ready()
        one = self.riders.every[0] if one is None else one
        covered = [coverage.json() for coverage in self._covering.of(one)]
        return {
            "busy": self.busy,
            "waiting": self.waiting,
            "backlog": round(self.scheduler.backlog()) if self.busy else 0,
            "growth": round(self.growth.a_step),
            "endless": self.endless,
            "active": sorted(self.scheduler.active) if self.busy else [],
            **({} if one.aside is None else {"dropped_beyond": one.aside.beyond}),
            **one.tallies.json(),
            **({} if one.alone else {"riders": len(self.riders.every)}),
            **({"coverage": covered} if covered else {}),
            **({} if self._policies.sampling_memory is None else {"let_go": one.above.let_go}),
        }

    def mark_strings(self, mark: Callable[[Array], None]) -> None:
        super().mark_strings(mark)
        for one in self.riders.every:
            one.above.mark_strings(mark)
        self.allocation.mark_strings(mark)
        self._incoming.mark_strings(mark)

    # ------------------------------------------------------------------ leaving and coming back

    def saved(self) -> Arena:
        self.ready()
        arena = Arena()
        arena.arrays = dict(self.arena.arrays)
        about = {
            "since": self._workshop.since,
            "busy": self.busy,
            "fed": self.fed,
            "kept": [sorted(core.kept.items()) for core in self._cores],
            "wanted": [sorted(routes.wanted) for routes in self._routes],
            "numbers": [
                [one.number, one.since, None if one.failed is None else str(one.failed)]
                for one in self.riders.every
            ],
            "riders": [one.save(arena) for one in self.riders.every],
            "incoming": self._incoming.save(arena),
            "now": self._now,
            "time": [self._time, self._quiet, self._steps],
            "units": [self.owed, self.spent],
            "forecast": self._forecast.save(),
            "growth": self.growth.save(),
            "share": self.share.known,
            "scheduler": self.scheduler.save(arena),
            "allocation": self.allocation.save(),
            "coverage": [one.save() for _, one in self.scheduler.coverage.every],
        }
        arena.keep(TOLD, np.frombuffer(json.dumps(about).encode(), np.uint8))
        return arena

    def _take_up(self, was: dict[str, Any]) -> None:
        self.fed, self._now = was["fed"], was["now"]
        self._time, self._quiet, self._steps = was["time"]
        self.owed, self.spent = was["units"]
        self._forecast.take_up(was["forecast"])
        self.growth.take_up(was["growth"])
        self.share.known = was["share"]
        for routes, wanted in zip(self._routes, was["wanted"], strict=True):
            routes.wanted |= frozenset(wanted)
        self.scheduler.take_up(self.arena, was["scheduler"])
        self.allocation.take_up(was["allocation"])
        for (_, coverage), saved in zip(self.scheduler.coverage.every, was["coverage"], strict=True):
            coverage.take_up(saved)
        for one, rider in zip(self.riders.every, was["riders"], strict=True):
            one.take_up(rider)
        self._incoming.take_up(self.arena, was["incoming"])
