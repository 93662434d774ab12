"""Pairing heaps over slots, many in the same arrays: one per group, smallest key on top.

Insert O(1), find O(1), delete of any member O(log n) amortised (Fredman et al. 1986). `before` of a first
child is its parent, of any other child its left sibling; of a root -1.
"""

from __future__ import annotations

from penstock.kernels.compile import kernel


@kernel
def meld(a, b, key, child, sibling, before):
    """Two roots become one; equal keys: the first argument stays on top."""
    if a < 0:
        return b
    if b < 0:
        return a
    if key[b] < key[a]:
        a, b = b, a
    first = child[a]
    sibling[b] = first
    if first >= 0:
        before[first] = b
    before[b] = a
    child[a] = b
    return a


@kernel
def insert(root, slot, key, child, sibling, before):
    """The new root after adding one slot."""
    child[slot] = -1
    sibling[slot] = -1
    before[slot] = -1
    return meld(root, slot, key, child, sibling, before)


@kernel
def merge_children(slot, key, child, sibling, before):
    """Two-pass merge of a slot's children into one root."""
    at = child[slot]
    pairs = -1
    while at >= 0:
        a = at
        b = sibling[a]
        at = -1
        before[a] = -1
        sibling[a] = -1
        if b >= 0:
            at = sibling[b]
            before[b] = -1
            sibling[b] = -1
            a = meld(a, b, key, child, sibling, before)
        sibling[a] = pairs
        pairs = a
    top = -1
    while pairs >= 0:
        after = sibling[pairs]
        sibling[pairs] = -1
        top = meld(top, pairs, key, child, sibling, before)
        pairs = after
    return top


@kernel
def delete(root, slot, key, child, sibling, before):
    """The new root after taking any one member out."""
    if root == slot:
        top = merge_children(slot, key, child, sibling, before)
        if top >= 0:
            before[top] = -1
        return top
    left, right = before[slot], sibling[slot]
    if child[left] == slot:
        child[left] = right
    else:
        sibling[left] = right
    if right >= 0:
        before[right] = left
    rest = merge_children(slot, key, child, sibling, before)
    if rest >= 0:
        before[rest] = -1
    return meld(root, rest, key, child, sibling, before)
