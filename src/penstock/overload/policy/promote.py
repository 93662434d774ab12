"""Proactive promotion: levels are activated, and determinants placed, as rows expire and queues grow (Works 2013, §4.3, §4.4).

Monitor    queue lengths, units a row by operator, shares by determinant; of rows that expired before they were sorted some are looked at.
Triggers   (1) rows of a level expire that is not active; (2) rows of an active level expire and there are less significant active ones;
           (3) levels are active and no row at all, with a level or without, has expired for a lifespan. And (0): rows begin to wait,
           or no level is active and all that waits takes a good part of a lifespan: whoever comes now is about to expire.
Adaptor    classifiers evaluate other determinants and lanes are lined up anew; the routes stay as they are. A row keeps its level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from penstock.overload.operator_queues import Routes
from penstock.overload.policy.allocation import Arrived, Fifo, Moment, place
from penstock.overload.policy.promotion import model
from penstock.overload.policy.promotion.exact import exact
from penstock.overload.queued_operator import Determinant, Stop, ahead
from penstock.overload.scheduler import Scheduler
from penstock.state.priority_queue import BACK_BURNER, LEVEL, NEXT, PROMISE, counted
from penstock.types.batch import Ints
from penstock.types.event_time import FOREVER

SAMPLE = 64
"""Rows of a batch that expired which are looked at for their level."""
DOUBT = 4.0
"""How often the latency without promotion must fit into a lifespan before levels are active no more."""
HARDLY = 0.5
"""Rows of a level that expired in a step, by estimate: fewer are none."""
SOON = 0.25
"""Of a lifespan: what waits takes so much, and levels that are not active are in danger."""
LEAST = 0.05
"""Of a step's units that classifiers may always have."""


class Promote(Fifo):
    """The most significant first, throughout."""

    def __init__(self, scheduler: Scheduler, seed: int) -> None:
        self.levels = sorted({d.level for core in scheduler.cores for d in core.determinants})
        self.expired: dict[int, float] = {}
        """By level, since the last look; of rows without a level an estimate."""
        self.trigger: int | None = None
        """Which trigger fired last."""
        self.plan: model.Promotion | None = None
        """What was decided last."""
        self._begun = False
        self._unhurt = 0.0
        """Units since a row expired, whatever its level: as long as some do, a level that is not active would wait behind them."""
        self._ranked = [
            {r[0].route for r in core.routes if any(core.path(r, d) for d in core.determinants)}
            for core in scheduler.cores
        ]
        """By core: the streams that have levels."""
        scheduler.lost = self._lost
        super().__init__(scheduler, seed)

    def begin_busy(self) -> None:
        self.expired.clear()
        self._begun = False
        self._unhurt = 0.0

    def admitted(self, arrived: Arrived, moment: Moment) -> Arrived:
        if not self._begun:
            self.adapt(moment)
        return arrived

    def save(self) -> dict[str, Any]:
        return {"begun": self._begun, "unhurt": self._unhurt, "expired": list(self.expired.items())}

    def take_up(self, was: Mapping[str, Any]) -> None:
        self._begun, self._unhurt, self.expired = was["begun"], was["unhurt"], dict(was["expired"])

    def _lost(self, core: int, stop: Stop, rows: Ints) -> None:
        """Which levels would rows have had that expired?"""
        self._unhurt = 0.0
        aside = rows[NEXT] > 0
        if aside.any():
            # Its best results are made; what it waited for is known.
            waited = np.minimum(rows[LEVEL, aside], rows[PROMISE, aside])
            for level, count in counted(waited[waited < BACK_BURNER]):
                self._count(level, count)
            rows = rows[:, ~aside]
        if stop.route not in self._ranked[core]:
            # They have none, but might have met rows of any.
            for level in self.levels:
                self._count(level, rows.shape[1])
            return
        known = rows[LEVEL] < BACK_BURNER
        for level, count in counted(rows[LEVEL, known]):
            self._count(level, count)
        rest = rows[:, ~known]
        if not rest.shape[1]:
            return
        some = rest[:, :: -(-rest.shape[1] // SAMPLE)]
        routes = self.scheduler.cores[core]
        found = routes.levels_at(stop, some)
        self._looked(core, stop, some, found, rest.shape[1] / some.shape[1])
        for level, count in counted(found[found < BACK_BURNER]):
            self._count(level, count * rest.shape[1] / some.shape[1])
        for one in routes.determinants:
            if not one.inputs <= stop.bound:
                self._count(one.level, rest.shape[1] * self._foreseen(routes, stop, one))

    def _looked(self, core: int, stop: Stop, rows: Ints, levels: Ints, weight: float) -> None:
        """Some of the rows that expired unsorted, with their levels."""

    def _count(self, level: int, rows: float) -> None:
        self.expired[level] = self.expired.get(level, 0.0) + rows

    def _foreseen(self, core: Routes, stop: Stop, one: Determinant) -> float:
        """The share of rows before a stop that a determinant would find later on."""
        route = core.routes_by[stop.route]
        path = core.path(route, one)
        if not path:
            return 0.0
        passed = 1.0
        for before in route[stop.at : path[0]]:
            passed *= before.selectivity
        return passed * core.share_of(one)

    def adapt(self, moment: Moment) -> None:
        self.trigger = self._fired(moment)
        self._unhurt += moment.units
        # While rows expire nothing fits that is not promoted; once levels are active, queues tell less than there would be without.
        over = any(self.expired.values()) or self._endangered(moment)
        doubt = float("inf") if over else DOUBT if self.scheduler.active else 1.0
        self.expired.clear()
        if self.trigger is None or not self.levels:
            return
        routes = [(core, route) for core in self.scheduler.cores for route in core.routes]
        asked = [
            (number, core, one, path)
            for number, (core, route) in enumerate(routes)
            for one in core.determinants
            if (path := core.path(route, one))
        ]
        problem = model.Problem(
            tuple(
                model.Route(tuple(self._stop(s) for s in self._rated(core, route))) for core, route in routes
            ),
            tuple(
                model.Determinant(
                    1 + self.levels.index(one.level), number, one.cost, core.share_of(one), path[0], path[-1]
                )
                for number, core, one, path in asked
            ),
            float(FOREVER) if moment.lifespan is None else moment.lifespan,
            self._capacity(moment, routes),
            moment.units,
            doubt,
        )
        self.plan = exact(problem)
        self._apply(routes, asked)

    def _fired(self, moment: Moment) -> int | None:
        active = self.scheduler.active
        if not self._begun or (not active and self._endangered(moment)):
            self._begun = True
            return 0
        expired = [level for level, count in self.expired.items() if count >= HARDLY]
        if any(level not in active for level in expired):
            return 1
        if any(level < max(active) for level in expired):
            return 2
        unhurt = moment.lifespan is None or self._unhurt > moment.lifespan
        return 3 if not expired and active and unhurt else None

    def _endangered(self, moment: Moment) -> bool:
        """Streams take turns, so a row waits for what all of them have waiting. Without a lifespan none waits gladly."""
        backlog = self.scheduler.backlog()
        return backlog > 0 if moment.lifespan is None else backlog > SOON * moment.lifespan

    def _rated(self, core: Routes, route: Sequence[Stop]) -> list[tuple[Stop, float]]:
        """Stages, and how many rows of a step would come to each if all were worked on."""
        rate = core.arrived_of_late.get(route[0].route, 0.0)
        made = []
        for stop in route:
            made.append((stop, rate))
            rate *= stop.known
        return made

    def _stop(self, rated: tuple[Stop, float]) -> model.Stage:
        stop, rate = rated
        queues = [stop.queued(level) for level in self.levels]
        rest = stop.waiting - sum(queues)
        return model.Stage(max(stop.cost, 1.0), (*queues, rest), rate, stop.selectivity)

    def _capacity(self, moment: Moment, routes: Sequence[tuple[Routes, Sequence[Stop]]]) -> float:
        """What a step has for classifiers: its units without what rows of the best level take. Under overload, more: all rows would take what is
        offered, and as long as to ask them and to work on the important ones takes less than that, more of these are told than without
        (`lab.tests.figures.costly`)."""
        load = offered = 0.0
        for core, route in routes:
            best = [d for d in core.determinants if d.level == self.levels[0] and core.path(route, d)]
            share = min(1.0, sum(core.share_of(d) for d in best))
            taken = core.arrived_of_late.get(route[0].route, 0.0) * ahead(route, 0)
            load, offered = load + taken * share, offered + taken
        return max(moment.units - load, offered - load, LEAST * moment.units)

    def _apply(
        self,
        routes: Sequence[tuple[Routes, Sequence[Stop]]],
        asked: Sequence[tuple[int, Routes, Determinant, range]],
    ) -> None:
        assert self.plan is not None
        # What COVER promises, and what other queries' levels are compared with, hangs on levels being told apart.
        needed = {one.level for _, one in self.scheduler.coverage.every} & set(self.levels)
        needed |= set(self.levels) if self.scheduler.among else set()
        active = frozenset({self.levels[level - 1] for level in self.plan.active} | needed)
        before = [stop.assessed for _, route in routes for stop in route]
        for number, (core, route) in enumerate(routes):
            places = {
                one: self.plan.places.get(n, path[0])
                for n, (where, _, one, path) in enumerate(asked)
                if where == number and one.level in active and (n in self.plan.places or one.level in needed)
            }
            place(core, route, places)
        after = [stop.assessed for _, route in routes for stop in route]
        if active != self.scheduler.active or before != after:
            self.scheduler.active = active
            self.scheduler.rearrange()
