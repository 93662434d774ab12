"""The live rows of an edge, and when each of them ends.

The structure follows the edge's update pattern (Golab & Özsu 2005, §5.3.2):

MONOTONIC, WEAKEST   rows end in the order they came: a queue (so for count windows, though their ends are told)
WEAK                 rows end when announced, in any order: a calendar
STRICT               rows may also be taken back: a calendar, and a way to find them (`state.retraction_index`)

Two others are there to compare with (§2.3): on a *told* edge every end comes as a negative tuple, so the numbers alone
do; the direct execution keeps a list and searches it.

Slots are stable within a step and are reused afterwards; between steps they may be renumbered (`shrink`). `step` gives the events of a step (a slot
starts, a slot ends) in time order, ends first; `finish` frees what has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock.kernels.state import live_row_events as event_kernels
from penstock.plan.edge import Edge
from penstock.plan.state_upkeep import Expiry, Upkeep
from penstock.state.arena import Arena, Slab
from penstock.state.calendar import Calendar
from penstock.state.expiry_list import Listing
from penstock.state.renumbering import Renumbering
from penstock.state.retraction_index import Matching
from penstock.state.slot_pool import NO_SLOTS, Pool, Slots
from penstock.types import sizes
from penstock.types.batch import Batch, Column, Ints
from penstock.types.data_type import Type
from penstock.types.event_time import EARLIEST, FOREVER

Signs = NDArray[np.int8]
_NO_TIMES = np.empty(0, np.int64)
_AT_ONCE = np.array([EARLIEST, 0], np.int64)
"""When to look for what has ended, and the longest life there was."""


class Events(NamedTuple):
    """Slots that start (+1) and end (-1), in time order, ends first within an instant."""

    times: Ints
    slots: Slots
    signs: Signs
    started: Slots
    """Slots that start in this step, in time order; row k of the batch's '+' rows sits at started[k]."""
    ended: Slots


class Roster:
    """Rows alive on one edge. `types` are the payload columns to keep (may be none).

    `lazy`: nobody waits for ends as announced, they are found now and then.
    """

    def __init__(
        self,
        arena: Arena,
        name: str,
        types: Sequence[Type],
        edge: Edge,
        upkeep: Upkeep,
        *,
        lazy: bool = False,
        with_ts: bool = False,
    ) -> None:
        self._pool = Pool(arena, name, types)
        self.frame = self._pool.frame
        self.matches = edge.matches
        # Windows tell of their ends in order in any execution; who is told does not know without update patterns.
        aware = upkeep.expiry.aware or (upkeep.expiry is Expiry.NEGATIVE and not edge.matches)
        self._fifo = edge.endless or (edge.in_order and aware)
        """A queue does, whether ends are announced or told."""
        self.in_order = self._fifo or (edge.in_order and not self.matches)
        """Slots end in the order they started."""
        fields: dict[str, tuple[Any, Any]] = {"exp": (np.int64, 0)}
        if with_ts:
            fields["ts"] = (np.int64, 0)
        if self.matches:
            fields["end"] = (np.int64, 0)
        self._with_ts = with_ts
        self.slab = Slab(arena, name, **fields)
        self._arena = arena
        self._name = name
        self._ended: Slots = NO_SLOTS
        self._upkeep = upkeep
        self._lazy = lazy
        self._ends: Calendar | Listing | None = None
        if self._fifo:
            self._queue = arena.array(f"{name}.queue", np.int32, sizes.current.slots)
            self._registers = arena.array(f"{name}.ends", np.int64, 2, 0)
        elif not self.matches and upkeep.expiry is Expiry.DIRECT:
            self._ends = Listing(arena, f"{name}.ends", upkeep)
        elif not edge.told:
            self._ends = Calendar(arena, f"{name}.ends", upkeep)
        if lazy:
            self._next = arena.array(f"{name}.next", np.int64, 2, _AT_ONCE)
        self._matching: Matching | None = None
        if self.matches and not self._fifo:
            calendar = self._ends if isinstance(self._ends, Calendar) else None
            self._matching = Matching(arena, name, self._pool, self.slab, calendar)

    def __len__(self) -> int:
        return len(self._pool) - len(self._ended)

    @property
    def capacity(self) -> int:
        """Every slot is below this."""
        return self._pool.capacity

    @property
    def end(self) -> Ints:
        """When each row ends as far as is known: as announced, unless it was taken back."""
        return self.slab["end"] if self.matches else self.slab["exp"]

    def step(self, batch: Batch, now: int) -> Events:
        """Take a batch of changes and let time pass until `now` (inclusive)."""
        if self._fifo:
            return self._step_told(batch) if self.matches else self._step_fifo(batch, now)
        if self._matching is None:
            slots = self._admit(batch)
            retracted, at = NO_SLOTS, _NO_TIMES
            natural = self._due(batch, slots, now)
            return self._events(batch.ts, slots, retracted, at, natural)
        signs = np.ones(len(batch), np.int8) if batch.sign is None else batch.sign
        plus, minus = np.flatnonzero(signs > 0), np.flatnonzero(signs < 0)
        arrivals = batch.take(plus) if len(minus) else batch
        slots = self._admit(arrivals)
        every = np.empty(len(batch), np.int32)
        every[plus] = slots
        if len(batch):
            self._matching.take(batch, every, now)
        natural = self._overdue(arrivals, now)
        self._matching.ended(natural)
        return self._events(arrivals.ts, slots, every[minus], batch.ts[minus], natural)

    def _due(self, batch: Batch, slots: Slots, now: int) -> Slots:
        """Take rows whose ends are all announced; slots that end by `now`, unordered."""
        assert self._ends is not None
        if not self._lazy:
            return self._ends.take(batch.ts, slots, batch.exp, now)
        self._ends.put(slots, batch.exp, now)
        return self._overdue(batch, now)

    def _overdue(self, batch: Batch, now: int) -> Slots:
        """Slots that end as announced by `now`, after a batch of rows was scheduled."""
        if self._ends is None:
            return NO_SLOTS
        if not self._lazy:
            return self._ends.pass_by(batch.ts, now)
        lives = (batch.exp - batch.ts)[batch.exp < FOREVER]
        self._next[1] = max(int(self._next[1]), int(lives.max()) if len(lives) else 0)
        if now < self._next[0]:
            return NO_SLOTS
        self._next[0] = min(now + int(self._upkeep.lazy * int(self._next[1])), FOREVER)
        return self._ends.drain(now)

    def end_early(self, slots: Slots, at: int) -> None:
        """Let rows end at an instant, no later than announced and no row before it that is not among them."""
        assert not self.matches, "who is told of ends is told of these"
        self.slab["exp"][slots] = at
        if isinstance(self._ends, Calendar):
            self._ends.cancel(slots)
            self._ends.put(slots, np.full(len(slots), at), at)

    def finish(self) -> None:
        """Free the slots that ended in the last step."""
        ended = self._ended
        if len(ended):
            if self._matching is not None:
                self._matching.free(ended)
            self._pool.give(ended)
            self._ended = NO_SLOTS
        if self._matching is not None:
            self._matching.choose(len(self))

    def shrink(self, coming: int) -> Renumbering | None:
        """Renumber the slots if few of them are taken; None: they stay. Between steps."""
        assert not len(self._ended), "ended rows have been freed"
        if self._matching is not None:
            self._matching.shrink(coming)
        made = self._pool.shrink(coming)
        if made is None:
            return None
        self.slab.renumber(made)
        if self._ends is not None:
            self._ends.renumber(made)
        if self._matching is not None:
            self._matching.renumber(made)
        if self._fifo:
            order = made.of(self.live())
            self._queue = self._arena.array(f"{self._name}.queue", np.int32, made.capacity)
            self._queue[: len(order)] = order
            self._registers[0] = 0
        return made

    def refer(self, made: Renumbering) -> None:
        """Let the first payload column, which holds ids of others, hold the new ones."""
        ids, live = self.frame.values[0], self._pool.live()
        ids[live] = made.of(ids[live])
        if self._matching is not None:
            self._matching.refer(made)

    def _step_fifo(self, batch: Batch, now: int) -> Events:
        slots = self._admit(batch)
        n = len(batch)
        live = int(self._registers[1])
        room = n + live + n
        if live + n > len(self._queue):
            self._widen_queue(live + n)
        due = self._count_due(now, live)
        times = np.empty(min(room, n + due + n), np.int64)
        out = np.empty(len(times), np.int32)
        signs = np.empty(len(times), np.int8)
        count = event_kernels.fifo(
            batch.ts, slots, self._queue, self._registers, self.slab["exp"], now, times, out, signs
        )
        times, out, signs = times[:count], out[:count], signs[:count]
        self._ended = out[signs < 0]
        self._arena.visits += count
        return Events(times, out, signs, slots, self._ended)

    def _step_told(self, batch: Batch) -> Events:
        """Rows that are told to end, the oldest first: no need to ask which."""
        signs = np.ones(len(batch), np.int8) if batch.sign is None else batch.sign
        plus, minus = np.flatnonzero(signs > 0), np.flatnonzero(signs < 0)
        slots = self._admit(batch.take(plus) if len(minus) else batch)
        front, live = int(self._registers[0]), int(self._registers[1])
        if live + len(slots) > len(self._queue):
            self._widen_queue(live + len(slots))
            front = 0
        mask = len(self._queue) - 1
        self._queue[(front + live + np.arange(len(slots))) & mask] = slots
        ended: Slots = self._queue[(front + np.arange(len(minus))) & mask]
        self._registers[:] = front + len(minus), live + len(slots) - len(minus)
        self.slab["end"][ended] = batch.ts[minus]
        every = np.empty(len(batch), np.int32)
        every[plus], every[minus] = slots, ended
        self._ended = ended
        self._arena.visits += len(batch)
        return Events(batch.ts, every, signs, slots, ended)

    def _count_due(self, now: int, live: int) -> int:
        """An upper bound on how many queued rows end by `now` (exp does not fall along the queue)."""
        low, high = 0, live
        front, mask = int(self._registers[0]), len(self._queue) - 1
        exp = self.slab["exp"]
        while low < high:
            middle = (low + high) // 2
            if exp[self._queue[(front + middle) & mask]] <= now:
                low = middle + 1
            else:
                high = middle
        return low

    def _widen_queue(self, at_least: int) -> None:
        old = self._queue
        size = len(old)
        front, live = int(self._registers[0]), int(self._registers[1])
        order = old[(front + np.arange(live)) & (size - 1)]
        while size < at_least:
            size *= 2
        self._queue = self._arena.array(f"{self._name}.queue", np.int32, size)
        self._queue[:live] = order
        self._registers[0] = 0

    def _admit(self, batch: Batch) -> Slots:
        """Give each row a slot and write it there."""
        if len(batch) == 0:
            return NO_SLOTS
        slots = self._pool.take(batch.columns[: len(self.frame.types)], len(batch))
        capacity = self._pool.capacity
        if capacity > self.slab.capacity:
            self.slab.fit(capacity)
            if self._ends is not None:
                self._ends.fit(capacity)
            if self._matching is not None:
                self._matching.fit(capacity)
        slab = self.slab
        slab["exp"][slots] = batch.exp
        if self._with_ts:
            slab["ts"][slots] = batch.ts
        if self.matches:
            slab["end"][slots] = batch.exp
        return slots

    def _events(self, starts: Ints, slots: Slots, retracted: Slots, at: Ints, natural: Slots) -> Events:
        ended: Slots = np.concatenate([retracted, natural]) if len(natural) else retracted
        end_times = self.end[ended] if len(ended) else at
        order = event_kernels.time_order(end_times)
        if order is not None:
            ended, end_times = ended[order], end_times[order]
        self._ended = ended
        n = len(starts) + len(ended)
        times, out, signs = np.empty(n, np.int64), np.empty(n, np.int32), np.empty(n, np.int8)
        event_kernels.merge(starts, slots, end_times, ended, times, out, signs)
        return Events(times, out, signs, slots, ended)

    @property
    def structure(self) -> str:
        """In words."""
        if self._fifo:
            return "queue"
        how = "" if self._matching is None else self._matching.structure
        return how if self._ends is None else f"{self._ends.structure}{how and ', '}{how}"

    def live(self) -> Slots:
        """Slots of all rows that have not been freed; in the order in which they end, if that is known."""
        if not self._fifo:
            return self._pool.live()
        front, live = self._registers.tolist()
        slots: Slots = self._queue[(front + np.arange(live)) & (len(self._queue) - 1)]
        return slots

    def columns(self, slots: Slots, which: Sequence[int] | None = None) -> tuple[Column, ...]:
        """Payload at these slots, or some of it."""
        return self.frame.at(slots, which)
