"""What the next events of a tree will look at is asked for before they come: most of an event's time is waiting for the cache.

One event ahead the rows along its chain, two ahead the places that its keys lead to. (Samples of the processor's clock, 8 sources, window 30 min:
three in ten of those in the kernel fell on eight loads, of chain heads and of words of bits; not all of them are known ahead.)
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.jit import ix, part, prefetch
from penstock.kernels.tree import (
    ASK,
    ASK_WORDS,
    BASE,
    BITS,
    BUCKETS,
    CROSS,
    HEADS,
    KEYS,
    KIN,
    LINK,
    MASK,
    NODE,
    NODE_WORDS,
    ORDER,
    OUTSIDE,
    PANE,
    PANES,
    PATH,
    SOURCE_WORDS,
    SOURCES,
    TAIL,
    TOWARD,
    WAITED,
    WAITING,
    WIDTH,
    bucket,
    mixed,
    row_at,
)
from penstock.kernels.tree_bits import NEAR, word_near
from penstock.kernels.tree_partners import row_key

AHEAD = 16
"""Rows of a chain that are asked for before they are looked at."""
LINE = 8
"""Words of a line of the cache."""


@part
def own_key(k, place, spec, rows):
    """The key of a row toward its node's sibling."""
    at = spec[spec[CROSS] + 2 * k]
    h = np.int64(0)
    for c in range(spec[spec[CROSS] + 2 * k + 1]):
        h += rows[ix(place + spec[ix(at + 5 * c + 1)])] * spec[ix(at + 5 * c + 4)]
    return h


@part
def look_ahead(k, seq, spec, regs, rows, links):
    """The next event's row will go along a chain of its sibling's rows: have these at hand."""
    i = spec[spec[spec[PATH] + 2 * k] + 1]
    if i >= spec[SOURCES]:
        return
    h = own_key(k, row_at(k, seq, regs), spec, rows)
    r, node = i * SOURCE_WORDS, spec[NODE] + i * NODE_WORDS
    tail, mask, base, width, link = (
        regs[r + TAIL],
        regs[r + MASK],
        regs[r + BASE],
        regs[r + WIDTH],
        regs[r + LINK],
    )
    s = np.int64(links[ix(regs[node + HEADS] + bucket(h, regs[node + BUCKETS]))])
    n = 0
    while s >= tail and n < AHEAD:
        prefetch(rows, base + (s & mask) * width)
        s = np.int64(links[ix(link + (s & mask))])
        n += 1


@part
def look_further(k, seq, spec, regs, rows, links, bits):
    """Of the event after that: the heads of its chains, what may wait for it, and where its own partial results will wait."""
    sources = spec[SOURCES]
    place = row_at(k, seq, regs)
    path = spec[spec[PATH] + 2 * k]
    parent, sibling = spec[path], spec[path + 1]
    h = own_key(k, place, spec, rows)
    r, other = spec[NODE] + k * NODE_WORDS, spec[NODE] + sibling * NODE_WORDS
    prefetch(links, regs[r + HEADS] + bucket(h, regs[r + BUCKETS]))
    prefetch(links, regs[other + HEADS] + bucket(h, regs[other + BUCKETS]))
    waited = regs[k * SOURCE_WORDS + WAITED]
    at = spec[spec[OUTSIDE] + 2 * k]
    for c in range(spec[spec[OUTSIDE] + 2 * k + 1]):
        w = spec[at + c]
        if w < sources or not (waited >> (w & 63)) & 1:
            continue
        f = spec[ASK] + (w * sources + k) * ASK_WORDS + WAITING
        x = mixed(row_key(k, w, place, spec, rows))
        for side in range(2):
            below = spec[spec[KIN] + 4 * w + side]
            y = x
            if below < sources and spec[spec[TOWARD] + 2 * (below * sources + k) + 1] > 0:
                y = mixed(row_key(k, below, place, spec, rows))
            prefetch(bits, regs[f + BITS] + PANES * word_near(y, x, regs[f + PANE]))
    j = regs[spec[ORDER] + parent * sources]
    if j < 0 or sibling >= sources or spec[spec[KEYS] + 2 * (k * sources + j) + 1] != 1:
        return
    q = spec[spec[KEYS] + 2 * (k * sources + j)]
    y = mixed(rows[ix(place + spec[ix(q + 1)])] * spec[ix(q + 3)])
    g = spec[ASK] + (parent * sources + j) * ASK_WORDS + WAITING
    w = regs[g + BITS] + PANES * word_near(y, np.uint64(0), regs[g + PANE])
    for line in range(0, PANES * NEAR, LINE):
        prefetch(bits, w + line)
