"""Which live rows of a source equal what is being made: keys, indexes toward neighbours, partners of the event's row.

An index is kept for a pair of sources only when somebody looks for it often, and its rows enter when it is asked: one that
nobody asks costs nothing. Where there is none, a source's rows are looked through, newest first.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.compile import ix, kernel, part, prefetch
from penstock.kernels.hash.mix import GOLDEN
from penstock.kernels.tree.climb import (
    BASE,
    BUCKETS,
    COLUMN,
    COUNT,
    CROWDED,
    HEADS,
    INDEX,
    INDEX_WORDS,
    INDEXES_ANEW,
    KEYS,
    LINKED,
    LIST,
    LISTED,
    MASK,
    NOT_KEPT,
    PAIR,
    POS,
    SEEN,
    SKETCH,
    SKETCH_OF,
    SOUGHT,
    SOURCE_WORDS,
    SOURCES,
    TAIL,
    TOWARD,
    VISITS,
    WANT,
    WIDTH,
    bucket,
    row_at,
)

COMING = 8
"""Rows on their way into an index whose chains are asked for at once."""
OFTEN = 512
"""Rows looked through within a step or so after which an index is worth its room."""


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
def row_key(j, u, place, spec, rows):
    """The key of a row of source j toward node u: that of the node's partial results that equal it."""
    h = np.int64(0)
    at = spec[spec[TOWARD] + 2 * (u * spec[SOURCES] + j)]
    for c in range(spec[spec[TOWARD] + 2 * (u * spec[SOURCES] + j) + 1]):
        h += rows[ix(place + spec[ix(at + 2 * c)])] * spec[ix(at + 2 * c + 1)]
    return h


# ---------------------------------------------------------------------- indexes


@kernel
def catch_up(r, j, i, spec, regs, rows, links):
    """The rows of source j that have come since an index was asked enter it, oldest first."""
    seen, mask = regs[j * SOURCE_WORDS + SEEN], regs[j * SOURCE_WORDS + MASK]
    begin = max(regs[r + LINKED], regs[j * SOURCE_WORDS + TAIL])
    heads, buckets, column = regs[r + HEADS], regs[r + BUCKETS], regs[r + COLUMN]
    for s in range(begin, min(begin + COMING, seen)):
        prefetch(links, heads + bucket(row_key(j, i, row_at(j, s, regs), spec, rows), buckets))
    for s in range(begin, seen):
        if s + COMING < seen:
            prefetch(links, heads + bucket(row_key(j, i, row_at(j, s + COMING, regs), spec, rows), buckets))
        b = heads + bucket(row_key(j, i, row_at(j, s, regs), spec, rows), buckets)
        links[ix(column + (s & mask))] = links[ix(b)]
        links[ix(b)] = s
    regs[r + LINKED] = seen


@part
def chain(j, i, h, spec, regs, rows, links):
    """The newest row of source j that may have a key toward source i, and where links lead on (below 0: to the row before)."""
    r = spec[INDEX] + spec[spec[PAIR] + j * spec[SOURCES] + i] * INDEX_WORDS
    seen = regs[j * SOURCE_WORDS + SEEN]
    column = regs[r + COLUMN]
    if column < 0:
        if column == NOT_KEPT:
            regs[r + SOUGHT] += seen - regs[j * SOURCE_WORDS + TAIL]
            if regs[r + SOUGHT] > OFTEN:
                regs[spec[COUNT] + CROWDED] |= INDEXES_ANEW
        return seen - 1, column
    if regs[r + LINKED] < seen:
        catch_up(r, j, i, spec, regs, rows, links)
    return np.int64(links[ix(regs[r + HEADS] + bucket(h, regs[r + BUCKETS]))]), column


@part
def behind(s, column, mask, links):
    """The row after one in its chain."""
    return np.int64(links[ix(column + (s & mask))]) if column >= 0 else s - 1


@kernel
def disappear(k, seq, spec, regs, rows, links):
    """The newest row of a source has not come: it leaves the indexes it is in."""
    sources = spec[SOURCES]
    regs[k * SOURCE_WORDS + SEEN] = seq
    for i in range(sources):
        x = spec[spec[PAIR] + k * sources + i]
        r = spec[INDEX] + x * INDEX_WORDS
        if x >= 0 and regs[r + COLUMN] >= 0 and regs[r + LINKED] > seq:
            h = row_key(k, i, row_at(k, seq, regs), spec, rows)
            column = regs[r + COLUMN] + (seq & regs[k * SOURCE_WORDS + MASK])
            links[regs[r + HEADS] + bucket(h, regs[r + BUCKETS])] = links[column]
            regs[r + LINKED] = seq


# ---------------------------------------------------------------------- partners of the event's row


@part
def forget(spec, work):
    """Nothing is known of an event's partners yet."""
    for j in range(spec[SOURCES]):
        work[LISTED, j] = -1
        work[SKETCH_OF, j] = -1


@kernel
def listed(j, k, t, spec, regs, rows, links, work, lists):
    """How many live partners the event's row has in source j, set down in `lists`; -2: too many."""
    if work[LISTED, ix(j)] != -1:
        return work[LISTED, ix(j)]
    r = j * SOURCE_WORDS
    tail, mask, base, width = regs[r + TAIL], regs[r + MASK], regs[r + BASE], regs[r + WIDTH]
    at, count = seek(k, j, spec, rows, work)
    s, column = chain(j, k, key_toward(k, j, spec, rows, work), spec, regs, rows, links)
    n = np.int64(0)
    visits = 0
    while s >= tail:
        visits += 1
        place = base + (s & mask) * width
        if rows[ix(place)] <= t:
            break
        if equals(at, count, place, spec, rows, work):
            if n == LIST:
                n = np.int64(-2)
                break
            lists[ix(j * LIST + n)] = s
            n += 1
        s = behind(s, column, mask, links)
    regs[spec[COUNT] + VISITS] += visits
    work[LISTED, ix(j)] = n
    return n


@part
def sketch_bit(word):
    """Which bit of a sketch a value has."""
    return (np.uint64(word) * GOLDEN) >> np.uint64(58)


@kernel
def sketch(j, u, n, field, regs, rows, work, lists):
    """A word with a bit for every value of a field among the event's partners in source j, for a walk below node u."""
    word = np.uint64(0)
    for c in range(n):
        place = row_at(j, np.int64(lists[ix(j * LIST + c)]), regs)
        word |= np.uint64(1) << sketch_bit(rows[ix(place + field)])
    work[SKETCH, j] = np.int64(word)
    work[SKETCH_OF, j] = u
