"""Filters of keys that end: panes of bits, each for the keys that end in a stretch of time.

A key sets three bits of a word of its pane. Whether it is there is told by one look, for the words of all panes lie side by
side; others' bits may look like it, but what is there is never missed. A pane is cleared when all its keys have ended.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.compile import ix, kernel, part
from penstock.kernels.tree.climb import (
    BITS,
    COUNT,
    CROWDED,
    FILTERS_ANEW,
    FULL,
    PANE,
    PANES,
    STRETCH,
    UNTIL,
    mixed,
)

CROWD, LEAST_PANE, MOST_PANE = 6, 32, 1 << 16
"""Keys a word of a pane beyond which it is to be larger: others' bits look like a key's too often; how many words there are."""
NEAR = 8
"""Words of a pane for keys that have one part in common: a row writes those of all its partners, and each elsewhere is a miss of the
cache."""
FAR = 1 << 50
"""Ends so far away are no measure of how long keys last."""


@part
def word_near(y, x, mask):
    """Which word of a pane a mixed key x is in: those that have the mixed part y lie close together."""
    return ((np.int64(y >> np.uint64(32)) & -NEAR) | (np.int64(x >> np.uint64(32)) & (NEAR - 1))) & mask


@part
def bits_of(x):
    """Three bits of a word for a mixed key."""
    six, one = np.uint64(63), np.uint64(1)
    return (
        (one << ((x >> np.uint64(14)) & six))
        | (one << ((x >> np.uint64(20)) & six))
        | (one << ((x >> np.uint64(26)) & six))
    )


@part
def among(w, key, bits):
    """Whether the words of some pane from w on hold a key's bits."""
    return (
        (bits[ix(w)] & key == key)
        | (bits[ix(w + 1)] & key == key)
        | (bits[ix(w + 2)] & key == key)
        | (bits[ix(w + 3)] & key == key)
    )


@kernel
def clear(f, pane, regs, bits):
    """All keys of a pane have ended."""
    for w in range(regs[f + PANE] + 1):
        bits[ix(regs[f + BITS] + PANES * w + pane)] = 0
    regs[f + FULL + pane] = 0


@part
def open_pane(f, exp, t, regs, bits):
    """The pane for keys that end at `exp`. Stretches are as long as it takes for those alive to fit into all panes."""
    ahead = exp - t
    if ahead > (PANES - 1) * regs[f + STRETCH] and ahead < FAR:
        regs[f + STRETCH] = ahead // (PANES - 1) + 1
    pane = (exp // regs[f + STRETCH]) & (PANES - 1)
    if regs[f + UNTIL + pane] <= t and regs[f + FULL + pane] > 0:
        clear(f, pane, regs, bits)
    regs[f + UNTIL + pane] = max(regs[f + UNTIL + pane], exp)
    return pane


@part
def crowding(f, pane, spec, regs):
    """Look whether a pane has become too full."""
    if regs[f + FULL + pane] > CROWD * (regs[f + PANE] + 1) and regs[f + PANE] + 1 < MOST_PANE:
        regs[spec[COUNT] + CROWDED] |= FILTERS_ANEW


@part
def put(f, h, exp, t, spec, regs, bits):
    """A key that ends at `exp`."""
    put_near(f, h, h, exp, t, spec, regs, bits)


@part
def put_near(f, own, h, exp, t, spec, regs, bits):
    """The same for one with a part that is `own`."""
    pane = open_pane(f, exp, t, regs, bits)
    x = mixed(h)
    bits[ix(regs[f + BITS] + PANES * word_near(mixed(own), x, regs[f + PANE]) + pane)] |= bits_of(x)
    regs[f + FULL + pane] += 1
    crowding(f, pane, spec, regs)


@part
def may_hold(f, own, h, regs, bits):
    """Whether a key may be there."""
    x = mixed(h)
    return among(regs[f + BITS] + PANES * word_near(mixed(own), x, regs[f + PANE]), bits_of(x), bits)
