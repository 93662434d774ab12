"""A query on a core: what it makes of the core's results, and what became of its rows.

Invariant  a rider is told what it would be told alone, of the rows that are not dropped: its columns, its `__rank`, and what stands above.
Later      a query that came when the core was running sees results all of whose rows came for it: their times tell.
Lifespan   a result that is too old for it is not told, and counted.
Errors     what fails in its own projections, ranks and plan above stops it alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from penstock.errors import PenstockError
from penstock.operators.contract import Operator
from penstock.operators.expressions.compiled import RowError
from penstock.operators.pipeline import Key, told
from penstock.overload.dropped_rows import Aside
from penstock.overload.metrics import Tallies
from penstock.overload.operator_queues import Routes
from penstock.overload.ordered_downstream import Above, Said
from penstock.overload.queued_operator import Stop
from penstock.overload.scheduler import Made
from penstock.overload.spj_block import Workshop, finishing, wanted_of
from penstock.overload.spj_plan import Core, cores, side_by_side, time_of
from penstock.plan.policies import Policies
from penstock.plan.query_root import Root
from penstock.plan.rank_levels import USUAL
from penstock.state.arena import Arena
from penstock.state.priority_queue import BACK_BURNER, CAME, LEVEL, PROMISE
from penstock.types.batch import Array, Batch, Ints
from penstock.types.data_type import Type

LATE = "a result, too late for this query"


class Rider:
    """`number`: of its arrays; none is given twice on a core. `since`: the first instant it sees."""

    def __init__(self, root: Root, weight: float = USUAL) -> None:
        self.weight = weight
        self.number = 0
        self.since = 0
        self.tallies = Tallies()
        self.failed: PenstockError | None = None
        self.alone = True
        """Nobody else rides: its errors are the core's."""
        self.said: Said = []
        self.aside: Aside | None = None
        """What was dropped of its rows, if anybody wants to see it."""
        self._own: Ints | None = None
        """By level of a row: its own rank at that place, or none; None: levels are its ranks."""
        self._times: tuple[int, ...] = ()
        """Columns that tell when rows of a result came, if some may have come before it."""
        self.be(root)

    def be(self, root: Root) -> None:
        """Ask this from now on."""
        self.root = root
        self.plan, self.cores = cores(root, "core")
        self.wanted = [wanted_of(core) for core in self.cores]
        """By core: columns that it reads of results."""
        self.disjuncts = [core.disjuncts(root.levels.ranks, root.levels.over) for core in self.cores]
        """By core: its criteria."""

    @property
    def name(self) -> str:
        """How the names of its arrays begin."""
        return f"rider{self.number}."

    def board(self, workshop: Workshop, routes: Sequence[Routes], policies: Policies) -> None:
        """Hear of a core from now on."""
        self._workshop, self._routes = workshop, routes
        if self.since > workshop.since:
            self._times = times(self.cores[0])
        self.above = Above(
            self.plan, self.cores, workshop, self.name, self.since, routes, policies.sampling_memory
        )
        if policies.keep_dropped:
            self.aside = Aside(routes, workshop.strings, workshop.time_type, policies.keep_dropped)
        self.refit()

    def refit(self) -> None:
        """Its projections and filters over the core are others, and so are ranks that are said above."""
        self.above.rerank(self.plan, self._workshop.site(f"{self.name}rank"))
        self._finish: list[list[Operator]] = [
            [finishing(self._workshop.site(f"{self.name}finish{n}.{i}"), node) for i, node in enumerate(reversed(core.above))]
            for n, core in enumerate(self.cores)
        ]  # fmt: skip

    def know(self, levels: Mapping[int, int] | None) -> None:
        """By level of a row, its own rank."""
        self._own = None
        if levels is not None:
            self._own = np.full(BACK_BURNER + 1, BACK_BURNER)
            self._own[list(levels)] = list(levels.values())

    def ranks(self, levels: Ints) -> Ints:
        """What levels of rows are for it."""
        return levels if self._own is None else self._own[levels]

    # ------------------------------------------------------------------ results

    def at_once(self, made: Sequence[Batch], tables: Mapping[Key, Batch], now: int) -> None:
        """Results in time, of every core."""
        try:
            finished = [self._finished(n, self._begun(batch), now) for n, batch in enumerate(made)]
            said = self.above.at_once(finished, tables, now)
        except PenstockError as error:
            self._fail(error)
        else:
            self.tallies.in_time += sum([len(batch) for batch, _ in said])
            self.said += said

    def late(self, made: Made, now: int) -> None:
        """Results of rows that waited."""
        with self._by_itself():
            batch, levels, ages = made.batch, self.ranks(made.levels), made.ages
            if self._times:
                own = np.flatnonzero(_all_since(batch, self._times, self.since))
                batch, levels, ages = batch.take(own), levels[own], ages[own]
            lifespan = self.root.levels.lifespan
            old = None if lifespan is None else ages - made.lag > lifespan
            if old is not None and old.any():
                self.tallies.late(levels[old], LATE)
                fresh = np.flatnonzero(~old)
                batch, levels, ages = batch.take(fresh), levels[fresh], ages[fresh]
            if len(batch):
                self.tallies.delivered(levels, ages)
                self.above.hold(made.core, self._finished(made.core, batch, now))

    def release(self, progress: int, now: int, *, ranked: bool) -> None:
        """Say what may be said. `ranked`: rank by rank, if it says ranks."""
        with self._by_itself():
            self.said += self.above.released(progress, now, ranked=ranked and bool(self.root.extra))

    def told(self) -> Said:
        """What there is to say since the last call."""
        said, self.said = self.said, []
        return said

    def _begun(self, batch: Batch) -> Batch:
        if not self._times or not len(batch):
            return batch
        own = _all_since(batch, self._times, self.since)
        return batch if own.all() else batch.take(np.flatnonzero(own))

    def _finished(self, core: int, batch: Batch, now: int) -> Batch:
        for one in self._finish[core]:
            batch = one.step((batch,), now)
        return batch

    @contextmanager
    def _by_itself(self) -> Iterator[None]:
        try:
            yield
        except PenstockError as error:
            self._fail(error)

    def _fail(self, error: PenstockError) -> None:
        """It stops; alone it is the core that does."""
        if self.alone:
            raise error
        kind: Type = self._workshop.time_type
        self.failed = told(error, kind) if isinstance(error, RowError) else error

    # ------------------------------------------------------------------ rows that are dropped

    def expired(self, core: int, stop: Stop, rows: Ints) -> None:
        self.tallies.expired(core, stop, self._of(stop, rows))

    def shed(self, core: int, stop: Stop, rows: Ints) -> None:
        self.tallies.shed(self._of(stop, rows))

    def suppressed(self, core: int, stop: Stop, rows: Ints) -> None:
        self.tallies.suppressed(core, stop, self._of(stop, rows))

    def lay_aside(self, core: int, stop: Stop, rows: Ints, reason: str, now: int) -> None:
        """Keep rows that are dropped, for whoever wants to see them."""
        if self.aside is not None:
            self.aside.take(core, stop, self._of(stop, rows), reason, now)

    def lay_late(self, core: int, stop: Stop, rows: Ints, now: int) -> None:
        """The same of results that are too late for it alone; `now`: when they were begun."""
        lifespan = self.root.levels.lifespan
        if self.aside is not None and lifespan is not None:
            old = now - rows[CAME] > lifespan
            if old.any():
                rows = self._of(stop, rows[:, old], everything=True)
                self.aside.take(core, stop, rows, "expired", now, where=LATE)

    def _of(self, stop: Stop, rows: Ints, *, everything: bool = False) -> Ints:
        """Rows that are its own, with the ranks they have for it. `everything`: they are whole results."""
        if self._times:
            bound = range(len(self.cores[0].inputs)) if everything else stop.bound
            starts = side_by_side(self.cores[0].inputs)
            ends = [*starts[1:], len(self.cores[0].schema)]
            there = frozenset(k for k in self._times if any(starts[i] <= k < ends[i] for i in bound))
            columns = self._routes[0].columns(rows, there)
            own = np.logical_and.reduce([columns[k].values >= self.since for k in sorted(there)])
            rows = rows[:, own]
        if self._own is None:
            return rows
        rows = rows.copy()
        rows[LEVEL], rows[PROMISE] = self.ranks(rows[LEVEL]), self.ranks(rows[PROMISE])
        return rows

    # ------------------------------------------------------------------ leaving and coming back

    def save(self, arena: Arena) -> dict[str, Any]:
        """Rows into an arena; the rest is returned."""
        self.above.save(arena)
        if self.aside is not None:
            self.aside.save(arena, self.name)
        return {"tallies": self.tallies.save(), "above": [self.above.until, self.above.let_go]}

    def take_up(self, was: Mapping[str, Any]) -> None:
        self.tallies.take_up(was["tallies"])
        self.above.take_up(self._workshop.arena, *was["above"])
        if self.aside is not None:
            self.aside.take_up(self._workshop.arena, self.name)


def times(core: Core) -> tuple[int, ...]:
    """Columns of a core's inputs, side by side, that tell when rows of streams came; none if some stream's is not there."""
    found = [
        (start, time_of(one))
        for start, one in zip(side_by_side(core.inputs), core.inputs, strict=True)
        if not one.table
    ]
    return (
        tuple(start + at for start, at in found if at is not None)
        if all(a is not None for _, a in found)
        else ()
    )


def _all_since(batch: Batch, times_: Sequence[int], since: int) -> Array:
    found: Array = np.logical_and.reduce([batch.columns[k].values >= since for k in times_])
    return found
