"""Verdicts follow from the numbers, both ways: hand-made data in, bars and sentences out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from penstock_lab.cli import FigureName
from penstock_lab.figures import bars
from penstock_lab.figures.cacq.catalogue import CHARTS
from penstock_lab.figures.catalogue import FIGURES, Figure
from penstock_lab.figures.data import BATCHED, Data
from penstock_lab.figures.jit.catalogue import charts
from penstock_lab.figures.pp import catalogue as pp
from penstock_lab.figures.pr import catalogue as pr
from penstock_lab.figures.runner import Measure
from penstock_lab.figures.tpag import catalogue as tpag
from penstock_lab.figures.verdict import judge, judge_all

WINDOWS = (2_000, 200_000)
TURNS = (1.0, 1.1, 0.9)
"""How each turn differs from the middle one."""

FAST: dict[str, float] = {
    "UPA": 1.0,
    "UPA(50)": 1.1,
    "UPA(10)": 5.0,
    "NT": 12.0,
    "DIRECT": 40.0,
    "NT(join up)": 2.0,
}
"""CPU time, visits and state by series: UPA far ahead of everything."""


def made(figure: Figure, numbers: Mapping[str, float] = FAST, **changes: Any) -> Data:
    """Every series with these numbers at every window; `changes` are set on the measures of UPA."""
    measures = []
    for series in figure.series:
        root = series.name.removesuffix(BATCHED)
        number = numbers.get(root, 3.0)
        for window in WINDOWS:
            measure = Measure(
                series,
                window,
                cpu=[number * turn for turn in TURNS],
                reading=[0.5] * len(TURNS),
                visits=int(100 * number),
                tuples=100,
                results=50,
                taken_back=20,
                fed=100,
                state_bytes=int(1000 * number**2),
                answer_bytes=500,
            )
            if root == "UPA":
                for name, value in changes.items():
                    setattr(measure, name, value)
            measures.append(measure)
    return Data(measures)


def slow_at(data: Data, name: str, window: int, times: float) -> Data:
    for measure in data.line(name):
        if measure.window == window:
            measure.cpu = [t * times for t in measure.cpu]
    return data


def failed(result: dict[str, Any]) -> list[str]:
    return [name for name, bar in result["measured"]["bars"].items() if not bar["holds"]]


def test_the_command_line_knows_every_figure() -> None:
    samples = (CHARTS, charts(), pp.charts(), tpag.charts(), pr.CHARTS)
    assert [n.value for n in FigureName] == [*FIGURES, *(name for some in samples for name in some), "all"]


@pytest.mark.parametrize("figure", FIGURES.values(), ids=lambda f: f.name)
def test_a_claim_holds_where_upa_is_far_ahead_and_fails_where_it_is_far_behind(figure: Figure) -> None:
    ahead = judge(figure, made(figure))
    assert ahead["holds"] and not failed(ahead)
    several = len(ahead["measured"]["bars"]) > 1
    assert ("bars hold" if several else "its bar holds") in ahead["verdict"]
    behind = judge(figure, made(figure, {**FAST, "UPA": 50.0}))
    assert not behind["holds"] and failed(behind)
    assert f"{'bars fail' if several else 'its bar fails'} ({failed(behind)[0]}: " in behind["verdict"]


def test_visits_are_compared_with_the_better_and_with_the_other() -> None:
    figure = FIGURES["upa-9"]
    result = judge(figure, made(figure, visits=700))  # NT 1200, DIRECT 4000
    assert failed(result) == [
        "tuple visits, the better of NT and DIRECT against UPA",
        "tuple visits, the other against UPA",
    ]
    result = judge(figure, made(figure, visits=500))
    assert failed(result) == ["tuple visits, the other against UPA"]


def test_one_slow_window_is_enough_and_is_named() -> None:
    figure = FIGURES["upa-9"]
    result = judge(figure, slow_at(made(figure), "UPA (batched)", 2_000, 13.0))
    (name,) = failed(result)
    assert name == "CPU time of UPA against the better of NT and DIRECT, worst window (batched)"
    bar = result["measured"]["bars"][name]
    assert (bar["window"], bar["value"]) == (2_000, pytest.approx(13 / 12, abs=1e-3))
    assert bar["with_reading"] == pytest.approx(13.5 / 12.5, abs=1e-3)


def test_turns_are_compared_one_by_one() -> None:
    """Both are slower in the same turns: the ratio does not move."""
    figure = FIGURES["upa-15"]
    one, other = made(figure).line("UPA")[0], made(figure).line("NT")[0]
    one.cpu, other.cpu = [1.0, 9.0, 2.0], [2.0, 18.0, 4.0]
    assert one.against(other) == 0.5


def test_cost_that_grows_with_the_window_fails_by_source_only() -> None:
    for name, names in (("upa-11", ["CPU time of UPA, largest window against smallest"]), ("upa-12", [])):
        assert failed(judge(FIGURES[name], slow_at(made(FIGURES[name]), "UPA", 200_000, 1.6))) == names


def test_state_is_judged_without_the_kept_answer() -> None:
    figure = FIGURES["upa-13"]
    assert judge(figure, made(figure, state_bytes=5760, answer_bytes=10**6))["holds"]  # NT 144,000
    assert not judge(figure, made(figure, state_bytes=5761, answer_bytes=0))["holds"]


def test_the_automatic_choice_is_held_to_the_best_fixed_one() -> None:
    figure = FIGURES["upa-17"]
    assert judge(figure, made(figure, {**FAST, "UPA": 2.19}))["holds"]  # NT(join up) 2.0
    assert not judge(figure, made(figure, {**FAST, "UPA": 2.21}))["holds"]


def test_the_paper_decides_nothing_but_its_shortfall_is_said() -> None:
    figure = FIGURES["upa-10"]
    result = judge(figure, made(figure, {**FAST, "UPA(50)": 2.0}))
    assert result["holds"]
    assert "unlike the paper UPA(50) up to ten times as fast as NT: 6 × where it has 10" in result["verdict"]
    assert "as in the paper DIRECT slower than NT (3.3)" in result["verdict"]


def test_premature_ends_are_told() -> None:
    figure = FIGURES["upa-15"]
    near, far = (judge(figure, made(figure, taken_back=n))["measured"]["paper"] for n in (20, 45))
    assert near["premature ends, distance from 40 %"]["holds"]
    assert far["premature ends, distance from 40 %"]["at_2000"] == 0.9
    assert not far["premature ends, distance from 40 %"]["holds"]


@pytest.mark.parametrize(("fast", "holds"), [((1, 2), True), ((1, 4), True), ((4,), False), ((), False)])
def test_two_of_the_queries_must_be_faster_by_half(fast: tuple[int, ...], holds: bool) -> None:
    figures = list(FIGURES.values())
    results = []
    for figure in figures:
        slow = figure.aims is bars.faster and figure.query not in fast
        data = made(figure)
        if slow:
            for setting in ("", BATCHED):
                for window in WINDOWS:
                    slow_at(data, f"UPA{setting}", window, 10)
        results.append(judge(figure, data))
    result = judge_all(results, figures)
    assert result["holds"] is holds
    assert all(r["holds"] for r in results)
    named = ", ".join(map(str, fast)) or "none"
    assert result["verdict"].endswith(f"on Queries {named}.")


def test_a_claim_that_fails_is_named_among_all() -> None:
    figures = [FIGURES["upa-9"], FIGURES["upa-11"], FIGURES["upa-13"]]
    results = [judge(f, made(f)) for f in figures]
    assert judge_all(results, figures)["verdict"].startswith("3 of 3 claims hold;")
    results[2] = judge(figures[2], made(figures[2], state_bytes=10**9))
    result = judge_all(results, figures)
    assert not result["holds"]
    assert result["verdict"].startswith("2 of 3 claims hold (not upa-13);")
