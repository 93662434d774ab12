"""Rows of many joins meet in shared SteMs: one walk for all queries.

A walk begins at a row in one of its *roles* (a stream as the k-th that a query reads of it) and follows a tree of hops: a
node says which role to visit over which index, whose queries go there (`need`), and whose results are whole there
(`done`). Queries whose walks begin alike walk together. A partner counts for the queries that want both rows (lineage),
in whose window it still is, and that have it before the walking row: earlier, or at the same instant in a lesser role.

Layout of rows: see `state.noted`; word 0 is the row's ts, its notes are the numbers of its lineage for each role.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.chains import BASE, FIELD, HEADS, SHIFT, TAIL, WIDTH
from penstock.kernels.hashing import spread
from penstock.kernels.jit import inline, ix, kernel

ROLE, EDGE, INDEX, GIVER, GIVER_EDGE, GIVER_INDEX, CHILD, NEXT = range(8)
"""Of a node: the role visited, its SteM and index; the role that gives the key, its SteM and index; first child, next sibling."""
NONE = np.uint64(0)


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
def still(age, first, last, lengths):
    """The first window longer than the age, or `last`: windows are in order of their length."""
    while first < last:
        middle = (first + last) >> 1
        if lengths[middle] <= age:
            first = middle + 1
        else:
            last = middle
    return first


@kernel
def link(rows, halves, head, edge, index, first, last):
    """Add slots [first, last) of an edge to one of its indexes; `halves` is `rows`, by half words."""
    for s in range(first, last):
        p = edge[BASE] + s * edge[WIDTH] + index[FIELD]
        b = index[HEADS] + np.int64(spread(rows[p], index[SHIFT]))
        halves[2 * (p + 1)] = head[b]
        head[b] = s


@kernel
def meet(
    begin, times, roles, slots, lines, entering, lineage, edges, indexes, first_index, rows, halves, head, home, fields, sight,
    nodes, roots, need, done, window_first, lengths, masks, known, work, kept, stats,
    out_ts, out_node, out_slot, out_line,
):  # fmt: skip
    """Walk for rows in (time, role) order; `entering` rows are put into their SteM's indexes behind their walk.

    lines[e]: the row of `lineage` that is the event's; home[role]: its SteM; fields[role]: among which halves rows of its SteM have the number of their
    lineage in this role (`known`); sight[edge]: the longest window. Windows of a role are lengths[window_first[role] :
    window_first[role + 1]], each with the mask of queries whose window is no shorter. `work` and `kept` are scratch.
    stats[node] counts (probes, partners). Stops before an event whose results do not fit; returns (events done, results).
    """
    n = 0
    room = out_ts.shape[0]
    at, node, cursor, wanted = work[0], work[1], work[2], work[3]
    for e in range(begin, times.shape[0]):
        t = times[e]
        role = np.int64(roles[e])
        slot = np.int64(slots[e])
        mark = n
        at[role] = slot
        for w in range(need.shape[1]):
            kept[0, w] = lineage[lines[e], w]
        d = 0
        node[0] = roots[role]
        cursor[0] = -2
        while d >= 0:
            v = node[d]
            if v < 0:
                d -= 1
                continue
            target, edge = nodes[v, ROLE], nodes[v, EDGE]
            base, width, tail = edges[edge, BASE], edges[edge, WIDTH], edges[edge, TAIL]
            index = nodes[v, INDEX]
            field = indexes[index, FIELD]
            s = cursor[d]
            if s == -2:
                some = NONE
                for w in range(need.shape[1]):
                    some |= kept[d, w] & need[v, w]
                if some == NONE:
                    node[d] = nodes[v, NEXT]
                    continue
                giver = nodes[v, GIVER_EDGE]
                own = edges[giver, BASE] + at[nodes[v, GIVER]] * edges[giver, WIDTH]
                k = rows[ix(own + indexes[nodes[v, GIVER_INDEX], FIELD])]
                wanted[d] = k
                s = np.int64(head[indexes[index, HEADS] + np.int64(spread(k, indexes[index, SHIFT]))])
                stats[v, 0] += 1
            k = wanted[d]
            oldest = t - sight[edge]
            found = False
            while s >= tail:
                p = base + s * width
                x = rows[ix(p)]
                if x <= oldest:
                    s = np.int64(-1)
                    break
                if rows[ix(p + field)] == k and (x < t or (x == t and target < role)):
                    w = still(t - x, window_first[target], window_first[target + 1], lengths)
                    if w < window_first[target + 1]:
                        line = np.int64(halves[ix(2 * p + fields[target])])
                        if agreed(kept[d + 1], kept[d], need[v], known[line], masks[w]):
                            found = True
                            break
                s = np.int64(halves[ix(2 * (p + field + 1))])
            if not found:
                node[d] = nodes[v, NEXT]
                cursor[d] = -2
                continue
            stats[v, 1] += 1
            at[target] = s
            cursor[d] = halves[ix(2 * (base + s * width + field + 1))]
            if cursor[d] < 0:
                cursor[d] = -1
            some = NONE
            for w in range(need.shape[1]):
                some |= kept[d + 1, w] & done[v, w]
            if some != NONE:
                if n == room:
                    return e, mark
                out_ts[n] = t
                out_node[n] = v
                for j in range(out_slot.shape[0]):
                    out_slot[j, n] = at[j]
                for w in range(need.shape[1]):
                    out_line[n, w] = kept[d + 1, w] & done[v, w]
                n += 1
            if nodes[v, CHILD] >= 0:
                d += 1
                node[d] = nodes[v, CHILD]
                cursor[d] = -2
        if entering[e]:
            own_edge = home[role]
            own = edges[own_edge, BASE] + slot * edges[own_edge, WIDTH]
            for index in range(first_index[own_edge], first_index[own_edge + 1]):
                p = own + indexes[index, FIELD]
                b = indexes[index, HEADS] + np.int64(spread(rows[ix(p)], indexes[index, SHIFT]))
                halves[ix(2 * (p + 1))] = head[b]
                head[b] = slot
    return times.shape[0], n
