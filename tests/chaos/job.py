"""The job that is killed: python -m tests.chaos.job CHECKPOINT OUT SOURCE [MASTER]

Streams are what is pushed, or folders of JSON files if SOURCE is `json`. Runs until the file `end` is in OUT and all input is read, then
flushes and leaves with status 0. Who reads a batch of pushed files is noted in the file `read` in OUT.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import penstock
from penstock.runtime.spark import files
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


def main(checkpoint: str, out: Path, source: str, master: str = "local[2,8]") -> int:
    parent = os.getppid()
    noted(out / "read")
    spark = local_spark(master, "penstock chaos")
    while True:
        session = penstock.connect(spark, checkpoint=checkpoint, cells=CELLS)
        session.execute(declared(out / "in" if source == "json" else None))
        for name, text in QUERIES.items():
            session.query(text, name=name).write(format="parquet", path=str(out / name))
        ends = (out / "end").exists()
        trigger = {"availableNow": True} if ends else {"processingTime": "0 seconds"}
        handle = session.start(trigger=trigger)
        try:
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
