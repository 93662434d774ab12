"""Walks of a join whose equalities have cycles: at every hop all equalities with what is bound, and what is not asked for is not kept.

*Indexes.* A row of n inputs could enter n - 1 indexes, of which walks follow two or three. So a row enters one when that is next
asked: linked[x] rows are in index x, seen[j] rows of edge j have come. Invariant: whoever follows index x of edge j finds all
live rows below seen[j] in it (`catch_up`).

*Filters of pairs.* An input z that is not bound yet is compared with the row that hop h has just met and with some row g bound before. A
filter (z; g, target) knows which pairs of words live rows of z have: in the bucket of the first word, three bits for the second. That of the input
visited next denies most rows of hop h at a glance, and g's bucket is one line of the cache for all of them; those of others look at what it lets pass.
Bits may say yes for others; no is true, as every live row of z below seen[z] has set its own (`note`). A bucket has a word a pane; a pane takes rows that follow each other, and is cleared
when the last of them has ended.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.compile import ix, kernel, part, prefetch
from penstock.kernels.hash.mix import GOLDEN, spread
from penstock.kernels.join.chains import BASE, BLOCK, FIELD, HEADS, LINK, OWNER, SHIFT, TAIL, WIDTH
from penstock.kernels.join.semijoin_probe import MET, NOBODY, PASSED, PROBES
from penstock.kernels.tree.pane_filters import among

TARGET, INDEX, T_FIELD, GIVER, G_FIELD, CHECK, PUT, SIEVE = range(8)
HOP = 8
"""Of hop h of rows of an edge: whom to visit and by which index, where its rows have the key, who gives it, and where; the first thing
to compare besides, the first question to put before it, the first sieve that its rows go through (those of the hop after it end all three)."""
FILTERED, S_GIVER, S_FIELD, S_TARGET = range(4)
"""Of a sieve: its filter, whose row gives the bucket, and where; where rows visited have the other word."""
ASKED, ASKED_INDEX, ASKER, ASKER_FIELD = range(4)
"""Of a question: the input asked, its index, who asks, where its rows have the key."""
OF, KEY, WORD, BITS, BUCKETS, UPTO, PANE, FILLED, LIMIT, UNTIL = range(10)
PANES = 4
FILTER = UNTIL + PANES
"""Of a filter: whose rows it knows, where they have either word; where it begins, the shift of its buckets; rows that are in, the pane that
takes rows, how many it has taken, and is to take; until when each pane's rows live."""
STOPPABLE, STOPPED, NOTED, HELD, DENIED = range(5)
"""Of all: events asked whether an input is empty, and stopped; rows noted in filters; rows held against one, and denied."""
TABLE = 256
"""Places for the keys of a sample."""


@kernel
def catch_up(x, upto, edges, indexes, linked, rows, halves, head):
    """The rows that have come since an index was asked enter it."""
    i, field, heads, shift = (
        indexes[ix(x), OWNER],
        indexes[ix(x), FIELD],
        indexes[ix(x), HEADS],
        indexes[ix(x), SHIFT],
    )
    base, width, link = edges[ix(i), BASE], edges[ix(i), WIDTH], indexes[ix(x), LINK]
    for s in range(max(linked[ix(x)], edges[ix(i), TAIL]), upto):
        p = base + s * width
        b = heads + np.int64(spread(rows[ix(p + field)], shift))
        halves[ix(2 * p + link)] = head[ix(b)]
        head[ix(b)] = s
    linked[ix(x)] = upto


@part
def bits_of(word):
    """Three bits for a word."""
    x = np.uint64(word) * GOLDEN
    six, one = np.uint64(63), np.uint64(1)
    return (
        (one << (x >> np.uint64(58)))
        | (one << ((x >> np.uint64(52)) & six))
        | (one << ((x >> np.uint64(46)) & six))
    )


@kernel
def note(f, upto, t, filters, edges, rows, bits):
    """The rows that have come since a filter was asked enter it; how many."""
    i, key, word, begin, shift = (
        filters[f, OF],
        filters[f, KEY],
        filters[f, WORD],
        filters[f, BITS],
        filters[f, BUCKETS],
    )
    base, width = edges[i, BASE], edges[i, WIDTH]
    first = max(filters[f, UPTO], edges[i, TAIL])
    pane = filters[f, PANE]
    for s in range(first, upto):
        if filters[f, FILLED] >= filters[f, LIMIT]:
            following = (pane + 1) % PANES
            if filters[f, UNTIL + following] <= t:
                pane = following
                for w in range(begin + pane, begin + (PANES << (64 - shift)), PANES):
                    bits[ix(w)] = 0
                filters[f, PANE], filters[f, FILLED] = pane, 0
        p = base + s * width
        b = np.int64(spread(rows[ix(p + key)], shift))
        bits[ix(begin + PANES * b + pane)] |= bits_of(rows[ix(p + word)])
        filters[f, FILLED] += 1
        filters[f, UNTIL + pane] = rows[ix(p)]
    filters[f, UPTO] = upto
    return upto - first


@part
def supported(first, last, t, questions, seen, edges, indexes, linked, rows, halves, head, pos, asked):
    """Whether the inputs that questions [first, last) are about hold a live row for what has been bound."""
    for a in range(first, last):
        m, x = questions[ix(a), ASKED], questions[ix(a), ASKED_INDEX]
        k = rows[ix(pos[ix(questions[ix(a), ASKER])] + questions[ix(a), ASKER_FIELD])]
        asked[ix(a), 0] += 1
        if linked[ix(x)] < seen[ix(m)]:
            catch_up(x, seen[ix(m)], edges, indexes, linked, rows, halves, head)
        base, width, tail, field = (
            edges[ix(m), BASE],
            edges[ix(m), WIDTH],
            edges[ix(m), TAIL],
            indexes[ix(x), FIELD],
        )
        link = indexes[ix(x), LINK]
        s = np.int64(head[ix(indexes[ix(x), HEADS] + np.int64(spread(k, indexes[ix(x), SHIFT])))])
        found = False
        while s >= tail and not found:
            p = base + s * width
            if rows[ix(p)] <= t:
                break
            found = rows[ix(p + field)] == k
            s = np.int64(halves[ix(2 * p + link)])
        if not found:
            asked[ix(a), 1] += 1
            return False
    return True


@part
def gather(first, last, checks, words, rows, pos):
    """The words that rows visited next are to have, besides the key."""
    for c in range(first, last):
        words[ix(c)] = rows[ix(pos[ix(checks[ix(c), 1])] + checks[ix(c), 2])]


@part
def same(p, first, last, checks, words, rows):
    """Whether a row has them."""
    for c in range(first, last):
        if rows[ix(p + checks[ix(c), 0])] != words[ix(c)]:
            return False
    return True


@part
def bucket_of(m, t, sieves, filters, seen, edges, rows, bits, pos, counted):
    """Where a sieve's filter, which knows all rows that have come, has the words of the row bound before."""
    f = sieves[ix(m), FILTERED]
    come = seen[ix(filters[ix(f), OF])]
    if filters[ix(f), UPTO] < come:
        counted[NOTED] += note(f, come, t, filters, edges, rows, bits)
    k = rows[ix(pos[ix(sieves[ix(m), S_GIVER])] + sieves[ix(m), S_FIELD])]
    return filters[ix(f), BITS] + PANES * np.int64(spread(k, filters[ix(f), BUCKETS]))


@part
def passes(first, last, p, t, sieves, filters, seen, edges, rows, bits, pos, counted):
    """Whether the filters of sieves [first, last) let a row pass."""
    for m in range(first, last):
        w = bucket_of(m, t, sieves, filters, seen, edges, rows, bits, pos, counted)
        if not among(w, bits_of(rows[ix(p + sieves[ix(m), S_TARGET])]), bits):
            return False
    return True


@part
def look_ahead(begin, end, sides, slots, edges, indexes, plan, rows, halves, head, cursor):
    """Bring what rows [begin, end) will meet on their first hop into the cache, as `chains.look_ahead` does."""
    hops = edges.shape[0] - 1
    for e in range(begin, end):
        i = np.int64(sides[ix(e)])
        q = i * hops * HOP
        x = plan[ix(q + INDEX)]
        k = rows[
            ix(edges[ix(i), BASE] + np.int64(slots[ix(e)]) * edges[ix(i), WIDTH] + plan[ix(q + G_FIELD)])
        ]
        b = indexes[ix(x), HEADS] + np.int64(spread(k, indexes[ix(x), SHIFT]))
        prefetch(head, b)
        cursor[0, ix(e - begin)] = q
        cursor[1, ix(e - begin)] = b
    for j in range(end - begin):
        target = plan[ix(cursor[0, ix(j)] + TARGET)]
        s = np.int64(head[ix(cursor[1, ix(j)])])
        cursor[1, ix(j)] = s
        prefetch(rows, edges[ix(target), BASE] + max(s, 0) * edges[ix(target), WIDTH])
    left = end - begin
    while 4 * left > BLOCK:
        left = 0
        for j in range(end - begin):
            q, s = cursor[0, ix(j)], cursor[1, ix(j)]
            target = plan[ix(q + TARGET)]
            base, width, tail = edges[ix(target), BASE], edges[ix(target), WIDTH], edges[ix(target), TAIL]
            link = indexes[ix(plan[ix(q + INDEX)]), LINK]
            after = np.int64(halves[ix(2 * (base + s * width if s >= tail else 0) + link)])
            s = after if s >= tail else np.int64(-1)
            cursor[1, ix(j)] = s
            prefetch(rows, base + max(s, 0) * width)
            left += s >= tail


@kernel
def walk(
    begin, n, times, sides, slots, edges, indexes, linked, seen, plan, checks, questions, sieves, empty, newest, filters, bits, rows, halves, head, far, cursor,
    work, words, stats, asked, counted, out_ts, out_exp, out_slot,
):  # fmt: skip
    """`chains.walk` where a hop has more to compare than its key. See the constants for `plan`, `questions`, `sieves`, `filters`, `stats` and `counted`.

    checks: (where the visited row has the word, whose row gives the other, where). `empty`: an event is asked first whether
    any other input is empty, by the ends of their `newest` rows. Stops before a row whose results do not fit; returns (rows done, results).
    """
    room = out_ts.shape[0]
    edges_ = edges.shape[0]
    hops = edges_ - 1
    at, pos, next_, wanted, ends, some, buckets = (
        work[0],
        work[1],
        work[2],
        work[3],
        work[4],
        work[5],
        work[6],
    )
    ahead = begin if far else times.shape[0]
    for e in range(begin, times.shape[0]):
        if e == ahead:
            ahead = min(e + BLOCK, times.shape[0])
            look_ahead(e, ahead, sides, slots, edges, indexes, plan, rows, halves, head, cursor)
        i = np.int64(sides[e])
        t = times[e]
        mark = n
        slot = np.int64(slots[e])
        at[i] = slot
        pos[i] = edges[i, BASE] + slot * edges[i, WIDTH]
        ends[0] = rows[ix(pos[i])]
        h = 0
        if empty:
            for j in range(edges_):
                if j != i and newest[j] <= t:
                    h = -1
            counted[STOPPABLE] += 1
            counted[STOPPED] += h < 0
        down = True
        if h == 0:
            q = i * hops * HOP
            if not supported(
                plan[q + PUT], plan[q + HOP + PUT], t, questions, seen, edges, indexes, linked, rows, halves, head, pos, asked
            ):  # fmt: skip
                h = -1
        while h >= 0:
            q = (i * hops + h) * HOP
            target = plan[ix(q + TARGET)]
            base, width, field = edges[ix(target), BASE], edges[ix(target), WIDTH], plan[ix(q + T_FIELD)]
            link = indexes[ix(plan[ix(q + INDEX)]), LINK]
            first, last = plan[ix(q + CHECK)], plan[ix(q + HOP + CHECK)]
            sieve, beyond = plan[ix(q + SIEVE)], plan[ix(q + HOP + SIEVE)]
            if down:
                come = seen[ix(target)]
                tail = edges[ix(target), TAIL]
                while tail < come and rows[ix(base + tail * width)] <= t:
                    tail += 1
                edges[ix(target), TAIL] = tail
                x = plan[ix(q + INDEX)]
                if linked[ix(x)] < come:
                    catch_up(x, come, edges, indexes, linked, rows, halves, head)
                k = rows[ix(pos[ix(plan[ix(q + GIVER)])] + plan[ix(q + G_FIELD)])]
                s = np.int64(head[ix(indexes[ix(x), HEADS] + np.int64(spread(k, indexes[ix(x), SHIFT])))])
                wanted[h] = k
                some[h] = 0
                gather(first, last, checks, words, rows, pos)
                if sieve < beyond:
                    buckets[h] = bucket_of(sieve, t, sieves, filters, seen, edges, rows, bits, pos, counted)
                stats[i, h, PROBES] += 1
            else:
                tail = edges[ix(target), TAIL]
                k = wanted[h]
                s = next_[h]
            # What every row met here is asked; the last hop asks nothing.
            put = puts = np.int64(0)
            if h + 1 < hops:
                put, puts = plan[ix(q + HOP + PUT)], plan[ix(q + 2 * HOP + PUT)]
            other, w = np.int64(0), buckets[h]
            if sieve < beyond:
                other = sieves[ix(sieve), S_TARGET]
            found = False
            met = passed = held = denied = 0
            while s >= tail:
                p = base + s * width
                after = np.int64(halves[ix(2 * p + link)])
                if rows[ix(p + field)] == k:
                    met += 1
                    if same(p, first, last, checks, words, rows):
                        if sieve < beyond:
                            held += 1
                            if not among(w, bits_of(rows[ix(p + other)]), bits) or not passes(
                                sieve + 1,
                                beyond,
                                p,
                                t,
                                sieves,
                                filters,
                                seen,
                                edges,
                                rows,
                                bits,
                                pos,
                                counted,
                            ):
                                denied += 1
                                s = after
                                continue
                        at[target], pos[target] = s, p
                        end = min(ends[h], rows[ix(p)])
                        if h + 1 == hops:
                            if n == room:
                                return e, mark
                            for j in range(edges_):
                                out_slot[ix(j), ix(n)] = at[ix(j)]
                            out_ts[ix(n)] = t
                            out_exp[ix(n)] = end
                            n += 1
                            passed += 1
                        elif put == puts or supported(
                            put,
                            puts,
                            t,
                            questions,
                            seen,
                            edges,
                            indexes,
                            linked,
                            rows,
                            halves,
                            head,
                            pos,
                            asked,
                        ):
                            passed += 1
                            found = True
                            next_[h] = after
                            ends[h + 1] = end
                            break
                s = after
            some[h] += met
            stats[i, h, MET] += met
            stats[i, h, PASSED] += passed
            counted[HELD] += held
            counted[DENIED] += denied
            if found:
                h += 1
                down = True
            else:
                stats[i, h, NOBODY] += some[h] == 0
                h -= 1
                down = False
        seen[i] = slot + 1
        newest[i] = rows[ix(pos[i])]
    return times.shape[0], n


@kernel
def sample(pairs, most, t, seen, edges, rows, keys, counts, found):
    """Of the youngest rows of one input, at most so many, and all live rows of another: pairs[c] = (one, where its rows have the key,
    the other, where); found[c] = (rows, pairs of equal rows, rows without a partner).

    Indexes are not asked: to enter all rows into all of them would cost more than a look at each.
    """
    shift = np.uint64(56)
    for c in range(pairs.shape[0]):
        i, own, j, field = pairs[c, 0], pairs[c, 1], pairs[c, 2], pairs[c, 3]
        counts[:] = 0
        first = max(edges[i, TAIL], seen[i] - most)
        for s in range(first, seen[i]):
            k = rows[ix(edges[i, BASE] + s * edges[i, WIDTH] + own)]
            b = np.int64(spread(k, shift))
            while counts[0, b] != 0 and keys[b] != k:
                b = (b + 1) % TABLE
            keys[b] = k
            counts[0, b] += 1
        for s in range(edges[j, TAIL], seen[j]):
            p = edges[j, BASE] + s * edges[j, WIDTH]
            k = rows[ix(p + field)]
            b = np.int64(spread(k, shift))
            while counts[0, b] != 0 and keys[b] != k:
                b = (b + 1) % TABLE
            if counts[0, b] != 0:
                counts[1, b] += rows[ix(p)] > t
        met = lonely = 0
        for place in range(TABLE):
            met += counts[0, place] * counts[1, place]
            lonely += counts[0, place] if counts[1, place] == 0 else 0
        found[c, 0], found[c, 1], found[c, 2] = seen[i] - first, met, lonely
