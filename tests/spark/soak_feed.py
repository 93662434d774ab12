"""Rows of a soak run, made from their numbers, and the process that lays them down as files for Spark to find.

Since a row is a function of its number, whoever checks the answers can make the last rows again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

TICK = 100
"""Rows of a stream with the same time."""
FILE = 20_000
"""Rows of a stream in one file."""
AHEAD = 20
"""Files of a stream that wait for Spark when it is to run as fast as it can."""
VALUES = 200_000
GROUPS = 1_000
STREAMS = ("a", "b")
FULL_SPEED, PAUSE, END = 0.0, -1.0, -2.0


def rows(stream: str, first: int, last: int) -> pa.Table:
    """Rows `first` up to, not including, `last` of a stream."""
    number = np.arange(first, last, dtype=np.int64)
    mixed = (number.astype(np.uint64) + np.uint64(STREAMS.index(stream) << 40)) * np.uint64(
        0x9E3779B97F4A7C15
    )
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    x = (mixed % np.uint64(VALUES)).astype(np.int32)
    columns = {"ts": number // TICK, "x": x}
    if stream == "a":
        columns |= {
            "g": (mixed % np.uint64(GROUPS)).astype(np.int32),
            "y": ((mixed >> np.uint64(20)) % np.uint64(100)).astype(np.int32),
        }
    else:
        columns |= {"d": (mixed >> np.uint64(40)).astype(np.float64) / 16}
    return pa.table(columns)


@dataclass
class Feeder:
    """A process of its own, so that neither its memory nor its time is the driver's.

    `rate` is rows a second over both streams, or one of the words above; `fed` and `done` count rows of one stream.
    """

    folder: Path
    rate: Any
    fed: Any
    done: Any
    process: SpawnProcess

    @classmethod
    def start(cls, folder: Path) -> Feeder:
        context = get_context("spawn")
        for stream in STREAMS:
            (folder / stream).mkdir(parents=True)
        rate, fed, done = context.Value("d", FULL_SPEED), context.Value("q", 0), context.Value("q", 0)
        process = context.Process(target=feed, args=(folder, rate, fed, done), daemon=True)
        process.start()
        return cls(folder, rate, fed, done, process)

    def stop(self) -> None:
        self.rate.value = END
        self.process.join(30)


def feed(folder: Path, rate: Any, fed: Any, done: Any) -> None:
    known, base, since = FULL_SPEED, 0, time.monotonic()
    while known != END:
        if rate.value != known:
            known, base, since = rate.value, fed.value, time.monotonic()
        due = fed.value
        if known == FULL_SPEED:
            due = done.value + AHEAD * FILE
        elif known > 0:
            due = base + int((time.monotonic() - since) * known / len(STREAMS))
        while fed.value + FILE <= due:
            lay_down(folder, fed.value)
            fed.value += FILE
        time.sleep(0.01)


def lay_down(folder: Path, first: int) -> None:
    """One file of each stream, there whole or not at all."""
    for stream in STREAMS:
        making = folder / f".{stream}.tmp"
        pq.write_table(rows(stream, first, first + FILE), making)
        making.rename(folder / stream / f"{first:015d}.parquet")
