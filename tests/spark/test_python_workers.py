"""Python workers of Spark's that are stopped or die in the middle of a step: the flow goes on by itself, nothing is lost or doubled."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import penstock
from penstock.spark.python_workers import LOOKS, PythonWorkers
from penstock.spark.tasks import spark_process
from tests.chaos.processes import children, command_line

DAEMON = """
import os, time
busy = os.fork()
if not busy:
    while True: pass
idle = os.fork()
if not idle: time.sleep(600)
print(busy, idle, flush=True)
time.sleep(600)
"""


class Tree:
    """A daemon below this process, as Spark starts it, with a worker that computes and one that waits."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", DAEMON, "pyspark.daemon", "pyspark.worker"]
        self.daemon = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert self.daemon.stdout is not None
        with self.daemon.stdout as lines:
            self.busy, self.idle = map(int, lines.readline().split())


@pytest.fixture
def tree() -> Iterator[Tree]:
    made = Tree()
    yield made
    os.killpg(made.daemon.pid, signal.SIGKILL)
    made.daemon.wait()


def state(process: int) -> str:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return "gone"


def parent(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except FileNotFoundError:
        return 0


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


def stop(*processes: int) -> None:
    """All before the next look."""
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    wait_until(lambda: all(state(process) == "T" for process in processes))


def test_a_worker_that_is_stopped_for_the_timeout_is_killed(tree: Tree) -> None:
    workers = PythonWorkers(os.getpid(), 10)
    stop(tree.busy)
    assert [workers.look() for _ in range(LOOKS)] == [[]] * LOOKS
    assert workers.look() == [tree.busy]
    wait_until(lambda: state(tree.busy) in ("gone", "Z"))
    assert workers.look() == []
    assert state(tree.idle) == "S"


def test_workers_that_compute_or_wait_are_left_alone(tree: Tree) -> None:
    workers = PythonWorkers(os.getpid(), 10)
    assert [workers.look() for _ in range(5 * LOOKS)] == [[]] * (5 * LOOKS)
    assert {state(tree.busy), state(tree.idle)} <= {"R", "S"}


def test_a_worker_that_went_on_meanwhile_gets_its_full_time_again(tree: Tree) -> None:
    workers = PythonWorkers(os.getpid(), 10)
    for _ in range(3):
        stop(tree.idle)
        assert [workers.look() for _ in range(LOOKS)] == [[]] * LOOKS
        os.kill(tree.idle, signal.SIGCONT)
        wait_until(lambda: state(tree.idle) == "S")
        assert workers.look() == []


def test_a_stopped_daemon_is_killed_too(tree: Tree) -> None:
    workers = PythonWorkers(os.getpid(), 10)
    stop(tree.daemon.pid, tree.idle)
    assert [workers.look() for _ in range(LOOKS)] == [[]] * LOOKS
    assert sorted(workers.look()) == sorted([tree.daemon.pid, tree.idle])
    assert tree.daemon.wait(60) == -signal.SIGKILL


def test_workers_of_another_spark_are_left_alone(tree: Tree) -> None:
    workers = PythonWorkers(os.getppid(), 10)
    stop(tree.idle)
    assert [workers.look() for _ in range(2 * LOOKS)] == [[]] * (2 * LOOKS)


# ---------------------------------------------------------------------- flows


def python_workers(spark: SparkSession, *, daemons: bool = False) -> list[int]:
    """What Spark's daemons have forked, or those and the daemons themselves."""
    java = spark_process(spark)
    found = [process for process in children(java) if "-m pyspark.daemon" in command_line(process)]
    return [process for process in found if daemons or parent(process) != java]


class Flow:
    """Two cells; rows whose `x` is below 0 hold up the step that they come with until the file `go` is there."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.begun, self.go = folder / "begun", folder / "go"
        begun, go = str(self.begun), str(self.go)

        def hold(x: int) -> int:
            if x < 0:
                Path(begun).touch()
                while not Path(go).exists():
                    time.sleep(0.02)
            return abs(x)

        self.session = penstock.connect(spark, checkpoint=str(folder / "checkpoint"), cells=2)
        self.session.create_function("hold", hold, returns="INT")
        self.session.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
        self.query = self.session.query("SELECT hold(x) AS x FROM a [RANGE 1000]", name="q")
        self.got: dict[int, list[int]] = {}
        self.query.foreach_batch(self.take)

    def take(self, frame: DataFrame, step: int) -> None:
        assert step not in self.got, "no sink has a step twice"
        self.got[step] = [row["x"] for row in frame.collect()]

    @property
    def rows(self) -> list[int]:
        return sorted(x for part in self.got.values() for x in part)

    def push(self, *values: int) -> None:
        self.session.push("a", [{"ts": abs(x), "x": x} for x in values])


@pytest.fixture
def hasty(spark: SparkSession) -> SparkSession:
    """The tests' Spark, which does not repeat tasks, with a short timeout."""
    made = spark.newSession()
    made.conf.set("spark.penstock.worker.timeout", "10s")
    return made


@pytest.mark.parametrize("daemon", [False, True], ids=["workers", "workers and daemon"])
def test_a_flow_whose_python_workers_are_stopped_in_the_middle_of_a_step(
    daemon: bool, hasty: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    flow = Flow(hasty, tmp_path)
    handle = flow.session.start()
    try:
        flow.push(*range(1, 11))
        handle.processAllAvailable()
        flow.push(-11, *range(12, 21))
        wait_until(flow.begun.exists)
        stopped = python_workers(hasty, daemons=daemon)
        stop(*stopped)
        flow.go.touch()
        flow.push(*range(21, 31))
        handle.processAllAvailable()
        flow.push(31)
        handle.processAllAvailable()
    finally:
        handle.stop()
    assert flow.rows == list(range(1, 31))
    assert stopped and not set(stopped) & set(python_workers(hasty, daemons=True))
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    for number in stopped:
        assert any(f"(process {number}) has been stopped" in line for line in warnings)


def test_a_flow_whose_python_workers_die_in_the_middle_of_a_step(
    hasty: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    flow = Flow(hasty, tmp_path)
    handle = flow.session.start()
    try:
        flow.push(-1, *range(2, 11))
        wait_until(flow.begun.exists)
        for process in python_workers(hasty):
            os.kill(process, signal.SIGKILL)
        flow.go.touch()
        handle.processAllAvailable()
        flow.push(11)
        handle.processAllAvailable()
    finally:
        handle.stop()
    assert flow.rows == list(range(1, 11))
    assert "a Python worker of Spark's died; step" in caplog.text
