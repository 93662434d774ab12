"""The rows of one input of a core: those that wait, and those that are built into the input's SteM.

Paper      Works 2013, §7.3.1: state by pane, join key and level.
Invariant  a built row is in the chains of its keys and of its tier: the level it had when it was built (0: nobody has looked whether it
           has one), for as long as it lives, so that whoever meets level after level meets each row once. What becomes known of its level later, results say.
State      slots; chains by key and tier; runs of slots by the pane in which rows end.
Cost       to build: O(rows); to let go: O(rows that end), and one pane.

A row has its slot from its arrival until nobody can join it any more; only rows that were built are in the chains. One that a table
keeps from being built rests: it is built if the table changes, and goes when it ends. Rows that have ended, but may be met by what
came before and waits, move to tiers of the ended: who is up to date does not look at them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.kernels.join.tiered_chains import LATE, OVER
from penstock.state.arena import Arena, Slab
from penstock.state.hash_index import TierIndex
from penstock.state.panes import Panes
from penstock.state.priority_queue import BACK_BURNER
from penstock.state.slot_pool import Pool, Slots
from penstock.types.batch import Array, Column, Ints
from penstock.types.data_type import Type

TIERS = LATE + OVER
UNBUILT = np.iinfo(np.int64).max
RESTING, DEAD = 1, 2
"""Of rows that were not built: a table's row is missing; nobody wants it any more, but partial results may name it."""


class Stock:
    """`keys`: how many indexes there are."""

    def __init__(self, arena: Arena, name: str, types: Sequence[Type], keys: int) -> None:
        self._arena = arena
        self.pool = Pool(arena, name, types)
        self._slab = Slab(
            arena,
            f"{name}.about",
            ts=(np.int64, 0),
            exp=(np.int64, 0),
            built=(np.int64, UNBUILT),
            level=(np.int64, 0),
            came=(np.int64, 0),
            tier=(np.int16, 0),
            there=(np.bool_, False),
            rest=(np.int8, 0),
        )
        self.indexes = [TierIndex(arena, f"{name}.key{k}", self._slab["tier"]) for k in range(keys)]
        self._held = np.zeros(TIERS, np.int64)
        """Rows by tier."""
        self._over = arena.array(f"{name}.over", np.int64, 1, np.iinfo(np.int64).min)
        """Rows in tiers of the ended end here or before, those that are built later and in none after it."""
        self._alive, self._ended, self._aside = Panes(), Panes(), Panes()
        """Built rows, those of them that have ended, and rows laid aside."""
        self._ends = False
        """Rows were given ends."""
        if self.pool.capacity:
            self._take_up()

    def _take_up(self) -> None:
        """What follows from saved rows."""
        self._fit()
        slots = self.stored()
        tier = self._slab["tier"][slots]
        self._held += np.bincount(tier, minlength=TIERS)
        ended = slots[tier >= OVER]
        aside = np.flatnonzero(self._slab["there"] & (self._slab["rest"] > 0)).astype(np.int32)
        self._alive.put(slots[tier < OVER])
        self._ended.put(ended)
        self._aside.put(aside)

    def __len__(self) -> int:
        return len(self.pool)

    @property
    def over(self) -> int:
        return int(self._over[0])

    @property
    def ts(self) -> Ints:
        return self._slab["ts"]

    @property
    def exp(self) -> Ints:
        return self._slab["exp"]

    @property
    def built(self) -> Ints:
        """The number under which each row was built."""
        return self._slab["built"]

    @property
    def level(self) -> Ints:
        """The best level that is known of each row."""
        return self._slab["level"]

    @property
    def tiers(self) -> Ints:
        """Those that hold rows, by level."""
        held = np.flatnonzero(self._held)
        return held if len(held) < 2 else held[np.argsort(held % OVER, kind="stable")]

    @property
    def came(self) -> Ints:
        """When each row came, in processing time."""
        return self._slab["came"]

    def add(self, columns: Sequence[Column], ts: Ints, exp: Ints, came: int, level: int) -> Slots:
        """Rows that are to wait."""
        slots = self.pool.take(columns, len(ts))
        self._fit()
        self.ts[slots], self.exp[slots] = ts, exp
        self.built[slots], self.level[slots], self.came[slots] = UNBUILT, level, came
        self._slab["there"][slots] = True
        self._slab["rest"][slots] = 0
        return slots

    def _fit(self) -> None:
        if self.pool.capacity > self._slab.capacity:
            self._slab.fit(self.pool.capacity)
            for index in self.indexes:
                index.tier = self._slab["tier"]
                index.fit(self._arena, self.pool.capacity)

    def set_keys(self, slots: Slots, keys: Sequence[Ints]) -> None:
        for index, key in zip(self.indexes, keys, strict=True):
            index.key[slots] = key

    def build(self, slots: Slots, numbers: Ints, *, assessed: bool = True) -> None:
        """Let rows be found, as the so-many-th. `assessed`: those that have no level would have one if they had any."""
        self.built[slots] = numbers
        self._slab["rest"][slots] = 0
        tier = self._tier(slots, assessed)
        late = self.exp[slots] <= self.over
        if late.any():
            self._link(slots, np.where(late, tier + LATE, tier))
            self._ended.put(slots[late])
            self._alive.put(slots[~late])
        else:
            self._link(slots, tier)
            self._alive.put(slots)

    def move(self, slots: Slots, *, assessed: bool) -> None:
        """Let built rows be in the tiers of the levels they have now; nobody may be about to meet them level by level."""
        ended = self._slab["tier"][slots] >= OVER
        self._unlink(slots)
        self._link(slots, self._tier(slots, assessed) + np.where(ended, LATE, 0))

    def _tier(self, slots: Slots, assessed: bool) -> Ints:
        level = self.level[slots]
        return level if assessed else np.where(level == BACK_BURNER, 0, level)

    def _link(self, slots: Slots, tier: Ints) -> None:
        self._slab["tier"][slots] = tier
        self._held += np.bincount(tier, minlength=TIERS)
        for index in self.indexes:
            index.link(slots)

    def _unlink(self, slots: Slots) -> None:
        self._held -= np.bincount(self._slab["tier"][slots], minlength=TIERS)
        for index in self.indexes:
            index.unlink(slots)

    def end(self, slots: Slots, ends: Ints) -> None:
        """Built rows that had no end have one."""
        self.exp[slots] = ends
        self._alive.put(slots)
        self._ends = True

    def lay_aside(self, slots: Slots, why: int) -> None:
        """Rows that are not built (RESTING or DEAD)."""
        slots = slots[(self.built[slots] == UNBUILT) & (self._slab["rest"][slots] != DEAD)]
        new = slots[self._slab["rest"][slots] == 0]
        self._slab["rest"][slots] = why
        self._aside.put(new)

    def resting(self) -> Slots:
        return np.flatnonzero(self._slab["there"] & (self._slab["rest"] == RESTING)).astype(np.int32)

    def drop(self, slots: Slots) -> None:
        """Rows that were never built are wanted no more."""
        self._slab["there"][slots] = False
        self.pool.give(slots)

    def stored(self) -> Slots:
        """The rows that were built and are there."""
        return np.flatnonzero(self._slab["there"] & (self.built < UNBUILT)).astype(np.int32)

    def purge(self, met: int, named: int, now: int) -> None:
        """Let go of rows that end before anything that could meet them (built) or name them (laid aside).

        Built rows that end until `now` are met by nothing that is still to come.
        """
        slots = self._alive.take(now, self.ts, self.exp)
        if len(slots):
            slots = np.unique(slots) if self._ends else slots  # they came with no end, and got one
            self._unlink(slots)
            stays = self.exp[slots] > met
            if stays.any():
                kept = slots[stays]
                kept = kept[np.argsort(self.exp[kept], kind="stable")]  # who ended last is found first
                self._link(kept, self._slab["tier"][kept] + np.int64(OVER))
                self._ended.put(kept)
                slots = slots[~stays]
            self.drop(slots)
        self._over[0] = max(self.over, now)
        slots = self._ended.take(met, self.ts, self.exp)
        if len(slots):
            self._unlink(slots)
            self.drop(slots)
        slots = self._aside.take(named, self.ts, self.exp)
        if len(slots):
            # A row laid aside may have been built, and its slot been given to another that was laid aside.
            slots = np.unique(slots)
            over = self._slab["there"][slots] & (self._slab["rest"][slots] > 0) & (self.exp[slots] <= named)
            self.drop(slots[over])

    def widen(self, types: Sequence[Type], places: Sequence[int], fills: Mapping[int, int]) -> None:
        """Keep more columns of rows; see `Frame.widen`."""
        self.pool.frame = self.pool.frame.widen(types, places, fills)

    def columns(self, slots: Array) -> tuple[Column, ...]:
        return self.pool.frame.at(slots)
