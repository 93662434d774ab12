"""A SteM: the live rows of a FIFO edge, indexed by one or more keys (Madden et al. 2002, §2.3).

Rows lie in arrival order, so expiry moves one pointer; chains are newest first, so a walk stops at the
first expired row; nothing is ever deleted. When the arrays are full, live rows slide to the front.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.data.batch import Array, Batch, Column, Ints
from penstock.data.types import Type
from penstock.kernels import chains
from penstock.state.arena import Arena, power_of_two
from penstock.state.frame import Frame
from penstock.state.pool import Slots


class Index:
    """One key of a SteM or of the slots of a roster: chains by hash of a 64-bit key."""

    __slots__ = ("back", "chain", "head", "key", "name")

    def __init__(self, arena: Arena, name: str, *, doubly: bool) -> None:
        self.name = name
        self.key: Ints = arena.array(f"{name}.key", np.int64, 0)
        self.chain: Slots = arena.array(f"{name}.chain", np.int32, 0)
        self.head: Slots = arena.array(f"{name}.head", np.int32, 64, -1)
        self.back: Slots | None = arena.array(f"{name}.back", np.int32, 0) if doubly else None

    def fit(self, arena: Arena, capacity: int) -> None:
        self.key = arena.grow(f"{self.name}.key", capacity)
        self.chain = arena.grow(f"{self.name}.chain", capacity)
        if self.back is not None:
            self.back = arena.grow(f"{self.name}.back", capacity, -1)
        if len(self.head) < capacity:
            self.head = arena.array(f"{self.name}.head", np.int32, power_of_two(capacity), -1)
            if self.back is not None:
                chains.relink_slots(self.key, self.head, self.chain, self.back)


class Stem:
    """Rows [tail, used) are live (or of the running step); `exp` does not fall along them."""

    fifo = True

    def __init__(
        self, arena: Arena, name: str, types: Sequence[Type], keys: int, *, with_ts: bool
    ) -> None:
        self._arena = arena
        self._name = name
        self.frame = Frame(arena, f"{name}.row", types)
        self.exp: Ints = arena.array(f"{name}.exp", np.int64, 0)
        self.ts: Ints = arena.array(f"{name}.ts", np.int64, 0)
        self._with_ts = with_ts
        self.indexes = [Index(arena, f"{name}.key{k}", doubly=False) for k in range(keys)]
        self.capacity = 0
        self.used = 0
        self.tail = 0

    @property
    def end(self) -> Ints:
        return self.exp

    def __len__(self) -> int:
        return self.used - self.tail

    def admit(self, batch: Batch, columns: Sequence[Column], keys: Sequence[Ints]) -> int:
        """Write the rows after the last; returns the slot of the first. They are not linked yet."""
        n = len(batch)
        if self.used + n > self.capacity:
            self._make_room(n)
        first, last = self.used, self.used + n
        self.exp[first:last] = batch.exp
        if self._with_ts:
            self.ts[first:last] = batch.ts
        self.frame.put(slice(first, last), columns)
        for index, key in zip(self.indexes, keys, strict=True):
            index.key[first:last] = key
        self.used = last
        return first

    def link(self, first: int) -> None:
        """Enter rows from `first` on into all chains."""
        for index in self.indexes:
            chains.link(index.key, first, self.used, index.head, index.chain)

    def expire(self, now: int) -> None:
        """Rows with exp <= now are gone."""
        self.tail += int(np.searchsorted(self.exp[self.tail : self.used], now, side="right"))

    def columns(self, slots: Array) -> tuple[Column, ...]:
        return self.frame.at(slots)

    def _make_room(self, n: int) -> None:
        live, tail = self.used - self.tail, self.tail
        if tail:
            self._slide(tail, live)
        if live + n > 0.7 * self.capacity:
            self._grow(max(64, int(1.5 * (live + n))))

    def _slide(self, tail: int, live: int) -> None:
        """Move live rows to the front; chains keep pointing at them."""
        used = self.used
        self.frame.shift(tail, used)
        self.exp[:live] = self.exp[tail:used]
        if self._with_ts:
            self.ts[:live] = self.ts[tail:used]
        for index in self.indexes:
            index.key[:live] = index.key[tail:used]
            np.subtract(index.chain[tail:used], tail, out=index.chain[:live])
            index.head -= np.int32(tail)
            np.maximum(index.head, -1, out=index.head)
        self.tail, self.used = 0, live

    def _grow(self, capacity: int) -> None:
        arena, name = self._arena, self._name
        self.exp = arena.grow(f"{name}.exp", capacity)
        if self._with_ts:
            self.ts = arena.grow(f"{name}.ts", capacity)
        self.frame.fit(capacity)
        for index in self.indexes:
            before = len(index.head)
            index.fit(arena, capacity)
            if len(index.head) != before:
                chains.link(index.key, self.tail, self.used, index.head, index.chain)
        self.capacity = capacity
