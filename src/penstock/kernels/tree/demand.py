"""Which partial results of a tree are wanted now; what is not, waits.

A partial result of node u is *supported* by a source j outside if a live row of j equals it wherever the two are compared. If
some source does not support it, no answer can hold it now: it is not made, and a bit says that something waits at (u, j)
for this key (`tree_resume` and `tree_remake` tell how it is made after all). Most are denied by a filter of the keys that have come. In a tree that
keeps nothing (`tree_bare`) nothing waits: no bit is set.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.compile import ix, kernel, part
from penstock.kernels.tree.climb import (
    ASK,
    ASK_WORDS,
    BASE,
    BITS,
    BLOCKED,
    COME,
    COUNT,
    CROSS,
    CROWDED,
    DEMAND,
    FILTER_WANTED,
    FILTERS_ANEW,
    FULL,
    IDLE,
    JIT,
    KEEPS,
    KEYS,
    KIN,
    LINK,
    MASK,
    NO_FILTER,
    NODE,
    NODE_WORDS,
    ORDER,
    PANE,
    PANES,
    POS,
    SEEN,
    SKIP,
    SOURCE_WORDS,
    SOURCES,
    STRETCH,
    SUPPRESSED,
    TAIL,
    TESTED,
    UPTO,
    VIA,
    VISITS,
    WAITED,
    WAITING,
    WIDTH,
    mixed,
    row_at,
)
from penstock.kernels.tree.demand_gate import resting
from penstock.kernels.tree.pane_filters import (
    among,
    bits_of,
    crowding,
    may_hold,
    open_pane,
    put,
    put_near,
    word_near,
)
from penstock.kernels.tree.partners import behind, chain, equals, key_toward, row_key, seek

TRIAL, RARE, REST, PAUSE = 256, 3, 64, 64
"""A question is looked at every so many times; denied less often than one in RARE, it is left out REST times as long; where all are, nobody looks
whom to ask PAUSE times."""


@kernel
def note_come(f, u, j, t, spec, regs, rows, bits):
    """The rows of source j that have come since a filter was asked enter it."""
    seen = regs[j * SOURCE_WORDS + SEEN]
    for s in range(max(regs[f + UPTO], regs[j * SOURCE_WORDS + TAIL]), seen):
        place = row_at(j, s, regs)
        put(f, row_key(j, u, place, spec, rows), rows[ix(place)], t, spec, regs, bits)
    regs[f + UPTO] = seen


@part
def has_come(u, j, h, f, t, spec, regs, rows, bits):
    """Whether the filter of a question knows a key."""
    if regs[f + UPTO] < regs[j * SOURCE_WORDS + SEEN]:
        note_come(f, u, j, t, spec, regs, rows, bits)
    return may_hold(f, h, h, regs, bits)


@kernel
def supported(u, j, t, spec, regs, rows, links, work):
    """Whether source j holds a live row for what is being made, restricted to node u."""
    sources = spec[SOURCES]
    via = spec[spec[VIA] + u * sources + j]
    r = j * SOURCE_WORDS
    if spec[DEMAND] != JIT or via < 0:
        s = regs[r + SEEN] - 1
        return s >= regs[r + TAIL] and rows[ix(row_at(j, s, regs))] > t
    tail, mask, base, width = regs[r + TAIL], regs[r + MASK], regs[r + BASE], regs[r + WIDTH]
    s, column = chain(j, via, key_toward(via, j, spec, rows, work), spec, regs, rows, links)
    at, count = seek(u, j, spec, rows, work)
    found = False
    visits = 0
    while s >= tail:
        visits += 1
        place = base + (s & mask) * width
        if rows[ix(place)] <= t:
            break
        if equals(at, count, place, spec, rows, work):
            found = True
            break
        s = behind(s, column, mask, links)
    regs[spec[COUNT] + VISITS] += visits
    return found


@part
def side_key(c, j, h, spec, rows, work):
    """By which part of its key toward source j what waits at a node is found: its left child's if that is a source and compared with j;
    else all of it. A row that sifts its partners takes its own side instead."""
    if c >= spec[SOURCES] or spec[spec[KEYS] + 2 * (c * spec[SOURCES] + j) + 1] == 0:
        return h
    return key_toward(c, j, spec, rows, work)


@part
def waits_at(u, j, regs):
    """Something waits at node u for source j."""
    regs[j * SOURCE_WORDS + WAITED] |= np.int64(1) << (u & 63)


@kernel
def judge(u, a, h, yes, spec, regs):
    """A question was answered: is it worth asking, and with a filter?"""
    regs[a + TESTED] += 1
    regs[a + BLOCKED] += not yes
    if regs[a + TESTED] >= TRIAL:
        if regs[a + BLOCKED] * RARE < regs[a + TESTED]:
            regs[a + SKIP] = TRIAL * REST
        elif regs[a + COME + PANE] == NO_FILTER and u >= spec[SOURCES] and h != 0:
            regs[a + COME + PANE] = FILTER_WANTED
            regs[spec[COUNT] + CROWDED] |= FILTERS_ANEW
        regs[a + TESTED] >>= 1
        regs[a + BLOCKED] >>= 1


@part
def wanted(u, exp, but, t, spec, regs, rows, links, bits, work):
    """Whether all sources outside node u (`but` one that is known to) support what is being made; else it waits.

    Filters are asked first, and rows only where no filter denies. Whom to ask first is learnt: who denies clearly more often
    moves to the front (not oftener: all that waits for one source is told by its rows alone), and who never does is left out
    for a while.
    """
    rest = spec[NODE] + u * NODE_WORDS + IDLE
    if resting(spec, regs):
        return True
    if regs[rest] > 0:
        regs[rest] -= 1
        return True
    return ask(u, exp, but, t, spec, regs, rows, links, bits, work)


@kernel
def ask(u, exp, but, t, spec, regs, rows, links, bits, work):
    """The same, where somebody is to be asked."""
    sources = spec[SOURCES]
    rest = spec[NODE] + u * NODE_WORDS + IDLE
    order = spec[ORDER] + u * sources
    asked = False
    for looks in range(2):
        n = 0
        unsure = False
        while n < sources and regs[order + n] >= 0:
            j = regs[order + n]
            a = spec[ASK] + (u * sources + j) * ASK_WORDS
            n += 1
            if j == but:
                continue
            if regs[a + SKIP] > 0:
                regs[a + SKIP] -= 1 - looks
                continue
            asked = True
            filtered = regs[a + COME + PANE] >= 0
            h = key_toward(u, j, spec, rows, work) if spec[DEMAND] == JIT else np.int64(0)
            if looks == 0 and filtered:
                if has_come(u, j, h, a + COME, t, spec, regs, rows, bits):
                    unsure = True
                    continue
                yes = False
            elif looks == 0 or filtered:
                yes = supported(u, j, t, spec, regs, rows, links, work)
            else:
                continue
            judge(u, a, h, yes, spec, regs)
            if not yes:
                own = h
                if spec[DEMAND] == JIT and u >= sources:
                    own = side_key(spec[spec[KIN] + 4 * u], j, h, spec, rows, work)
                if regs[spec[COUNT] + KEEPS]:
                    put_near(a + WAITING, own, h, exp, t, spec, regs, bits)
                    waits_at(u, j, regs)
                if n > 1:
                    forward(u, n - 1, a, spec, regs)
                return False
        if not unsure:
            break
    if not asked:
        regs[rest] = PAUSE
    return True


@part
def forward(u, n, a, spec, regs):
    """Who is asked before one that has denied changes place with it, if that denies clearly less often."""
    order = spec[ORDER] + u * spec[SOURCES] + n
    j, other = regs[order], regs[order - 1]
    b = spec[ASK] + (u * spec[SOURCES] + other) * ASK_WORDS
    denied, others = regs[a + BLOCKED] * regs[b + TESTED], regs[b + BLOCKED] * regs[a + TESTED]
    if regs[b + SKIP] > 0 or 4 * denied > 5 * others:
        regs[order], regs[order - 1] = other, j


@part
def sift(s, i, node, exp, k, t, spec, regs, rows, links, bits, work):
    """From a row of source i in its node's chain on, past those that equal the event's row but that the source asked first
    denies by its filter; these wait. Returns the first row that it may not deny.

    What `next_partner` and `wanted` would do, without looking up again for every row what is the same for all.
    """
    sources = spec[SOURCES]
    j = regs[spec[ORDER] + node * sources]
    a = spec[ASK] + (node * sources + j) * ASK_WORDS
    f, g = a + COME, a + WAITING
    cross, crossed = spec[spec[CROSS] + 2 * i], spec[spec[CROSS] + 2 * i + 1]
    q = spec[spec[KEYS] + 2 * (i * sources + j)]
    if regs[f + PANE] < 0 or regs[a + SKIP] > 0 or crossed != 1 or resting(spec, regs):
        return s
    if spec[spec[KEYS] + 2 * (i * sources + j) + 1] != 1 or regs[spec[NODE] + node * NODE_WORDS + IDLE] > 0:
        return s
    if regs[f + UPTO] < regs[j * SOURCE_WORDS + SEEN]:
        note_come(f, node, j, t, spec, regs, rows, bits)
    own = key_toward(k, j, spec, rows, work)
    alike = spec[spec[KEYS] + 2 * (k * sources + j) + 1] > 0
    near = mixed(own)
    field, by = spec[q + 1], spec[q + 3]
    r = i * SOURCE_WORDS
    tail, mask, base, width, link = (
        regs[r + TAIL],
        regs[r + MASK],
        regs[r + BASE],
        regs[r + WIDTH],
        regs[r + LINK],
    )
    word_at = spec[cross + 1]
    word = rows[work[POS, spec[cross + 2]] + spec[cross + 3]]
    come, come_mask, waiting_mask = regs[f + BITS], regs[f + PANE], regs[g + PANE]
    waiting = pane = np.int64(0)
    low = exp + 1
    keeps = regs[spec[COUNT] + KEEPS] != 0
    visits = denied = 0
    while s >= tail:
        place = base + (s & mask) * width
        end = rows[ix(place)]
        if end <= t:
            break
        if rows[ix(place + word_at)] == word:
            x = mixed(own + rows[ix(place + field)] * by)
            key = bits_of(x)
            if among(come + PANES * word_near(x, x, come_mask), key, bits):
                break
            denied += 1
            if keeps:
                end = min(end, exp)
                y = near if alike else x
                if end < low:
                    # Further back rows end earlier: in this pane, or the one before.
                    pane = open_pane(g, end, t, regs, bits)
                    waiting = regs[g + BITS] + pane
                    low = end - end % regs[g + STRETCH]
                bits[ix(waiting + PANES * word_near(y, x, waiting_mask))] |= key
                regs[g + FULL + pane] += 1
        visits += 1
        s = np.int64(links[ix(link + (s & mask))])
    if denied:
        if keeps:
            crowding(g, pane, spec, regs)
            waits_at(node, j, regs)
        regs[a + TESTED] += denied
        regs[a + BLOCKED] += denied
        regs[spec[COUNT] + SUPPRESSED] += denied
    regs[spec[COUNT] + VISITS] += visits
    return s
