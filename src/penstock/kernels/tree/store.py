"""What a tree of joins holds: rows that have ended leave, indexes are laid anew."""

from __future__ import annotations

import numpy as np

from penstock.kernels.compile import kernel
from penstock.kernels.tree.climb import (
    ASIDE,
    ASK,
    ASK_WORDS,
    BITS,
    BUCKETS,
    COLUMN,
    COME,
    COUNT,
    FILLED,
    FULL,
    HEADS,
    INDEX,
    INDEX_WORDS,
    KIN,
    LATEST,
    LINKED,
    NODE,
    NODE_WORDS,
    PAIR,
    PANE,
    PANES,
    PART,
    PARTS,
    PLACE,
    ROOT,
    SEEN,
    SOUGHT,
    SOURCE_WORDS,
    SOURCES,
    SUSPENDED_ROW,
    TAIL,
    UNTIL,
    UPTO,
    USED,
    VISITS,
    WAITED,
    WAITING,
    bucket,
    enter,
    link_at,
    row_at,
)
from penstock.kernels.tree.pane_filters import LEAST_PANE, clear


@kernel
def expire(now, spec, regs, rows, links):
    """Rows of sources with exp <= now are gone."""
    for i in range(spec[SOURCES]):
        s = i * SOURCE_WORDS
        while regs[s + TAIL] < regs[s + USED] and rows[row_at(i, regs[s + TAIL], regs)] <= now:
            regs[s + ASIDE] -= links[link_at(i, regs[s + TAIL], regs)] == SUSPENDED_ROW
            regs[s + TAIL] += 1


@kernel
def end_keys(now, spec, regs, bits):
    """Panes whose keys have all ended are cleared; of each source it is known anew at which nodes something waits for it.

    What was looked through for want of an index is half forgotten. Returns whether most room for bits is for filters without keys,
    whether most indexes have not been asked for as long as their rows live, and whether nothing is left that could end.
    """
    sources = spec[SOURCES]
    idle = room = kept = unasked = 0
    none = True
    for j in range(sources):
        regs[j * SOURCE_WORDS + WAITED] = 0
    for u in range(spec[ROOT]):
        for j in range(sources):
            a = spec[ASK] + (u * sources + j) * ASK_WORDS
            waits = False
            for f in (a + COME, a + WAITING):
                waits = False
                room += max(regs[f + PANE] + 1, 0)
                for pane in range(PANES):
                    if regs[f + FULL + pane] > 0:
                        if regs[f + UNTIL + pane] <= now:
                            clear(f, pane, regs, bits)
                        else:
                            waits = True
                            none = False
                if not waits and regs[f + PANE] >= LEAST_PANE and regs[f + UPTO] >= 0:
                    idle += regs[f + PANE] + 1
            if waits:
                regs[j * SOURCE_WORDS + WAITED] |= np.int64(1) << (u & 63)
    for i in range(sources):
        for j in range(sources):
            x = spec[spec[PAIR] + i * sources + j]
            r = spec[INDEX] + x * INDEX_WORDS
            if x >= 0:
                regs[r + SOUGHT] >>= 1
                if regs[r + COLUMN] >= 0:
                    kept += 1
                    unasked += regs[r + LINKED] < regs[i * SOURCE_WORDS + TAIL]
    return 2 * idle > room, 2 * unasked > kept, none and kept == 0


@kernel
def move_bits(spec, was, regs, old, bits):
    """Filters lie elsewhere, and may be wider: a bit of a smaller one stands in every part of the larger."""
    for a in range(spec[ASK], spec[ASK] + (spec[ROOT] + 1) * spec[SOURCES] * ASK_WORDS, ASK_WORDS):
        for f in (a + COME, a + WAITING):
            full = False
            for pane in range(PANES):
                full = full or regs[f + FULL + pane] > 0
            words, size = PANES * (was[f + PANE] + 1), PANES * (regs[f + PANE] + 1)
            if full:
                for begin in range(regs[f + BITS], regs[f + BITS] + size, words):
                    for w in range(words):
                        bits[begin + w] = old[was[f + BITS] + w]


@kernel
def sweep(u, now, spec, regs, rows, links):
    """Let go of an inner node's partial results that have ended; the others move together."""
    r = spec[NODE] + u * NODE_WORDS
    place, parts, width = regs[r + PLACE], regs[r + PARTS], regs[r + PART]
    n = 0
    latest = np.int64(-(1 << 62))
    for s in range(regs[r + FILLED]):
        exp = rows[place + 2 * s]
        if exp > now:
            rows[place + 2 * n] = exp
            rows[place + 2 * n + 1] = rows[place + 2 * s + 1]
            for c in range(width):
                links[parts + n * width + c] = links[parts + s * width + c]
            latest = max(latest, exp)
            n += 1
    regs[spec[COUNT] + VISITS] += regs[r + FILLED]
    regs[r + FILLED] = n
    regs[r + LATEST] = latest
    chain_anew(u, spec, regs, rows, links)


@kernel
def chain_anew(u, spec, regs, rows, links):
    """The chains of an inner node."""
    r = spec[NODE] + u * NODE_WORDS
    heads, mask = regs[r + HEADS], regs[r + BUCKETS]
    n = spec[spec[KIN] + 4 * u + 3]
    for b in range(mask + 1):
        links[heads + b] = -1
    for s in range(regs[r + FILLED]):
        b = heads + bucket(rows[regs[r + PLACE] + 2 * s + 1], mask)
        links[regs[r + PARTS] + s * regs[r + PART] + n] = links[b]
        links[b] = s


@kernel
def index_anew(i, spec, regs, rows, links, work):
    """All indexes of a source: its own chain, but for rows set aside; rows enter those toward neighbours when these are asked."""
    sources = spec[SOURCES]
    tail = regs[i * SOURCE_WORDS + TAIL]
    r = spec[NODE] + i * NODE_WORDS
    for b in range(regs[r + BUCKETS] + 1):
        links[regs[r + HEADS] + b] = -1
    for j in range(sources):
        x = spec[spec[PAIR] + i * sources + j]
        r = spec[INDEX] + x * INDEX_WORDS
        if x >= 0 and regs[r + COLUMN] >= 0:
            for b in range(regs[r + BUCKETS] + 1):
                links[regs[r + HEADS] + b] = -1
            regs[r + LINKED] = tail
    regs[i * SOURCE_WORDS + ASIDE] = 0
    for s in range(tail, regs[i * SOURCE_WORDS + SEEN]):
        enter(i, s, links[link_at(i, s, regs)] != SUSPENDED_ROW, spec, regs, rows, links, work)
