"""The scheduler of a query under overload: which rows are worked on next, and until when.

Paper      Works 2013, §4.2.1: the highest level that waits first, in every operator; §4.1.1: LIFESPAN.
Order      the best level first; within it the stream that has had least in this step, so that both inputs of a join get on; of a
           stream what is furthest, so that what was begun is finished; before an operator those that are known to be important, and then more are
           sorted, the latest first if sorting is behind. Rows that are still to be classified go by the best level that may
           be found of them, and those of a stream that has no levels by the best that there is: they may meet rows that have it. Where no
           level is active, rows go as they came. Of an object that COVER speaks of one row goes ahead (`overload.coverage.coverage`).
Budget     work units. A block of rows is taken as large as the budget still lets it be; what it takes more is owed to the next step.
Lifespan   a row that waited longer is dropped where it is taken from its lane, and counted; stored rows obey windows only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from penstock.overload.classifiers import LOOK
from penstock.overload.coverage.coverage import Coverages
from penstock.overload.dropped_rows import EXPIRED, SHED
from penstock.overload.metrics import Hearing
from penstock.overload.operator_queues import Routes
from penstock.overload.queued_operator import Stop, ahead
from penstock.state.arena import Arena
from penstock.state.priority_queue import (
    BACK_BURNER,
    CAME,
    DESIGNATED,
    LEVEL,
    ORDER,
    PROMISE,
    SLOTS,
    TO,
    TS,
    Lane,
)
from penstock.types.batch import Batch, Ints

LEAST = 0.05
"""Units to sort a row, at the least."""
PARTS = 32
"""A block takes no more than this part of a lifespan."""
SOME = 16
"""The least rows that are worth a block by the wall clock."""
BLOCK, FEW = 1024, 64
"""Rows that are taken at once at the most; and from how many on it is known what they take: before, no more than were taken till then."""


@dataclass(slots=True)
class Job:
    """Rows that wait, and where."""

    core: int
    stop: Stop
    level: int
    lane: Lane
    sorts: bool
    """They wait for the classifier."""
    again: bool = False
    """Other rows of their objects go ahead."""
    behind: bool = False
    """They go by a level that others of their stream promise, and nothing is known of them."""


@dataclass(slots=True)
class Outlook:
    """What is expected of rows at a stop."""

    core: int
    stop: Stop
    rest: int
    """The level by which those go of which nothing is known, though others of their stream promise something."""
    later: int
    """The best that may be found of them further on."""
    known: bool
    """Their stream has levels, or none that they may still meet."""
    sorts: int
    """The level by which those go that wait for the classifier."""


@dataclass(slots=True)
class Made:
    """Results of a core: the levels that were known of them, how late they are, and how much of that their last operator took."""

    core: int
    batch: Batch
    levels: Ints
    ages: Ints
    lag: int


class Scheduler:
    """Over the routes of a query's cores. `active`: the levels that go first."""

    def __init__(self, cores: Sequence[Routes], hearing: Hearing) -> None:
        self.cores = cores
        self.hearing = hearing
        self.active: frozenset[int] = frozenset()
        self.lifespan: int | None = None
        """In microseconds."""
        self.atomic = True
        """Rows meet at once all they can; else those that promise levels meet them one at a time (`overload.probe_passes`)."""
        self.pace = 1.0
        """Microseconds that a unit takes; by the virtual clock one."""
        self.least = 1
        """Rows that are taken at once at the least. By the wall clock a block takes time by itself, whatever is in it: the smaller blocks were, the
        more a unit would seem to take, and the smaller they would be."""
        self.sift: Callable[[int, Stop, Ints], Ints] | None = None
        """Drops rows that have been sorted, if the allocation sheds."""
        self.lost: Callable[[int, Stop, Ints], None] | None = None
        """Looks at rows that expired."""
        self.unmade: Callable[[int, Stop, Ints], None] | None = None
        """Estimates what rows that are dropped would have come to."""
        self.moment = 0
        """The moment of processing time that it has come to."""
        self.passes: Callable[[int, Stop, Ints], None] | None = None
        """Looks at rows that are about to be worked on."""
        self.doubtful: dict[tuple[int, int], int] = {}
        """By core and stream of whose rows some promise something: the best level that others of them may meet all the same."""
        self.made: Callable[[int, Ints], None] | None = None
        """Looks at results."""
        self.looked_back: Callable[[], None] | None = None
        """Is told when stored rows were asked for their levels."""
        self.coverage = Coverages(())
        """What COVER promises."""
        self._asked: frozenset[int] = frozenset()
        """Levels that were active when stored rows were asked for theirs."""
        self._due = 0.0
        """Units that took, which are still to be had from a step."""
        self.among = False
        """Levels are compared with those of other queries: while rows wait all are told apart, whether that pays for this query or not."""
        self._had: dict[tuple[int, int], float] = {}
        """Units that each stream has had in this step."""
        for number, core in enumerate(cores):
            core.denied = partial(hearing.suppressed, number)

    @property
    def waiting(self) -> int:
        return sum(stop.waiting for core in self.cores for stop in core.stops)

    def enqueue(self, core: int, stop: Stop, rows: Ints) -> None:
        self.cores[core].enqueue(stop, rows, self.active)

    def _outlooks(self) -> list[Outlook]:
        """What is expected of rows at every stop; it stays as it is while rows are worked on."""
        made = []
        for number, core in enumerate(self.cores):
            for route in core.routes:
                pending = BACK_BURNER  # the best level that a classifier further on may find
                hoped = BACK_BURNER  # the same of promises, before any was looked for
                looked = min((stop.at for stop in route if stop.promising), default=len(route))
                ranked = any(stop.assessed or stop.promising for stop in route)
                doubtful = self.doubtful.get((number, route[0].route), BACK_BURNER)
                until = max((p.designated for stop in route for p in stop.promising), default=-1)
                for stop in reversed(route):
                    assessed = min((d.level for d in stop.assessed), default=BACK_BURNER)
                    known = ranked or (self.passes is not None and stop.at > core.meets[stop.route])
                    rest = doubtful if stop.at <= until else BACK_BURNER
                    later = min(pending, hoped) if stop.at < looked else pending
                    promised = min((p.best for p in stop.promising), default=BACK_BURNER)
                    pending, hoped = min(pending, assessed), min(hoped, promised)
                    sorts = self._urgency(min(assessed, promised), pending, ranked)
                    made.append(Outlook(number, stop, rest, later, known, sorts))
        return made

    def _jobs(self, outlooks: Sequence[Outlook]) -> Iterator[Job]:
        for one in outlooks:
            stop, rest = one.stop, one.rest
            for again, lanes in ((False, stop.lanes), (True, stop.again)):
                for level, lane in sorted(lanes.items()) if len(lanes) > 1 else lanes.items():
                    if len(lane):
                        urgency = self._urgency(min(level, rest), one.later, one.known)
                        yield Job(one.core, stop, urgency, lane, False, again, rest < level)
            if stop.aside:
                for level, lane in sorted(stop.aside.items()):
                    if len(lane):
                        yield Job(one.core, stop, level, lane, False)
            if len(stop.unsorted):
                yield Job(one.core, stop, one.sorts, stop.unsorted, True)

    def _urgency(self, level: int, pending: int, known: bool) -> int:
        """By which level rows go: their own, or what they promise; or the best that may be found of them; or, where their stream has
        none, the best that rows have which they may still meet."""
        if not self.active:
            return BACK_BURNER
        if not known:
            return min(self.active)
        return min(level, pending)

    def _next(self, outlooks: Sequence[Outlook]) -> Job | None:
        if not self.active:
            return min(self._jobs(outlooks), key=lambda j: (-j.stop.at, j.lane.first[ORDER]), default=None)
        had = self._had
        return min(
            self._jobs(outlooks),
            key=lambda j: (
                j.level,
                had.get((j.core, j.stop.route), 0.0),
                j.again,
                -j.stop.at,
                j.sorts,
                j.behind,
            ),
            default=None,
        )

    def begin_busy(self) -> None:
        """Rows begin to wait; those that are stored came while nobody was asked."""
        self._asked = frozenset()

    def begin(self) -> None:
        """A step begins."""
        self._had.clear()

    def best(self) -> int | None:
        """The level of what is worked on next; None: nothing waits."""
        job = self._next(self._outlooks())
        return None if job is None else job.level

    def run(self, units: float, began: int, goes: Callable[[int], bool]) -> tuple[list[Made], float]:
        """Work for so many units from a moment of processing time on: results, and units spent.

        `goes`: whether to go on with a level; a block of rows is worked on anyway.
        """
        results: list[Made] = []
        spent, some, self._due = self._due, False, 0.0
        outlooks = self._outlooks()
        while spent < units:
            job = self._next(outlooks)
            if job is None or (some and not goes(job.level)):
                break
            if job.again and self._gone_ahead():
                continue
            stop, core = job.stop, self.cores[job.core]
            self.moment = began + int(spent * self.pace)
            rows = self._taken(job, self._block(job, units - spent))
            rows = self._fresh(job, rows, self.moment)
            if not rows.shape[1]:
                continue
            some = True
            if job.sorts:
                before = rows[PROMISE].copy()
                took = core.classify(stop, rows)
                promised = rows[PROMISE, rows[PROMISE] < before]
                if len(promised):
                    self.hearing.promised(promised)
                if self.sift is not None:
                    rows = self.sift(job.core, stop, rows)
                core.line_up(stop, rows, self.active)
            else:
                took, made = self._worked(job, rows, began + int(spent * self.pace))
                if made is not None:
                    results.append(made)
            spent += took
            who = job.core, stop.route
            self._had[who] = self._had.get(who, 0.0) + took
        return results, spent

    def _taken(self, job: Job, most: int) -> Ints:
        """The rows that wait longest. But where a classifier is behind by half a lifespan the latest: those that it finds important
        must have the time to be worked on, and who is asked just before he expires was asked in vain."""
        late = self.lifespan is not None and self.moment - int(job.lane.first[CAME]) > self.lifespan / 2
        return job.lane.take_last(most) if job.sorts and late else job.lane.take(most)

    def _block(self, job: Job, units: float) -> int:
        """How many rows to take at once: no more than there are units for, and so few that none grows old on the way."""
        stop = job.stop
        price = (
            max(sum(d.cost for d in stop.assessed) + LOOK * len(stop.promising), LEAST)
            if job.sorts
            else max(stop.cost, 1.0)
        )
        most = BLOCK if job.sorts or stop.came >= FEW else 1 + int(stop.came)
        if self.lifespan is not None:
            units = min(units, self.lifespan / self.pace / PARTS)
        return max(self.least, int(min(most, units / price)))

    def _worked(self, job: Job, rows: Ints, now: int) -> tuple[float, Made | None]:
        core, stop = self.cores[job.core], job.stop
        if self.passes is not None:
            self.passes(job.core, stop, rows)
        # What rows that were dropped would have come to is estimated for whole rows only.
        level = job.level if not self.atomic and self.unmade is None else BACK_BURNER
        out, took, left = core.work(stop, rows, level)
        if left is not None:
            core.put_aside(stop, left, self.active)
            rows = rows[:, ~np.isin(rows[ORDER], np.setdiff1d(left[ORDER], out[ORDER]))]
        self.coverage.ended(job.core, stop, rows, out, now)
        if not stop.last:
            self.enqueue(job.core, core.routes_by[stop.route][stop.at + 1], out)
            return took, None
        if not out.shape[1]:
            return took, None
        self.hearing.lay_late(job.core, stop, out, now)
        if self.made is not None:
            self.made(job.core, out)
        made = core.made(out)
        lag = int(took * self.pace)
        return took, Made(job.core, made, out[LEVEL], now + lag - out[CAME], lag)

    def _fresh(self, job: Job, rows: Ints, now: int) -> Ints:
        """Rows that are worth going on with."""
        core, stop = self.cores[job.core], job.stop
        over = rows[TS] >= rows[TO]  # the table's row that it had met is another by now
        if over.any():
            self.coverage.ended(job.core, stop, rows[:, over], rows[:, :0], now)
            core.dropped(stop, rows[:, over])
            rows = rows[:, ~over]
        if self.lifespan is not None:
            old = now - rows[CAME] > self.lifespan
            if old.any():
                self._expire(job.core, stop, rows[:, old])
                rows = rows[:, ~old]
        return rows

    def _expire(self, core: int, stop: Stop, rows: Ints) -> None:
        self.hearing.expired(core, stop, rows)
        if self.lost is not None:
            self.lost(core, stop, rows)
        self._drop(core, stop, rows, EXPIRED)

    def shed(self, core: int, stop: Stop, rows: Ints) -> None:
        """Rows that there are no units for are worked on no more."""
        self.hearing.shed(core, stop, rows)
        self._drop(core, stop, rows, SHED)

    def _drop(self, core: int, stop: Stop, rows: Ints, reason: str) -> None:
        self.hearing.lay_aside(core, stop, rows, reason, self.moment)
        if self.unmade is not None:
            self.unmade(core, stop, rows)
        self.coverage.dropped(core, stop, rows)
        self.cores[core].dropped(stop, rows)

    def sweep(self, now: int) -> None:
        """Rows that nobody has come to within their lifespan go: they would hold up what waits for progress."""
        if self.lifespan is None:
            return
        self.moment = now
        for number, core in enumerate(self.cores):
            for stop in core.stops:
                for lane in stop.every():
                    rows = lane.too_old(now - self.lifespan)
                    if rows is not None:
                        self._expire(number, stop, rows)

    def let_go(self) -> None:
        """All that waits is worked on no more."""
        for number, core in enumerate(self.cores):
            for stop in core.stops:
                for lane in stop.every():
                    rows = lane.all()
                    if rows is not None:
                        self.shed(number, stop, rows)

    def rearrange(self, only: Collection[tuple[int, int]] | None = None) -> None:
        """Let rows that wait stand where they belong by the levels that are active and what classifiers look at now.

        `only`: the streams, by core, for which that has changed.
        """
        self._asked &= self.active
        if not self.atomic:
            self.look_back()
        for number, core in enumerate(self.cores):
            for stop in core.stops:
                if only is not None and (number, stop.route) not in only:
                    continue
                aside = stop.aside
                stop.aside = {}
                waiting = stop.every()
                stop.unsorted, stop.lanes, stop.again = Lane(), {}, {}
                for lane in waiting:
                    rows = lane.all()
                    if rows is not None:
                        self.enqueue(number, stop, rows)
                for _, lane in sorted(aside.items()):
                    rows = lane.all()
                    if rows is not None:
                        core.put_aside(stop, rows, self.active)

    @property
    def unasked(self) -> bool:
        """Whether levels are active of which stored rows were not asked."""
        return bool(self.active - self._asked)

    def look_back(self) -> None:
        """Ask stored rows for their levels, once levels are active of which they were not asked."""
        if self.unasked:
            self._due += sum(core.assess_stored() for core in self.cores)
            if self.looked_back is not None:
                self.looked_back()
        self._asked = self.active

    def cover(self, coverage: Coverages) -> None:
        """Keep to what COVER promises."""
        self.coverage = coverage
        for number, core in enumerate(self.cores):
            core.repeated = partial(coverage.repeated, number) if coverage.every else None

    def _gone_ahead(self) -> bool:
        """Rows that stood back go ahead where those that did were dropped; whether there may be any."""
        stale = [(number, one) for number, one in self.coverage.every if one.stale]
        for number, one in stale:
            one.stale = False
            for stop in reversed(self.cores[number].routes_by[one.about.which]):
                lanes, stop.again = stop.again.values(), {}
                for lane in lanes:
                    rows = lane.all()
                    if rows is not None:
                        self.cores[number].line_up(stop, rows, self.active)
        return bool(stale)

    def settle(self, now: int) -> None:
        """Event time is so far: periods of COVER may be over."""
        for number, one in self.coverage.every:
            route = self.cores[number].routes_by[one.about.which]
            one.settle(now, partial(_numbers, route))

    def rerank(self) -> None:
        """Criteria are others now: rows that wait have the levels that these give them, as far as that can be told."""
        self.active = frozenset()
        for core in self.cores:
            for stop in core.stops:
                for lane in stop.every():
                    for chunk in lane.chunks():
                        chunk[LEVEL] = chunk[PROMISE] = BACK_BURNER
                        chunk[DESIGNATED] = -1
                        chunk[LEVEL] = core.levels_at(stop, chunk)
        self.rearrange()

    def save(self, arena: Arena) -> dict[str, Any]:
        """What waits, into an arena; the rest is returned."""
        for number, stop, name, lane in self._lanes():
            rows = lane.all()
            if rows is not None:
                arena.keep(f"lane.{number}.{stop.route}.{stop.at}.{name}", rows.reshape(-1))
                lane.put(rows)
        about = {
            "active": sorted(self.active),
            "asked": sorted(self._asked),
            "due": self._due,
            "among": self.among,
        }
        return {**about, "cores": [core.save() for core in self.cores]}

    def take_up(self, arena: Arena, was: Mapping[str, Any]) -> None:
        self.active, self._asked, self._due = frozenset(was["active"]), frozenset(was["asked"]), was["due"]
        self.among = was["among"]
        for number, (core, told) in enumerate(zip(self.cores, was["cores"], strict=True)):
            core.take_up(told)
            for stop, kept in zip(core.stops, told["lanes"], strict=True):
                for name in kept:
                    key = f"lane.{number}.{stop.route}.{stop.at}.{name}"
                    rows = arena.taken(key, np.int64).reshape(SLOTS + len(core.core.inputs), -1)
                    stop.lane(name).put(rows)

    def _lanes(self) -> Iterator[tuple[int, Stop, str, Lane]]:
        for number, core in enumerate(self.cores):
            for stop in core.stops:
                for name, lane in stop.named():
                    yield number, stop, name, lane

    def arriving(self) -> float:
        """Units that the rows of a step have taken of late, all of them worked on."""
        return sum(
            core.arrived_of_late.get(route[0].route, 0.0) * ahead(route, 0)
            for core in self.cores
            for route in core.routes
        )

    def backlog(self) -> float:
        """Units that all rows that wait would take."""
        total = 0.0
        for core in self.cores:
            for route in core.routes:
                rest = 0.0
                for stop in reversed(route):
                    rest = max(stop.cost, 1.0) + stop.selectivity * rest
                    total += stop.waiting * rest
        return total


def _numbers(route: Sequence[Stop]) -> Ints:
    """Of the rows that wait along a route."""
    waiting = [chunk[ORDER] for stop in route for lane in stop.every() for chunk in lane.chunks()]
    return np.concatenate(waiting) if waiting else np.empty(0, np.int64)
