"""Kill a flow between two topics, again and again, and see that the second has every change once.

    python -m tests.kafka.campaign [--kills 10] [--seed 1]

The driver and its Spark are killed together, at any moment; the broker lives. Tells how many kills met a step that was being
written.
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
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from scripts import kafka

import penstock
from penstock.spark.checkpoint import read_json
from penstock.spark.local import local_spark
from tests.kafka.scenarios import BEGIN, QUERIES, SCHEMA, Topics, drawn, embedded, expected, message, told

NAMES = ("volume", "bought", "silent")
ROWS = 40


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {','.join(map(str, kafka.connector()))} pyspark-shell"
    with kafka.Broker() as broker, tempfile.TemporaryDirectory() as folder:
        topics = Topics(local_spark("local[1]"), broker.servers)
        return campaign(topics, Path(folder), given.kills, random.Random(given.seed))


def campaign(topics: Topics, folder: Path, kills: int, rng: random.Random) -> int:
    here, queries = embedded(NAMES)
    for name in ("trades", "quotes"):
        topics.make(name, 1)
    for name in NAMES:
        topics.make(name, 3)
    met = sent = 0
    newest = BEGIN
    for number in range(kills):
        job = started(topics, folder)
        before = last_step(folder)
        for part in range(3):
            newest = max(newest, feed(topics, here, sent, rng))
            sent += ROWS
            wait_for_step(job, folder, before + part + 1)
        time.sleep(rng.random() * 6)
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        notes = [read_json(p) for p in (folder / "checkpoint" / "sinks").glob("*-*.json")]
        met += any(not note["written"] for note in notes)
        print(
            f"kill {number + 1}: {len(notes)} notes, {met} kills so far met a step being written", flush=True
        )
        time.sleep(rng.random())
    (folder / "end").touch()
    job = started(topics, folder)
    if job.wait(300) != 0:
        print("the last run failed")
        return 1
    here.advance(newest)
    differ = False
    for name, query in queries.items():
        found, right = told(topics.read(name)), expected(query.changes())
        if found != right:
            differ = True
            print(
                f"{name}: {(right - found).total()} missing, {(found - right).total()} too many of {right.total()}"
            )
    print(f"{kills} kills, {met} in a write; {sent} rows a stream; {'different' if differ else 'all equal'}")
    return differ


def feed(topics: Topics, here: Any, sent: int, rng: random.Random) -> datetime:
    """More rows for both; the newest time among them."""
    newest = BEGIN
    for name in ("trades", "quotes"):
        rows = drawn(rng.randrange(10**6), ROWS, BEGIN + timedelta(milliseconds=200 * sent))
        here.push(name, rows)
        topics.send(name, map(message, rows))
        newest = max(newest, *(row["ts"] for row in rows))
    return newest


def started(topics: Topics, folder: Path) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "tests.kafka.campaign",
        "job",
        topics.servers,
        topics.name(""),
        str(folder),
    ]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


def last_step(folder: Path) -> int:
    return max((int(p.stem) for p in (folder / "checkpoint" / "steps").glob("[0-9]*.json")), default=0)


def wait_for_step(job: subprocess.Popen[bytes], folder: Path, number: int) -> None:
    until = time.monotonic() + 120
    while last_step(folder) < number and time.monotonic() < until:
        if job.poll() is not None:
            raise SystemExit((folder / "log").read_text()[-20_000:])
        time.sleep(0.05)


def job(servers: str, suffix: str, folder: Path) -> None:
    """What is killed."""
    spark = local_spark("local[2,4]")
    while True:
        session = penstock.connect(spark, checkpoint=str(folder / "checkpoint"), cells=2)
        at = {"kafka.bootstrap.servers": servers}
        for stream in ("trades", "quotes"):
            session.execute(
                f"""CREATE STREAM {stream} ({SCHEMA}) USING kafka OPTIONS (subscribe '{stream}{suffix}',
                    kafka.bootstrap.servers '{servers}', startingOffsets 'earliest')
                    WATERMARK ts DELAY OF INTERVAL 5 SECONDS"""
            )
        for name in NAMES:
            session.query(QUERIES[name], name=name).write(format="kafka", topic=f"{name}{suffix}", **at)
        ends = (folder / "end").exists()
        handle = session.start(trigger={"availableNow": True} if ends else {"processingTime": "0 seconds"})
        handle.awaitTermination()
        if ends:
            return


if __name__ == "__main__":
    if sys.argv[1:2] == ["job"]:
        job(sys.argv[2], sys.argv[3], Path(sys.argv[4]))
    else:
        sys.exit(main())
