"""Kill a running flow again and again: python -m tests.chaos.campaign --kills 500 [--seed 0] [--source json]

While rows come in, a host, a Python worker, or Spark and its driver are killed at random moments; now and then a bit of the newest state or of the
log flips as well. In the end the sinks must hold exactly the changes of one undisturbed embedded engine: none lost, none twice. What is pushed
lies in parquet files: most are read by the cells, some are of a kind that only Spark reads as declared, so that both ways
follow each other in one flow. With `json` Spark reads all.
"""

from __future__ import annotations

import argparse
import json
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

from . import damage
from .job import CELLS, QUERIES, declared

ROWS = 40
"""Of each stream in one file."""
ODD = 25
"""Of so many pushed files one is such as only Spark reads as declared; its batch, often of several files, is Spark's."""
BLOWS = {"host": 8, "worker": 6, "everything": 0.5, "state": 0.5, "log": 0.25}
"""How often what is struck; a new Spark takes as long as twenty new hosts."""
PATIENCE = 240.0
"""Seconds until a flow must have said that its log is damaged."""


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

    def __init__(self, folder: Path, seed: int, master: str | None = None, source: str = "pushed") -> None:
        self.checkpoint, self.out = folder / "checkpoint", folder / "out"
        self.out.mkdir(parents=True)
        self.rng = random.Random(seed)
        self.here = penstock.connect()
        self.here.execute(declared())
        self.queries = {name: self.here.query(text, name=name) for name, text in QUERIES.items()}
        self.files = self.newest = 0
        self.source = source
        for name in "ab":
            (self.out / "in" / name).mkdir(parents=True)
        self.master = [] if master is None else [master]
        self.kills: Counter[str] = Counter()
        self.damaged: Counter[str] = Counter()
        self.undetected: list[str] = []
        """Damage of which nobody spoke."""
        self.log = folder / "job.log"
        self.job = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        command = [
            sys.executable,
            "-m",
            "tests.chaos.job",
            str(self.checkpoint),
            str(self.out),
            self.source,
            *self.master,
        ]
        with self.log.open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def feed(self) -> None:
        """One more file of each stream; of pushed ones some have a column of fewer bits than declared, which is left to Spark."""
        for name, rows in drawn(self.rng, self.files).items():
            self.here.push(name, rows)
            self.newest = max(self.newest, *(row["ts"] for row in rows))
            if self.source == "json":
                place = self.out / "in" / name / f"{self.files:06d}.json"
                making = place.with_name(f".{place.name}")
                making.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
                making.rename(place)
                continue
            x = pa.int16() if self.files % ODD == 3 else pa.int32()
            schema = {
                "a": [("ts", pa.int64()), ("x", x), ("y", pa.int32()), ("s", pa.string())],
                "b": [("ts", pa.int64()), ("x", x), ("d", pa.float64())],
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
        what = self.rng.choices(list(BLOWS), list(BLOWS.values()))[0]
        if what == "everything":
            victims = [self.job.pid, *children(self.job.pid)]
            victims = [v for v in victims if "penstock.runtime.spark.host" not in _line(v)]
            if sum(map(kill, victims)):
                self.kills[what] += 1
            self.job.wait()
        elif what == "worker":
            victims = [v for v in children(self.job.pid) if "-m pyspark." in _line(v)]
            if victims and kill(self.rng.choice(victims)):
                self.kills[what] += 1
        elif what == "host":
            self._kill_host(self.rng.randrange(CELLS))
        else:
            self._damage(what, self.rng.randrange(CELLS))
        if self.job.poll() is not None:
            self.job = self.start()

    def _kill_host(self, cell: int) -> bool:
        """Of this cell; more than one may be there for a moment."""
        place = f"{self.checkpoint} {cell} "
        victims = [v for v in processes("penstock.runtime.spark.host") if place in _line(v)]
        killed = sum(map(kill, victims))
        self.kills["host"] += killed
        return killed > 0

    def _damage(self, kind: str, cell: int) -> None:
        """Flip a bit and kill the host, so that the file is read. Of states an older one is taken; a log is refused, and then mended."""
        place = damage.newest(self.checkpoint, cell, kind)
        if place is None:
            return
        try:
            whole = place.read_bytes()
            said = self.log.read_text().count(str(place))
            place.write_bytes(damage.flipped(whole, self.rng))
            if not damage.is_noticed(place):
                self.undetected.append(f"{place} is read as if nothing were wrong")
        except FileNotFoundError:
            return  # the cell has just let go of it
        self.damaged[kind] += 1
        self._kill_host(cell)
        self.feed()
        if kind == "state":
            return
        began = struck = time.monotonic()
        while self.log.read_text().count(str(place)) == said:
            if self.job.poll() is not None:
                self.job = self.start()
            if time.monotonic() - began > PATIENCE:
                self.undetected.append(f"{place} is damaged, and the flow does not say so")
                break
            if time.monotonic() - struck > PATIENCE / 4:  # the host may have read the file just before
                struck = time.monotonic()
                self._kill_host(cell)
                self.feed()
            time.sleep(0.2)
        mended = place.with_name(f".{place.name}.mended")
        mended.write_bytes(whole)
        mended.rename(place)

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
        told = []
        for name, query in self.queries.items():
            table = query.changes()
            expected = Counter(tuple(row.values()) for row in table.to_pylist() if row["__ts"] <= self.newest)
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

    def read_by(self) -> dict[str, int]:
        """How many batches of files were read by whom."""
        place = self.out / "read"
        return dict(Counter(place.read_text().split())) if place.exists() else {}


def _line(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def run(kills: int, seed: int, folder: Path, source: str = "pushed") -> Campaign:
    """A whole campaign; raises if the job cannot be brought to its end. Often several blows fall at once, since getting up takes longer than falling."""
    campaign = Campaign(folder, seed, source=source)
    told, began = 0, time.monotonic()
    try:
        while campaign.kills.total() < kills:
            campaign.feed()
            campaign.wait_for_progress()
            time.sleep(campaign.rng.uniform(0.0, 0.6))
            for _ in range(campaign.rng.choice((1, 2, 4))):
                campaign.strike()
            if campaign.kills.total() >= told + 20:
                told = campaign.kills.total()
                sys.stderr.write(
                    f"{told} kills, {campaign.steps()} steps, {time.monotonic() - began:.0f} s\n"
                )
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
    parser.add_argument("--source", choices=("pushed", "json"), default="pushed")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-chaos-", ignore_cleanup_errors=True) as folder:
        began = time.perf_counter()
        campaign = run(arguments.kills, arguments.seed, Path(folder), arguments.source)
        told = campaign.differences()
        flips, missed = damage.unnoticed(campaign.checkpoint, 200, campaign.rng)
        missed += campaign.undetected
        print(*told, *missed, sep="\n")
        print(f"{campaign.kills.total()} kills {dict(campaign.kills)}, {campaign.files} files a stream,"
              f" batches read by {campaign.read_by() or 'Spark alone'}, {len(told)} queries differ;"
              f" damaged while it ran {dict(campaign.damaged)}, and {flips} times afterwards, not noticed {len(missed)};"
              f" {time.perf_counter() - began:.0f} s")  # fmt: skip
    return 1 if told or missed else 0


if __name__ == "__main__":
    sys.exit(main())
