"""Disturb a running flow again and again: python -m tests.chaos.campaign --kills 1000 [--seed 0] [--source json]

While rows come in, processes are killed at random moments: the worker process of a cell, a Python worker of
Spark's, the driver with its Spark (at least a fifth of all kills). Worker processes are stopped (SIGSTOP) or
run out of memory, tasks of sinks are killed in the middle of their rows, the whole job stands still for a while,
the checkpoint's disk is full for a while, files are pushed by machines
whose clocks are wrong, bits of the newest state or of the log flip.

In the end the sinks must hold exactly the changes of one undisturbed embedded engine: none lost, none twice. A job
that makes no step for `HANG` seconds in which nothing disturbs it has failed, although it is then restarted.

What is pushed lies in parquet files: most are read by the cells, some are of a kind that only Spark reads as declared, so that both ways
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

import penstock
from penstock.runtime.spark.frames import drop_file

from . import damage, outputs
from .job import CELLS, QUERIES, VIEW, declared
from .processes import WORKER, children, command_line, kill, leave_no_memory, resident, send, workers
from .small_disk import SmallDisk

ROWS = 40
"""Of each stream in one file."""
ODD = 25
"""Of so many pushed files one is such as only Spark reads as declared; its batch, often of several files, is Spark's."""
BLOWS = {
    "worker": 8, "python": 5, "stopped": 2, "memory": 2, "pause": 1, "full disk": 0.7, "state": 0.5, "log": 0.25,
}  # fmt: skip
"""How often what is done, beside the driver's kills."""
DRIVER = 0.22
"""The least part of all kills that are the driver's."""
HANG = 180.0
"""Seconds without a step, and without a blow, after which a job hangs; on a machine with more to do than it has cores for, more."""
PATIENCE = 240.0
"""Seconds until a flow must have said that its log is damaged; likewise."""
END = 900.0
"""Seconds until the job must have read what is left and ended; likewise."""
DISK = 256
"""MiB of the checkpoint's disk, where one may be mounted."""
DAY = 86_400.0


def drawn(rng: random.Random, first: int) -> dict[str, list[dict[str, Any]]]:
    """Rows of one file of each stream: times never meet in `a`, and stray a little in `b`."""
    made: dict[str, list[dict[str, Any]]] = {"a": [], "b": []}
    for i in range(first * ROWS, (first + 1) * ROWS):
        made["a"].append({"ts": 2 * i, "x": rng.randrange(12), "y": rng.randrange(3), "s": rng.choice("pqr")})
        made["b"].append({"ts": 2 * i + rng.randrange(3), "x": rng.randrange(12), "d": rng.random()})
    return made


def load() -> float:
    """How much longer than usual everything takes: processes that want a core, to each core."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


class Campaign:
    """One checkpoint, one job that is started again whenever it is gone; on a Spark of its own unless a master is named."""

    def __init__(
        self,
        folder: Path,
        seed: int,
        master: str | None = None,
        source: str = "pushed",
        disk: SmallDisk | None = None,
    ) -> None:
        self.checkpoint, self.out = folder / "checkpoint", folder / "out"
        self.disk = disk
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
        """Damage that was not reported."""
        self.hangs: list[str] = []
        """When the job made no step although nothing disturbed it."""
        self.log = folder / "job.log"
        self.job = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.chaos.job", str(self.checkpoint), str(self.out), self.source]
        with self.log.open("ab") as log:
            return subprocess.Popen([*command, *self.master], stdout=log, stderr=log, start_new_session=True)

    # ------------------------------------------------------------------ input

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
            self._push(name, pa.Table.from_pylist(rows, schema=pa.schema(schema)))
        self.files += 1

    def _push(self, name: str, rows: pa.Table) -> None:
        """A file; now and then from a machine whose clock is weeks ahead or behind."""
        beside, folder = self.checkpoint / "pushing" / name, self.checkpoint / "pushed" / name
        drop_file(beside, rows)
        folder.mkdir(parents=True, exist_ok=True)
        for made in beside.glob("*.parquet"):
            if self.rng.random() < 0.1:
                at = time.time() + self.rng.choice((-40, 40)) * DAY
                os.utime(made, (at, at))
                self.damaged["clock"] += 1
            made.rename(folder / made.name)

    # ------------------------------------------------------------------ waiting

    def steps(self) -> int:
        """The number of the last step decided."""
        place = self.checkpoint / "steps"
        return max((int(p.stem) for p in place.glob("[0-9]*.json")), default=0) if place.is_dir() else 0

    def wait_for_progress(self) -> None:
        """Most blows fall on a flow at work: wait for a step, or a while."""
        before, until = self.steps(), time.monotonic() + self.rng.choice([0.5, 30, 30, 30])
        while time.monotonic() < until and self.steps() == before and self.job.poll() is None:
            time.sleep(0.02)

    def must_go_on(self) -> None:
        """Left alone, the flow makes a step before long; a job that has ended is started again."""
        before, since = self.steps(), time.monotonic()
        while self.steps() == before:
            if self.job.poll() is not None:
                self.job = self.start()
            if time.monotonic() - since > HANG * load():
                self._hangs(f"no step after {before}")
                return
            time.sleep(0.1)

    def _hangs(self, where: str) -> None:
        """Note it with what every thread is at, and go on with another job, so that all of a campaign is seen."""
        self.hangs.append(f"{where}, after {self.kills.total()} kills")
        send(self.job.pid, signal.SIGUSR1)
        time.sleep(2)
        self._kill_job()
        self.job = self.start()

    def _kill_job(self) -> int:
        """The driver and its Spark; worker processes notice by themselves."""
        victims = [self.job.pid, *children(self.job.pid)]
        killed = sum(kill(v) for v in victims if WORKER not in command_line(v))
        self.job.wait()
        return killed

    # ------------------------------------------------------------------ blows

    def strike(self) -> None:
        """Disturb something that lives."""
        what = self.rng.choices(list(BLOWS), list(BLOWS.values()))[0]
        if self.kills["driver"] < DRIVER * (self.kills.total() + 1) and self.rng.random() < 0.5:
            what = "driver"
        cell = self.rng.randrange(CELLS)
        match what:
            case "driver":
                self.kills[what] += bool(self._kill_job())
            case "python":
                victims = [v for v in children(self.job.pid) if "-m pyspark." in command_line(v)]
                self.kills[what] += bool(victims) and kill(self.rng.choice(victims))
            case "worker":
                self._kill_workers(cell)
            case "stopped":
                self.kills[what] += sum(send(v, signal.SIGSTOP) for v in workers(self.checkpoint, cell))
            case "memory":
                self._take_memory(cell)
            case "pause":
                self._pause(self.rng.uniform(0.5, 3.0))
            case "full disk":
                if self.disk is not None and self.disk.mounted:
                    self.damaged[what] += 1
                    self.disk.full_for(self.rng.uniform(0.5, 3.0))
            case _:
                self._damage(what, cell)
        if self.job.poll() is not None:
            self.job = self.start()

    def _kill_workers(self, cell: int) -> None:
        self.kills["worker"] += sum(map(kill, workers(self.checkpoint, cell)))

    def _take_memory(self, cell: int) -> None:
        """As the kernel does when there is none left: the largest process is killed. Or a limit refuses more."""
        found = workers(self.checkpoint)
        if self.rng.random() < 0.5 and found:
            self.kills["memory"] += kill(max(found, key=resident))
        else:
            self.kills["memory"] += sum(map(leave_no_memory, workers(self.checkpoint, cell)))

    def _pause(self, seconds: float) -> None:
        """All of the job stands still, as on a machine that is moved."""
        family = [self.job.pid, *children(self.job.pid)]
        for process in family:
            send(process, signal.SIGSTOP)
        time.sleep(seconds)
        for process in family:
            send(process, signal.SIGCONT)
        self.damaged["pause"] += 1

    def _damage(self, kind: str, cell: int) -> None:
        """Flip a bit and kill the worker process, so that the file is read. Of states an older one is taken; a log is refused, and then mended."""
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
        self._kill_workers(cell)
        self.feed()
        if kind == "state":
            return
        began = struck = time.monotonic()
        while self.log.read_text().count(str(place)) == said:
            if self.job.poll() is not None:
                self.job = self.start()
            if time.monotonic() - began > PATIENCE * load():
                self.undetected.append(f"{place} is damaged, and the flow does not say so")
                break
            if time.monotonic() - struck > PATIENCE / 4 * load():  # it may have been read just before
                struck = time.monotonic()
                self._kill_workers(cell)
                self.feed()
            time.sleep(0.2)
        mended = place.with_name(f".{place.name}.mended")
        mended.write_bytes(whole)
        mended.rename(place)

    # ------------------------------------------------------------------ the end

    def end(self) -> None:
        """Let the job read what is left and leave by itself."""
        (self.out / "end").touch()
        began = time.monotonic()
        seen = self.steps(), began
        while time.monotonic() - began < END * load():
            code = self.job.poll()
            if code == 0:
                return
            if self.steps() != seen[0]:
                seen = self.steps(), time.monotonic()
            elif time.monotonic() - seen[1] > HANG * load() and code is None:
                self._hangs("the job does not end")
                seen = seen[0], time.monotonic()
            if code is not None:
                self.job = self.start()
            time.sleep(0.2)
        raise TimeoutError("the job does not end")

    def close(self) -> None:
        for process in [*children(self.job.pid), self.job.pid, *workers(self.checkpoint)]:
            kill(process)
        self.job.wait()

    def differences(self) -> list[str]:
        """Per sink, how what it holds differs from what an undisturbed engine says."""
        self.here.advance(max(2 * self.files * ROWS + 2, 0))
        told = []
        for name, query in self.queries.items():
            table = query.changes()
            rows = [row for row in table.to_pylist() if row["__ts"] <= self.newest]
            expected = Counter(tuple(row.values()) for row in rows)
            told += outputs.differences(name, expected, outputs.changes(self.out, name, table.column_names))
            if name == VIEW:
                now = outputs.view(self.out / f"{name}-now")
                told += outputs.differences(f"{name} now", outputs.alive(rows, self.newest), now)
        return told

    def failures(self) -> list[str]:
        """All that must not be, once the job has ended."""
        return [*self.differences(), *self.undetected, *(f"hang: {where}" for where in self.hangs)]

    def torn(self) -> Counter[str]:
        """How many tasks were killed in the middle of which sink."""
        place = self.out / "torn"
        return Counter(place.read_text().split()) if place.exists() else Counter()

    def read_by(self) -> dict[str, int]:
        """How many batches of files were read by whom."""
        place = self.out / "read"
        return dict(Counter(place.read_text().split())) if place.exists() else {}


def run(
    kills: int, seed: int, folder: Path, source: str = "pushed", disk: SmallDisk | None = None
) -> Campaign:
    """A whole campaign; raises if the job cannot be brought to its end. Often several blows fall at once, since getting up takes longer than falling."""
    campaign = Campaign(folder, seed, source=source, disk=disk)
    told, rounds, began = 0, 0, time.monotonic()
    try:
        while campaign.kills.total() < kills or campaign.kills["driver"] < 0.2 * campaign.kills.total():
            campaign.feed()
            campaign.wait_for_progress()
            time.sleep(campaign.rng.uniform(0.0, 0.6))
            for _ in range(campaign.rng.choice((1, 2, 4))):
                campaign.strike()
            rounds += 1
            if rounds % 6 == 0:
                campaign.feed()
                campaign.must_go_on()
            if campaign.kills.total() >= told + 20:
                told = campaign.kills.total()
                sys.stderr.write(
                    f"{told} kills, {campaign.steps()} steps, {len(campaign.hangs)} hangs,"
                    f" {time.monotonic() - began:.0f} s\n"
                )
        campaign.end()
    finally:
        campaign.close()
    return campaign


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--source", choices=("pushed", "json"), default="pushed")
    parser.add_argument("--folder", type=Path, help="where everything is kept for a look afterwards")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-chaos-", ignore_cleanup_errors=True) as made:
        began = time.perf_counter()
        folder = arguments.folder or Path(made)
        with SmallDisk(folder / "checkpoint", DISK) as disk:
            campaign = run(arguments.kills, arguments.seed, folder, arguments.source, disk)
            told = campaign.failures()
            flips, missed = damage.unnoticed(campaign.checkpoint, 200, campaign.rng)
        print(*told, *missed, sep="\n")
        print(f"{campaign.kills.total()} kills {dict(campaign.kills)}, and {campaign.torn().total()} tasks in the middle of a sink;"
              f" {campaign.files} files a stream, batches read by {campaign.read_by() or 'Spark alone'};"
              f" disturbed otherwise {dict(campaign.damaged)}; bits flipped {flips} times afterwards, not noticed {len(missed)};"
              f" {len(campaign.hangs)} hangs, {len(told)} failures; {time.perf_counter() - began:.0f} s")  # fmt: skip
    return 1 if told or missed else 0


if __name__ == "__main__":
    sys.exit(main())
