"""The job that is disturbed: python -m tests.chaos.job CHECKPOINT OUT SOURCE [MASTER]

Streams are what is pushed, or folders of JSON files if SOURCE is `json`. Runs until the file `end` is in OUT and all input is read, then
flushes and leaves with status 0. A flow that stops with an error is started again, as a supervisor would; a driver that another one has replaced
leaves with status `REPLACED`, one whose Spark is gone with status `SPARK_GONE`. With `CHAOS_KAFKA` set to a broker's address, a query's changes go
to a topic, too.

Files in OUT, with a line for each: `read`, who has read a batch of pushed files; `torn`, tasks that were killed in the middle of a sink; `stops`,
errors that the flow stopped with, as JSON.
"""

from __future__ import annotations

import faulthandler
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import penstock
from penstock.spark import parquet_reader
from penstock.spark.local import local_spark
from penstock.spark.parquet_folders import Folders
from tests.chaos.torn_tasks import Torn

DECLARED = """
CREATE STREAM a (ts BIGINT, x INT, y INT, s STRING) {a} WATERMARK ts DELAY OF INTERVAL 5;
CREATE STREAM b (ts BIGINT, x INT, d DOUBLE) {b} WATERMARK ts DELAY OF INTERVAL 5;
"""
CELLS = 2
QUERIES = {
    "joined": "SELECT a.x, a.s, b.d FROM a [RANGE 40], b [RANGE 40] WHERE a.x = b.x AND a.y = 1",
    "values": "SELECT DISTINCT x FROM a [RANGE 60]",
    "only": "SELECT x FROM a [RANGE 60] EXCEPT SELECT x FROM b [RANGE 60]",
    "sums": "SELECT x, SUM(y) AS t, COUNT(*) AS n FROM a [RANGE 100] GROUP BY x",
    "whole": "SELECT COUNT(*) AS n FROM b [RANGE 50]",
    "sizes": "SELECT n, COUNT(*) AS m FROM (SELECT x, COUNT(*) AS n FROM a [RANGE 60] GROUP BY x) AS g GROUP BY n",
    "last": "SELECT x, y FROM a [PARTITION BY x ROWS 3]",
}
FORMATS = {"values": "json", "sums": "orc"}
"""Of the files that a query's changes go to, if not parquet."""
FUNCTION = "whole"
"""The query whose changes a function takes."""
TABLE = "sizes"
"""The query whose changes go to a table."""
VIEW = "only"
"""The query whose current answer is kept in files as well."""
TABLE_VIEW = "last"
"""The query whose current answer is kept in a table as well."""
TOPIC = "joined"
"""The query whose changes go to a topic as well, if there is a broker."""
WAREHOUSE = "warehouse"
"""Where tables are."""
ALL = "all"
"""Where the changes of all queries go together."""
KAFKA = "CHAOS_KAFKA"
"""The variable with the broker's address."""
REPLACED, SPARK_GONE = 4, 5
TAKEN_OVER = "another driver has taken over the checkpoint"


def declared(json_in: Path | None = None) -> str:
    """The streams; of JSON files if a folder is named."""
    return DECLARED.format(
        **{n: "" if json_in is None else f"USING json OPTIONS (path '{json_in / n}')" for n in "ab"}
    )


def noted(place: Path) -> None:
    """From now on who reads the files of a batch is written down."""
    fit = Folders.fit

    def judged(self: Folders, listed: parquet_reader.Files, cells: int) -> bool:
        found = fit(self, listed, cells)
        with place.open("a") as file:
            file.write("cells\n" if found else "Spark\n")
        return found

    Folders.fit = judged  # type: ignore[method-assign]


def take(out: Path) -> Any:
    """A function that keeps a step's changes as one file, replaced if the step is repeated."""

    def taken(frame: DataFrame, step: int) -> None:
        place = out / f"step-{step:012d}.parquet"
        out.mkdir(exist_ok=True)
        making = out / f".{place.name}.{os.getpid()}"
        pq.write_table(frame.toArrow(), making)
        making.rename(place)

    return taken


def connected(spark: SparkSession, checkpoint: str, out: Path, source: str) -> Any:
    """A session with all queries and their sinks."""
    session = penstock.connect(spark, checkpoint=checkpoint, cells=CELLS)
    session.execute(declared(out / "in" if source == "json" else None))
    for name, text in QUERIES.items():
        query = session.query(text, name=name)
        if name == FUNCTION:
            query.foreach_batch(take(out / name))
        elif name == TABLE:
            query.to_table(name)
        else:
            query.write(format=FORMATS.get(name, "parquet"), path=str(out / name))
        if name == VIEW:
            query.write(format="parquet", path=str(out / f"{name}-now"), mode="view")
        if name == TABLE_VIEW:
            query.to_table(f"{name}_now", mode="view")
        if name == TOPIC and KAFKA in os.environ:
            query.write(format="kafka", **topic(out))
    session.write(path=str(out / ALL))
    return session


def topic(out: Path) -> dict[str, str]:
    """Where messages go: a topic that no other campaign has."""
    name = hashlib.sha256(str(out.resolve()).encode()).hexdigest()[:12]
    return {"kafka.bootstrap.servers": os.environ[KAFKA], "topic": f"chaos-{name}"}


def save_topic(spark: SparkSession, out: Path) -> None:
    """Messages with what tells repetitions, as lines of JSON in the file `topic`."""
    at = topic(out)
    reader = spark.read.format("kafka").options(
        subscribe=at["topic"], includeHeaders="true", **{"kafka.bootstrap.servers": os.environ[KAFKA]}
    )
    rows = reader.load().selectExpr("CAST(value AS STRING) AS value", "headers").collect()
    with (out / "topic").open("w") as file:
        for row in rows:
            (label,) = (bytes(h["value"]).decode() for h in row["headers"] if h["key"] == "penstock")
            file.write(json.dumps([label, json.loads(row["value"])]) + "\n")


def has_ended(process: subprocess.Popen[bytes], patience: float) -> bool:
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        return False
    return True


def main(checkpoint: str, out: Path, source: str, master: str = "local[2,8]") -> int:
    parent = os.getppid()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    noted(out / "read")
    Torn(out / "torn").tear_sinks()
    settings = {
        "spark.penstock.worker.timeout": "10s",
        "spark.sql.warehouse.dir": str(out / WAREHOUSE),
    }
    spark = local_spark(master, "penstock chaos", settings)
    java = spark.sparkContext._gateway.proc
    while True:
        try:
            session = connected(spark, checkpoint, out, source)
            ends = (out / "end").exists()
            handle = session.start(
                trigger={"availableNow": True} if ends else {"processingTime": "0 seconds"}
            )
            while handle.isActive:
                time.sleep(0.05)
                if os.getppid() != parent:
                    os._exit(3)  # the campaign is gone
                if not ends and (out / "end").exists():
                    handle.stop()
            handle.awaitTermination()
            if ends:
                if KAFKA in os.environ:
                    save_topic(spark, out)
                return 0
        except (penstock.PenstockError, PySparkException, Py4JError, OSError) as error:
            if has_ended(java, 3.0):
                os._exit(SPARK_GONE)  # without waiting for what it would have answered
            with (out / "stops").open("a") as file:
                file.write(json.dumps(str(error)) + "\n")
            sys.stderr.write(f"again after: {error}\n")
            sys.stderr.flush()
            if TAKEN_OVER in str(error):
                return REPLACED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]))
