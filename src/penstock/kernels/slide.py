"""Sliding counts and sums of integers over a FIFO window, in one pass.

The window is a ring: exp, group, link to the group's next member, and a row of summands per member. A group's
state is one row: size, oldest and newest member, the instant and output row last written, the exp of the row
shown, and its totals. Everything an event touches lies in two cache lines.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.jit import inline, kernel

SIZE, OLDEST, NEWEST, TIME, ROW, SHOWN, TOTALS = 0, 1, 2, 3, 4, 5, 6
NEVER = np.iinfo(np.int64).min
BLANK = (0, -1, -1, 0, -1, NEVER)

FRONT, LENGTH, EMPTIED = 0, 1, 2


@inline
def close(
    start, n, plain, means, out_time, out_exp, out_was, out_gid, out_now, out_before, emptied, registers
):
    """End an instant: of its rows [start, n) keep those that say something new; returns the new length.

    Rows of emptied groups go (the groups are listed in `emptied`, registers[EMPTIED] of them), and so do rows that
    repeat what is shown: columns `plain` of out_now and the quotients `means` (rows of two columns).
    """
    kept = start
    for r in range(start, n):
        if out_now[r, 0] == 0:
            emptied[registers[EMPTIED]] = out_gid[r]
            registers[EMPTIED] += 1
            continue
        if out_was[r] == out_exp[r]:
            news = False
            for k in plain:
                if out_now[r, k] != out_before[r, k]:
                    news = True
            for m in range(means.shape[0]):
                if news:
                    break
                a, b = means[m, 0], means[m, 1]
                if (out_now[r, b] > 0) != (out_before[r, b] > 0):
                    news = True
                elif (
                    out_now[r, b] > 0 and out_now[r, a] / out_now[r, b] != out_before[r, a] / out_before[r, b]
                ):
                    news = True
            if not news:
                continue
        if kept < r:
            out_time[kept] = out_time[r]
            out_exp[kept] = out_exp[r]
            out_gid[kept] = out_gid[r]
            for k in range(out_now.shape[1]):
                out_now[kept, k] = out_now[r, k]
        kept += 1
    return kept


@kernel
def slide(
    times, ends, gids, summands, now, forever, absent, ring_exp, ring_gid, ring_later, ring_sums, registers,
    state, plain, means, out_time, out_exp, out_was, out_gid, out_now, out_before, emptied,
):  # fmt: skip
    """Take arrivals in time order and let members end until `now`; returns the number of output rows.

    One output row per (instant, group) that says something new. out_now holds (size, totals...); out_was (the exp
    of the group's row before) and out_before (what it held) are scratch. An instant is closed before the next
    begins, while its rows are still in the cache.
    """
    mask = ring_exp.shape[0] - 1
    width = summands.shape[1]
    front = registers[FRONT]
    length = registers[LENGTH]
    registers[EMPTIED] = 0
    n = 0
    start = 0
    instant = NEVER
    i = 0
    arrivals = times.shape[0]
    while True:
        t = times[i] if i < arrivals else now
        if length > 0 and ring_exp[front & mask] <= t:
            p = front & mask
            t = ring_exp[p]
            front += 1
            length -= 1
            sign = -1
        elif i < arrivals:
            p = (front + length) & mask
            ring_exp[p] = ends[i]
            ring_gid[p] = gids[i]
            for k in range(width):
                ring_sums[p, k] = summands[i, k]
            length += 1
            i += 1
            sign = 1
        else:
            break
        if t != instant:
            start = close(
                start,
                n,
                plain,
                means,
                out_time,
                out_exp,
                out_was,
                out_gid,
                out_now,
                out_before,
                emptied,
                registers,
            )
            n = start
            instant = t
        g = ring_gid[p]
        size = state[g, SIZE]
        r = state[g, ROW]
        if r < 0 or state[g, TIME] != t:
            r = n
            n += 1
            out_time[r] = t
            out_gid[r] = g
            out_was[r] = state[g, SHOWN]
            out_before[r, 0] = size
            for k in range(width):
                out_before[r, 1 + k] = state[g, TOTALS + k]
            state[g, ROW] = r
            state[g, TIME] = t
        if sign > 0:
            if size == 0:
                state[g, OLDEST] = p
            else:
                ring_later[state[g, NEWEST]] = p
            state[g, NEWEST] = p
        else:
            state[g, OLDEST] = ring_later[p]
        size += sign
        state[g, SIZE] = size
        out_now[r, 0] = size
        for k in range(width):
            total = state[g, TOTALS + k] + sign * ring_sums[p, k]
            state[g, TOTALS + k] = total
            out_now[r, 1 + k] = total
        until = ring_exp[state[g, OLDEST]] if size > 0 else forever
        out_exp[r] = until
        state[g, SHOWN] = until if size > 0 else absent
    registers[FRONT] = front
    registers[LENGTH] = length
    return close(
        start, n, plain, means, out_time, out_exp, out_was, out_gid, out_now, out_before, emptied, registers
    )
