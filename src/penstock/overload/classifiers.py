"""The classifiers of a core under overload: what is known of rows that wait, and where they stand by it.

Paper      Works 2013, §4.2.1 (rank classifiers and assessment sets), §6.3.2 (static and dynamic ones).
Invariant  a level is given if criteria are true of what is bound, and stays; a promise ends at its designated stop. Neither changes what is
           told, only when.
State      a stock of rows for each input, lanes before each operator.
Cost       what criteria cost, for rows that may be better than is known: few are asked one by one, many at once (`overload.criteria`); `LOOK` a
           row that is looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from penstock.errors import StateError
from penstock.operators.capabilities import Share
from penstock.operators.contract import Site
from penstock.operators.expressions.compiled import RowError
from penstock.operators.join.predicates import Tester
from penstock.overload import probe_passes
from penstock.overload.criteria import AtOnce, at_once
from penstock.overload.probe_order import Itinerary
from penstock.overload.queued_operator import Determinant, Stop
from penstock.overload.spj_plan import Core, side_by_side
from penstock.plan.catalog import Function
from penstock.plan.expressions import Expression, columns
from penstock.plan.rank_levels import Disjunct
from penstock.state.priority_queue import (
    BACK_BURNER,
    DESIGNATED,
    LEVEL,
    PROMISE,
    SLOTS,
    TS,
    Lane,
    counted,
    going_by,
)
from penstock.state.priority_stem import Stock
from penstock.types.batch import ABSENT, Array, Column, Ints
from penstock.types.data_type import Type

LOOK = 0.05
"""Units to look a row's value up among those that promise something."""
UNKNOWN = 0.1
"""The share of rows for which a determinant holds, before any was asked."""
KEPT = 32
"""Sets of determinants that are asked at once, of which filters are kept."""


class Classifiers:
    """`read`: columns of the core's inputs, side by side, that are kept beside those that predicates and criteria read."""

    def __init__(
        self,
        site: Site,
        core: Core,
        read: frozenset[int],
        disjuncts: Sequence[Disjunct],
        functions: Mapping[str, Function],
    ) -> None:
        self.core = core
        self._site = site
        self._schemas = [i.schema for i in core.inputs]
        self._starts = side_by_side(core.inputs)
        self._width = len(core.schema)
        self._tester = Tester(site)
        self._itinerary = way = Itinerary(site, core, functions)
        asked = (*core.predicates, *(t for own in way.own for t in own), *(d.criteria for d in disjuncts))
        read |= {c.index for expression in asked for c in columns(expression)}
        self._keys = way.keys
        self.routes_by = way.routes
        """By the input whose rows go along them."""
        self._stored = [
            tuple(k for k in range(len(s)) if start + k in read)
            for s, start in zip(self._schemas, self._starts, strict=True)
        ]
        self.stocks = self._empty()
        self.determinants = self._itinerary.determinants(disjuncts)
        self._asks: dict[int, list[Determinant]] = {}
        self._shares = {one: Share() for one in self.determinants}
        self._assessments: dict[tuple[Determinant, ...], tuple[AtOnce | None, Sequence[Determinant]]] = {}
        site.evaluator.along(self._let_go)
        self.meets = probe_passes.meetings(way, self.determinants)
        """By the input whose rows go along a route that has no levels: the last stop at which they meet rows that have."""
        self.tolerant = False
        """Criteria that fail on a row are not true of it: whose they are will see when he is told the row's rank."""
        self.repeated: Callable[[Stop, Ints], Array | None] | None = None
        """Tells which rows stand back in their level (`overload.coverage.coverage`)."""
        self.noticed: Callable[[Stop, Determinant, Ints], None] | None = None
        """Looks at rows in which a classifier finds a level."""
        self.recalled: Callable[[int, int, Ints], None] | None = None
        """Looks at stored rows that turn out to have a level: of which input, which level, where they are."""

    def _empty(self) -> list[Stock]:
        """Stocks of no rows."""
        return [
            Stock(
                self._site.arena,
                f"{self._site.name}.{i}",
                [s[k].type for k in stored] + keys.strings,
                keys.count,
            )
            for i, (s, stored, keys) in enumerate(zip(self._schemas, self._stored, self._keys, strict=True))
        ]

    def rerank(self, disjuncts: Sequence[Disjunct]) -> None:
        """Other criteria from now on; they may read what is stored already."""
        read = {start + k for start, stored in zip(self._starts, self._stored, strict=True) for k in stored}
        for one in disjuncts:
            for column in columns(one.criteria):
                if column.index not in read:
                    raise StateError(
                        f"the running query does not keep {column.name}, which the criteria read",
                        hint="register the query anew, with the new criteria; connect(keep_dropped=…) keeps all columns",
                    )
        self.determinants = self._itinerary.determinants(disjuncts)
        self.meets = probe_passes.meetings(self._itinerary, self.determinants)
        self._asks.clear()
        self._shares = {one: Share() for one in self.determinants}
        self._let_go()
        for stop in self.stops:
            stop.assessed = stop.promising = ()
        for which, stock in enumerate(self.stocks):
            stock.level[:] = BACK_BURNER
            if which in self.routes_by and not self.in_process:
                stock.move(stock.stored(), assessed=not self._asked(which))

    def input_of(self, column: int) -> int:
        return self._itinerary.input_of(column)

    def path(self, route: Sequence[Stop], determinant: Determinant) -> range:
        return self._itinerary.path(route, determinant)

    def sides(self, stop: Stop) -> tuple[tuple[int, int], tuple[int, int]]:
        """Of a join by key: the partner and the target, each with the number of the index that is compared."""
        assert stop.target is not None
        own, other = (
            (which, self._keys[which].index([e.side(which) for e in stop.equal]))
            for which in (stop.partner, stop.target)
        )
        return own, other

    def is_text(self, which: int, index: int) -> bool:
        """Whether an index is over a string and nothing else."""
        keys = self.key_of(which, index)
        return len(keys) == 1 and keys[0].type is Type.STRING

    def key_of(self, which: int, index: int) -> tuple[Expression, ...]:
        """What an index is over, in terms of its input."""
        return self._keys[which].indexes[index]

    def parts_of(self, which: int, index: int, slots: Ints) -> list[Ints]:
        """What the keys of rows that are here are made of: a word for each expression of the index."""
        own: list[Column] = [ABSENT] * len(self._schemas[which])
        for k, column in zip(self._stored[which], self.stocks[which].columns(slots), strict=False):
            own[k] = column
        return self._keys[which].parts(index, own, len(slots))

    @property
    def routes(self) -> list[list[Stop]]:
        return list(self.routes_by.values())

    @property
    def stops(self) -> list[Stop]:
        return [stop for route in self.routes for stop in route]

    @property
    def in_process(self) -> bool:
        """Whether rows have met some levels at a stop and wait for others."""
        return any(len(lane) for stop in self.stops for lane in stop.aside.values())

    # ------------------------------------------------------------------ what a row says

    def columns(self, rows: Ints, wanted: frozenset[int]) -> tuple[Column, ...]:
        """Columns of partial results, side by side."""
        out: list[Column] = [ABSENT] * self._width
        for i, (start, stored) in enumerate(zip(self._starts, self._stored, strict=True)):
            if any(start + k in wanted for k in stored):
                slots = rows[SLOTS + i].astype(np.int32)
                for k, column in zip(stored, self.stocks[i].columns(slots), strict=False):
                    if start + k in wanted:
                        out[start + k] = column
        return tuple(out)

    def holds(self, predicate: Expression, rows: Ints) -> Array:
        """For which partial results it is true."""
        read = frozenset(c.index for c in columns(predicate))
        return self._tester.test(predicate, self.columns(rows, read), rows[TS])

    def share_of(self, determinant: Determinant) -> float:
        """For how many of the rows that were asked it held; before any was, for some."""
        known = self._shares[determinant].value
        return UNKNOWN if known is None else known

    @property
    def shares(self) -> list[Share]:
        """By determinant: of how many rows it was asked, and for how many it held."""
        return list(self._shares.values())

    def levels_at(self, stop: Stop, rows: Ints) -> Ints:
        """The levels of rows before a stop, as far as they can be told there."""
        return self._levels(rows[LEVEL].copy(), rows, stop.bound)

    def levels_of(self, rows: Ints, inputs: frozenset[int]) -> Ints:
        """The levels that these inputs tell of rows, whatever was found of them."""
        return self._levels(np.full(rows.shape[1], BACK_BURNER), rows, inputs)

    def _levels(self, level: Ints, rows: Ints, inputs: frozenset[int]) -> Ints:
        together, single = self._to_ask(tuple(one for one in self.determinants if one.inputs <= inputs))
        if together is not None:
            open_ = np.flatnonzero(level > together.best)
            if len(open_):
                level[open_] = np.minimum(
                    level[open_], together.levels[self._first(together, rows[:, open_])]
                )
        for one in single:
            open_ = np.flatnonzero(level > one.level)
            if len(open_):
                level[open_[self._true(one, rows[:, open_])]] = one.level
        return level

    def _true(self, one: Determinant, rows: Ints) -> Array:
        """For which partial results a determinant that is asked by itself is true."""
        (criteria,) = one.alternatives
        try:
            return self.holds(criteria, rows)
        except RowError:
            if not self.tolerant:
                raise
            return np.zeros(rows.shape[1], np.bool_)

    def _to_ask(self, wanted: tuple[Determinant, ...]) -> tuple[AtOnce | None, Sequence[Determinant]]:
        """Which of these determinants are asked at once, and which one by one."""
        if wanted not in self._assessments:
            if len(self._assessments) >= KEPT:
                self._let_go()
            self._assessments[wanted] = at_once(wanted, self._site.evaluator)
        return self._assessments[wanted]

    def _first(self, together: AtOnce, rows: Ints) -> Ints:
        """By partial result: the number of the first determinant that is true, as many as there are if none is."""
        none = len(together.determinants)
        found: Ints = together.asked.best(self.columns(rows, together.asked.read), rows[TS], none)[0]
        return found

    def _let_go(self) -> None:
        for together, _ in self._assessments.values():
            if together is not None:
                together.asked.close()
        self._assessments.clear()

    def _asked(self, which: int) -> list[Determinant]:
        """What is asked of rows of an input by themselves or further on."""
        if which not in self._asks:
            route = self.routes_by.get(which, ())
            self._asks[which] = [one for one in self.determinants if route and self.path(route, one)]
        return self._asks[which]

    def _is_assessed(self, which: int) -> bool:
        """Whether rows of an input that are built now were asked for every level that goes first."""
        if not self._asked(which):
            return True
        places = [stop.at for stop in self.routes_by[which] if stop.assessed]
        return bool(places) and all(places[-1] <= stop.at for stop in self.routes_by[which] if stop.builds)

    def assess_stored(self) -> float:
        """Ask built rows for their levels, as far as these can be told of them alone; returns the units that takes.

        While something is in process they stay in their tiers: whoever meets level after level must find each row in one.
        """
        spent, movable = 0.0, not self.in_process
        for which in self.routes_by:
            asked, stock = self._asked(which), self.stocks[which]
            alone = [one for one in asked if one.inputs == {which}]
            slots = stock.stored()
            slots = slots[stock.level[slots] == BACK_BURNER]
            if not alone or not len(slots):
                continue
            rows = np.full((SLOTS + len(self.core.inputs), len(slots)), -1, np.int64)
            rows[TS], rows[SLOTS + which] = stock.ts[slots], slots
            level = stock.level[slots] = self.levels_of(rows, frozenset({which}))
            if movable:
                stock.move(slots, assessed=len(alone) == len(asked))
            if self.recalled is not None:
                for one, _ in counted(level[level < BACK_BURNER]):
                    self.recalled(which, one, slots[level == one])
            spent += len(slots) * sum(one.cost for one in alone)
        return spent

    # ------------------------------------------------------------------ a classifier

    def classify(self, stop: Stop, rows: Ints) -> float:
        """Give rows the best level that the stop's determinants find; returns the units spent."""
        return self.assess(stop, stop.assessed, rows) + self._promised(stop, rows)

    def assess(self, stop: Stop, determinants: Sequence[Determinant], rows: Ints) -> float:
        """Give rows before a stop the best level that determinants find, best first; returns the units spent."""
        together, single = self._to_ask(tuple(determinants))
        spent = 0.0 if together is None else self._classify_at_once(stop, together, rows)
        for one in single:
            open_ = np.flatnonzero(rows[LEVEL] > one.level)
            if not len(open_):
                continue
            spent += one.cost * len(open_)
            found = open_[self._true(one, rows[:, open_])]
            self._shares[one].count(len(open_), len(found))
            self._find(stop, one, rows, found)
        return spent

    def _classify_at_once(self, stop: Stop, together: AtOnce, rows: Ints) -> float:
        open_ = np.flatnonzero(rows[LEVEL] > together.best)
        if not len(open_):
            return 0.0
        known = rows[LEVEL, open_]
        first = self._first(together, rows[:, open_])
        for level in np.unique(known).tolist():
            # As many have been asked as if one had been asked after the other: who has an answer is asked no more.
            held = np.bincount(first[known == level], minlength=len(together.levels))
            asked = held.sum() - (np.cumsum(held) - held)
            for n, one in enumerate(together.determinants):
                if one.level < level:
                    self._shares[one].count(int(asked[n]), int(held[n]))
        better = together.levels[first] < known
        for n in np.unique(first[better]).tolist():
            self._find(stop, together.determinants[n], rows, open_[better & (first == n)])
        return together.asked.cost * len(open_)

    def _find(self, stop: Stop, one: Determinant, rows: Ints, found: Array) -> None:
        """Give rows the level of a determinant that is true of them."""
        rows[LEVEL, found] = one.level
        driver, slots = self.stocks[stop.route], rows[SLOTS + stop.route, found]
        driver.level[slots] = np.minimum(driver.level[slots], one.level)
        if self.noticed is not None and len(found):
            self.noticed(stop, one, rows[:, found])

    def _promised(self, stop: Stop, rows: Ints) -> float:
        """Let rows promise what the stop finds of them; of equally good promises the one that lasts longest (Works 2013, Def. 7).

        A level spares looking for promises that are no better; a promise spares nothing (§6.3.2).
        """
        spent = 0.0
        for one in stop.promising:
            open_ = np.flatnonzero((rows[LEVEL] > one.best) & (rows[DESIGNATED] < one.designated))
            if not len(open_):
                continue
            spent += LOOK * len(open_)
            keys = self.stocks[one.which].indexes[one.index].key[rows[SLOTS + one.which, open_]]
            found = one.table.find(keys)
            better = (found >= 0) & (found < rows[LEVEL, open_]) & (found <= rows[PROMISE, open_])
            rows[PROMISE, open_[better]] = found[better]
            rows[DESIGNATED, open_[better]] = one.designated
        return spent

    # ------------------------------------------------------------------ where rows wait

    def enqueue(self, stop: Stop, rows: Ints, active: frozenset[int]) -> None:
        """Let rows wait before a stop: unsorted if its classifier may find a better level, else by the level they have."""
        if not rows.shape[1]:
            return
        if stop.assessed or stop.promising:
            open_ = self._open(stop, rows)
            if open_.all():
                stop.unsorted.put(rows)
                return
            stop.unsorted.put(rows[:, open_])
            rows = rows[:, ~open_]
        self.line_up(stop, rows, active)

    def _open(self, stop: Stop, rows: Ints) -> Array:
        """Which rows a classifier has something to look at."""
        open_: Array = np.zeros(rows.shape[1], np.bool_)
        if stop.assessed:
            open_ |= rows[LEVEL] > stop.assessed[0].level
        if stop.promising:
            best = min(one.best for one in stop.promising)
            open_ |= (rows[LEVEL] > best) & (rows[PROMISE] == BACK_BURNER)
        return open_

    def line_up(self, stop: Stop, rows: Ints, active: frozenset[int]) -> None:
        """Let rows wait before an operator, by the level they go by; one that is not active is none."""
        if not active:
            stop.lanes.setdefault(BACK_BURNER, Lane()).put(rows)
            return
        level = going_by(rows, active)
        back = None if self.repeated is None else self.repeated(stop, rows)
        levels = counted(level)
        if len(levels) == 1 and back is None:
            stop.lanes.setdefault(levels[0][0], Lane()).put(rows)
            return
        for one, _ in levels:
            own = level == one
            if back is not None:
                stop.again.setdefault(one, Lane()).put(rows[:, own & back])
                own &= ~back
            stop.lanes.setdefault(one, Lane()).put(rows[:, own])

    def put_aside(self, stop: Stop, rows: Ints, active: frozenset[int]) -> None:
        """Let rows in process wait for the next level at which they meet any."""
        level = going_by(rows, active)
        for one, _ in counted(level):
            stop.aside.setdefault(one, Lane()).put(rows[:, level == one])
