"""When things end: a calendar of slots (Golab & Özsu 2005, §5.3.2).

Buckets are a power of two of time units wide and chosen so that the calendar spans the longest
wait; insert, cancel and drain are O(1) a slot.
"""

from __future__ import annotations

import numpy as np

from penstock.data.batch import Array, Ints
from penstock.data.clock import EARLIEST, FOREVER
from penstock.kernels import calendar as kernels
from penstock.state.arena import Arena

BUCKETS = 256
_BLANK = np.zeros(3, np.int64)
_BLANK[kernels.DRAINED] = EARLIEST


class Calendar:
    """Slots by the time they end; `forth`, `back` and `when` are indexed by slot."""

    def __init__(self, arena: Arena, name: str) -> None:
        self._arena = arena
        self._name = name
        self.head = arena.array(f"{name}.head", np.int32, BUCKETS, -1)
        self.forth = arena.array(f"{name}.forth", np.int32, 0)
        self.back = arena.array(f"{name}.back", np.int32, 0)
        self.when = arena.array(f"{name}.when", np.int64, 0)
        self.capacity = len(self.when)
        self.registers = arena.array(f"{name}.registers", np.int64, 3, _BLANK)

    def fit(self, capacity: int) -> None:
        """Room for slots below `capacity`."""
        if capacity > self.capacity:
            self.forth = self._arena.grow(f"{self._name}.forth", capacity)
            self.back = self._arena.grow(f"{self._name}.back", capacity, -1)
            self.when = self._arena.grow(f"{self._name}.when", capacity)
            self.capacity = capacity

    def __len__(self) -> int:
        return int(self.registers[kernels.COUNT])

    def span(self, latest: int, now: int) -> None:
        """Make buckets wide enough for waits from `now` to `latest`."""
        shift = int(self.registers[kernels.SHIFT])
        wanted = shift
        while (latest - now) >> wanted >= BUCKETS:
            wanted += 1
        if wanted != shift:
            self.registers[kernels.SHIFT] = wanted
            kernels.rebuild(self.capacity, self.head, self.forth, self.back, self.when, self.registers)

    def put(self, slots: Array, times: Ints, now: int) -> None:
        """Schedule slots; FOREVER is not scheduled."""
        if not len(slots):
            return
        latest = int(times.max())
        if latest == FOREVER:
            bounded = times[times < FOREVER]
            latest = int(bounded.max()) if len(bounded) else now
        self.span(latest, now)
        kernels.put_many(slots, times, FOREVER, self.head, self.forth, self.back, self.when, self.registers)

    def drain(self, now: int) -> Array:
        """Everything due by `now`, unordered."""
        out = np.empty(len(self), np.int32)
        n = kernels.drain(now, out, self.head, self.forth, self.back, self.when, self.registers)
        return out[:n]
