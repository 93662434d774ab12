"""Whether another plan has become better for a query that runs (Golab & Özsu 2005, §5.4.2, as data change).

Now and then, counted in rows, the plans that rules give for what was measured are compared with the one that runs.
Cost: some milliseconds a look; looks become rarer while nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from penstock.engine.adaptive.statistics import Measured
from penstock.operators.pipeline import Pipeline
from penstock.plan.cost import estimate
from penstock.plan.query_root import Root
from penstock.plan.statistics import Statistics

Replan = Callable[[Statistics], Sequence[Root]]
"""Gives plans of a query that are good for what is known of its data."""
FIRST_LOOK, LAST_LOOK = 1 << 12, 1 << 18
"""Rows of a query's streams between looks at its plan: few at first, then twice as many each time."""
SAVES = 0.8
"""A plan takes another's place if it is expected to cost so much of it."""


class Replanning:
    """What is measured for one query, and when to look again."""

    def __init__(self, replan: Replan, root: Root) -> None:
        self._replan = replan
        self.measured = Measured(root)
        self._patience = FIRST_LOOK

    @property
    def due(self) -> bool:
        return self.measured.rows >= self._patience

    def better(self, root: Root, pipeline: Pipeline, tables: Mapping[str, int], now: int) -> list[Root]:
        """Plans that are expected to save enough, the cheapest first; counting begins anew."""
        known = self.measured.statistics(pipeline, tables, now)
        self.measured.begin()
        self._patience = min(2 * self._patience, LAST_LOOK)
        limit = SAVES * estimate(root.node, known).total
        costs = [(estimate(one.node, known).total, one) for one in self._replan(known)]
        return [one for cost, one in sorted(costs, key=lambda pair: pair[0]) if cost < limit]

    def moved(self) -> None:
        """Another plan runs now."""
        self._patience = FIRST_LOOK
