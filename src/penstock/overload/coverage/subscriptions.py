"""What COVER promises the queries on a core: a count for each rank that has it, kept as long as it is about the same."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import PlanError
from penstock.overload.coverage.coverage import Coverage
from penstock.overload.coverage.table_criteria import WithTables
from penstock.overload.pending_input import Slice
from penstock.overload.spj_block import CoreRun, Workshop
from penstock.overload.spj_plan import Covered
from penstock.overload.subscriber import Rider
from penstock.overload.subscriber_group import Riders
from penstock.state.priority_queue import BACK_BURNER

Promise = tuple[int, Covered]
"""A rider's number, and what its rank is to cover."""


class Covering:
    """By promise: with which core, and how it stands."""

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop
        self.kept: dict[Promise, tuple[int, Coverage]] = {}
        self._looks: dict[Promise, WithTables] = {}

    def keep(self, riders: Riders, cores: Sequence[CoreRun], now: int | None) -> bool:
        """Keep to what these were promised, from now on; whether that is something else. `now`: the clock, if rows have come."""
        before, self.kept = self.kept, {}
        for one in riders.every:
            for n, about in promised(one):
                promise = one.number, about
                self.kept[promise] = before.get(promise) or (n, self._new(one, about, cores[n], now))
                coverage = self.kept[promise][1]
                coverage.level = riders.levels.get((one.number, about.level), BACK_BURNER)
                coverage.lifespan = one.root.levels.lifespan
        for number, about in before.keys() - self.kept.keys():
            self._looks.pop((number, about), None)
            if not any(n == number and a.level == about.level for n, a in self.kept):
                self._workshop.arena.drop(f"rider{number}.cover{about.level}.")
        return before.keys() != self.kept.keys()

    def _new(self, one: Rider, about: Covered, core: CoreRun, now: int | None) -> Coverage:
        site = self._workshop.site(f"{one.name}cover{about.level}")
        self._workshop.arena.drop(f"{site.name}.")
        self._looks.pop((one.number, about), None)
        if about.tables:
            look = self._looks[one.number, about] = WithTables(self._workshop, site.name, core.core, about)
            if now is not None:
                look.begin(core, now)
        since = one.since if one.since > self._workshop.since else None
        return Coverage(site, about, self._workshop.functions, since)

    def look(self, part: Slice) -> None:
        """Look up in tables which rows that come are spoken of."""
        for promise, (n, coverage) in self.kept.items():
            if promise in self._looks:
                batch = part.rows[n][coverage.about.which]
                coverage.of = self._looks[promise].of(batch, part.tables, part.now)

    def of(self, one: Rider) -> list[Coverage]:
        return [coverage for (number, _), (_, coverage) in self.kept.items() if number == one.number]


def promised(one: Rider) -> Sequence[tuple[int, Covered]]:
    """What COVER says in a query, each with the core that it is about."""
    levels = one.root.levels
    found: dict[int, tuple[int, Covered]] = {}
    for n, core in enumerate(one.cores):
        for about in core.covered(levels.ranks, levels.over):
            found.setdefault(about.level, (n, about))
    for rank in levels.ranks:
        if rank.cover is not None and rank.level not in found:
            raise PlanError(
                f"what COVER of rank {rank.level} speaks of is not a stream of the plan",
                hint="name the stream in the FROM of the query itself",
            )
    return list(found.values())
