"""Coverage: of every object that a rank is about, some row is worked on in every period (Works 2013, §9.3).

Object     a value of the columns that COVER … BY names; it is of a period if a row of it, of which the criteria are true, begins then.
Covered    a row of it, or a partial result of one, was worked on to its end: it left the last operator, or met nothing in one.
Missed     all its rows of the period were dropped before that. Known, and counted, when the period is over and none of them waits.
Order      of the rows of an object one goes ahead, the others stand in a second lane of their level, behind what is not covered;
           if it is dropped before it came to its end, another takes its place.
State      a cell for every object of an open period, a number for each of its rows that wait.
Cost       O(1) a row that comes, moves on or is dropped; O(rows that wait) a step in which periods are over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.operators.contract import Site
from penstock.operators.join.predicates import Tester
from penstock.overload.queued_operator import Stop
from penstock.overload.spj_plan import Covered
from penstock.plan.catalog import Function
from penstock.plan.expression_cost import units
from penstock.state import key_words
from penstock.state.arena import Slab
from penstock.state.priority_queue import CAME, ORDER
from penstock.state.value_ids import Registry
from penstock.types.batch import Array, Batch, Ints, Mask
from penstock.types.data_type import Type
from penstock.types.event_time import FOREVER

FREE, COVERED = -1, -2
"""Of a cell, where no row goes ahead: none does yet; one came to its end."""
CLOSED = np.iinfo(np.int64).min
"""The period of a cell that is not in use."""
RECENT = 16
"""Periods that are told one by one."""


@dataclass(slots=True)
class Sums:
    """Of periods that are over."""

    periods: int = 0
    objects: int = 0
    covered: int = 0


class Coverage:
    """Of one rank of a query. `since`: the first instant it counts; None: it counts all that comes."""

    def __init__(
        self, site: Site, covered: Covered, functions: Mapping[str, Function], since: int | None
    ) -> None:
        self.about = covered
        self._since = since
        self.level = covered.level
        """Where rows of the rank wait: the level that it is beside the ranks of other queries."""
        self.of: Mask | None = None
        """Which rows of those that come next are of the rank, where only tables tell (`overload.coverage.table_criteria`)."""
        self.lifespan: int | None = None
        """The query's own: a row that comes to its end later was not worked on for it."""
        self.cost = units(covered.criteria, functions) + len(covered.tables)
        """Units to tell whether a row is of the rank."""
        self._arena, self._name = site.arena, site.name
        self._tester = Tester(site)
        self._types = [covered.schema[k].type for k in covered.by]
        self._cells = Registry(site.arena, f"{site.name}.cell", 1 + key_words.width(self._types))
        if Type.STRING in self._types:
            site.arena.strings(f"{site.name}.cell.keys")
        self._slab = Slab(site.arena, f"{site.name}.about", period=(np.int64, CLOSED), ahead=(np.int64, FREE))
        self._slab.fit(self._cells.capacity)
        orders = site.arena.found(f"{site.name}.orders", np.int64)
        self._orders = np.empty(0, np.int64) if orders is None else orders
        """Rows that wait, or did, in the order in which they came; and the cell of each."""
        cells = site.arena.found(f"{site.name}.cells", np.int32)
        self._of = np.empty(0, np.int32) if cells is None else cells
        self._keep()
        self.sums = Sums()
        self._recent: deque[tuple[int, int, int]] = deque(maxlen=RECENT)
        """Periods, and how many objects they had and how many of these were covered."""
        self._told: set[int] = set()
        """Periods that are counted, but have rows that wait."""
        self._due = CLOSED
        """No period is over before."""
        self.stale = False
        """A row that went ahead was dropped: others may take its place."""

    # ------------------------------------------------------------------ rows come

    def _noted(self, batch: Batch) -> tuple[Array, Array]:
        """Which rows are of the rank, and their cells."""
        if self.about.tables:
            assert self.of is not None and len(self.of) == len(batch), "tables are looked up before"
            of = self.of
        else:
            of = self._tester.test(self.about.criteria, batch.columns, batch.ts)
        if self._since is not None and self.about.time is not None and len(batch):
            of = of & (batch.columns[self.about.time].values >= self._since)
        rows = np.flatnonzero(of)
        columns = [batch.columns[k].take(rows) for k in self.about.by]
        own = key_words.rows(columns, self._types, len(rows))
        table = np.empty((len(rows), 1 + key_words.width(self._types)), np.int64)
        table[:, 0] = np.floor_divide(batch.ts[rows], self.about.every)
        table[:, 1:] = own
        cells = self._cells.ids(table)
        self._slab.fit(self._cells.capacity)
        self._slab["period"][cells] = table[:, 0]
        if len(rows):
            self._due = min(self._due, (int(table[:, 0].min()) + 1) * self.about.every)
        return rows, cells

    def came_and_went(self, batch: Batch) -> None:
        """Rows that are worked on at once."""
        _, cells = self._noted(batch)
        self._slab["ahead"][cells] = COVERED

    def came(self, batch: Batch, joins: Array, orders: Ints) -> None:
        """Rows of which those that can join at all (`joins`) are to wait, under these numbers; the others have come to their end."""
        rows, cells = self._noted(batch)
        waits = joins[rows]
        self._slab["ahead"][cells[~waits]] = COVERED
        places = np.cumsum(joins) - 1
        self._orders = np.concatenate([self._orders, orders[places[rows[waits]]]])
        self._of = np.concatenate([self._of, cells[waits]])
        self._keep()

    def _keep(self) -> None:
        some = len(self._orders) > 0
        self._arena.keep(f"{self._name}.orders", self._orders if some else None)
        self._arena.keep(f"{self._name}.cells", self._of if some else None)

    def _found(self, orders: Ints) -> Array:
        """The cells of rows; -1: they are not of the rank."""
        if not len(self._orders):
            return np.full(len(orders), -1, np.int32)
        at = np.minimum(np.searchsorted(self._orders, orders), len(self._orders) - 1)
        return np.where(self._orders[at] == orders, self._of[at], -1)

    # ------------------------------------------------------------------ rows move on

    def repeated(self, orders: Ints) -> tuple[Array, Array]:
        """Which rows are of the rank; and which of these stand back, because their object is covered or another row goes ahead."""
        cells, ahead = self._found(orders), self._slab["ahead"]
        own = cells >= 0
        free = np.flatnonzero(own)
        free = free[ahead[cells[free]] == FREE]
        if len(free):
            which, first = np.unique(cells[free], return_index=True)
            ahead[which] = orders[free[first]]
        return own, own & (ahead[cells] != orders)

    def ended(self, orders: Ints) -> None:
        """Rows came to their end."""
        cells = self._found(orders)
        self._slab["ahead"][cells[cells >= 0]] = COVERED

    def dropped(self, orders: Ints) -> None:
        """Rows are worked on no more."""
        cells, ahead = self._found(orders), self._slab["ahead"]
        own = np.flatnonzero(cells >= 0)
        gone = cells[own[ahead[cells[own]] == orders[own]]]
        if len(gone):
            ahead[gone] = FREE
            self.stale = True

    # ------------------------------------------------------------------ periods end

    def settle(self, now: int, waiting: Callable[[], Ints]) -> None:
        """Count periods that are over and have no object left that may still be covered. `waiting`: numbers of the rows that wait."""
        if now + 1 < self._due:
            return
        period, every = self._slab["period"], self.about.every
        live = np.flatnonzero(period != CLOSED)
        over = live[(period[live] + 1) * every <= now + 1]
        if len(over):
            self._count(over, self._found(waiting()))
        left = period[np.flatnonzero(period != CLOSED)]
        self._due = (int(left.min()) + 1) * every if len(left) else FOREVER

    def _count(self, over: Array, waiting: Array) -> None:
        period, ahead = self._slab["period"], self._slab["ahead"]
        waits = np.zeros(len(period), np.bool_)
        waits[waiting[waiting >= 0]] = True
        which, of = np.unique(period[over], return_inverse=True)
        covered = ahead[over] == COVERED
        objects, seen, undone, waiting_ = (
            np.bincount(of, weights, len(which)).astype(np.int64)
            for weights in (None, covered, waits[over] & ~covered, waits[over])
        )
        before = np.array([p in self._told for p in which.tolist()], np.bool_)
        told = np.flatnonzero(~before & (undone == 0))
        self.sums.periods += len(told)
        self.sums.objects += int(objects[told].sum())
        self.sums.covered += int(seen[told].sum())
        for k in told[-RECENT:].tolist():
            self._recent.append((int(which[k]), int(objects[k]), int(seen[k])))
        before[told] = True
        self._told |= set(which[told].tolist())
        done = before & (waiting_ == 0)
        self._told -= set(which[done].tolist())
        self._release(over[done[of]])

    def _release(self, cells: Array) -> None:
        if not len(cells):
            return
        self._slab["period"][cells] = CLOSED
        self._slab["ahead"][cells] = FREE
        self._cells.release(cells.astype(np.int32))
        keep = self._slab["period"][self._of] != CLOSED
        self._orders, self._of = self._orders[keep], self._of[keep]
        self._keep()

    def shrink(self, coming: int) -> None:
        """Give back room for cells that neither open periods nor so many new rows need."""
        made = self._cells.shrink(coming)
        if made is not None:
            self._slab.renumber(made)
            self._of = made.of(self._of)
            self._keep()

    # ------------------------------------------------------------------ for people, and for coming back

    def json(self) -> dict[str, Any]:
        every, sums = self.about.every, self.sums
        live = np.flatnonzero(self._slab["period"] != CLOSED)
        live = live[~np.isin(self._slab["period"][live], list(self._told))]
        return {
            "rank": self.about.level,
            "every": every,
            "by": [self.about.schema[k].name for k in self.about.by],
            "periods": sums.periods,
            "objects": sums.objects,
            "covered": sums.covered,
            "missed": sums.objects - sums.covered,
            "open": {"objects": len(live), "covered": int((self._slab["ahead"][live] == COVERED).sum())},
            "recent": [
                {"from": p * every, "until": (p + 1) * every, "objects": n, "covered": c, "missed": n - c}
                for p, n, c in self._recent
            ],
        }

    def save(self) -> dict[str, Any]:
        return {
            "sums": [self.sums.periods, self.sums.objects, self.sums.covered],
            "recent": list(self._recent),
            "told": sorted(self._told),
            "stale": self.stale,
        }

    def take_up(self, was: Mapping[str, Any]) -> None:
        self.sums = Sums(*was["sums"])
        self._recent.extend(tuple(one) for one in was["recent"])
        self._told = set(was["told"])
        self.stale = was["stale"]


class Coverages:
    """All of a query, by core and input."""

    def __init__(self, every: Iterable[tuple[int, Coverage]]) -> None:
        self.every = list(every)
        """With the numbers of their cores."""
        self._by: dict[tuple[int, int], list[Coverage]] = {}
        for core, one in self.every:
            self._by.setdefault((core, one.about.which), []).append(one)

    def of(self, core: int, which: int) -> Sequence[Coverage]:
        return self._by.get((core, which), ())

    def came_and_went(self, core: int, rows: Sequence[Batch]) -> float:
        """Rows of a core's inputs that are worked on at once; the units it took to tell."""
        spent = 0.0
        for which, batch in enumerate(rows):
            for one in self.of(core, which):
                one.came_and_went(batch)
                spent += one.cost * len(batch)
        return spent

    def came(self, core: int, which: int, batch: Batch, joins: Callable[[], Array], orders: Ints) -> float:
        """Rows of an input that are to wait, as far as they can join at all; the units it took to tell."""
        own = self.of(core, which)
        if not own:
            return 0.0
        mask = joins()
        for one in own:
            one.came(batch, mask, orders)
        return sum(one.cost for one in own) * len(batch)

    def repeated(self, core: int, stop: Stop, rows: Ints) -> Array | None:
        """Which rows stand back; None: COVER says nothing of them."""
        own = self.of(core, stop.route)
        if not own:
            return None
        ranked, ahead = np.zeros((2, rows.shape[1]), np.bool_)
        for one in own:
            of, again = one.repeated(rows[ORDER])
            ranked |= of
            ahead |= of & ~again
        back: Array = ranked & ~ahead
        return back

    def ended(self, core: int, stop: Stop, rows: Ints, out: Ints, now: int) -> None:
        """Rows passed an operator, and `out` left it."""
        own = self.of(core, stop.route)
        if own:
            gone = rows if stop.last else rows[:, ~np.isin(rows[ORDER], out[ORDER])]
            for one in own:
                late = (
                    np.zeros(gone.shape[1], np.bool_)
                    if one.lifespan is None
                    else now - gone[CAME] > one.lifespan
                )
                one.ended(gone[ORDER, ~late])
                if late.any():
                    one.dropped(gone[ORDER, late])

    def dropped(self, core: int, stop: Stop, rows: Ints) -> None:
        for one in self.of(core, stop.route):
            one.dropped(rows[ORDER])
