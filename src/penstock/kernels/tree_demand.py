"""Which partial results of a tree are wanted now, who waits for what, and who is taken up again when it comes.

A partial result of node u is *supported* by a source j outside if a live row of j equals it wherever the two are compared. If
some source does not support it, no answer can hold it now: it is not made, and a bit says that something waits at (u, j)
for this key. A row of j with this key makes everything anew that lies below u and equals it.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.jit import ix, kernel
from penstock.kernels.tree import (
    ASK,
    ASK_WORDS,
    AT,
    BITS,
    BLOCKED,
    BUCKETS,
    COUNT,
    CUR,
    CURRENT,
    DEMAND,
    ENDS,
    FULL,
    HEADS,
    INDEX,
    INDEX_WORDS,
    JIT,
    KEY,
    KEYS,
    KIN,
    LEFT,
    LIST,
    LISTED,
    MODE,
    NODE,
    NODE_WORDS,
    ORDER,
    OUTSIDE,
    OWN,
    PAIR,
    PANE,
    PART,
    PARTS,
    PLACE,
    RESUMED,
    SEEN,
    SKIP,
    SOURCE_WORDS,
    SOURCES,
    STIRRED,
    SUSPENDED_ROW,
    TAIL,
    TESTED,
    UNTIL,
    VIA,
    VISITS,
    WALK,
    WOKEN,
    bucket,
    cross_hash,
    insert,
    link_at,
    row_at,
)

TRIAL, RARE, REST = 256, 32, 64
"""A question is looked at every so many times; denied less often than one in RARE, it is left out REST times as long."""
SCAN, LISTS, CHAIN = range(3)


# ---------------------------------------------------------------------- partners of rows


@kernel
def equals(u, j, s, spec, regs, rows, work):
    """Whether a row of source j equals what is being made, restricted to node u, wherever they are compared."""
    at = spec[spec[KEYS] + 2 * (u * spec[SOURCES] + j)]
    other = row_at(j, s, regs)
    for c in range(spec[spec[KEYS] + 2 * (u * spec[SOURCES] + j) + 1]):
        q = at + 4 * c
        i = spec[q]
        if rows[ix(row_at(i, work[CUR, i], regs) + spec[q + 1])] != rows[ix(other + spec[q + 2])]:
            return False
    return True


@kernel
def key_toward(u, j, spec, regs, rows, work):
    """The key of what is being made, restricted to node u, toward source j; 0 where only emptiness counts."""
    h = np.int64(0)
    if spec[DEMAND] == JIT or u < spec[SOURCES]:
        at = spec[spec[KEYS] + 2 * (u * spec[SOURCES] + j)]
        for c in range(spec[spec[KEYS] + 2 * (u * spec[SOURCES] + j) + 1]):
            q = at + 4 * c
            i = spec[q]
            h += rows[ix(row_at(i, work[CUR, i], regs) + spec[q + 1])] * spec[q + 3]
    return h


@kernel
def chain_of(j, i, h, spec, regs, links):
    """The newest row of source j in the bucket of a key toward source i."""
    r = spec[INDEX] + spec[spec[PAIR] + 2 * (j * spec[SOURCES] + i)] * INDEX_WORDS
    return np.int64(links[ix(regs[r + HEADS] + bucket(h, regs[r + BUCKETS]))])


@kernel
def link_to(j, i, spec):
    """Which link of a row of source j leads on in that chain."""
    return spec[spec[PAIR] + 2 * (j * spec[SOURCES] + i) + 1]


@kernel
def listed(j, k, t, spec, regs, rows, links, work, lists):
    """How many live partners the event's row has in source j, set down in `lists`; -2: too many."""
    if work[LISTED, j] != -1:
        return work[LISTED, j]
    n = 0
    tail, column = regs[j * SOURCE_WORDS + TAIL], link_to(j, k, spec)
    s = chain_of(j, k, work[OWN, j], spec, regs, links)
    visits = 0
    while s >= tail:
        visits += 1
        if rows[ix(row_at(j, s, regs))] <= t:
            break
        if equals(k, j, s, spec, regs, rows, work):
            if n == LIST:
                n = -2
                break
            lists[ix(j * LIST + n)] = s
            n += 1
        s = np.int64(links[ix(link_at(j, s, regs) + column)])
    regs[spec[COUNT] + VISITS] += visits
    work[LISTED, j] = n
    return n


@kernel
def supported(u, j, k, t, spec, regs, rows, links, work, lists):
    """Whether source j holds a live row for what is being made, restricted to node u (k: the event's source, if it is in u)."""
    sources = spec[SOURCES]
    via = spec[spec[VIA] + u * sources + j]
    s = np.int64(0)
    if spec[DEMAND] != JIT or via < 0:
        s = regs[j * SOURCE_WORDS + SEEN] - 1
        return s >= regs[j * SOURCE_WORDS + TAIL] and rows[ix(row_at(j, s, regs))] > t
    if k >= 0 and u >= sources and spec[spec[PAIR] + 2 * (j * sources + k)] >= 0:
        n = listed(j, k, t, spec, regs, rows, links, work, lists)
        if n >= 0:
            for c in range(n):
                if equals(u, j, np.int64(lists[ix(j * LIST + c)]), spec, regs, rows, work):
                    return True
            return False
        via = k
    tail, column = regs[j * SOURCE_WORDS + TAIL], link_to(j, via, spec)
    s = chain_of(j, via, key_toward(via, j, spec, regs, rows, work), spec, regs, links)
    found = False
    visits = 0
    while s >= tail:
        visits += 1
        if rows[ix(row_at(j, s, regs))] <= t:
            break
        if equals(u, j, s, spec, regs, rows, work):
            found = True
            break
        s = np.int64(links[ix(link_at(j, s, regs) + column)])
    regs[spec[COUNT] + VISITS] += visits
    return found


# ---------------------------------------------------------------------- who waits


@kernel
def wait(a, h, exp, t, regs, bits):
    """Something that ends at `exp` waits for a key; what waited in the older pane may all have ended."""
    current = regs[a + CURRENT]
    mask = regs[a + PANE]
    if regs[a + UNTIL + 1 - current] <= t and regs[a + FULL + current] > 0:
        current = 1 - current
        regs[a + CURRENT] = current
        first = regs[a + BITS] + current * ((mask + 1) >> 6)
        if regs[a + FULL + current] > 0:
            for w in range((mask + 1) >> 6):
                bits[ix(first + w)] = 0
        regs[a + FULL + current] = 0
    b = bucket(h, mask)
    w = regs[a + BITS] + current * ((mask + 1) >> 6) + (b >> 6)
    bit = np.uint64(1) << np.uint64(b & 63)
    if not bits[ix(w)] & bit:
        bits[ix(w)] |= bit
        regs[a + FULL + current] += 1
    regs[a + UNTIL + current] = max(regs[a + UNTIL + current], exp)


@kernel
def waits(a, h, t, regs, bits):
    """Whether something may wait for a key."""
    mask = regs[a + PANE]
    for pane in range(2):
        if regs[a + UNTIL + pane] > t and regs[a + FULL + pane] > 0:
            b = bucket(h, mask)
            w = regs[a + BITS] + pane * ((mask + 1) >> 6) + (b >> 6)
            if bits[ix(w)] & (np.uint64(1) << np.uint64(b & 63)):
                return True
    return False


@kernel
def wanted(u, exp, but, k, t, spec, regs, rows, links, bits, work, lists):
    """Whether all sources outside node u (`but` one that is known to) support what is being made; else it waits.

    Whom to ask first is learnt: who denies moves to the front, and who never does is left out for a while.
    """
    sources = spec[SOURCES]
    order = spec[ORDER] + u * sources
    n = 0
    while n < sources and regs[order + n] >= 0:
        j = regs[order + n]
        a = spec[ASK] + (u * sources + j) * ASK_WORDS
        n += 1
        if j == but:
            continue
        if regs[a + SKIP] > 0:
            regs[a + SKIP] -= 1
            continue
        yes = supported(u, j, k, t, spec, regs, rows, links, work, lists)
        regs[a + TESTED] += 1
        if not yes:
            regs[a + BLOCKED] += 1
        if regs[a + TESTED] >= TRIAL:
            if regs[a + BLOCKED] * RARE < regs[a + TESTED]:
                regs[a + SKIP] = TRIAL * REST
            regs[a + TESTED] = 0
            regs[a + BLOCKED] = 0
        if not yes:
            h = np.int64(0)
            if spec[DEMAND] == JIT:
                h = key_toward(u, j, spec, regs, rows, work)
            wait(a, h, exp, t, regs, bits)
            if n > 1:
                regs[order + n - 1] = regs[order + n - 2]
                regs[order + n - 2] = j
            return False
    return True


# ---------------------------------------------------------------------- who is taken up again


@kernel
def prepare(k, spec, regs, rows, work):
    """The keys of the event's row toward its neighbours; nothing is known of its partners yet."""
    for j in range(spec[SOURCES]):
        work[LISTED, j] = -1
        work[OWN, j] = key_toward(k, j, spec, regs, rows, work) if j != k else 0


@kernel
def resume(k, t, spec, regs, rows, links, bits, work, lists):
    """A row of source k has come: make what waited for it. False if room is short."""
    sources = spec[SOURCES]
    at = spec[spec[OUTSIDE] + 2 * k]
    for c in range(spec[spec[OUTSIDE] + 2 * k + 1]):
        w = spec[at + c]
        left, right = spec[spec[KIN] + 4 * w], spec[spec[KIN] + 4 * w + 1]
        h = np.int64(0)
        stirred = False
        if w < sources:
            h = work[OWN, w] if spec[DEMAND] == JIT else np.int64(0)
        else:
            # A part that was not made keeps the whole from being looked at: what stirs below stirs here.
            h = work[KEY, left] + work[KEY, right]
            stirred = work[STIRRED, left] != 0 or work[STIRRED, right] != 0
        work[KEY, w] = h
        stirred = stirred or waits(spec[ASK] + (w * sources + k) * ASK_WORDS, h, t, regs, bits)
        work[STIRRED, w] = 1 if stirred else 0
        if stirred:
            if w < sources:
                wake(w, k, t, spec, regs, rows, links, bits, work, lists)
            elif not remake(w, k, t, spec, regs, rows, links, bits, work, lists):
                return False
    return True


@kernel
def wake(i, k, t, spec, regs, rows, links, bits, work, lists):
    """Rows of source i that were set aside and equal the event's row take part again, if all others support them too."""
    tail = regs[i * SOURCE_WORDS + TAIL]
    keyed = spec[DEMAND] == JIT and spec[spec[PAIR] + 2 * (i * spec[SOURCES] + k)] >= 0
    s = regs[i * SOURCE_WORDS + SEEN] - 1
    if keyed:
        s = chain_of(i, k, work[OWN, i], spec, regs, links)
    visits = 0
    while s >= tail:
        visits += 1
        exp = rows[ix(row_at(i, s, regs))]
        if exp <= t:
            break
        own = link_at(i, s, regs)
        work[CUR, i] = s
        if (
            links[ix(own)] == SUSPENDED_ROW
            and (not keyed or equals(k, i, s, spec, regs, rows, work))
            and wanted(i, exp, k, -1, t, spec, regs, rows, links, bits, work, lists)
        ):
            put_back(i, s, own, spec, regs, rows, links, work)
        s = np.int64(links[ix(own + link_to(i, k, spec))]) if keyed else s - 1
    regs[spec[COUNT] + VISITS] += visits


@kernel
def put_back(i, s, own, spec, regs, rows, links, work):
    """A row takes its place in its node's chain: where it would be had it never left, so that all behind it end before."""
    r = spec[NODE] + i * NODE_WORDS
    before = np.int64(-1)
    b = regs[r + HEADS] + bucket(cross_hash(i, spec, regs, rows, work), regs[r + BUCKETS])
    next_ = np.int64(links[ix(b)])
    while next_ > s:
        before = next_
        next_ = np.int64(links[ix(link_at(i, next_, regs))])
    links[ix(own)] = next_
    if before < 0:
        links[ix(b)] = s
    else:
        links[ix(link_at(i, before, regs))] = s
    regs[spec[COUNT] + WOKEN] += 1


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
def fits(check, n, target, s, spec, regs, rows, work):
    """Whether a row equals all that is bound already."""
    own = row_at(target, s, regs)
    for c in range(n):
        q = check + 3 * c
        i = spec[q + 1]
        if rows[ix(own + spec[q])] != rows[ix(row_at(i, work[CUR, i], regs) + spec[q + 2])]:
            return False
    return True


@kernel
def remake(u, k, t, spec, regs, rows, links, bits, work, lists):
    """All rows below node u that equal each other and the event's row: those that are wanted now and not there are made.

    A walk through the sources of u, in an order and by the partners that the plan fixes. False if room is short.
    """
    sources = spec[SOURCES]
    steps, n = spec[spec[WALK] + 2 * (u * sources + k)], spec[spec[WALK] + 2 * (u * sources + k) + 1]
    at, mode, left, ends = work[AT], work[MODE], work[LEFT], work[ENDS]
    level = 0
    down = True
    visits = 0
    while level >= 0:
        q = steps + 4 * level
        target, via = spec[q], spec[q + 1]
        tail = regs[target * SOURCE_WORDS + TAIL]
        if down:
            mode[level] = SCAN
            at[level] = regs[target * SOURCE_WORDS + SEEN] - 1
            if via >= 0:
                mode[level] = CHAIN
                count = np.int64(-2)
                if via == k:
                    count = listed(target, k, t, spec, regs, rows, links, work, lists)
                if count >= 0:
                    mode[level] = LISTS
                    at[level] = 0
                    left[level] = count
                else:
                    h = key_toward(via, target, spec, regs, rows, work)
                    at[level] = chain_of(target, via, h, spec, regs, links)
        s = np.int64(-1)
        if mode[level] == LISTS:
            while at[level] < left[level]:
                s = np.int64(lists[ix(target * LIST + at[level])])
                at[level] += 1
                if fits(spec[q + 2], spec[q + 3], target, s, spec, regs, rows, work):
                    break
                s = np.int64(-1)
        else:
            column = link_to(target, via, spec) if via >= 0 else np.int64(0)
            c = at[level]
            while c >= tail:
                visits += 1
                if rows[ix(row_at(target, c, regs))] <= t:
                    c = np.int64(-1)
                    break
                after = np.int64(links[ix(link_at(target, c, regs) + column)]) if via >= 0 else c - 1
                if fits(spec[q + 2], spec[q + 3], target, c, spec, regs, rows, work):
                    s = c
                    c = after
                    break
                c = after
            at[level] = c
        if s < 0:
            level -= 1
            down = False
            continue
        work[CUR, target] = s
        end = rows[ix(row_at(target, s, regs))]
        if level > 0:
            end = min(end, ends[level - 1])
        ends[level] = end
        if level + 1 < n:
            level += 1
            down = True
            continue
        down = False
        if wanted(u, end, k, -1, t, spec, regs, rows, links, bits, work, lists):
            h = cross_hash(u, spec, regs, rows, work)
            if not is_there(u, h, spec, regs, rows, links, work):
                if not insert(u, h, end, spec, regs, rows, links, work):
                    return False
                regs[spec[COUNT] + RESUMED] += 1
    regs[spec[COUNT] + VISITS] += visits
    return True
