"""The figures there are of proactive promotion."""

from __future__ import annotations

from penstock_lab.figures.cacq.chart import Chart
from penstock_lab.figures.pp import bursts, costly, overhead, sweeps
from penstock_lab.figures.pp.overload import VIRTUAL, WALL
from penstock_lab.figures.tp.clock import by_the_wall


def charts(clock: str = "virtual") -> dict[str, Chart]:
    """`clock`: "wall" has budgets that are times."""
    by = WALL if clock == "wall" else VIRTUAL
    made = (*bursts.charts(by), *sweeps.charts(by), overhead.chart(by))
    units = () if by.wall else (costly.CHART,)
    return {one.name: by_the_wall(one) if by.wall else one for one in (*made, *units)}
