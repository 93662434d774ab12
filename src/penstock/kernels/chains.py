"""Hash chains over slots: the index of a SteM (newest first), its probes, and the two-way join.

A chain is `head[bucket] → chain[slot] → …`; a slot below `tail` has expired and, in a FIFO SteM, so has
everything behind it.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.hashing import mix
from penstock.kernels.jit import kernel


@kernel
def link(key, first, last, head, chain):  # type: ignore[no-untyped-def]
    """Add slots [first, last) of a SteM to its chains."""
    mask = np.uint64(head.shape[0] - 1)
    for s in range(first, last):
        b = mix(key[s]) & mask
        chain[s] = head[b]
        head[b] = s


@kernel
def link_slots(slots, key, head, chain, back):  # type: ignore[no-untyped-def]
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
def unlink_slots(slots, head, chain, back):  # type: ignore[no-untyped-def]
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
def relink_slots(key, head, chain, back):  # type: ignore[no-untyped-def]
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
def probe(keys, times, begin, key, head, chain, tail, ts, end, fifo, tie, out_row, out_slot):  # type: ignore[no-untyped-def]
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
        while s >= tail:
            if end[s] <= t:
                if fifo:
                    break
            elif key[s] == k and (ts[s] < t or (tie and ts[s] == t)):
                if n == room:
                    return i, mark
                out_row[n] = i
                out_slot[n] = s
                n += 1
            s = chain[s]
    return keys.shape[0], n


@kernel
def probe_back(keys, ends, begin, key, head, chain, exp, end, fresh, tie, out_row, out_slot):  # type: ignore[no-untyped-def]
    """Partners of results that end early at `ends[i]`: alive until then, not themselves ending before.

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
            if key[s] == k and not fresh[s] and exp[s] > t and (end[s] > t or (tie and end[s] == t)):
                if n == room:
                    return i, mark
                out_row[n] = i
                out_slot[n] = s
                n += 1
            s = chain[s]
    return keys.shape[0], n


@kernel
def join2(  # type: ignore[no-untyped-def]
    i, i_end, j, j_end,
    l_ts, l_exp, l_key, l_head, l_chain, l_tail,
    r_ts, r_exp, r_key, r_head, r_chain, r_tail,
    base_l, base_r, out_ts, out_exp, out_l, out_r,
):  # fmt: skip
    """Join rows i..i_end of the left SteM with rows j..j_end of the right, event at a time.

    Each row, in (ts, side) order, first probes the other side and then enters its own chains: every
    result is made once, by its last arrival, in time order. ts arrays cover the new rows only (from
    `base_l`, `base_r`). Returns (i, j, results); stops before a row whose results do not fit.
    """
    l_mask = np.uint64(l_head.shape[0] - 1)
    r_mask = np.uint64(r_head.shape[0] - 1)
    room = out_l.shape[0]
    n = 0
    while i < i_end or j < j_end:
        if j >= j_end or (i < i_end and l_ts[i - base_l] <= r_ts[j - base_r]):
            k = l_key[i]
            t = l_ts[i - base_l]
            e = l_exp[i]
            mark = n
            h = mix(k)
            s = r_head[h & r_mask]
            while s >= r_tail:
                x = r_exp[s]
                if x <= t:
                    break
                if r_key[s] == k:
                    if n == room:
                        return i, j, mark
                    out_ts[n] = t
                    out_exp[n] = min(e, x)
                    out_l[n] = i
                    out_r[n] = s
                    n += 1
                s = r_chain[s]
            b = h & l_mask
            l_chain[i] = l_head[b]
            l_head[b] = i
            i += 1
        else:
            k = r_key[j]
            t = r_ts[j - base_r]
            e = r_exp[j]
            mark = n
            h = mix(k)
            s = l_head[h & l_mask]
            while s >= l_tail:
                x = l_exp[s]
                if x <= t:
                    break
                if l_key[s] == k:
                    if n == room:
                        return i, j, mark
                    out_ts[n] = t
                    out_exp[n] = min(e, x)
                    out_l[n] = s
                    out_r[n] = j
                    n += 1
                s = l_chain[s]
            b = h & r_mask
            r_chain[j] = r_head[b]
            r_head[b] = j
            j += 1
    return i, j, n
