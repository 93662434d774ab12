"""The verdict of a figure of samples, in the form of all figures."""

from __future__ import annotations

from typing import Any

from penstock_lab.figures.cacq.chart import Chart, Data
from penstock_lab.figures.verdict import bars_said, paper_said, points_json


def judge(chart: Chart, data: Data) -> dict[str, Any]:
    """The JSON object of one figure."""
    bars, paper = chart.bars(data), chart.paper(data)
    return {
        "name": chart.name,
        "claim": f"{chart.title}: {chart.claim}",
        "measured": {
            "bars": points_json(bars),
            "aims": {},
            "paper": points_json(paper),
            "last": {s: _last(data, s) for s in data.series},
        },
        "reference": {"measured_against": chart.against, "paper": f"{chart.source}: {chart.says}"},
        "holds": all(bar.holds for bar in bars),
        "verdict": f"{'; '.join(p for p in (chart.lead(data), bars_said(bars), paper_said(paper, '')) if p)}.",
    }


def _last(data: Data, series: str) -> dict[str, float | None]:
    last = data.last(series)
    more = {name: None if v is None else round(v, 4) for name, v in last.more.items()}
    return {"x": last.x, "value": float(f"{last.value:.6g}"), **more}
