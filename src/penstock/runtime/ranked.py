"""A query that has a budget: what it has no units for waits, or is dropped by its lifespan; the most important goes first.

Paper      Works 2013, chapter 4.
Invariant  when nothing waits and nothing was dropped, all has been said that the ordinary plan says; later, if rows waited.
Above      what stands above the cores reads their changes in event-time order, behind their progress.
Time       processing time is counted in microseconds. A unit is one; a step lasts as long as it has units, used or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.data.batch import Batch, concat
from penstock.data.types import Type
from penstock.flow.allocation import Arrived, Fifo, Moment, Random, Semantic
from penstock.flow.cores import cores
from penstock.flow.promote import Promote
from penstock.flow.scheduler import Scheduler
from penstock.flow.tallies import Tallies
from penstock.operators.contract import ABSENT, empty
from penstock.operators.evaluate import Evaluator
from penstock.operators.expressions.parts import RowError
from penstock.plan.catalog import Function
from penstock.plan.levels import Ranked as Levels
from penstock.plan.roots import Root
from penstock.runtime.build import Key, Pipeline, told
from penstock.runtime.core import CoreRun, Workshop, as_changes
from penstock.state.arena import Arena
from penstock.state.strings import Strings

QUIET = 3
"""Steps with nothing left over after which a busy query becomes calm."""
GUESS = 2.0
"""Units a row, before any was worked on."""
ALLOCATED: dict[str, type[Fifo]] = {
    "fifo": Fifo,
    "random": Random,
    "semantic": Semantic,
    "promote": Promote,
    "prefer": Promote,
}


@dataclass(slots=True)
class Slice:
    """What came until an instant: rows by core and input, and what tables say."""

    now: int
    rows: list[list[Batch]]
    tables: dict[Key, Batch]


class Ranked(Pipeline):
    """Takes rows with `step`, and works with `work`."""

    def __init__(
        self,
        root: Root,
        levels: Levels,
        evaluator: Evaluator,
        strings: Strings,
        functions: Mapping[str, Function],
        since: int,
        time_type: Type,
        allocation: str,
        seed: int,
    ) -> None:
        super().__init__(Arena(), root, time_type=time_type)
        workshop = Workshop(self.arena, evaluator, strings, functions, since, time_type)
        above, found = cores(root, "core")
        self._cores = [
            CoreRun(core, n, workshop, core.disjuncts(levels.ranks, levels.over))
            for n, core in enumerate(found)
        ]
        self._above = None if above is None else workshop.whole(above, "above.")
        self.sources = list(
            dict.fromkeys(
                [key for core in self._cores for window in core.windows for key in window.sources]
                + [key for key in (self._above.sources if self._above else ()) if key[0] == "table"]
            )
        )
        self.tallies = Tallies()
        self.scheduler = Scheduler([core.routes for core in self._cores], self.tallies)
        self.lifespan = levels.lifespan
        self.allocation = ALLOCATED[allocation](self.scheduler, seed)
        self.busy = False
        self._incoming: list[Slice] = []
        self._held: list[list[Batch]] = [[] for _ in self._cores]
        self._tables: list[tuple[int, dict[Key, Batch]]] = []
        self._now = self._said_until = since - 1
        self._time = 0
        self._owed = 0.0
        self._price = GUESS
        self._quiet = 0
        self._steps = 0
        self._fresh = False
        self.spent = 0.0
        """Units of the last step."""

    # ------------------------------------------------------------------ rows come

    def step(self, feeds: Mapping[Key, Batch], now: int) -> Batch:
        """Take what came; nothing is said before `work`."""
        rows = []
        for core in self._cores:
            own = []
            for window in core.windows:
                given = {key: feeds[key] for key in window.sources}
                own.append(window.step(given, now) if window.stages else given[window.sources[0]])
            rows.append([_kept(batch) for batch in own])
        tables = {key: _kept(feeds[key]) for key in self.sources if key[0] == "table"}
        self._incoming.append(Slice(now, rows, tables))
        return empty(len(self.root.node.schema))

    # ------------------------------------------------------------------ work

    @property
    def expected(self) -> float:
        """Units that all it has would take."""
        rows = sum(len(batch) for part in self._incoming for own in part.rows for batch in own)
        return rows * self._price + self.scheduler.backlog()

    def work(self, units: float | None) -> list[tuple[Batch, int]]:
        """Spend a step's units (None: as many as it takes): what is said, each with the instant until which it goes."""
        slices, self._incoming = self._incoming, []
        self._steps += 1
        try:
            return self._worked(slices, units)
        except RowError as failed:
            raise told(failed, self.time_type) from failed.__cause__

    def _worked(self, slices: Sequence[Slice], units: float | None) -> list[tuple[Batch, int]]:
        have = float("inf") if units is None else max(units - self._owed, 0.0)
        rows = sum(len(batch) for part in slices for own in part.rows for batch in own)
        if not self.busy and rows * self._price > have:
            self._get_busy()
        granted = have if units is None else float(units)
        said = self._busily(slices, have, granted) if self.busy else self._calmly(slices, have, rows)
        if units is not None:
            self._time += int(units)
        return said

    def _calmly(self, slices: Sequence[Slice], have: float, rows: int) -> list[tuple[Batch, int]]:
        before = self.arena.visits
        said = []
        for part in slices:
            for n, core in enumerate(self._cores):
                made = core.calm(part.rows[n], part.tables, part.now)
                self._held[n].append(core.finished(made, part.now))
            self._tables.append((part.now, part.tables))
            self._now = part.now
            said += self._released(part.now + 1)
        spent = float(rows + self.arena.visits - before)
        if rows:
            self._price += min(1.0, rows / 4096) * (spent / rows - self._price)
        self._owed = max(spent - have, 0.0)
        self.spent = spent
        self.tallies.in_time += sum(len(batch) for batch, _ in said)
        return said

    def _busily(self, slices: Sequence[Slice], have: float, granted: float) -> list[tuple[Batch, int]]:
        lifespan = None if self.lifespan is None else float(self.lifespan)
        moment = Moment(granted, lifespan, self._steps)
        self.scheduler.lifespan = self.lifespan
        arrived: Arrived = {}
        for part in slices:
            for n, core in enumerate(self._cores):
                for which, rows in core.admit(part.rows[n], self._time):
                    key = n, which
                    arrived[key] = (
                        rows if key not in arrived else np.concatenate([arrived[key], rows], axis=1)
                    )
            self._tables.append((part.now, part.tables))
            self._now = part.now
        for n, core in enumerate(self._cores):
            core.routes.note_arrivals({w: rows.shape[1] for (m, w), rows in arrived.items() if m == n})
        if self._fresh:
            self.allocation.adapt(moment)
            self._fresh = False
        for (n, which), rows in self.allocation.admitted(arrived, moment).items():
            self.scheduler.enqueue(n, self._cores[n].routes.routes_by[which][0], rows)
        results, spent = self.scheduler.run(have, self._time)
        self.scheduler.sweep(self._time + int(min(have, spent)))
        self.spent = spent
        self.arena.visits += int(spent)
        self._owed = max(spent - have, 0.0) if have != float("inf") else 0.0
        for n, batch in results:
            self._held[n].append(self._cores[n].finished(batch, self._now))
        progress = min(core.routes.progress(self._now) for core in self._cores)
        said = self._released(progress)
        for core in self._cores:
            core.routes.purge(core.routes.progress(self._now))
        self.allocation.adapt(moment)
        self._quiet = self._quiet + 1 if not self.scheduler.waiting else 0
        if self._quiet >= QUIET or (not self.scheduler.waiting and have == float("inf")):
            self._calm_down()
        return said

    def _get_busy(self) -> None:
        for core in self._cores:
            core.get_busy(self._now)
        self.busy, self._quiet, self._fresh = True, 0, True
        self.allocation.begin_busy()

    def _calm_down(self) -> None:
        for core in self._cores:
            core.calm_down(self._now)
        self.busy = False

    # ------------------------------------------------------------------ what is said

    def _released(self, progress: int) -> list[tuple[Batch, int]]:
        """What the plan above, or the user, may be told now."""
        if self._above is None:
            (batches,) = self._held
            self._held = [[]]
            said = _together(batches)
            return [] if said is None else [(said, self._now)]
        until = progress - 1
        if until <= self._said_until:
            return []
        feeds: dict[Key, Batch] = {}
        for n, core in enumerate(self._cores):
            assert core.core.stream is not None
            whole = _together(self._held[n])
            width = len(core.core.node.schema)
            ready = empty(width)
            self._held[n] = []
            if whole is not None:
                cut = int(np.searchsorted(whole.ts, progress))
                ready = whole.slice(0, cut)
                if cut < len(whole):
                    self._held[n] = [whole.slice(cut, len(whole))]
            feeds["stream", core.core.stream.name.lower()] = as_changes(ready)
        for key in self._above.sources:
            if key[0] == "table":
                feeds[key] = self._due(key, until)
        self._tables = [(now, held) for now, held in self._tables if now > until]
        self._said_until = until
        return [(self._above.step(feeds, until), until)]

    def _due(self, key: Key, until: int) -> Batch:
        """A table's changes up to an instant."""
        parts = [held[key] for _, held in self._tables]
        ready = [b.take(np.flatnonzero(b.ts <= until)) for b in parts if len(b)]
        for _, held in self._tables:
            later = held[key].ts > until
            held[key] = held[key].take(np.flatnonzero(later))
        filled = [b for b in ready if len(b)]
        if not filled:
            return parts[0].slice(0, 0) if parts else empty(0)
        return filled[0] if len(filled) == 1 else _joined(filled)

    def current(self, now: int) -> Batch | None:
        return None if self._above is None else self._above.current(self._said_until)

    @property
    def waiting(self) -> int:
        """Rows, whole or partial, that wait."""
        return self.scheduler.waiting


def _kept(batch: Batch) -> Batch:
    """Rows in memory of their own: they may wait."""
    if not len(batch):
        return batch
    columns = tuple(c if c is ABSENT else c.kept() for c in batch.columns)
    return Batch(batch.ts.copy(), batch.exp.copy(), columns, batch.sign)


def _together(batches: Sequence[Batch]) -> Batch | None:
    """In time order; in an instant as their driving rows came."""
    filled = [b for b in batches if len(b)]
    if not filled:
        return None
    whole = filled[0] if len(filled) == 1 else _joined(filled)
    order = np.arange(len(whole)) if whole.lineage is None else whole.lineage
    if (np.diff(whole.ts) >= 0).all() and (np.diff(order) >= 0).all():
        return whole
    return whole.take(np.lexsort((order, whole.ts)))


def _joined(batches: Sequence[Batch]) -> Batch:
    columns = tuple(
        ABSENT if parts[0] is ABSENT else concat(parts)
        for parts in zip(*(b.columns for b in batches), strict=True)
    )
    signs = None
    if any(b.sign is not None for b in batches):
        signs = np.concatenate([np.ones(len(b), np.int8) if b.sign is None else b.sign for b in batches])
    lineage = None
    if all(b.lineage is not None for b in batches):
        lineage = np.concatenate([b.lineage for b in batches])
    return Batch(
        np.concatenate([b.ts for b in batches]), np.concatenate([b.exp for b in batches]), columns, signs,
        lineage=lineage,
    )  # fmt: skip
