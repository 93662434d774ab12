"""The routes of a core under overload: every stream's rows go from operator to operator, and wait by level before each.

Paper      Works 2013, §4.1.3, §4.2 (queues by rank, classifiers, joins that carry rank); Madden et al. 2002 (SteMs).
Invariant  a result is made once, by the row of it that was built last: its walk meets only rows built before it, and these
           stay until nothing that waits, or is still to come, can meet them. So the results of all rows that are not dropped are those of
           the ordinary join, whatever the order in which rows are worked on.
Pattern    rows that end as announced in, the same out; not in time order.
State      a stock of rows for each input (`state.stock`), lanes before each operator (`state.lanes`).
Cost       a unit a row, a unit for every candidate it meets, and what predicates cost.

Rows are tested first, if there is anything to test. The first operator that looks partners up builds them into their SteM before,
the others look them up in one more input each. A classifier stands before every operator, so that what it finds insignificant need
not be built. It is skipped when there is nothing to evaluate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.data.batch import Array, Batch, Column, Ints, concat
from penstock.data.clock import FOREVER
from penstock.errors import StateError
from penstock.flow.cores import Core, own_tests, side_by_side
from penstock.kernels import tiers
from penstock.operators.abilities import Share
from penstock.operators.conditions import Equality, KeyMaker, Residual, Tester, take_apart
from penstock.operators.contract import ABSENT, Site
from penstock.plan.catalog import Function
from penstock.plan.expressions import Expression, columns
from penstock.plan.levels import Disjunct
from penstock.plan.units import units
from penstock.state import words
from penstock.state.lanes import BACK_BURNER, CAME, END, FROM, LEVEL, ORDER, SEQ, SLOTS, TO, TS, Lane
from penstock.state.pool import Slots
from penstock.state.stock import DEAD, RESTING, UNBUILT, Stock

NEVER = np.iinfo(np.int64).min
UNSORTED = "unsorted"
ENOUGH = 30
"""Rows of a level from which on its own selectivity counts."""
UNKNOWN = 0.1
"""The share of rows for which a determinant holds, before any was asked."""
RECENT = 0.3
"""The weight of the last step among those before."""


@dataclass(frozen=True, slots=True)
class Determinant:
    """A disjunct of a level, over the core's columns: what it reads, and what it costs a row."""

    level: int
    criteria: Expression
    inputs: frozenset[int]
    cost: float


@dataclass(slots=True)
class Stage:
    """An operator of a route and the classifier before it."""

    route: int
    at: int
    target: int | None
    """Which input is looked up; None: rows are tested."""
    bound: frozenset[int]
    """Inputs whose rows are there before it."""
    last: bool
    builds: bool = False
    """Rows are built into their SteM here."""
    before: bool = False
    """A table is looked up before rows are built."""
    partner: int = -1
    """The bound input whose key is looked up; -1: every row of the target is a candidate."""
    equal: tuple[Equality, ...] = ()
    tests: tuple[Expression, ...] = ()
    """What can be tested once the target is there."""
    tested: float = 0.0
    """What that costs a candidate."""
    assessed: tuple[Determinant, ...] = ()
    """What the classifier evaluates now, best level first."""
    unsorted: Lane = field(default_factory=Lane)
    lanes: dict[int, Lane] = field(default_factory=dict)
    # Measured, of late: rows in, rows out, units spent by the operator.
    came: float = 0.0
    left: float = 0.0
    spent: float = 0.0
    by_level: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Rows in and rows out by the level of the rows that came; only where somebody asks (`Routes.by_level`)."""

    @property
    def waiting(self) -> int:
        return len(self.unsorted) + sum(map(len, self.lanes.values()))

    @property
    def cost(self) -> float:
        """Units a row takes in the operator."""
        return self.spent / self.came if self.came >= 1 else 1.0

    @property
    def selectivity(self) -> float:
        """Rows that leave for one that comes; more than one: partners."""
        return self.left / self.came if self.came >= 1 else 1.0

    def yielded(self, level: int) -> float:
        """The same for rows of a level, if enough of them came."""
        came, left = self.by_level.get(level, (0.0, 0.0))
        return left / came if came >= ENOUGH else self.selectivity

    def count_levels(self, came: Ints, left: Ints) -> None:
        """Levels of rows that came and of those they made (which may be better than their own)."""
        for level in np.unique(came).tolist():
            before = self.by_level.get(level, (0.0, 0.0))
            if before[0] > 1 << 12:
                before = before[0] / 2, before[1] / 2
            self.by_level[level] = (
                before[0] + int((came == level).sum()),
                before[1] + int((left == level).sum()),
            )

    def count(self, rows: int, out: int, spent: float) -> None:
        if self.came > 1 << 16:
            self.came, self.left, self.spent = self.came / 2, self.left / 2, self.spent / 2
        self.came += rows
        self.left += out
        self.spent += spent

    def every(self) -> list[Lane]:
        return [lane for _, lane in self.named()]

    def named(self) -> list[tuple[str, Lane]]:
        return [(UNSORTED, self.unsorted), *((str(level), lane) for level, lane in self.lanes.items())]


class Routes:
    """`wanted`: columns of the core's inputs, side by side, that somebody reads of a result."""

    def __init__(
        self,
        site: Site,
        core: Core,
        wanted: frozenset[int],
        disjuncts: Sequence[Disjunct],
        functions: Mapping[str, Function],
    ) -> None:
        self.core = core
        self.wanted = wanted
        self._site = site
        self._schemas = [i.schema for i in core.inputs]
        self._starts = side_by_side(core.inputs)
        self._width = len(core.schema)
        self._tester = Tester(site)
        self._functions = functions
        self._equalities, self._residuals = take_apart(core.predicates, self._schemas)
        self._own = [own_tests(core, i) for i in range(len(core.inputs))]
        asked = (*core.predicates, *(t for own in self._own for t in own), *(d.criteria for d in disjuncts))
        read = wanted | {c.index for expression in asked for c in columns(expression)}
        self._keys = [KeyMaker(site) for _ in core.inputs]
        self.routes_by = {i: self._route(i) for i, one in enumerate(core.inputs) if not one.table}
        """By the input whose rows go along them."""
        self._stored = [
            tuple(k for k in range(len(s)) if start + k in read)
            for s, start in zip(self._schemas, self._starts, strict=True)
        ]
        self.stocks = self._empty()
        self.determinants = self._determinants(disjuncts)
        self._numbers = 0
        self._arrivals = 0
        self._shares = [Share() for _ in self.determinants]
        self.arrived_of_late: dict[int, float] = {}
        """By input: rows of a step."""
        self.by_level = False
        """Whether selectivities are measured by level."""
        self.tally = np.zeros(1, np.int64)

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
                        hint="register the query anew, with the new criteria",
                    )
        self.determinants = self._determinants(disjuncts)
        self._shares = [Share() for _ in self.determinants]
        for stage in self.stages:
            stage.assessed = ()
        for stock in self.stocks:
            stock.level[:] = BACK_BURNER

    # ------------------------------------------------------------------ layout

    def _determinants(self, disjuncts: Sequence[Disjunct]) -> tuple[Determinant, ...]:
        made = []
        for one in disjuncts:
            inputs = frozenset(self.input_of(c.index) for c in columns(one.criteria))
            cost = units(one.criteria, self._functions)
            made.append(Determinant(one.level, one.criteria, inputs, cost))
        return tuple(sorted(made, key=lambda d: d.level))

    def input_of(self, column: int) -> int:
        return max(i for i, start in enumerate(self._starts) if start <= column)

    def _between(self, i: int, j: int) -> tuple[Equality, ...]:
        return tuple(e for e in self._equalities if {e.left, e.right} == {i, j})

    def _route(self, driver: int) -> list[Stage]:
        """Tables first, then streams with a key, then the others."""
        inputs = self.core.inputs
        bound = [driver]
        own = self._own[driver]
        made = []
        if own or len(inputs) == 1:
            last = len(inputs) == 1
            made.append(Stage(driver, 0, None, frozenset(bound), last, tests=own, tested=self._units(own)))
        while len(bound) < len(inputs):
            target, partner = min(
                ((t, self._partner(t, bound)) for t in range(len(inputs)) if t not in bound),
                key=lambda o: (self._distance(o[0], o[1], bound), not inputs[o[0]].table, o[0]),
            )
            equal = self._between(target, partner) if partner >= 0 else ()
            self._keys[target].index([e.side(target) for e in equal])
            if partner >= 0:
                self._keys[partner].index([e.side(partner) for e in equal])
            tests = self._tests({*bound, target}, target, equal)
            stage = Stage(driver, len(made), target, frozenset(bound), len(bound) + 1 == len(inputs))
            stage.builds = target == self._first_stream(driver, target, made)
            stage.before = not stage.builds and not any(s.builds for s in made)
            stage.partner, stage.equal = partner, equal
            stage.tests, stage.tested = tests, self._units(tests)
            made.append(stage)
            bound.append(target)
        return made

    def _first_stream(self, driver: int, target: int, before: Sequence[Stage]) -> int:
        """Where rows are to be built: before the first stream is looked up; if there is none, before the first table."""
        if any(s.builds for s in before):
            return -1
        streams = [i for i, one in enumerate(self.core.inputs) if not one.table and i != driver]
        return target if not streams or not self.core.inputs[target].table else -1

    def _distance(self, target: int, partner: int, bound: Sequence[int]) -> int:
        """How a target hangs together with what is bound: by a key, by another predicate, not at all."""
        if partner >= 0:
            return 0
        return 1 if any(_is_due(r, {*bound, target}, target) for r in self._residuals) else 2

    def _partner(self, target: int, bound: Sequence[int]) -> int:
        return next((p for p in bound if self._between(p, target)), -1)

    def _tests(self, bound: set[int], target: int, used: Sequence[Equality]) -> tuple[Expression, ...]:
        due = [r.whole for r in self._residuals if _is_due(r, bound, target)]
        for e in self._equalities:
            if (
                target in (e.left, e.right)
                and {e.left, e.right} <= bound
                and (e not in used or len(used) > 1)
            ):
                due.append(e.whole)
        return tuple(due)

    def _units(self, tests: Sequence[Expression]) -> float:
        return sum(units(t, self._functions) for t in tests)

    def path(self, route: Sequence[Stage], determinant: Determinant) -> range:
        """The classifiers of a route that could evaluate a determinant; a row of another stream brings its level along."""
        streams = {i for i in determinant.inputs if not self.core.inputs[i].table}
        driver = route[0].route
        if streams and driver not in streams:
            return range(0)
        ready = [s.at for s in route if determinant.inputs <= s.bound]
        return range(ready[0], len(route)) if ready else range(0)

    @property
    def routes(self) -> list[list[Stage]]:
        return list(self.routes_by.values())

    @property
    def stages(self) -> list[Stage]:
        return [stage for route in self.routes for stage in route]

    # ------------------------------------------------------------------ rows come

    def admit(self, which: int, batch: Batch, came: int) -> Ints:
        """Rows of a stream, from now on waiting before its first operator."""
        keys = self._keys[which]
        batch, made = keys.clean(batch)
        n = len(batch)
        rows = np.empty((SLOTS + len(self.core.inputs), n), np.int64)
        if not n:
            return rows
        slots = self._add(which, batch, made)
        rows[TS], rows[END] = batch.ts, batch.exp
        rows[FROM], rows[TO] = NEVER, FOREVER
        rows[CAME], rows[SEQ], rows[LEVEL] = came, 0, BACK_BURNER
        rows[ORDER] = np.arange(self._arrivals, self._arrivals + n)
        rows[SLOTS:] = -1
        rows[SLOTS + which] = slots
        self._arrivals += n
        return rows

    def note_arrivals(self, counts: Mapping[int, int]) -> None:
        """How many rows of each input came in a step."""
        for which in self.routes_by:
            before, now = self.arrived_of_late.get(which), float(counts.get(which, 0))
            self.arrived_of_late[which] = now if before is None else before + RECENT * (now - before)

    def _add(self, which: int, batch: Batch, keys: Sequence[Ints]) -> Slots:
        held = self._keys[which].held(batch)
        stored = tuple(
            Column(np.zeros(len(batch), self._schemas[which][k].type.dtype))
            if batch.columns[k] is ABSENT  # only tests read it, and these were passed elsewhere
            else batch.columns[k]
            for k in self._stored[which]
        )
        slots = self.stocks[which].add(stored + held, batch.ts, batch.exp, BACK_BURNER)
        self.stocks[which].set_keys(slots, keys)
        return slots

    def update(self, which: int, batch: Batch) -> None:
        """A table changes: rows of it begin, and rows end."""
        stock = self.stocks[which]
        for i in self.routes_by:
            slots = self.stocks[i].resting()
            if len(slots):
                # What came so far has met the table as it was; what comes now may find them with the table as it is.
                self._number(i, slots)
        gone = None if batch.sign is None else batch.take(np.flatnonzero(batch.sign < 0))
        new = batch if batch.sign is None else batch.take(np.flatnonzero(batch.sign > 0))
        new, keys = self._keys[which].clean(new)
        if len(new):
            slots = self._add(which, new, keys)
            stock.exp[slots] = FOREVER
            stock.build(slots, np.full(len(slots), -1))
        if gone is not None and len(gone):
            self._end(which, gone)

    def _end(self, which: int, gone: Batch) -> None:
        """Versions of a table's rows end; of equal ones the oldest first."""
        stock, stored = self.stocks[which], self._stored[which]
        live = stock.stored()
        live = live[stock.exp[live] == FOREVER]
        types = [self._schemas[which][k].type for k in stored]
        both = [concat([a, gone.columns[k]]) for a, k in zip(stock.columns(live), stored, strict=False)]
        n = len(live) + len(gone)
        table = words.rows(tuple(both), types, n)
        _, ids = np.unique(table, axis=0, return_inverse=True)
        ids = ids.reshape(-1)
        there, leaving = ids[: len(live)], ids[len(live) :]
        for one, at in zip(leaving.tolist(), gone.ts.tolist(), strict=True):
            found = live[(there == one) & (stock.exp[live] == FOREVER) & (stock.ts[live] < at)]
            if len(found):
                stock.exp[found[np.argmin(stock.ts[found])]] = at

    def take_over(self, which: int, rows: Batch) -> None:
        """Rows that were joined elsewhere until now: what they meet from now on is made here."""
        rows, keys = self._keys[which].clean(rows)
        if len(rows):
            slots = self._add(which, rows, keys)
            self.stocks[which].build(slots, np.full(len(slots), -1))

    def alive(self, which: int, now: int) -> Batch:
        """Built rows of an input that have not ended, for somebody else to go on with, in the order in which they end."""
        stock = self.stocks[which]
        slots = stock.stored()
        slots = slots[stock.exp[slots] > now]
        slots = slots[np.argsort(stock.exp[slots], kind="stable")]
        out: list[Column] = [ABSENT] * len(self._schemas[which])
        for k, column in zip(self._stored[which], stock.columns(slots), strict=False):
            out[k] = column
        return Batch(np.full(len(slots), now), stock.exp[slots], tuple(out))

    # ------------------------------------------------------------------ a classifier

    def classify(self, stage: Stage, rows: Ints) -> float:
        """Give rows the best level that the stage's determinants find; returns the units spent."""
        spent = 0.0
        driver = self.stocks[stage.route]
        for one in stage.assessed:
            open_ = np.flatnonzero(rows[LEVEL] > one.level)
            if not len(open_):
                continue
            spent += one.cost * len(open_)
            found = open_[self.holds(one.criteria, rows[:, open_])]
            self._shares[self.determinants.index(one)].count(len(open_), len(found))
            rows[LEVEL, found] = one.level
            slots = rows[SLOTS + stage.route, found]
            driver.level[slots] = np.minimum(driver.level[slots], one.level)
        return spent

    def share_of(self, determinant: Determinant) -> float:
        """For how many of the rows that were asked it held; before any was, for some."""
        known = self._shares[self.determinants.index(determinant)].value
        return UNKNOWN if known is None else known

    def holds(self, predicate: Expression, rows: Ints) -> Array:
        """For which partial results it is true."""
        read = frozenset(c.index for c in columns(predicate))
        return self._tester.test(predicate, self.columns(rows, read), rows[TS])

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

    # ------------------------------------------------------------------ an operator

    def work(self, stage: Stage, rows: Ints) -> tuple[Ints, float]:
        """Let rows pass an operator: what leaves it, and the units spent."""
        came = rows[LEVEL].copy() if self.by_level else None
        if stage.target is None:
            out, spent = self._tried(stage, rows)
        else:
            out, spent = self._probed(stage, rows)
        stage.count(rows.shape[1], out.shape[1], spent)
        if came is not None:
            stage.count_levels(came, out[LEVEL])
        return out, spent

    def levels_at(self, stage: Stage, rows: Ints) -> Ints:
        """The levels of rows before a stage, as far as they can be told there."""
        level: Ints = rows[LEVEL].copy()
        for one in self.determinants:
            if one.inputs <= stage.bound:
                open_ = np.flatnonzero(level > one.level)
                if len(open_):
                    level[open_[self.holds(one.criteria, rows[:, open_])]] = one.level
        return level

    def yield_of(self, stage: Stage, level: int) -> float:
        """Results that a row of a level before a stage makes, as rows did of late."""
        made = 1.0
        for one in self.routes_by[stage.route][stage.at :]:
            made *= one.yielded(level)
        return made

    def _tried(self, stage: Stage, rows: Ints) -> tuple[Ints, float]:
        spent = rows.shape[1] * (1 + stage.tested)
        for test in stage.tests:
            if not rows.shape[1]:
                break
            passed = self.holds(test, rows)
            if not passed.all():
                self.dropped(stage, rows[:, ~passed])
                rows = rows[:, passed]
        if stage.last:
            self.dropped(stage, rows)  # a row is its own result: nobody will meet it
        return rows, spent

    def _built(self, which: int, rows: Ints) -> None:
        """Rows that are not built yet are; a row may drive several partial results, one for each row of a table."""
        stock, slots = self.stocks[which], rows[SLOTS + which].astype(np.int32)
        new = slots[stock.built[slots] == UNBUILT]
        self._number(
            which, new if len(new) < 2 else np.sort(new)[np.flatnonzero(np.diff(np.sort(new), prepend=-1))]
        )
        rows[SEQ] = stock.built[slots]

    def _number(self, which: int, slots: Slots) -> None:
        self.stocks[which].build(slots, np.arange(self._numbers, self._numbers + len(slots)))
        self._numbers += len(slots)

    def _probed(self, stage: Stage, rows: Ints) -> tuple[Ints, float]:
        target = stage.target
        assert target is not None
        if stage.builds:
            self._built(stage.route, rows)
        one, stock = self.core.inputs[target], self.stocks[target]
        index = stock.indexes[self._keys[target].index([e.side(target) for e in stage.equal])]
        keys = self._probe_keys(stage, rows)
        since, until, seq = rows[TS], rows[END], rows[SEQ]
        pairs, found = [], []
        done, n = 0, len(keys)
        room = max(256, 2 * n)
        self.tally[0] = 0
        while done < n:
            row, slot = np.empty(room, np.int32), np.empty(room, np.int32)
            before = done
            done, made = tiers.probe(
                keys, since, until, seq, done, index.key, index.head, index.chain,
                stock.ts, stock.exp, stock.built, row, slot, self.tally,
            )  # fmt: skip
            pairs.append(row[:made])
            found.append(slot[:made])
            if done == before:
                room *= 2
        at, slots = np.concatenate(pairs), np.concatenate(found)
        out = rows[:, at]
        out[SLOTS + target] = slots
        if one.table:
            # A table is looked up as of the result's time, which is not known before all streams are there.
            out[FROM] = np.maximum(out[FROM], stock.ts[slots])
            out[TO] = np.minimum(out[TO], stock.exp[slots])
        else:
            out[TS] = np.maximum(out[TS], stock.ts[slots])
            out[END] = np.minimum(out[END], stock.exp[slots])
            out[LEVEL] = np.minimum(out[LEVEL], stock.level[slots])
        spent = n + int(self.tally[0]) + len(at) * stage.tested
        for test in stage.tests:
            if not out.shape[1]:
                break
            out = out[:, self.holds(test, out)]
        if stage.before:
            stock, own = self.stocks[stage.route], SLOTS + stage.route
            stock.lay_aside(np.setdiff1d(rows[own], out[own]).astype(np.int32), RESTING)
        if stage.last:
            out = out[:, (out[FROM] <= out[TS]) & (out[TS] < out[TO])]
        return out, spent

    def _probe_keys(self, stage: Stage, rows: Ints) -> Ints:
        if stage.partner < 0:
            return np.zeros(rows.shape[1], np.int64)
        number = self._keys[stage.partner].index([e.side(stage.partner) for e in stage.equal])
        keys: Ints = self.stocks[stage.partner].indexes[number].key[rows[SLOTS + stage.partner]]
        return keys

    def enqueue(self, stage: Stage, rows: Ints, active: frozenset[int]) -> None:
        """Let rows wait before a stage: unsorted if its classifier may find a better level, else by the level they have."""
        if not rows.shape[1]:
            return
        if stage.assessed:
            open_ = rows[LEVEL] > stage.assessed[0].level
            if open_.all():
                stage.unsorted.put(rows)
                return
            stage.unsorted.put(rows[:, open_])
            rows = rows[:, ~open_]
        self.line_up(stage, rows, active)

    def line_up(self, stage: Stage, rows: Ints, active: frozenset[int]) -> None:
        """Let rows wait before an operator, by level; a level that is not active is none."""
        level = rows[LEVEL]
        if active:
            level = np.where(np.isin(level, list(active)), level, BACK_BURNER)
            for one in np.unique(level).tolist():
                stage.lanes.setdefault(one, Lane()).put(rows[:, level == one])
        else:
            stage.lanes.setdefault(BACK_BURNER, Lane()).put(rows)

    # ------------------------------------------------------------------ rows leave

    def made(self, rows: Ints) -> Batch:
        """Results, their columns read; their lineage is the order in which their driving rows came."""
        found = self.columns(rows, self.wanted)
        for column in found:
            _ = column.values
        return Batch(rows[TS], rows[END], found, lineage=rows[ORDER])

    def dropped(self, stage: Stage, rows: Ints) -> None:
        """Partial results that nobody goes on with: rows that were not built yet leave their stock."""
        stock, slots = self.stocks[stage.route], rows[SLOTS + stage.route].astype(np.int32)
        if stage.target is None or (stage.at == 0 and (stage.before or stage.builds)):
            stock.drop(slots)
        elif stage.before or stage.builds:
            stock.lay_aside(slots, DEAD)  # another partial result may name the row

    # ------------------------------------------------------------------ leaving and coming back

    def save(self) -> dict[str, Any]:
        """Everything but rows: these are in stocks, and in lanes, which are named."""
        return {
            "numbers": [self._numbers, self._arrivals],
            "shares": [[share.tested, share.passed] for share in self._shares],
            "arrived": [[which, rows] for which, rows in self.arrived_of_late.items()],
            "assessed": [[self.determinants.index(d) for d in stage.assessed] for stage in self.stages],
            "measured": [[stage.came, stage.left, stage.spent] for stage in self.stages],
            "lanes": [[name for name, lane in stage.named() if len(lane)] for stage in self.stages],
        }

    def take_up(self, was: Mapping[str, Any]) -> None:
        self._numbers, self._arrivals = was["numbers"]
        for share, (tested, passed) in zip(self._shares, was["shares"], strict=True):
            share.tested, share.passed = tested, passed
        self.arrived_of_late = dict(was["arrived"])
        for stage, assessed, measured in zip(self.stages, was["assessed"], was["measured"], strict=True):
            stage.assessed = tuple(self.determinants[n] for n in assessed)
            stage.came, stage.left, stage.spent = measured

    def progress(self, clock: int) -> int:
        """Nothing that waits, or is still to come, makes a result before this instant."""
        return min(self._least(stage, clock) for stage in self.stages)

    def _least(self, stage: Stage, clock: int) -> int:
        """The earliest time of what waits before a stage; if nothing does, of what is still to come."""
        return min([clock + 1, *(int(c[TS].min()) for lane in stage.every() for c in lane.chunks())])

    def purge(self, clock: int) -> None:
        """Let go of rows that nothing can meet any more.

        A built row is met by rows of other routes, and named by partial results of its own. One that was laid aside may be named by
        any that waits.
        """
        least = {id(stage): self._least(stage, clock) for stage in self.stages}
        progress = min(least.values())
        for i, stock in enumerate(self.stocks):
            met = progress
            if i in self.routes_by:
                own = [s for s in self.routes_by[i] if not (s.builds or s.before or s.target is None)]
                others = [s for s in self.stages if s.route != i]
                met = min([clock + 1, *(least[id(s)] for s in (*own, *others))])
            stock.purge(met, progress)

    def forget(self) -> None:
        """Everything is joined elsewhere from now on."""
        assert not any(stage.waiting for stage in self.stages), "nothing waits"
        self._site.arena.drop(f"{self._site.name}.")
        self.stocks = self._empty()


def _is_due(residual: Residual, bound: set[int], target: int) -> bool:
    return target in residual.inputs and residual.inputs <= bound
