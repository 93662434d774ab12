"""What a tree of joins holds: rows that have ended leave, indexes are laid anew."""

from __future__ import annotations

import numpy as np

from penstock.kernels.jit import kernel
from penstock.kernels.tree import (
    ASIDE,
    BUCKETS,
    COLUMN,
    COUNT,
    FILLED,
    HEADS,
    INDEX,
    INDEX_WORDS,
    KIN,
    LATEST,
    LINKED,
    NODE,
    NODE_WORDS,
    PAIR,
    PART,
    PARTS,
    PLACE,
    SEEN,
    SOURCE_WORDS,
    SOURCES,
    SUSPENDED_ROW,
    TAIL,
    USED,
    VISITS,
    bucket,
    enter,
    link_at,
    row_at,
)


@kernel
def expire(now, spec, regs, rows, links):
    """Rows of sources with exp <= now are gone."""
    for i in range(spec[SOURCES]):
        s = i * SOURCE_WORDS
        while regs[s + TAIL] < regs[s + USED] and rows[row_at(i, regs[s + TAIL], regs)] <= now:
            regs[s + ASIDE] -= links[link_at(i, regs[s + TAIL], regs)] == SUSPENDED_ROW
            regs[s + TAIL] += 1


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
    """All indexes of a source: its own chain again, but for rows set aside; rows enter those toward neighbours when these are asked."""
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
