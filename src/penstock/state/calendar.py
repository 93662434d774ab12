"""When things end: a calendar of slots (Golab & Özsu 2005, §5.3.2).

Partitions (here: buckets) are a power of two of time units wide and chosen so that the calendar spans the longest
wait; insert, cancel and drain are O(1) a slot. Their number follows the number of slots, unless one is asked for: a
drain looks through the bucket that the clock stands in.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.state import calendar as kernels
from penstock.plan.state_upkeep import Upkeep
from penstock.state.arena import Arena, power_of_two
from penstock.state.renumbering import Renumbering
from penstock.types import sizes
from penstock.types.batch import Array, Ints
from penstock.types.event_time import EARLIEST, FOREVER

MOST = 1 << 20
EAGER_CROWD = 0.25
"""Slots a bucket on average from which there are to be more, where state is looked at often: the same bucket is then looked
through often, unless it is as narrow as a time unit."""
_BLANK = np.array([0, EARLIEST, 0, 0, EARLIEST], np.int64)


class Calendar:
    """Slots by the time they end; `forth`, `back` and `when` are indexed by slot."""

    def __init__(self, arena: Arena, name: str, upkeep: Upkeep) -> None:
        self._arena = arena
        self._name = name
        self._upkeep = upkeep
        self.head = arena.array(f"{name}.head", np.int32, self._fewest, -1)
        self.forth = arena.array(f"{name}.forth", np.int32, 0)
        self.back = arena.array(f"{name}.back", np.int32, 0)
        self.when = arena.array(f"{name}.when", np.int64, 0)
        self.capacity = len(self.when)
        self.registers = arena.array(f"{name}.registers", np.int64, 5, _BLANK)

    @property
    def _fewest(self) -> int:
        asked = self._upkeep.partitions
        return sizes.current.buckets if asked is None else power_of_two(asked)

    @property
    def structure(self) -> str:
        return f"calendar of {len(self.head)} partitions"

    def fit(self, capacity: int) -> None:
        """Room for slots below `capacity`."""
        if capacity > self.capacity:
            self.forth = self._arena.grow(f"{self._name}.forth", capacity)
            self.back = self._arena.grow(f"{self._name}.back", capacity, -1)
            self.when = self._arena.grow(f"{self._name}.when", capacity)
            self.capacity = capacity

    def renumber(self, made: Renumbering) -> None:
        """Schedule what was scheduled under the new slots, in no more buckets than that takes."""
        scheduled = self.back[made.kept] != -1
        self.forth = self._arena.array(f"{self._name}.forth", np.int32, made.capacity)
        self.back = self._arena.array(f"{self._name}.back", np.int32, made.capacity, -1)
        self.back[: len(scheduled)][scheduled] = -2
        self.when = self._arena.pick(f"{self._name}.when", made.kept, made.capacity)
        self.capacity = made.capacity
        count, buckets = int(scheduled.sum()), self._fewest
        while (
            self._upkeep.partitions is None and count > self._crowded * buckets and buckets < len(self.head)
        ):
            buckets *= 4
        self.head = self._arena.array(f"{self._name}.head", np.int32, buckets, -1)
        drained = int(self.registers[kernels.DRAINED])
        if drained == EARLIEST and count:
            drained = int(self.when[: len(scheduled)][scheduled].min())
        self.registers[kernels.SHIFT] = self._widest(drained, buckets)
        kernels.rebuild(self.capacity, self.head, self.forth, self.back, self.when, self.registers)

    def __len__(self) -> int:
        return int(self.registers[kernels.COUNT])

    @property
    def _crowded(self) -> float:
        """Slots of a bucket, on average, from which there are to be more buckets."""
        return sizes.current.crowd if self._upkeep.eager is None else EAGER_CROWD

    @property
    def crowd(self) -> float:
        """Slots of a bucket that has any, on average."""
        return len(self) / max(int((self.head >= 0).sum()), 1)

    def span(self, latest: int, now: int, coming: int = 0) -> None:
        """Buckets wide enough for waits from `now` to `latest`, and enough of them for those that come too."""
        buckets = self._fewest
        if self._upkeep.partitions is None:
            buckets = max(buckets, len(self.head))
            while len(self) + coming > self._crowded * buckets and latest - now >= buckets and buckets < MOST:
                buckets *= 4
        shift = int(self.registers[kernels.SHIFT])
        wanted = shift if buckets == len(self.head) else 0
        while (latest - now) >> wanted >= buckets:
            wanted += 1
        if (wanted, buckets) != (shift, len(self.head)):
            if buckets != len(self.head):
                wanted = max(wanted, self._widest(now, buckets))
                self.head = self._arena.array(f"{self._name}.head", np.int32, buckets, -1)
            self.registers[kernels.SHIFT] = wanted
            kernels.rebuild(self.capacity, self.head, self.forth, self.back, self.when, self.registers)

    def _widest(self, now: int, buckets: int) -> int:
        """The shift that spans what is scheduled already."""
        scheduled = self.when[self.back != -1]
        wait = int(scheduled.max()) - now if len(scheduled) else 0
        shift = 0
        while wait >> shift >= buckets:
            shift += 1
        return shift

    def take(self, starts: Ints, slots: Array, times: Ints, now: int) -> Array:
        """Slots that start at `starts` and end at `times` (FOREVER is not scheduled), and time up to `now`: what is due,
        unordered."""
        eager = self._upkeep.eager
        if eager is None:
            self.put(slots, times, now)
            return self.drain(now)
        self.make_way(times, now)
        out = np.empty(len(self) + len(slots), np.int32)
        arrays = (self.head, self.forth, self.back, self.when, self.registers)
        n = kernels.tick(starts, slots, times, FOREVER, eager, out, 0, *arrays)
        return self._drained(now, out, n, len(slots))

    def pass_by(self, starts: Ints, now: int) -> Array:
        """What is due by `now`, looked for whenever something starts if that is asked for."""
        return self.take(starts, _NONE, _NO_TIMES, now)

    def put(self, slots: Array, times: Ints, now: int) -> None:
        """Schedule slots; FOREVER is not scheduled."""
        if len(slots):
            self.make_way(times, now)
            kernels.put_many(
                slots, times, FOREVER, self.head, self.forth, self.back, self.when, self.registers
            )
            self._arena.visits += len(slots)

    def schedule(self, times: Ints, now: int) -> None:
        """All slots anew, by when they end."""
        self.head[:] = -1
        self.back[:] = -1
        self.registers[kernels.COUNT] = 0
        slots = np.flatnonzero(times < FOREVER).astype(np.int32)
        self.put(slots, times[slots], now)

    def cancel(self, slots: Array) -> None:
        """Unschedule those that are scheduled."""
        kernels.cancel_many(slots, self.head, self.forth, self.back, self.registers)
        self._arena.visits += len(slots)

    def drain(self, now: int) -> Array:
        """Everything due by `now`, unordered."""
        return self._drained(now, np.empty(len(self), np.int32), 0, 0)

    def _drained(self, now: int, out: Array, n: int, put: int) -> Array:
        n = kernels.drain(now, out, n, self.head, self.forth, self.back, self.when, self.registers)
        self._arena.visits += put + int(self.registers[kernels.VISITS])
        self.registers[kernels.VISITS] = 0
        return out[:n]

    def make_way(self, times: Ints, now: int) -> None:
        """Room for what is to end at these times."""
        if len(times):
            self.span(latest(times, now), now, len(times))


def latest(times: Ints, now: int) -> int:
    """The last end that is told, or now."""
    last = int(times.max())
    if last == FOREVER:
        bounded = times[times < FOREVER]
        last = int(bounded.max()) if len(bounded) else now
    return last


_NONE = np.empty(0, np.int32)
_NO_TIMES = np.empty(0, np.int64)
