"""A tree of joins, event at a time: a row meets its sibling's state, what they make the next sibling's, up to the root.

Node u < N is source u; inner nodes follow, children before parents, the root last. All that a plan fixes lies in `spec`
(see `operators.join.tree_layout`), all that changes in `regs`, `rows`, `links` and `bits` (see `state.tree_state`):

  regs   per source, node, index and question ("ask") the registers named below, then counters
  rows   of sources: exp and key words, in a ring; of inner nodes: exp and hash of the key toward the sibling
  links  of source rows: the row before it in the node's own chain (SUSPENDED: in none); of inner nodes: the components and
         the slot before it; buckets of every node; of every index that is kept a link a row, and buckets
  bits   per question two filters: for which keys something waits, and which keys have come

A source row is known by the number of rows before it; it lies where the ring's mask says. What an event has done is
undone if room runs out, and it is done again with more.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.compile import ix, kernel, part
from penstock.kernels.hash.mix import GOLDEN

(
    SOURCES,
    ROOT,
    DEMAND,
    NODE,
    INDEX,
    ASK,
    COUNT,
    ORDER,
    PATH,
    CROSS,
    KEYS,
    TOWARD,
    PAIR,
    VIA,
    KIN,
    OUTSIDE,
    WALK,
    ONWARD,
) = range(18)
HEADER = 18
"""Places in `spec` that say where its tables begin, and where those of `regs` do."""
OFF, DOE, JIT = range(3)

USED, TAIL, SEEN, MASK, BASE, WIDTH, LINK, WAITED, ASIDE = range(9)
SOURCE_WORDS = 9
"""Of a source: rows written, first live row, rows that have come, ring's mask, place in `rows`, words a row, place in `links`;
nodes at which something may wait for it, a bit each (of many nodes some share one); rows that are set aside."""
HEADS, BUCKETS, FILLED, ROOM, PLACE, PARTS, PART, LATEST, DUE, IDLE = range(10)
NODE_WORDS = 10
"""Of a node: its buckets, their mask; of an inner one slots used and there, place in `rows`, in `links`, links a slot, latest
end, when to look for what has ended; how often nobody is asked."""
COLUMN, LINKED, SOUGHT = 2, 3, 4
INDEX_WORDS = 5
NOT_KEPT, NEVER_KEPT = -1, -2
"""Of an index of a source toward a neighbour: its buckets, their mask; where its links are (NOT_KEPT: rows are looked through);
rows before this one are in it; how many were looked through for want of it."""
BITS, PANE, STRETCH, UPTO, UNTIL, FULL = 0, 1, 2, 3, 4, 8
PANES, FILTER_WORDS = 4, 12
NO_FILTER, FILTER_WANTED = -1, -2
"""Of a filter: place in `bits`, mask of a pane (or one of these), how long a stretch of time a pane is for; rows before this one
are in it; of every pane the latest end and how many keys."""
WAITING, COME, TESTED, BLOCKED, SKIP = 0, 12, 24, 25, 26
ASK_WORDS = 36
"""Of a question: filters of what waits and of what has come, how often asked and denied of late, and how often not to ask."""
MADE, SUPPRESSED, RESUMED, SUSPENDED, WOKEN, VISITS, SHORT, CROWDED = range(8)
RESTING, TURN, SPARED, LOOKED, STEADY = range(8, 13)
KEEPS, BEGAN, SIGHTED, WALKED, FORMER, KEPT, PATIENCE = range(13, 20)
COUNTERS = 20
FILTERS_ANEW, INDEXES_ANEW, KEEPING_ANEW = 1, 2, 4
"""Partial results made, not made, made later; rows set aside and taken up again; rows looked at; the node without room;
what is to be laid out anew (CROWDED: bits as named). For so many events nobody is asked; events of this turn, and
what was spared and looked at before it, turns since rows began to end (see `tree_gate`). Whether partial results are kept;
what was made and looked at before this turn; rows that answers of this turn were completed from; rows looked at in the last
turn that kept; for how many turns they are kept at least, and will be next time."""

(
    CUR,
    POS,
    LISTED,
    STEP,
    ENDS,
    HASH,
    LASTS,
    MARK,
    AT,
    VIA_LINKS,
    LEFT,
    WANT,
    SKETCH,
    SKETCH_OF,
) = range(14)
WORK = 14
"""Scratch: components of what is being made, and where their rows lie; how many partners the event has; loops up the tree;
ends in a walk; slots before the event (of source 0: rows taken up for it); loops of a walk; words that are sought; sketches
of the event's partners."""
LIST = 64
"""Partners of an event in a source that are kept at hand; of more the chain is walked."""
SUSPENDED_ROW = -2


@part
def mixed(h):
    """A key whose bits all tell keys apart: sums of products do in their high bits only."""
    x = np.uint64(h)
    x ^= x >> np.uint64(32)
    return x * GOLDEN


@part
def bucket(h, mask):
    """Where a key belongs among mask + 1 buckets."""
    return np.int64(mixed(h) >> np.uint64(32)) & mask


@part
def row_at(i, seq, regs):
    """Where a source's row lies in `rows`."""
    s = i * SOURCE_WORDS
    return regs[s + BASE] + (seq & regs[s + MASK]) * regs[s + WIDTH]


@part
def link_at(i, seq, regs):
    """Where its link in the node's own chain lies."""
    s = i * SOURCE_WORDS
    return regs[s + LINK] + (seq & regs[s + MASK])


@part
def bind(i, seq, regs, work):
    """A row of source i is a component of what is being made."""
    work[CUR, ix(i)] = seq
    work[POS, ix(i)] = row_at(i, seq, regs)


@part
def cross_hash(u, spec, rows, work):
    """The key of what is being made, restricted to a node, toward the node's sibling."""
    at = spec[spec[CROSS] + 2 * u]
    h = np.int64(0)
    for c in range(spec[spec[CROSS] + 2 * u + 1]):
        q = at + 5 * c
        h += rows[ix(work[POS, ix(spec[ix(q)])] + spec[ix(q + 1)])] * spec[ix(q + 4)]
    return h


@part
def crosses(u, spec, rows, work):
    """Whether the components of a node equal those of its sibling where they must."""
    at = spec[spec[CROSS] + 2 * u]
    for c in range(spec[spec[CROSS] + 2 * u + 1]):
        q = at + 5 * c
        mine = rows[ix(work[POS, ix(spec[ix(q)])] + spec[ix(q + 1)])]
        if mine != rows[ix(work[POS, ix(spec[ix(q + 2)])] + spec[ix(q + 3)])]:
            return False
    return True


@part
def insert(u, h, exp, spec, regs, rows, links, work):
    """Keep what is being made in an inner node; False if there is no room."""
    r = spec[NODE] + u * NODE_WORDS
    slot = regs[r + FILLED]
    if slot == regs[r + ROOM]:
        regs[spec[COUNT] + SHORT] = u
        return False
    place = regs[r + PLACE] + 2 * slot
    rows[ix(place)] = exp
    rows[ix(place + 1)] = h
    kin, n = spec[spec[KIN] + 4 * u + 2], spec[spec[KIN] + 4 * u + 3]
    part = regs[r + PARTS] + slot * regs[r + PART]
    for c in range(n):
        links[ix(part + c)] = work[CUR, spec[kin + c]]
    b = regs[r + HEADS] + bucket(h, regs[r + BUCKETS])
    links[ix(part + n)] = links[ix(b)]
    links[ix(b)] = slot
    regs[r + FILLED] = slot + 1
    regs[r + LATEST] = max(regs[r + LATEST], exp)
    return True


@kernel
def take_back(u, first, spec, regs, rows, links):
    """Undo the latest inserts."""
    r = spec[NODE] + u * NODE_WORDS
    n = spec[spec[KIN] + 4 * u + 3]
    for slot in range(regs[r + FILLED] - 1, first - 1, -1):
        h = rows[regs[r + PLACE] + 2 * slot + 1]
        links[regs[r + HEADS] + bucket(h, regs[r + BUCKETS])] = links[
            regs[r + PARTS] + slot * regs[r + PART] + n
        ]
    regs[r + FILLED] = first


@part
def next_partner(s, u, h, t, spec, regs, rows, links, work):
    """From a slot of a node's chain on, the first that is alive and equal; its components are set. -1: none."""
    visits = 0
    if u < spec[SOURCES]:
        r = u * SOURCE_WORDS
        tail, mask, base, width = regs[r + TAIL], regs[r + MASK], regs[r + BASE], regs[r + WIDTH]
        link = regs[r + LINK]
        at, n = spec[spec[CROSS] + 2 * u], spec[spec[CROSS] + 2 * u + 1]
        for c in range(n):
            q = at + 5 * c
            work[WANT, ix(c)] = rows[ix(work[POS, ix(spec[ix(q + 2)])] + spec[ix(q + 3)])]
        while s >= tail:
            visits += 1
            place = base + (s & mask) * width
            if rows[ix(place)] <= t:
                s = np.int64(-1)
                break
            c = 0
            while c < n and rows[ix(place + spec[ix(at + 5 * c + 1)])] == work[WANT, ix(c)]:
                c += 1
            if c == n:
                work[CUR, ix(u)] = s
                work[POS, ix(u)] = place
                break
            s = np.int64(links[ix(link + (s & mask))])
        regs[spec[COUNT] + VISITS] += visits
        return s if s >= tail else np.int64(-1)
    r = spec[NODE] + u * NODE_WORDS
    place, parts, width = regs[r + PLACE], regs[r + PARTS], regs[r + PART]
    kin, n = spec[spec[KIN] + 4 * u + 2], spec[spec[KIN] + 4 * u + 3]
    while s >= 0:
        visits += 1
        part = parts + s * width
        if rows[ix(place + 2 * s + 1)] == h and rows[ix(place + 2 * s)] > t:
            for c in range(n):
                bind(spec[kin + c], np.int64(links[ix(part + c)]), regs, work)
            if crosses(u, spec, rows, work):
                break
        s = np.int64(links[ix(part + n)])
    regs[spec[COUNT] + VISITS] += visits
    return s


@part
def end_of(u, s, spec, regs, rows):
    """When a node's row ends."""
    if u < spec[SOURCES]:
        return rows[ix(row_at(u, s, regs))]
    return rows[ix(regs[spec[NODE] + u * NODE_WORDS + PLACE] + 2 * s)]


@part
def after(u, s, spec, regs, links):
    """The next in a node's chain."""
    if u < spec[SOURCES]:
        return np.int64(links[ix(link_at(u, s, regs))])
    r = spec[NODE] + u * NODE_WORDS
    return np.int64(links[ix(regs[r + PARTS] + s * regs[r + PART] + spec[spec[KIN] + 4 * u + 3])])


@part
def enter(k, seq, active, spec, regs, rows, links, work):
    """It takes its place in its node's state, or is set aside."""
    own = link_at(k, seq, regs)
    if active:
        bind(k, seq, regs, work)
        r = spec[NODE] + k * NODE_WORDS
        b = regs[r + HEADS] + bucket(cross_hash(k, spec, rows, work), regs[r + BUCKETS])
        links[ix(own)] = links[ix(b)]
        links[ix(b)] = seq
    else:
        links[ix(own)] = SUSPENDED_ROW
        regs[k * SOURCE_WORDS + ASIDE] += 1


@part
def answer(n, t, end, spec, regs, work, out_ts, out_exp, out_slot):
    """What is being made is a result, as number n; returns how many there are then, -1 if there is no room."""
    if n == out_ts.shape[0]:
        regs[spec[COUNT] + SHORT] = spec[ROOT]
        return np.int64(-1)
    out_ts[ix(n)] = t
    out_exp[ix(n)] = end
    for j in range(spec[SOURCES]):
        out_slot[ix(j), ix(n)] = work[CUR, j] & regs[j * SOURCE_WORDS + MASK]
    return n + 1
