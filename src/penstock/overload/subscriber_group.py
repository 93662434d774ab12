"""Queries that ride on one core: the same streams, windows, selections and joins, with ranks, lifespans and columns of their own.

Paper      Works 2013, §9.1, sharing among PP queries.
Level      a row's is the best on the session's scale of all riders (`overload.policy.rank_scale`): levels of the riders are numbered by their places. What
           stands behind a rider's rows of no rank is none: that one wants every row. Equal criteria are one, at their best place. Of one
           rider alone levels are its ranks.
Lifespan   the longest of all: what is too old for all is dropped.
Cost       rows are joined once, however many ride; a result is finished for each rider (`overload.subscriber`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.overload.policy.rank_scale import Place, place
from penstock.overload.queued_operator import Stop
from penstock.overload.subscriber import Rider, times
from penstock.plan.catalog import Function
from penstock.plan.expressions import Expression, columns
from penstock.plan.fingerprint import describe, functions_in, predicate_text
from penstock.plan.nodes import Node, Relation, Reliable
from penstock.plan.rank_levels import Disjunct
from penstock.plan.traversal import every
from penstock.state.priority_queue import BACK_BURNER
from penstock.types.batch import Ints

MOST = BACK_BURNER - 1
"""Levels there can be: those after are as the last."""


def ridden(one: Rider, functions: Mapping[str, Function]) -> tuple[str, ...] | None:
    """What a query could share with others, as text: its core, and which tables stand above; None: it has several cores, or what stands
    above hangs on rows that are dropped."""
    if len(one.cores) > 1:
        return None
    if one.plan is not None and any(isinstance(n, Reliable) for n in every(one.plan.node)):
        return None
    (core,) = one.cores
    below: Node = core.above[-1].inputs[0] if core.above else core.node
    text = describe(below)
    return (text, *map(str, functions_in(text, functions)), *_tables_above(one))


def _tables_above(one: Rider) -> list[str]:
    """Tables that the plan above the core reads: all that ride are told what becomes of the same ones."""
    above = () if one.plan is None else every(one.plan.node)
    return sorted({f"table above: {n.table.name}" for n in above if isinstance(n, Relation)})


def may_come_later(one: Rider) -> bool:
    """Whether a query may ride on a core that runs already: rows tell when they came, nothing fails on those that came before, and no table above
    has been told already."""
    if _tables_above(one):
        return False
    (core,) = one.cores
    below = core.above[-1].inputs[0] if core.above else core.node
    return bool(times(core)) and "udf:" not in describe(below)


class Riders:
    """All that ride on a core, in the order in which they came. `setting`: what ranks of queries are worth beside each other."""

    def __init__(self, every: Iterable[Rider], setting: str) -> None:
        self.every = list(every)
        self.setting = setting
        self.places: dict[int, Place] = {}
        """Where levels stand, and rows of none."""
        self.disjuncts: list[tuple[Disjunct, ...]] = []
        """By core: criteria of all, by the levels they are for all."""
        self.lifespan: int | None = None
        self.levels: dict[tuple[int, int], int] = {}
        """By rider's number and rank: the level that it is for all."""

    @property
    def riding(self) -> list[Rider]:
        """Those that have met no error."""
        return [one for one in self.every if one.failed is None]

    def wanted(self, core: int, since: int) -> frozenset[int]:
        """Columns of a core that anybody reads of its results."""
        read = frozenset[int]().union(*(one.wanted[core] for one in self.every))
        late = [times(one.cores[core]) for one in self.every if one.since > since]
        return (read.union(*late)) or frozenset({0})

    def read(self, core: int) -> frozenset[int]:
        """Columns that anybody's criteria read."""
        return frozenset(
            c.index for one in self.every for d in one.disjuncts[core] for c in columns(d.criteria)
        )

    # ------------------------------------------------------------------ one scale

    def combine(self) -> None:
        """Number levels anew: somebody came, is gone, asks or weighs something else."""
        riding = self.riding
        lifespans = [one.root.levels.lifespan for one in riding]
        self.lifespan = (
            None if None in lifespans else max((one for one in lifespans if one is not None), default=None)
        )
        for one in self.every:
            one.alone = len(self.every) == 1
        if len(riding) == 1:
            self._be_one(*riding)
        else:
            self._be_many(riding)

    def _be_one(self, one: Rider) -> None:
        self.disjuncts = list(one.disjuncts)
        levels = {rank.level for rank in one.root.levels.ranks}
        self.places = {level: place(self.setting, one.weight, level) for level in (*levels, BACK_BURNER)}
        self.levels = {(one.number, level): level for level in levels}
        one.know(None)

    def _be_many(self, riding: list[Rider]) -> None:
        back = min((place(self.setting, one.weight, BACK_BURNER) for one in riding), default=(0.0, 0.0))
        best: dict[str, tuple[Place, Expression]] = {}
        own: dict[tuple[int, int], Place] = {}
        for one in riding:
            for d in one.disjuncts[0]:
                at = place(self.setting, one.weight, d.level)
                if at >= back:
                    continue
                own[one.number, d.level] = at
                text = predicate_text(d.criteria)
                if text not in best or at < best[text][0]:
                    best[text] = at, d.criteria
        number = {at: min(n + 1, MOST) for n, at in enumerate(sorted(set(own.values())))}
        self.disjuncts = [tuple(Disjunct(number[at], criteria) for at, criteria in best.values())]
        self.places = {BACK_BURNER: back}
        for at, level in number.items():
            self.places.setdefault(level, at)
        self.levels = {who: number[at] for who, at in own.items()}
        for one in riding:
            known: dict[int, int] = {}
            for (who, rank), level in sorted(self.levels.items()):
                if who == one.number:
                    known.setdefault(level, rank)
            one.know(known)

    # ------------------------------------------------------------------ what becomes of rows

    def promised(self, levels: Ints) -> None:
        for one in self.riding:
            one.tallies.promised(one.ranks(levels))

    def suppressed(self, core: int, stop: Stop, rows: Ints) -> None:
        for one in self.riding:
            one.suppressed(core, stop, rows)

    def spare(self, rows: int) -> None:
        """The same in time, of all."""
        for one in self.riding:
            one.tallies.spare(rows)

    def expired(self, core: int, stop: Stop, rows: Ints) -> None:
        for one in self.riding:
            one.expired(core, stop, rows)

    def shed(self, core: int, stop: Stop, rows: Ints) -> None:
        for one in self.riding:
            one.shed(core, stop, rows)

    def lay_aside(self, core: int, stop: Stop, rows: Ints, reason: str, now: int) -> None:
        """Keep rows that are dropped, for each."""
        for one in self.riding:
            one.lay_aside(core, stop, rows, reason, now)

    def lay_late(self, core: int, stop: Stop, rows: Ints, now: int) -> None:
        """Keep results that are too late for some."""
        for one in self.riding:
            one.lay_late(core, stop, rows, now)
