"""A step of all queries that have a budget: what there is goes to the best place on the session's scale, and a part of it to everybody.

Paper      Works 2013, §9.1.
Invariant  no work is done at a place while work at a better one waits, but for what is guaranteed, and up to one block of rows;
           whoever has work gets as many units as are guaranteed, whatever the order; what somebody does not need the others have.
Calm       a query runs by the ordinary operators, all of it at once, if that is within what it would get anyway: everything fits, or all
           that stands before it does, or it takes no more than is guaranteed.
Plans      a query plans with the units that it has really had of late (`overload.budget_share`), not with an equal part.
Clock      one for all: a step lasts as long for every query, and what is worked on later in a step is later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import inf

from penstock.engine.registry import Standing
from penstock.overload.policy.rank_scale import Place, share
from penstock.overload.priority_executor import Ranked

Running = Sequence[tuple[Ranked, list[Standing]]]
Stopping = Callable[[list[Standing]], AbstractContextManager[None]]
"""Whoever meets an error stops there; the others go on."""


PATIENCE, AT_MOST = 0.25, 2.0
"""Of the shortest lifespan; steps."""


@dataclass(slots=True, eq=False)
class Turn:
    """A query in a step. `fair`: units it would have if all had the same; `floor`: what it gets whatever the order."""

    pipeline: Ranked
    standings: list[Standing]
    fair: float = inf
    floor: float = 0.0
    had: float = 0.0
    best: Place | None = None
    """Where its next work stands; None: it has none."""

    @property
    def weight(self) -> float:
        """Of the query, or of the one that weighs most of those that ride together."""
        return max(standing.weight for standing in self.standings)

    def part(self, setting: str) -> float:
        """What it has, in proportion, of what there is for those at the same place."""
        return sum(share(setting, standing.weight) for standing in self.standings)

    @property
    def owed(self) -> float:
        """What it is still to get whatever the order."""
        return max(self.floor - self.had, 0.0) if self.best is not None else 0.0

    def say(self) -> None:
        for standing, own in zip(self.standings, self.pipeline.said(), strict=True):
            for batch, until in own:
                standing.said.take(batch, until)

    @property
    def stopped(self) -> bool:
        """All its queries met an error."""
        return all(standing.failed is not None for standing in self.standings)


class Step:
    """`units`: of the step; None: as many as it takes. `pace`: microseconds a unit takes, by the wall clock; `eased`: how much of that one
    takes of a calm query."""

    def __init__(
        self,
        running: Running,
        stopping: Stopping,
        units: float | None,
        pace: float | None,
        setting: str,
        guaranteed: float,
        eased: float = 1.0,
    ) -> None:
        self._setting = setting
        self._eased = eased
        self.calm_units = self.calm_time = self.busy_units = self.busy_time = 0.0
        """What was spent by the ordinary operators and on routes, and the microseconds it took."""
        self._stopping = stopping
        self._units, self._pace = units, pace
        self.turns = [Turn(pipeline, standings) for pipeline, standings in running]
        owed = sum(pipeline.owed for pipeline, _ in running)
        self._given = inf if units is None else units - owed
        """Units of the step, less those of steps before it: they may have taken more than there are."""
        self.pool = max(self._given, 0.0)
        """Units there are."""
        self.spent = 0.0
        self._last: Turn | None = None
        if units is not None:
            self._divide(units, guaranteed)

    def _divide(self, units: float, guaranteed: float) -> None:
        if len(self.turns) == 1:
            (one,) = self.turns
            one.fair, one.floor = units, min(guaranteed * len(one.standings), 1.0) * units
            return
        left, count = units, sum(len(one.standings) for one in self.turns)
        each = min(guaranteed, 1 / count) * units if count else 0.0
        for one in sorted(self.turns, key=self._calm):
            one.fair = left * len(one.standings) / count
            one.floor = each * len(one.standings)
            left -= min(one.fair, self._calm(one))
            count -= len(one.standings)

    def run(self) -> None:
        """All of it."""
        for one in self.turns:
            with self._stopping(one.standings):
                one.pipeline.ready()
        busy = [one for one in self._in_order() if not self._calmly(one)]
        for one in busy:
            with self._stopping(one.standings):
                noticing = one.pipeline.begin(self._hoped(one), self._units, among=len(self.turns) > 1)
                self._charge(one, noticing)
                self._look(one)
        busy = self._standing(busy)
        while (best := self._next(busy)) is not None:
            self._go(best, [other for other in busy if other is not best])
        self._end(busy)

    def run_ahead(self) -> None:
        """Between steps: work on what came if it fits into the next step, which pays for it."""
        owed = sum(one.pipeline.owed for one in self.turns)
        for one in self.turns:
            with self._stopping(one.standings):
                one.pipeline.ready()
        for one in self._in_order():
            if one.pipeline.has_arrivals and not one.stopped:
                self._calmly(one)
        for one in self.turns:
            one.pipeline.owed = 0.0
        self.turns[0].pipeline.owed = owed + self.spent

    def _hoped(self, one: Turn) -> float:
        """Units that a query plans with."""
        return one.fair if self._units is None else one.pipeline.share.hoped(self._units, one.fair, one.floor)

    def _remember(self) -> None:
        """What everybody had, for the next step's plans."""
        left = max(self.pool - self.spent, 0.0)
        for one in self.turns:
            if len(self.turns) == 1:
                one.pipeline.share.forget()
            elif self._units:
                one.pipeline.share.note(self._units, one.fair, one.had, left, waits=one.best is not None)

    def _end(self, busy: list[Turn]) -> None:
        """Nobody has anything more to do, or there is nothing left to do it with."""
        self._remember()
        overdrawn = max(self.spent - self._given, 0.0)
        if self._pace is not None and self._units is not None:
            overdrawn = min(overdrawn, self._units)  # the rest of that time has passed
        for one in self.turns:
            one.pipeline.owed = overdrawn if one is (self._last or self.turns[0]) else 0.0
        lasted = self.spent if self._units is None else self._units
        for one in self._standing(busy):
            with self._stopping(one.standings):
                one.pipeline.finish(min(self.spent, self.pool), whole=self._units is None)
                one.say()
            self._part_with(one)
        for one in self.turns:
            one.pipeline.passed(int(lasted), self._pace)

    # ------------------------------------------------------------------ calm

    def _in_order(self) -> list[Turn]:
        """Who needs least first; where queries stand before each other as a whole, those that weigh most."""
        if len(self.turns) == 1:
            return self.turns
        by = self._setting == "strict"
        return sorted(self.turns, key=lambda one: (-one.weight if by else 0.0, one.pipeline.expected))

    def _calmly(self, one: Turn) -> bool:
        """Let a query run by the ordinary operators, if it may."""
        pipeline = one.pipeline
        if self._pace is not None:
            pipeline.tell_time(self._pace, self._eased)
        if pipeline.busy or not self._fits(one):
            return False
        began = time.perf_counter()
        with self._stopping(one.standings):
            pipeline.calmly()
            one.say()
            self._charge(one, pipeline.spent * self._eased)
            self.calm_units += pipeline.spent
        self.calm_time += 1e6 * (time.perf_counter() - began)
        self._part_with(one)
        return True

    def _part_with(self, one: Turn) -> None:
        """Queries that met an error of their own stop; those that ride with them go on."""
        failed = [
            (standing, error)
            for standing in one.standings
            if standing.rider is not None
            and (error := standing.rider.failed) is not None
            and standing.failed is None
        ]
        for standing, error in failed:
            with self._stopping([standing]):
                raise error
        if failed:
            one.pipeline.regroup()

    def _fits(self, one: Turn) -> bool:
        """Whether all that a query has is within what it would get anyway."""
        expected, left = self._calm(one), self._given - self.spent + self._patience()
        if expected <= one.floor:
            return True
        if len(self.turns) == 1:
            return expected <= left
        if len({other.weight for other in self.turns}) == 1 and not any(
            t.pipeline.has_order for t in self.turns
        ):
            return expected <= min(one.fair, left)  # all stand at one place
        before, after = 0.0, 0.0
        for other in self.turns:
            if self._setting == "strict" and other.weight < one.weight:
                after += min(other.floor, self._calm(other))
            else:
                before += self._calm(other)
        return before + after <= left

    def _patience(self) -> float:
        """Units that calm queries may be behind by: all is told in time all the same. Where rows wait, none."""
        if self._units is None or any(one.pipeline.busy for one in self.turns):
            return 0.0
        return min(PATIENCE * min(one.pipeline.useful for one in self.turns), AT_MOST * self._units)

    def _calm(self, one: Turn) -> float:
        """Units that all a query has would take; if it is calm, by the ordinary operators."""
        return one.pipeline.expected * (1.0 if one.pipeline.busy else self._eased)

    # ------------------------------------------------------------------ busy

    def _standing(self, turns: Sequence[Turn]) -> list[Turn]:
        """Those that have met no error."""
        return [one for one in turns if not one.stopped]

    def _next(self, busy: Sequence[Turn]) -> Turn | None:
        """Who goes on: the best place as long as everybody can still get what is guaranteed; then those who have not."""
        working = [one for one in busy if one.best is not None and not one.stopped]
        if self.spent + sum(one.owed for one in working) >= self.pool:
            working = [one for one in working if one.owed > 0]
        return min(working, key=self._precedence, default=None)

    def _precedence(self, one: Turn) -> tuple[Place, float]:
        assert one.best is not None
        return one.best, one.had / one.part(self._setting)

    def _go(self, one: Turn, others: Sequence[Turn]) -> None:
        """Let a query work at its place until others stand better, or as well."""
        left = self.pool - self.spent - sum(other.owed for other in others)
        units = one.owed if left <= 0 else min(left, self._part(one, others, left))
        rival = min((other.best for other in others if other.best is not None), default=None)

        def goes(level: int) -> bool:
            return rival is None or one.pipeline.place(level) < rival

        began = time.perf_counter()
        with self._stopping(one.standings):
            spent = one.pipeline.run(units, self.spent, goes)
            self._charge(one, spent)
            self.busy_units += spent
            self._look(one)
        self.busy_time += 1e6 * (time.perf_counter() - began)

    def _part(self, one: Turn, others: Sequence[Turn], left: float) -> float:
        """Of what is left, what a query may have beside those at the same place; a unit at least, so that it gets on."""
        tied = [one, *(other for other in others if other.best == one.best)]
        if len(tied) == 1 or left == inf:
            return left
        total = left + sum(other.had for other in tied)
        whole = sum(other.part(self._setting) for other in tied)
        return max(total * one.part(self._setting) / whole - one.had, 1.0)

    def _charge(self, one: Turn, units: float) -> None:
        one.had += units
        self.spent += units
        if units:
            self._last = one

    def _look(self, one: Turn) -> None:
        level = one.pipeline.scheduler.best()
        one.best = None if level is None else one.pipeline.place(level)
