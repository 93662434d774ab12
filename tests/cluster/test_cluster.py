"""On a cluster of two workers, which stand for two machines; one of them is lost."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from scripts.cluster import Cluster

from tests import needed
from tests.chaos.campaign import Campaign
from tests.chaos.processes import children, command_line, kill, processes, send

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    needed.java()
    with Cluster(workers=2) as made:
        yield made


def test_the_demo_ends_with_every_answer_right(cluster: Cluster, tmp_path: Path) -> None:
    asked = ["demo", "--spark", cluster.master, "--checkpoint", str(tmp_path)]
    ran = subprocess.run(
        [sys.executable, "-m", "penstock", *asked], capture_output=True, text=True, check=False, timeout=600
    )
    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert "every answer equal to a recomputation" in " ".join(ran.stdout.split())
    assert list(tmp_path.iterdir()) == []
    assert [app["name"] for app in cluster.status()["completedapps"]] == ["penstock demo"]


def test_a_flow_goes_on_when_python_workers_are_stopped(cluster: Cluster, tmp_path: Path) -> None:
    """On machines other than the driver's the hosts notice it."""
    campaign = Campaign(tmp_path, 4, cluster.master)
    try:
        campaign.feed()
        until(lambda: done(campaign) >= 2, campaign.feed)
        stopped = [
            process
            for number in range(2)
            for executor in cluster.executors(number)
            for process in children(executor)
            if "-m pyspark." in command_line(process)
        ]
        assert stopped
        for process in stopped:
            send(process, signal.SIGSTOP)
        at = campaign.steps()
        until(lambda: done(campaign) >= at + 3, campaign.feed)
        campaign.end()
        left = [process for process in stopped if "-m pyspark." in command_line(process)]
    finally:
        campaign.close()
    assert left == []
    assert campaign.differences() == []
    assert "again after" not in campaign.log.read_text(), "the flow went on without a restart"
    until(lambda: not processes(str(campaign.checkpoint)))


def test_a_flow_goes_on_when_a_worker_is_lost(cluster: Cluster, tmp_path: Path) -> None:
    """In the middle of a step, while rows keep coming; nobody helps."""
    campaign = Campaign(tmp_path, 3, cluster.master)
    try:
        campaign.feed()
        until(lambda: done(campaign) >= 2, campaign.feed)
        assert all(hosts(cluster, number) for number in range(2)), "each executor has hosts"
        campaign.feed()
        until(lambda: campaign.steps() > done(campaign), pause=0.005)
        at = campaign.steps()
        cluster.kill(0)
        until(lambda: done(campaign) >= at + 3, campaign.feed)
        campaign.end()
    finally:
        for process in [*children(campaign.job.pid), campaign.job.pid]:
            kill(process)
        campaign.job.wait()
    assert campaign.differences() == []
    assert "again after" not in campaign.log.read_text(), "nobody started the flow again"
    assert [worker["state"] for worker in cluster.status()["workers"]].count("ALIVE") == 1
    until(lambda: not processes(str(campaign.checkpoint)))  # the hosts leave


def until(
    found: Callable[[], bool], meanwhile: Callable[[], None] = lambda: None, pause: float = 1.0
) -> None:
    """Do something again and again until something is so."""
    end = time.monotonic() + 240
    while not found():
        assert time.monotonic() < end, "it does not come"
        meanwhile()
        time.sleep(pause)


def done(campaign: Campaign) -> int:
    """Steps that all cells have answered."""
    place = campaign.checkpoint / "done"
    return len(list(place.glob("[0-9]*"))) if place.is_dir() else 0


def hosts(cluster: Cluster, number: int) -> list[int]:
    """Hosts that were started for a worker's executors."""
    found = processes("penstock.spark.worker_process")
    return [
        pid for executor in cluster.executors(number) for pid in processes(f" {executor} ") if pid in found
    ]
