"""Treaps over slots, many in the same arrays: one per group, sorted by key, the newest of equals last.

Insert and delete of any member take O(log n) expected, whatever the order of keys, and O(1) amortised if keys come and go in order
(Seidel & Aragon 1996). `links` holds of each slot the child below, the child above and the parent, or -1; `root` and `last` are by group.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.compile import kernel

BELOW, ABOVE, PARENT = 0, 1, 2
UNLINKED = np.full(3, -1)
"""The links of a slot that is in no treap."""


@kernel
def drawn(slot):
    """A number that looks random, the same in every process: the finalizer of MurmurHash3."""
    h = np.uint32(slot)
    h = np.uint32((h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B))
    h = np.uint32((h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35))
    return h ^ (h >> np.uint32(16))


@kernel
def replace(slot, other, g, root, links):
    """Another slot, or none (-1), where this one hangs."""
    parent = links[slot, PARENT]
    if parent < 0:
        root[g] = other
    else:
        links[parent, BELOW if links[parent, BELOW] == slot else ABOVE] = other
    if other >= 0:
        links[other, PARENT] = parent


@kernel
def rotate(slot, g, root, links):
    """Lift a slot over its parent."""
    parent = links[slot, PARENT]
    side = BELOW if links[parent, BELOW] == slot else ABOVE
    inner = links[slot, 1 - side]
    replace(parent, slot, g, root, links)
    links[parent, side] = inner
    if inner >= 0:
        links[inner, PARENT] = parent
    links[slot, 1 - side] = parent
    links[parent, PARENT] = slot


@kernel
def insert(slot, g, key, root, last, links, priority):
    """Add a slot to its group."""
    links[slot, BELOW] = -1
    links[slot, ABOVE] = -1
    priority[slot] = drawn(slot)
    at = last[g]
    side = ABOVE
    if at < 0 or key[slot] >= key[at]:
        last[g] = slot
    else:
        down = root[g]
        while down >= 0:
            at = down
            side = BELOW if key[slot] < key[at] else ABOVE
            down = links[at, side]
    links[slot, PARENT] = at
    if at < 0:
        root[g] = slot
        return
    links[at, side] = slot
    while at >= 0 and priority[at] < priority[slot]:
        rotate(slot, g, root, links)
        at = links[slot, PARENT]


@kernel
def delete(slot, g, root, last, links, priority):
    """Take a member out of its group."""
    if last[g] == slot:
        last[g] = neighbour(slot, BELOW, links)
    below, above = links[slot, BELOW], links[slot, ABOVE]
    while below >= 0 and above >= 0:
        rotate(below if priority[below] > priority[above] else above, g, root, links)
        below, above = links[slot, BELOW], links[slot, ABOVE]
    replace(slot, max(below, above), g, root, links)


@kernel
def neighbour(slot, side, links):
    """The next member BELOW or ABOVE; -1: there is none."""
    at = links[slot, side]
    if at >= 0:
        while links[at, 1 - side] >= 0:
            at = links[at, 1 - side]
        return at
    at = links[slot, PARENT]
    while at >= 0 and links[at, side] == slot:
        slot = at
        at = links[slot, PARENT]
    return at
