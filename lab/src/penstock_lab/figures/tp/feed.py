"""The rows of some streams in time order, handed out in pushes; how they are cut changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock_lab.figures.tp.load import MICROSECONDS, Ints

TIME = pa.timestamp("us")


@dataclass(frozen=True, slots=True)
class Feed:
    """`start` in microseconds since the epoch; the first column of every stream is its time."""

    start: int
    seconds: float
    streams: Mapping[str, pa.RecordBatch]

    @property
    def stop(self) -> int:
        """The first instant after the last row."""
        return self.start + int(self.seconds * MICROSECONDS)

    def between(self, start: int, stop: int) -> dict[str, pa.RecordBatch]:
        """The rows with start <= ts < stop, by stream."""
        made = {}
        for name, rows in self.streams.items():
            first, last = np.searchsorted(times(rows), (start, stop)).tolist()
            made[name] = rows.slice(first, last - first)
        return made

    def pushes(self, every: float) -> Iterator[tuple[int, dict[str, pa.RecordBatch]]]:
        """What comes until an instant, by stream; `every` in seconds."""
        step = int(every * MICROSECONDS)
        for begin in range(self.start, self.stop, step):
            end = min(begin + step, self.stop)
            yield end - 1, self.between(begin, end)


def times(rows: pa.RecordBatch) -> Ints:
    """When each row came, in microseconds since the epoch."""
    found: Ints = rows.column(0).view(pa.int64()).to_numpy()
    return found


def stamps(at: Ints) -> pa.Array:
    """Microseconds since the epoch as a column of type TIMESTAMP."""
    return pa.array(at).view(TIME)
