"""DISTINCT, INTERSECT and EXCEPT: what is shown of each value, and until when.

One rule serves all three. At an instant let `potential` be the exp a value would get if it were shown
afresh: δ: the greatest left exp; ∩: the smaller of the two sides' greatest; −: the greatest left exp if no
right copy lives. A shown value stays while its potential reaches its announced exp, else it is taken
back; a value not shown is shown as soon as it has a potential.

Where every end is told in advance the input is never stored: three numbers a value suffice (δ*, Golab &
Özsu 2005, §5.3.1). Values are independent, so each is settled on its own clock and the output is
sorted once.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels import calendar
from penstock.kernels.jit import kernel

DISTINCT, INTERSECT, EXCEPT = 0, 1, 2
NEVER = np.iinfo(np.int64).min
FOREVER = np.iinfo(np.int64).max


@kernel
def settle(mode, g, t, left, right, shown, out_time, out_exp, out_gid, out_sign, n):  # type: ignore[no-untyped-def]
    """Apply the rule to one value at one instant; returns the new output length (at most 2 more)."""
    p = left[g]
    if mode == 1:
        p = min(p, right[g])
    elif mode == 2 and right[g] > t:
        p = NEVER
    if shown[g] > t:
        if p >= shown[g]:
            return n
        out_time[n] = t
        out_exp[n] = shown[g]
        out_gid[n] = g
        out_sign[n] = -1
        n += 1
    shown[g] = NEVER
    if p > t:
        out_time[n] = t
        out_exp[n] = p
        out_gid[n] = g
        out_sign[n] = 1
        n += 1
        shown[g] = p
    return n


@kernel
def next_wake(mode, g, t, left, right, shown):  # type: ignore[no-untyped-def]
    """When the value next changes by itself, or is last heard of; FOREVER if never."""
    if shown[g] > t:
        return shown[g]
    if mode == 2 and right[g] > t and left[g] > right[g]:
        return right[g]
    last = max(left[g], right[g])
    return last if last > t else FOREVER


@kernel
def run(mode, g, t, left, right, shown, wake, dirty, out_time, out_exp, out_gid, out_sign, n):  # type: ignore[no-untyped-def]
    """Settle every instant of one value up to t; returns -1 - n if the output is full."""
    room = out_time.shape[0]
    while True:
        u = min(dirty[g], wake[g])
        if u > t or u == FOREVER:
            return n
        if n + 2 > room:
            return -1 - n
        n = settle(mode, g, u, left, right, shown, out_time, out_exp, out_gid, out_sign, n)
        if dirty[g] == u:
            dirty[g] = FOREVER
        wake[g] = next_wake(mode, g, u, left, right, shown)


@kernel
def arrive(  # type: ignore[no-untyped-def]
    mode, begin, times, gids, exps, sides, left, right, shown, wake, dirty, touched, registers,
    out_time, out_exp, out_gid, out_sign, n,
):  # fmt: skip
    """Take arrivals in time order, first settling their values' earlier instants.

    `touched[: registers[0]]` lists values with unsettled arrivals. Returns (rows taken, outputs).
    """
    for i in range(begin, times.shape[0]):
        g = gids[i]
        t = times[i]
        if dirty[g] != t:
            n = run(mode, g, t - 1, left, right, shown, wake, dirty, out_time, out_exp, out_gid, out_sign, n)
            if n < 0:
                return i, -1 - n
            touched[registers[0]] = g
            registers[0] += 1
            dirty[g] = t
        if sides[i] == 0:
            left[g] = max(left[g], exps[i])
        else:
            right[g] = max(right[g], exps[i])
    return times.shape[0], n


@kernel
def finish(  # type: ignore[no-untyped-def]
    mode, begin, now, touched, left, right, shown, wake, dirty, dead, registers,
    head, forth, back, when, cal,
    out_time, out_exp, out_gid, out_sign, n,
):  # fmt: skip
    """Settle the touched values up to `now`, schedule their next wake-up, list those that are gone.

    registers[1] = length of `dead`. Returns (values done, outputs).
    """
    for i in range(begin, touched.shape[0]):
        g = touched[i]
        n = run(mode, g, now, left, right, shown, wake, dirty, out_time, out_exp, out_gid, out_sign, n)
        if n < 0:
            return i, -1 - n
        if back[g] != -1 and when[g] != wake[g]:
            calendar.cancel(g, head, forth, back, cal)
        if back[g] == -1 and wake[g] < FOREVER:
            calendar.put(g, wake[g], head, forth, back, when, cal)
        if left[g] <= now and right[g] <= now and max(left[g], right[g]) > NEVER:
            left[g] = NEVER
            right[g] = NEVER
            shown[g] = NEVER
            wake[g] = FOREVER
            if back[g] != -1:
                calendar.cancel(g, head, forth, back, cal)
            dead[registers[1]] = g
            registers[1] += 1
    return touched.shape[0], n
