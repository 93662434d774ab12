"""The figures of aggregates from partial populations, made small; and their truth by another engine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lab.tests.figures import duck

import penstock
from penstock.errors import StateError
from penstock_lab.baselines.windows import kept
from penstock_lab.cli import FigureName
from penstock_lab.figures.cacq.chart import Data, Sample, Sizes
from penstock_lab.figures.cacq.judge import judge
from penstock_lab.figures.tp.feed import stamps, times
from penstock_lab.figures.tp.stocks import SECTORS
from penstock_lab.figures.tpag import measures, population
from penstock_lab.figures.tpag.answers import ALL, Answers, Truth
from penstock_lab.figures.tpag.catalogue import CHARTS, charts
from penstock_lab.figures.tpag.runs import (
    APPROACHES,
    SAMPLED,
    WINDOW,
    Day,
    answers,
    budget,
    offered,
    true,
)

DAY = Day(seconds=60.0)
SECOND = 1_000_000


def silent(_: str) -> None:
    """Nobody asks how far it is."""


def test_every_chart_has_a_name_on_the_command_line() -> None:
    names = {"tpag-population", *(f"tpag-5.{n}" for n in range(4, 10))}
    assert set(CHARTS) == names <= {name.value for name in FigureName}


@pytest.mark.parametrize("slide", [2_000, WINDOW])
def test_the_truth_of_any_levels_is_duckdb_s(slide: int) -> None:
    """At some windows, for every set of levels: the mean of the ticks that are alive and of these levels."""
    day = replace(DAY, slide=slide)
    truth = true(day, penstock.connect)
    feed, checked = day.feed, 0
    first = -(-feed.start // (slide * 1000))
    for window in range(len(truth.counts) - 1, len(truth.counts) - 22, -7):
        at = (first + window) * slide * 1000
        lives = {"stock": WINDOW * 1000, "news": 600 * SECOND, "research": 900 * SECOND}
        relations = {n: duck.alive(rows, lives[n], at, slide * 1000) for n, rows in feed.streams.items()}
        con = duck.loaded(relations)
        for flag in range(1, ALL + 1):
            levels = ", ".join(str(n + 1) for n in range(4) if flag >> n & 1)
            found = con.execute(
                "SELECT S.sector, AVG(S.price) FROM stock S, news N, research R"
                " WHERE S.sector = N.sector AND S.sector = R.sector AND CASE WHEN owned_by_company AND aggressive THEN 1"
                " WHEN owned_by_company AND conservative THEN 2 WHEN under_evaluation THEN 3 ELSE 4 END"
                f" IN ({levels}) GROUP BY 1"
            ).fetchall()
            expected = np.full(len(SECTORS), np.nan)
            for sector, price in found:
                expected[list(SECTORS).index(sector)] = price
            mean = truth.mean(np.full(truth.counts.shape[:2], flag))[window]
            np.testing.assert_allclose(mean, expected, rtol=1e-9)
            checked += len(found)
    assert checked > 100


def test_an_answer_is_right_within_five_per_cent_of_its_own_population() -> None:
    """Levels 1 and 3 with means of 10 and 20, three ticks to one."""
    truth = Truth(np.array([[[3.0, 0, 1, 0]]]), np.array([[[30.0, 0, 20, 0]]]))
    for price, flag, right in (
        (10.4, 0b0001, True),
        (10.6, 0b0001, False),
        (10.4, 0b0111, False),
        (12.5, 0b0111, True),
        (12.5, ALL, True),
        (20.0, 0b0110, True),
        (20.0, 0b0010, False),  # of nothing no mean is right
        (np.nan, ALL, False),
    ):
        assert truth.right(Answers(np.array([[price]]), np.array([[flag]]))).item() is right


def test_without_overload_every_approach_answers_everything_right() -> None:
    truth = true(DAY, penstock.connect)
    for approach in APPROACHES:
        found = measures.judged(truth, answers(DAY, approach, 0.1, penstock.connect))
        assert found.given == found.right == found.of_all >= 0.9 * found.whole > 50, approach


def test_load_is_what_a_step_takes() -> None:
    whole = offered(DAY, penstock.connect)
    assert budget(DAY, 4, penstock.connect).given == round(whole / 4)
    assert whole > 2 * 50  # more than a unit for each tick of two seconds


def test_under_overload_partial_populations_are_right_and_plain_ones_are_not() -> None:
    data = measures.by_load(Sizes((4,), rows=100, turns=1), silent, penstock.connect)
    own = data.last(SAMPLED)
    assert own.value > 90
    assert (own.more["answers"] or 0) > 0.8 * (own.more["answers_without_limit"] or 0) > 100
    for name in APPROACHES[1:]:
        assert data.last(name).value < own.value - 15, name
    verdict = judge(CHARTS["tpag-5.4"], data)
    assert verdict["holds"], verdict["verdict"]
    assert "Works" in verdict["reference"]["paper"]


def test_by_the_wall_clock_answers_are_right_too() -> None:
    timed = charts("wall")
    assert set(timed) == set(CHARTS) - {"tpag-population"}
    data = timed["tpag-5.4"].measure(Sizes((4,), rows=20, turns=1), silent, penstock.connect)
    own = data.last(SAMPLED)
    assert own.value > 90 and (own.more["answers"] or 0) > 10


def test_populations_are_near_the_truth() -> None:
    data = population.measure(Sizes((400,), rows=60, turns=1), silent, penstock.connect)
    found = data.last(SAMPLED)
    assert abs(found.value - 100) < 5
    assert (found.more["partial_answers"] or 0) > 60 and (found.more["means_held"] or 0) > 85


def test_a_verdict_is_made_from_its_data() -> None:
    more: dict[str, float | None] = {
        "answers": 10,
        "right": 9,
        "within_of_all": 9,
        "answers_without_limit": 10,
    }
    for own, holds in ((95.0, True), (89.0, False), (93.0, False)):
        shares = {SAMPLED: own, "PP": 60.0, "sem": 50.0, "rand": 78.0, "trad": 0.5}
        data = Data([Sample(name, 4, (share,), more) for name, share in shares.items()])
        assert judge(CHARTS["tpag-5.4"], data)["holds"] is holds


def test_window_shedding_keeps_whole_windows_or_nothing() -> None:
    at = np.arange(0, 100 * SECOND, SECOND // 2)
    rows = pa.RecordBatch.from_arrays([stamps(at)], names=["ts"])
    found = times(kept(rows, 10 * SECOND, 3))
    ends = -(-found // (10 * SECOND))
    assert set(ends.tolist()) == {0, 3, 6, 9}
    assert len(found) == 1 + 3 * 20
    assert pc.all(pc.is_in(pa.array(found), pa.array(at))).as_py()


def test_window_shedding_answers_less_and_all_of_it_right() -> None:
    data = measures.by_shedding(Sizes((3,), rows=120, turns=1), silent, penstock.connect)
    own, shed = data.last(SAMPLED), data.last(measures.SHED)
    assert shed.more["answers"] == shed.more["right"] == shed.more["within_of_all"]
    assert own.value > 1.5 * shed.value > 0


@pytest.mark.parametrize(
    ("option", "wrong"),
    [("sampling_error", 0), ("sampling_error", "1"), ("sampling_error", True), ("sampling_relative", 1)],
)
def test_errors_that_mean_nothing_are_refused(option: str, wrong: object) -> None:
    with pytest.raises(StateError, match=option):
        penstock.connect(budget=1, **{option: wrong})
