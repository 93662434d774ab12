"""Power cuts under a running flow: python -m tests.powercut.campaign --cuts 2000 [--seed 0]

Checkpoint and results lie on a file system that forgets what was not synced (`volatile`). While rows
come in, the power fails at a random operation on files of the driver, a cell, a sink or Spark
itself; then the flow is started again on what a cut may have left. In the end the sinks must hold
exactly the changes of one undisturbed engine. A flow that cannot go on, or hangs, is a failure.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import penstock
from penstock.spark import partition
from penstock.spark.handle import Handle
from penstock.spark.local import local_spark
from tests.chaos.campaign import drawn
from tests.chaos.job import QUERIES, declared
from tests.chaos.processes import kill, workers
from tests.powercut.mounted import Volatile, mounted
from tests.powercut.volatile import Loss

LONGEST_RUN = 400
"""Operations on files between two cuts, at most; a step takes some fifty."""
PATIENCE = 180.0
"""Seconds within which a flow must go on."""
VIEWS = ("sums", "joined")
"""Queries whose current answer is kept too."""
LOSSES = (Loss.SOME, Loss.SOME, Loss.ALL, Loss.NONE)


class Stuck(AssertionError):
    """A flow that does not go on after a power cut."""


class PowerCuts:
    """One checkpoint, started again after every cut by one Spark."""

    def __init__(self, spark: SparkSession, disk: Volatile, folder: Path, seed: int) -> None:
        self.spark = spark
        self.disk = disk
        self.rng = random.Random(seed)
        self.checkpoint, self.out = disk.place / "checkpoint", disk.place / "out"
        self.input = folder / "in"
        for name in "ab":
            (self.input / name).mkdir(parents=True)
        self.here = penstock.connect()
        self.here.execute(declared())
        self.queries = {name: self.here.query(text, name=name) for name, text in QUERIES.items()}
        self.files = self.newest = 0
        self.cuts: Counter[str] = Counter()
        self.answers: dict[str, Any] = {}

    def feed(self) -> None:
        """One more file of each stream, which no power cut takes away."""
        for name, rows in drawn(self.rng, self.files).items():
            self.here.push(name, rows)
            self.newest = max(self.newest, *(row["ts"] for row in rows))
            place = self.input / name / f"{self.files:06d}.json"
            making = place.with_name(f".{place.name}")
            making.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
            making.rename(place)
        self.files += 1

    def start(self, trigger: dict[str, Any]) -> Handle:
        session = penstock.connect(self.spark, checkpoint=str(self.checkpoint), cells=2)
        session.execute(declared(self.input))
        for name, text in QUERIES.items():
            query = session.query(text, name=name)
            query.write(format="parquet", path=str(self.out / name))
            if name in VIEWS:
                query.write(format="parquet", path=str(self.out / f"{name}-view"), mode="view")
        handle = session.start(trigger=trigger)
        assert isinstance(handle, Handle)
        return handle

    def run_until_cut(self) -> None:
        """Start, feed, lose power at some operation, and come up with what is left."""
        self.disk.cut_after(self.rng.randrange(1, LONGEST_RUN))
        handle: Handle | None = None
        began = time.monotonic()
        try:
            handle = self.start({"processingTime": "0 seconds"})
            while not self.disk.is_off:
                self.feed()
                self._wait_for_step(handle, began)
        except Exception as error:  # Spark has many kinds of its own
            if not self.disk.is_off:
                raise Stuck(f"after {self.cuts.total()} cuts: {error}") from error
        finally:
            self.disk.cut()
            self._stop(handle)
        loss = self.rng.choice(LOSSES)
        self.cuts[loss.value] += 1
        self.disk.power_on(loss, self.rng.randrange(1 << 30))

    def _wait_for_step(self, handle: Handle, began: float) -> None:
        seen = len(handle.recentProgress)
        until = time.monotonic() + self.rng.choice((0.2, PATIENCE))
        while not self.disk.is_off and time.monotonic() < until:
            if not handle.isActive:
                handle.awaitTermination()
            if len(handle.recentProgress) > seen:
                return
            if time.monotonic() - began > PATIENCE and not seen:
                raise Stuck(f"after {self.cuts.total()} cuts: no step within {PATIENCE:.0f} s")
            time.sleep(0.02)

    def _stop(self, handle: Handle | None) -> None:
        """The machine is off: nothing of the run goes on."""
        for process in workers(self.checkpoint):
            kill(process)
        if handle is not None:
            with contextlib.suppress(OSError):  # its mark in the checkpoint cannot be removed
                handle.stop()

    def end(self) -> None:
        """Read what is left, without a cut."""
        handle = self.start({"availableNow": True})
        if not handle.awaitTermination(PATIENCE):
            raise Stuck(f"after {self.cuts.total()} cuts: the flow does not end")

    def differences(self) -> list[str]:
        """By query, what the sinks have too few and too many."""
        self.here.advance(self.newest)
        self.answers = {name: self.queries[name].snapshot() for name in VIEWS}
        found = []
        for name, query in self.queries.items():
            table = query.changes()
            expected = Counter(tuple(row.values()) for row in table.to_pylist())
            got: Counter[Any] = Counter()
            for file in sorted((self.out / name).glob("step-*.parquet")):
                rows = pq.read_table(file).to_pylist()
                got.update(tuple(row[c] for c in table.column_names) for row in rows)
            if got != expected:
                lost, more = expected - got, got - expected
                example = next(iter(lost or more))
                found.append(f"{name}: {lost.total()} lost, {more.total()} too many, e.g. {example}")
        return found + self._views_that_differ()

    def _views_that_differ(self) -> list[str]:
        """Views against the answer at the last instant, by all changes until then."""
        found = []
        for name in VIEWS:
            expected = Counter(tuple(row.values()) for row in self.answers[name].to_pylist())
            shown = pq.read_table(self.out / f"{name}-view" / "current.parquet")
            got = Counter(tuple(row.values()) for row in shown.to_pylist())
            if got != expected:
                found.append(f"the view of {name}: {shown.num_rows} rows, {expected.total()} expected")
        return found


def run(spark: SparkSession, cuts: int, seed: int, folder: Path) -> tuple[PowerCuts, list[str]]:
    """A whole campaign and its differences."""
    partition.LEAST_LOG = 4000  # states are written often
    with mounted(folder / "disk") as disk:
        campaign = PowerCuts(spark, disk, folder, seed)
        began = time.monotonic()
        while campaign.cuts.total() < cuts:
            campaign.run_until_cut()
            if campaign.cuts.total() % 20 == 0:
                sys.stderr.write(f"{campaign.cuts.total()} cuts, {time.monotonic() - began:.0f} s\n")
        campaign.end()
        return campaign, campaign.differences()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cuts", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-cuts-", ignore_cleanup_errors=True) as folder:
        began = time.perf_counter()
        campaign, differ = run(local_spark("local[2,8]", "power cuts"), given.cuts, given.seed, Path(folder))
        print(*differ, sep="\n")
        print(f"{campaign.cuts.total()} power cuts {dict(campaign.cuts)}, {campaign.files} files a stream,"
              f" {len(differ)} queries differ; {time.perf_counter() - began:.0f} s")  # fmt: skip
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
