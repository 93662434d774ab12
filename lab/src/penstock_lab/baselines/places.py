"""Fixed places for criteria, to compare promotion with: first or last everywhere, or nowhere."""

from __future__ import annotations

from penstock.overload.policy.allocation import Moment, place
from penstock.overload.policy.promote import Promote


class Fixed(Promote):
    """All levels active, every determinant at the same end of its path for ever."""

    end = 0

    def adapt(self, moment: Moment) -> None:
        if self._begun:
            return
        self._begun = True
        for core in self.scheduler.cores:
            for route in core.routes:
                paths = {one: core.path(route, one) for one in core.determinants}
                place(core, route, {one: path[self.end] for one, path in paths.items() if path})
        self.scheduler.active = frozenset(self.levels)
        self.scheduler.rearrange()


class First(Fixed):
    """As soon as can be."""


class Last(Fixed):
    """As late as can be."""

    end = -1


class Never(Promote):
    """Nothing is ever asked: rows go as they come."""

    def adapt(self, moment: Moment) -> None:
        pass
