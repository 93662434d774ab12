"""Who is taken up again when a row comes: rows that were set aside, and partial results that were not made.

A row of source k with a key for which something waits at (u, k) lets everything be made that stands in the states of u's
children and equals it, and lets it meet the states above, which ask in turn.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.jit import ix, kernel, part, prefetch
from penstock.kernels.tree import (
    ASIDE,
    ASK,
    ASK_WORDS,
    AT,
    BASE,
    BUCKETS,
    COUNT,
    CROSS,
    CUR,
    DEMAND,
    ENDS,
    HASH,
    HEADS,
    JIT,
    KIN,
    LASTS,
    LEFT,
    LIST,
    LISTED,
    MARK,
    MASK,
    NODE,
    NODE_WORDS,
    OUTSIDE,
    PAIR,
    PART,
    PARTS,
    PATH,
    PLACE,
    POS,
    RESUMED,
    SEEN,
    SKETCH,
    SKETCH_OF,
    SOURCE_WORDS,
    SOURCES,
    STEP,
    SUPPRESSED,
    SUSPENDED_ROW,
    TAIL,
    TOWARD,
    VIA,
    VIA_LINKS,
    VISITS,
    WAITED,
    WAITING,
    WALK,
    WIDTH,
    WOKEN,
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
from penstock.kernels.tree_bits import may_hold
from penstock.kernels.tree_partners import (
    behind,
    chain,
    equals,
    forget,
    key_toward,
    listed,
    row_key,
    seek,
    sketch,
    sketch_bit,
)
from penstock.kernels.tree_wanted import wanted

LISTS, BY_NUMBER = -2, -1
"""How the rows of a source are gone through: its partners of the event, all from the newest on, or by the links of an index."""


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


@part
def gather(i, k, spec, regs, rows, links, work, lists):
    """How many rows of source i are in the event's bucket, set down in `lists`; -1: too many, or there is no index."""
    work[LISTED, i] = -1
    r = i * SOURCE_WORDS
    tail, mask, base, width = regs[r + TAIL], regs[r + MASK], regs[r + BASE], regs[r + WIDTH]
    s, column = chain(i, k, key_toward(k, i, spec, rows, work), spec, regs, rows, links)
    n = np.int64(0)
    if column < 0:
        return np.int64(-1)
    while s >= tail:
        if n == LIST:
            return np.int64(-1)
        prefetch(rows, base + (s & mask) * width)
        lists[ix(i * LIST + n)] = s
        n += 1
        s = np.int64(links[ix(column + (s & mask))])
    regs[spec[COUNT] + VISITS] += n
    return n


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
    n = gather(i, k, spec, regs, rows, links, work, lists)
    m = gather(j, k, spec, regs, rows, links, work, lists)
    if min(n, m) < 0:
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
    at, columns, left, ends = work[AT], work[VIA_LINKS], work[LEFT], work[LASTS]
    level = 0
    down = True
    visits = 0
    while level >= 0:
        q = steps + 4 * level
        target, via = spec[q], spec[q + 1]
        tail = regs[target * SOURCE_WORDS + TAIL]
        if down:
            count = np.int64(-2)
            columns[level] = BY_NUMBER
            at[level] = regs[target * SOURCE_WORDS + SEEN] - 1
            if via == k:
                count = listed(target, k, t, spec, regs, rows, links, work, lists)
            if count >= 0:
                columns[level] = LISTS
                at[level] = 0
                left[level] = count
            elif via >= 0:
                h = key_toward(via, target, spec, rows, work)
                at[level], columns[level] = chain(target, via, h, spec, regs, rows, links)
                columns[level] = max(columns[level], BY_NUMBER)
            if columns[level] == LISTS and level > 0 and spec[q + 3] == 2:
                # One comparison is the event's own; does any partner agree in the other?
                c = spec[q + 2] if spec[spec[q + 2] + 1] != k else spec[q + 2] + 3
                if work[SKETCH_OF, target] != u:
                    sketch(target, u, count, spec[c], regs, rows, work, lists)
                mine = rows[ix(work[POS, spec[c + 1]] + spec[c + 2])]
                if not (np.uint64(work[SKETCH, target]) >> sketch_bit(mine)) & np.uint64(1):
                    left[level] = 0
        s = np.int64(-1)
        if columns[level] == LISTS:
            while at[level] < left[level]:
                s = np.int64(lists[ix(target * LIST + at[level])])
                at[level] += 1
                if fits(spec[q + 2], spec[q + 3], row_at(target, s, regs), spec, rows, work):
                    break
                s = np.int64(-1)
        else:
            mask = regs[target * SOURCE_WORDS + MASK]
            c = at[level]
            while c >= tail:
                visits += 1
                place = row_at(target, c, regs)
                if rows[ix(place)] <= t:
                    c = np.int64(-1)
                    break
                found = c
                c = behind(c, columns[level], mask, links)
                if fits(spec[q + 2], spec[q + 3], place, spec, rows, work):
                    s = found
                    break
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
        if not make_late(u, k, seq, end, t, spec, regs, rows, links, bits, work):
            return False
    regs[spec[COUNT] + VISITS] += visits
    return True
