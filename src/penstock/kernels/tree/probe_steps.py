"""Walks through sources of a tree in an order that the plan fixes: rows that equal all that is bound, one after the other.

A hop is `spec[q : q + 5]`: whose rows, by the index toward whom (-1: all are looked at), where its comparisons are, how many, and the node that is
made with it (see `operators.join.tree_layout`).
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.compile import ix, part
from penstock.kernels.tree.climb import (
    AT,
    COUNT,
    LEFT,
    LIST,
    MASK,
    POS,
    SEEN,
    SKETCH,
    SKETCH_OF,
    SOURCE_WORDS,
    TAIL,
    VIA_LINKS,
    VISITS,
    bind,
    row_at,
)
from penstock.kernels.tree.partners import behind, chain, key_toward, listed, sketch, sketch_bit

HOP = 5
LISTS, BY_NUMBER = -2, -1
"""How the rows of a source are gone through: its partners of the event, all from the newest on, or by the links of an index."""


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
def set_out(q, level, u, k, t, spec, regs, rows, links, work, lists):
    """Where a hop of a walk begins: at the partners of the event's row, which is of source k, in an index, or at the newest row. `u` tells walks apart."""
    at, columns, left = work[AT], work[VIA_LINKS], work[LEFT]
    target, via = spec[q], spec[q + 1]
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
    if columns[level] == LISTS and spec[q + 3] == 2:
        # One comparison is the event's own; does any partner agree in the other?
        c = spec[q + 2] if spec[spec[q + 2] + 1] != k else spec[q + 2] + 3
        if work[SKETCH_OF, target] != u:
            sketch(target, u, count, spec[c], regs, rows, work, lists)
        mine = rows[ix(work[POS, spec[c + 1]] + spec[c + 2])]
        if not (np.uint64(work[SKETCH, target]) >> sketch_bit(mine)) & np.uint64(1):
            left[level] = 0


@part
def next_fit(q, level, t, spec, regs, rows, links, work, lists):
    """The next row of a hop that is alive and equals all that is bound; it is bound, too. -1: there is none."""
    at, columns, left = work[AT], work[VIA_LINKS], work[LEFT]
    target = spec[q]
    s = np.int64(-1)
    visits = 0
    if columns[level] == LISTS:
        while at[level] < left[level]:
            visits += 1
            s = np.int64(lists[ix(target * LIST + at[level])])
            at[level] += 1
            if fits(spec[q + 2], spec[q + 3], row_at(target, s, regs), spec, rows, work):
                break
            s = np.int64(-1)
    else:
        tail, mask = regs[target * SOURCE_WORDS + TAIL], regs[target * SOURCE_WORDS + MASK]
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
    regs[spec[COUNT] + VISITS] += visits
    if s >= 0:
        bind(target, s, regs, work)
    return s
