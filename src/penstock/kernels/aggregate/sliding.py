"""Sliding counts and sums of integers over a FIFO window, in one pass.

The window is a ring with one row a member: exp, group, the exp of the group's next member, summands. A group's
state is one row: size, newest member, the instant and output row last written, the exp of the row shown (its
oldest member's), and its totals. An event touches its group's row and the ring's ends; an arrival also writes its exp into the
member before it. What events to come will touch is fetched ahead.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.compile import inline, kernel, prefetch

SIZE, NEWEST, TIME, ROW, SHOWN, TOTALS = 0, 1, 2, 3, 4, 6
NEVER = np.iinfo(np.int64).min
FOREVER = np.iinfo(np.int64).max
BLANK = (0, -1, 0, -1, NEVER, 0)
"""A group without members; the last word is spare, so that two totals fill a cache line."""

EXP, GROUP, NEXT, SUMMANDS = 0, 1, 2, 3
FRONT, LENGTH, EMPTIED, COUNTED = 0, 1, 2, 3
"""Registers; COUNTED: arguments are counted apart from members."""
AHEAD = 16
"""How many events before its turn a group is fetched."""


@inline
def close(start, n, plain, some, means, out_time, out_exp, out_gid, out_now, before, emptied, registers):
    """End an instant: of its rows [start, n) keep those that say something new; returns the new length.

    Rows of emptied groups go (the groups are listed in `emptied`, registers[EMPTIED] of them), and so do rows that
    repeat what is shown: columns `plain` of out_now, whether those in `some` are 0, and the quotients `means` (rows of
    two columns).
    """
    kept = start
    for r in range(start, n):
        if out_now[0, r] == 0:
            emptied[registers[EMPTIED]] = out_gid[r]
            registers[EMPTIED] += 1
            continue
        b = r - start
        if before[b, 0] == out_exp[r]:
            news = False
            for k in plain:
                if out_now[k, r] != before[b, 1 + k]:
                    news = True
                    break
            for k in some:
                if (out_now[k, r] > 0) != (before[b, 1 + k] > 0):
                    news = True
            for m in range(means.shape[0]):
                if news:
                    break
                total, count = means[m, 0], means[m, 1]
                now, was = out_now[count, r], before[b, 1 + count]
                if (now > 0) != (was > 0):
                    news = True
                elif now > 0 and out_now[total, r] / now != before[b, 1 + total] / was:
                    news = True
            if not news:
                continue
        if kept < r:
            out_time[kept] = out_time[r]
            out_exp[kept] = out_exp[r]
            out_gid[kept] = out_gid[r]
            for k in range(out_now.shape[0]):
                out_now[k, kept] = out_now[k, r]
        kept += 1
    return kept


@kernel
def slide(
    shape, begin, start, n, times, ends, gids, summands, now, ring, registers, state, plain, some, means,
    out_time, out_exp, out_gid, out_now, before, emptied,
):  # fmt: skip
    """Take arrivals from `begin` on in time order and let members end until `now`; stops where the ring is full.

    One output row per (instant, group) that says something new; out_now holds size and totals, one row each. An
    instant is closed before the next begins, if there is doubt that all its rows stay; what its groups showed and held
    until then is in `before` (exp, size, totals...), one row per output row [start, n) of it. `shape` is as long as there
    are summands: with a tuple the kernel is compiled for their number, with an array for any. Returns (arrivals taken, start, n).
    """
    mask = ring.shape[0] - 1
    width = len(shape)
    watched = plain[0] if plain.shape[0] > 0 else -1
    front = registers[FRONT]
    length = registers[LENGTH]
    instant = out_time[n - 1] if n > start else NEVER
    doubt = n > start
    i = begin
    arrivals = times.shape[0]
    while True:
        t = times[i] if i < arrivals else now
        p = np.uint64(front & mask)
        member = ring[p]
        if length > 0 and member[EXP] <= t:
            t = member[EXP]
            soon = ring[np.uint64((front + AHEAD) & mask)]
            prefetch(state[np.uint64(soon[GROUP])], 0)
            front += 1
            length -= 1
            sign = -1
        elif i < arrivals:
            if length > mask:
                break
            p = np.uint64((front + length) & mask)
            member = ring[p]
            member[EXP] = ends[i]
            member[GROUP] = gids[i]
            for k in range(width):
                member[SUMMANDS + k] = summands[i, k]
            length += 1
            i += 1
            sign = 1
            if i + AHEAD < arrivals:
                prefetch(state[np.uint64(gids[i + AHEAD])], 0)
                prefetch(ring[np.uint64(state[np.uint64(gids[i + AHEAD // 2]), NEWEST])], NEXT)
        else:
            break
        if t != instant:
            if doubt:
                n = close(
                    start,
                    n,
                    plain,
                    some,
                    means,
                    out_time,
                    out_exp,
                    out_gid,
                    out_now,
                    before,
                    emptied,
                    registers,
                )
                doubt = False
            start = n
            instant = t
        g = np.uint64(member[GROUP])
        group = state[g]
        size = group[SIZE]
        r = np.uint64(group[ROW])
        if group[ROW] < 0 or group[TIME] != t:
            r = np.uint64(n)
            out_time[r] = t
            out_gid[r] = g
            was = before[n - start]
            was[0] = group[SHOWN]
            was[1] = size
            for k in range(width):
                was[2 + k] = group[TOTALS + k]
            group[ROW] = n
            group[TIME] = t
            n += 1
        else:
            doubt = True
        until = group[SHOWN]
        if sign > 0:
            if size == 0:
                until = member[EXP]
            else:
                ring[np.uint64(group[NEWEST]), NEXT] = member[EXP]
            group[NEWEST] = p
        else:
            until = member[NEXT]
        size += sign
        group[SIZE] = size
        out_now[0, r] = size
        for k in range(width):
            total = group[TOTALS + k] + sign * member[SUMMANDS + k]
            group[TOTALS + k] = total
            out_now[1 + k, r] = total
        if size > 0:
            out_exp[r] = until
            if until == group[SHOWN] and watched != 0:
                doubt |= watched < 0 or member[SUMMANDS - 1 + watched] == 0
            group[SHOWN] = until
        else:
            doubt = True
            out_exp[r] = FOREVER
            group[SHOWN] = NEVER
    if i == arrivals:
        if doubt:
            n = close(
                start, n, plain, some, means, out_time, out_exp, out_gid, out_now, before, emptied, registers
            )
        start = n
    registers[FRONT] = front
    registers[LENGTH] = length
    return i, start, n


@kernel
def due(ring, registers, now):
    """How many members end by `now` (exp does not fall along the ring)."""
    mask = ring.shape[0] - 1
    low, high = 0, registers[LENGTH]
    while low < high:
        middle = (low + high) // 2
        if ring[(registers[FRONT] + middle) & mask, EXP] <= now:
            low = middle + 1
        else:
            high = middle
    return low
