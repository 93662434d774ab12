"""Who is taken up again when a row comes: rows that were set aside, and partial results that were not made.

A row of source k with a key for which something waits at (u, k) lets everything be made that stands in the states of u's
children and equals it, and lets it meet the states above, which ask in turn.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.compile import ix, kernel, part
from penstock.kernels.tree.climb import (
    ASIDE,
    ASK,
    ASK_WORDS,
    BUCKETS,
    COUNT,
    DEMAND,
    HEADS,
    JIT,
    KIN,
    LIST,
    MARK,
    MASK,
    NODE,
    NODE_WORDS,
    OUTSIDE,
    PAIR,
    SEEN,
    SOURCE_WORDS,
    SOURCES,
    SUSPENDED_ROW,
    TAIL,
    TOWARD,
    VIA,
    VISITS,
    WAITED,
    WAITING,
    WOKEN,
    bind,
    bucket,
    cross_hash,
    link_at,
    row_at,
)
from penstock.kernels.tree.demand import wanted
from penstock.kernels.tree.pane_filters import may_hold
from penstock.kernels.tree.partners import behind, chain, equals, forget, key_toward, row_key, seek
from penstock.kernels.tree.rebuild import remake, remake_pairs, rise


@part
def resume(k, seq, t, spec, regs, rows, links, bits, work, lists):
    """A row of source k has come: make what waited for it. False if room is short."""
    sources = spec[SOURCES]
    at = spec[spec[OUTSIDE] + 2 * k]
    waited = regs[k * SOURCE_WORDS + WAITED]
    place = row_at(k, seq, regs)
    known = False
    # Who waited for any row at all waited for the first.
    first = seq == regs[k * SOURCE_WORDS + TAIL] or rows[ix(row_at(k, seq - 1, regs))] <= t
    for c in range(spec[spec[OUTSIDE] + 2 * k + 1]):
        w = spec[at + c]
        if not (waited >> (w & 63)) & 1 or (w < sources and regs[w * SOURCE_WORDS + ASIDE] == 0):
            continue
        keyed = spec[DEMAND] == JIT and spec[spec[VIA] + w * sources + k] >= 0
        f = spec[ASK] + (w * sources + k) * ASK_WORDS + WAITING
        if (keyed or first) and awaited(w, k, f, place, keyed, spec, regs, rows, bits):
            room = np.int64(-1)
            if w < sources:
                room = np.int64(wake(w, k, seq, t, spec, regs, rows, links, bits, work, lists))
            elif keyed:
                room = remake_pairs(w, k, seq, t, spec, regs, rows, links, bits, work, lists)
            if room < 0:
                if not known:
                    forget(spec, work)
                    known = True
                room = np.int64(remake(w, k, seq, t, spec, regs, rows, links, bits, work, lists))
            if room == 0:
                return False
    return True


@part
def awaited(w, k, f, place, keyed, spec, regs, rows, bits):
    """Whether something may wait at a node for a row of source k."""
    if not keyed:
        return may_hold(f, np.int64(0), np.int64(0), regs, bits)
    h = row_key(k, w, place, spec, rows)
    if w < spec[SOURCES]:
        return may_hold(f, h, h, regs, bits)
    for side in range(2):
        c = spec[spec[KIN] + 4 * w + side]
        own = h
        if c < spec[SOURCES] and spec[spec[TOWARD] + 2 * (c * spec[SOURCES] + k) + 1] > 0:
            own = row_key(k, c, place, spec, rows)
        if may_hold(f, own, h, regs, bits):
            return True
    return False


@kernel
def wake(i, k, seq, t, spec, regs, rows, links, bits, work, lists):
    """Rows of source i that were set aside and equal the event's row take part again, if all others support them too.

    False if room is short.
    """
    tail, mask = regs[i * SOURCE_WORDS + TAIL], regs[i * SOURCE_WORDS + MASK]
    keyed = spec[DEMAND] == JIT and spec[spec[PAIR] + i * spec[SOURCES] + k] >= 0
    s, column = regs[i * SOURCE_WORDS + SEEN] - 1, np.int64(-1)
    if keyed:
        s, column = chain(i, k, key_toward(k, i, spec, rows, work), spec, regs, rows, links)
    visits = 0
    while s >= tail:
        visits += 1
        place = row_at(i, s, regs)
        exp = rows[ix(place)]
        if exp <= t:
            break
        own = link_at(i, s, regs)
        if links[ix(own)] == SUSPENDED_ROW:
            at, n = seek(k, i, spec, rows, work)
            if not keyed or equals(at, n, place, spec, rows, work):
                bind(i, s, regs, work)
                if wanted(i, exp, k, t, spec, regs, rows, links, bits, work):
                    put_back(i, s, own, spec, regs, rows, links, work)
                    note_woken(i, s, spec, work, lists)
                    if not rise(i, exp, t, spec, regs, rows, links, bits, work):
                        return False
                    bind(k, seq, regs, work)
        s = behind(s, column, mask, links)
    regs[spec[COUNT] + VISITS] += visits
    return True


@part
def note_woken(i, s, spec, work, lists):
    """So that it can be undone."""
    n = work[MARK, 0]
    lists[ix(spec[SOURCES] * LIST + 2 * n)] = i
    lists[ix(spec[SOURCES] * LIST + 2 * n + 1)] = s
    work[MARK, 0] = n + 1


@kernel
def let_sleep(spec, regs, rows, links, work, lists):
    """Set aside again the rows that were taken up for the event."""
    for n in range(work[MARK, 0] - 1, -1, -1):
        i = np.int64(lists[spec[SOURCES] * LIST + 2 * n])
        s = np.int64(lists[spec[SOURCES] * LIST + 2 * n + 1])
        bind(i, s, regs, work)
        r = spec[NODE] + i * NODE_WORDS
        b = regs[r + HEADS] + bucket(cross_hash(i, spec, rows, work), regs[r + BUCKETS])
        own = link_at(i, s, regs)
        if links[b] == s:
            links[b] = links[own]
        else:
            before = np.int64(links[b])
            while links[link_at(i, before, regs)] != s:
                before = np.int64(links[link_at(i, before, regs)])
            links[link_at(i, before, regs)] = links[own]
        links[own] = SUSPENDED_ROW
        regs[i * SOURCE_WORDS + ASIDE] += 1
        regs[spec[COUNT] + WOKEN] -= 1


@kernel
def put_back(i, s, own, spec, regs, rows, links, work):
    """A row takes its place in its node's chain: where it would be had it never left, so that all behind it end before."""
    r = spec[NODE] + i * NODE_WORDS
    before = np.int64(-1)
    b = regs[r + HEADS] + bucket(cross_hash(i, spec, rows, work), regs[r + BUCKETS])
    next_ = np.int64(links[ix(b)])
    while next_ > s:
        before = next_
        next_ = np.int64(links[ix(link_at(i, next_, regs))])
    links[ix(own)] = next_
    if before < 0:
        links[ix(b)] = s
    else:
        links[ix(link_at(i, before, regs))] = s
    regs[i * SOURCE_WORDS + ASIDE] -= 1
    regs[spec[COUNT] + WOKEN] += 1
