"""The job that is killed: python -m tests.chaos.job CHECKPOINT OUT SOURCE [MASTER]

Streams are what is pushed, or folders of JSON files if SOURCE is `json`. Runs until the file `end` is in OUT and all input is read, then
flushes and leaves with status 0. Who reads a batch of pushed files is noted in the file `read` in OUT; in the file `torn`, a line for every task
that was killed in the middle of a sink.
"""

from __future__ import annotations

import faulthandler
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

import penstock
from penstock.runtime.spark import files, sinks
from penstock.runtime.spark.folders import Folders
from penstock.runtime.spark.local import local_spark

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
VIEW = "only"
"""The query whose current answer is written as well."""
TORN = 0.1
"""How often the task of a sink is killed in the middle of its rows."""


def declared(json_in: Path | None = None) -> str:
    """The streams; of JSON files if a folder is named."""
    return DECLARED.format(
        **{n: "" if json_in is None else f"USING json OPTIONS (path '{json_in / n}')" for n in "ab"}
    )


def noted(place: Path) -> None:
    """From now on who reads the files of a batch is written down."""
    fit = Folders.fit

    def judged(self: Folders, listed: files.Files, cells: int) -> bool:
        found = fit(self, listed, cells)
        with place.open("a") as file:
            file.write("cells\n" if found else "Spark\n")
        return found

    Folders.fit = judged  # type: ignore[method-assign]


def tear_sinks(place: Path) -> None:
    """From now on the first attempt of a sink's task is sometimes killed after half of its rows; Spark repeats the task."""
    whole = sinks._frame

    def torn(*given: Any) -> DataFrame:
        frame = whole(*given)
        if random.random() > TORN:
            return frame
        sink = str(given[1])

        def half(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from pyspark import TaskContext

            context = TaskContext.get()
            assert context is not None
            for batch in batches:
                if context.attemptNumber() == 0 and batch.num_rows:
                    yield batch.slice(0, batch.num_rows // 2)
                    with place.open("a") as file:
                        file.write(f"{sink}\n")
                    os.kill(os.getpid(), signal.SIGKILL)
                yield batch

        return frame.mapInArrow(half, frame.schema)

    sinks._frame = torn


def take(out: Path) -> Any:
    """A function that keeps a step's changes as one file, replaced if the step is repeated."""

    def taken(frame: DataFrame, step: int) -> None:
        place = out / f"step-{step:012d}.parquet"
        out.mkdir(exist_ok=True)
        pq.write_table(frame.toArrow(), out / f".{place.name}")
        (out / f".{place.name}").rename(place)

    return taken


def main(checkpoint: str, out: Path, source: str, master: str = "local[2,8]") -> int:
    parent = os.getppid()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    noted(out / "read")
    tear_sinks(out / "torn")
    spark = local_spark(master, "penstock chaos", {"spark.penstock.worker.timeout": "10s"})
    while True:
        session = penstock.connect(spark, checkpoint=checkpoint, cells=CELLS)
        session.execute(declared(out / "in" if source == "json" else None))
        for name, text in QUERIES.items():
            query = session.query(text, name=name)
            if name == FUNCTION:
                query.foreach_batch(take(out / name))
            else:
                query.write(format=FORMATS.get(name, "parquet"), path=str(out / name))
            if name == VIEW:
                query.write(format="parquet", path=str(out / f"{name}-now"), mode="view")
        ends = (out / "end").exists()
        trigger = {"availableNow": True} if ends else {"processingTime": "0 seconds"}
        try:
            handle = session.start(trigger=trigger)
            while handle.isActive:
                time.sleep(0.05)
                if os.getppid() != parent:
                    os._exit(3)  # nobody watches any more
                if not ends and (out / "end").exists():
                    handle.stop()
            handle.awaitTermination()
            if ends:
                return 0
        except penstock.PenstockError as error:
            # A worker or a host was killed once too often: go on from the checkpoint, as a supervisor would.
            sys.stderr.write(f"again after: {error}\n")
            sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]))
