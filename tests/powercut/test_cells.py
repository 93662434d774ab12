"""Cells on a disk that loses power at random operations: no step lost, none answered otherwise."""

from __future__ import annotations

import gc
import random
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import StateError
from penstock.spark import partition as cells
from penstock.spark.partition import Cell
from tests import needed
from tests.powercut.mounted import Volatile, mounted
from tests.powercut.volatile import Loss
from tests.spark.test_partition import NUMBER, Driver, straight
from tests.spark.test_sessions import drawn, told

CUTS = (0, 12, 25, 38, 50, 60, 60)
"""Where the rows are cut into steps; the last has none."""
RUNS, CUTS_PER_RUN = 8, 10
LONGEST_RUN = 120
"""Operations until the next cut, at most; a step takes some forty."""


def _step(driver: Driver, alive: list[Cell], rows: dict[str, list[dict[str, Any]]], number: int) -> None:
    """Decide the step, ask every cell, and note what they answered."""
    begin, end = CUTS[number - 1], [*CUTS[1:], 60][number - 1]
    driver.step = number - 1
    header = driver.header(flush=begin == 60)
    given = driver.routed({name: part[begin:end] for name, part in rows.items()})
    driver.note([one.step(header, given[n]) for n, one in enumerate(alive)])


def _run(disk: Volatile, rng: random.Random, cuts: int) -> tuple[Driver, int]:
    """All steps in spite of some power cuts; the driver and how many there were."""
    rows = drawn(11, 60)
    driver = Driver(disk.place / "checkpoint")
    number, cut = 1, 0
    alive: list[Cell] = []
    if cuts:
        disk.cut_after(rng.randrange(1, LONGEST_RUN))
    while number <= len(CUTS):
        try:
            alive = alive or [Cell(driver.store, n, NUMBER, {}) for n in range(NUMBER)]
            _step(driver, alive, rows, number)
            number += 1
        except (OSError, StateError) as error:
            if not disk.is_off:
                raise AssertionError(f"stuck at step {number} after {cut} cuts: {error}") from error
            cut += 1
            disk.power_on(rng.choice((Loss.SOME, Loss.ALL, Loss.NONE)), rng.randrange(1 << 30))
            alive = []
            if cut < cuts:
                disk.cut_after(rng.randrange(1, LONGEST_RUN))
    return driver, cut


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # no file closes without power
@pytest.mark.parametrize("seed", range(RUNS))
def test_cells_answer_alike_after_power_cuts(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed.mounts()
    monkeypatch.setattr(cells, "LEAST_LOG", 4000)
    monkeypatch.setattr(cells, "LEAST_STEPS", 2)
    rows = drawn(11, 60)
    expected = {name: told(table) for name, table in straight(rows).items()}
    with mounted(tmp_path / "disk") as disk:
        driver, cut = _run(disk, random.Random(seed), CUTS_PER_RUN)
        assert cut >= 2
        for name, whole in expected.items():
            got = [tuple(r.values()) for t in driver.heard[name].values() for r in t.to_pylist()]
            assert sorted(got, key=repr) == whole, name
    gc.collect()  # what could not be closed goes here, and not in another test
