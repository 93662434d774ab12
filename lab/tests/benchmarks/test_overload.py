"""`penstock bench overload`: its numbers are those of the runs, and its verdict follows from them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from penstock_lab.benchmarks import overload
from penstock_lab.benchmarks.overload import ALLOCATIONS, Extent, described, judged, measure
from penstock_lab.figures.pr.floor import Outcome


def outcome(rank_1: int, waited: int = 1, shed: int = 0) -> Outcome:
    told = np.array([[0, rank_1, 0, 0]])
    ages = np.zeros((5, 4), np.int64)
    ages[waited, 1] = rank_1
    return Outcome(told, ages, 0.0, 0.0, 0.0, {"ranks": [{"rank": 1, "expired": 3, "shed": shed}]})


def test_a_small_run_has_all_loads_shares_and_allocations() -> None:
    result = json.loads(json.dumps(measure(Extent((0.5, 4.0), (20.0,), 1), lambda _: None)))
    assert list(result["measured"]) == ["load 0.5, 20 % of the ticks", "load 4, 20 % of the ticks"]
    assert result["holds"] is (not result["why_not"])
    low, high = result["measured"].values()
    for name in ALLOCATIONS:
        assert low[name]["rank 1"]["recall"] == 1.0
        assert low[name]["expired"] == low[name]["shed"] == 0
        assert 0 < high[name]["no rank"]["recall"] < 1
        assert high[name]["expired"] + high[name]["shed"] > 0, "who sheds in time lets nothing expire"
    assert high["prefer"]["rank 1"]["told"] > high["fifo"]["rank 1"]["told"]


def test_a_recall_is_of_what_there_is_and_a_latency_in_microseconds() -> None:
    found = described(outcome(30, waited=2, shed=7), outcome(40), budget=500)
    assert found["rank 1"] == {"told": 30, "recall": 0.75, "p50_us": 1000, "p99_us": 1000}
    assert (found["expired"], found["shed"]) == (3, 7)


@pytest.mark.parametrize(
    ("load", "prefer", "fifo", "waited", "failing"),
    [
        (0.5, 100, 100, 1, []),
        (0.5, 98, 100, 1, ["recall of rank 1, the worst allocation"]),
        (1.0, 98, 100, 3, []),
        (1.0, 97, 100, 1, ["results of rank 1, prefer against fifo"]),
        (2.0, 90, 60, 1, []),
        (4.0, 80, 60, 1, ["results of rank 1, prefer against fifo"]),
        (4.0, 90, 60, 3, ["p99 of rank 1, prefer against fifo"]),
    ],
)
def test_each_point_can_fail(load: float, prefer: int, fifo: int, waited: int, failing: list[str]) -> None:
    found = dict.fromkeys(overload.ALLOCATIONS, outcome(100)) | {
        "prefer": outcome(prefer, waited),
        "fifo": outcome(fifo, waited=2),
    }
    assert [p.name for p in judged(load, found, outcome(100)) if not p.holds] == failing
