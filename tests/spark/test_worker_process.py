"""A worker process leaves when no task can want it any more."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.spark import worker_process
from penstock.spark.checkpoint import Store
from tests.spark.test_python_workers import Tree, state, stop, tree, wait_until  # noqa: F401 - a fixture

FLOW = f"leaving-{uuid.uuid4().hex[:8]}"
"""Tests may run in several processes."""


@pytest.fixture
def keeper() -> Iterator[subprocess.Popen[bytes]]:
    """What stands for Spark's process."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        yield process
        process.kill()


@pytest.fixture
def started(tmp_path: Path, keeper: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    with running(tmp_path, keeper.pid) as process:
        yield process


@contextlib.contextmanager
def running(tmp_path: Path, keeper: int, timeout: float = 0) -> Iterator[subprocess.Popen[bytes]]:
    """A worker process; with a timeout it watches the Python workers below its keeper."""
    Store(tmp_path).open(1)
    mark = worker_process.mark_of(tmp_path, FLOW)
    mark.parent.mkdir()
    mark.touch()
    with worker_process.folder_of(tmp_path, FLOW) as folder:
        command = [sys.executable, "-m", "penstock.spark.worker_process", str(tmp_path), FLOW, str(tmp_path)]
        given = [*command, "0", "1", str(keeper), str(timeout)]
        with subprocess.Popen(given, stdin=subprocess.DEVNULL) as process:
            until = time.monotonic() + 60
            while not folder.exists("0.sock"):
                assert process.poll() is None and time.monotonic() < until
                time.sleep(0.02)
            yield process
            process.kill()


def test_it_stays_as_long_as_it_is_wanted(started: subprocess.Popen[bytes]) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        started.wait(3)


def test_it_leaves_with_its_keeper(
    started: subprocess.Popen[bytes], keeper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    keeper.kill()
    assert started.wait(20) == 0
    assert not list(tmp_path.glob("penstock-*/*")), "it removes what it made"


def test_it_leaves_when_the_driver_takes_its_mark_back(
    started: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    worker_process.mark_of(tmp_path, FLOW).unlink()
    assert started.wait(20) == 0


def test_it_leaves_when_its_socket_is_gone(started: subprocess.Popen[bytes], tmp_path: Path) -> None:
    with worker_process.folder_of(tmp_path, FLOW) as folder:
        folder.unlink("0.sock")
    assert started.wait(20) == 0


def test_it_kills_a_stopped_python_worker_of_its_keeper(
    tree: Tree,  # noqa: F811 - the fixture
    tmp_path: Path,
) -> None:
    stop(tree.idle)
    with running(tmp_path, os.getpid(), timeout=2.0):
        wait_until(lambda: state(tree.idle) in ("gone", "Z"))
        assert state(tree.busy) in ("R", "S")
