"""How what waits is made after all: everything below a node that equals the event's row is looked for, and meets the states above.

What stands in the states of a node's children is found anew from base rows: those in the event's buckets (a node over two sources), or by a
walk through the node's sources in an order that the plan fixes.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.compile import ix, kernel, part, prefetch
from penstock.kernels.tree.climb import (
    BASE,
    BUCKETS,
    COUNT,
    CROSS,
    CUR,
    ENDS,
    HASH,
    HEADS,
    KIN,
    LASTS,
    LIST,
    LISTED,
    MASK,
    NODE,
    NODE_WORDS,
    PAIR,
    PART,
    PARTS,
    PATH,
    PLACE,
    POS,
    RESUMED,
    SOURCE_WORDS,
    SOURCES,
    STEP,
    SUPPRESSED,
    SUSPENDED_ROW,
    TAIL,
    VISITS,
    WALK,
    WIDTH,
    after,
    bind,
    bucket,
    cross_hash,
    crosses,
    end_of,
    insert,
    link_at,
    next_partner,
    row_at,
)
from penstock.kernels.tree.demand import wanted
from penstock.kernels.tree.partners import chain, equals, key_toward, seek, sketch_bit
from penstock.kernels.tree.probe_steps import HOP, next_fit, set_out


@kernel
def rise(node, end, t, spec, regs, rows, links, bits, work):
    """What has come into a node's state late meets the sibling's, and so on upward; False if room is short.

    Nothing comes to the root this way: what completes an answer without the event's row was never missing.
    """
    at, levels = spec[spec[PATH] + 2 * node], spec[spec[PATH] + 2 * node + 1]
    step, ends, hashes = work[STEP], work[ENDS], work[HASH]
    hashes[0] = cross_hash(node, spec, rows, work)
    level = 0
    down = True
    while level >= 0:
        if level + 1 == levels:
            level -= 1
            down = False
            continue
        above, sibling = spec[at + 2 * level], spec[at + 2 * level + 1]
        if down:
            r = spec[NODE] + sibling * NODE_WORDS
            step[level] = links[ix(regs[r + HEADS] + bucket(hashes[level], regs[r + BUCKETS]))]
        s = next_partner(step[level], sibling, hashes[level], t, spec, regs, rows, links, work)
        if s < 0:
            level -= 1
            down = False
            continue
        step[level] = after(sibling, s, spec, regs, links)
        ends[level] = min(end if level == 0 else ends[level - 1], end_of(sibling, s, spec, regs, rows))
        down = False
        if not wanted(above, ends[level], -1, t, spec, regs, rows, links, bits, work):
            regs[spec[COUNT] + SUPPRESSED] += 1
            continue
        h = cross_hash(above, spec, rows, work)
        if not insert(above, h, ends[level], spec, regs, rows, links, work):
            return False
        regs[spec[COUNT] + RESUMED] += 1
        hashes[level + 1] = h
        level += 1
        down = True
    return True


@kernel
def is_there(u, h, spec, regs, rows, links, work):
    """Whether what is being made is kept in node u already."""
    r = spec[NODE] + u * NODE_WORDS
    s = np.int64(links[ix(regs[r + HEADS] + bucket(h, regs[r + BUCKETS]))])
    kin, n = spec[spec[KIN] + 4 * u + 2], spec[spec[KIN] + 4 * u + 3]
    while s >= 0:
        part = regs[r + PARTS] + s * regs[r + PART]
        if rows[ix(regs[r + PLACE] + 2 * s + 1)] == h:
            same = True
            for c in range(n):
                same = same and links[ix(part + c)] == work[CUR, spec[kin + c]]
            if same:
                return True
        s = np.int64(links[ix(part + n)])
    return False


@kernel
def takes_part(u, spec, regs, rows, links, work):
    """Whether what is being made, restricted to node u, is in the node's state."""
    if u < spec[SOURCES]:
        return links[ix(link_at(u, work[CUR, u], regs))] != SUSPENDED_ROW
    return is_there(u, cross_hash(u, spec, rows, work), spec, regs, rows, links, work)


@part
def gather(i, j, k, spec, regs, rows, links, work, lists):
    """How many rows of sources i and j are in the event's buckets, set down in `lists`; -1: too many, or there is no index.

    Both chains are gone along side by side, so that neither waits for the other's links.
    """
    work[LISTED, i] = work[LISTED, j] = -1
    r, q = i * SOURCE_WORDS, j * SOURCE_WORDS
    tail, mask, base, width = regs[r + TAIL], regs[r + MASK], regs[r + BASE], regs[r + WIDTH]
    tail_j, mask_j, base_j, width_j = regs[q + TAIL], regs[q + MASK], regs[q + BASE], regs[q + WIDTH]
    s, column = chain(i, k, key_toward(k, i, spec, rows, work), spec, regs, rows, links)
    o, column_j = chain(j, k, key_toward(k, j, spec, rows, work), spec, regs, rows, links)
    n = m = np.int64(0)
    if min(column, column_j) < 0:
        return np.int64(-1), np.int64(-1)
    while s >= tail or o >= tail_j:
        if max(n, m) == LIST:
            return np.int64(-1), np.int64(-1)
        if s >= tail:
            at = s & mask
            prefetch(rows, base + at * width)
            lists[ix(i * LIST + n)] = s
            n += 1
            s = np.int64(links[ix(column + at)])
        if o >= tail_j:
            at = o & mask_j
            prefetch(rows, base_j + at * width_j)
            lists[ix(j * LIST + m)] = o
            m += 1
            o = np.int64(links[ix(column_j + at)])
    regs[spec[COUNT] + VISITS] += n + m
    return n, m


@part
def agrees(i, k, spec, rows, work):
    """Whether the component of source i equals the event's row."""
    at, n = seek(k, i, spec, rows, work)
    return equals(at, n, work[POS, ix(i)], spec, rows, work)


@kernel
def remake_pairs(u, k, seq, t, spec, regs, rows, links, bits, work, lists):
    """As `remake`, for a node over two sources: 0 if room is short, 1 if not; -1 if the walk has to do it.

    Both sources' rows in the event's buckets are gone through once, and a sketch of one side's values tells whom on the other
    they may equal.
    """
    i, j = spec[spec[KIN] + 4 * u], spec[spec[KIN] + 4 * u + 1]
    cross, crossed = spec[spec[CROSS] + 2 * i], spec[spec[CROSS] + 2 * i + 1]
    if max(i, j) >= spec[SOURCES] or crossed == 0:
        return np.int64(-1)
    if min(spec[spec[PAIR] + i * spec[SOURCES] + k], spec[spec[PAIR] + j * spec[SOURCES] + k]) < 0:
        return np.int64(-1)
    n, m = gather(i, j, k, spec, regs, rows, links, work, lists)
    if n < 0:
        return np.int64(-1)
    mine, theirs = spec[cross + 1], spec[cross + 3]
    seen = np.uint64(0)
    for c in range(n):
        seen |= np.uint64(1) << sketch_bit(
            rows[ix(row_at(i, np.int64(lists[ix(i * LIST + c)]), regs) + mine)]
        )
    for d in range(m):
        other = np.int64(lists[ix(j * LIST + d)])
        value = rows[ix(row_at(j, other, regs) + theirs)]
        if not (seen >> sketch_bit(value)) & np.uint64(1):
            continue
        for c in range(n):
            one = np.int64(lists[ix(i * LIST + c)])
            if rows[ix(row_at(i, one, regs) + mine)] != value:
                continue
            bind(i, one, regs, work)
            bind(j, other, regs, work)
            end = min(rows[ix(work[POS, i])], rows[ix(work[POS, j])])
            if end <= t or not crosses(i, spec, rows, work):
                continue
            if not agrees(i, k, spec, rows, work) or not agrees(j, k, spec, rows, work):
                continue
            if not make_late(u, k, seq, end, t, spec, regs, rows, links, bits, work):
                return np.int64(0)
    return np.int64(1)


@kernel
def make_late(u, k, seq, end, t, spec, regs, rows, links, bits, work):
    """What stands in the states of node u's children, equals the event's row, is wanted and not there is made. False if room is short."""
    if not takes_part(spec[spec[KIN] + 4 * u], spec, regs, rows, links, work):
        return True
    if not takes_part(spec[spec[KIN] + 4 * u + 1], spec, regs, rows, links, work):
        return True
    h = cross_hash(u, spec, rows, work)
    if is_there(u, h, spec, regs, rows, links, work):
        return True
    if not wanted(u, end, k, t, spec, regs, rows, links, bits, work):
        return True
    if not insert(u, h, end, spec, regs, rows, links, work):
        return False
    regs[spec[COUNT] + RESUMED] += 1
    if not rise(u, end, t, spec, regs, rows, links, bits, work):
        return False
    bind(k, seq, regs, work)
    return True


@kernel
def remake(u, k, seq, t, spec, regs, rows, links, bits, work, lists):
    """All rows below node u that equal each other and the event's row: those that are wanted now and not there are made.

    A walk through the sources of u, in an order and by the partners that the plan fixes. False if room is short.
    """
    sources = spec[SOURCES]
    steps, n = spec[spec[WALK] + 2 * (u * sources + k)], spec[spec[WALK] + 2 * (u * sources + k) + 1]
    ends = work[LASTS]
    level = 0
    down = True
    while level >= 0:
        q = steps + HOP * level
        if down:
            set_out(q, level, u, k, t, spec, regs, rows, links, work, lists)
        s = next_fit(q, level, t, spec, regs, rows, links, work, lists)
        if s < 0:
            level -= 1
            down = False
            continue
        end = rows[ix(work[POS, spec[q]])]
        if level > 0:
            end = min(end, ends[level - 1])
        ends[level] = end
        if level + 1 < n:
            level += 1
            down = True
            continue
        down = False
        if not make_late(u, k, seq, end, t, spec, regs, rows, links, bits, work):
            return False
    return True
