"""When things end, for who knows nothing about it: a list in order of arrival (Golab & Özsu 2005, §2.3.3).

Insertion is O(1), finding what has ended O(rows): the structure that the direct execution is compared by.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.state import expiry_list as kernels
from penstock.plan.state_upkeep import Upkeep
from penstock.state.arena import Arena, power_of_two
from penstock.state.renumbering import Renumbering
from penstock.types.batch import Array, Ints
from penstock.types.event_time import EARLIEST

_BLANK = np.array([0, 0, EARLIEST], np.int64)


class Listing:
    """The same face as `Calendar`."""

    def __init__(self, arena: Arena, name: str, upkeep: Upkeep) -> None:
        self._arena = arena
        self._name = name
        self._upkeep = upkeep
        self._held = arena.array(f"{name}.held", np.int32, 0)
        self._when = arena.array(f"{name}.when", np.int64, 0)
        self._registers = arena.array(f"{name}.registers", np.int64, 3, _BLANK)

    def __len__(self) -> int:
        return int(self._registers[kernels.LENGTH])

    @property
    def structure(self) -> str:
        return "list, searched for what has ended"

    def fit(self, capacity: int) -> None:
        """Room is made as slots come."""

    def renumber(self, made: Renumbering) -> None:
        """List what was listed under the new slots."""
        listed = np.arange(len(self))
        self._held = self._arena.pick(f"{self._name}.held", listed, made.capacity)
        self._when = self._arena.pick(f"{self._name}.when", listed, made.capacity)
        self._held[: len(listed)] = made.of(self._held[: len(listed)])

    def take(self, starts: Ints, slots: Array, times: Ints, now: int) -> Array:
        """Slots that start at `starts` and end at `times`, and time up to `now`: what is due, unordered."""
        eager = self._upkeep.eager
        if eager is None:
            self.put(slots, times, now)
            return self.drain(now)
        self._fit(len(slots))
        out = np.empty(len(self) + len(slots), np.int32)
        n = kernels.tick(starts, slots, times, eager, self._held, self._when, out, 0, self._registers)
        self._arena.visits += len(slots)
        return self._searched(now, out, n)

    def pass_by(self, starts: Ints, now: int) -> Array:
        """What is due by `now`, searched for whenever something starts if that is asked for."""
        return self.take(starts, _NONE, _NO_TIMES, now)

    def put(self, slots: Array, times: Ints, now: int) -> None:
        """Append slots."""
        self._fit(len(slots))
        begin, end = len(self), len(self) + len(slots)
        self._held[begin:end] = slots
        self._when[begin:end] = times
        self._registers[kernels.LENGTH] = end
        self._arena.visits += len(slots)

    def drain(self, now: int) -> Array:
        """Everything due by `now`, in order of arrival."""
        return self._searched(now, np.empty(len(self), np.int32), 0)

    def _searched(self, now: int, out: Array, n: int) -> Array:
        n = kernels.search(now, self._held, self._when, out, n, self._registers)
        self._arena.visits += int(self._registers[kernels.VISITS])
        self._registers[kernels.VISITS] = 0
        return out[:n]

    def _fit(self, coming: int) -> None:
        size = len(self) + coming
        if size > len(self._held):
            self._held = self._arena.grow(f"{self._name}.held", power_of_two(size))
            self._when = self._arena.grow(f"{self._name}.when", power_of_two(size))


_NONE = np.empty(0, np.int32)
_NO_TIMES = np.empty(0, np.int64)
