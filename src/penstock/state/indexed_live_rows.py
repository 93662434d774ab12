"""A roster whose slots are also indexed by keys: the SteM of an edge that is not FIFO.

Rows may end in any order or be taken back; they leave their chains at the end of the step in which they
end, so that every probe of that step still finds them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.kernels.join import chains
from penstock.plan.edge import Edge
from penstock.plan.state_upkeep import Upkeep
from penstock.state.arena import Arena, Slab
from penstock.state.hash_index import Index
from penstock.state.live_rows import Events, Roster
from penstock.state.renumbering import Renumbering
from penstock.state.slot_pool import Slots
from penstock.types.batch import Array, Batch, Column, Ints, Mask
from penstock.types.data_type import Type


class LinkedRoster:
    """The same face as `Stem` for probing (`ts`, `exp`, `end`, `indexes`), plus the step's events."""

    def __init__(
        self,
        arena: Arena,
        name: str,
        types: Sequence[Type],
        keys: int,
        edge: Edge,
        upkeep: Upkeep,
        *,
        tells: bool,
        lazy: bool,
    ) -> None:
        self._arena = arena
        self._tells = tells
        self.roster = Roster(arena, name, types, edge, upkeep, lazy=lazy, with_ts=True)
        self.indexes = [Index(arena, f"{name}.key{k}") for k in range(keys)]
        self._fresh = Slab(arena, f"{name}.fresh", fresh=(np.bool_, False))
        self._events: Events | None = None

    def __len__(self) -> int:
        return len(self.roster)

    @property
    def ts(self) -> Ints:
        return self.roster.slab["ts"]

    @property
    def exp(self) -> Ints:
        return self.roster.slab["exp"]

    @property
    def end(self) -> Ints:
        return self.roster.end

    @property
    def fresh(self) -> Mask:
        """Which slots started in the running step."""
        return self._fresh["fresh"]

    def step(self, batch: Batch, keys: Sequence[Ints], now: int) -> Events:
        """Take a batch; its '+' rows are linked under `keys` (one row of keys per '+' row)."""
        events = self.roster.step(batch, now)
        capacity = self.roster.capacity
        if capacity > self._fresh.capacity:
            self._fresh.fit(capacity)
            for index in self.indexes:
                index.fit(self._arena, capacity)
        self.fresh[events.started] = True
        for index, key in zip(self.indexes, keys, strict=True):
            index.key[events.started] = key
            chains.link_slots(events.started, index.key, index.head, index.chain, index.back)
        self._events = events
        return events

    def finish(self) -> None:
        """Ended rows leave their chains and free their slots."""
        events = self._events
        if events is None:
            return
        self.fresh[events.started] = False
        for index in self.indexes:
            chains.unlink_slots(events.ended, index.head, index.chain, index.back)
        self.roster.finish()
        self._events = None

    def shrink(self, coming: int) -> Renumbering | None:
        """Renumber the slots if few of them are taken; None: they stay. Between steps, after `finish`."""
        if self._events is not None:
            return None
        made = self.roster.shrink(coming)
        if made is not None:
            self._fresh.renumber(made)
            for index in self.indexes:
                index.renumber(self._arena, made)
        return made

    def columns(self, slots: Array, which: Sequence[int] | None = None) -> tuple[Column, ...]:
        return self.roster.columns(slots, which)

    def alive(self, now: int) -> Slots:
        """Slots of the rows that have not ended."""
        slots = self.roster.live()
        return slots[self.end[slots] > now]

    def to_tell(self, events: Events) -> Slots:
        """Slots whose end is to be told with negative tuples: all, or those that ended early."""
        ended = events.ended
        return ended if self._tells else ended[self.end[ended] < self.exp[ended]]
