"""Queries that ride on one core: the same streams, windows, selections and joins, with ranks, lifespans and columns of their own.

Paper      Works 2013, §9.1, sharing among PP queries.
Invariant  a rider is told what it would be told alone, of the rows that are not dropped: its columns, its `__rank`.
Level      a row's is the best on the session's scale of all riders (`flow.significance`): levels of the riders are numbered by their places. What
           stands behind a rider's rows of no rank is none: that one wants every row. Equal criteria are one, at their best place.
Lifespan   the longest of all: what is too old for all is dropped. A result that is too old for a rider is not told to it, and counted.
Cost       rows are joined once, however many ride; a result is finished for each rider.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from penstock.data.batch import Batch, Ints
from penstock.flow.cores import Core, cores
from penstock.flow.significance import Place, place
from penstock.flow.stop import Stop
from penstock.flow.tallies import Tallies
from penstock.operators.contract import Operator
from penstock.plan.expressions import Column, Expression, Named, columns
from penstock.plan.fingerprint import describe, predicate_text
from penstock.plan.levels import Disjunct, Levels
from penstock.plan.nodes import Node, Project
from penstock.plan.roots import Root, top
from penstock.runtime.above import Said, together
from penstock.runtime.core import wanted_of
from penstock.state.lanes import BACK_BURNER, LEVEL

MOST = BACK_BURNER - 1
"""Levels there can be: those after are as the last."""
LATE = "a result, too late for this query"


def ridden(root: Root) -> tuple[str, Core] | None:
    """What a query could share with others, as text, and its core; None: something stands above it, or COVER counts its rows."""
    above, found = cores(root, "core")
    if above is not None or any(rank.cover is not None for rank in root.levels.ranks):
        return None
    (core,) = found
    criteria = " ".join(predicate_text(rank.criteria) for rank in root.levels.ranks)
    if "udf:" in f"{describe(root.node)} {criteria}":
        return None  # it may fail, and would stop the others
    return describe(_below(core)), core


def _below(core: Core) -> Node:
    """The part that selects and joins, under a query's own projections and filters."""
    return core.above[-1].inputs[0] if core.above else core.node


class Rider:
    """A query on a shared core."""

    def __init__(self, root: Root, weight: float) -> None:
        self.weight = weight
        self.tallies = Tallies()
        self.finish: Sequence[Operator] = ()
        """Its own projections and filters."""
        self._known = np.full(BACK_BURNER + 1, BACK_BURNER)
        """By level of a row: its own rank at that place, or none."""
        self._held: list[Batch] = []
        self.be(root)

    def be(self, root: Root) -> None:
        """Ask this from now on."""
        self.root = root
        found = ridden(root)
        assert found is not None
        self.core = found[1]

    def know(self, levels: Mapping[int, int]) -> None:
        self._known[:] = BACK_BURNER
        for level, own in levels.items():
            self._known[level] = own

    def hear(self, batch: Batch, now: int) -> int:
        """Results: how many there are of its own."""
        for one in self.finish:
            batch = one.step((batch,), now)
        for column in batch.columns:
            _ = column.values
        if len(batch):
            self._held.append(batch)
        return len(batch)

    def hear_late(self, batch: Batch, levels: Ints, ages: Ints, lag: int, now: int) -> None:
        """Results of rows that waited, with their levels and how late they are."""
        levels, lifespan = self._known[levels], self.root.levels.lifespan
        fresh = np.ones(len(batch), np.bool_) if lifespan is None else ages - lag <= lifespan
        if not fresh.all():
            for level, count in zip(*np.unique(levels[~fresh], return_counts=True), strict=True):
                key = int(level), LATE
                self.tallies.lost[key] = self.tallies.lost.get(key, 0) + int(count)
            if not fresh.any():
                return
            batch, levels, ages = batch.take(np.flatnonzero(fresh)), levels[fresh], ages[fresh]
        self.tallies.delivered(levels, ages)
        self.hear(batch, now)

    def released(self, now: int) -> Said:
        said, self._held = together(self._held), []
        return [] if said is None else [(said, now)]

    def dropped(self, rows: Ints) -> Ints:
        """Rows with the ranks that they have for it."""
        own = rows.copy()
        own[LEVEL] = self.ranks(rows[LEVEL])
        return own

    def ranks(self, levels: Ints) -> Ints:
        """What levels of rows are for it."""
        found: Ints = self._known[levels]
        return found


class Riders(Tallies):
    """All that ride on a core; what becomes of rows is counted for each."""

    def __init__(self, every: Sequence[Rider], setting: str) -> None:
        super().__init__()
        self.every = list(every)
        self.setting = setting
        self.places: dict[int, Place] = {}
        """Where levels stand, and rows of none."""
        self.disjuncts: tuple[Disjunct, ...] = ()
        """Criteria of all, by the levels they are for all."""

    def expired(self, core: int, stop: Stop, rows: Ints) -> None:
        for one in self.every:
            one.tallies.expired(core, stop, one.dropped(rows))

    def shed(self, rows: Ints) -> None:
        for one in self.every:
            one.tallies.shed(one.dropped(rows))

    def promised(self, levels: Ints) -> None:
        for one in self.every:
            one.tallies.promised(one.ranks(levels))

    def hear(self, batch: Batch, now: int) -> None:
        """Results in time."""
        for one in self.every:
            one.tallies.in_time += one.hear(batch, now)

    def combined(self, needed: frozenset[int] | None = None) -> Root:
        """The plan of them all: the core, with what anybody reads of it (`needed`: what is kept), and the levels of all."""
        first = self.every[0].core
        below = _below(first)
        asked = [(one, one.core.disjuncts(one.root.levels.ranks, one.root.levels.over)) for one in self.every]
        if needed is None:
            read = [c.index for _, own in asked for d in own for c in columns(d.criteria)]
            needed = frozenset(read).union(*(wanted_of(one.core) for one in self.every)) or frozenset({0})
        schema = below.schema
        node = Project(
            below, tuple(Named(Column(k, schema[k].type, schema[k].name), f"c{k}") for k in sorted(needed))
        )
        back = min(place(self.setting, one.weight, BACK_BURNER) for one in self.every)
        best: dict[str, tuple[Place, Expression]] = {}
        own_places: list[tuple[Rider, int, Place]] = []
        for one, disjuncts in asked:
            for d in disjuncts:
                at = place(self.setting, one.weight, d.level)
                if at >= back:
                    continue
                own_places.append((one, d.level, at))
                text = predicate_text(d.criteria)
                if text not in best or at < best[text][0]:
                    best[text] = at, d.criteria
        order = sorted({at for at, _ in best.values()} | {at for _, _, at in own_places})
        number = {at: min(n + 1, MOST) for n, at in enumerate(order)}
        self.disjuncts = tuple(Disjunct(number[at], criteria) for at, criteria in best.values())
        self.places = {BACK_BURNER: back}
        for at, level in number.items():
            self.places.setdefault(level, at)
        for one in self.every:
            known: dict[int, int] = {}
            for who, level, at in own_places:
                if who is one:
                    known[number[at]] = min(level, known.get(number[at], level))
            one.know(known)
        lifespans = [one.root.levels.lifespan for one in self.every]
        longest = None if None in lifespans else max(one for one in lifespans if one is not None)
        return top(node, Levels(longest, (), schema))

    def save(self) -> dict[str, Any]:
        return {"riders": [one.tallies.save() for one in self.every]}

    def take_up(self, was: Mapping[str, Any]) -> None:
        for one, told in zip(self.every, was["riders"], strict=True):
            one.tallies.take_up(told)
