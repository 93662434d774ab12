"""Filters of keys that end: two panes of bits, one that is written and one that is left to end.

A key sets two bits of a word. Whether a key is there is told by one look at two neighbouring words (the panes lie
interleaved); others' bits may look like it, but what is there is never missed. A pane is cleared when all its keys have ended.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.jit import ix, kernel, part
from penstock.kernels.tree import BITS, COUNT, CROWDED, CURRENT, FULL, PANE, UNTIL, mixed

CROWD, MOST_PANE = 8, 1 << 16
"""Keys a word of a pane beyond which it is to be larger: others' bits look like a key's too often."""


@part
def word_of(x, mask):
    """Which word of a pane a mixed key is in."""
    return np.int64(x >> np.uint64(32)) & mask


@part
def bits_of(x):
    """Two bits of a word for a mixed key: of one alone a quarter would be set for others."""
    one, other = (x >> np.uint64(20)) & np.uint64(63), (x >> np.uint64(26)) & np.uint64(63)
    return (np.uint64(1) << one) | (np.uint64(1) << other)


@kernel
def next_pane(f, regs, bits):
    """All keys of the older pane have ended: it is cleared and written from now on."""
    current = 1 - regs[f + CURRENT]
    regs[f + CURRENT] = current
    if regs[f + FULL + current] > 0:
        for w in range(regs[f + PANE] + 1):
            bits[ix(regs[f + BITS] + 2 * w + current)] = 0
    regs[f + FULL + current] = 0
    return current


@part
def open_pane(f, t, regs, bits):
    """The pane to write keys into."""
    current = regs[f + CURRENT]
    if regs[f + UNTIL + 1 - current] <= t and regs[f + FULL + current] > 0:
        current = next_pane(f, regs, bits)
    return current


@part
def counted(f, pane, n, exp, spec, regs):
    """So many keys more are in a pane, the last of them until `exp`."""
    regs[f + FULL + pane] += n
    regs[f + UNTIL + pane] = max(regs[f + UNTIL + pane], exp)
    if regs[f + FULL + pane] > CROWD * (regs[f + PANE] + 1) and regs[f + PANE] + 1 < MOST_PANE:
        regs[spec[COUNT] + CROWDED] = 1


@part
def put(f, h, exp, t, spec, regs, bits):
    """A key that ends at `exp`."""
    current = open_pane(f, t, regs, bits)
    x = mixed(h)
    bits[ix(regs[f + BITS] + 2 * word_of(x, regs[f + PANE]) + current)] |= bits_of(x)
    counted(f, current, 1, exp, spec, regs)


@part
def may_hold(f, h, regs, bits):
    """Whether a key may be there."""
    x = mixed(h)
    own = bits_of(x)
    w = regs[f + BITS] + 2 * word_of(x, regs[f + PANE])
    return (bits[ix(w)] & own == own) or (bits[ix(w + 1)] & own == own)
