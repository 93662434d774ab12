"""The scheduler of a query under overload: which rows are worked on next, and until when.

Paper      Works 2013, §4.2.1: the highest level that waits first, in every operator; §4.1.1: LIFESPAN.
Order      the best level first; within it the stream that has had least in this step, so that both inputs of a join get on; of a
           stream what is furthest, so that what was begun is finished. Rows that are still to be classified go by the best level that may
           be found of them, and those of a stream that has no levels by the best that there is: they may meet rows that have it. Where no
           level is active, rows go as they came.
Budget     work units. A block of rows is taken as large as the budget still lets it be; what it takes more is owed to the next step.
Lifespan   a row that waited longer is dropped where it is taken from its lane, and counted; stored rows obey windows only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.data.batch import Batch, Ints
from penstock.flow.routes import UNSORTED, Routes, Stage
from penstock.flow.tallies import Tallies
from penstock.state.arena import Arena
from penstock.state.lanes import BACK_BURNER, CAME, LEVEL, ORDER, SLOTS, TO, TS, Lane

LEAST = 0.05
"""Units to sort a row, at the least."""
PARTS = 32
"""A block takes no more than this part of a lifespan."""
BLOCK, FEW = 1024, 64
"""Rows that are taken at once at the most; and as long as it is not known what they take."""


@dataclass(slots=True)
class Job:
    """Rows that wait, and where."""

    core: int
    stage: Stage
    level: int
    lane: Lane
    sorts: bool
    """They wait for the classifier."""


class Scheduler:
    """Over the routes of a query's cores. `active`: the levels that go first."""

    def __init__(self, cores: Sequence[Routes], tallies: Tallies) -> None:
        self.cores = cores
        self.tallies = tallies
        self.active: frozenset[int] = frozenset()
        self.lifespan: int | None = None
        """In microseconds."""
        self.pace = 1.0
        """Microseconds that a unit takes; by the virtual clock one."""
        self.sift: Callable[[int, Stage, Ints], Ints] | None = None
        """Drops rows that have been sorted, if the allocation sheds."""
        self.lost: Callable[[int, Stage, Ints], None] | None = None
        """Looks at rows that expired."""
        self.unmade: Callable[[int, Stage, Ints], None] | None = None
        """Estimates what rows that are dropped would have come to."""
        self.made: Callable[[int, Ints], None] | None = None
        """Looks at results."""
        self._had: dict[tuple[int, int], float] = {}
        """Units that each stream has had in this step."""

    @property
    def waiting(self) -> int:
        return sum(stage.waiting for core in self.cores for stage in core.stages)

    def enqueue(self, core: int, stage: Stage, rows: Ints) -> None:
        self.cores[core].enqueue(stage, rows, self.active)

    def _jobs(self) -> Iterator[Job]:
        for number, core in enumerate(self.cores):
            for route in core.routes:
                pending = BACK_BURNER  # the best level that a classifier further on may find
                ranked = any(stage.assessed for stage in route)
                for stage in reversed(route):
                    found = min((d.level for d in stage.assessed), default=BACK_BURNER)
                    for level, lane in stage.lanes.items():
                        if len(lane):
                            yield Job(number, stage, self._urgency(level, pending, ranked), lane, False)
                    pending = min(pending, found)
                    if len(stage.unsorted):
                        yield Job(number, stage, self._urgency(found, pending, ranked), stage.unsorted, True)

    def _urgency(self, level: int, pending: int, ranked: bool) -> int:
        """By which level rows go: their own; or the best that may be found of them; or, where their stream has none, the best
        that rows have which they may meet."""
        if not self.active:
            return BACK_BURNER
        if not ranked:
            return min(self.active)
        return min(level, pending)

    def _next(self) -> Job | None:
        if not self.active:
            return min(self._jobs(), key=lambda j: (-j.stage.at, j.lane.first[ORDER]), default=None)
        had = self._had
        return min(
            self._jobs(),
            key=lambda j: (j.level, had.get((j.core, j.stage.route), 0.0), -j.stage.at, not j.sorts),
            default=None,
        )

    def run(self, units: float, began: int) -> tuple[list[tuple[int, Batch]], float]:
        """Work for so many units from a moment of processing time on: results, and units spent."""
        results: list[tuple[int, Batch]] = []
        spent = 0.0
        self._had.clear()
        while spent < units:
            job = self._next()
            if job is None:
                break
            stage, core = job.stage, self.cores[job.core]
            rows = job.lane.take(self._block(job, units - spent))
            rows = self._fresh(job, rows, began + int(spent * self.pace))
            if not rows.shape[1]:
                continue
            if job.sorts:
                took = core.classify(stage, rows)
                if self.sift is not None:
                    rows = self.sift(job.core, stage, rows)
                core.line_up(stage, rows, self.active)
            else:
                took, made = self._worked(job, rows, began + int(spent * self.pace))
                if made is not None:
                    results.append((job.core, made))
            spent += took
            who = job.core, stage.route
            self._had[who] = self._had.get(who, 0.0) + took
        return results, spent

    def _block(self, job: Job, units: float) -> int:
        """How many rows to take at once: no more than there are units for, and so few that none grows old on the way."""
        stage = job.stage
        price = max(sum(d.cost for d in stage.assessed), LEAST) if job.sorts else max(stage.cost, 1.0)
        most = BLOCK if job.sorts or stage.came >= FEW else FEW
        if self.lifespan is not None:
            units = min(units, self.lifespan / self.pace / PARTS)
        return max(1, int(min(most, units / price)))

    def _worked(self, job: Job, rows: Ints, now: int) -> tuple[float, Batch | None]:
        core, stage = self.cores[job.core], job.stage
        out, took = core.work(stage, rows)
        if not stage.last:
            self.enqueue(job.core, core.routes_by[stage.route][stage.at + 1], out)
            return took, None
        if not out.shape[1]:
            return took, None
        if self.made is not None:
            self.made(job.core, out)
        made = core.made(out)
        self.tallies.delivered(out[LEVEL], now + int(took * self.pace) - out[CAME])
        return took, made

    def _fresh(self, job: Job, rows: Ints, now: int) -> Ints:
        """Rows that are worth going on with."""
        core, stage = self.cores[job.core], job.stage
        over = rows[TS] >= rows[TO]  # the table's row that it had met is another by now
        if over.any():
            core.dropped(stage, rows[:, over])
            rows = rows[:, ~over]
        if self.lifespan is not None:
            old = now - rows[CAME] > self.lifespan
            if old.any():
                self._expire(job.core, stage, rows[:, old])
                rows = rows[:, ~old]
        return rows

    def _expire(self, core: int, stage: Stage, rows: Ints) -> None:
        self.tallies.expired(core, stage, rows)
        if self.lost is not None:
            self.lost(core, stage, rows)
        self._drop(core, stage, rows)

    def shed(self, core: int, stage: Stage, rows: Ints) -> None:
        """Rows that there are no units for are worked on no more."""
        self.tallies.shed(rows)
        self._drop(core, stage, rows)

    def _drop(self, core: int, stage: Stage, rows: Ints) -> None:
        if self.unmade is not None:
            self.unmade(core, stage, rows)
        self.cores[core].dropped(stage, rows)

    def sweep(self, now: int) -> None:
        """Rows that nobody has come to within their lifespan go: they would hold up what waits for progress."""
        if self.lifespan is None:
            return
        for number, core in enumerate(self.cores):
            for stage in core.stages:
                for lane in stage.every():
                    rows = lane.too_old(now - self.lifespan)
                    if rows is not None:
                        self._expire(number, stage, rows)

    def rearrange(self) -> None:
        """Let rows that wait stand where they belong by the levels that are active and the determinants assessed now."""
        for core in self.cores:
            for stage in core.stages:
                lanes = stage.every()
                stage.unsorted, stage.lanes = Lane(), {}
                for lane in lanes:
                    rows = lane.all()
                    if rows is not None:
                        self.enqueue(self.cores.index(core), stage, rows)

    def rerank(self) -> None:
        """Criteria are others now: rows that wait have the levels that these give them, as far as that can be told."""
        self.active = frozenset()
        for core in self.cores:
            for stage in core.stages:
                for lane in stage.every():
                    for chunk in lane.chunks():
                        chunk[LEVEL] = BACK_BURNER
                        chunk[LEVEL] = core.levels_at(stage, chunk)
        self.rearrange()

    def save(self, arena: Arena) -> dict[str, Any]:
        """What waits, into an arena; the rest is returned."""
        for number, stage, name, lane in self._lanes():
            rows = lane.all()
            if rows is not None:
                arena.keep(f"lane.{number}.{stage.route}.{stage.at}.{name}", rows.reshape(-1))
                lane.put(rows)
        return {"active": sorted(self.active), "cores": [core.save() for core in self.cores]}

    def take_up(self, arena: Arena, was: Mapping[str, Any]) -> None:
        self.active = frozenset(was["active"])
        for number, (core, told) in enumerate(zip(self.cores, was["cores"], strict=True)):
            core.take_up(told)
            for stage, kept in zip(core.stages, told["lanes"], strict=True):
                for name in kept:
                    key = f"lane.{number}.{stage.route}.{stage.at}.{name}"
                    rows = arena.taken(key, np.int64).reshape(SLOTS + len(core.core.inputs), -1)
                    lane = stage.unsorted if name == UNSORTED else stage.lanes.setdefault(int(name), Lane())
                    lane.put(rows)

    def _lanes(self) -> Iterator[tuple[int, Stage, str, Lane]]:
        for number, core in enumerate(self.cores):
            for stage in core.stages:
                for name, lane in stage.named():
                    yield number, stage, name, lane

    def backlog(self) -> float:
        """Units that all rows that wait would take."""
        total = 0.0
        for core in self.cores:
            for route in core.routes:
                rest = 0.0
                for stage in reversed(route):
                    rest = max(stage.cost, 1.0) + stage.selectivity * rest
                    total += stage.waiting * rest
        return total


def ahead(route: Sequence[Stage], at: int) -> float:
    """Units that a row takes from a stage of its route on."""
    rest = 0.0
    for stage in reversed(route[at:]):
        rest = max(stage.cost, 1.0) + stage.selectivity * rest
    return rest
