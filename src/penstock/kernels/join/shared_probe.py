"""Rows of many joins meet in shared SteMs: one walk for all queries.

A walk begins at a row in one of its *roles* (a stream as the k-th that a query reads of it) and follows a tree of hops: a
node says which role to visit over which index, whose queries go there (`need`), and whose results are whole there
(`done`). Queries whose walks begin alike walk together. A partner counts for the queries that want both rows (lineage),
in whose window it still is, and that have it before the walking row: earlier, or at the same instant in a lesser role.

Layout of rows: see `state.annotated_stems`; word 0 is the row's ts, its notes are the numbers of its lineage for each role.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.compile import inline, ix, kernel, prefetch
from penstock.kernels.hash.mix import spread
from penstock.kernels.join.chains import BASE, FIELD, HEADS, SHIFT, TAIL, WIDTH

ROLE, EDGE, INDEX, GIVER, GIVER_EDGE, GIVER_INDEX, CHILD, NEXT, CHECK, CHECKED = range(10)
"""Of a node: the role visited, its SteM and index; the role that gives the key, its SteM and index; first child, next sibling;
where what it compares besides begins and ends."""
CHECK_INDEX, CHECK_GIVER, CHECK_EDGE, CHECK_OTHER = range(4)
NONE = np.uint64(0)
AHEAD = 12
"""Events after which what was asked for is there."""


@inline
def agreed(out, lineage, need, known, masks):
    """out = lineage & need & known & masks; whether anything is left."""
    left = NONE
    for w in range(out.shape[0]):
        x = lineage[w] & need[w] & known[w] & masks[w]
        out[w] = x
        left |= x
    return left != NONE


@inline
def noted(halves, row, place):
    """What stands at a place of a row (`state.annotated_stems`)."""
    return (np.int64(halves[ix(2 * row + place[0])]) >> place[1]) & place[2]


@inline
def wanted_by(out, lineage, need, masks, known, halves, row, places, first, last):
    """`agreed` with all parts of a row's lineage."""
    some = agreed(out, lineage, need, known[ix(noted(halves, row, places[ix(first)]))], masks)
    for part in range(first + 1, last):
        if not some:
            break
        rest = known[ix(noted(halves, row, places[ix(part)]))]
        left = NONE
        for w in range(out.shape[0]):
            x = out[w] & rest[w]
            out[w] = x
            left |= x
        some = left != NONE
    return some


@inline
def still(age, first, last, lengths):
    """The first window longer than the age, or `last`: windows are in order of their length."""
    while first < last:
        middle = (first + last) >> 1
        if lengths[middle] <= age:
            first = middle + 1
        else:
            last = middle
    return first


@inline
def look_ahead(e, roles, slots, home, edges, indexes, first_index, rows, head, nodes, roots):
    """Ask for what an event that is to come will read first: where chains of its keys begin, its own and those it walks along."""
    role = np.int64(roles[ix(e)])
    edge = home[ix(role)]
    own = edges[ix(edge), BASE] + np.int64(slots[ix(e)]) * edges[ix(edge), WIDTH]
    for index in range(first_index[ix(edge)], first_index[ix(edge + 1)]):
        k = rows[ix(own + indexes[ix(index), FIELD])]
        prefetch(head, indexes[ix(index), HEADS] + np.int64(spread(k, indexes[ix(index), SHIFT])))
    v = roots[ix(role)]
    while v >= 0:
        k = rows[ix(own + indexes[ix(nodes[ix(v), GIVER_INDEX]), FIELD])]
        index = nodes[ix(v), INDEX]
        prefetch(head, indexes[ix(index), HEADS] + np.int64(spread(k, indexes[ix(index), SHIFT])))
        v = nodes[ix(v), NEXT]


@inline
def enter(slot, edge, edges, indexes, first_index, rows, halves, head):
    """Put a row into its SteM's indexes."""
    own = edges[ix(edge), BASE] + slot * edges[ix(edge), WIDTH]
    for index in range(first_index[ix(edge)], first_index[ix(edge + 1)]):
        p = own + indexes[ix(index), FIELD]
        b = indexes[ix(index), HEADS] + np.int64(spread(rows[ix(p)], indexes[ix(index), SHIFT]))
        halves[ix(2 * (p + 1))] = head[ix(b)]
        head[ix(b)] = slot


@kernel
def meet_pairs(
    begin, times, roles, slots, lines, entering, lineage, edges, indexes, first_index, rows, halves, head, home, parts_of, places, sight,
    nodes, roots, need, window_first, lengths, masks, known, stats, out_ts, out_node, out_slot, out_line,
):  # fmt: skip
    """`meet` where every walk is one hop."""
    n = 0
    room = out_ts.shape[0]
    for e in range(begin, times.shape[0]):
        if e + AHEAD < times.shape[0]:
            look_ahead(e + AHEAD, roles, slots, home, edges, indexes, first_index, rows, head, nodes, roots)
        t = times[ix(e)]
        role, slot = np.int64(roles[ix(e)]), np.int64(slots[ix(e)])
        mark = n
        v = roots[ix(role)]
        if v >= 0:
            of, own_lineage = nodes[ix(v)], lineage[ix(lines[ix(e)])]
            target, edge, index = of[ROLE], of[EDGE], of[INDEX]
            base, width, tail = edges[ix(edge), BASE], edges[ix(edge), WIDTH], edges[ix(edge), TAIL]
            field, oldest = indexes[ix(index), FIELD], t - sight[ix(edge)]
            part, parts = parts_of[ix(target)], parts_of[ix(target + 1)]
            first, last = window_first[ix(target)], window_first[ix(target + 1)]
            giver = of[GIVER_EDGE]
            own = edges[ix(giver), BASE] + slot * edges[ix(giver), WIDTH]
            k = rows[ix(own + indexes[ix(of[GIVER_INDEX]), FIELD])]
            s = np.int64(head[ix(indexes[ix(index), HEADS] + np.int64(spread(k, indexes[ix(index), SHIFT])))])
            stats[ix(v), 0] += 1
            while s >= tail:
                p = base + s * width
                x = rows[ix(p)]
                if x <= oldest:
                    break
                if rows[ix(p + field)] == k and (x < t or (x == t and target < role)):
                    w = still(t - x, first, last, lengths)
                    if w < last:
                        if n == room:
                            return e, mark
                        out, needed, mask = out_line[ix(n)], need[ix(v)], masks[ix(w)]
                        if wanted_by(out, own_lineage, needed, mask, known, halves, p, places, part, parts):
                            out_ts[ix(n)] = t
                            out_node[ix(n)] = v
                            out_slot[ix(role), ix(n)] = slot
                            out_slot[ix(target), ix(n)] = s
                            stats[ix(v), 1] += 1
                            n += 1
                s = np.int64(halves[ix(2 * (p + field + 1))])
        if entering[ix(e)]:
            enter(slot, home[ix(role)], edges, indexes, first_index, rows, halves, head)
    return times.shape[0], n


@inline
def equals(p, first, last, checks, edges, indexes, rows, at):
    """Whether a row at p has all words that what is bound gives."""
    for c in range(first, last):
        g = checks[ix(c), CHECK_EDGE]
        other = edges[ix(g), BASE] + at[ix(checks[ix(c), CHECK_GIVER])] * edges[ix(g), WIDTH]
        other += indexes[ix(checks[ix(c), CHECK_OTHER]), FIELD]
        if rows[ix(p + indexes[ix(checks[ix(c), CHECK_INDEX]), FIELD])] != rows[ix(other)]:
            return False
    return True


@kernel
def meet(
    begin, times, roles, slots, lines, entering, lineage, edges, indexes, first_index, rows, halves, head, home, parts_of, places, sight,
    nodes, roots, need, done, checks, window_first, lengths, masks, known, work, kept, stats,
    out_ts, out_node, out_slot, out_line,
):  # fmt: skip
    """Walk for rows in (time, role) order; `entering` rows are put into their SteM's indexes behind their walk.

    lines[e]: the row of `lineage` that is the event's; home[role]: its SteM; places[parts_of[role] : parts_of[role + 1]]: where
    rows of its SteM have the numbers of their lineage in this role (`known`); sight[edge]: the longest window. Windows of a role are lengths[window_first[role] :
    window_first[role + 1]], each with the mask of queries whose window is no shorter. `work` and `kept` are scratch.
    stats[node] counts (probes, partners). Stops before an event whose results do not fit; returns (events done, results).
    """
    n = 0
    room = out_ts.shape[0]
    words = need.shape[1]
    roles_ = out_slot.shape[0]
    at, node, cursor, wanted = work[0], work[1], work[2], work[3]
    for e in range(begin, times.shape[0]):
        if e + AHEAD < times.shape[0]:
            look_ahead(e + AHEAD, roles, slots, home, edges, indexes, first_index, rows, head, nodes, roots)
        t = times[ix(e)]
        role = np.int64(roles[ix(e)])
        slot = np.int64(slots[ix(e)])
        mark = n
        at[ix(role)] = slot
        for w in range(words):
            kept[0, w] = lineage[ix(lines[ix(e)]), w]
        d = 0
        node[0] = roots[ix(role)]
        cursor[0] = -2
        while d >= 0:
            v = node[ix(d)]
            if v < 0:
                d -= 1
                continue
            of = nodes[ix(v)]
            target, edge, index = of[ROLE], of[EDGE], of[INDEX]
            base, width, tail = edges[ix(edge), BASE], edges[ix(edge), WIDTH], edges[ix(edge), TAIL]
            field = indexes[ix(index), FIELD]
            s = cursor[ix(d)]
            if s == -2:
                some = NONE
                for w in range(words):
                    some |= kept[ix(d), w] & need[ix(v), w]
                if some == NONE:
                    node[ix(d)] = of[NEXT]
                    continue
                giver = of[GIVER_EDGE]
                own = edges[ix(giver), BASE] + at[ix(of[GIVER])] * edges[ix(giver), WIDTH]
                k = rows[ix(own + indexes[ix(of[GIVER_INDEX]), FIELD])]
                wanted[ix(d)] = k
                s = np.int64(
                    head[ix(indexes[ix(index), HEADS] + np.int64(spread(k, indexes[ix(index), SHIFT])))]
                )
                stats[ix(v), 0] += 1
            k = wanted[ix(d)]
            oldest = t - sight[ix(edge)]
            first, last = window_first[ix(target)], window_first[ix(target + 1)]
            part, parts = parts_of[ix(target)], parts_of[ix(target + 1)]
            found = False
            while s >= tail:
                p = base + s * width
                x = rows[ix(p)]
                if x <= oldest:
                    s = np.int64(-1)
                    break
                if (
                    rows[ix(p + field)] == k
                    and (x < t or (x == t and target < role))
                    and equals(p, of[CHECK], of[CHECKED], checks, edges, indexes, rows, at)
                ):
                    w = still(t - x, first, last, lengths)
                    if w < last:
                        out, own_lineage, needed, mask = (
                            kept[ix(d + 1)],
                            kept[ix(d)],
                            need[ix(v)],
                            masks[ix(w)],
                        )
                        if wanted_by(out, own_lineage, needed, mask, known, halves, p, places, part, parts):
                            found = True
                            break
                s = np.int64(halves[ix(2 * (p + field + 1))])
            if not found:
                node[ix(d)] = of[NEXT]
                cursor[ix(d)] = -2
                continue
            stats[ix(v), 1] += 1
            at[ix(target)] = s
            cursor[ix(d)] = max(np.int64(halves[ix(2 * (base + s * width + field + 1))]), -1)
            some = NONE
            for w in range(words):
                some |= kept[ix(d + 1), w] & done[ix(v), w]
            if some != NONE:
                if n == room:
                    return e, mark
                out_ts[ix(n)] = t
                out_node[ix(n)] = v
                for j in range(roles_):
                    out_slot[j, ix(n)] = at[j]
                for w in range(words):
                    out_line[ix(n), w] = kept[ix(d + 1), w] & done[ix(v), w]
                n += 1
            if of[CHILD] >= 0:
                d += 1
                node[ix(d)] = of[CHILD]
                cursor[ix(d)] = -2
        if entering[ix(e)]:
            enter(slot, home[ix(role)], edges, indexes, first_index, rows, halves, head)
    return times.shape[0], n
