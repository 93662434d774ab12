"""Slots by key: the index of a SteM whose rows may leave in any order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.kernels.join import chains, tiered_chains
from penstock.state.arena import Arena, power_of_two
from penstock.state.renumbering import Renumbering
from penstock.state.slot_pool import Slots
from penstock.types import sizes
from penstock.types.batch import Ints


class Index:
    """One key of a roster's slots: chains by hash of a 64-bit key, which a slot can leave again."""

    __slots__ = ("back", "chain", "head", "key", "name")

    def __init__(self, arena: Arena, name: str) -> None:
        self.name = name
        self.key: Ints = arena.array(f"{name}.key", np.int64, 0)
        self.chain: Slots = arena.array(f"{name}.chain", np.int32, 0)
        self.head: Slots = arena.array(f"{name}.head", np.int32, sizes.current.index_buckets, -1)
        self.back: Slots = arena.array(f"{name}.back", np.int32, 0)

    def fit(self, arena: Arena, capacity: int) -> None:
        """Room for slots below `capacity`, and about as many buckets."""
        self.key = arena.grow(f"{self.name}.key", capacity)
        self.chain = arena.grow(f"{self.name}.chain", capacity)
        self.back = arena.grow(f"{self.name}.back", capacity, -1)
        if len(self.head) < capacity:
            old, self.head = self.head, arena.array(f"{self.name}.head", np.int32, power_of_two(capacity), -1)
            self._relink(old)

    def renumber(self, arena: Arena, made: Renumbering) -> None:
        """Link what was linked under the new slots, in as many buckets as there is room for slots."""
        linked = self.back[made.kept] != -1
        self.key = arena.pick(f"{self.name}.key", made.kept, made.capacity)
        self.chain = arena.array(f"{self.name}.chain", np.int32, made.capacity)
        self.back = arena.array(f"{self.name}.back", np.int32, made.capacity, -1)
        self.back[: len(linked)][linked] = -2
        buckets = max(sizes.current.index_buckets, power_of_two(made.capacity))
        self.head = arena.array(f"{self.name}.head", np.int32, buckets, -1)
        chains.relink_slots(self.key, self.head, self.chain, self.back)

    def _relink(self, _: Slots) -> None:
        chains.relink_slots(self.key, self.head, self.chain, self.back)


class TierIndex(Index):
    """The same by key and tier. `tier`: of each slot; whoever holds it sets it before slots are linked, and where it grows."""

    __slots__ = ("tier",)

    def __init__(self, arena: Arena, name: str, tier: NDArray[np.int16]) -> None:
        super().__init__(arena, name)
        self.tier = tier

    def link(self, slots: Slots) -> None:
        tiered_chains.link(slots, self.key, self.tier, self.head, self.chain, self.back)

    def unlink(self, slots: Slots) -> None:
        chains.unlink_slots(slots, self.head, self.chain, self.back)

    def _relink(self, old: Slots) -> None:
        tiered_chains.relink(old, self.key, self.tier, self.head, self.chain, self.back)
