"""The figures there are of preferential results and of PR-Join."""

from __future__ import annotations

from penstock_lab.figures.cacq.chart import Chart
from penstock_lab.figures.pr import joins, overhead, preferred, search

PREFERRED, JOINED = overhead.CHARTS

CHARTS: dict[str, Chart] = {
    chart.name: chart for chart in (*preferred.CHARTS, search.CHART, PREFERRED, *joins.CHARTS, JOINED)
}
