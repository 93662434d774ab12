"""A query that has a budget: what it has no units for waits, or is dropped by its lifespan; the most important goes first.

Paper      Works 2013, chapter 4.
Invariant  when nothing waits and nothing was dropped, all has been said that the ordinary plan says; later, if rows waited.
Calm       while a step's rows fit into its units, cores run by the ordinary operators (`runtime.core`), and nothing is classified.
Busy       else rows go along routes, by rank (`flow.routes`), until nothing has waited for some steps.
Time       processing time is counted in microseconds. By the virtual clock a unit is one, and a step lasts as long as it has units,
           used or not; by the wall clock a unit takes what units took before.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.data.batch import Array, Batch
from penstock.data.schema import Schema
from penstock.data.types import Type
from penstock.errors import PlanError, StateError
from penstock.flow.allocation import Arrived, Fifo, Moment, Random, Semantic
from penstock.flow.aside import Aside
from penstock.flow.cores import Core, cores
from penstock.flow.coverage import Coverage, Coverages
from penstock.flow.prefer import Prefer
from penstock.flow.promote import Promote
from penstock.flow.scheduler import Scheduler
from penstock.flow.significance import Place
from penstock.flow.significance import place as place_of
from penstock.flow.tallies import Tallies, place
from penstock.operators.abilities import Holding
from penstock.operators.contract import empty
from penstock.operators.evaluate import Evaluator
from penstock.operators.expressions.parts import RowError
from penstock.plan.catalog import Function
from penstock.plan.levels import Disjunct, Levels
from penstock.plan.nodes import Node, Reliable
from penstock.plan.policies import Policies
from penstock.plan.roots import Root
from penstock.rules.walk import every
from penstock.runtime.above import (
    Above,
    Said,
    found_changes,
    keep_changes,
    mark_rows,
    table_schemas,
)
from penstock.runtime.core import CoreRun, Workshop
from penstock.runtime.pipeline import Key, Pipeline, told
from penstock.runtime.riders import Riders
from penstock.state.arena import Arena
from penstock.state.lanes import ORDER
from penstock.state.strings import Strings

QUIET = 3
"""Steps with nothing left over after which a busy query becomes calm. One that leaves less than the next can work on does not count, but those
before it still do: after a burst windows are full of its rows, and a step that happens to bring a few more than usual is no burst."""
GUESS = 2.0
"""Units a row, before any was worked on."""
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


@dataclass(slots=True)
class Slice:
    """What came until an instant: rows by core and input, and what tables say."""

    now: int
    rows: list[list[Batch]]
    tables: dict[Key, Batch]

    def __len__(self) -> int:
        return sum(len(batch) for own in self.rows for batch in own)


class Ranked(Pipeline):
    """Takes rows with `step`, and works when it is its turn (`runtime.turns`): `calmly`, or `begin`, `run` and `finish`. Over an arena of saved arrays it goes on where it was."""

    def __init__(
        self,
        root: Root,
        evaluator: Evaluator,
        strings: Strings,
        functions: Mapping[str, Function],
        since: int,
        time_type: Type,
        policies: Policies,
        arena: Arena | None = None,
        riders: Riders | None = None,
    ) -> None:
        super().__init__(Arena() if arena is None else arena, root, time_type=time_type)
        held = self.arena.found(TOLD, np.uint8)
        was = None if held is None else json.loads(held.tobytes())
        self.busy = was is not None and bool(was["busy"])
        whole = policies.keep_dropped > 0
        workshop = Workshop(self.arena, evaluator, strings, functions, since, time_type, whole=whole)
        above, found = cores(root, "core")
        self.riders = riders
        """Queries whose core this is; None: it is the one query's own."""
        self._cores = [
            CoreRun(core, n, workshop, self._disjuncts(core, root.levels), busy=self.busy)
            for n, core in enumerate(found)
        ]
        self._above = Above(above, self._cores, workshop, policies.sampling_memory)
        read = [key for core in self._cores for window in core.windows for key in window.sources]
        self.sources = list(dict.fromkeys(read + self._above.tables))
        self._schemas = table_schemas(root.node)
        self._let_finish()
        self.tallies = Tallies() if riders is None else riders
        self.scheduler = Scheduler([core.routes for core in self._cores], self.tallies)
        self.scheduler.lifespan = root.levels.lifespan
        self.scheduler.atomic = policies.allocation != "prefer"
        self._above.watch(self.scheduler)
        if whole:
            routes = [core.routes for core in self._cores]
            self.scheduler.aside = Aside(routes, strings, time_type, policies.keep_dropped)
        self._workshop = workshop
        self._cover(root.levels)
        self._policies = policies
        self.allocation = ALLOCATED[policies.allocation](self.scheduler, policies.seed)
        self._pair = max(core.pair for core in self._cores)
        self._incoming: list[Slice] = []
        self._now = since - 1
        self._time = self._quiet = self._steps = 0
        self._price = GUESS
        self.owed = 0.0
        """Units that the last step overdrew."""
        self._moment = Moment(0.0, None, 0)
        self.spent = 0.0
        """Units of the last step."""
        if was is not None:
            self._take_up(was)

    # ------------------------------------------------------------------ rows come

    def step(self, feeds: Mapping[Key, Batch], now: int) -> Batch:
        """Take what came, in memory that stays as it is; nothing is said before it is worked on."""
        rows = []
        for core in self._cores:
            own = []
            for window in core.windows:
                given = {key: feeds[key] for key in window.sources}
                own.append(window.step(given, now) if window.stages else given[window.sources[0]])
            rows.append(own)
        tables = {key: feeds[key] for key in self.sources if key[0] == "table"}
        self._incoming.append(Slice(now, rows, tables))
        return empty(len(self.root.node.schema))

    # ------------------------------------------------------------------ work

    @property
    def expected(self) -> float:
        """Units that all it has would take."""
        waits = self.scheduler.backlog() if self.busy else 0.0
        return sum(map(len, self._incoming)) * self._price + waits

    @property
    def has_order(self) -> bool:
        """Whether some of its rows may go before others."""
        return self._policies.allocation in ORDERED and any(core.routes.determinants for core in self._cores)

    def tell_time(self, pace: float) -> None:
        """Time is the wall clock's, and a unit takes so long."""
        self.scheduler.pace, self._time = pace, time.monotonic_ns() // 1000

    def calmly(self) -> Said:
        """A step by the ordinary operators: all that came."""
        slices, self._incoming = self._incoming, []
        self._steps += 1
        with self._telling():
            return self._calmly(slices, sum(map(len, slices)))

    def begin(self, granted: float, units: float | None, *, among: bool) -> float:
        """A step along the routes: what came lines up. `granted`: units that it may hope for, of those of the step (None: no end of them).
        `among`: its levels are compared with those of others.

        Returns the units that it took to line up.
        """
        slices, self._incoming = self._incoming, []
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
            if self.scheduler.aside is not None:
                self.scheduler.aside.clock, self.scheduler.moment = self._now, self._time
            for (n, which), rows in self.allocation.admitted(arrived, self._moment).items():
                self.scheduler.enqueue(n, self._cores[n].routes.routes_by[which][0], rows)
            self.scheduler.begin()
        return self.spent

    def run(self, units: float, since: float, goes: Callable[[int], bool]) -> float:
        """Work for so many units, when so many of the step have been spent, as long as levels go; the units spent."""
        with self._telling():
            began = self._time + int(since * self.scheduler.pace)
            results, spent = self.scheduler.run(units, began, goes)
            for made in results:
                if self.riders is not None:
                    for one in self.riders.every:
                        one.hear_late(made.batch, made.levels, made.ages, made.lag, self._now)
                    continue
                self.tallies.delivered(made.levels, made.ages)
                self._above.hold(made.core, self._cores[made.core].finished(made.batch, self._now))
        self.spent += spent
        return spent

    def by_query(self, said: Said) -> list[Said]:
        """What there is to say, for each query."""
        return [said] if self.riders is None else [one.released(self._now) for one in self.riders.every]

    def place(self, setting: str, weight: float, level: int) -> Place:
        """Where a level stands on the scale of all queries."""
        return place_of(setting, weight, level) if self.riders is None else self.riders.places[level]

    def finish(self, spent: float, *, whole: bool) -> Said:
        """The step is over, after so many units of all queries: what may be said. `whole`: nothing was to be left over."""
        with self._telling():
            return self._finish(spent, whole)

    def passed(self, lasted: int, pace: float | None) -> None:
        """A step is over for everybody."""
        if pace is None:
            self._time += lasted

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except RowError as failed:
            raise told(failed, self.time_type) from failed.__cause__

    def _calmly(self, slices: Sequence[Slice], rows: int) -> Said:
        before, noticing = self.arena.visits, 0.0
        said: Said = []
        for part in slices:
            made: list[Batch] = []
            for n, core in enumerate(self._cores):
                noticing += self.scheduler.coverage.came_and_went(n, part.rows[n])
                made.append(core.calm(part.rows[n], part.tables, part.now))
            self._now = part.now
            if self.riders is None:
                said += self._above.at_once(made, part.tables, part.now)
            else:
                self.riders.hear(made[0], part.now)
            self.scheduler.settle(part.now)
        self.spent = noticing + rows + (self.arena.visits - before) * self._pair
        if rows:
            self._price += min(1.0, rows / 4096) * (self.spent / rows - self._price)
        self.tallies.in_time += sum(len(batch) for batch, _ in said)
        return said

    def _finish(self, spent: float, whole: bool) -> Said:
        self.scheduler.sweep(self._time + int(spent * self.scheduler.pace))
        self.scheduler.settle(self._now)
        self.arena.visits += int(self.spent)
        progress = [core.routes.progress(self._now) for core in self._cores]
        ranked = bool(self.scheduler.active and self.root.extra)
        said = self._above.released(min(progress), self._now, ranked=ranked)
        for core in self._cores:
            core.routes.purge(self._now)
        self.allocation.adapt(self._moment)
        waits = self.scheduler.waiting
        if not waits:
            self._quiet += 1
        elif self.scheduler.backlog() > self._moment.units:
            self._quiet = 0
        if not waits and (self._quiet >= QUIET or whole):
            for core in self._cores:
                core.calm_down(self._now)
            self.busy = False
        return said

    def _arrived(self, slices: Sequence[Slice]) -> tuple[Arrived, float]:
        """Rows that came, and the units it took to tell which of them COVER speaks of."""
        parts: dict[tuple[int, int], list[Array]] = {}
        noticing = 0.0
        for part in slices:
            for n, core in enumerate(self._cores):
                for which, rows in core.admit(part.rows[n], self._time):
                    parts.setdefault((n, which), []).append(rows)
                    batch = part.rows[n][which]
                    joins = partial(core.routes.can_join, which, batch)
                    noticing += self.scheduler.coverage.came(n, which, batch, joins, rows[ORDER])
            self._above.note(part.tables)
            self._now = part.now
        arrived = {key: np.concatenate(rows, axis=1) for key, rows in parts.items()}
        for n, core in enumerate(self._cores):
            core.routes.note_arrivals({w: rows.shape[1] for (m, w), rows in arrived.items() if m == n})
        return arrived, noticing

    def _cover(self, levels: Levels) -> None:
        """Keep to what COVER promises from now on."""
        before = {one.about: one for _, one in self.scheduler.coverage.every}
        made: dict[int, tuple[int, Coverage]] = {}
        for n, core in enumerate(self._cores):
            for about in core.core.covered(levels.ranks, levels.over):
                if about.level in made:
                    continue
                one = before.pop(about, None)
                if one is None:
                    site = self._workshop.site(f"cover{about.level}")
                    self.arena.drop(f"{site.name}.")
                    one = Coverage(site, about, self._workshop.functions)
                made[about.level] = n, one
        for about in before:
            if about.level not in made:
                self.arena.drop(f"cover{about.level}.")
        for rank in levels.ranks:
            if rank.cover is not None and rank.level not in made:
                raise PlanError(
                    f"what COVER of rank {rank.level} speaks of is not a stream of the plan",
                    hint="name the stream in the FROM of the query itself",
                )
        self.scheduler.cover(Coverages(made.values()))

    def _get_busy(self) -> None:
        for core in self._cores:
            core.get_busy(self._now)
        self.busy, self._quiet = True, 0
        self.allocation.begin_busy()

    # ------------------------------------------------------------------ what is held

    def current(self, now: int) -> Batch | None:
        return self._above.current()

    @property
    def waiting(self) -> int:
        """Rows, whole or partial, that wait."""
        return self.scheduler.waiting

    def _let_finish(self) -> None:
        if self.riders is not None:
            riders = self.riders.every
            for one, finish in zip(riders, self._cores[0].leave_to([r.core for r in riders]), strict=True):
                one.finish = finish

    def compare(self, significance: str) -> None:
        """Ranks of riders are worth this beside each other from now on."""
        if self.riders is not None and self.riders.setting != significance:
            self.riders.setting = significance
            self.regroup()

    def regroup(self) -> None:
        """Riders came to ask something else, weigh something else, or are gone."""
        assert self.riders is not None
        before = self.riders.disjuncts
        root = self.riders.combined(self.needed)
        if self.riders.disjuncts == before:
            self.root = root
            self.outlive(root.levels.lifespan)
            self._let_finish()
        else:
            self.rerank(root)

    def _disjuncts(self, core: Core, levels: Levels) -> tuple[Disjunct, ...]:
        """What levels hang on."""
        return core.disjuncts(levels.ranks, levels.over) if self.riders is None else self.riders.disjuncts

    @property
    def needed(self) -> frozenset[int] | None:
        """Columns of the core that are kept for riders."""
        return None if self.riders is None else frozenset(self._cores[0].routes.wanted)

    def rerank(self, root: Root) -> None:
        """Go on by other ranks and another lifespan; the plan is the same but for what it says of ranks."""
        above, found = cores(root, "core")
        if above is not None and any(isinstance(node, Reliable) for node in every(above.node)):
            raise StateError(
                "groups that answer from samples are kept by level: their ranks stay as they are",
                hint="register the query anew, with the new ranks",
            )
        levels = root.levels
        for core, new in zip(self._cores, found, strict=True):
            core.rerank(new, self._disjuncts(new, levels))
        self.root = root
        self._let_finish()
        self._cover(levels)
        self.scheduler.rerank()
        self.allocation = ALLOCATED[self._policies.allocation](self.scheduler, self._policies.seed)
        self.allocation.begin_busy()
        self.outlive(levels.lifespan)

    def outlive(self, lifespan: int | None) -> None:
        """Another lifespan, also for what waits already."""
        self.scheduler.lifespan = lifespan

    def dropped(self) -> pa.Table | None:
        """What has been dropped since somebody asked last; None: nothing is kept of it."""
        return None if self.scheduler.aside is None else self.scheduler.aside.given()

    def holdings(self, node: Node) -> list[Holding]:
        """At the root: what waits where."""
        roots = [self.root] if self.riders is None else [one.root for one in self.riders.every]
        if not any(node is root.node for root in roots):
            return []
        if not self.busy:
            return [Holding("rows that wait", "calm: cores run by the ordinary operators", 0)]
        found = []
        for n, core in enumerate(self._cores):
            for stop in core.routes.stops:
                assessed = sorted({d.level for d in stop.assessed})
                sorts = f", rank {', '.join(map(str, assessed))} is found before it" if assessed else ""
                found.append(Holding(place(n, stop), f"lanes by rank{sorts}", stop.waiting))
        return found

    def load(self, which: int = 0) -> dict[str, Any]:
        """How it stands: for progress, EXPLAIN and people. `which`: of its queries."""
        tallies = self.tallies if self.riders is None else self.riders.every[which].tallies
        aside = self.scheduler.aside
        covered = [one.json() for _, one in self.scheduler.coverage.every]
        return {
            "busy": self.busy,
            "waiting": self.waiting,
            "active": sorted(self.scheduler.active) if self.busy else [],
            **({} if aside is None else {"dropped_beyond": aside.beyond}),
            **tallies.json(),
            **({} if self.riders is None else {"riders": len(self.riders.every)}),
            **({"coverage": covered} if covered else {}),
            **({} if self._policies.sampling_memory is None else {"let_go": self._above.let_go}),
        }

    def mark_strings(self, mark: Callable[[Array], None]) -> None:
        super().mark_strings(mark)
        self._above.mark_strings(mark)
        self.allocation.mark_strings(mark)
        for n, part in enumerate(self._incoming):
            for _, schema, batch in self._places(n, part):
                mark_rows(mark, schema, batch)

    def _places(self, number: int, part: Slice) -> Iterator[tuple[str, Schema, Batch]]:
        """What came and was not worked on yet, under names."""
        for n, (core, own) in enumerate(zip(self._cores, part.rows, strict=True)):
            for i, (one, batch) in enumerate(zip(core.core.inputs, own, strict=True)):
                yield f"in{number}.{n}.{i}", one.schema, batch
        for i, (key, batch) in enumerate(part.tables.items()):
            yield f"in{number}.table{i}", self._schemas[key], batch

    def saved(self) -> Arena:
        arena = Arena()
        arena.arrays = dict(self.arena.arrays)
        about = {
            "busy": self.busy,
            "incoming": [part.now for part in self._incoming],
            "now": self._now,
            "above": [self._above.until, self._above.let_go],
            "time": [self._time, self._quiet, self._steps],
            "units": [self.owed, self._price, self.spent],
            "tallies": self.tallies.save(),
            "scheduler": self.scheduler.save(arena),
            "allocation": self.allocation.save(),
            "coverage": [one.save() for _, one in self.scheduler.coverage.every],
        }
        arena.keep(TOLD, np.frombuffer(json.dumps(about).encode(), np.uint8))
        self._above.save(arena)
        if self.scheduler.aside is not None:
            self.scheduler.aside.save(arena)
        for n, part in enumerate(self._incoming):
            for name, _, batch in self._places(n, part):
                keep_changes(arena, name, batch)
        return arena

    def _take_up(self, was: dict[str, Any]) -> None:
        self._now = was["now"]
        self._time, self._quiet, self._steps = was["time"]
        self.owed, self._price, self.spent = was["units"]
        self.tallies.take_up(was["tallies"])
        self.scheduler.take_up(self.arena, was["scheduler"])
        self.allocation.take_up(was["allocation"])
        for (_, one), saved in zip(self.scheduler.coverage.every, was["coverage"], strict=True):
            one.take_up(saved)
        self._above.take_up(self.arena, *was["above"])
        if self.scheduler.aside is not None:
            self.scheduler.aside.take_up(self.arena)
        for number, now in enumerate(was["incoming"]):
            nothing = [[empty(len(one.schema)) for one in core.core.inputs] for core in self._cores]
            tables = {key: empty(len(self._schemas[key])) for key in self.sources if key[0] == "table"}
            part = Slice(now, nothing, tables)
            held = [found_changes(self.arena, name, schema) for name, schema, _ in self._places(number, part)]
            rows = iter(held)
            part.rows = [[next(rows) for _ in own] for own in part.rows]
            part.tables = {key: next(rows) for key in part.tables}
            self._incoming.append(part)
