"""Which partial results of a tree are wanted now, who waits for what, and who is taken up again when it comes.

A partial result of node u is *supported* by a source j outside if a live row of j equals it wherever the two are compared. If
some source does not support it, no answer can hold it now: it is not made, and a bit says that something waits at (u, j)
for this key. When a row of j with this key comes, whatever stands in the states of u's children and equals it is made, and
meets the states above.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.hashing import GOLDEN
from penstock.kernels.jit import ix, kernel, part
from penstock.kernels.tree import (
    ASK,
    ASK_WORDS,
    AT,
    BASE,
    BITS,
    BLOCKED,
    BUCKETS,
    COUNT,
    CROSS,
    CROWD,
    CROWDED,
    CUR,
    CURRENT,
    DEMAND,
    ENDS,
    FULL,
    HASH,
    HEADS,
    IDLE,
    INDEX,
    INDEX_WORDS,
    JIT,
    KEY,
    KEYS,
    KIN,
    LASTS,
    LEFT,
    LINK,
    LINKS,
    LIST,
    LISTED,
    MARK,
    MASK,
    MODE,
    MOST_PANE,
    NODE,
    NODE_WORDS,
    ORDER,
    OUTSIDE,
    OWN,
    PAIR,
    PANE,
    PART,
    PARTS,
    PATH,
    PLACE,
    POS,
    RESUMED,
    SEEN,
    SKETCH,
    SKETCH_BY,
    SKETCH_OF,
    SKIP,
    SOURCE_WORDS,
    SOURCES,
    STEP,
    SUPPRESSED,
    SUSPENDED_ROW,
    TAIL,
    TESTED,
    UNTIL,
    VIA,
    VISITS,
    WALK,
    WANT,
    WIDTH,
    WOKEN,
    after,
    bind,
    bucket,
    cross_hash,
    end_of,
    insert,
    link_at,
    next_partner,
    row_at,
)

TRIAL, RARE, REST, PAUSE = 256, 3, 64, 64
"""A question is looked at every so many times; denied less often than one in RARE, it is left out REST times as long; where all are, nobody looks
whom to ask PAUSE times."""
SCAN, LISTS, CHAIN = range(3)


# ---------------------------------------------------------------------- partners of rows


@part
def seek(u, j, spec, rows, work):
    """Set down what a row of source j must hold to equal what is being made, restricted to node u."""
    at = spec[spec[KEYS] + 2 * (u * spec[SOURCES] + j)]
    n = spec[spec[KEYS] + 2 * (u * spec[SOURCES] + j) + 1]
    for c in range(n):
        q = at + 4 * c
        work[WANT, ix(c)] = rows[ix(work[POS, ix(spec[ix(q)])] + spec[ix(q + 1)])]
    return at, n


@part
def equals(at, n, place, spec, rows, work):
    """Whether a row holds what is sought."""
    for c in range(n):
        if rows[ix(place + spec[ix(at + 4 * c + 2)])] != work[WANT, ix(c)]:
            return False
    return True


@part
def key_toward(u, j, spec, rows, work):
    """The key of what is being made, restricted to node u, toward source j."""
    h = np.int64(0)
    at = spec[spec[KEYS] + 2 * (u * spec[SOURCES] + j)]
    for c in range(spec[spec[KEYS] + 2 * (u * spec[SOURCES] + j) + 1]):
        q = at + 4 * c
        h += rows[ix(work[POS, ix(spec[ix(q)])] + spec[ix(q + 1)])] * spec[ix(q + 3)]
    return h


@part
def chain_of(j, i, h, spec, regs, links):
    """The newest row of source j in the bucket of a key toward source i."""
    r = spec[INDEX] + spec[spec[PAIR] + 2 * (j * spec[SOURCES] + i)] * INDEX_WORDS
    return np.int64(links[ix(regs[r + HEADS] + bucket(h, regs[r + BUCKETS]))])


@part
def link_to(j, i, spec):
    """Which link of a row of source j leads on in that chain."""
    return spec[spec[PAIR] + 2 * (j * spec[SOURCES] + i) + 1]


@part
def listed(j, k, t, spec, regs, rows, links, work, lists):
    """How many live partners the event's row has in source j, set down in `lists`; -2: too many."""
    if work[LISTED, ix(j)] != -1:
        return work[LISTED, ix(j)]
    r = j * SOURCE_WORDS
    tail, mask, base, width = regs[r + TAIL], regs[r + MASK], regs[r + BASE], regs[r + WIDTH]
    link, step = regs[r + LINK] + link_to(j, k, spec), regs[r + LINKS]
    at, count = seek(k, j, spec, rows, work)
    s = chain_of(j, k, work[OWN, ix(j)], spec, regs, links)
    n = 0
    visits = 0
    while s >= tail:
        visits += 1
        place = base + (s & mask) * width
        if rows[ix(place)] <= t:
            break
        if equals(at, count, place, spec, rows, work):
            if n == LIST:
                n = -2
                break
            lists[ix(j * LIST + n)] = s
            n += 1
        s = np.int64(links[ix(link + (s & mask) * step)])
    regs[spec[COUNT] + VISITS] += visits
    work[LISTED, ix(j)] = n
    return n


@part
def sketch_bit(word):
    """Which bit of a sketch a value has."""
    return (np.uint64(word) * GOLDEN) >> np.uint64(58)


@kernel
def sketch_words(j, u, n, field, regs, rows, work, lists):
    """A word with a bit for every value of a field among the event's partners in source j, for a walk below node u."""
    word = np.uint64(0)
    for c in range(n):
        place = row_at(j, np.int64(lists[ix(j * LIST + c)]), regs)
        word |= np.uint64(1) << sketch_bit(rows[ix(place + field)])
    work[SKETCH, j] = np.int64(word)
    work[SKETCH_OF, j] = -2 - u


@kernel
def sketch(u, j, k, n, at, count, spec, regs, rows, work, lists):
    """A word with a bit for every value by which the event's partners in source j may equal something else below node u."""
    found = np.int64(-1)
    for c in range(count):
        if found < 0 and spec[at + 4 * c] != k:
            found = at + 4 * c
    word = np.uint64(0)
    if found >= 0:
        for c in range(n):
            place = row_at(j, np.int64(lists[ix(j * LIST + c)]), regs)
            word |= np.uint64(1) << sketch_bit(rows[ix(place + spec[found + 2])])
    work[SKETCH, j] = np.int64(word)
    work[SKETCH_BY, j] = found
    work[SKETCH_OF, j] = u


@part
def supported(u, j, k, t, spec, regs, rows, links, work, lists):
    """Whether source j holds a live row for what is being made, restricted to node u (k: the event's source, if it is in u)."""
    sources = spec[SOURCES]
    via = spec[spec[VIA] + u * sources + j]
    r = j * SOURCE_WORDS
    if spec[DEMAND] != JIT or via < 0:
        s = regs[r + SEEN] - 1
        return s >= regs[r + TAIL] and rows[ix(row_at(j, s, regs))] > t
    tail, mask, base, width = regs[r + TAIL], regs[r + MASK], regs[r + BASE], regs[r + WIDTH]
    if k >= 0 and u >= sources and spec[spec[PAIR] + 2 * (j * sources + k)] >= 0:
        n = listed(j, k, t, spec, regs, rows, links, work, lists)
        if n >= 0:
            at, count = spec[spec[KEYS] + 2 * (u * sources + j)], spec[spec[KEYS] + 2 * (u * sources + j) + 1]
            if work[SKETCH_OF, ix(j)] != u:
                sketch(u, j, k, n, at, count, spec, regs, rows, work, lists)
            q = work[SKETCH_BY, ix(j)]
            if q < 0:
                return n > 0
            mine = rows[ix(work[POS, ix(spec[ix(q)])] + spec[ix(q + 1)])]
            if not (np.uint64(work[SKETCH, ix(j)]) >> sketch_bit(mine)) & np.uint64(1):
                return False
            at, count = seek(u, j, spec, rows, work)
            for c in range(n):
                place = base + (np.int64(lists[ix(j * LIST + c)]) & mask) * width
                if equals(at, count, place, spec, rows, work):
                    return True
            return False
        via = k
    s = chain_of(j, via, key_toward(via, j, spec, rows, work), spec, regs, links)
    at, count = seek(u, j, spec, rows, work)
    link, step = regs[r + LINK] + link_to(j, via, spec), regs[r + LINKS]
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
        s = np.int64(links[ix(link + (s & mask) * step)])
    regs[spec[COUNT] + VISITS] += visits
    return found


# ---------------------------------------------------------------------- who waits


@part
def key_bits(h):
    """Two bits of a word for a key: of one bit alone a quarter would be set for others."""
    x = np.uint64(h) * GOLDEN
    one, other = (x >> np.uint64(20)) & np.uint64(63), (x >> np.uint64(26)) & np.uint64(63)
    return (np.uint64(1) << one) | (np.uint64(1) << other)


@kernel
def open_pane(a, t, regs, bits):
    """The pane to write who waits into; what waited in the older one may all have ended."""
    current = regs[a + CURRENT]
    if regs[a + UNTIL + 1 - current] <= t and regs[a + FULL + current] > 0:
        current = 1 - current
        regs[a + CURRENT] = current
        if regs[a + FULL + current] > 0:
            first = regs[a + BITS] + current * (regs[a + PANE] + 1)
            for w in range(regs[a + PANE] + 1):
                bits[ix(first + w)] = 0
        regs[a + FULL + current] = 0
    return current


@part
def waited(a, pane, n, exp, spec, regs):
    """So many keys more are in a pane."""
    regs[a + FULL + pane] += n
    regs[a + UNTIL + pane] = max(regs[a + UNTIL + pane], exp)
    if regs[a + FULL + pane] > CROWD * (regs[a + PANE] + 1) and regs[a + PANE] + 1 < MOST_PANE:
        regs[spec[COUNT] + CROWDED] = 1


@part
def wait(a, h, exp, t, spec, regs, bits):
    """Something that ends at `exp` waits for a key."""
    current = open_pane(a, t, regs, bits)
    w = regs[a + BITS] + current * (regs[a + PANE] + 1) + bucket(h, regs[a + PANE])
    bits[ix(w)] |= key_bits(h)
    waited(a, current, 1, exp, spec, regs)


@part
def waits(a, h, t, regs, bits):
    """Whether something may wait for a key."""
    for pane in range(2):
        if regs[a + UNTIL + pane] > t and regs[a + FULL + pane] > 0:
            w = regs[a + BITS] + pane * (regs[a + PANE] + 1) + bucket(h, regs[a + PANE])
            own = key_bits(h)
            if bits[ix(w)] & own == own:
                return True
    return False


@kernel
def wanted(u, exp, but, k, t, spec, regs, rows, links, bits, work, lists):
    """Whether all sources outside node u (`but` one that is known to) support what is being made; else it waits.

    Whom to ask first is learnt: who denies clearly more often moves to the front (not oftener: all that waits for one source
    is told by its rows alone), and who never does is left out for a while.
    """
    sources = spec[SOURCES]
    rest = spec[NODE] + u * NODE_WORDS + IDLE
    if regs[rest] > 0:
        regs[rest] -= 1
        return True
    order = spec[ORDER] + u * sources
    asked = False
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
        asked = True
        yes = supported(u, j, k, t, spec, regs, rows, links, work, lists)
        regs[a + TESTED] += 1
        if not yes:
            regs[a + BLOCKED] += 1
        if regs[a + TESTED] >= TRIAL:
            if regs[a + BLOCKED] * RARE < regs[a + TESTED]:
                regs[a + SKIP] = TRIAL * REST
            regs[a + TESTED] >>= 1
            regs[a + BLOCKED] >>= 1
        if not yes:
            h = np.int64(0)
            if spec[DEMAND] == JIT:
                h = key_toward(u, j, spec, rows, work)
            wait(a, h, exp, t, spec, regs, bits)
            if n > 1:
                other = regs[order + n - 2]
                b = spec[ASK] + (u * sources + other) * ASK_WORDS
                denied, others = regs[a + BLOCKED] * regs[b + TESTED], regs[b + BLOCKED] * regs[a + TESTED]
                if regs[b + SKIP] > 0 or 4 * denied > 5 * others:
                    regs[order + n - 1] = other
                    regs[order + n - 2] = j
            return False
    if not asked:
        regs[rest] = PAUSE
    return True


@kernel
def sift(s, i, node, exp, k, t, spec, regs, rows, links, bits, work, lists):
    """From a row of source i in its node's chain on, past those that equal the event's row but that the source asked first
    denies at a glance; these wait. As many are looked at as can be told by one word each; returns the next row.

    What `next_partner` and `wanted` would do, without looking up again for every row what is the same for all.
    """
    sources = spec[SOURCES]
    j = regs[spec[ORDER] + node * sources]
    a = spec[ASK] + (node * sources + j) * ASK_WORDS
    at, count = spec[spec[KEYS] + 2 * (node * sources + j)], spec[spec[KEYS] + 2 * (node * sources + j) + 1]
    cross, crossed = spec[spec[CROSS] + 2 * i], spec[spec[CROSS] + 2 * i + 1]
    if regs[a + SKIP] > 0 or crossed != 1 or count != 2 or spec[spec[PAIR] + 2 * (j * sources + k)] < 0:
        return s
    n = listed(j, k, t, spec, regs, rows, links, work, lists)
    if n < 0:
        return s
    sketch(node, j, k, n, at, count, spec, regs, rows, work, lists)
    q = work[SKETCH_BY, j]
    if q < 0:
        return s
    bits_of, by, field = np.uint64(work[SKETCH, j]), spec[q + 3], spec[q + 1]
    r = i * SOURCE_WORDS
    tail, mask, base, width = regs[r + TAIL], regs[r + MASK], regs[r + BASE], regs[r + WIDTH]
    link, step = regs[r + LINK], regs[r + LINKS]
    word_at = spec[cross + 1]
    word = rows[work[POS, spec[cross + 2]] + spec[cross + 3]]
    current = open_pane(a, t, regs, bits)
    pane, last = regs[a + BITS] + current * (regs[a + PANE] + 1), regs[a + PANE]
    visits = denied = 0
    while s >= tail:
        place = base + (s & mask) * width
        if rows[ix(place)] <= t:
            break
        if rows[ix(place + word_at)] == word:
            mine = rows[ix(place + field)]
            if (bits_of >> sketch_bit(mine)) & np.uint64(1):
                break
            denied += 1
            h = work[OWN, ix(j)] + mine * by
            w = pane + bucket(h, last)
            bits[ix(w)] |= key_bits(h)
        visits += 1
        s = np.int64(links[ix(link + (s & mask) * step)])
    if denied:
        waited(a, current, denied, exp, spec, regs)
        regs[a + TESTED] += denied
        regs[a + BLOCKED] += denied
        regs[spec[COUNT] + SUPPRESSED] += denied
    regs[spec[COUNT] + VISITS] += visits
    return s


# ---------------------------------------------------------------------- who is taken up again


@part
def prepare(k, spec, rows, work):
    """The keys of the event's row toward its neighbours; nothing is known of its partners yet."""
    for j in range(spec[SOURCES]):
        work[LISTED, j] = -1
        work[SKETCH_OF, j] = -1
        work[OWN, j] = key_toward(k, j, spec, rows, work) if j != k else 0


@kernel
def resume(k, t, spec, regs, rows, links, bits, work, lists):
    """A row of source k has come (and is in its indexes): make what waited for it. False if room is short."""
    sources = spec[SOURCES]
    at = spec[spec[OUTSIDE] + 2 * k]
    seq = work[CUR, k]
    # Who waited for any row at all waited for the first.
    first = seq == regs[k * SOURCE_WORDS + TAIL] or rows[ix(row_at(k, seq - 1, regs))] <= t
    for c in range(spec[spec[OUTSIDE] + 2 * k + 1]):
        w = spec[at + c]
        keyed = spec[DEMAND] == JIT and spec[spec[VIA] + w * sources + k] >= 0
        h = np.int64(0)
        if w < sources:
            h = work[OWN, w] if keyed else np.int64(0)
        else:
            h = work[KEY, spec[spec[KIN] + 4 * w]] + work[KEY, spec[spec[KIN] + 4 * w + 1]]
        work[KEY, w] = h
        if (keyed or first) and waits(spec[ASK] + (w * sources + k) * ASK_WORDS, h, t, regs, bits):
            if w < sources:
                room = wake(w, k, seq, t, spec, regs, rows, links, bits, work, lists)
            else:
                room = remake(w, k, seq, t, spec, regs, rows, links, bits, work, lists)
            if not room:
                return False
    return True


@kernel
def wake(i, k, seq, t, spec, regs, rows, links, bits, work, lists):
    """Rows of source i that were set aside and equal the event's row take part again, if all others support them too.

    False if room is short.
    """
    tail = regs[i * SOURCE_WORDS + TAIL]
    keyed = spec[DEMAND] == JIT and spec[spec[PAIR] + 2 * (i * spec[SOURCES] + k)] >= 0
    s = regs[i * SOURCE_WORDS + SEEN] - 1
    if keyed:
        s = chain_of(i, k, work[OWN, i], spec, regs, links)
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
                if wanted(i, exp, k, -1, t, spec, regs, rows, links, bits, work, lists):
                    put_back(i, s, own, spec, regs, rows, links, work)
                    note_woken(i, s, spec, work, lists)
                    if not rise(i, exp, t, spec, regs, rows, links, bits, work, lists):
                        return False
                    bind(k, seq, regs, work)
        s = np.int64(links[ix(own + link_to(i, k, spec))]) if keyed else s - 1
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
        regs[spec[COUNT] + WOKEN] -= 1


@kernel
def rise(node, end, t, spec, regs, rows, links, bits, work, lists):
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
        if not wanted(above, ends[level], -1, -1, t, spec, regs, rows, links, bits, work, lists):
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
def takes_part(u, spec, regs, rows, links, work):
    """Whether what is being made, restricted to node u, is in the node's state."""
    if u < spec[SOURCES]:
        return links[ix(link_at(u, work[CUR, u], regs))] != SUSPENDED_ROW
    return is_there(u, cross_hash(u, spec, rows, work), spec, regs, rows, links, work)


@part
def fits(check, n, place, spec, rows, work):
    """Whether a row equals all that is bound already."""
    for c in range(n):
        q = check + 3 * c
        mine = rows[ix(place + spec[ix(q)])]
        if mine != rows[ix(work[POS, ix(spec[ix(q + 1)])] + spec[ix(q + 2)])]:
            return False
    return True


@kernel
def remake(u, k, seq, t, spec, regs, rows, links, bits, work, lists):
    """All rows below node u that equal each other and the event's row: those that are wanted now and not there are made.

    A walk through the sources of u, in an order and by the partners that the plan fixes. False if room is short.
    """
    sources = spec[SOURCES]
    steps, n = spec[spec[WALK] + 2 * (u * sources + k)], spec[spec[WALK] + 2 * (u * sources + k) + 1]
    at, mode, left, ends = work[AT], work[MODE], work[LEFT], work[LASTS]
    level = 0
    down = True
    visits = 0
    while level >= 0:
        q = steps + 4 * level
        target, via = spec[q], spec[q + 1]
        tail = regs[target * SOURCE_WORDS + TAIL]
        if down:
            count = np.int64(-2)
            mode[level] = SCAN
            at[level] = regs[target * SOURCE_WORDS + SEEN] - 1
            if via >= 0:
                mode[level] = CHAIN
                if via == k:
                    count = listed(target, k, t, spec, regs, rows, links, work, lists)
                if count >= 0:
                    mode[level] = LISTS
                    at[level] = 0
                    left[level] = count
                else:
                    h = key_toward(via, target, spec, rows, work)
                    at[level] = chain_of(target, via, h, spec, regs, links)
            if mode[level] == LISTS and level > 0 and spec[q + 3] == 2:
                # One comparison is the event's own; does any partner agree in the other?
                c = spec[q + 2] if spec[spec[q + 2] + 1] != k else spec[q + 2] + 3
                if work[SKETCH_OF, target] != -2 - u:
                    sketch_words(target, u, count, spec[c], regs, rows, work, lists)
                mine = rows[ix(work[POS, spec[c + 1]] + spec[c + 2])]
                if not (np.uint64(work[SKETCH, target]) >> sketch_bit(mine)) & np.uint64(1):
                    left[level] = 0
        s = np.int64(-1)
        if mode[level] == LISTS:
            while at[level] < left[level]:
                s = np.int64(lists[ix(target * LIST + at[level])])
                at[level] += 1
                if fits(spec[q + 2], spec[q + 3], row_at(target, s, regs), spec, rows, work):
                    break
                s = np.int64(-1)
        else:
            column = link_to(target, via, spec) if via >= 0 else np.int64(0)
            c = at[level]
            while c >= tail:
                visits += 1
                place = row_at(target, c, regs)
                if rows[ix(place)] <= t:
                    c = np.int64(-1)
                    break
                behind = np.int64(links[ix(link_at(target, c, regs) + column)]) if via >= 0 else c - 1
                if fits(spec[q + 2], spec[q + 3], place, spec, rows, work):
                    s = c
                    c = behind
                    break
                c = behind
            at[level] = c
        if s < 0:
            level -= 1
            down = False
            continue
        bind(target, s, regs, work)
        end = rows[ix(work[POS, target])]
        if level > 0:
            end = min(end, ends[level - 1])
        ends[level] = end
        if level + 1 < n:
            level += 1
            down = True
            continue
        down = False
        if not (takes_part(spec[spec[KIN] + 4 * u], spec, regs, rows, links, work)) or not (
            takes_part(spec[spec[KIN] + 4 * u + 1], spec, regs, rows, links, work)
        ):
            continue
        h = cross_hash(u, spec, rows, work)
        if not is_there(u, h, spec, regs, rows, links, work) and wanted(
            u, end, k, -1, t, spec, regs, rows, links, bits, work, lists
        ):
            if not insert(u, h, end, spec, regs, rows, links, work):
                return False
            regs[spec[COUNT] + RESUMED] += 1
            if not rise(u, end, t, spec, regs, rows, links, bits, work, lists):
                return False
            bind(k, seq, regs, work)
    regs[spec[COUNT] + VISITS] += visits
    return True
