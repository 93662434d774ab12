"""A stream as it comes in: watermark, rows waiting for the clock, rows that came too late."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from penstock.data.batch import Batch, Column, Ints, concat
from penstock.kernels.events import arrivals, time_order
from penstock.plan.catalog import Stream


class Source:
    """W (`watermark`): every row with ts < W has come; a row below W when it arrives is late."""

    def __init__(self, stream: Stream, floor: int) -> None:
        self.stream = stream
        self.watermark = floor
        self._waiting: list[Batch] = []
        self._late: list[tuple[Column, ...]] = []
        self.late_rows = 0

    def push(self, columns: tuple[Column, ...]) -> None:
        """Take rows in arrival order; each may raise W for those behind it."""
        ts = columns[self.stream.time].values.astype(np.int64)
        n = len(ts)
        if n == 0:
            return
        columns = tuple(c.copy() for c in columns)  # the caller may write to what it gave
        late = np.empty(n, np.bool_)
        count, in_order, self.watermark = arrivals(ts, self.watermark, self.stream.delay, late)
        if count:
            self._set_aside(columns, np.flatnonzero(late))
            rows = np.flatnonzero(~late)
            columns = tuple(c.take(rows) for c in columns)
            ts = ts[rows]
        if len(ts):
            batch = Batch(ts, ts, columns)
            order = None if in_order else time_order(ts)
            self._waiting.append(batch if order is None else batch.take(order))

    def _set_aside(self, columns: tuple[Column, ...], rows: Ints) -> None:
        self._late.append(tuple(c.take(rows) for c in columns))
        self.late_rows += len(rows)

    def raise_to(self, watermark: int) -> None:
        self.watermark = max(self.watermark, watermark)

    def take(self, clock: int) -> Batch | None:
        """Waiting rows with ts <= clock, in (ts, arrival) order."""
        ready, left = [], []
        for batch in self._waiting:
            ts = batch.ts
            if ts[-1] <= clock:
                ready.append(batch)
            elif ts[0] > clock:
                left.append(batch)
            else:
                cut = int(ts.searchsorted(clock, side="right"))
                ready.append(batch.slice(0, cut))
                rest = batch.slice(cut, len(batch))
                left.append(_copied(rest) if cut > 4 * len(rest) else rest)
        self._waiting = left
        if not ready:
            return None
        if len(ready) == 1:
            return ready[0]
        whole_ts = np.concatenate([b.ts for b in ready])
        whole = Batch(whole_ts, whole_ts, _stacked([b.columns for b in ready]))
        if all(a.ts[-1] <= b.ts[0] for a, b in pairwise(ready)):
            return whole
        order = time_order(whole_ts)
        return whole if order is None else whole.take(order)

    def late(self) -> tuple[Column, ...] | None:
        """All rows that came too late."""
        return _stacked(self._late) if self._late else None

    @property
    def waiting(self) -> int:
        return sum(len(b) for b in self._waiting)

    def columns_in_use(self) -> list[tuple[Column, ...]]:
        return [b.columns for b in self._waiting] + self._late


def _stacked(parts: Sequence[tuple[Column, ...]]) -> tuple[Column, ...]:
    return tuple(concat(columns) for columns in zip(*parts, strict=True))


def _copied(batch: Batch) -> Batch:
    """Free of the large batch it was cut from."""
    ts = batch.ts.copy()
    return Batch(ts, ts, tuple(c.copy() for c in batch.columns))
