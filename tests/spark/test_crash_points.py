"""A process killed at any write, flush or rename loses nothing and repeats nothing."""

from __future__ import annotations

import itertools
import json
import os
import random
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet  # noqa: F401 - read by the driver
import pytest

from penstock.spark import partition as cells
from penstock.spark.partition import Cell
from tests.spark.test_partition import NUMBER, Driver, straight
from tests.spark.test_sessions import drawn, told

CUTS = (0, 12, 25, 38, 50, 60, 60)
OPERATIONS = ("fsync", "link", "rename", "replace", "unlink", "rmdir", "mkdir")


def steps(
    driver: Driver, rows: dict[str, list[dict[str, Any]]], after: int
) -> Iterator[list[dict[str, Any]]]:
    """Ask every cell for every step after the last that was answered; each step's answers."""
    alive = [Cell(driver.store, n, NUMBER, {}) for n in range(NUMBER)]
    for begin, end in zip(CUTS, [*CUTS[1:], 60], strict=True):
        header = driver.header(flush=begin == 60)
        if header["step"] <= after:
            continue
        given = driver.routed({name: part[begin:end] for name, part in rows.items()})
        answers = [alive[n].step(header, given[n]) for n in range(NUMBER)]
        yield answers
        driver.note(answers)


def noted(driver: Driver, rows: dict[str, list[dict[str, Any]]], notes: Path) -> None:
    """All steps, each with a note once it is answered."""
    with notes.open("a") as file:
        for answers in steps(driver, rows, 0):
            file.write(json.dumps(answers) + "\n")
            file.flush()


def dying(operation: int, before: bool, work: Callable[[], None]) -> bool:
    """Do the work in a process that is gone at its n-th operation on files; whether it came that far."""
    child = os.fork()
    if child:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, 9)
        return code == 9
    seen = itertools.count(1)

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*given: Any, **more: Any) -> Any:
            mine = next(seen)
            if mine == operation and before:
                os._exit(9)
            try:
                return real(*given, **more)
            finally:
                if mine == operation:
                    os._exit(9)

        return wrapped

    for name in OPERATIONS:
        setattr(os, name, counted(getattr(os, name)))
    try:
        work()
    except BaseException:  # noqa: BLE001 - told by its exit status
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


@pytest.mark.slow
def test_killed_at_every_operation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "LEAST_LOG", 4000)
    rows = drawn(11, 60)
    expected = {name: told(table) for name, table in straight(rows).items()}
    rng = random.Random(4)
    reached = 0
    operation = 1
    while True:
        folder = tmp_path / str(operation)
        driver = Driver(folder)
        notes = folder / "answers"

        died = dying(operation, rng.random() < 0.5, partial(noted, Driver.again(driver), rows, notes))
        answered = [json.loads(line) for line in notes.read_text().splitlines()]
        for answers in answered:
            driver.step += 1
            driver.note(answers)
        driver.step = 0
        for _ in steps(driver, rows, len(answered)):
            pass
        for name, whole in expected.items():
            got = [tuple(r.values()) for t in driver.heard[name].values() for r in t.to_pylist()]
            assert sorted(got, key=repr) == whole, f"{name}, killed at operation {operation}"
        reached += died
        operation += rng.randrange(1, 15)
        if not died:
            break
    assert reached > 15
