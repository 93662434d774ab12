"""Two hosts of one cell at once: the one of an executor that Spark has given up, or of a task that it runs twice, may still be at work."""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import StateError
from penstock.spark import partition as cells
from penstock.spark.partition import Cell
from tests.spark.test_partition import NUMBER, Driver, straight
from tests.spark.test_sessions import drawn, told

ROWS = 90


def shuffled(rows: pa.Table, rng: random.Random) -> pa.Table:
    """As they come when an exchange is computed again."""
    order = list(range(rows.num_rows))
    rng.shuffle(order)
    return rows.take(pa.array(order, pa.int64()))


def first(attempts: Sequence[Future[dict[str, Any]]]) -> dict[str, Any]:
    """The answer that Spark takes."""
    return wait(attempts, return_when=FIRST_COMPLETED).done.pop().result()


def steps(driver: Driver, rows: dict[str, list[dict[str, Any]]], cuts: Sequence[int]) -> Any:
    for begin, end in zip([0, *cuts, ROWS, ROWS], [*cuts, ROWS, ROWS, ROWS], strict=True):
        header = driver.header(flush=begin == ROWS)
        yield header, driver.routed({name: part[begin:end] for name, part in rows.items()})


def assert_whole(driver: Driver, rows: dict[str, list[dict[str, Any]]]) -> None:
    for name, expected in straight(rows).items():
        got = [tuple(r.values()) for t in driver.heard[name].values() for r in t.to_pylist()]
        assert sorted(got, key=repr) == told(expected), name


@pytest.mark.parametrize("seed", range(2))
def test_both_apply_every_step(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first answer is read while the other host is still at it, and again when that is done."""
    monkeypatch.setattr(cells, "LEAST_LOG", 3000)
    rng = random.Random(seed)
    driver, rows = Driver(tmp_path), drawn(seed, ROWS)
    hosts = [[Cell(driver.store, n, NUMBER, {}) for n in range(NUMBER)] for _ in "ab"]
    with ThreadPoolExecutor(2 * NUMBER) as pool:
        for header, given in steps(driver, rows, range(3, ROWS, 3)):
            asked = [
                [pool.submit(host[n].step, header, shuffled(given[n], rng)) for host in hosts]
                for n in range(NUMBER)
            ]
            answers = [first(attempts) for attempts in asked]
            driver.note(answers)
            for attempts, answer in zip(asked, answers, strict=True):
                for attempt in attempts:
                    assert attempt.result()["out"] == answer["out"]
            driver.note(answers)
            driver.store.forget_results(header["step"])
    assert_whole(driver, rows)
    assert any(driver.store.states(n) for n in range(NUMBER)), "states are written"


def test_one_that_was_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cell was elsewhere for so long that the log does not reach back; then it returns."""
    monkeypatch.setattr(cells, "LEAST_LOG", 2000)
    driver, rows = Driver(tmp_path), drawn(3, ROWS)
    left, other = ([Cell(driver.store, n, NUMBER, {}) for n in range(NUMBER)] for _ in "ab")
    reached = 0
    for header, given in steps(driver, rows, range(2, ROWS, 2)):
        taken = left if header["step"] in {1, 2, 30, 31, 46} else other
        if header["step"] == 30:
            reached = min(driver.store.logs(0))
        driver.note([taken[n].step(header, given[n]) for n in range(NUMBER)])
    assert reached > 3, "the log was cut"
    assert_whole(driver, rows)


def test_one_that_wakes_up_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that was given up long ago applies its step after all; nobody notices."""
    monkeypatch.setattr(cells, "LEAST_LOG", 2000)
    driver, rows = Driver(tmp_path), drawn(4, ROWS)
    drowsy: list[Cell] = []
    asleep, other = ([Cell(driver.store, n, NUMBER, {}) for n in range(NUMBER)] for _ in "ab")
    old: list[Any] = []
    for header, given in steps(driver, rows, range(2, ROWS, 2)):
        if header["step"] == 5:
            old = [(n, header, given[n]) for n in range(NUMBER)]
            drowsy = [Cell(driver.store, n, NUMBER, {}) for n in range(NUMBER)]
            for n in range(NUMBER):
                drowsy[n]._catch_up(4)
        for n, asked, kept in old if header["step"] in {6, 12} else []:
            assert asleep[n].step(asked, kept)["step"] == 5
        for n, asked, kept in old if header["step"] == 44 else []:
            assert 5 not in driver.store.logs(n)
            with pytest.raises(StateError, match="step 5 was done by another host"):
                drowsy[n].step(asked, kept)
            with pytest.raises(StateError, match="is at step"):
                Cell(driver.store, n, NUMBER, {}).step(asked, kept)
            assert 5 not in driver.store.logs(n)
        driver.note([other[n].step(header, given[n]) for n in range(NUMBER)])
        driver.store.forget_results(header["step"])
        assert set(driver.store.numbers("out")) <= {header["step"]}
    assert_whole(driver, rows)
