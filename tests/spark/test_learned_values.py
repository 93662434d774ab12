"""What cells have learnt of promising values goes to the driver with their answers, and back in the header of the next step, which is logged."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.plan.join_tree import Demand
from penstock.plan.policies import Policies
from penstock.spark import partition as cells
from penstock.spark.checkpoint import Store
from penstock.spark.partition import Cell
from tests.overload.test_learned_values import CHAIN, STREAMS, TEXT, rows
from tests.spark.test_semijoin_filters import Driver
from tests.spark.test_sessions import Kept, told

DDL = STREAMS.format(TEXT)
STEPS = 9


class Losing(random.Random):
    """Lets the driver lose a share of the cells in every step."""

    def __init__(self, share: float) -> None:
        super().__init__(3)
        self._share = share

    def random(self) -> float:
        return 0.0 if super().random() < self._share else 1.0


def test_a_cell_that_is_lost_goes_on_with_what_it_was_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same is said in the same steps, and the same is learnt, whoever of the cells begins anew; now from a state, now from the log."""
    runs = []
    for lost in (0.0, 0.4):
        monkeypatch.setattr(cells, "LEAST_LOG", 4000 if lost else 1 << 30)
        place = tmp_path / str(lost)
        driver = Driver(place, CHAIN, Demand.JIT, Policies(budget=60), DDL)
        rng = Losing(lost)
        learnt = []
        for step in range(STEPS):
            driver.run(rows(4, step, TEXT), rng)
            learnt.append(driver.known.promising)
        driver.run({}, rng, flush=True)
        runs.append((driver.said, learnt))
    (said, learnt), other = runs
    assert (said, learnt) == other
    assert sum(map(bool, learnt)) > STEPS // 2
    session = penstock.connect()
    session.execute(DDL)
    query = session.query(CHAIN, name="q")
    for step in range(STEPS):
        for stream, own in rows(4, step, TEXT).items():
            session.push(stream, own)
    session.advance(10**6)
    truth = [tuple(row.values()) for row in query.changes().to_pylist()]
    assert sorted(map(repr, said)) == sorted(map(repr, truth)) and len(truth) > 100


def promising(place: Path, cell: int, step: int) -> tuple[set[str], set[str], int]:
    """From the log of a cell, after a step: texts that it was told of, those it has counted itself, and how many rows were found promising."""
    found = Cell(Store(str(place)), cell, 2, {})
    found._catch_up(step)
    engine = found._lower.engine
    if "q" not in engine.queries:
        return set(), set(), 0  # a step before it
    pipeline: Any = engine.queries["q"].pipeline
    (core,), (monitor,) = pipeline.scheduler.cores, pipeline.allocation.monitors
    texts = {a.number for a in monitor.attributes if all(core.is_text(*side) for side in a.sides.items())}
    heard = {
        engine.strings.text(value)
        for (number, _), sketch in monitor.others.items()
        if number in texts
        for value in sketch.values.tolist()
    }
    counted = {
        engine.strings.text(value)
        for (number, _), sketch in monitor.sketches.items()
        if number in texts
        for value in sketch.values.tolist()
    }
    return heard, counted, sum(one["promised"] for one in pipeline.load()["ranks"])


def test_on_spark_a_cell_knows_of_values_that_only_another_has_met(
    spark: SparkSession, tmp_path: Path
) -> None:
    kept = Kept()
    here = penstock.connect()
    here.execute(DDL)
    there = penstock.connect(spark, checkpoint=str(tmp_path), cells=2, budget=60)
    there.execute(DDL)
    query = here.query(CHAIN, name="q")
    there.query(CHAIN, name="q").foreach_batch(kept)
    handle = there.start(trigger={"processingTime": "0 seconds"})
    promised = 0
    for step in range(6):
        for name, own in rows(6, step, TEXT).items():
            here.push(name, own)
            there.push(name, own)
        handle.processAllAvailable()
        ranks = handle.lastProgress["queries"]["q"]["ranks"]
        promised = max(promised, sum(one["promised"] for one in ranks if one["rank"] is not None))
    last = handle.lastProgress["step"]
    handle.stop()
    assert promised > 0, "rows went with a level because of what they may meet"
    assert there.flow.known.promising["q"]["cores"][0]["sketches"]
    foreign = 0
    for cell in range(2):
        for step in range(last + 1):
            heard, counted, found = promising(tmp_path, cell, step)
            foreign += len(heard - counted)
    assert found > 0
    assert foreign > 0, "a cell knows of it that has not met it"
    handle = there.start(trigger={"availableNow": True})
    handle.awaitTermination()
    handle.stop()
    here.advance(there.clock)
    expected = query.changes()
    assert expected.num_rows > 100
    assert kept.rows(expected.column_names) == told(expected)
