"""Disturb a running flow again and again: python -m tests.chaos.campaign --kills 1000 [--seed 0] [--source json] [--folder DIR]

While rows come in, processes are killed at random moments: the worker process of a cell, a Python worker of
Spark's, the driver with its Spark (at least a fifth of all kills). Processes of both kinds are stopped (SIGSTOP), run into a limit of their
memory, or are killed as the largest of the job, tasks of every kind of sink are killed in the middle of their rows, a second driver is started on
the checkpoint of the first, the whole job stands still for a while, the checkpoint's disk is full for a while, files are pushed by machines
whose clocks are wrong, bits of the newest state or of the log flip.

In the end the sinks must hold exactly the changes of one undisturbed embedded engine: none lost, none twice. A job
that makes no step for `HANG` seconds in which nothing disturbs it has failed, although it is then restarted. So has a driver that ends,
or a flow that stops, without a disturbance that explains it.

What is pushed lies in parquet files: most are read by the cells, some are of a kind that only Spark reads as declared, so that both ways
follow each other in one flow. With `json` Spark reads all.

Kills are divided into rounds, each with a checkpoint of its own. A finished round is noted in the folder: the same command with the same
folder goes on where it was interrupted, and several at once share the rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from scripts import kafka

import penstock
from penstock.spark.frames import drop_file
from tests.chaos import damage, outputs
from tests.chaos.job import CELLS, KAFKA, QUERIES, REPLACED, SPARK_GONE, TAKEN_OVER, declared
from tests.chaos.processes import (
    WORKER,
    children,
    command_line,
    is_stopped,
    kill,
    leave_no_memory,
    python_workers,
    resident,
    send,
    workers,
)
from tests.chaos.small_disk import SmallDisk
from tests.chaos.torn_tasks import KINDS, TOPIC

ROWS = 40
"""Of each stream in one file."""
ODD = 25
"""Of so many pushed files one is such as only Spark reads as declared; its batch, often of several files, is Spark's."""
BLOWS = {
    "worker": 8, "python": 4, "stopped worker": 2, "stopped python": 2, "memory limit": 1, "largest process": 1.5,
    "two drivers": 0.8, "pause": 1, "full disk": 0.7, "state": 0.5, "log": 0.25,
}  # fmt: skip
"""How often what is done, beside the driver's kills."""
DRIVER = 0.22
"""The least part of all kills that are the driver's."""
FIRST = 0.3
"""How often a blow is of a kind that has not met anything yet, for as long as there are such."""
HANG = 180.0
"""Seconds without a step, and without a blow, after which a job hangs; on a machine with more to do than it has cores for, more."""
PATIENCE = 240.0
"""Seconds until a flow must have said that its log is damaged; likewise."""
END = 900.0
"""Seconds until the job must have read what is left and ended; likewise."""
DISK = 256
"""MiB of the checkpoint's disk, where one may be mounted."""
ROUND = 100
"""Kills in a round, unless the command line says otherwise."""
DAY = 86_400.0
STOPS = {
    TAKEN_OVER: "two drivers",
    "No space left": "full disk",
    "is damaged": "log",
}
"""What the error of a flow that stops names, and the disturbance by which it may."""


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
        broker: str | None = None,
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
        self.broker = broker
        self.kills: Counter[str] = Counter()
        """Processes that were killed or stopped, so that others must replace them."""
        self.disturbed: Counter[str] = Counter()
        """Everything else that was done."""
        self.starts: Counter[str] = Counter()
        """Of the job, by what had ended the one before."""
        self.wrong: list[str] = []
        """Damage that was not reported, drivers that did not stop, ends without a cause."""
        self.hangs: list[str] = []
        """When the job made no step although nothing disturbed it."""
        self.log = folder / "job.log"
        self._kinds = [kind for kind in BLOWS if kind != "full disk" or (disk is not None and disk.mounted)]
        """Of blows that can be dealt here."""
        self._may_end: set[int] = set()
        """Status of a job that ends by what was done to it."""
        self.job = self.start("the beginning")

    def start(self, after: str) -> subprocess.Popen[bytes]:
        self.starts[after] += 1
        self._may_end = set()
        command = [sys.executable, "-m", "tests.chaos.job", str(self.checkpoint), str(self.out), self.source]
        environment = dict(os.environ)
        if self.broker is not None:
            jars = ",".join(map(str, kafka.connector()))
            environment |= {KAFKA: self.broker, "PYSPARK_SUBMIT_ARGS": f"--jars {jars} pyspark-shell"}
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [*command, *self.master], stdout=log, stderr=log, env=environment, start_new_session=True
            )

    def revive(self) -> None:
        """Start the job again if it has ended; unless something was done to it, it must not have."""
        code = self.job.poll()
        if code is None:
            return
        if code in self._may_end:
            self.job = self.start("Spark killed" if code == SPARK_GONE else "a kill")
            return
        self.wrong.append(f"the job ended by itself with status {code}, after {self.kills.total()} kills")
        self.job = self.start("no known cause")

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
                self.disturbed["clock jump"] += 1
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
        """Left alone, the flow makes a step before long."""
        before, since = self.steps(), time.monotonic()
        while self.steps() == before:
            self.revive()
            if time.monotonic() - since > HANG * load():
                self._hangs(f"no step after {before}")
                return
            time.sleep(0.1)

    def _hangs(self, where: str) -> None:
        """Note it with what every thread is at, and go on with another job, so that all of a campaign is seen."""
        self.hangs.append(f"{where}, after {self.kills.total()} kills")
        send(self.job.pid, signal.SIGUSR1)
        time.sleep(2)
        self._kill_job(self.job)
        self.job = self.start("a hang")

    def _kill_job(self, job: subprocess.Popen[bytes]) -> int:
        """The driver and its Spark; worker processes notice by themselves."""
        victims = [job.pid, *children(job.pid)]
        killed = sum(kill(v) for v in victims if WORKER not in command_line(v))
        job.wait()
        return killed

    # ------------------------------------------------------------------ blows

    def strike(self) -> None:
        """Disturb something that lives."""
        self.revive()
        what = self._drawn()
        cell = self.rng.randrange(CELLS)
        match what:
            case "driver":
                self.kills[what] += bool(self._kill_job(self.job))
                self.job = self.start("a kill")
            case "python":
                victims = python_workers(self.job.pid)
                self.kills[what] += bool(victims) and kill(self.rng.choice(victims))
            case "stopped python":
                victims = python_workers(self.job.pid)
                self.kills[what] += bool(victims) and send(self.rng.choice(victims), signal.SIGSTOP)
            case "worker":
                self._kill_workers(cell)
            case "stopped worker":
                self.kills[what] += sum(send(v, signal.SIGSTOP) for v in workers(self.checkpoint, cell))
            case "memory limit":
                self.kills[what] += sum(map(leave_no_memory, workers(self.checkpoint, cell)))
            case "largest process":
                self._kill_largest()
            case "two drivers":
                self._start_second_driver()
            case "pause":
                self._pause(self.rng.uniform(0.5, 3.0))
            case "full disk":
                if self.disk is not None and self.disk.mounted:
                    self.disturbed[what] += 1
                    self.disk.full_for(self.rng.uniform(0.5, 3.0))
            case _:
                self._damage(what, cell)

    def _drawn(self) -> str:
        if self.kills["driver"] < DRIVER * (self.kills.total() + 1) and self.rng.random() < 0.5:
            return "driver"
        done = self.kills + self.disturbed
        missing = [kind for kind in self._kinds if not done[kind]]
        if missing and self.rng.random() < FIRST:
            return self.rng.choice(missing)
        return self.rng.choices(list(BLOWS), list(BLOWS.values()))[0]

    def _kill_workers(self, cell: int) -> None:
        self.kills["worker"] += sum(map(kill, workers(self.checkpoint, cell)))

    def _kill_largest(self) -> None:
        """As the kernel does when there is no memory left: of the worker processes, or of the whole job, which is Spark."""
        family = [self.job.pid, *children(self.job.pid)] if self.rng.random() < 0.5 else []
        found = family or workers(self.checkpoint)
        if not found:
            return
        largest = max(found, key=resident)
        if family:
            # A driver without its Spark, or Spark without its driver, ends.
            self._may_end |= {SPARK_GONE, 1, -signal.SIGKILL}
        self.kills["largest process"] += kill(largest)

    def _start_second_driver(self) -> None:
        """Another driver on the checkpoint of the first, which goes on meanwhile: one of the two stops with its error."""
        first = self.job
        before = self._may_end
        second = self.start("a second driver")
        self._may_end = before
        self.disturbed["two drivers"] += 1
        self.feed()
        since = time.monotonic()
        while first.poll() is None and second.poll() is None:
            if time.monotonic() - since > HANG * load():
                self.wrong.append(f"two drivers run side by side, after {self.kills.total()} kills")
                self._kill_job(first)
            time.sleep(0.1)
        ended, self.job = (first, second) if first.poll() is not None else (second, first)
        if ended.returncode != REPLACED and ended.returncode not in self._may_end | {-signal.SIGKILL}:
            self.wrong.append(f"a driver that was replaced ended with status {ended.returncode}")
        if ended is first:
            self._may_end = set()
            self.disturbed["first driver replaced"] += 1

    def _pause(self, seconds: float) -> None:
        """All of the job stands still, as on a machine that is moved."""
        family = [self.job.pid, *children(self.job.pid)]
        running = [process for process in family if not is_stopped(process) and send(process, signal.SIGSTOP)]
        time.sleep(seconds)
        for process in running:
            send(process, signal.SIGCONT)
        self.disturbed["pause"] += 1

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
                self.wrong.append(f"{place} is read as if nothing were wrong")
        except FileNotFoundError:
            return  # the cell has just let go of it
        self.disturbed[kind] += 1
        self._kill_workers(cell)
        self.feed()
        if kind == "state":
            return
        began = struck = time.monotonic()
        while self.log.read_text().count(str(place)) == said:
            self.revive()
            if time.monotonic() - began > PATIENCE * load():
                self.wrong.append(f"{place} is damaged, and the flow does not say so")
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
            self.revive()
            time.sleep(0.2)
        raise TimeoutError("the job does not end")

    def close(self) -> None:
        for process in [*children(self.job.pid), self.job.pid, *workers(self.checkpoint)]:
            kill(process)
        self.job.wait()

    def differences(self) -> list[str]:
        """Per sink, how what it holds differs from what an undisturbed engine returns."""
        self.here.advance(max(2 * self.files * ROWS + 2, 0))
        found = []
        for name, query in self.queries.items():
            table = query.changes()
            rows = [row for row in table.to_pylist() if row["__ts"] <= self.newest]
            found += outputs.compared(self.out, name, rows, table.column_names, self.newest)
        return found

    def failures(self) -> list[str]:
        """All that must not be, once the job has ended."""
        unexplained = [f"the flow stopped: {error}" for error, cause in self.stops() if cause is None]
        hangs = [f"hang: {where}" for where in self.hangs]
        repeated = outputs.repeated_messages(self.out)
        if repeated and not self.disturbed["two drivers"]:
            # Two drivers at once may both send a step; readers know by the header what they have.
            self.wrong.append(f"{repeated} messages are in the topic twice")
        return [*self.differences(), *self.wrong, *unexplained, *hangs]

    def stops(self) -> list[tuple[str, str | None]]:
        """Errors at which the flow stopped and was started again, and what was done that explains each."""
        place = self.out / "stops"
        errors = [str(json.loads(line)) for line in place.read_text().splitlines()] if place.exists() else []
        return [(error, self._cause(error)) for error in errors]

    def _cause(self, error: str) -> str | None:
        done = self.kills + self.disturbed
        return next((cause for text, cause in STOPS.items() if text in error and done[cause]), None)

    def torn(self) -> Counter[str]:
        """How many tasks were killed in the middle of which kind of sink."""
        place = self.out / "torn"
        return Counter(place.read_text().splitlines()) if place.exists() else Counter()

    def read_by(self) -> dict[str, int]:
        """How many batches of files were read by whom."""
        place = self.out / "read"
        return dict(Counter(place.read_text().split())) if place.exists() else {}

    def summary(self) -> dict[str, Any]:
        """All that was done, counted, and what it led to."""
        return {
            "kills": dict(self.kills),
            "tasks in the middle of a sink": dict(self.torn()),
            "disturbed otherwise": dict(self.disturbed),
            "starts of the job": dict(self.starts),
            "stops of the flow": dict(Counter(cause or "unexplained" for _, cause in self.stops())),
            "batches read": self.read_by() or {"Spark": self.steps()},
            "input": {"files": self.files, "rows": 2 * ROWS * self.files, "steps": self.steps()},
            "repeated messages": outputs.repeated_messages(self.out),
            "hangs": len(self.hangs),
        }


def run(
    kills: int,
    seed: int,
    folder: Path,
    source: str = "pushed",
    disk: SmallDisk | None = None,
    broker: str | None = None,
) -> Campaign:
    """A whole campaign; raises if the job cannot be brought to its end. Often several blows fall at once, since getting up takes longer than falling."""
    campaign = Campaign(folder, seed, source=source, disk=disk, broker=broker)
    shown, rounds, began = 0, 0, time.monotonic()
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
            if campaign.kills.total() >= shown + 10:
                shown = campaign.kills.total()
                sys.stderr.write(
                    f"seed {seed}: {shown} of {kills} kills {dict(campaign.kills)}, {dict(campaign.disturbed)},"
                    f" {campaign.torn().total()} tasks in sinks, {campaign.steps()} steps,"
                    f" {len(campaign.hangs)} hangs, {len(campaign.wrong)} faults, {time.monotonic() - began:.0f} s\n"
                )
                sys.stderr.flush()
        campaign.end()
    finally:
        campaign.close()
    return campaign


# ---------------------------------------------------------------------- rounds


@contextlib.contextmanager
def claimed(place: Path) -> Iterator[bool]:
    """Whether no other process works on this round."""
    with place.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True


@contextlib.contextmanager
def broker_if_any() -> Iterator[str | None]:
    """The address of a Kafka broker, where its jars are at hand."""
    with contextlib.ExitStack() as held:
        try:
            kafka.connector()
            servers = held.enter_context(kafka.Broker()).servers
        except kafka.Unavailable as reason:
            sys.stderr.write(f"no topic is written to: {reason}\n")
            servers = None
        yield servers


def run_round(kills: int, seed: int, folder: Path, source: str) -> dict[str, Any]:
    """One checkpoint from its beginning to its end; what was done, and what must not be."""
    began = time.perf_counter()
    with SmallDisk(folder / "checkpoint", DISK) as disk, broker_if_any() as broker:
        campaign = run(kills, seed, folder, source, disk, broker)
        failures, summary = campaign.failures(), campaign.summary()
        flips, missed = damage.unnoticed(campaign.checkpoint, 200, campaign.rng)
    wanted = [kind for kind in KINDS if kind != TOPIC or broker is not None]
    if kills >= ROUND:
        failures += [f"no task of a {kind} was killed" for kind in wanted if not campaign.torn()[kind]]
    return {
        **summary,
        "bits flipped afterwards": flips,
        "failures": [*failures, *(f"damage was not noticed: {place}" for place in missed)],
        "seconds": round(time.perf_counter() - began),
    }


def added(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Numbers summed, lists joined, by name."""
    total: dict[str, Any] = {}
    for found in rounds:
        for name, value in found.items():
            if isinstance(value, dict):
                total[name] = dict(Counter(total.get(name, {})) + Counter(value))
            else:
                total[name] = total[name] + value if name in total else value
    return total


def in_words(total: dict[str, Any]) -> str:
    """A campaign in one line."""
    counted = [f"{name} {value}" for name, value in total.items() if name not in ("kills", "failures")]
    kills = sum(total["kills"].values())
    driver = total["kills"].get("driver", 0)
    return (
        f"{kills} kills {total['kills']} ({driver / max(kills, 1):.0%} of them drivers); {'; '.join(counted)};"
        f" {len(total['failures'])} failures"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--round", type=int, default=ROUND, help="kills on one checkpoint")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--source", choices=("pushed", "json"), default="pushed")
    parser.add_argument("--folder", type=Path, help="where everything is kept, and finished rounds are noted")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # and clean up on the way
    with tempfile.TemporaryDirectory(prefix="penstock-chaos-", ignore_cleanup_errors=True) as made:
        folder = arguments.folder or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        sizes = [
            min(arguments.round, arguments.kills - at) for at in range(0, arguments.kills, arguments.round)
        ]
        rounds = []
        for number, kills in enumerate(sizes):
            seed = arguments.seed + number
            name = f"{arguments.source}-{seed}-{kills}"
            done = folder / f"{name}.json"
            with claimed(folder / f"{name}.lock") as free:
                if not free:
                    continue
                if not done.exists():
                    SmallDisk.remove(folder / name / "checkpoint")  # of a round that was interrupted
                    shutil.rmtree(folder / name, ignore_errors=True)
                    result = run_round(kills, seed, folder / name, arguments.source)
                    print(f"round {number + 1} of {len(sizes)}: {in_words(result)}", flush=True)
                    done.write_text(json.dumps(result, indent=1))
                rounds.append(json.loads(done.read_text()))
        total = added(rounds)
        print(*total.get("failures", ()), sep="\n")
        print(in_words(total))
        if len(rounds) < len(sizes):
            print(f"{len(sizes) - len(rounds)} of {len(sizes)} rounds are run by other processes")
    return 1 if total["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
