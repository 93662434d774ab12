"""SteMs whose rows were built out of time order: chains by key and tier, and their probes, whole or one level at a time.

A tier is the level that a row had when it was built, 0 if nobody had looked. Rows that have ended, and stay for what came before, are in
tiers of their own (OVER), in whose chains they follow each other from the last that ended to the first; those that had ended when they
were built in others (LATE). So a pass over one level looks at rows of that level only, and hardly anybody at rows that ended too early.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.compile import inline, ix, kernel
from penstock.kernels.hash.mix import mix

OVER, LATE = 256, 512
"""Added to the tier of rows that have ended; that had, when they were built."""


@inline
def bucket(key, tier, mask):
    """Tiers of a key are as far apart as other keys."""
    return np.int64(mix(np.uint64(key) + np.uint64(tier) * np.uint64(0xD6E8FEB86659FD93)) & mask)


@kernel
def link(slots, key, tier, head, chain, back):
    """Add slots to chains that can be left again (`chains.unlink_slots`); `back` of a first slot is -(bucket + 2)."""
    mask = np.uint64(head.shape[0] - 1)
    for i in range(slots.shape[0]):
        s = slots[i]
        b = bucket(key[s], tier[s], mask)
        first = head[b]
        chain[s] = first
        back[s] = -(b + 2)
        if first >= 0:
            back[first] = s
        head[b] = s


@kernel
def relink(old, key, tier, head, chain, back):
    """Link all slots of the chains that begin at `old` into a fresh table, in the order in which they follow each other."""
    mask = np.uint64(head.shape[0] - 1)
    head[:] = -1
    for bucket_ in range(old.shape[0]):
        s = np.int64(old[bucket_])
        if s < 0:
            continue
        while chain[s] >= 0:
            s = np.int64(chain[s])
        while s >= 0:
            before = np.int64(back[s])
            b = bucket(key[s], tier[s], mask)
            first = head[b]
            chain[s] = first
            back[s] = -(b + 2)
            if first >= 0:
                back[first] = s
            head[b] = s
            s = before


@kernel
def probe_all(
    keys, since, until, seq, begin, only, key, head, chain, ts, exp, built, out_row, out_slot, tally
):
    """`probe` of everything, where all rows are in one tier."""
    mask = np.uint64(head.shape[0] - 1)
    room = out_row.shape[0]
    n = 0
    looked = 0
    for i in range(begin, keys.shape[0]):
        k = keys[i]
        mark = n
        before = looked
        s = np.int64(head[ix(bucket(k, only, mask))])
        while s >= 0:
            looked += 1
            if key[ix(s)] == k and built[ix(s)] < seq[i] and exp[ix(s)] > since[i] and ts[ix(s)] < until[i]:
                if n == room:
                    tally[0] += before
                    return i, mark
                out_row[ix(n)] = i
                out_slot[ix(n)] = s
                n += 1
            s = np.int64(chain[ix(s)])
    tally[0] += looked
    return keys.shape[0], n


@kernel
def probe(
    keys, since, until, seq, first, depth, few, begin, tiers, over, key, tier, head, chain, ts, exp, built,
    out_row, out_slot, beyond, tally,
):  # fmt: skip
    """Partners of partial results: rows built before the row that drives the partial result, alive together with it.

    `since`, `until`: when a partial result is alive; `seq`: when its driving row was built; it meets levels from `first` down to
    `depth`, and all the others too if no more than `few` rows are to be looked at for that. `beyond`: the best level at which it has
    partners left, 0 if it has none. `tiers`: those that hold rows, by level; rows in tiers of the ended end at
    `over` or before. `tally[0]` counts the rows looked at,
    once each: what a row costs must not hang on how much room there was. Stops before the first partial result whose partners do not fit;
    returns (partial results done, pairs).
    """
    mask = np.uint64(head.shape[0] - 1)
    room = out_row.shape[0]
    kinds = tiers.shape[0]
    lowest = tiers[kinds - 1] & (OVER - 1) if kinds else 0
    n = 0
    looked = 0
    for i in range(begin, keys.shape[0]):
        k = keys[i]
        alive, ends, number, top, down = since[i], until[i], seq[i], first[i], depth[i]
        mark = n
        before = looked
        if lowest <= down:  # all there is
            for j in range(kinds):
                t = tiers[ix(j)]
                if (t & (OVER - 1)) < top or (t >= OVER and alive >= over):
                    continue
                s = np.int64(head[ix(bucket(k, t, mask))])
                while s >= 0:
                    looked += 1
                    if key[ix(s)] == k and tier[ix(s)] == t:
                        if exp[ix(s)] > alive:
                            if built[ix(s)] < number and ts[ix(s)] < ends:
                                if n == room:
                                    tally[0] += before
                                    return i, mark
                                out_row[ix(n)] = i
                                out_slot[ix(n)] = s
                                n += 1
                        elif OVER <= t < LATE:
                            break
                    s = np.int64(chain[ix(s)])
            continue
        met = n  # pairs within the depth
        most = np.int64(1) << 62
        best = np.int64(0)
        for j in range(kinds):
            t = tiers[ix(j)]
            level = t & (OVER - 1)
            if level < top or (t >= OVER and alive >= over):
                continue
            if level > down and most > looked + few:
                met = n
                most = looked + few
            s = np.int64(head[ix(bucket(k, t, mask))])
            while s >= 0:
                looked += 1
                if key[ix(s)] == k and tier[ix(s)] == t:
                    if exp[ix(s)] <= alive:
                        if OVER <= t < LATE:
                            break
                    elif built[ix(s)] < number and ts[ix(s)] < ends:
                        if best == 0 and level > down:
                            best = level
                        if looked <= most:
                            if n == room:
                                tally[0] += before
                                return i, mark
                            out_row[ix(n)] = i
                            out_slot[ix(n)] = s
                            n += 1
                if looked > most and best > 0:
                    break
                s = np.int64(chain[ix(s)])
            if looked > most and best > 0:
                break
        if looked > most and best > 0:
            n = met
            beyond[ix(i)] = best
    tally[0] += looked
    return keys.shape[0], n


@kernel
def supported(keys, since, until, seq, tiers, over, key, tier, head, chain, ts, exp, built, out, tally):
    """Which partial results have a partner at all, of those that `probe` would find: the first one decides."""
    mask = np.uint64(head.shape[0] - 1)
    kinds = tiers.shape[0]
    looked = 0
    for i in range(keys.shape[0]):
        k, alive, ends, number = keys[i], since[i], until[i], seq[i]
        found = False
        for j in range(kinds):
            t = tiers[ix(j)]
            if t >= OVER and alive >= over:
                continue
            s = np.int64(head[ix(bucket(k, t, mask))])
            while s >= 0:
                looked += 1
                if key[ix(s)] == k and tier[ix(s)] == t:
                    if exp[ix(s)] > alive:
                        if built[ix(s)] < number and ts[ix(s)] < ends:
                            found = True
                            break
                    elif OVER <= t < LATE:
                        break
                s = np.int64(chain[ix(s)])
            if found:
                break
        out[ix(i)] = found
    tally[0] += looked
