"""The figures there are of proactive promotion."""

from __future__ import annotations

from penstock.surfaces.figures.cacq.chart import Chart
from penstock.surfaces.figures.pp import bursts, overhead, sweeps

CHARTS: dict[str, Chart] = {chart.name: chart for chart in (*bursts.CHARTS, *sweeps.CHARTS, overhead.CHART)}
