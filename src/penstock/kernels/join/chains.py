"""Hash chains over slots: the index of a SteM (newest first), its probes, and the walk of a join.

A chain is `head[bucket] → chain[slot] → …`. In the SteMs of FIFO edges a slot below TAIL has expired and so
has everything behind it; see `state.stems` for how the arrays are shared.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.compile import inline, ix, kernel, part, prefetch
from penstock.kernels.hash.mix import mix, spread

USED, TAIL, ROOM, BASE, WIDTH = 0, 1, 2, 3, 4
OWNER, FIELD, HEADS, SHIFT, LINK = 0, 1, 2, 3, 4
CELLS = 2
"""Of a bucket: two indexes that are asked for the same keys lie side by side. Were it a number that walks look up, that would take what this
saves."""
AHEAD = 16
"""Rows after which what was asked for is there."""


@kernel
def link(rows, halves, head, edge, index, cells, first, last):
    """Add slots [first, last) of an edge to one of its indexes; `halves` is `rows`, by half words."""
    base, width, field, at = edge[BASE], edge[WIDTH], index[FIELD], index[LINK]
    heads, shift = index[HEADS], index[SHIFT]
    for s in range(first, last):
        ahead = base + min(s + AHEAD, last - 1) * width
        prefetch(head, heads + cells * np.int64(spread(rows[ix(ahead + field)], shift)))
        p = base + s * width
        b = heads + cells * np.int64(spread(rows[ix(p + field)], shift))
        halves[ix(2 * p + at)] = head[ix(b)]
        head[ix(b)] = s


@kernel
def link_slots(slots, key, head, chain, back):
    """Add roster slots to chains that can be left again; `back` of a first slot is -(bucket + 2)."""
    mask = np.uint64(head.shape[0] - 1)
    for i in range(slots.shape[0]):
        s = slots[i]
        b = np.int64(mix(key[s]) & mask)
        first = head[b]
        chain[s] = first
        back[s] = -(b + 2)
        if first >= 0:
            back[first] = s
        head[b] = s


@kernel
def unlink_slots(slots, head, chain, back):
    """Take roster slots out of their chains."""
    for i in range(slots.shape[0]):
        s = slots[i]
        before, after = back[s], chain[s]
        if before < -1:
            head[-before - 2] = after
        else:
            chain[before] = after
        if after >= 0:
            back[after] = before
        back[s] = -1


@kernel
def relink_slots(key, head, chain, back):
    """Link all linked slots (back != -1) into a fresh table."""
    mask = np.uint64(head.shape[0] - 1)
    head[:] = -1
    for s in range(back.shape[0]):
        if back[s] != -1:
            b = np.int64(mix(key[s]) & mask)
            first = head[b]
            chain[s] = first
            back[s] = -(b + 2)
            if first >= 0:
                back[first] = s
            head[b] = s


@kernel
def probe(keys, times, begin, key, head, chain, ts, end, tie, out_row, out_slot):
    """Partners alive at `times[i]` that came before the probing row.

    A partner with the same ts counts if `tie` (its alias is smaller). Stops before the first row whose
    partners do not fit; returns (rows done, pairs).
    """
    mask = np.uint64(head.shape[0] - 1)
    room = out_row.shape[0]
    n = 0
    for i in range(begin, keys.shape[0]):
        k = keys[i]
        t = times[i]
        mark = n
        s = head[mix(k) & mask]
        while s >= 0:
            if key[s] == k and end[s] > t and (ts[s] < t or (tie and ts[s] == t)):
                if n == room:
                    return i, mark
                out_row[n] = i
                out_slot[n] = s
                n += 1
            s = chain[s]
    return keys.shape[0], n


@kernel
def probe_back(keys, ends, begin, key, head, chain, exp, end, fresh, tie, told, out_row, out_slot):
    """Partners of results that end early (`told`: or as announced) at `ends[i]`: alive until then, not themselves ending
    before.

    `fresh[s]` marks rows of the running step (their results were never shown, or carry their own end).
    Of two that end at the same instant the smaller alias speaks (`tie`: the partner's is greater).
    """
    mask = np.uint64(head.shape[0] - 1)
    room = out_row.shape[0]
    n = 0
    for i in range(begin, keys.shape[0]):
        k = keys[i]
        t = ends[i]
        mark = n
        s = head[mix(k) & mask]
        while s >= 0:
            if (
                key[s] == k
                and not fresh[s]
                and (told or exp[s] > t)
                and (end[s] > t or (tie and end[s] == t))
            ):
                if n == room:
                    return i, mark
                out_row[n] = i
                out_slot[n] = s
                n += 1
            s = chain[s]
    return keys.shape[0], n


@kernel
def in_turn(times, bounds, at, firsts, out_ts, out_side, out_slot):
    """Merge the sides' rows (one after the other in `times`, each in time order) by (time, side).

    bounds[i] : bounds[i + 1] are side i's rows, whose slots count from firsts[i]; at[i] begins at bounds[i].
    """
    sides = firsts.shape[0]
    for n in range(times.shape[0]):
        best = -1
        least = np.int64(0)
        for i in range(sides):
            if at[i] < bounds[i + 1] and (best < 0 or times[at[i]] < least):
                best = i
                least = times[at[i]]
        out_ts[n] = least
        out_side[n] = best
        out_slot[n] = firsts[best] + at[best] - bounds[best]
        at[best] += 1


(
    TARGET, T_BASE, T_WIDTH, T_TAIL, T_FIELD, T_HEADS, T_SHIFT, T_LINK, GIVER, G_BASE, G_WIDTH, G_FIELD,
    T_INDEX, G_INDEX, BACKS, KNOWS, RARE,
) = range(17)  # fmt: skip
HOP = 17
SELDOM = 0.3
"""Partners a probe, below which most rows meet nobody."""


@kernel
def hops(edges, indexes, order, places, asks, fan, plan):
    """All a walk looks up about its hops, side by side: order[i, h] = (edge to visit, its index, edge that gives
    the key, its index) for hop h of rows of edge i.

    Where it says which rows are backed (`state.lazy_index`, -1: nowhere): of those that are visited, for whom edge i is a leaf; of those of
    edge i, for whom the edge they visit first is one (if it `asks`), and whether few of them meet anybody there.
    """
    at = 0
    for i in range(order.shape[0]):
        for h in range(order.shape[1]):
            target, index, giver, key = order[i, h, 0], order[i, h, 1], order[i, h, 2], order[i, h, 3]
            plan[at + TARGET] = target
            plan[at + T_BASE] = edges[target, BASE]
            plan[at + T_WIDTH] = edges[target, WIDTH]
            plan[at + T_TAIL] = edges[target, TAIL]
            plan[at + T_FIELD] = indexes[index, FIELD]
            plan[at + T_HEADS] = indexes[index, HEADS]
            plan[at + T_SHIFT] = indexes[index, SHIFT]
            plan[at + T_LINK] = indexes[index, LINK]
            plan[at + GIVER] = giver
            plan[at + G_BASE] = edges[giver, BASE]
            plan[at + G_WIDTH] = edges[giver, WIDTH]
            plan[at + G_FIELD] = indexes[key, FIELD]
            plan[at + T_INDEX] = index
            plan[at + G_INDEX] = key
            plan[at + BACKS] = -1 if h else places[target, i]
            plan[at + KNOWS] = places[i, target] if asks and h == 0 else -1
            plan[at + RARE] = plan[at + KNOWS] >= 0 and 0 <= fan[i, target] < SELDOM
            at += HOP


@inline
def enter(own, slot, i, only, but, indexes, first_index, rows, halves, head):
    """Put a new row of edge i into its indexes: all of them, or `only` the one called `but`."""
    for index in range(first_index[ix(i)], first_index[ix(i + 1)]):
        if only and index != but:
            continue
        k = rows[ix(own + indexes[ix(index), FIELD])]
        b = indexes[ix(index), HEADS] + CELLS * np.int64(spread(k, indexes[ix(index), SHIFT]))
        halves[ix(2 * own + indexes[ix(index), LINK])] = head[ix(b)]
        head[ix(b)] = slot


@part
def enter_late(s, a, but, edges, indexes, first_index, rows, halves, head):
    """Put a row of edge a into its indexes but one, behind the rows that came after it."""
    base, width = edges[ix(a), BASE], edges[ix(a), WIDTH]
    p = base + s * width
    for index in range(first_index[ix(a)], first_index[ix(a + 1)]):
        if index == but:
            continue
        link_ = indexes[ix(index), LINK]
        k = rows[ix(p + indexes[ix(index), FIELD])]
        b = indexes[ix(index), HEADS] + CELLS * np.int64(spread(k, indexes[ix(index), SHIFT]))
        after = np.int64(head[ix(b)])
        if after < s:
            head[ix(b)] = s
        else:
            before = after
            after = np.int64(halves[ix(2 * (base + before * width) + link_)])
            while after > s:
                before = after
                after = np.int64(halves[ix(2 * (base + before * width) + link_)])
            halves[ix(2 * (base + before * width) + link_)] = s
        halves[ix(2 * p + link_)] = after


@kernel
def let_all_in(a, but, at, first, last, backed, edges, indexes, first_index, rows, halves, head):
    """Put rows [first, last) of edge a that are not backed into its indexes; they are in one already."""
    for s in range(first, last):
        if not backed[ix(at + s)]:
            backed[ix(at + s)] = 1
            enter_late(s, a, but, edges, indexes, first_index, rows, halves, head)


BLOCK = 32
"""Rows that look ahead together: a few times as many as a core can wait for cache lines."""
FEW, TURNS = 2, 12
"""Looking ahead ends when so few chains are left, or after so many links: what they bring does not fit the first-level cache."""


@inline
def look_ahead(begin, end, sides, slots, edges, indexes, first_index, plan, rows, halves, head, far, cursor):
    """Bring what rows [begin, end) will meet on their first hop into the cache, and the buckets of their second (far = 2: and
    the first rows there): chains are followed all at once, a link a turn and without branches; those that have ended make room
    for the others."""
    hops = edges.shape[0] - 1
    for e in range(begin, end):
        i = np.int64(sides[ix(e)])
        own = edges[ix(i), BASE] + np.int64(slots[ix(e)]) * edges[ix(i), WIDTH]
        q = i * hops * HOP
        for index in range(first_index[ix(i)], first_index[ix(i + 1)]):
            if plan[ix(q + RARE)] and index != plan[ix(q + G_INDEX)]:
                continue
            k = rows[ix(own + indexes[ix(index), FIELD])]
            prefetch(head, indexes[ix(index), HEADS] + CELLS * np.int64(spread(k, indexes[ix(index), SHIFT])))
        k = rows[ix(own + plan[ix(q + G_FIELD)])]
        b = plan[ix(q + T_HEADS)] + CELLS * np.int64(spread(k, plan[ix(q + T_SHIFT)]))
        prefetch(head, b)
        cursor[0, ix(e - begin)] = q
        cursor[1, ix(e - begin)] = b
    left = 0
    for j in range(end - begin):
        q = cursor[0, ix(j)]
        s = np.int64(head[ix(cursor[1, ix(j)])])
        p = plan[ix(q + T_BASE)] + s * plan[ix(q + T_WIDTH)]
        cursor[0, ix(left)] = q
        cursor[1, ix(left)] = p
        is_live = s >= plan[ix(q + T_TAIL)]
        prefetch(rows, p if is_live else 0)
        left += is_live
    rounds = asked = 0
    while left > FEW and rounds < TURNS:
        rounds += 1
        if far > 1:
            for j in range(asked):
                z = cursor[2, ix(j)]
                s = np.int64(head[ix(cursor[3, ix(j)])])
                is_live = s >= plan[ix(z + T_TAIL)]
                prefetch(rows, plan[ix(z + T_BASE)] + s * plan[ix(z + T_WIDTH)] if is_live else 0)
        on = asked = 0
        for j in range(left):
            q = cursor[0, ix(j)]
            p = cursor[1, ix(j)]
            s = np.int64(halves[ix(2 * p + plan[ix(q + T_LINK)])])
            z = q + HOP
            if plan[ix(z + GIVER)] == plan[ix(q + TARGET)]:
                k = rows[ix(p + plan[ix(z + G_FIELD)])]
                b = plan[ix(z + T_HEADS)] + CELLS * np.int64(spread(k, plan[ix(z + T_SHIFT)]))
                prefetch(head, b)
                cursor[2, ix(asked)] = z
                cursor[3, ix(asked)] = b
                asked += 1
            after = plan[ix(q + T_BASE)] + s * plan[ix(q + T_WIDTH)]
            cursor[0, ix(on)] = q
            cursor[1, ix(on)] = after
            is_live = s >= plan[ix(q + T_TAIL)]
            prefetch(rows, after if is_live else 0)
            on += is_live
        left = on


@kernel
def walk(
    begin, n, times, sides, slots, edges, indexes, first_index, plan, first_pair, pairs, places, backed, latest, rows, halves, head,
    far, cursor, work, stats, out_ts, out_exp, out_slot,
):  # fmt: skip
    """Join FIFO edges event at a time: each row walks the other edges' SteMs, then enters its own.

    For three or more edges. Rows come in (time, side) order, so every result is made once, by its last arrival, in
    time order. `plan` comes from `hops`, `pairs` to `latest` from `state.lazy_index`; `work` is four scratch arrays, one entry an edge.
    stats[i, h] counts (probes, partners met). n results are there already. Stops before a row whose results do not fit; returns
    (rows done, results).
    """
    room = out_ts.shape[0]
    hops = edges.shape[0] - 1
    at = work[0]  # by edge: the row of the partial result
    next_ = work[1]  # by hop: the next candidate
    wanted = work[2]  # by hop: the key sought
    ends = work[3]  # by hop: when the partial result before it ends
    ahead = begin if far else times.shape[0]
    for e in range(begin, times.shape[0]):
        if e == ahead:
            ahead = min(e + BLOCK, times.shape[0])
            look_ahead(
                e, ahead, sides, slots, edges, indexes, first_index, plan, rows, halves, head, far, cursor
            )
        i = np.int64(sides[ix(e)])
        t = times[ix(e)]
        mark = n
        slot = np.int64(slots[ix(e)])
        own = edges[ix(i), BASE] + slot * edges[ix(i), WIDTH]
        at[ix(i)] = slot
        ends[0] = rows[ix(own)]
        known = stats[ix(i), 0, 1]
        h = 0
        down = True
        while h >= 0:
            q = (i * hops + h) * HOP
            target, backs = plan[ix(q + TARGET)], plan[ix(q + BACKS)]
            base = plan[ix(q + T_BASE)]
            width = plan[ix(q + T_WIDTH)]
            tail = plan[ix(q + T_TAIL)]
            field, link_ = plan[ix(q + T_FIELD)], plan[ix(q + T_LINK)]
            if down:
                giver = plan[ix(q + GIVER)]
                k = rows[
                    ix(plan[ix(q + G_BASE)] + at[ix(giver)] * plan[ix(q + G_WIDTH)] + plan[ix(q + G_FIELD)])
                ]
                b = plan[ix(q + T_HEADS)] + CELLS * np.int64(spread(k, plan[ix(q + T_SHIFT)]))
                s = np.int64(head[ix(b)])
                stats[ix(i), ix(h), 0] += 1
                wanted[ix(h)] = k
            else:
                k = wanted[ix(h)]
                s = next_[ix(h)]
            if h + 2 == hops:
                # The last two hops are plain loops: most of a walk's time is spent here.
                z = q + HOP
                giver, last = plan[ix(z + GIVER)], plan[ix(z + TARGET)]
                g_field = plan[ix(z + G_FIELD)]
                l_base, l_width, l_tail = plan[ix(z + T_BASE)], plan[ix(z + T_WIDTH)], plan[ix(z + T_TAIL)]
                l_field, l_heads, l_shift, l_link = (
                    plan[ix(z + T_FIELD)],
                    plan[ix(z + T_HEADS)],
                    plan[ix(z + T_SHIFT)],
                    plan[ix(z + T_LINK)],
                )
                is_next = giver == target  # else the key is the same for all that are met
                g = np.int64(0) if is_next else plan[ix(z + G_BASE)] + at[ix(giver)] * plan[ix(z + G_WIDTH)]
                met = 0
                first = n
                while s >= tail:
                    p = base + s * width
                    if rows[ix(p)] <= t:
                        break
                    if rows[ix(p + field)] == k:
                        met += 1
                        if backs >= 0 and not backed[ix(backs + s)]:
                            backed[ix(backs + s)] = 1
                            enter_late(
                                s,
                                target,
                                plan[ix(q + T_INDEX)],
                                edges,
                                indexes,
                                first_index,
                                rows,
                                halves,
                                head,
                            )
                        k2 = rows[ix((p if is_next else g) + g_field)]
                        s2 = np.int64(head[ix(l_heads + CELLS * np.int64(spread(k2, l_shift)))])
                        while s2 >= l_tail:
                            p2 = l_base + s2 * l_width
                            x = rows[ix(p2)]
                            if x <= t:
                                break
                            if rows[ix(p2 + l_field)] == k2:
                                if n == room:
                                    return e, mark
                                for j in range(hops + 1):
                                    out_slot[ix(j), ix(n)] = at[ix(j)]
                                out_slot[ix(target), ix(n)] = s
                                out_slot[ix(last), ix(n)] = s2
                                out_ts[ix(n)] = t
                                out_exp[ix(n)] = min(ends[ix(h)], rows[ix(p)], x)
                                n += 1
                            s2 = np.int64(halves[ix(2 * p2 + l_link)])
                    s = np.int64(halves[ix(2 * p + link_)])
                stats[ix(i), ix(h), 1] += met
                stats[ix(i), ix(h + 1), 0] += met
                stats[ix(i), ix(h + 1), 1] += n - first
                h -= 1
                down = False
                continue
            p = base
            while s >= tail:
                p = base + s * width
                if rows[ix(p)] <= t:
                    s = np.int64(-1)
                    break
                if rows[ix(p + field)] == k:
                    break
                s = np.int64(halves[ix(2 * p + link_)])
            if s < tail:
                h -= 1
                down = False
                continue
            stats[ix(i), ix(h), 1] += 1
            next_[ix(h)] = np.int64(halves[ix(2 * p + link_)])
            if backs >= 0 and not backed[ix(backs + s)]:
                backed[ix(backs + s)] = 1
                enter_late(s, target, plan[ix(q + T_INDEX)], edges, indexes, first_index, rows, halves, head)
            at[ix(target)] = s
            ends[ix(h + 1)] = min(ends[ix(h)], rows[ix(p)])
            h += 1
            down = True
        for c in range(first_pair[ix(i)], first_pair[ix(i + 1)]):
            backed[ix(places[ix(i), ix(pairs[ix(c), 1])] + slot)] = 1
        q = i * hops * HOP
        knows = plan[ix(q + KNOWS)]
        alone = knows >= 0 and stats[ix(i), 0, 1] == known
        if alone:
            backed[ix(knows + slot)] = 0
            latest[ix(i), ix(plan[ix(q + TARGET)])] = slot
        enter(own, slot, i, alone, plan[ix(q + G_INDEX)], indexes, first_index, rows, halves, head)
    return times.shape[0], n
