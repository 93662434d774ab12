"""The figures of partial results on demand, made small."""

from __future__ import annotations

from dataclasses import replace

import penstock
from penstock_lab.cli import FigureName
from penstock_lab.figures.cacq.judge import judge
from penstock_lab.figures.jit.catalogue import charts
from penstock_lab.figures.jit.plans import BUSHY, LEFT_DEEP
from penstock_lab.figures.jit.runs import measured


def test_every_chart_has_a_name_on_the_command_line() -> None:
    names = {"jit-eight", "jit-fruitful", *(f"jit-{n}" for n in range(10, 18))}
    assert set(charts()) == names <= {name.value for name in FigureName}


def test_plans_are_the_paper_s() -> None:
    """Table II and Table III: clique joins; left-deep plans feed D, of three sources C, with many more values."""
    assert (BUSHY.sources, BUSHY.window, BUSHY.rate, BUSHY.values, BUSHY.wide) == (6, 1200, 1.0, 200, -1)
    assert (LEFT_DEEP.sources, LEFT_DEEP.window, LEFT_DEEP.values, LEFT_DEEP.wide) == (4, 600, 50, 3)
    assert replace(LEFT_DEEP, sources=3).wide == 2
    assert BUSHY.query().count("=") == 15
    _, tables = next(LEFT_DEEP.pushes(300))
    assert max(tables["d"]["x2"].to_pylist()) > 50 >= max(tables["a"]["x2"].to_pylist())


def test_a_small_figure_tells_what_it_found() -> None:
    chart = charts()["jit-10"]
    points = [(x, replace(BUSHY, sources=4, window=60, rate=2.0, values=20)) for x in (10.0, 20.0)]
    data = measured(points, "index", 600, 1, lambda _: None, penstock.connect)
    ref, doe, jit, auto = (data.last(series).more for series in ("REF", "DOE", "JIT", "AUTO"))
    assert ref["results"] == doe["results"] == jit["results"] == auto["results"]
    assert auto["peak_values"] <= jit["peak_values"], "base rows alone"
    assert jit["partial_results"] < ref["partial_results"] / 3
    assert jit["peak_values"] < ref["peak_values"]
    verdict = judge(chart, data)
    assert verdict["name"] == "jit-10"
    assert set(verdict["measured"]["last"]) == {"REF", "DOE", "JIT", "AUTO"}
    assert "Yang & Papadias" in verdict["reference"]["paper"]
