"""A tree that keeps no partial result: a row meets its sibling's rows, and what all others support is completed from base rows alone.

Where nearly nothing is wanted a tree that keeps what is left has nothing to keep, and remembering what waits (`tree_wanted`, `tree_resume`) is
all its work. Here nothing waits: what a row makes is asked for as ever, and let go of; whoever comes last finds all of an answer
among the rows.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.compile import ix, kernel
from penstock.kernels.tree.climb import (
    BUCKETS,
    COUNT,
    CROWDED,
    HEADS,
    LASTS,
    MADE,
    NODE,
    NODE_WORDS,
    ONWARD,
    PATH,
    POS,
    SEEN,
    SOURCE_WORDS,
    SOURCES,
    SUPPRESSED,
    VISITS,
    WALKED,
    after,
    answer,
    bind,
    bucket,
    cross_hash,
    end_of,
    enter,
    next_partner,
    row_at,
)
from penstock.kernels.tree.demand import sift, wanted
from penstock.kernels.tree.demand_gate import count_bare_event
from penstock.kernels.tree.partners import forget
from penstock.kernels.tree.prefetch import GROUP, far, look_ahead, look_for_heads
from penstock.kernels.tree.probe_steps import HOP, next_fit, set_out


@kernel
def complete(u, k, end, t, n, spec, regs, rows, links, bits, work, lists, out_ts, out_exp, out_slot):
    """All answers that hold what a row of source k has made of node u; returns the results there are then, -1 if room is short.

    A walk through the sources outside u, in the order of the tree; where all below a node are bound, others are asked for it.
    """
    steps, levels = spec[spec[ONWARD] + 2 * u], spec[spec[ONWARD] + 2 * u + 1]
    ends, before = work[LASTS], regs[spec[COUNT] + VISITS]
    level = 0
    down = True
    while level >= 0:
        q = steps + HOP * level
        if down:
            set_out(q, level, u, k, t, spec, regs, rows, links, work, lists)
        s = next_fit(q, level, t, spec, regs, rows, links, work, lists)
        down = False
        if s < 0:
            level -= 1
            continue
        ends[level] = min(end if level == 0 else ends[level - 1], rows[ix(work[POS, spec[q]])])
        if level + 1 == levels:
            n = answer(n, t, ends[level], spec, regs, work, out_ts, out_exp, out_slot)
            if n < 0:
                return n
            continue
        node = spec[q + 4]
        if node >= 0:
            if not wanted(node, ends[level], -1, t, spec, regs, rows, links, bits, work):
                regs[spec[COUNT] + SUPPRESSED] += 1
                continue
            regs[spec[COUNT] + MADE] += 1
        level += 1
        down = True
    regs[spec[COUNT] + WALKED] += regs[spec[COUNT] + VISITS] - before
    return n


@kernel
def run(
    begin, times, sides, seqs, spec, regs, rows, links, bits, work, lists, out_ts, out_exp, out_slot
):  # fmt: skip
    """Rows in (time, side) order. Stops before one for which room is short, and after one that wants something laid out anew; returns (rows done, results)."""
    n = np.int64(0)
    sources = spec[SOURCES]
    counts = spec[COUNT]
    ahead = far(spec, regs)
    for e in range(begin, times.shape[0]):
        k = np.int64(sides[e])
        seq = np.int64(seqs[e])
        t = times[e]
        if ahead and e % GROUP == 0 and e + 3 * GROUP <= times.shape[0]:
            look_ahead(e + GROUP, sides, seqs, spec, regs, rows, links, work)
            for g in range(e + 2 * GROUP, e + 3 * GROUP):
                i = np.int64(sides[g])
                look_for_heads(i, row_at(i, np.int64(seqs[g]), regs), spec, regs, rows, links)
        bind(k, seq, regs, work)
        node, sibling = spec[spec[spec[PATH] + 2 * k]], spec[spec[spec[PATH] + 2 * k] + 1]
        before = end_of(k, seq, spec, regs, rows)
        made, suppressed = regs[counts + MADE], regs[counts + SUPPRESSED]
        done = n
        if not wanted(k, before, -1, t, spec, regs, rows, links, bits, work):
            regs[counts + SUPPRESSED] += 1
        elif sibling >= sources:
            forget(spec, work)
            done = complete(
                k, k, before, t, n, spec, regs, rows, links, bits, work, lists, out_ts, out_exp, out_slot
            )
        else:
            h = cross_hash(k, spec, rows, work)
            r = spec[NODE] + sibling * NODE_WORDS
            s = np.int64(links[ix(regs[r + HEADS] + bucket(h, regs[r + BUCKETS]))])
            while done >= 0:
                s = sift(s, sibling, node, before, k, t, spec, regs, rows, links, bits, work)
                s = next_partner(s, sibling, h, t, spec, regs, rows, links, work)
                if s < 0:
                    break
                end = min(before, end_of(sibling, s, spec, regs, rows))
                s = after(sibling, s, spec, regs, links)
                if wanted(node, end, -1, t, spec, regs, rows, links, bits, work):
                    if regs[counts + MADE] == made:
                        forget(spec, work)
                    regs[counts + MADE] += 1
                    done = complete(
                        node, k, end, t, done, spec, regs, rows, links, bits, work, lists, out_ts, out_exp, out_slot
                    )  # fmt: skip
                else:
                    regs[counts + SUPPRESSED] += 1
        if done < 0:
            regs[counts + MADE], regs[counts + SUPPRESSED] = made, suppressed
            return e, n
        n = done
        regs[k * SOURCE_WORDS + SEEN] = seq + 1
        if sibling < sources:
            enter(k, seq, True, spec, regs, rows, links, work)
        count_bare_event(spec, regs)
        if regs[counts + CROWDED]:
            return e + 1, n
    return times.shape[0], n
