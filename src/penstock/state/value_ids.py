"""Numbers for values: equal rows get equal ids, ids are small, and ids of values gone are reused.

State      per value: its words, one chain link. Cost: O(1) a row.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.kernels.hash.mix import shift_of
from penstock.kernels.state import value_table as kernels
from penstock.state.arena import Arena
from penstock.state.renumbering import Renumbering, shrunk
from penstock.types import sizes
from penstock.types.batch import Ints
from penstock.types.memory import room

Ids = NDArray[np.int32]

BUCKETS = 4
"""For each value: more cost memory, fewer cost mispredicted walks (3.1 ns a look-up against 3.8 with two)."""

_FREE_ID = -2
"""The chain of an id that is not in use."""


class Registry:
    """Value → id over rows of `width` words."""

    def __init__(self, arena: Arena, name: str, width: int) -> None:
        self._arena = arena
        self._name = name
        values = sizes.current.values
        self._keys = arena.array(f"{name}.keys", np.int64, (values, width))
        self.capacity = len(self._keys)
        self._chain = arena.array(f"{name}.chain", np.int32, self.capacity, _FREE_ID)
        self._free = arena.array(f"{name}.free", np.int32, self.capacity, np.arange(values - 1, -1, -1))
        self._head = arena.array(f"{name}.head", np.int32, BUCKETS * self.capacity, -1)
        self._registers = arena.array(f"{name}.registers", np.int64, 3, _blank(values))

    def __len__(self) -> int:
        return self.capacity - int(self._registers[kernels.FREE])

    def ids(self, words: Ints) -> Ids:
        """The id of each row, given now to values not seen before."""
        return self.ids_and_new(words)[0]

    def ids_and_new(self, words: Ints) -> tuple[Ids, Ids]:
        """The id of each row, and the first row of each value not seen before."""
        n = len(words)
        out, fresh = room(n, np.int32), room(n, np.int32)
        self._registers[kernels.NEW] = 0
        done = 0
        while True:
            state = (self._head, self._chain, self._keys, self._free, self._registers)
            if words.shape[1] == 1:
                done = kernels.find_or_add_word(words, done, out, fresh, *state)
            else:
                done = kernels.find_or_add(words, done, out, fresh, *state)
            if done == n:
                return out, fresh[: int(self._registers[kernels.NEW])]
            self._grow()

    @property
    def values(self) -> Ints:
        """By id: a view."""
        return self._keys

    def widen(self, width: int) -> None:
        """Values have so many words, those there are zeros in the new ones."""
        keys = np.zeros((self.capacity, width), np.int64)
        keys[:, : self._keys.shape[1]] = self._keys
        self._keys = self._arena.array(f"{self._name}.keys", np.int64, keys.shape, keys)
        self._rehash()

    def release(self, ids: Ids) -> None:
        """Forget these values (each once)."""
        if len(ids):
            kernels.release(ids, self._head, self._chain, self._keys, self._free, self._registers)

    def shrink(self, coming: int) -> Renumbering | None:
        """Renumber the ids if few of them are in use; None: they stay."""
        capacity = shrunk(self.capacity, len(self), coming, sizes.current.values)
        if capacity is None:
            return None
        arena, name = self._arena, self._name
        made = Renumbering(np.flatnonzero(self._chain != _FREE_ID), self.capacity, capacity)
        used = len(made.kept)
        self._keys = arena.pick(f"{name}.keys", made.kept, capacity)
        self._chain = arena.array(f"{name}.chain", np.int32, capacity, _FREE_ID)
        self._chain[:used] = -1
        self._free = arena.array(f"{name}.free", np.int32, capacity)
        self._free[: capacity - used] = np.arange(capacity - 1, used - 1, -1)
        self._registers[kernels.FREE] = capacity - used
        self._head = arena.array(f"{name}.head", np.int32, BUCKETS * capacity, -1)
        self._registers[kernels.SHIFT] = shift_of(len(self._head))
        self.capacity = capacity
        self._rehash()
        return made

    def refer(self, made: Renumbering, word: int) -> None:
        """Let a word of all values, which is an id of others, be the new one."""
        used = self._chain != _FREE_ID
        self._keys[used, word] = made.of(self._keys[used, word])
        self._rehash()

    def _rehash(self) -> None:
        kernels.rehash(self._head, self._chain, self._keys, self._registers, self.capacity)

    def _grow(self) -> None:
        old, new = self.capacity, 2 * self.capacity
        arena, name = self._arena, self._name
        self._keys = arena.grow(f"{name}.keys", new)
        self._chain = arena.grow(f"{name}.chain", new, _FREE_ID)
        self._free = arena.grow(f"{name}.free", new)
        free = int(self._registers[kernels.FREE])
        self._free[free : free + old] = np.arange(new - 1, old - 1, -1)
        self._registers[kernels.FREE] += old
        self._head = arena.array(f"{name}.head", np.int32, BUCKETS * new, -1)
        self._registers[kernels.SHIFT] = shift_of(len(self._head))
        self.capacity = new
        self._rehash()


def _blank(values: int) -> Ints:
    """How the registers begin with room for so many values."""
    made = np.zeros(3, np.int64)
    made[kernels.FREE] = values
    made[kernels.SHIFT] = shift_of(BUCKETS * values)
    return made
