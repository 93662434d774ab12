"""Kill a running flow again and again: python -m tests.chaos.campaign --kills 500 [--seed 0]

While rows come in, a host, a Python worker, or Spark and its driver are killed at random moments. In the end the sinks must
hold exactly the changes of one undisturbed embedded engine: none lost, none twice.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import penstock
from penstock.runtime.spark.frames import drop_file

from .job import DECLARED, QUERIES

ROWS = 40
"""Of each stream in one file."""


def drawn(rng: random.Random, first: int) -> dict[str, list[dict[str, Any]]]:
    """Rows of one file of each stream: times never meet in `a`, and stray a little in `b`."""
    made: dict[str, list[dict[str, Any]]] = {"a": [], "b": []}
    for i in range(first * ROWS, (first + 1) * ROWS):
        made["a"].append({"ts": 2 * i, "x": rng.randrange(12), "y": rng.randrange(3), "s": rng.choice("pqr")})
        made["b"].append({"ts": 2 * i + rng.randrange(3), "x": rng.randrange(12), "d": rng.random()})
    return made


def processes(having: str) -> list[int]:
    """Processes whose command line has this text."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if having in line and int(entry.name) != os.getpid():
                found.append(int(entry.name))
    return found


def children(process: int) -> list[int]:
    """All processes below one."""
    below: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            below.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    left = list(below.get(process, []))
    while left:
        found.append(left.pop())
        left += below.get(found[-1], [])
    return found


def kill(process: int) -> bool:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


class Campaign:
    """One checkpoint, one job that is started again whenever it is gone; on a Spark of its own unless a master is named."""

    def __init__(self, folder: Path, seed: int, master: str | None = None) -> None:
        self.checkpoint, self.out = folder / "checkpoint", folder / "out"
        self.out.mkdir(parents=True)
        self.rng = random.Random(seed)
        self.here = penstock.connect()
        self.here.execute(DECLARED)
        self.queries = {name: self.here.query(text, name=name) for name, text in QUERIES.items()}
        self.files = 0
        self.master = [] if master is None else [master]
        self.kills: Counter[str] = Counter()
        self.log = folder / "job.log"
        self.job = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.chaos.job", str(self.checkpoint), str(self.out), *self.master]
        with self.log.open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def feed(self) -> None:
        """One more file of each stream."""
        for name, rows in drawn(self.rng, self.files).items():
            self.here.push(name, rows)
            schema = {
                "a": [("ts", pa.int64()), ("x", pa.int32()), ("y", pa.int32()), ("s", pa.string())],
                "b": [("ts", pa.int64()), ("x", pa.int32()), ("d", pa.float64())],
            }[name]
            drop_file(self.checkpoint / "pushed" / name, pa.Table.from_pylist(rows, schema=pa.schema(schema)))
        self.files += 1

    def wait_for_progress(self) -> None:
        """Most blows fall on a flow at work: wait for a step, or a while."""
        before, until = self.steps(), time.monotonic() + self.rng.choice([0.5, 30, 30, 30])
        while time.monotonic() < until and self.steps() == before and self.job.poll() is None:
            time.sleep(0.02)

    def steps(self) -> int:
        place = self.checkpoint / "steps"
        return len(list(place.iterdir())) if place.is_dir() else 0

    def strike(self) -> None:
        """Kill something that lives."""
        what = self.rng.choices(["host", "worker", "everything"], [6, 5, 1])[0]
        if what == "host":
            victims = processes("penstock.runtime.spark.host")
            victims = [v for v in victims if str(self.checkpoint) in _line(v)]
        elif what == "worker":
            victims = [v for v in children(self.job.pid) if "-m pyspark." in _line(v)]
        else:
            victims = [self.job.pid, *children(self.job.pid)]
            victims = [v for v in victims if "penstock.runtime.spark.host" not in _line(v)]
        if what == "everything":
            if sum(map(kill, victims)):
                self.kills[what] += 1
            self.job.wait()
        elif victims and kill(self.rng.choice(victims)):
            self.kills[what] += 1
        if self.job.poll() is not None:
            self.job = self.start()

    def end(self) -> None:
        """Let the job read what is left and leave by itself."""
        (self.out / "end").touch()
        until, seen = time.monotonic() + 600, (self.steps(), time.monotonic())
        while time.monotonic() < until:
            code = self.job.poll()
            if code == 0:
                return
            if self.steps() != seen[0]:
                seen = self.steps(), time.monotonic()
            elif time.monotonic() - seen[1] > 90 and code is None:
                # Spark's own thread can die without a word: what a supervisor would do.
                for process in [*children(self.job.pid), self.job.pid]:
                    kill(process)
                code, seen = self.job.wait(), (seen[0], time.monotonic())
            if code is not None:
                self.job = self.start()
            time.sleep(0.2)
        raise TimeoutError("the job does not end")

    def differences(self) -> list[str]:
        self.here.advance(max(2 * self.files * ROWS + 2, 0))
        newest = self.newest()
        told = []
        for name, query in self.queries.items():
            table = query.changes()
            expected = Counter(tuple(row.values()) for row in table.to_pylist() if row["__ts"] <= newest)
            files = sorted((self.out / name).glob("step-*.parquet"))
            got: Counter[Any] = Counter()
            for file in files:
                got.update(
                    tuple(row[c] for c in table.column_names) for row in pq.read_table(file).to_pylist()
                )
            if got != expected:
                lost, more = expected - got, got - expected
                told.append(
                    f"{name}: {lost.total()} lost, {more.total()} too many, e.g. {next(iter(lost or more))}"
                )
        return told

    def newest(self) -> int:
        """The last instant that the end of the input makes known."""
        times = [
            pq.read_table(f, columns=["ts"])["ts"] for f in (self.checkpoint / "pushed").rglob("*.parquet")
        ]
        return max(max(t.to_pylist()) for t in times)


def _line(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def run(kills: int, seed: int, folder: Path) -> Campaign:
    """A whole campaign; raises if the job cannot be brought to its end."""
    campaign = Campaign(folder, seed)
    try:
        while campaign.kills.total() < kills:
            campaign.feed()
            campaign.wait_for_progress()
            time.sleep(campaign.rng.uniform(0.0, 0.6))
            campaign.strike()
        campaign.end()
    finally:
        for process in [*children(campaign.job.pid), campaign.job.pid]:
            kill(process)
        campaign.job.wait()
    return campaign


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-chaos-", ignore_cleanup_errors=True) as folder:
        began = time.perf_counter()
        campaign = run(arguments.kills, arguments.seed, Path(folder))
        told = campaign.differences()
        print(*told, sep="\n")
        print(f"{campaign.kills.total()} kills {dict(campaign.kills)}, {campaign.files} files,"
              f" {len(told)} queries differ, {time.perf_counter() - began:.0f} s")  # fmt: skip
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
