"""Walks of a join that ask first: a partial result that some input cannot support is dropped before it is followed.

Paper      Yang & Papadias 2008, here without anything kept back: whoever was missing makes the result on its own walk.

A *question* (m → b) is put for a bound row r of input b: does input m, not bound yet, hold a live row that equals r? Chains
are newest first and rows of an input end in the order they came, so the first equal row of m's chain that is alive says yes.

A *horizon* (j → i) answers for all that hangs behind j when i is taken away, in a graph of equalities without cycles. If nothing
is asked behind j it is the chain itself, by key: H(j → i)[k] = the end of the youngest row of j with key k. Else it is a table
that holds an end per bucket, and only ever raises it. Invariant, between two events, for every live row x that has entered j:

    H(j → i)[x] ≥ min(x.exp, min over horizons (m → j), m ≠ i, of H(m → j)[x])        (H(j → i)[x]: for x's key toward i)

So H(j → i)[k] ≥ the end of every combination of live rows behind j that fits k: by induction over what hangs behind j, each
(m → j) bounds the part of the combination behind m, and x.exp the row of j itself. A horizon ≤ t hence means that there is no
such combination, and the walk stops; a horizon may be too high (buckets, rounding, rows that ended first, horizons that are not
kept), which costs a walk and no more. The invariant is kept when x enters (`walk`), and when H(m → j) rises: for a key, at
which all rows of j with this key are looked at, or at a bucket, and then all rows of j in it (`lift`). These are in one chain of j,
for a table has at least as many buckets as the index it is asked from. Expiry only lowers the right side.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.compile import ix, kernel, part
from penstock.kernels.hash.mix import spread
from penstock.kernels.join.chains import (
    BACKS,
    BASE,
    BLOCK,
    CELLS,
    FIELD,
    G_BASE,
    G_FIELD,
    G_WIDTH,
    GIVER,
    HEADS,
    HOP,
    LINK,
    SHIFT,
    T_BASE,
    T_FIELD,
    T_HEADS,
    T_INDEX,
    T_LINK,
    T_SHIFT,
    T_TAIL,
    T_WIDTH,
    TAIL,
    TARGET,
    USED,
    WIDTH,
    enter,
    enter_late,
    look_ahead,
)

ASKED, ASKED_INDEX, ASKER, ASKER_FIELD, BY = range(5)
"""Of a question: the input asked, its index, who asks, where its rows have the key, and the table that answers (-1: the chain)."""
FROM, TO, OFFSET, T_BITS, FROM_FIELD, TO_FIELD, FROM_INDEX, TO_INDEX = range(8)
"""Of a horizon (FROM → TO): where its table begins (-1: it has none), the shift of its buckets, where rows of either have the
key, and the index of either toward the other."""
PROBES, MET, PASSED, NOBODY = range(4)
"""Of a hop: probes, live rows with the key, of these equal in all and supported; probes that met nobody."""
NEVER = np.int64(-(1 << 63))
ENDLESS = np.int64(1 << 61)
LIFT = 3


@part
def youngest(k, m, index, t, edges, indexes, rows, halves, head):
    """When the youngest row of m with a key ends; not after t if none is alive."""
    field, link = indexes[ix(index), FIELD], indexes[ix(index), LINK]
    base, width, tail = edges[ix(m), BASE], edges[ix(m), WIDTH], edges[ix(m), TAIL]
    b = indexes[ix(index), HEADS] + CELLS * np.int64(spread(k, indexes[ix(index), SHIFT]))
    s = np.int64(head[ix(b)])
    while s >= tail:
        p = base + s * width
        end = rows[ix(p)]
        if end <= t or rows[ix(p + field)] == k:
            return end
        s = np.int64(halves[ix(2 * p + link)])
    return NEVER


@part
def supported(first, last, t, questions, tables, horizons, edges, indexes, rows, halves, head, at, asked):
    """Whether the inputs that questions [first, last) are about support what has been bound."""
    for a in range(first, last):
        asker, m, by = questions[ix(a), ASKER], questions[ix(a), ASKED], questions[ix(a), BY]
        p = edges[ix(asker), BASE] + at[ix(asker)] * edges[ix(asker), WIDTH] + questions[ix(a), ASKER_FIELD]
        k = rows[ix(p)]
        asked[ix(a), 0] += 1
        if by >= 0:
            end = horizons[ix(tables[ix(by), OFFSET] + np.int64(spread(k, tables[ix(by), T_BITS])))]
        else:
            end = youngest(k, m, questions[ix(a), ASKED_INDEX], t, edges, indexes, rows, halves, head)
        if end <= t:
            asked[ix(a), 1] += 1
            return False
    return True


@part
def bound_of(p, j, i, t, tables, into, horizons, edges, indexes, rows, halves, head):
    """When a row of j at p ends at the latest, with what is known to hang behind it without i."""
    end = rows[ix(p)]
    for c in range(into.shape[1]):
        d = into[ix(j), ix(c)]
        if d < 0 or end <= t:
            break
        m = tables[ix(d), FROM]
        if m != i:
            k = rows[ix(p + tables[ix(d), TO_FIELD])]
            if tables[ix(d), OFFSET] >= 0:
                b = tables[ix(d), OFFSET] + np.int64(spread(k, tables[ix(d), T_BITS]))
                end = min(end, horizons[ix(b)])
            else:
                end = min(
                    end, youngest(k, m, tables[ix(d), FROM_INDEX], t, edges, indexes, rows, halves, head)
                )
    return end


@part
def raised(d, k, end, t, tables, horizons):
    """Raise a table at a key's bucket to `end`, and by an eighth of the time to it, so that rows that follow each other need
    not. The bucket (where there is no table, the key), and whether it was lower."""
    if tables[ix(d), OFFSET] < 0:
        return k, True
    b = np.int64(spread(k, tables[ix(d), T_BITS]))
    at = tables[ix(d), OFFSET] + b
    if horizons[ix(at)] >= end:
        return b, False
    horizons[ix(at)] = end + ((end - t) >> LIFT) if end < ENDLESS else end
    return b, True


@kernel
def lift(d, place, t, tables, into, out_of, horizons, edges, indexes, rows, halves, head, climb):
    """Horizon d has risen at a place (a key or a bucket): raise all tables that go by it; rows looked at.

    `climb` is a stack: horizon, place, row, the next table to raise.
    """
    seen = 0
    depth = 0
    fresh = True
    while depth >= 0:
        if fresh:
            index, shift = tables[ix(d), TO_INDEX], indexes[ix(tables[ix(d), TO_INDEX]), SHIFT]
            if tables[ix(d), OFFSET] >= 0:
                chain = place >> (shift - tables[ix(d), T_BITS])
            else:
                chain = np.int64(spread(place, shift))
            climb[0, ix(depth)], climb[1, ix(depth)], climb[3, ix(depth)] = d, place, 0
            climb[2, ix(depth)] = np.int64(head[ix(indexes[ix(index), HEADS] + CELLS * chain)])
            fresh = False
        d, place, s, c = climb[0, ix(depth)], climb[1, ix(depth)], climb[2, ix(depth)], climb[3, ix(depth)]
        i, field = tables[ix(d), TO], tables[ix(d), TO_FIELD]
        link = indexes[ix(tables[ix(d), TO_INDEX]), LINK]
        p = edges[ix(i), BASE] + s * edges[ix(i), WIDTH]
        if s < edges[ix(i), TAIL] or rows[ix(p)] <= t:
            depth -= 1
            continue
        k = rows[ix(p + field)]
        if tables[ix(d), OFFSET] >= 0:
            here = np.int64(spread(k, tables[ix(d), T_BITS])) == place
        else:
            here = k == place
        if c == 0:
            seen += 1
        other = np.int64(-1)
        if here and c < out_of.shape[1]:
            other = out_of[ix(i), ix(c)]
        if other < 0:
            climb[2, ix(depth)] = np.int64(halves[ix(2 * p + link)])
            climb[3, ix(depth)] = 0
            continue
        climb[3, ix(depth)] = c + 1
        goal = tables[ix(other), TO]
        if goal == tables[ix(d), FROM]:
            continue
        end = bound_of(p, i, goal, t, tables, into, horizons, edges, indexes, rows, halves, head)
        if end <= t:
            continue
        b, higher = raised(other, rows[ix(p + tables[ix(other), FROM_FIELD])], end, t, tables, horizons)
        if higher and out_of[ix(goal), 0] >= 0:
            d, place = other, b
            depth += 1
            fresh = True
    return seen


@kernel
def fill(d, t, tables, into, horizons, edges, indexes, rows, halves, head):
    """Raise table d for all rows of its input; the tables it goes by are filled."""
    j, i, field = tables[d, FROM], tables[d, TO], tables[d, FROM_FIELD]
    for s in range(edges[j, TAIL], edges[j, USED]):
        p = edges[j, BASE] + s * edges[j, WIDTH]
        end = bound_of(p, j, i, t, tables, into, horizons, edges, indexes, rows, halves, head)
        if end > t:
            raised(d, rows[ix(p + field)], end, t, tables, horizons)


@part
def let_in(own, t, backs, q, plan, edges, indexes, first_index, backed, rows, halves, head):
    """Rows that a new row of their leaf meets are backed from now on, whether it is followed or not."""
    target, base, width = plan[q + TARGET], plan[q + T_BASE], plan[q + T_WIDTH]
    k = rows[ix(own + plan[q + G_FIELD])]
    s = np.int64(head[plan[q + T_HEADS] + CELLS * np.int64(spread(k, plan[q + T_SHIFT]))])
    while s >= plan[q + T_TAIL]:
        p = base + s * width
        if rows[ix(p)] <= t:
            break
        if rows[ix(p + plan[q + T_FIELD])] == k and not backed[backs + s]:
            backed[backs + s] = 1
            enter_late(s, target, plan[q + T_INDEX], edges, indexes, first_index, rows, halves, head)
        s = np.int64(halves[ix(2 * p + plan[q + T_LINK])])


@kernel
def walk(
    begin, n, times, sides, slots, edges, indexes, first_index, plan, questions, question_at, empty, newest,
    tables, into, out_of, horizons, climb, first_pair, pairs, places, backed, latest, rows, halves, head, far, cursor, work, stats, asked,
    counted, out_ts, out_exp, out_slot,
):  # fmt: skip
    """`chains.walk` where questions are put for what is bound.

    questions[question_at[i, h] : question_at[i, h + 1]] are put before hop h of rows of edge i. `empty`: an event is asked first whether
    any other input is empty, by the ends of their `newest` rows. counted: events so asked, and stopped; rows looked at to raise tables.
    """
    room = out_ts.shape[0]
    edges_ = edges.shape[0]
    hops = edges_ - 1
    at, next_, wanted, ends, some = work[0], work[1], work[2], work[3], work[4]
    ahead = begin if far else times.shape[0]
    for e in range(begin, times.shape[0]):
        if e == ahead:
            ahead = min(e + BLOCK, times.shape[0])
            look_ahead(
                e, ahead, sides, slots, edges, indexes, first_index, plan, rows, halves, head, far, cursor
            )
        i = np.int64(sides[e])
        t = times[e]
        mark = n
        slot = np.int64(slots[e])
        own = edges[i, BASE] + slot * edges[i, WIDTH]
        at[i] = slot
        ends[0] = rows[ix(own)]
        go = True
        if empty:
            for j in range(edges_):
                go &= j == i or newest[j] > t
            counted[0] += 1
            counted[1] += not go
        if go:
            go = supported(
                question_at[i, 0], question_at[i, 1], t, questions, tables, horizons, edges, indexes, rows, halves, head, at, asked
            )  # fmt: skip
        h = 0 if go else -1
        q = i * hops * HOP
        backs = plan[q + BACKS]
        if backs >= 0 and latest[plan[q + TARGET], i] >= plan[q + T_TAIL]:
            let_in(own, t, backs, q, plan, edges, indexes, first_index, backed, rows, halves, head)
        down = True
        while h >= 0:
            q = (i * hops + h) * HOP
            target, base, width = plan[q + TARGET], plan[q + T_BASE], plan[q + T_WIDTH]
            tail, field, link = plan[q + T_TAIL], plan[q + T_FIELD], plan[q + T_LINK]
            if down:
                k = rows[ix(plan[q + G_BASE] + at[plan[q + GIVER]] * plan[q + G_WIDTH] + plan[q + G_FIELD])]
                s = np.int64(head[plan[q + T_HEADS] + CELLS * np.int64(spread(k, plan[q + T_SHIFT]))])
                wanted[h] = k
                some[h] = 0
                stats[i, h, PROBES] += 1
            else:
                k = wanted[h]
                s = next_[h]
            # What every row of the hop after it will be asked; the last hop is a plain loop in the one before it.
            put, puts = question_at[i, h + 1], question_at[i, h + 2]
            inner = h + 2 == hops
            z = q + HOP
            giver, z_target = plan[z + GIVER], plan[z + TARGET]
            g_base, g_width, g_field = plan[z + G_BASE], plan[z + G_WIDTH], plan[z + G_FIELD]
            l_base, l_width, l_tail = plan[z + T_BASE], plan[z + T_WIDTH], plan[z + T_TAIL]
            l_field, l_heads, l_shift = plan[z + T_FIELD], plan[z + T_HEADS], plan[z + T_SHIFT]
            l_link = plan[z + T_LINK]
            found = False
            met = passed = z_met = nobody = 0
            end = ends[h]
            while s >= tail:
                p = base + s * width
                x = rows[ix(p)]
                if x <= t:
                    break
                after = np.int64(halves[ix(2 * p + link)])
                if rows[ix(p + field)] == k:
                    met += 1
                    at[target] = s
                    if put == puts or supported(
                        put,
                        puts,
                        t,
                        questions,
                        tables,
                        horizons,
                        edges,
                        indexes,
                        rows,
                        halves,
                        head,
                        at,
                        asked,
                    ):
                        passed += 1
                        if not inner:
                            found = True
                            next_[h] = after
                            ends[h + 1] = min(end, x)
                            break
                        k2 = rows[ix(g_base + at[giver] * g_width + g_field)]
                        s2 = np.int64(head[l_heads + CELLS * np.int64(spread(k2, l_shift))])
                        before = z_met
                        while s2 >= l_tail:
                            p2 = l_base + s2 * l_width
                            x2 = rows[ix(p2)]
                            if x2 <= t:
                                break
                            if rows[ix(p2 + l_field)] == k2:
                                z_met += 1
                                if n == room:
                                    return e, mark
                                for j in range(edges_):
                                    out_slot[j, ix(n)] = at[j]
                                out_slot[ix(z_target), ix(n)] = s2
                                out_ts[ix(n)] = t
                                out_exp[ix(n)] = min(end, x, x2)
                                n += 1
                            s2 = np.int64(halves[ix(2 * p2 + l_link)])
                        nobody += z_met == before
                s = after
            some[h] += met
            stats[i, h, MET] += met
            stats[i, h, PASSED] += passed
            if inner:
                stats[i, h + 1, PROBES] += passed
                stats[i, h + 1, MET] += z_met
                stats[i, h + 1, NOBODY] += nobody
            if found:
                h += 1
                down = True
            else:
                stats[i, h, NOBODY] += some[h] == 0
                h -= 1
                down = False
        for c in range(first_pair[i], first_pair[i + 1]):
            backed[places[i, pairs[c, 1]] + slot] = 1
        enter(own, slot, i, False, 0, indexes, first_index, rows, halves, head)
        newest[i] = rows[ix(own)]
        for c in range(out_of.shape[1]):
            d = out_of[i, c]
            if d < 0:
                break
            goal = tables[d, TO]
            end = bound_of(own, i, goal, t, tables, into, horizons, edges, indexes, rows, halves, head)
            if end > t:
                place, higher = raised(d, rows[ix(own + tables[d, FROM_FIELD])], end, t, tables, horizons)
                if higher and out_of[goal, 0] >= 0:
                    counted[2] += lift(
                        d, place, t, tables, into, out_of, horizons, edges, indexes, rows, halves, head, climb
                    )
    return times.shape[0], n
