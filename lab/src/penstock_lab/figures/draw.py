"""A figure on disk: its numbers as CSV, its lines as PNG."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

from penstock_lab.figures.catalogue import Figure
from penstock_lab.figures.data import BATCHED, Data
from penstock_lab.figures.runner import Measure

COLUMNS = (
    "series",
    "query",
    "expiry",
    "eager",
    "partitions",
    "window",
    "cpu_ms_per_1000_tuples",
    "least",
    "most",
    "reading_ms_per_1000_tuples",
    "visits_per_tuple",
    "results_per_tuple",
    "premature_share",
    "state_bytes",
    "answer_bytes",
    "tuples_timed",
)

Panel = tuple[str, Callable[[Measure], float]]
TIME: tuple[Panel, Panel] = (
    ("CPU ms per 1,000 tuples", lambda m: m.median),
    ("tuple visits per tuple", lambda m: m.visits_per_tuple),
)
SPACE: tuple[Panel, Panel] = (
    ("operator state, KB", lambda m: m.state_bytes / 1e3),
    ("operator state and kept answer, KB", lambda m: (m.state_bytes + m.answer_bytes) / 1e3),
)


def check(folder: Path) -> None:
    """Before anything is measured: is there a place for it?"""
    folder.mkdir(parents=True, exist_ok=True)


def write(figure: Figure, data: Data, folder: Path) -> None:
    """`NAME.csv` and `NAME.png`."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{figure.name}.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(COLUMNS)
        rows.writerows(_row(measure) for measure in data.measures)
    _draw(figure, data, folder / f"{figure.name}.png")


def _row(m: Measure) -> list[object]:
    s = m.series
    eager = "once a step" if s.eager is None else s.eager
    partitions = "" if s.partitions is None else s.partitions
    times = (m.median, min(m.cpu), max(m.cpu), sum(m.reading) / len(m.reading))
    shares = (m.visits_per_tuple, m.results_per_tuple, m.premature)
    return [
        s.name,
        s.query,
        s.expiry,
        eager,
        partitions,
        m.window,
        *(f"{v:.5g}" for v in (*times, *shares)),
        m.state_bytes,
        m.answer_bytes,
        m.tuples,
    ]


def _draw(figure: Figure, data: Data, path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Sheet

    sheet = Sheet(figsize=(12, 4.2), layout="constrained")
    FigureCanvasAgg(sheet)
    sheet.suptitle(f"{figure.name}: {figure.title}")
    left, right = sheet.subplots(1, 2)
    panels = zip((left, right), SPACE if figure.space else TIME, strict=True)
    for axes, (label, value) in panels:
        colours: dict[str, str] = {}
        for series in data.series:
            line = data.line(series.name)
            root = series.name.removesuffix(BATCHED)
            (drawn,) = axes.plot(
                [m.window for m in line],
                [value(m) for m in line],
                marker="o" if series.eager is not None else "x",
                linestyle="-" if series.eager is not None else "--",
                color=colours.get(root),
                label=series.name,
            )
            colours.setdefault(root, drawn.get_color())
        axes.set(xscale="log", yscale="log", xlabel="window, time units", ylabel=label)
        axes.grid(visible=True, which="major", alpha=0.3)
    handles, labels = left.get_legend_handles_labels()
    sheet.legend(handles, labels, loc="outside right upper", fontsize="small")
    sheet.savefig(path, dpi=110)
