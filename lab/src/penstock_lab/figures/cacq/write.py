"""A figure of samples on disk: its numbers as CSV, its lines as PNG."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from penstock_lab.figures.cacq.chart import Chart, Data, Sample

FEW = 60
"""Places on a line that are marked one by one."""


def write(chart: Chart, data: Data, folder: Path) -> None:
    """`NAME.csv` and `NAME.png`."""
    folder.mkdir(parents=True, exist_ok=True)
    more = list(dict.fromkeys(name for s in data.samples for name in s.more))
    with (folder / f"{chart.name}.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["series", chart.across, chart.panels[0][0], "least", "most", "turns", *more])
        rows.writerows(_row(sample, more) for sample in data.samples)
    _draw(chart, data, folder / f"{chart.name}.png")


def _row(sample: Sample, more: list[str]) -> list[object]:
    shown = (f"{v:.6g}" for v in (sample.value, min(sample.turns), max(sample.turns)))
    rest = (sample.more.get(name) for name in more)
    return [
        sample.series,
        f"{sample.x:.6g}",
        *shown,
        len(sample.turns),
        *("" if v is None else f"{v:.6g}" for v in rest),
    ]


def _draw(chart: Chart, data: Data, path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Sheet

    sheet = Sheet(figsize=(6 * len(chart.panels), 4.2), layout="constrained")
    FigureCanvasAgg(sheet)
    sheet.suptitle(f"{chart.name}: {chart.title}")
    for number, ((column, label), axes) in enumerate(
        zip(chart.panels, sheet.subplots(1, len(chart.panels), squeeze=False)[0], strict=True)
    ):
        if chart.bare:
            _columns(axes, data)
            axes.set(xlabel=label)
        else:
            _lines(axes, data, "" if number == 0 else column)
            axes.set(xscale=chart.scales[0], yscale=chart.scales[1], xlabel=chart.across)
            axes.set(ylabel=label)
            if number == 0:
                axes.legend(fontsize="small")
        axes.grid(visible=True, which="major", alpha=0.3)
    sheet.savefig(path, dpi=110)


def _lines(axes: Any, data: Data, column: str) -> None:
    for series in data.series:
        line = data.line(series)
        values = [s.more.get(column) if column else s.value for s in line]
        known = [(s.x, v) for s, v in zip(line, values, strict=True) if v is not None]
        axes.plot(
            [x for x, _ in known],
            [v for _, v in known],
            marker="." if len(known) <= FEW else "",
            label=series,
        )


def _columns(axes: Any, data: Data) -> None:
    axes.barh(data.series, [data.last(series).value for series in data.series])
    axes.invert_yaxis()
