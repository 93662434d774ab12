"""Streams as parquet files, cut so that a micro-batch is one file of every stream.

Time is a TIMESTAMP, which Spark's watermarks need: an instant of the workload is a second.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock_lab.benchmarks.workload import Events, Workload

SCHEMA = "ts TIMESTAMP, x INT, y INT"
_SECOND = 1_000_000
_EPOCH = 1_600_000_000
"""Where the workload's time begins."""


def lay(folder: Path, work: Workload, rows: int, start: int = 0, stop: int | None = None) -> None:
    """Every stream's rows from `start` to `stop` as files of `rows` rows.

    Spark takes files by their time of change, which is set here: file n of every stream belongs to batch n.
    """
    for name, events in work.streams.items():
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        for first in range(start, len(events) if stop is None else stop, rows):
            file = place / f"{first:012d}.parquet"
            making = file.with_name(f".{file.name}")
            pq.write_table(_arrow(events.slice(first, first + rows)), making, compression="none")
            os.utime(making, (_EPOCH + first // rows,) * 2)
            making.rename(file)


def _arrow(events: Events) -> pa.Table:
    micros = (events.ts + _EPOCH) * np.int64(_SECOND)
    return pa.table({"ts": pa.array(micros, pa.timestamp("us", "UTC")), "x": events.x, "y": events.y})


def stream(spark: Any, folder: Path, name: str) -> Any:
    """A stream of one file a batch."""
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / name))
