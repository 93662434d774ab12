"""Allocations: which rows get the budget when it does not reach for all (Works 2013, §4.5.1).

fifo       as they came (trad)
random     as many as can be worked on within their lifespan, drawn at the source, as they came (rand)
semantic   as many, the most significant ones, as soon as their level can be told, as they came (sem)
promote    the most significant first, throughout (PP): see `overload.policy.promote`

Without a lifespan nothing is shed: what waits is worked on some time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.overload.operator_queues import Routes
from penstock.overload.policy.preference.partition_grid import Dealt
from penstock.overload.queued_operator import Determinant, Stop, ahead
from penstock.overload.scheduler import Scheduler
from penstock.state.priority_queue import LEVEL
from penstock.state.strings import Strings
from penstock.types.batch import Array, Ints

FADES = 0.2
"""Of what was measured in the steps before, so much is forgotten a step."""
WAITS = 0.5
"""Who sheds lets rows wait for this part of their lifespan: where they wait for all of it they expire, whatever their level."""


@dataclass(slots=True)
class Moment:
    """A step as it begins: how many units it has, and how many a lifespan has (None: for ever)."""

    units: float
    lifespan: float | None
    number: int


Arrived = dict[tuple[int, int], Ints]
"""Rows that came in a step, by core and input."""


class Fifo:
    """As they came."""

    def __init__(self, scheduler: Scheduler, seed: int) -> None:
        self.scheduler = scheduler
        self.seed = seed

    def begin_busy(self) -> None:
        """Rows begin to wait."""

    def admitted(self, arrived: Arrived, moment: Moment) -> Arrived:
        """Which of the rows that came may wait."""
        return arrived

    def adapt(self, moment: Moment) -> None:
        """After a step: follow what was measured in it."""

    def save(self) -> dict[str, Any]:
        """What it has measured."""
        return {}

    def take_up(self, was: Mapping[str, Any]) -> None:
        """Go on with what was measured elsewhere."""

    def mark_strings(self, mark: Callable[[Array], None]) -> None:
        """Tell which string codes what it has measured is about."""

    def learnt(self, dealt: Dealt, strings: Strings) -> dict[str, Any] | None:
        """What it has learnt that may be of use in other cells."""
        return None

    def learn(self, told: Mapping[str, Any] | None, dealt: Dealt, strings: Strings) -> None:
        """What all cells have learnt; None: they say nothing."""

    # ------------------------------------------------------------------ parts of others

    def _left(self, moment: Moment) -> float:
        """Units that rows coming now may take so that all that wait are worked on within their lifespan."""
        assert moment.lifespan is not None
        return max(moment.units + moment.lifespan * WAITS - self.scheduler.backlog(), 0.0)

    def _drawn(self, arrived: Arrived, share: float, moment: Moment) -> Arrived:
        """Rows that came, of which so many are kept; the others are shed."""
        drawn = np.random.default_rng((self.seed, moment.number))
        kept = {}
        for (core, which), rows in arrived.items():
            keep = np.less(drawn.random(rows.shape[1]), share)
            first = self.scheduler.cores[core].routes_by[which][0]
            self.scheduler.shed(core, first, rows[:, ~keep])
            kept[core, which] = rows[:, keep]
        return kept


class Random(Fifo):
    """Drawn at the source."""

    def admitted(self, arrived: Arrived, moment: Moment) -> Arrived:
        if moment.lifespan is None:
            return arrived
        wanted = sum(
            rows.shape[1] * ahead(self.scheduler.cores[core].routes_by[which], 0)
            for (core, which), rows in arrived.items()
        )
        share = min(1.0, self._left(moment) / wanted) if wanted else 1.0
        return arrived if share >= 1 else self._drawn(arrived, share, moment)


class Semantic(Fifo):
    """The most significant, as soon as levels can be told: after the first classifiers that can evaluate all."""

    def __init__(self, scheduler: Scheduler, seed: int) -> None:
        super().__init__(scheduler, seed)
        self._share: dict[int, float] = {}
        """By level: how many of its rows are kept."""
        self._partners = 1.0
        """Of streams without levels, how many rows are kept: these may meet the best, and are worth as much."""
        self._seen: dict[int, float] = {}
        """By level: units that its rows would take, of late."""
        self._now: dict[int, float] = {}
        self._where: set[tuple[int, int, int]] = set()
        scheduler.sift = self._sift
        for number, core in enumerate(self.scheduler.cores):
            for route in core.routes:
                first = {d: core.path(route, d) for d in core.determinants}
                places = {d: path[0] for d, path in first.items() if path}
                place(core, route, places)
                if places:
                    self._where.add((number, route[0].route, max(places.values())))

    def begin_busy(self) -> None:
        self._share, self._seen, self._now, self._partners = {}, {}, {}, 1.0

    def admitted(self, arrived: Arrived, moment: Moment) -> Arrived:
        if self._partners >= 1:
            return arrived
        sorted_ = {(core, route) for core, route, _ in self._where}
        others = {key: rows for key, rows in arrived.items() if key not in sorted_}
        return {**arrived, **self._drawn(others, self._partners, moment)}

    def save(self) -> dict[str, Any]:
        return {
            "share": list(self._share.items()),
            "seen": list(self._seen.items()),
            "partners": self._partners,
        }

    def take_up(self, was: Mapping[str, Any]) -> None:
        self._share, self._seen, self._partners = dict(was["share"]), dict(was["seen"]), was["partners"]

    def _sift(self, core: int, stop: Stop, rows: Ints) -> Ints:
        if (core, stop.route, stop.at) not in self._where:
            return rows
        routes = self.scheduler.cores[core]
        price = ahead(routes.routes_by[stop.route], stop.at)
        keep = np.ones(rows.shape[1], np.bool_)
        for level in np.unique(rows[LEVEL]).tolist():
            mine = np.flatnonzero(rows[LEVEL] == level)
            self._now[level] = self._now.get(level, 0.0) + len(mine) * price
            share = self._share.get(level, 1.0)
            if share < 1:
                # Every so-many-th, not the first: what came together is treated alike.
                at = np.floor(np.arange(1, len(mine) + 1) * share)
                keep[mine[at == np.floor(np.arange(len(mine)) * share)]] = False
        if keep.all():
            return rows
        self.scheduler.shed(core, stop, rows[:, ~keep])
        return rows[:, keep]

    def adapt(self, moment: Moment) -> None:
        for level in {*self._seen, *self._now}:
            before, now = self._seen.get(level, 0.0), self._now.get(level, 0.0)
            self._seen[level] = now if level not in self._seen else before + FADES * (now - before)
        self._now = {}
        self._share, self._partners = {}, 1.0
        if moment.lifespan is None:
            return
        # A step's arrivals may take what a step has, and what is still free of the wait before them, over some steps.
        free = moment.units + (moment.lifespan * WAITS - self.scheduler.backlog()) * FADES
        beside = self._others()
        for level in sorted(self._seen):
            wanted = self._seen[level] + beside
            self._share[level] = 1.0 if wanted <= 0 else min(1.0, max(free / wanted, 0.0))
            if beside:
                self._partners, beside = self._share[level], 0.0
            free -= wanted

    def _others(self) -> float:
        """Units of a step that streams without levels take."""
        sorted_ = {(core, route) for core, route, _ in self._where}
        total = 0.0
        for number, core in enumerate(self.scheduler.cores):
            for route in core.routes:
                if (number, route[0].route) not in sorted_:
                    total += core.arrived_of_late.get(route[0].route, 0.0) * ahead(route, 0)
        return total


def place(core: Routes, route: Sequence[Stop], places: Mapping[Determinant, int]) -> None:
    """Let classifiers of a route evaluate determinants."""
    for stop in route:
        stop.assessed = tuple(d for d in core.determinants if places.get(d) == stop.at)
