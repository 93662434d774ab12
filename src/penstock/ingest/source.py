"""A stream as it comes in: watermark, rows waiting for the clock, rows that came too late."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.ingest.fast_path import Plain, Unread, read
from penstock.ingest.future_bound import AheadBound
from penstock.ingest.rejected_rows import SetAside, SetAsideMark, column_bytes, stacked
from penstock.ingest.warnings import Lateness, far_notice
from penstock.kernels.state.live_row_events import arrivals, time_order
from penstock.plan.catalog import Stream
from penstock.state.arena import Arena
from penstock.types.batch import Batch, Column, Ints, Mask
from penstock.types.event_time import EARLIEST, FIRST_INSTANT, LATEST
from penstock.types.memory import room


class SourceMark(NamedTuple):
    """A source before a push."""

    pushes: int
    watermark: int
    waiting: int
    settled: bool
    borrowed: bool
    newest: int | None
    late: SetAsideMark
    ahead: SetAsideMark


class StreamLimits(NamedTuple):
    """What a session sets aside of a stream: late rows and those too far ahead, `keep` rows of each at most; `notices` takes warnings."""

    keep: int
    notices: list[Warning]


class Source:
    """W (`watermark`): every row with ts < W has come; a row below W when it arrives is late.

    What is pushed stays the caller's memory until it is taken (in fresh memory, slice by slice) or `own` is called; but what
    nobody can write to is never copied.
    """

    def __init__(self, stream: Stream, floor: int, limits: StreamLimits | None = None) -> None:
        self.stream = stream
        self._notices: list[Warning] = [] if limits is None else limits.notices
        self._bound = None if limits is None else AheadBound.of(stream)
        self._newest: int | None = None
        """The greatest time of the rows that were not too far ahead, if there is a bound."""
        keep = None if limits is None else limits.keep
        self.watermark = floor
        self._plain = Plain(stream)
        self._waiting: list[Batch | Unread] = []
        """Each in time order, and after `settle` one after the other."""
        self._settled = True
        self._borrowed = False
        """The last that waits is in the caller's memory."""
        self._late, self._ahead = SetAside(keep), SetAside(keep)
        self._lateness = Lateness(stream.name) if limits is not None else None
        self._rows, self._first = 0, 0
        self.latest = EARLIEST
        """The greatest time of the rows taken so far."""
        self._pushes = 0
        self._heard = time.monotonic()

    @property
    def is_idle(self) -> bool:
        """No rows have come for as long as it declares."""
        idle = self.stream.idle
        return idle is not None and 1e6 * (time.monotonic() - self._heard) >= idle

    def delay_by(self, delay: int) -> None:
        """From now on rows may come this much later than newer ones; the watermark does not fall."""
        self.stream = replace(self.stream, delay=delay)

    def rate(self, now: int) -> float | None:
        """Rows per time unit taken so far; None: none."""
        return self._rows / max(now + 1 - self._first, 1) if self._rows else None

    def mark(self) -> SourceMark:
        """What a push changes; no step may lie between it and `undo`."""
        return SourceMark(
            self._pushes, self.watermark, len(self._waiting), self._settled, self._borrowed,
            self._newest, self._late.mark(), self._ahead.mark(),
        )  # fmt: skip

    def undo(self, mark: SourceMark) -> bool:
        """Be as before the push that began after the mark; False if there was another push since."""
        if self._pushes > mark.pushes + 1:
            return False
        del self._waiting[mark.waiting :]
        self._late.undo(mark.late)
        self._ahead.undo(mark.ahead)
        self.watermark, self._newest = mark.watermark, mark.newest
        self._settled, self._borrowed = mark.settled, mark.borrowed
        return True

    def lay(self, rows: pa.RecordBatch) -> bool:
        """Take a few rows unread, if nothing can be wrong with them."""
        limit = LATEST if self._bound is None else self._bound.limit(self.watermark, self._newest)
        made = self._plain.copy(rows, self.watermark, limit)
        if made is None:
            return False
        self._pushes += 1
        if self.stream.idle is not None:
            self._heard = time.monotonic()
        self._append(made)
        self._note_newest(made.ts)
        self.raise_to(int(made.ts[-1]) - self.stream.delay)
        return True

    def push(self, columns: tuple[Column, ...]) -> None:
        """Take rows in arrival order; each may raise W for those behind it."""
        self._pushes += 1
        if self.stream.idle is not None:
            self._heard = time.monotonic()
        ts = columns[self.stream.time].values
        n = len(ts)
        if n == 0:
            return
        far = None if self._bound is None else self._bound.beyond(ts, self.watermark, self._newest)
        if far is not None:
            columns = self._without_far(columns, far)
            ts = columns[self.stream.time].values
            n = len(ts)
            if n == 0:
                return
        self._note_newest(ts)
        late = room(n, np.bool_)
        count, in_order, self.watermark = arrivals(ts, self.watermark, self.stream.delay, late)
        if count:
            self._late.add(_taken(columns, np.flatnonzero(late)))
            columns = _taken(columns, np.flatnonzero(~late))
        if self._lateness is not None:
            self._notices += self._lateness.note(n, count, self._late.lost)
        if count < n:
            self._wait(columns, in_order)

    def _note_newest(self, ts: Ints) -> None:
        if self._bound is not None:
            newest = int(ts.max())
            self._newest = newest if self._newest is None else max(self._newest, newest)

    def _without_far(self, columns: tuple[Column, ...], far: Mask) -> tuple[Column, ...]:
        """Set rows aside that are too far ahead; the others."""
        taken = _taken(columns, np.flatnonzero(far))
        if not self._ahead.count:
            self._notices.append(far_notice(self.stream, int(taken[self.stream.time].values[0])))
        self._ahead.add(taken)
        return _taken(columns, np.flatnonzero(~far))

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
        self.latest = max(self.latest, int(ready[-1].ts[-1]))
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
        columns = read(unread) if len(unread) == len(parts) else stacked([b.columns for b in parts])
        if anew:
            columns = tuple([c.copy(lent=True) for c in columns])
        ts = columns[self.stream.time].values
        return Batch(ts, ts, columns)

    @property
    def late_rows(self) -> int:
        """How many rows came too late."""
        return self._late.count

    @property
    def ahead_rows(self) -> int:
        """How many rows were too far ahead."""
        return self._ahead.count

    def late(self) -> tuple[Column, ...] | None:
        """The rows that came too late, as far as they are kept."""
        return self._late.rows()

    def ahead(self) -> tuple[Column, ...] | None:
        """The rows that were too far ahead, as far as they are kept."""
        return self._ahead.rows()

    def save(self, arena: Arena) -> None:
        """Lay the watermark, what waits and what was set aside into an arena."""
        self._settle()
        arena.keep("registers", np.array([self.watermark, self.late_rows], np.int64))
        if self._waiting:
            arena.keep_columns("waiting", stacked([b.columns for b in self._waiting]))
        late, ahead = self._late.rows(), self._ahead.rows()
        if late is not None:
            arena.keep_columns("late", late)
        if ahead is not None:
            arena.keep_columns("ahead", ahead)
            arena.keep("ahead_rows", np.array([self.ahead_rows], np.int64))

    def take_up(self, arena: Arena) -> None:
        """Be the source that was saved; nothing has been pushed here yet."""
        self.watermark, late_rows = arena.taken("registers", np.int64, 2).tolist()
        self.latest = self.watermark  # rows were taken, and none beyond it
        self._newest = None if self.watermark in (EARLIEST, FIRST_INSTANT) else self.watermark
        types = [f.type for f in self.stream.schema]
        waiting, late = arena.columns("waiting", types), arena.columns("late", types)
        if waiting is not None:
            ts = waiting[self.stream.time].values
            self._waiting = [Batch(ts, ts, waiting)]
        if late is not None:
            self._late.take_up(late, late_rows)
        ahead = arena.columns("ahead", types)
        if ahead is not None:
            self._ahead.take_up(ahead, int(arena.taken("ahead_rows", np.int64, 1)[0]))

    @property
    def waiting(self) -> int:
        return sum(len(b) for b in self._waiting)

    def columns_in_use(self) -> list[tuple[Column, ...]]:
        return [b.columns for b in self._waiting] + self._late.parts + self._ahead.parts

    @property
    def size_bytes(self) -> int:
        """Rows that wait, and those set aside; strings as codes."""
        waiting = sum(
            b.rows.get_total_buffer_size() if isinstance(b, Unread) else column_bytes(b.columns)
            for b in self._waiting
        )
        return waiting + self._late.size_bytes + self._ahead.size_bytes


def _taken(columns: Sequence[Column], rows: Ints) -> tuple[Column, ...]:
    """These rows in memory of their own."""
    return tuple(c.take(rows).copy() for c in columns)
