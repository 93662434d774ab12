"""What rows come to on their way: of those that came to a stop of late, how many left it, by group and level.

Paper      Works 2013 (TP-Ag), §5.3.3: P(op, op_o, lvl, g), the product of sel(op, lvl, g) over the operators still ahead.
Invariant  of rows that have been worked on; a row's group and level are those that the inputs it is made of tell.
State      per stop a table [levels × levels] of rows that came by their level, and of what left by the level it then had; the same
           for every group whose key is known there. No more than `NUMBERS` a stop: groups that were not seen for long are forgotten.
Cost       O(rows + groups × levels²) a block, whole arrays at a time.

A join may make a row's level better, so that a yield is a matrix: of one row of a level, how many leave with each. What is known of a group
is little, and of its levels less: a level is taken to differ from the rest of its group as it did in all groups, until the group's own
rows say otherwise. What is expected counts as one row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.operators.contract import Site
from penstock.operators.sampled_aggregate.inference import Doubles
from penstock.overload.operator_queues import Routes
from penstock.overload.queued_operator import Stop
from penstock.plan.expressions import Expression, columns
from penstock.state import key_words
from penstock.state.arena import Slab
from penstock.state.payload import Frame
from penstock.state.priority_queue import BACK_BURNER, NEXT, ORDER
from penstock.state.value_ids import Ids, Registry
from penstock.types.batch import Array, Column, Ints

NUMBERS = 1 << 16
"""For the groups of a stop, at the most."""
LATE, LATE_GROUP = 1 << 12, 1 << 6
"""Rows of a level, and of a group, after which what came before counts half."""
FEW = 8
"""Rows of a group that are compared with those before. If they came to something else, those before count no more."""


class Yields:
    """`keys`: of the groups, over the columns of the core's inputs side by side. `routes`: of the core."""

    def __init__(self, site: Site, routes: Routes, keys: Sequence[Expression]) -> None:
        self._routes = routes
        self._keys = [site.evaluator.compile(key) for key in keys]
        self._types = [key.type for key in keys]
        self._read = frozenset(c.index for key in keys for c in columns(key))
        self._inputs = frozenset(routes.input_of(i) for i in self._read)
        self.levels: Ints = np.array([*sorted({d.level for d in routes.determinants}), BACK_BURNER])
        """Best first; levels are told by their places here."""
        several = len(self.levels)
        stops = routes.stops
        self._numbers = {(stop.route, stop.at): n for n, stop in enumerate(stops)}
        arena, name = site.arena, site.name
        self._came = arena.array(f"{name}.came", np.float64, (len(stops), several), 0.0)
        self._left = arena.array(f"{name}.left", np.float64, (len(stops), several, several), 0.0)
        self._due = arena.array(f"{name}.due", np.float64, (len(stops), several), 0.0)
        """What left, had every row that came been as its group was then."""
        self._most = max(64, NUMBERS // several**2)
        self._groups = Registry(arena, f"{name}.key", key_words.width(self._types))
        self._frame = Frame(arena, f"{name}.keys", self._types)
        none = np.zeros((several, several))
        known = [n for n, stop in enumerate(stops) if self.knows(stop)]
        fields = {f"{part}{n}": (np.float64, none[0]) for n in known for part in ("came", "now_came")}
        fields |= {f"{part}{n}": (np.float64, none) for n in known for part in ("left", "now_left")}
        self._counted = list(fields)
        self._slab = Slab(arena, f"{name}.group", seen=(np.int64, -1), **fields)
        self._here: Ids = np.empty(0, np.int32)
        """Groups of the rows that are worked on."""
        self._now: tuple[Ints, Ints, Ids] = (self.levels[:0], self.levels[:0], self._here)
        """Of these rows: in which order they came, level and group."""
        self._clock = arena.array(f"{name}.clock", np.int64, 1, 0)

    def knows(self, stop: Stop) -> bool:
        """Whether the group of a row before a stop can be told."""
        return bool(self._keys) and self._inputs <= stop.bound

    def keys(self, rows: Ints) -> tuple[Column, ...]:
        """Of rows whose group can be told."""
        found = self._routes.columns(rows, self._read)
        made = [key(found, rows.shape[1]) for key in self._keys]
        return tuple(Column(c.values, c.valid) for c in made)

    def level(self, rows: Ints, inputs: frozenset[int]) -> Ints:
        """Places of the levels that these inputs tell of rows."""
        return np.searchsorted(self.levels, self._routes.levels_of(rows, inputs))

    def ids(self, keys: tuple[Column, ...], n: int) -> Ids:
        """The numbers of groups, by row."""
        ids, new = self._groups.ids_and_new(key_words.rows(keys, self._types, n))
        for held in (self._frame, self._slab):
            held.fit(self._groups.capacity)
        self._frame.put(ids[new], [c.take(new) for c in keys])
        self._clock[0] += 1
        self._slab["seen"][ids] = self._clock[0]
        return ids

    # ------------------------------------------------------------------ what is seen

    def come(self, stop: Stop, rows: Ints) -> None:
        """Rows are worked on."""
        n = rows.shape[1]
        number, level = self._number(stop), self.level(rows, stop.bound)
        new = rows[NEXT] == 0  # others have come before, and meet the rest of their partners
        self._came[number] += np.bincount(level[new], minlength=len(self.levels))
        self._here = ids = np.empty(0, np.int32)
        if self.knows(stop):
            ids = self.ids(self.keys(rows), n)
            self._here, which = np.unique(ids, return_inverse=True)
            due = self._of_group(stop, *self._late(number, self._here))[which]
            self._due[number] += np.bincount(level[new], due[new], len(self.levels))
            _add(self._slab[f"now_came{number}"], ids[new], level[new])
        self._now = rows[ORDER].copy(), level, ids

    def leave(self, stop: Stop, rows: Ints) -> None:
        """What became of them."""
        number, several = self._number(stop), len(self.levels)
        if rows.shape[1]:
            before, ids = self._parents(stop, rows)
            after = before
            more = stop.bound if stop.target is None else stop.bound | {stop.target}
            if any(d.inputs <= more and not d.inputs <= stop.bound for d in self._routes.determinants):
                after = self.level(rows, more)
            _add(self._left[number], before, after)
            if self.knows(stop):
                _add(self._slab[f"now_left{number}"].reshape(-1, several**2), ids, before * several + after)
        for level in np.flatnonzero(self._came[number] > LATE).tolist():
            for part in (self._came, self._due, self._left):
                part[number, level] /= 2
        if self.knows(stop):
            self._settle(stop, number)
        if len(self._groups) > self._most:
            self._forget()

    def _parents(self, stop: Stop, rows: Ints) -> tuple[Ints, Ids]:
        """Level and group that rows had before."""
        order, level, ids = self._now
        sorter = np.argsort(order, kind="stable")
        order = order[sorter]
        if (np.diff(order) == 0).any():  # several that one row drives, which may differ in what they have met
            return self.level(rows, stop.bound), self.ids(self.keys(rows), rows.shape[1]) if self.knows(
                stop
            ) else ids
        came = sorter[np.searchsorted(order, rows[ORDER])]
        return level[came], ids[came] if self.knows(stop) else ids

    def _settle(self, stop: Stop, number: int) -> None:
        """Rows of late, if there are some, join those before; or they take their place, if they came to something else."""
        came, left, now_came, now_left = self._tables(number)
        ids = self._here[now_came[self._here].sum(axis=1) >= FEW]
        if not len(ids):
            return
        due = (now_came[ids] * self._expected(stop, came[ids], left[ids]).sum(axis=2)).sum(axis=1)
        made, rows = now_left[ids].sum(axis=(1, 2)), now_came[ids].sum(axis=1)
        chance = due * (1.0 - due / rows) if stop.target is None else due
        other = ids[(made - due) ** 2 > 4.0 * chance + 1.0]
        came[other], left[other] = 0.0, 0.0
        came[ids] += now_came[ids]
        left[ids] += now_left[ids]
        now_came[ids], now_left[ids] = 0.0, 0.0
        many = came[ids].sum(axis=1)
        share = np.where(many > LATE_GROUP, LATE_GROUP / 2 / many, 1.0)
        came[ids] *= share[:, None]
        left[ids] *= share[:, None, None]

    def _tables(self, number: int) -> list[Doubles]:
        """Of a stop by group: what came and left before, and of late."""
        return [self._slab[f"{part}{number}"] for part in ("came", "left", "now_came", "now_left")]

    def _late(self, number: int, ids: Ids) -> tuple[Doubles, Doubles]:
        """What came and left of groups, before and of late together."""
        came, left, now_came, now_left = (part[ids] for part in self._tables(number))
        return came + now_came, left + now_left

    def _forget(self) -> None:
        """Groups that were not seen for long."""
        seen = self._slab["seen"]
        there = np.flatnonzero(seen >= 0)
        oldest = np.argsort(seen[there], kind="stable")[: len(there) - self._most // 2]
        gone = there[oldest].astype(np.int32)
        self._groups.release(gone)
        seen[gone] = -1
        for field in self._counted:
            self._slab[field][gone] = 0.0

    # ------------------------------------------------------------------ what is expected

    def ahead(self, stop: Stop, level: Ints, ids: Ids | None) -> tuple[Doubles, Doubles]:
        """[rows × levels]: how many results rows before a stop make, of each level; and by row of how many rows that is known.

        `level`: places of the rows' levels there; `ids`: their groups, if they are known.
        """
        if ids is not None:
            ids, which = np.unique(ids, return_inverse=True)
            known = self._late(self._number(stop), ids)[0].sum(axis=1)
        else:
            which = np.zeros(len(level), np.intp)
            known = self._came[self._number(stop)].sum(keepdims=True)
        made: Doubles = np.eye(len(self.levels))[None]
        for one in self._routes.routes_by[stop.route][stop.at :]:
            made = made @ self._rates(one, ids)
        return made[which, level], known[which]

    def _rates(self, stop: Stop, ids: Ids | None) -> Doubles:
        """[groups × levels × levels]: how many leave of a row that comes; without groups, of all together."""
        if ids is None:
            return self._of_level(stop)[None]
        return self._expected(stop, *self._late(self._number(stop), ids))

    def _of_all(self, stop: Stop) -> float:
        came, left = (part[self._number(stop)].sum() for part in (self._came, self._left))
        return float(left / came) if came >= 1.0 else 1.0

    def _of_level(self, stop: Stop) -> Doubles:
        """Of all groups together. Rows of a level that was not seen are as all are, and stay of their level."""
        number = self._number(stop)
        came, left = self._came[number], self._left[number]
        found: Doubles = (left + self._of_all(stop) * np.eye(len(came))) / (came + 1.0)[:, None]
        return found

    def _of_group(self, stop: Stop, came: Doubles, left: Doubles) -> Doubles:
        """By group, of all its levels together."""
        found: Doubles = (left.sum(axis=(1, 2)) + self._of_all(stop)) / (came.sum(axis=1) + 1.0)
        return found

    def _expected(self, stop: Stop, came: Doubles, left: Doubles) -> Doubles:
        """Of groups of which so many came and left."""
        number = self._number(stop)
        shares = self._left[number] + np.eye(len(self.levels))
        differ = (self._left[number].sum(axis=1) + 1.0) / (self._due[number] + 1.0)
        level = shares / shares.sum(axis=1, keepdims=True) * differ[:, None]
        own = self._of_group(stop, came, left)
        found: Doubles = (left + own[:, None, None] * level) / (came + 1.0)[:, :, None]
        if stop.target is None:  # a test makes no more of a row
            found /= np.maximum(found.sum(axis=2, keepdims=True), 1.0)
        return found

    def _number(self, stop: Stop) -> int:
        return self._numbers[stop.route, stop.at]


def _add(table: Array, rows: Array, columns: Array) -> None:
    """One more at each of these places."""
    wide = table.shape[1]
    places, counts = np.unique(rows.astype(np.int64) * wide + columns, return_counts=True)
    table.reshape(-1)[places] += counts
