"""Preferential results: promotion, and rows that promise to meet significant ones go with them as far as the join where they do.

Paper      Works 2013, chapter 6 (PR); `search` is PR-Prune.
Monitor    `preference.monitor`: frequent join values of significant rows, and how many rows of other streams have them.
Optimizer  static levels first, as in `overload.policy.promote`; then dynamic ones, of values that are frequent enough (`FREQUENT`) in levels that are active.
Adaptor    classifiers look other values up. Rows that wait keep what they promise; if there are new values, those of a stream
           without promise are looked at again.
Else       a row of a stream without levels goes with the best active one where nothing is known (`overload.scheduler`). Where dynamic levels are
           active it goes behind all levels if it promises nothing; or, if not enough is known of what significant rows have (`KNOWN`), with
           that level as before, but behind rows of its stream that do promise something. Without dynamic levels all is as with `overload.policy.promote`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from penstock.overload.classifiers import LOOK
from penstock.overload.operator_queues import Routes
from penstock.overload.policy.allocation import Arrived, Moment
from penstock.overload.policy.preference import exchange, model
from penstock.overload.policy.preference.monitor import Monitor
from penstock.overload.policy.preference.partition_grid import Dealt, Grid
from penstock.overload.policy.preference.search import pruned
from penstock.overload.policy.promote import DOUBT, Promote
from penstock.overload.policy.promotion import model as static
from penstock.overload.queued_operator import Promising, Stop
from penstock.overload.scheduler import Scheduler
from penstock.state.priority_queue import BACK_BURNER, PROMISE, counted
from penstock.state.strings import Strings
from penstock.types.batch import Array, Ints
from penstock.types.event_time import FOREVER

FREQUENT = 0.05
"""Of the most frequent value of an attribute and level: what is less frequent is not looked up."""
KNOWN = 0.8
"""How probably the next row of a level has a value that is known, so that rows with others go behind."""
PERIOD = 4
"""Steps from plan to plan while nothing else changes."""


class Prefer(Promote):
    """The most significant first, and what may meet it."""

    def __init__(self, scheduler: Scheduler, seed: int) -> None:
        super().__init__(scheduler, seed)
        self.monitors = [Monitor(core, self.levels) for core in scheduler.cores]
        self.watching = any(one.attributes for one in self.monitors)
        """Whether rows can promise anything at all."""
        self.search: Callable[[model.Problem], model.Plan] = pruned
        self.preference: model.Plan | None = None
        """What was decided last."""
        self._since = 0
        """Steps since then."""
        self._static = 0.0
        """Units a step that static levels take."""
        scheduler.doubtful.clear()
        if self.watching:
            scheduler.passes = self._passes
            for core, monitor in zip(scheduler.cores, self.monitors, strict=True):
                core.noticed, core.recalled = monitor.found, monitor.recalled
                core.asking.learnt = monitor.listens
            scheduler.looked_back = self._look_around

    def begin_busy(self) -> None:
        super().begin_busy()
        self.scheduler.begin_busy()

    def _look_around(self) -> None:
        for monitor in self.monitors:
            monitor.look_around()

    def admitted(self, arrived: Arrived, moment: Moment) -> Arrived:
        if self.watching:
            for number, monitor in enumerate(self.monitors):
                own = {which: rows for (core, which), rows in arrived.items() if core == number}
                monitor.fade(list(own.values()))
                for which, rows in own.items():
                    monitor.came(which, rows, learn=bool(self.scheduler.active))
        return super().admitted(arrived, moment)

    def _passes(self, core: int, stop: Stop, rows: Ints) -> None:
        self.monitors[core].passes(stop, rows)

    def _looked(self, core: int, stop: Stop, rows: Ints, levels: Ints, weight: float) -> None:
        if self.watching:
            for level, _ in counted(levels[levels < BACK_BURNER]):
                self.monitors[core].lost(stop, level, rows[:, levels == level], weight)

    def _lost(self, core: int, stop: Stop, rows: Ints) -> None:
        route = self.scheduler.cores[core].routes_by[stop.route]
        if (
            stop.route in self._ranked[core]
            or (core, stop.route) in self.scheduler.doubtful
            or not any(s.promising for s in route)
        ):
            super()._lost(core, stop, rows)
            return
        # Of a stream without levels only what promised something is missed; of what is not looked up yet it is not known.
        self._unhurt = 0.0
        promised = rows[PROMISE]
        for level, count in counted(promised[promised < BACK_BURNER]):
            self._count(level, count)

    @property
    def _looking(self) -> bool:
        """Whether any classifier looks values up."""
        return any(stop.promising for core in self.scheduler.cores for stop in core.stops)

    # ------------------------------------------------------------------ the optimizer

    def adapt(self, moment: Moment) -> None:
        before = (
            self.scheduler.active,
            [stop.assessed for core in self.scheduler.cores for stop in core.stops],
        )
        super().adapt(moment)
        if not self.watching:
            return
        if self.trigger is not None and self.plan is not None:
            self._static = self.plan.cost
        if self.scheduler.unasked and any(monitor.may_meet() for monitor in self.monitors):
            self.scheduler.look_back()
        after = self.scheduler.active, [stop.assessed for core in self.scheduler.cores for stop in core.stops]
        self._since += 1
        grown = [monitor.grown() for monitor in self.monitors]
        if before == after and self._since < PERIOD and not any(grown):
            return
        self._since = 0
        for monitor in self.monitors:
            monitor.look()
        problem = self._problem(moment)
        if not problem.levels and not self._looking:
            return
        self.preference = self.search(problem)
        self._prefer(self.preference)

    def _problem(self, moment: Moment) -> model.Problem:
        routes = [(core, route) for core in self.scheduler.cores for route in core.routes]
        over = self._endangered(moment) or bool(self.scheduler.active)
        return model.Problem(
            tuple(
                static.Route(tuple(self._stop(s) for s in self._rated(core, route))) for core, route in routes
            ),
            tuple(
                level
                for number, (core, route) in enumerate(routes)
                for level in self._dynamic(number, core, route[0].route)
            ),
            float(FOREVER) if moment.lifespan is None else moment.lifespan,
            self._capacity(moment, routes) - self._static,
            LOOK,
            moment.units,
            float("inf") if over else DOUBT,
        )

    def _dynamic(self, number: int, core: Routes, which: int) -> list[model.Level]:
        """Dynamic monitoring levels of a route (§6.5.1): of every join with a stream that has significant rows."""
        monitor = self.monitors[self.scheduler.cores.index(core)]
        sides = {one.number: one.sides for one in monitor.attributes}
        made = []
        for stop in core.routes_by[which]:
            attribute = monitor.of.get((which, stop.at))
            if attribute is None or stop.target not in core.routes_by:
                continue
            first = next(s.at for s in core.routes_by[which] if s.bound & set(sides[attribute]))
            run = [
                s.target
                for s in core.routes_by[which]
                if monitor.runs[which].get(s.at) == monitor.runs[which][stop.at]
                and s.target in core.routes_by
            ]
            better = np.empty(0, np.int64)
            for level in sorted(self.scheduler.active):
                sketch = monitor.known[attribute, level]
                if not len(sketch):
                    continue
                significant = sketch.counted(stop.target)
                mine = monitor.promising(attribute, level, stop.partner)
                often = sketch.sure >= FREQUENT * sketch.counts.max()
                # A value that rows of several levels have promises the best of them.
                wanted = often & (significant > 0) & (mine > 0) & ~np.isin(sketch.values, better)
                better = np.concatenate([better, sketch.values[wanted]])
                at = np.flatnonzero(wanted)
                if not len(at):
                    continue
                there = np.ones(len(at), np.bool_)
                for target in run:
                    there &= monitor.occurs(attribute, level, stop.partner, target)[at]
                made.append(
                    model.Level(
                        number, stop.at, 1 + self.levels.index(level), attribute,
                        monitor.runs[which][stop.at], first,
                        tuple(sketch.values[at].tolist()), tuple(significant[at].tolist()),
                        tuple(mine[at].tolist()), tuple(there.tolist()),
                    )
                )  # fmt: skip
        return made

    # ------------------------------------------------------------------ the adaptor

    def _prefer(self, plan: model.Plan) -> None:
        """Let classifiers look up what a plan says."""
        changed = set()
        self.scheduler.doubtful.clear()
        number = 0
        for n, core in enumerate(self.scheduler.cores):
            for route in core.routes:
                mine = [(level, places) for level, places in plan.active if level.route == number]
                number += 1
                for stop in route:
                    before, stop.promising = stop.promising, self._looked_up(n, core, stop, mine)
                    known = {(p.designated, *pair) for p in before for pair in p.levels}
                    wanted = {(p.designated, *pair) for p in stop.promising for pair in p.levels}
                    if wanted - known or bool(wanted) != bool(known):
                        changed.add((n, stop.route))
                level = self._doubtful(n, mine)
                if level is not None:
                    self.scheduler.doubtful[n, route[0].route] = level
        if changed:
            self.scheduler.rearrange(changed)

    def _looked_up(
        self, n: int, core: Routes, stop: Stop, mine: list[tuple[model.Level, model.Places]]
    ) -> tuple[Promising, ...]:
        found: dict[tuple[int, int], dict[int, int]] = {}
        for level, places in mine:
            if stop.at in places:
                values = found.setdefault((level.designated, level.attribute), {})
                for value in level.values:
                    values[value] = min(self.levels[level.rank - 1], values.get(value, BACK_BURNER))
        sides = {one.number: one.sides for one in self.monitors[n].attributes}
        made = []
        for (designated, attribute), values in sorted(found.items()):
            bound = sorted(stop.bound & set(sides[attribute]))
            which = stop.partner if designated == stop.at else bound[0]
            made.append(
                Promising.of(designated, which, sides[attribute][which], tuple(sorted(values.items())))
            )
        return tuple(made)

    def _doubtful(self, n: int, mine: list[tuple[model.Level, model.Places]]) -> int | None:
        """The best active level of whose rows too many have values that are not known, or not frequent enough to be looked up."""
        for attribute in sorted({level.attribute for level, _ in mine}):
            for level in sorted(self.scheduler.active):
                if self.monitors[n].unseen(attribute, level) > 1 - KNOWN:
                    return level
        return None

    # ------------------------------------------------------------------ what cells tell each other

    @cached_property
    def _digest(self) -> str:
        return exchange.digest(self.monitors)

    def learnt(self, dealt: Dealt, strings: Strings) -> dict[str, Any] | None:
        if not self.watching or not any(len(s) for one in self.monitors for s in one.sketches.values()):
            return None
        grids = [Grid(core, dealt) for core in self.scheduler.cores]
        told = [exchange.report(*one, strings) for one in zip(self.monitors, grids, strict=True)]
        return {"of": self._digest, "cores": told}

    def learn(self, told: Mapping[str, Any] | None, dealt: Dealt, strings: Strings) -> None:
        if not self.watching:
            return
        same = told is not None and told["of"] == self._digest
        for n, (core, monitor) in enumerate(zip(self.scheduler.cores, self.monitors, strict=True)):
            own = told["cores"][n] if same and told is not None else None
            if own is not None or monitor.others:
                exchange.learn(monitor, own, Grid(core, dealt), strings)

    # ------------------------------------------------------------------ leaving and coming back

    def mark_strings(self, mark: Callable[[Array], None]) -> None:
        for core, monitor in zip(self.scheduler.cores, self.monitors, strict=True):
            monitor.mark_strings(mark)
            for one in (one for stop in core.stops for one in stop.promising):
                if core.is_text(one.which, one.index):
                    mark(np.array([value for value, _ in one.levels], np.int32))

    def save(self) -> dict[str, Any]:
        stops = [
            [
                [[p.designated, p.which, p.index, [list(pair) for pair in p.levels]] for p in stop.promising]
                for stop in core.stops
            ]
            for core in self.scheduler.cores
        ]
        return {
            **super().save(),
            "monitors": [monitor.save() for monitor in self.monitors],
            "promising": stops,
            "doubtful": [[n, route, level] for (n, route), level in self.scheduler.doubtful.items()],
            "since": [self._since, self._static],
        }

    def take_up(self, was: Mapping[str, Any]) -> None:
        super().take_up(was)
        for monitor, told in zip(self.monitors, was["monitors"], strict=True):
            monitor.take_up(told)
        for core, stops in zip(self.scheduler.cores, was["promising"], strict=True):
            for stop, found in zip(core.stops, stops, strict=True):
                stop.promising = tuple(
                    Promising.of(designated, which, index, tuple(map(tuple, levels)))
                    for designated, which, index, levels in found
                )
        self.scheduler.doubtful = {(n, route): level for n, route, level in was["doubtful"]}
        self._since, self._static = was["since"]
