"""Sliding counts and sums of integers over a FIFO window, in one pass.

The window is a ring: exp, group, link to the group's next member, and a row of summands per member. A group's
state is one row: size, oldest and newest member, the instant and output row last written, the exp of the row
shown, and its totals. Everything an event touches lies in two cache lines.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.jit import kernel

SIZE, OLDEST, NEWEST, TIME, ROW, SHOWN, TOTALS = 0, 1, 2, 3, 4, 5, 6
NEVER = np.iinfo(np.int64).min
BLANK = (0, -1, -1, 0, -1, NEVER)

FRONT, LENGTH = 0, 1


@kernel
def slide(
    times, ends, gids, summands, now, forever, absent, ring_exp, ring_gid, ring_later, ring_sums, registers,
    state, out_time, out_exp, out_was, out_gid, out_now, out_before,
):  # fmt: skip
    """Take arrivals in time order and let members end until `now`; returns the number of output rows.

    One output row per (instant, group): out_was is the exp of the group's row before, out_now and out_before
    hold (size, totals...) after and before.
    """
    mask = ring_exp.shape[0] - 1
    width = summands.shape[1]
    front = registers[FRONT]
    length = registers[LENGTH]
    n = 0
    i = 0
    arrivals = times.shape[0]
    while True:
        t = times[i] if i < arrivals else now
        ending = length > 0 and ring_exp[front & mask] <= t
        if ending:
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
    for r in range(n):
        state[out_gid[r], ROW] = -1
    registers[FRONT] = front
    registers[LENGTH] = length
    return n


@kernel
def keep_news(n, always, plain, means, out_time, out_exp, out_was, out_gid, out_now, out_before):
    """Drop output rows of emptied groups and rows that repeat what is shown; returns how many stay.

    What is shown: columns `plain` of out_now, and the quotients `means` (rows of two columns).
    """
    kept = 0
    width = out_now.shape[1]
    for r in range(n):
        if out_now[r, 0] == 0 and not always:
            continue
        if out_was[r] == out_exp[r] and out_was[r] > out_time[r]:
            news = False
            for k in plain:
                if out_now[r, k] != out_before[r, k]:
                    news = True
            for m in range(means.shape[0]):
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
            out_was[kept] = out_was[r]
            out_gid[kept] = out_gid[r]
            for k in range(width):
                out_now[kept, k] = out_now[r, k]
        kept += 1
    return kept
