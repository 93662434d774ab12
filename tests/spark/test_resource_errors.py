"""A worker process that gets no more memory or threads ends, and another takes its step over."""

from __future__ import annotations

import errno
import resource
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import StateError
from penstock.operators.pipeline import Pipeline
from penstock.spark.checkpoint import Store
from penstock.spark.partition import Cell
from penstock.spark.resource_errors import is_shortage
from penstock.spark.worker_link import Run
from tests.spark.test_partition import NUMBER, Driver
from tests.spark.test_sessions import drawn
from tests.spark.test_silent_worker import Deliver, deliver, run, worker  # noqa: F401 - fixtures


def caused(error: Exception) -> StateError:
    try:
        raise StateError("a file cannot be read") from error
    except StateError as made:
        return made


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        pa.ArrowMemoryError("malloc of size 64 failed"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        RuntimeError("can't start new thread"),
        pa.ArrowException("Failed to launch worker thread: Resource temporarily unavailable"),
        caused(MemoryError()),
    ],
)
def test_what_is_one(error: Exception) -> None:
    assert is_shortage(error)


@pytest.mark.parametrize(
    "error", [None, ValueError("x"), OSError(errno.ENOSPC, "No space left"), caused(ValueError())]
)
def test_what_is_none(error: Exception | None) -> None:
    assert not is_shortage(error)


def test_a_worker_without_memory_is_replaced(deliver: Deliver, run: Run, tmp_path: Path) -> None:  # noqa: F811
    assert deliver(0)["step"] == 1
    short = worker(run, tmp_path)
    size = int(Path(f"/proc/{short}/statm").read_text().split()[0]) * resource.getpagesize()
    resource.prlimit(short, resource.RLIMIT_AS, (size, size))
    second = deliver(10)
    assert (second["step"], second["failed"]) == (2, {})
    assert worker(run, tmp_path) != short
    assert Store(tmp_path / "checkpoint").logs(0) == [1, 2]


@pytest.mark.parametrize("takes", [False, True])
def test_a_query_without_memory_fails_only_in_the_last_attempt(
    takes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver(tmp_path)
    cell = Cell(driver.store, 0, NUMBER, {})
    cell.takes_shortages = takes
    header = driver.header(flush=True)
    rows = driver.routed(drawn(1, 30))[0]

    def refused(*_: Any) -> Any:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(Pipeline, "step", refused)
        if takes:
            assert cell.step(header, rows)["failed"]
            return
        with pytest.raises(StateError) as raised:
            cell.step(header, rows)
        assert is_shortage(raised.value)
    assert cell.version == 0, "as if the step had not been tried"
    assert cell.step(header, rows)["failed"] == {}
