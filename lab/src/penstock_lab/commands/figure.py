"""`penstock figure`: measures, writes CSV and PNG, says whether the claim holds; progress on standard error."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

import penstock
from penstock.errors import StateError
from penstock_lab.benchmarks.report import steady
from penstock_lab.figures import draw
from penstock_lab.figures.cacq import write
from penstock_lab.figures.cacq.catalogue import CHARTS
from penstock_lab.figures.cacq.chart import Chart, Sizes
from penstock_lab.figures.cacq.judge import judge as judge_chart
from penstock_lab.figures.catalogue import FIGURES, Figure
from penstock_lab.figures.data import Data
from penstock_lab.figures.jit import catalogue as jit
from penstock_lab.figures.pp import catalogue as pp
from penstock_lab.figures.pr import catalogue as pr
from penstock_lab.figures.runner import FULL, QUICK, Connect, Extent, Series, Tell, load, measure
from penstock_lab.figures.tpag import catalogue as tpag
from penstock_lab.figures.verdict import judge, judge_all


def figure(name: str, *, quick: bool, out: Path, probing: str = "index", clock: str = "virtual") -> int:
    """Measure, draw and report; 1 if the claim does not hold. `probing`: how trees of joins search their states. `clock`: by which
    budgets of overloaded runs go."""
    draw.check(out)
    steady()
    progress = Console(stderr=True)
    wanted = [figure for figure in FIGURES.values() if name in (figure.name, "all")]
    known = {**CHARTS, **jit.charts(probing), **pp.charts(clock), **tpag.charts(clock), **pr.CHARTS}
    if clock == "wall" and name not in {*pp.charts(clock), *tpag.charts(clock)}:
        raise StateError(
            f"{name} has no budget to go by the wall clock",
            hint="it is for pp-4.5 to pp-4.10 and tpag-5.4 to tpag-5.9",
        )
    charts = [chart for chart in known.values() if name in (chart.name, "all")]
    with progress.status(name) as status:
        tell = status.update if progress.is_terminal else progress.print
        results = make(wanted, QUICK if quick else FULL, out, tell)
        others = [chart_of(c, c.quick if quick else c.full, out, tell) for c in charts]
    for result in (*results, *others):
        _show(result)
    result = judge_all(results, wanted, others) if name == "all" else (*results, *others)[0]
    typer.echo(json.dumps(result, ensure_ascii=False))
    return 0 if result["holds"] else 1


def make(
    figures: Sequence[Figure],
    extent: Extent,
    out: Path,
    tell: Tell,
    connect: Connect = penstock.connect,
) -> list[dict[str, Any]]:
    """Each figure's files and verdict; figures of the same series are made from the same measurements."""
    known: dict[tuple[Series, ...], Data] = {}
    results = []
    for one in figures:
        if one.series not in known:
            about = _about(one.name, tell)
            about("loading kernels")
            load(one.series, connect)
            points = [measure(one.series, w, extent, about, connect) for w in extent.windows]
            known[one.series] = Data([m for point in points for m in point])
        draw.write(one, known[one.series], out)
        results.append(judge(one, known[one.series]))
    return results


def chart_of(
    chart: Chart, sizes: Sizes, out: Path, tell: Tell, connect: Connect = penstock.connect
) -> dict[str, Any]:
    """A chart's files and verdict."""
    data = chart.measure(sizes, _about(chart.name, tell), connect)
    write.write(chart, data, out)
    return judge_chart(chart, data)


def _about(name: str, tell: Tell) -> Tell:
    return lambda text: tell(f"{name}: {text}")


def _show(result: dict[str, Any]) -> None:
    typer.echo(f"{result['name']}: {result['claim']}")
    for kind in ("bars", "aims", "paper"):
        for name, point in result["measured"][kind].items():
            mark = "✓" if point["holds"] else "✗"
            limit = f"{point['sense']} {point['limit']:g}"
            typer.echo(f"  {mark} {kind:5} {name}: {point['value']:.3g} {point['unit']} ({limit})")
    typer.echo(f"  {result['verdict']}")
