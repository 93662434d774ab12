"""The monitor of preferential results: which join values significant rows have, and how many rows may meet them.

Paper      Works 2013, §6.4 (Def. 11 and 12).
Counted    rows in which a classifier finds a level, by the join values that others will look them up with: those that the first
           classifier of a route finds; where it does not look, some of the rows that come, and of those that were there before; some of those that
           expired unsorted. Partial results with a level, where they look others up with a value of another stream. And all rows that come, for the values that are there (Def. 12).
State      for every attribute and level `ROOM` values (`state.frequent_values`), however many there are. It is saved with the rows that wait.
Fading     by how long rows are alive: after `LASTS` times as long a row counts e times less. So it follows change.
Cost       while busy, and only of queries with levels: a look-up of every row that comes, for each attribute and level; of the few that are
           significant O(ROOM).

A string is known by its code (`state.strings`), so codes that are counted are held. A value of several attributes is a hash; what it is made of
is kept beside (`spelt`), for those codes and for other cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import exp
from typing import Any

import numpy as np

from penstock.overload.operator_queues import Routes
from penstock.overload.policy.preference.join_attributes import Attribute, attributes, runs
from penstock.overload.queued_operator import Determinant, Stop
from penstock.state.frequent_values import Floats, Frequent
from penstock.state.priority_queue import BACK_BURNER, END, LEVEL, SLOTS, TS, counted
from penstock.types.batch import Array, Ints
from penstock.types.data_type import Type
from penstock.types.event_time import FOREVER

ROOM = 64
"""Values that are counted of an attribute and level."""
SAMPLE = 256
"""Rows that are looked at in a step where classifiers do not look at all of them."""
LASTS = 4.0
"""How many times as long as rows are alive it takes to forget them: who mattered is likely to come again."""
SURPRISED = 3.0
"""So many rows with a value were to be expected of a stream, and there was none: it does not have the value."""
UNSEEN = 0.5
"""Of a stream that has some of the values: rows with each of the others that are taken to have come. It was not known for long, or the
next row may be the first."""
ENOUGH = 8.0
"""Rows of a level that a cell has counted itself, and goes by that: significant rows with other values are elsewhere, and what would meet
them takes the units of what meets its own (`penstock bench promises`)."""
SLOWLY = 0.98
"""What is left of a count after a step if rows stay for ever."""


class Monitor:
    """Of one core. `levels`: those of the query, best first."""

    def __init__(self, core: Routes, levels: Sequence[int], room: int = ROOM) -> None:
        self.core = core
        self.levels = list(levels)
        streams = set(core.routes_by)
        found, of = attributes(core)
        kept = [one for one in found if len(streams & set(one.sides)) > 1] if levels else []
        self.attributes: tuple[Attribute, ...] = tuple(kept)
        """Those by which streams meet streams."""
        numbers = {one.number for one in kept}
        self.of = {place: n for place, n in of.items() if n in numbers}
        """By route and place: the number of a join's attribute."""
        self.runs = {i: runs(route, self.of) for i, route in core.routes_by.items()}
        self.ranked = {
            i for i, route in core.routes_by.items() if any(core.path(route, d) for d in core.determinants)
        }
        """The streams that have levels by themselves."""
        sides = len(core.core.inputs)
        self.sketches = {(one.number, level): Frequent(room, sides) for one in kept for level in self.levels}
        self.others: dict[tuple[int, int], Frequent] = {}
        """What all cells together say, where there are several, as this one would have counted it (`preference.exchange`)."""
        self.heard = False
        """Whether that has brought new values."""
        self.spelt: dict[int, dict[int, tuple[int, ...]]] = {
            one.number: {} for one in kept if len(core.key_of(*next(iter(one.sides.items())))) > 1
        }
        """By attribute of several keys and value: the words it is made of."""
        self.known = dict(self.sketches)
        """What is planned by: own sketches, and of values that are not there what others say."""
        self._own = {
            i: [(one.number, one.sides[i]) for one in kept if i in one.sides] for i in core.routes_by
        }
        self._asked = {
            (stop.route, stop.at): (stop.partner, self.of[stop.route, stop.at]) for stop in self._lent()
        }
        self.reached: int | None = None
        """Event time, when it was counted last."""
        self.alive = 0.0
        """How long rows are alive, of late; 0: for ever."""

    def _lent(self) -> Iterator[Stop]:
        """Joins that look rows up with a value of a stream that has no levels, but is part of results that have: the first of a route."""
        for route in self.core.routes:
            seen = set()
            for stop in route:
                if (stop.route, stop.at) not in self.of or stop.partner in seen:
                    continue
                seen.add(stop.partner)
                if (
                    stop.partner != stop.route
                    and stop.partner in self.core.routes_by
                    and stop.partner not in self.ranked
                ):
                    yield stop

    @property
    def listens(self) -> dict[int, int]:
        """By route: the last stop at which partial results are counted."""
        found: dict[int, int] = {}
        for route, at in self._asked:
            found[route] = max(at, found.get(route, at))
        return found

    # ------------------------------------------------------------------ rows are counted

    def came(self, which: int, rows: Ints, *, learn: bool) -> None:
        """Rows of a stream come. `learn`: levels are active; before, nobody is asked, and stored rows will be when they are."""
        slots = rows[SLOTS + which]
        self._meet(which, slots)
        if learn and which in self.ranked and not self._sorted_first(which):
            self._sample(which, slots)

    def _meet(self, which: int, slots: Array) -> None:
        for number, index in self._own[which]:
            keys = self.core.stocks[which].indexes[index].key[slots]
            for level in self.levels:
                self.sketches[number, level].meet(which, keys)

    def _sorted_first(self, which: int) -> bool:
        """Whether rows of a stream are classified, as far as they can be by themselves, before anything else is done with them."""
        first = self.core.routes_by[which][0].assessed
        return bool(first) and all(d in first for d in self.core.determinants if d.inputs == {which})

    def _sample(self, which: int, slots: Ints) -> None:
        if len(slots):
            some = slots[:: -(-len(slots) // SAMPLE)]
            levels = self._levels_of(which, some)
            for level, _ in counted(levels[levels < BACK_BURNER]):
                self._count(which, level, some[levels == level], len(slots) / len(some))

    def found(self, stop: Stop, determinant: Determinant, rows: Ints) -> None:
        """A determinant turns out to be true of rows; those of one stream alone are counted as they come, or here."""
        if determinant.inputs != {stop.route} or (stop.at == 0 and self._sorted_first(stop.route)):
            self._count(stop.route, determinant.level, rows[SLOTS + stop.route])

    def lost(self, stop: Stop, level: int, rows: Ints, weight: float) -> None:
        """Rows that expired unsorted, and would have been of a level."""
        if stop.at == 0 and self._sorted_first(stop.route):
            self._count(stop.route, level, rows[SLOTS + stop.route], weight)

    def _count(self, which: int, level: int, slots: Ints, weight: float = 1.0) -> None:
        for number, index in self._own[which]:
            keys = self.core.stocks[which].indexes[index].key[slots]
            self.sketches[number, level].count(which, keys, weight)
            self._spell(which, number, index, slots, keys)

    def _spell(self, which: int, number: int, index: int, slots: Ints, keys: Ints) -> None:
        """Keep what new values of several keys are made of."""
        spelt = self.spelt.get(number)
        if spelt is None or not len(keys):
            return
        counted = np.concatenate([sketch.values for sketch in self.of_attribute(number)])
        values, first, _ = np.intersect1d(keys, counted, return_indices=True)  # no more than sketches hold
        new = [k for k, value in enumerate(values.tolist()) if value not in spelt]
        if new:
            parts = self.core.parts_of(which, index, slots[first[new]])
            spelt.update(
                zip(values[new].tolist(), zip(*(p.tolist() for p in parts), strict=True), strict=True)
            )
        if len(spelt) > 2 * len(counted):
            there = set(counted.tolist())
            self.spelt[number] = {value: of for value, of in spelt.items() if value in there}

    def of_attribute(self, number: int) -> list[Frequent]:
        """All that is counted of an attribute, here and by others."""
        return [sketch for of in (self.sketches, self.others) for (n, _), sketch in of.items() if n == number]

    def passes(self, stop: Stop, rows: Ints) -> None:
        """Partial results are about to be joined further."""
        asked = self._asked.get((stop.route, stop.at))
        if asked is None:
            return
        partner, number = asked
        known = np.flatnonzero(rows[LEVEL] < BACK_BURNER)
        if len(known):
            keys, level = self.core.probe_keys(stop, rows)[known], rows[LEVEL, known]
            for one, _ in counted(level):
                if (number, one) in self.sketches:
                    self.sketches[number, one].count(partner, keys[level == one])
            (index,) = (k for n, k in self._own[partner] if n == number)
            self._spell(partner, number, index, rows[SLOTS + partner, known], keys)

    def recalled(self, which: int, level: int, slots: Ints) -> None:
        """Stored rows that came before anybody asked turn out to be of a level."""
        self._count(which, level, slots)

    def may_meet(self) -> bool:
        """Whether stored rows of a stream that has levels have a value in common with stored rows of another."""
        for one in self.attributes:
            held = {i: self._held(i, index) for i, index in one.sides.items() if i in self.core.routes_by}
            for which in self.ranked & set(held):
                if any(np.isin(held[i], held[which]).any() for i in held if i != which):
                    return True
        return False

    def _held(self, which: int, index: int) -> Ints:
        stock = self.core.stocks[which]
        return stock.indexes[index].key[stock.stored()]

    def look_around(self) -> None:
        """Stored rows have been asked for their levels: whom may those that are significant meet?"""
        for which in self.core.routes_by if self.attributes else ():
            self._meet(which, self.core.stocks[which].stored())

    def _levels_of(self, which: int, slots: Ints) -> Ints:
        """Levels of rows, as far as they can be told of one alone."""
        rows = np.full((SLOTS + len(self.core.core.inputs), len(slots)), -1, np.int64)
        rows[TS], rows[SLOTS + which] = self.core.stocks[which].ts[slots], slots
        return self.core.levels_of(rows, frozenset({which}))

    def look(self) -> None:
        """Somebody is about to plan: put together what is known."""
        self.known = {
            key: sketch.extended(self.others[key]) if key in self.others and self._new(sketch) else sketch
            for key, sketch in self.sketches.items()
        }

    def _new(self, sketch: Frequent) -> bool:
        """Whether too little was counted here to go by that alone."""
        return float(sketch.total.sum()) < ENOUGH

    def unseen(self, number: int, level: int) -> float:
        """How probably the next row of a level has a value that is not known."""
        own, other = self.sketches[number, level], self.others.get((number, level))
        told = [own, other] if other is not None and self._new(own) else [own]
        return min((one.unseen for one in told if len(one)), default=1.0)

    def makers(self, which: int) -> set[frozenset[int]]:
        """Of what partial results are made that are counted for an input."""
        found = {frozenset({which})}
        for stop in self.core.routes_by.get(which, ()):
            route = self.core.routes_by[which]
            if any(
                stop.at in self.core.path(route, d) and d.inputs != {which} for d in self.core.determinants
            ):
                found.add(stop.bound)
        stops = {(stop.route, stop.at): stop for stop in self.core.stops}
        return found | {stops[at].bound for at, (partner, _) in self._asked.items() if partner == which}

    def occurs(self, number: int, level: int, which: int, target: int) -> Array:
        """By value of a sketch: whether rows of another input have it; if none has, as long as too few came to be surprised."""
        sketch = self.known[number, level]
        seen = sketch.met(target) + sketch.counted(target)
        awaited = sketch.met(which) * (sketch.came[target] / max(sketch.came[which], 1.0))
        there: Array = (seen > 0) | (awaited < SURPRISED)
        return there

    def grown(self) -> bool:
        """Whether there are new values since the last time."""
        new = self.heard or any(sketch.grown for sketch in self.sketches.values())
        self.heard = False
        for sketch in self.sketches.values():
            sketch.grown = False
        return new

    def promising(self, number: int, level: int, which: int) -> Floats:
        """By value of a sketch: rows a step of an input that have it and are not of the level or a better one (Def. 12)."""
        sketch = self.known[number, level]
        rows = sketch.met(which).copy()
        for one in self.levels[: self.levels.index(level) + 1]:
            other = self.known[number, one]
            _, mine, theirs = np.intersect1d(sketch.values, other.values, return_indices=True)
            rows[mine] -= other.counted(which)[theirs]
        all_ = sketch.came[which]
        rate = self.core.arrived_of_late.get(which, 0.0) / all_ if all_ > 0 else 0.0
        rows = np.maximum(rows, 0.0)
        return (rows + UNSEEN) * rate if rows.any() else rows

    def fade(self, arrived: Sequence[Ints]) -> None:
        """Before a step's rows are counted: forget as much as has left the windows since the last."""
        if not self.attributes or not arrived:
            return
        begin, end = (np.concatenate([rows[row] for rows in arrived]) for row in (TS, END))
        if not len(begin):
            return
        alive = np.flatnonzero(end < FOREVER)
        lasts = float((end[alive] - begin[alive]).mean()) if len(alive) else 0.0
        self.alive = lasts if not self.alive else self.alive + 0.1 * (lasts - self.alive)
        reached = int(begin.max())
        if self.reached is not None:
            gone = max(reached - self.reached, 0)
            left = exp(-gone / (LASTS * self.alive)) if self.alive > 0 else SLOWLY
            if left < 1:
                for sketch in self.sketches.values():
                    sketch.fade(left)
        self.reached = reached if self.reached is None else max(reached, self.reached)

    # ------------------------------------------------------------------ leaving and coming back

    def mark_strings(self, mark: Callable[[Array], None]) -> None:
        for one in self.attributes:
            texts = self.texts(one)
            if one.number in self.spelt:
                parts = np.array(list(self.spelt[one.number].values()), np.int64).reshape(-1, len(texts))
                mark(parts[:, texts].ravel().astype(np.int32))
            elif texts.all():
                for level in self.levels:
                    for of in (self.sketches, self.others):
                        if (one.number, level) in of:
                            mark(of[one.number, level].values.astype(np.int32))

    def texts(self, one: Attribute) -> Array:
        """Which of an attribute's keys are strings."""
        keys = self.core.key_of(*next(iter(one.sides.items())))
        return np.array([key.type is Type.STRING for key in keys], np.bool_)

    def save(self) -> dict[str, Any]:
        sketches, others = (
            [[number, level, sketch.save()] for (number, level), sketch in of.items()]
            for of in (self.sketches, self.others)
        )
        spelt = [
            [number, [[value, *parts] for value, parts in of.items()]] for number, of in self.spelt.items()
        ]
        told = {"reached": self.reached, "alive": self.alive, "heard": self.heard, "spelt": spelt}
        return {"sketches": sketches, "others": others, **told}

    def take_up(self, was: Mapping[str, Any]) -> None:
        for number, level, told in was["sketches"]:
            self.sketches[number, level].take_up(told)
        sides = len(self.core.core.inputs)
        self.others = {}
        for number, level, told in was["others"]:
            self.others[number, level] = Frequent(len(told["value"]), sides)
            self.others[number, level].take_up(told)
        self.reached, self.alive, self.heard = was["reached"], was["alive"], was["heard"]
        for number, of in was.get("spelt", ()):
            self.spelt[number] = {value: tuple(parts) for value, *parts in of}
