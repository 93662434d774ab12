"""Treaps: in order, and as flat as they are said to be, whatever the order of keys."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from penstock.kernels.sets import treap
from penstock.types.batch import Array

N = 4096
ORDERS = {
    "ascending": lambda rng: range(N),
    "descending": lambda rng: range(N, 0, -1),
    "equal": lambda rng: [7] * N,
    "random": lambda rng: [rng.randrange(N) for _ in range(N)],
    "zigzag": lambda rng: [k if k % 2 else -k for k in range(N)],
    "few values": lambda rng: [rng.randrange(5) for _ in range(N)],
}


class Treaps:
    """`groups` treaps over the slots of `keys`."""

    def __init__(self, keys: Sequence[int], groups: int = 1) -> None:
        self.key = np.array(keys, np.int64)
        self.root, self.last = np.full((2, groups), -1, np.int32)
        self.links = np.tile(treap.UNLINKED, (len(keys), 1)).astype(np.int32)
        self.rank = np.zeros(len(keys), np.uint32)

    def insert(self, slot: int, group: int = 0) -> None:
        treap.insert(slot, group, self.key, self.root, self.last, self.links, self.rank)

    def delete(self, slot: int, group: int = 0) -> None:
        treap.delete(slot, group, self.root, self.last, self.links, self.rank)

    def members(self, group: int = 0) -> list[int]:
        """From the last down."""
        found, at = [], int(self.last[group])
        while at >= 0:
            found.append(at)
            at = int(treap.neighbour(at, treap.BELOW, self.links))
        return found

    def upwards(self, group: int = 0) -> list[int]:
        at = int(self.root[group])
        while at >= 0 and self.links[at, treap.BELOW] >= 0:
            at = int(self.links[at, treap.BELOW])
        found = []
        while at >= 0:
            found.append(at)
            at = int(treap.neighbour(at, treap.ABOVE, self.links))
        return found


def depth(links: Array, slot: int) -> int:
    found = 0
    while slot >= 0:
        slot = int(links[slot, treap.PARENT])
        found += 1
    return found


@pytest.mark.parametrize("order", ORDERS)
def test_no_order_of_keys_makes_a_deep_treap(order: str) -> None:
    made = Treaps(list(ORDERS[order](random.Random(1))))
    for slot in range(N):
        made.insert(slot)
    expected = sorted(range(N), key=lambda slot: made.key[slot])
    assert made.upwards() == expected
    assert made.members() == expected[::-1]
    assert max(depth(made.links, slot) for slot in range(N)) <= 4 * np.log2(N)


@pytest.mark.parametrize("seed", range(20))
def test_members_are_sorted_and_the_newest_of_equals_is_last(seed: int) -> None:
    rng = random.Random(seed)
    size, groups = rng.choice((3, 20, 200)), rng.choice((1, 3))
    made = Treaps([0] * size, groups)
    lists: list[list[int]] = [[] for _ in range(groups)]
    keys = rng.choice((2, 10, 1000))
    group_of: dict[int, int] = {}
    for _ in range(10 * size):
        slot = rng.randrange(size)
        if slot in group_of:
            group = group_of.pop(slot)
            made.delete(slot, group)
            lists[group].remove(slot)
        else:
            group = group_of[slot] = rng.randrange(groups)
            made.key[slot] = rng.randrange(keys)
            made.insert(slot, group)
            lists[group].append(slot)
            lists[group].sort(key=lambda member: made.key[member])  # stable: the newest of equals stays last
        assert made.upwards(group) == lists[group]
        assert made.members(group) == lists[group][::-1]
