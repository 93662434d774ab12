"""The figures there are of many queries."""

from __future__ import annotations

from penstock_lab.figures.cacq import lineage, niagara, queries, routing, sources, tickets, udf
from penstock_lab.figures.cacq.chart import Chart

CHARTS: dict[str, Chart] = {
    chart.name: chart
    for chart in (
        lineage.CHART,
        queries.CHART,
        sources.CHART,
        routing.CHART,
        *tickets.CHARTS,
        niagara.CHART,
        udf.CHART,
    )
}
