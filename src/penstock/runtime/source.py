"""A stream as it comes in: watermark, rows waiting for the clock, rows that came too late."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.data.batch import Batch, Column, Ints, concat
from penstock.data.memory import room
from penstock.kernels.events import arrivals, time_order
from penstock.plan.catalog import Stream
from penstock.runtime.unread import Plain, Unread, read
from penstock.state.arena import Arena


class SourceMark(NamedTuple):
    """A source before a push."""

    pushes: int
    watermark: int
    waiting: int
    settled: bool
    borrowed: bool
    late: int
    late_rows: int


class Source:
    """W (`watermark`): every row with ts < W has come; a row below W when it arrives is late.

    What is pushed stays the caller's memory until it is taken (in fresh memory, slice by slice) or `own` is called; but what
    nobody can write to is never copied.
    """

    def __init__(self, stream: Stream, floor: int) -> None:
        self.stream = stream
        self.watermark = floor
        self._plain = Plain(stream)
        self._waiting: list[Batch | Unread] = []
        """Each in time order, and after `settle` one after the other."""
        self._settled = True
        self._borrowed = False
        """The last that waits is in the caller's memory."""
        self._late: list[tuple[Column, ...]] = []
        self.late_rows = 0
        self._rows, self._first = 0, 0
        self._pushes = 0

    def rate(self, now: int) -> float | None:
        """Rows per time unit taken so far; None: none."""
        return self._rows / max(now + 1 - self._first, 1) if self._rows else None

    def mark(self) -> SourceMark:
        """What a push changes; no step may lie between it and `undo`."""
        return SourceMark(
            self._pushes, self.watermark, len(self._waiting), self._settled, self._borrowed,
            len(self._late), self.late_rows,
        )  # fmt: skip

    def undo(self, mark: SourceMark) -> bool:
        """Be as before the push that began after the mark; False if there was another push since."""
        if self._pushes > mark.pushes + 1:
            return False
        del self._waiting[mark.waiting :], self._late[mark.late :]
        self.watermark, self.late_rows = mark.watermark, mark.late_rows
        self._settled, self._borrowed = mark.settled, mark.borrowed
        return True

    def lay(self, rows: pa.RecordBatch) -> bool:
        """Take a few rows unread, if nothing can be wrong with them."""
        made = self._plain.copy(rows, self.watermark)
        if made is None:
            return False
        self._pushes += 1
        self._append(made)
        self.raise_to(int(made.ts[-1]) - self.stream.delay)
        return True

    def push(self, columns: tuple[Column, ...]) -> None:
        """Take rows in arrival order; each may raise W for those behind it."""
        self._pushes += 1
        ts = columns[self.stream.time].values
        n = len(ts)
        if n == 0:
            return
        late = room(n, np.bool_)
        count, in_order, self.watermark = arrivals(ts, self.watermark, self.stream.delay, late)
        if count:
            self._late.append(_taken(columns, np.flatnonzero(late)))
            self.late_rows += count
            columns = _taken(columns, np.flatnonzero(~late))
        if count < n:
            self._wait(columns, in_order)

    def _wait(self, columns: tuple[Column, ...], in_order: bool) -> None:
        ts = columns[self.stream.time].values
        batch = Batch(ts, ts, columns)
        order = None if in_order else time_order(ts)
        if order is not None:
            batch = batch.take(order)
        self._append(batch)
        self._borrowed = True

    def _append(self, batch: Batch | Unread) -> None:
        if self._waiting and self._waiting[-1].ts[-1] > batch.ts[0]:
            self._settled = False
        self._waiting.append(batch)

    def own(self) -> None:
        """Copy what still waits: the caller may write to what it gave."""
        if self._borrowed and self._waiting:
            columns = tuple([c.kept() for c in self._waiting[-1].columns])
            ts = columns[self.stream.time].values
            self._waiting[-1] = Batch(ts, ts, columns)
        self._borrowed = False

    def raise_to(self, watermark: int) -> None:
        self.watermark = max(self.watermark, watermark)

    def ready(self, clock: int) -> int:
        """How many rows with ts <= clock wait."""
        return sum(int(b.ts.searchsorted(clock, side="right")) for b in self._waiting if b.ts[0] <= clock)

    def marks(self, clock: int, step: int) -> list[int]:
        """The time of every `step`-th row that is ready."""
        self._settle()
        marks: list[int] = []
        ahead = step
        for batch in self._waiting:
            end = int(batch.ts.searchsorted(clock, side="right"))
            marks += batch.ts[ahead:end:step].tolist()
            ahead = ahead - end if ahead >= end else (ahead - end) % step
        return marks

    def take(self, clock: int) -> Batch | None:
        """Waiting rows with ts <= clock, in (ts, arrival) order, in memory that stays as it is."""
        self._settle()
        waiting, whole = self._waiting, 0
        while whole < len(waiting) and waiting[whole].ts[-1] <= clock:
            whole += 1
        ready, waiting = waiting[:whole], waiting[whole:]
        if waiting and waiting[0].ts[0] <= clock:
            first = waiting[0]
            cut = int(first.ts.searchsorted(clock, side="right"))
            ready.append(first.slice(0, cut))
            rest = first.slice(cut, len(first))
            small = cut > 4 * len(rest) and not isinstance(rest, Unread)
            waiting[0] = self._joined([rest], anew=True) if small else rest
        self._waiting = waiting
        if not ready:
            return None
        if not self._rows:
            self._first = int(ready[0].ts[0])
        self._rows += sum(map(len, ready))
        return self._joined(ready)

    def _settle(self) -> None:
        """Waiting rows in (ts, arrival) order."""
        if self._settled:
            return
        self._settled = True
        if any(a.ts[-1] > b.ts[0] for a, b in pairwise(self._waiting)):
            joined = self._joined(self._waiting)
            order = time_order(joined.ts)
            self._waiting = [joined if order is None else joined.take(order)]
            self._borrowed = False

    def _joined(self, parts: Sequence[Batch | Unread], *, anew: bool = False) -> Batch:
        """One batch; `anew`: of a few rows in memory of their own, so that what they lie in can go."""
        unread = [part for part in parts if isinstance(part, Unread)]
        columns = read(unread) if len(unread) == len(parts) else _stacked([b.columns for b in parts])
        if anew:
            columns = tuple([c.copy(lent=True) for c in columns])
        ts = columns[self.stream.time].values
        return Batch(ts, ts, columns)

    def late(self) -> tuple[Column, ...] | None:
        """All rows that came too late."""
        return _stacked(self._late) if self._late else None

    def save(self, arena: Arena) -> None:
        """Lay the watermark, what waits and what came too late into an arena."""
        self._settle()
        arena.keep("registers", np.array([self.watermark, self.late_rows], np.int64))
        for name, parts in (("waiting", [b.columns for b in self._waiting]), ("late", self._late)):
            if parts:
                arena.keep_columns(name, _stacked(parts))

    def take_up(self, arena: Arena) -> None:
        """Be the source that was saved; nothing has been pushed here yet."""
        self.watermark, self.late_rows = arena.taken("registers", np.int64, 2).tolist()
        types = [f.type for f in self.stream.schema]
        waiting, late = arena.columns("waiting", types), arena.columns("late", types)
        if waiting is not None:
            ts = waiting[self.stream.time].values
            self._waiting = [Batch(ts, ts, waiting)]
        if late is not None:
            self._late = [late]

    @property
    def waiting(self) -> int:
        return sum(len(b) for b in self._waiting)

    def columns_in_use(self) -> list[tuple[Column, ...]]:
        return [b.columns for b in self._waiting] + self._late


def _taken(columns: Sequence[Column], rows: Ints) -> tuple[Column, ...]:
    """These rows in memory of their own."""
    return tuple(c.take(rows).copy() for c in columns)


def _stacked(parts: Sequence[tuple[Column, ...]]) -> tuple[Column, ...]:
    """One after the other, in memory that stays as it is."""
    return tuple(c[0].kept() if len(c) == 1 else concat(c) for c in zip(*parts, strict=True))
