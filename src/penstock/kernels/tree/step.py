"""The events of a step, one after the other: take up what waited for a row, then let it climb its tree."""

from __future__ import annotations

import numpy as np

from penstock.kernels.compile import ix, kernel, part
from penstock.kernels.tree.climb import (
    BUCKETS,
    COUNT,
    CROWDED,
    DEMAND,
    ENDS,
    FILLED,
    HASH,
    HEADS,
    JIT,
    MADE,
    MARK,
    NODE,
    NODE_WORDS,
    OFF,
    PATH,
    RESUMED,
    ROOT,
    SEEN,
    SOURCE_WORDS,
    SOURCES,
    STEP,
    SUPPRESSED,
    SUSPENDED,
    WAITED,
    after,
    answer,
    bind,
    bucket,
    cross_hash,
    end_of,
    enter,
    insert,
    next_partner,
    row_at,
    take_back,
)
from penstock.kernels.tree.demand import sift, wanted
from penstock.kernels.tree.demand_gate import count_event, resting
from penstock.kernels.tree.partners import disappear
from penstock.kernels.tree.prefetch import GROUP, look_ahead, look_further
from penstock.kernels.tree.resume import let_sleep, resume


@part
def climb(k, seq, t, n, asks, spec, regs, rows, links, bits, work, out_ts, out_exp, out_slot):
    """Everything that a row makes on its way to the root; returns the results there are then, -1 if room is short. `asks`: what
    nobody supports is not made."""
    sources = spec[SOURCES]
    at, levels = spec[spec[PATH] + 2 * k], spec[spec[PATH] + 2 * k + 1]
    step, ends, hashes = work[STEP], work[ENDS], work[HASH]
    before = end_of(k, seq, spec, regs, rows)
    hashes[0] = cross_hash(k, spec, rows, work)
    sifts = asks and spec[DEMAND] == JIT and spec[at + 1] < sources and levels > 1
    level = 0
    down = True
    while level >= 0:
        node, sibling = spec[at + 2 * level], spec[at + 2 * level + 1]
        if down:
            r = spec[NODE] + sibling * NODE_WORDS
            step[level] = links[ix(regs[r + HEADS] + bucket(hashes[level], regs[r + BUCKETS]))]
        if sifts and level == 0:
            step[0] = sift(step[0], sibling, node, before, k, t, spec, regs, rows, links, bits, work)
        s = next_partner(step[level], sibling, hashes[level], t, spec, regs, rows, links, work)
        if s < 0:
            level -= 1
            down = False
            continue
        step[level] = after(sibling, s, spec, regs, links)
        end = min(before if level == 0 else ends[level - 1], end_of(sibling, s, spec, regs, rows))
        ends[level] = end
        down = False
        if level + 1 == levels:
            n = answer(n, t, end, spec, regs, work, out_ts, out_exp, out_slot)
            if n < 0:
                return n
            continue
        if asks and not wanted(node, end, -1, t, spec, regs, rows, links, bits, work):
            regs[spec[COUNT] + SUPPRESSED] += 1
            continue
        h = cross_hash(node, spec, rows, work)
        if not insert(node, h, end, spec, regs, rows, links, work):
            return np.int64(-1)
        regs[spec[COUNT] + MADE] += 1
        hashes[level + 1] = h
        level += 1
        down = True
    return n


@kernel
def run(
    begin, times, sides, seqs, spec, regs, rows, links, bits, work, lists, out_ts, out_exp, out_slot
):  # fmt: skip
    """Rows in (time, side) order. Stops before one for which room is short, and after one that has filled a pane; returns (rows done, results)."""
    n = np.int64(0)
    sources = spec[SOURCES]
    counts = spec[COUNT]
    for e in range(begin, times.shape[0]):
        k = np.int64(sides[e])
        seq = np.int64(seqs[e])
        t = times[e]
        for u in range(sources, spec[ROOT]):
            work[MARK, u] = regs[spec[NODE] + u * NODE_WORDS + FILLED]
        made, suppressed, resumed = regs[counts + MADE], regs[counts + SUPPRESSED], regs[counts + RESUMED]
        bind(k, seq, regs, work)
        asks = spec[DEMAND] != OFF and not resting(spec, regs)
        if asks and spec[DEMAND] == JIT and e % GROUP == 0 and e + 3 * GROUP <= times.shape[0]:
            look_ahead(e + GROUP, sides, seqs, spec, regs, rows, links, work)
            for g in range(e + 2 * GROUP, e + 3 * GROUP):
                look_further(np.int64(sides[g]), np.int64(seqs[g]), spec, regs, rows, links, bits)
        done = n
        active = True
        if spec[DEMAND] != OFF:
            work[MARK, 0] = 0
            regs[k * SOURCE_WORDS + SEEN] = seq + 1
            if regs[k * SOURCE_WORDS + WAITED] != 0:
                if not resume(k, seq, t, spec, regs, rows, links, bits, work, lists):
                    done = np.int64(-1)
                bind(k, seq, regs, work)
            if asks and done >= 0:
                end = rows[ix(row_at(k, seq, regs))]
                active = wanted(k, end, -1, t, spec, regs, rows, links, bits, work)
                if not active:
                    regs[counts + SUSPENDED] += 1
        if active and done >= 0:
            done = climb(k, seq, t, n, asks, spec, regs, rows, links, bits, work, out_ts, out_exp, out_slot)
        if done < 0:
            for u in range(sources, spec[ROOT]):
                take_back(u, work[MARK, u], spec, regs, rows, links)
            if spec[DEMAND] != OFF:
                let_sleep(spec, regs, rows, links, work, lists)
                disappear(k, seq, spec, regs, rows, links)
            regs[counts + MADE], regs[counts + SUPPRESSED], regs[counts + RESUMED] = made, suppressed, resumed
            return e, n
        n = done
        if spec[DEMAND] == OFF:
            regs[k * SOURCE_WORDS + SEEN] = seq + 1
        elif spec[DEMAND] == JIT:
            count_event(spec, regs)
        enter(k, seq, active, spec, regs, rows, links, work)
        if regs[counts + CROWDED]:
            return e + 1, n
    return times.shape[0], n
