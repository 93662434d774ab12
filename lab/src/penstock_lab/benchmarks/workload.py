"""The data of the benchmarks: one event a time unit, keys uniform, cut into batches as a source would deliver.

Every stream has the columns `ts BIGINT, x INT, y INT`, so one generator serves all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Keys = NDArray[np.int32]

COLUMNS = pa.schema([("ts", pa.int64()), ("x", pa.int32()), ("y", pa.int32())])
RAW_ROW_BYTES = 16
"""What one row of such a stream takes in Arrow: the floor that state is compared with."""


@dataclass(frozen=True, slots=True)
class Events:
    """One stream's rows, in event-time order."""

    ts: Ints
    x: Keys
    y: Keys

    def __len__(self) -> int:
        return len(self.ts)

    def slice(self, start: int, stop: int) -> Events:
        return Events(self.ts[start:stop], self.x[start:stop], self.y[start:stop])

    def arrow(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([pa.array(c) for c in (self.ts, self.x, self.y)], schema=COLUMNS)


@dataclass(frozen=True, slots=True)
class Workload:
    """Streams that advance together, a window for all of them, and the size of a push.

    `x_keys` and `y_keys` are the greatest keys; keys start at 1.
    """

    streams: dict[str, Events]
    window: int
    x_keys: int
    y_keys: int
    batch: int = 100_000
    schema: tuple[str, ...] = field(default=("ts BIGINT", "x INT", "y INT"))

    @property
    def events(self) -> int:
        return sum(len(s) for s in self.streams.values())

    @property
    def last(self) -> int:
        """The last instant at which anything arrives."""
        return max(int(s.ts[-1]) for s in self.streams.values())

    @property
    def live_bytes(self) -> int:
        """Raw Arrow bytes of the rows alive at the last instant."""
        cut = self.last - self.window
        return sum(int(np.count_nonzero(s.ts > cut)) for s in self.streams.values()) * RAW_ROW_BYTES

    def steps(self) -> Iterator[dict[str, Events]]:
        """One push a stream and step, all streams up to the same instant."""
        longest = max(len(s) for s in self.streams.values())
        for start in range(0, longest, self.batch):
            yield {name: s.slice(start, start + self.batch) for name, s in self.streams.items()}

    def ddl(self) -> str:
        """The statements that declare the streams."""
        columns = ", ".join(self.schema)
        return "\n".join(
            f"CREATE STREAM {name} ({columns}) WATERMARK ts DELAY OF INTERVAL 0;" for name in self.streams
        )


def make(
    names: str,
    events: int,
    *,
    window: int = 10_000,
    x_keys: int = 2_000,
    y_keys: int = 200_000,
    batch: int = 100_000,
    seed: int = 7,
) -> Workload:
    """`events` rows for each one-letter stream name, at instants 0, 1, 2, …"""
    random = np.random.default_rng(seed)
    ts = np.arange(events, dtype=np.int64)
    streams = {
        name: Events(
            ts,
            random.integers(1, x_keys + 1, events, dtype=np.int32),
            random.integers(1, y_keys + 1, events, dtype=np.int32),
        )
        for name in names
    }
    return Workload(streams, window, x_keys, y_keys, batch)
