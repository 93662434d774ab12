"""The figures of proactive promotion, made small: loads are what they are called, runs repeat, verdicts follow from the numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest

import penstock
from penstock.errors import StateError
from penstock_lab.cli import FigureName
from penstock_lab.commands.figure import chart_of
from penstock_lab.figures.cacq.chart import Data, Sample, Sizes
from penstock_lab.figures.cacq.judge import judge
from penstock_lab.figures.pp import bursts, overload, sweeps
from penstock_lab.figures.pp.catalogue import charts
from penstock_lab.figures.pp.overload import ALLOCATIONS, PROMOTE, Outcome, Town
from penstock_lab.figures.tp.clock import microseconds, units
from penstock_lab.figures.tp.outcomes import checked

CHARTS = charts()
SMALL = {
    "pp-4.5": Sizes((2,), rows=60, turns=20),
    "pp-4.6": Sizes((), rows=60, turns=0),
    "pp-4.7": Sizes((3,), rows=10, turns=1),
    "pp-4.8": Sizes((20,), rows=10, turns=1),
    "pp-4.9": Sizes((2500,), rows=10, turns=1),
    "pp-4.10": Sizes((2,), rows=2, turns=1),
    "pp-costly": Sizes((2,), rows=8, turns=1),
}
SECONDS = 20.0


def silent(_: str) -> None:
    return None


def failed(result: dict[str, Any]) -> list[str]:
    return [name for name, bar in result["measured"]["bars"].items() if not bar["holds"]]


def test_every_chart_has_a_name_on_the_command_line() -> None:
    assert (
        set(CHARTS)
        == {"pp-costly", *(f"pp-4.{n}" for n in range(5, 11))}
        <= {name.value for name in FigureName}
    )


@pytest.mark.parametrize("name", SMALL)
def test_files_and_verdicts_are_made(name: str, tmp_path: Path) -> None:
    result = json.loads(json.dumps(chart_of(CHARTS[name], SMALL[name], tmp_path, silent)))
    assert result["holds"] is (not failed(result))
    assert "Works" in result["reference"]["paper"]
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / f"{name}.csv").read_text(encoding="utf-8").startswith("series,")


# ------------------------------------------------------------------ load and runs


def test_a_load_is_as_many_times_the_capacity_as_it_is_called() -> None:
    budget = overload.capacity(penstock.connect)
    for times in (1, 3):
        town = Town(seconds=60, load=times)
        load = overload.offered(town, town.made(), penstock.connect)[town.settled :].mean() / budget.lasts
        assert load == pytest.approx(times, rel=0.15)


def test_rank_1_needs_its_share_of_the_load() -> None:
    """15 % of the tuples, and nearly everybody is elsewhere at that hour; looking the others up is a little more."""
    town = Town(seconds=40, load=2.0)
    made = town.made()
    load, need = (
        f(town, made, penstock.connect)[town.settled :].sum() for f in (overload.offered, overload.needed)
    )
    assert 0.14 < need / load < 0.22


@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_a_run_repeats_itself_and_tells_nothing_that_is_not_there(allocation: str) -> None:
    town = replace(overload.fluctuating("15-5-5", SECONDS), load=3.0, burst=1.0)
    made = town.made()
    whole = overload.run(town, made, None, "fifo", penstock.connect)
    once, again = (overload.run(town, made, units(770), allocation, penstock.connect) for _ in range(2))
    assert (once.told == again.told).all() and (once.late == again.late).all()
    assert checked(once, whole, allocation) is once
    assert 0 < once.told.sum() < whole.told.sum()
    told = once.told > 0
    assert (once.late[told] >= 770 * once.told[told]).all()
    # What is told was taken up within its lifespan; a step may end, and a block be finished, after it.
    assert (once.late[told] <= (overload.LIFESPAN + 3 * 770) * once.told[told]).all()


def test_what_is_told_too_much_is_found() -> None:
    def outcome(n: int) -> Outcome:
        none = np.zeros(1, np.int64)
        return Outcome(np.array([[0, n]]), np.zeros((1, 2)), none, none, none)

    with pytest.raises(StateError, match="more of some rank"):
        checked(outcome(2), outcome(1), "fifo")


def test_calm_is_counted_from_the_last_row_of_a_burst() -> None:
    busy = np.zeros(750, np.int64)
    busy[150:] = 1
    busy[612:] = 0
    busy[700] = 1
    outcome = Outcome(np.zeros((750, 2), np.int64), np.zeros((750, 2)), busy, busy, busy)
    assert overload.until_calm(Town(), outcome, units(750)) == [1.2]
    busy[605:750:5] = 1
    assert overload.until_calm(Town(), outcome, units(750)) == [15.0]


def test_by_the_wall_clock_steps_take_their_time() -> None:
    """Three milliseconds a step for what takes tens of them; nothing is told that is not there, and nothing before its time."""
    town = Town(seconds=8, load=4.0, lifespan=10**6, clock=overload.WALL)
    budget, made = microseconds(3_000), town.made()
    whole = overload.run(town, made, None, "fifo", penstock.connect)
    began = perf_counter()
    outcome = checked(overload.run(town, made, budget, PROMOTE, penstock.connect), whole, PROMOTE)
    assert perf_counter() - began >= 7 * budget.lasts / 1e6
    assert 0 < outcome.told.sum() < whole.told.sum()
    assert outcome.busy.any() and 0 < outcome.had <= 1
    assert (outcome.late[outcome.told > 0] > 0).all()


def test_figures_by_the_wall_clock_have_their_own_limits() -> None:
    timed = charts("wall")
    assert set(timed) == set(CHARTS) - {"pp-costly"}
    assert all("wall clock" in chart.title for chart in timed.values())
    data = made({**GOOD, "fifo": 20.0}, {})
    assert judge(timed["pp-4.5"], data)["holds"] and not judge(CHARTS["pp-4.5"], data)["holds"]
    assert not judge(timed["pp-4.5"], made({**GOOD, "fifo": 30.0}, {}))["holds"]
    shared = Data(
        [replace(s, more={**s.more, "had": 0.4 if s.series == "fifo" else 1.0}) for s in data.samples]
    )
    assert not judge(timed["pp-4.5"], shared)["holds"], "fifo made as many of less than half a core"


# ------------------------------------------------------------------ verdicts


def made(shares: dict[str, float], steady: dict[str, float], **more: float) -> Data:
    """A minute with so many results of rank 1, and a steady load with these numbers."""
    usual = {"until_calm": 1.0, "share_1": 0.5, "results_3": 1.0, "results": 10.0}
    lines = [Sample(name, 1, (1.0,), {**usual, "results_1": n, **more}) for name, n in shares.items()]
    told = {"load": 2.0, "need_1": 0.4, "latency_2": 2.0, "latency_3": 3.0, "latency_0": 4.0, "share_1": 1.0}
    return Data([*lines, Sample(f"{bursts.STEADY}2×", 1, (1.0,), {**told, **steady})])


GOOD = dict(zip(ALLOCATIONS, (1.0, 10.0, 10.0, 30.0, 50.0), strict=True))


@pytest.mark.parametrize(
    ("shares", "steady", "more", "word"),
    [
        ({}, {}, {}, ""),
        ({"fifo": 20.0}, {}, {}, "fifo"),
        ({"random": 20.0}, {}, {}, "random"),
        ({"semantic": 60.0}, {}, {}, "semantic"),
        ({}, {"share_1": 0.98}, {}, "in time"),
        ({}, {"share_1": 0.5, "need_1": 1.2}, {}, ""),
        ({}, {"latency_0": 0.9}, {}, "rank 1 against any other"),
        ({}, {"latency_0": 2.5}, {}, "against no rank"),
        ({}, {"latency_2": 3.6}, {}, "rank 2 against rank 3"),
        ({}, {}, {"until_calm": 2.5}, "calm"),
    ],
)
def test_each_bar_of_the_first_figure_can_fail(
    shares: dict[str, float], steady: dict[str, float], more: dict[str, float], word: str
) -> None:
    result = judge(CHARTS["pp-4.5"], made({**GOOD, **shares}, steady, **more))
    assert result["holds"] is (not word)
    assert all(word in name for name in failed(result)[:1])
    assert bool(failed(result)) is bool(word)


def test_a_gain_that_widens_fails() -> None:
    def data(last: float) -> Data:
        lines = dict.fromkeys(ALLOCATIONS, (10.0, 10.0)) | {PROMOTE: (40.0, last)}
        more: dict[str, float | None] = {"share_1": 1.0}
        return Data(
            [Sample(n, x, (y,), more) for n, ys in lines.items() for x, y in zip((20, 50), ys, strict=True)]
        )

    assert sweeps.gains(data(20.0)) == [4.0, 2.0]
    assert judge(CHARTS["pp-4.8"], data(20.0))["holds"]
    assert not judge(CHARTS["pp-4.8"], data(50.0))["holds"]
    assert failed(judge(CHARTS["pp-4.9"], data(30.0))) == [
        "results of rank 1 of promote, longest lifespan against shortest"
    ]
