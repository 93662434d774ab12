"""What a calm step will take is known before; what steps take too much others make up for."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import penstock
from penstock.api.session import Session
from penstock.overload import load_forecast
from penstock.overload.load_forecast import Forecast, Held
from penstock.types.batch import Batch

STREAMS = "".join(
    f"CREATE STREAM {name} (ts BIGINT, k INT, x INT) WATERMARK ts DELAY OF INTERVAL 0;" for name in "ab"
)
JOIN = "SELECT a.x, b.x AS y FROM a [RANGE 600], b [RANGE 600] WHERE a.k = b.k LIFESPAN 6000 RANK 1 CRITERIA (a.x < 4)"


def batch(ends: list[int], sign: list[int] | None = None) -> Batch:
    exp = np.array(ends, np.int64)
    return Batch(exp - 10, exp, (), None if sign is None else np.array(sign, np.int8))


def test_pairs_are_those_with_rows_of_other_streams_that_are_alive() -> None:
    drawn = random.Random(3)
    told = Forecast([[False, True, False, False]])
    held: list[list[int]] = [[], [], [], []]
    for now in range(0, 300, 5):
        came = [[now + 10] * drawn.randrange(4) for _ in held]
        pairs = 0
        for which, ends in enumerate(came):
            if which != 1:
                others = [end for k in (0, 2, 3) if k != which for end in held[k] if end > now]
                pairs += len(ends) * len(others)
                held[which] += ends
        assert told.put([[batch(ends) for ends in came]], now) == pairs
    assert [one.count for one in told.held[0]] == [
        sum(end > now for end in ends) if which != 1 else 0 for which, ends in enumerate(held)
    ]


def test_what_is_counted_stays_small_and_ends() -> None:
    held = Held()
    for now in range(1000):
        held.put(batch([now + 500]))
        held.end(now)
        assert len(held.parts) <= 4 * load_forecast.PARTS
    assert 500 <= held.count <= 500 + 2 * 500 // load_forecast.PARTS
    assert held.put(batch([2000, 2000, 2000], [1, -1, -1])) == -1
    held.end(2000)
    assert held.count == 0


def test_it_learns_and_is_the_same_after_a_restart() -> None:
    told = Forecast([[False, False]])
    assert told.expected(10, 0) == 20, "a guess"
    for _ in range(40):
        told.learn(10, 1000.0, 10 + 250.0)
    assert told.expected(5, 2000.0) == pytest.approx(5 + 500)
    told.put([[batch([50]), batch([60, 60])]], 0)
    again = Forecast([[False, False]])
    again.take_up(told.save())
    assert again.expected(5, 2000.0) == told.expected(5, 2000.0)
    assert [one.count for one in again.held[0]] == [1, 2]


class Run:
    """Rows of `a` fill a window that few of `b` meet, then many."""

    def __init__(self, budget: int, seed: int, burst: int, text: str = JOIN) -> None:
        self.session: Session = penstock.connect(budget=budget)
        self.session.execute(STREAMS)
        self.query = self.session.query(text, name="q")
        self.pipeline: Any = self.session.engine.queries["q"].pipeline
        self.spent: list[float] = []
        self.owed: list[float] = []
        self.busy: list[bool] = []
        drawn = random.Random(seed)
        for step in range(24):
            for name, rows in (("a", 20), ("b", burst if 8 <= step < 12 else 1)):
                times = sorted(drawn.randrange(100 * step, 100 * step + 100) for _ in range(rows))
                self.session.push(
                    name,
                    [{"ts": t, "k": drawn.randrange(3), "x": drawn.randrange(40)} for t in times],
                )
            self.session.advance(100 * step + 99)
            self.spent.append(self.pipeline.spent)
            self.owed.append(self.pipeline.owed)
            self.busy.append(self.pipeline.busy)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("burst", [5, 30, 90])
def test_whatever_steps_take_is_made_up_for(seed: int, burst: int) -> None:
    budget = random.Random(seed).randrange(200, 2000)
    run = Run(budget, seed, burst)
    for n in range(1, len(run.spent) + 1):
        assert sum(run.spent[:n]) <= n * budget + run.owed[n - 1] + 1e-6


def test_a_burst_onto_a_full_window_is_seen_before_it_is_worked_on() -> None:
    """Rows of `b` take forty times as many units as those of `a`: by the mean of both it would seem to fit."""
    run = Run(2000, 1, 90)
    mean = sum(run.spent[:8]) / (8 * 21)
    assert 110 * mean < 2000 < 90 * 120 / 3, "what the mean foresees, and what there is"
    assert max(run.owed) < 0.25 * 2000
    assert run.query.load["ranks"][0]["rank"] == 1


def test_a_step_that_takes_a_little_more_leaves_it_calm() -> None:
    """With a lifespan it may be behind, and makes up for it in time; without one rows wait at once."""
    patient, other = Run(2300, 2, 60), Run(2300, 2, 60, JOIN.replace("LIFESPAN 6000 ", ""))
    assert min(patient.spent[8:10]) > 2300 and not any(patient.busy[:10])
    assert other.busy[8]
