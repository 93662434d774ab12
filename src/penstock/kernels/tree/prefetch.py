"""What the next events of a tree will look at is asked for before they come: most of an event's time is waiting for the cache.

For a group of events, while the one before it is done: the rows along their chains; a group earlier the places that their keys lead to. (Samples of the processor's clock, 8 sources, window 30 min:
three in ten of those in the kernel fell on eight loads, of chain heads and of words of bits; not all of them are known ahead.)
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.compile import ix, part, prefetch
from penstock.kernels.tree.climb import (
    ASK,
    ASK_WORDS,
    AT,
    BASE,
    BITS,
    BUCKETS,
    CROSS,
    HEADS,
    KEYS,
    KIN,
    LEFT,
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
    USED,
    WAITED,
    WAITING,
    WIDTH,
    bucket,
    mixed,
    row_at,
)
from penstock.kernels.tree.pane_filters import NEAR, word_near
from penstock.kernels.tree.partners import row_key

AHEAD = 16
"""Rows of a chain that are asked for before they are looked at."""
GROUP = 4
"""Events that are looked ahead for at once. One by one, going along chains took 540 to 620 cycles an event (8 sources, window 30 min), as
long as looking at their rows."""
LINE = 8
"""Words of a line of the cache."""
FAR = 1 << 16
"""Words of live rows beyond which they are not at hand anyway (half a megabyte: the second cache is shared with all else that is read)."""


@part
def far(spec, regs):
    """Whether rows have to be asked for ahead."""
    words = np.int64(0)
    for i in range(spec[SOURCES]):
        r = i * SOURCE_WORDS
        words += (regs[r + USED] - regs[r + TAIL]) * regs[r + WIDTH]
    return words > FAR


@part
def own_key(k, place, spec, rows):
    """The key of a row toward its node's sibling."""
    at = spec[spec[CROSS] + 2 * k]
    h = np.int64(0)
    for c in range(spec[spec[CROSS] + 2 * k + 1]):
        h += rows[ix(place + spec[ix(at + 5 * c + 1)])] * spec[ix(at + 5 * c + 4)]
    return h


@part
def look_ahead(first, sides, seqs, spec, regs, rows, links, work):
    """The rows of a GROUP of events will go along chains of their siblings' rows: have these at hand.

    The chains are gone along side by side: a link is known only when the one before it has come, those of other chains are not waited for.
    """
    going = 0
    for g in range(GROUP):
        k = np.int64(sides[first + g])
        i = spec[spec[spec[PATH] + 2 * k] + 1]
        work[AT, g] = -1
        if i < spec[SOURCES]:
            node = spec[NODE] + i * NODE_WORDS
            h = own_key(k, row_at(k, np.int64(seqs[first + g]), regs), spec, rows)
            work[AT, g] = links[ix(regs[node + HEADS] + bucket(h, regs[node + BUCKETS]))]
            work[LEFT, g] = i * SOURCE_WORDS
            going += 1
    n = 0
    while going > 0 and n < AHEAD:
        going = 0
        for g in range(GROUP):
            s, r = work[AT, g], work[LEFT, g]
            if s >= 0 and s >= regs[ix(r + TAIL)]:
                at = s & regs[ix(r + MASK)]
                prefetch(rows, regs[ix(r + BASE)] + at * regs[ix(r + WIDTH)])
                work[AT, g] = links[ix(regs[ix(r + LINK)] + at)]
                going += 1
        n += 1


@part
def look_for_heads(k, place, spec, regs, rows, links):
    """Of the event after that: where its chains begin, its own and its sibling's."""
    sibling = spec[spec[spec[PATH] + 2 * k] + 1]
    h = own_key(k, place, spec, rows)
    r, other = spec[NODE] + k * NODE_WORDS, spec[NODE] + sibling * NODE_WORDS
    prefetch(links, regs[r + HEADS] + bucket(h, regs[r + BUCKETS]))
    prefetch(links, regs[other + HEADS] + bucket(h, regs[other + BUCKETS]))


@part
def look_further(k, seq, spec, regs, rows, links, bits):
    """The same, what may wait for it, and where its own partial results will wait."""
    sources = spec[SOURCES]
    place = row_at(k, seq, regs)
    path = spec[spec[PATH] + 2 * k]
    parent, sibling = spec[path], spec[path + 1]
    look_for_heads(k, place, spec, regs, rows, links)
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
