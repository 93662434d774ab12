"""Jobs as a new user writes them, on Spark as it comes: killed with SIGKILL, started again, answers compared.

Each job is a process of its own with a plain local Spark and its default catalog, which forgets its tables.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

import penstock
from tests import needed

PLAIN_SPARK = """
from pyspark.sql import SparkSession
import penstock
spark = SparkSession.builder.master("local[2]").getOrCreate()
"""
PATIENCE = 300
"""Seconds after which a job that shows nothing new has failed."""


class Job:
    """A program that is started, killed and started again in one directory."""

    def __init__(self, folder: Path, code: str) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "job.py").write_text(PLAIN_SPARK + code, encoding="utf-8")

    def start(self) -> None:
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "job.py"],
                cwd=self._folder,
                env={**os.environ, "PYSPARK_PYTHON": sys.executable},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self) -> None:
        """Python and its Java together."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def wait_until(self, shows: Callable[[], bool]) -> None:
        assert self._process is not None
        until = time.monotonic() + PATIENCE
        while not shows():
            log = (self._folder / "log").read_text(errors="replace")[-5_000:]
            assert self._process.poll() is None, log
            assert time.monotonic() < until, log
            time.sleep(0.1)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Callable[[str], Job]]:
    needed.java()
    made: list[Job] = []

    def make(code: str) -> Job:
        made.append(Job(tmp_path, code))
        return made[-1]

    yield make
    for one in made:
        one.kill()


def shown(folder: Path) -> list[tuple[Any, ...]]:
    """The rows of a view's one file; none if there is no view yet."""
    files = list(folder.glob("current.*"))
    found = ds.dataset(files, format="parquet").to_table().to_pylist() if files else []
    return sorted(tuple(row.values()) for row in found)


def add_file(folder: Path, rows: list[dict[str, Any]]) -> None:
    """A file that appears whole."""
    folder.mkdir(exist_ok=True)
    name = f"{len(list(folder.iterdir()))}.json"
    made = folder.parent / name
    made.write_text("".join(json.dumps(row) + "\n" for row in rows))
    made.rename(folder / name)


@pytest.mark.slow
def test_the_job_of_the_readme(job: Callable[[str], Job], tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    _, code = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    here = penstock.connect()
    here.execute("CREATE STREAM orders (ts BIGINT, item STRING, qty INT) WATERMARK ts DELAY OF INTERVAL 0")
    sold = here.query("SELECT item, SUM(qty) AS n FROM orders [RANGE 100] GROUP BY item", name="sold")

    def order(part: int) -> None:
        rows = [
            {"ts": t, "item": "cup" if t % 3 else "pot", "qty": t % 5}
            for t in range(40 * part, 40 * part + 40)
        ]
        here.push("orders", rows)
        add_file(tmp_path / "orders", rows)

    def is_right() -> bool:
        answer = sorted(tuple(row.values()) for row in sold.snapshot().to_pylist())
        return shown(tmp_path / "spark-warehouse" / "sold") == answer

    running = job(code.replace("/data", str(tmp_path)))
    order(0)
    running.start()
    running.wait_until(is_right)
    order(1)  # the kill comes in the middle of this one
    running.kill()
    running.start()
    running.wait_until(is_right)
    running.kill()
    order(2)
    order(3)
    running.start()
    running.wait_until(is_right)


RATE = """
s = penstock.connect(spark, checkpoint="checkpoint")
ticks = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
s.create_stream("ticks", ticks, time="timestamp")
s.query("SELECT value FROM ticks", name="every").write(path="every").to_table("every_tick")
thirds = s.query("SELECT value % 3 AS k, COUNT(*) AS n FROM ticks [RANGE 1 HOURS] GROUP BY value % 3", name="thirds")
thirds.to_table("thirds", mode="view")
s.start(trigger={"processingTime": "1 second"}).awaitTermination()
"""


@pytest.mark.slow
def test_a_job_on_the_rate_source(job: Callable[[str], Job], tmp_path: Path) -> None:
    """The source numbers its rows: none may be missing and none may be there twice."""

    def values(folder: Path) -> list[int]:
        files = list(folder.glob("step-*.parquet"))
        found = ds.dataset(files, format="parquet").to_table(["value"]) if files else None
        return [] if found is None else sorted(found.column("value").to_pylist())

    places = [tmp_path / "every", tmp_path / "spark-warehouse" / "every_tick"]
    running = job(RATE)
    seen = -1

    def goes_on() -> bool:
        counted = sum(n for _, n in shown(tmp_path / "spark-warehouse" / "thirds"))
        return counted > seen + 1 and all(max(values(place), default=-1) > seen + 100 for place in places)

    for _ in range(3):
        running.start()
        running.wait_until(goes_on)
        running.kill()
        for place in places:
            found = values(place)
            assert len(set(found)) == len(found), f"twice in {place}"
            assert set(range(seen + 1)) <= set(found), f"missing in {place}"
        seen = max(max(values(place)) for place in places)
    counts = shown(tmp_path / "spark-warehouse" / "thirds")
    total = sum(n for _, n in counts)
    assert counts == [(k, len(range(k, total, 3))) for k in range(3)]
