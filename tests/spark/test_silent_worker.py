"""A worker process that is stopped, not dead, is killed and replaced by the task that waits for it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.errors import StateError
from penstock.spark import worker_link, worker_process
from penstock.spark.checkpoint import Store
from penstock.spark.worker_link import Run, heartbeat, receive, send, wire_of, worker_timeout
from tests.spark.test_partition import NUMBER, Driver
from tests.spark.test_sessions import drawn

Deliver = Callable[[int], dict[str, Any]]


@pytest.fixture
def run() -> Run:
    return Run(timeout=10)


@pytest.fixture
def deliver(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deliver]:
    """Gives ten rows from a place on to cell 0, in a step of their own."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    monkeypatch.setattr(worker_process, "_keeper", os.getpid)
    driver, rows = Driver(tmp_path / "checkpoint"), drawn(1, 90)
    mark = worker_process.mark_of(driver.store.root, run.name)
    mark.parent.mkdir()
    mark.touch()

    def given(begin: int) -> dict[str, Any]:
        header = driver.header(flush=False)
        table = driver.routed({name: part[begin : begin + 10] for name, part in rows.items()})[0]
        return worker_process.deliver(
            run, str(driver.store.root), 0, NUMBER, header, table.to_batches(), b""
        )[0]

    yield given
    shutil.rmtree(mark.parent)


def worker(run: Run, base: Path) -> int:
    with worker_process.folder_of(base, run.name) as folder:
        return int((folder.path / "0.lock").read_text())


def test_it_is_replaced_and_nothing_is_lost(deliver: Deliver, run: Run, tmp_path: Path) -> None:
    first = deliver(0)
    stopped = worker(run, tmp_path)
    os.kill(stopped, signal.SIGSTOP)
    second = deliver(10)
    assert (first["step"], second["step"]) == (1, 2)
    assert worker(run, tmp_path) != stopped
    assert deliver(20)["step"] == 3
    assert Store(tmp_path / "checkpoint").logs(0) == [1, 2, 3]


def test_it_is_replaced_in_the_middle_of_a_step(
    deliver: Deliver, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deliver(0)
    stopped, sent = worker(run, tmp_path), threading.Event()
    told = worker_process.receive

    def stop_first(wire: Any) -> dict[str, Any]:
        """Just before the task begins to wait for its answer."""
        if not sent.is_set():
            sent.set()
            os.kill(stopped, signal.SIGSTOP)
        return told(wire)

    monkeypatch.setattr(worker_process, "receive", stop_first)
    assert deliver(10)["step"] == 2
    assert worker(run, tmp_path) != stopped


def test_heartbeats_carry_a_task_over_a_long_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_link, "HEARTBEAT", 0.05)
    task, worker = socket.socketpair()
    task.settimeout(2.0)
    done = threading.Event()

    def work() -> None:
        with worker, wire_of(worker) as wire:
            with heartbeat(worker):
                done.wait(20)
            send(wire, {"step": 7})

    thread = threading.Thread(target=work)
    thread.start()
    with task, wire_of(task) as wire:
        for _ in range(5):
            assert wire.read(4) == bytes(4)
        done.set()
        assert receive(wire) == {"step": 7}
    thread.join(20)


def test_a_busy_worker_answers_a_second_task(deliver: Deliver, run: Run, tmp_path: Path) -> None:
    """A task that connects and then says nothing keeps no other one waiting."""
    assert deliver(0)["step"] == 1
    with worker_process.folder_of(tmp_path, run.name) as folder, socket.socket(socket.AF_UNIX) as silent:
        silent.connect(folder.address("0.sock"))
        before = worker(run, tmp_path)
        assert deliver(10)["step"] == 2
        assert worker(run, tmp_path) == before


@pytest.mark.parametrize(("setting", "seconds"), [(None, 60.0), ("30", 30.0), ("30s", 30.0)])
def test_the_setting(setting: str | None, seconds: float) -> None:
    assert worker_timeout(setting) == seconds


@pytest.mark.parametrize("setting", ["0", "soon", "-5s", "1"])
def test_a_setting_that_cannot_be(setting: str) -> None:
    with pytest.raises(StateError, match=r"spark\.penstock\.worker\.timeout"):
        worker_timeout(setting)


def test_a_flow_goes_on_when_its_workers_are_stopped(spark: SparkSession, tmp_path: Path) -> None:
    spark = spark.newSession()
    spark.conf.set("spark.penstock.worker.timeout", "10s")
    session = penstock.connect(spark, checkpoint=str(tmp_path / "checkpoint"), cells=2)
    session.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
    got: list[int] = []
    query = session.query("SELECT x FROM a [RANGE 100] WHERE x > 0", name="q")
    query.foreach_batch(lambda frame, step: got.extend(row["x"] for row in frame.collect()))
    handle = session.start()
    try:
        for i in range(3):
            session.push("a", [{"ts": 10 * i + j, "x": 10 * i + j + 1} for j in range(10)])
            handle.processAllAvailable()
            for process in workers(tmp_path / "checkpoint"):
                os.kill(process, signal.SIGSTOP)
        session.push("a", [{"ts": 99, "x": 0}])
        handle.processAllAvailable()
    finally:
        handle.stop()
    assert sorted(got) == list(range(1, 31))


def workers(checkpoint: Path) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if "penstock.spark.worker_process" in line and f"\0{checkpoint}\0" in line:
                assert "blockmgr-" in line, "worker processes are reached in Spark's local directory"
                found.append(int(entry.name))
    assert found
    return found
