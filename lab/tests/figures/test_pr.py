"""The figures of preferential results and of PR-Join, made small: rank 1 fits and the rest does not, runs repeat, verdicts follow from the numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock
from penstock.errors import StateError
from penstock_lab.commands.figure import chart_of
from penstock_lab.figures.cacq.chart import Data, Sample, Sizes
from penstock_lab.figures.cacq.judge import judge
from penstock_lab.figures.pr import floor as floors
from penstock_lab.figures.pr.approaches import ALLOCATION, PP, PR, PR_JOIN, PR_PRUNE, RAND, SEM, TRAD
from penstock_lab.figures.pr.catalogue import CHARTS
from penstock_lab.figures.pr.floor import Floor, Outcome
from penstock_lab.figures.pr.joins import SECTORS
from penstock_lab.figures.tp.outcomes import checked

SMALL = Floor(window=5.0, posts=300.0, calm=5.0, periods=2)


def silent(_: str) -> None:
    return None


def failed(result: dict[str, Any]) -> list[str]:
    return [name for name, bar in result["measured"]["bars"].items() if not bar["holds"]]


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("pr-6.7", Sizes((2,), rows=1, turns=1)),
        ("prj-7.4", Sizes((), rows=1, turns=1)),
        ("prj-7.9", Sizes((), rows=10, turns=1)),
    ],
)
def test_files_and_verdicts_are_made(name: str, sizes: Sizes, tmp_path: Path) -> None:
    result = json.loads(json.dumps(chart_of(CHARTS[name], sizes, tmp_path, silent)))
    assert result["holds"] is (not failed(result))
    assert "Works" in result["reference"]["paper"]
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / f"{name}.csv").read_text(encoding="utf-8").startswith("series,")


# ------------------------------------------------------------------ load and runs


@pytest.mark.parametrize(
    "floor", [SMALL, replace(SECTORS, data_set="DS25", periods=2)], ids=["sub", "sector"]
)
def test_rank_1_fits_the_capacity_and_all_of_it_does_not(floor: Floor) -> None:
    found = floors.capacity(floor, penstock.connect)
    assert found.need < found.budget
    assert found.calm < found.budget
    assert found.burst > 4 * found.budget


@pytest.mark.parametrize("floor", [SMALL, replace(SECTORS, periods=1)], ids=["sub", "sector"])
def test_the_best_rows_are_those_that_results_of_rank_1_are_made_of(floor: Floor) -> None:
    whole = floors.run(floor, None, penstock.connect)
    session, query = floors.opened(floor, floors.FOREVER, penstock.connect)
    feed = floors.best(floor)
    assert sum(map(len, feed.streams.values())) < 0.5 * sum(map(len, floor.made.feed.streams.values()))
    ranks: list[int] = []
    for _ in floors.fed(session, feed):
        ranks += query.changes()["__rank"].to_pylist()
    assert set(ranks) == {1}
    assert len(ranks) == whole.results(1) > 20


@pytest.mark.parametrize("approach", ALLOCATION)
def test_a_run_repeats_itself_and_tells_nothing_that_is_not_there(approach: str) -> None:
    budget = floors.capacity(SMALL, penstock.connect).budget
    whole = floors.run(SMALL, None, penstock.connect)
    once, again = (floors.run(SMALL, budget, penstock.connect, approach) for _ in range(2))
    assert (once.told == again.told).all()
    assert checked(once, whole, approach) is once
    assert 0 < once.told.sum() < whole.told.sum()
    assert (once.ages.sum(axis=0) == once.told.sum(axis=0)).all()
    assert 1 <= once.waited(0, 0.5) <= once.waited(0, 0.99) <= floors.STEPS + 3


def test_what_is_told_too_much_is_found() -> None:
    def outcome(n: int) -> Outcome:
        return Outcome(np.array([[0, n]]), np.zeros((1, 2), np.int64), 0.0, 0.0, 0.0, {})

    with pytest.raises(StateError, match="more of some rank"):
        checked(outcome(2), outcome(1), TRAD)


def test_who_is_of_a_better_rank_than_the_one_before_has_been_overtaken() -> None:
    assert floors.overtaken(np.array([1, 1, 2, 3, 0, 0])) == 0
    assert floors.overtaken(np.array([0, 1, 2, 1, 0, 3])) == 3


# ------------------------------------------------------------------ verdicts

USUAL = {f"{word}_{rank}": 0.5 for word in ("results", "share") for rank in range(4)} | {
    "results": 10.0, "load": 20.0, "need": 0.4, "disorder": 0.0, "in_state": 5.0, "in_queues": 5.0
}  # fmt: skip


def data(xs: tuple[int, ...], values: Mapping[str, float], **more: float) -> Data:
    return Data([Sample(name, x, (y,), {**USUAL, **more}) for name, y in values.items() for x in xs])


PREFERRED = {PR_PRUNE: 100.0, PR: 99.0, PP: 50.0, SEM: 20.0, RAND: 10.0, TRAD: 5.0}
JOINED = {PR_JOIN: 100.0, PR_PRUNE: 60.0, SEM: 20.0, RAND: 10.0, TRAD: 5.0}


@pytest.mark.parametrize(
    ("name", "values", "more", "word"),
    [
        ("pr-6.4", PREFERRED, {}, ""),
        ("pr-6.4", {**PREFERRED, PP: 80.0}, {}, "PP"),
        ("pr-6.4", {**PREFERRED, TRAD: 11.0}, {}, "trad"),
        ("pr-6.6", PREFERRED, {}, ""),
        ("pr-6.6", {**PREFERRED, PP: 80.0}, {}, "PP"),
        ("pr-6.6", {**PREFERRED, TRAD: 11.0}, {}, "trad"),
        ("pr-6.7", {**PREFERRED, PR: 96.0}, {}, ""),
        ("pr-6.7", {**PREFERRED, PP: 80.0}, {}, "PP"),
        ("pr-6.8", PREFERRED, {}, ""),
        ("pr-6.8", {**PREFERRED, PR: 103.0}, {}, "apart"),
        ("prj-7.4", {**JOINED, PR_PRUNE: 102.0}, {}, ""),
        ("prj-7.4", {**JOINED, PR_PRUNE: 103.0}, {}, "PR-Prune"),
        ("prj-7.4", JOINED, {"disorder": 0.02}, "better rank"),
        ("prj-7.6", JOINED, {}, ""),
        ("prj-7.6", {**JOINED, PR_PRUNE: 70.0}, {}, "DS25"),
        ("prj-7.7", {**JOINED, PR_PRUNE: 103.0}, {}, "worst"),
        ("prj-7.8", {**JOINED, PR_PRUNE: 103.0}, {}, "worst"),
    ],
)
def test_each_bar_can_fail(name: str, values: dict[str, float], more: dict[str, float], word: str) -> None:
    result = judge(CHARTS[name], data((25, 50), values, **more))
    assert result["holds"] is (not word)
    assert [word in bar for bar in failed(result)] == ([True] if word else [])


def test_one_place_where_the_atomic_join_is_ahead_is_enough() -> None:
    made = data((25, 50), JOINED)
    behind = [
        replace(s, turns=(99.0 * 1.04,)) if (s.series, s.x) == (PR_PRUNE, 50) else s for s in made.samples
    ]
    (bar,) = failed(judge(CHARTS["prj-7.6"], Data(behind)))
    assert bar == "results of rank 1, PR-Join against PR-Prune, worst"


def test_a_search_that_takes_longer_is_found() -> None:
    def made(pruned: float) -> Data:
        more: dict[str, float | None] = {"problems": 3, "values": 20}
        return Data(
            [Sample(n, x, (y,), more) for x in (1, 8) for n, y in ((PR, 1.0), (PR_PRUNE, pruned * x / 8))]
        )

    assert judge(CHARTS["pr-6.9"], made(0.9))["holds"]
    assert failed(judge(CHARTS["pr-6.9"], made(1.1))) == ["CPU time of a search, PR-Prune against PR, worst"]


@pytest.mark.parametrize(
    ("name", "slow", "bar"),
    [
        ("pr-6.10", "PR-Prune, busy", "CPU time, PR-Prune against trad, busy"),
        ("pr-6.10", "PR-Prune, calm, 3 ranks", "CPU time, PR-Prune against trad, calm, 3 ranks"),
        ("prj-7.9", "PR-Join, busy", "CPU time, PR-Join against PR-Prune, busy"),
        ("prj-7.9", "", ""),
    ],
)
def test_what_takes_longer_is_found(name: str, slow: str, bar: str) -> None:
    series = {
        "pr-6.10": [f"{n}, calm" for n in (PR_PRUNE, PP, SEM, RAND, TRAD)]
        + [f"{n}, {how}" for n in (PR_PRUNE, PP, TRAD) for how in ("busy", "calm, 3 ranks")],
        "prj-7.9": [f"{n}, {how}" for n in (PR_JOIN, PR_PRUNE, TRAD) for how in ("calm", "busy")],
    }[name]
    kept = [PR_JOIN, PR_PRUNE, PP, SEM, RAND, TRAD]
    made = Data(
        [Sample(s, 0, (90.0 if s == slow else 100.0,)) for s in series]
        + [Sample(f"{n}, too much", 0, (float("nan"),), {"in_state": 1.0, "in_queues": 1.0}) for n in kept]
    )
    assert failed(judge(CHARTS[name], made)) == ([bar] if bar else [])
