"""The job that is killed: python -m tests.chaos.job CHECKPOINT OUT [MASTER]

Runs until the file `end` is in OUT and all input is read, then flushes and leaves with status 0.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import penstock
from penstock.runtime.spark.local import local_spark

DECLARED = """
CREATE STREAM a (ts BIGINT, x INT, y INT, s STRING) WATERMARK ts DELAY OF INTERVAL 5;
CREATE STREAM b (ts BIGINT, x INT, d DOUBLE) WATERMARK ts DELAY OF INTERVAL 5;
"""
QUERIES = {
    "joined": "SELECT a.x, a.s, b.d FROM a [RANGE 40], b [RANGE 40] WHERE a.x = b.x AND a.y = 1",
    "values": "SELECT DISTINCT x FROM a [RANGE 60]",
    "only": "SELECT x FROM a [RANGE 60] EXCEPT SELECT x FROM b [RANGE 60]",
    "sums": "SELECT x, SUM(y) AS t, COUNT(*) AS n FROM a [RANGE 100] GROUP BY x",
    "whole": "SELECT COUNT(*) AS n FROM b [RANGE 50]",
    "sizes": "SELECT n, COUNT(*) AS m FROM (SELECT x, COUNT(*) AS n FROM a [RANGE 60] GROUP BY x) AS g GROUP BY n",
    "last": "SELECT x, y FROM a [PARTITION BY x ROWS 3]",
}


def main(checkpoint: str, out: Path, master: str = "local[2,8]") -> int:
    parent = os.getppid()
    spark = local_spark(master, "penstock chaos")
    while True:
        session = penstock.connect(spark, checkpoint=checkpoint, cells=2)
        session.execute(DECLARED)
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]))
