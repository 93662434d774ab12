"""DISTINCT, INTERSECT and EXCEPT: what is shown of each value, and until when.

One rule serves all three. At an instant let `potential` be the exp a value would get if it were shown
afresh: δ: the greatest left exp; ∩: the smaller of the two sides' greatest; −: the greatest left exp if no
right copy lives. A shown value stays while its potential reaches its announced exp, else it is taken
back; a value not shown is shown as soon as it has a potential.

Where every end is told in advance the input is never stored: a few numbers a value suffice (δ*, Golab &
Özsu 2005, §5.3.1). They lie side by side in one row of `state`, so that an arrival touches one cache line.
Values are independent: each is settled on its own clock and the output is sorted once.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels import calendar
from penstock.kernels.jit import inline, ix, kernel

DISTINCT, INTERSECT, EXCEPT = 0, 1, 2
NEVER = np.iinfo(np.int64).min
FOREVER = np.iinfo(np.int64).max

LEFT, RIGHT, SHOWN, WAKE, DIRTY, LISTED, TIME, ROW = 0, 1, 2, 3, 4, 5, 6, 7
BLANK = np.array([NEVER, NEVER, NEVER, FOREVER, FOREVER, 0, NEVER, 0], np.int64)
"""State of a value nobody has seen: greatest exps, exp shown, next wake-up, unsettled instant, listed or not, and
the instant and output row at which it was last shown. One cache line."""


@inline
def settle(mode, g, t, state, out, n):
    """Apply the rule to one value at one instant; returns the new output length (at most 2 more).

    A row of `out` is (time, exp, value, sign).
    """
    p = state[g, LEFT]
    if mode == INTERSECT:
        p = min(p, state[g, RIGHT])
    elif mode == EXCEPT and state[g, RIGHT] > t:
        p = NEVER
    shown = state[g, SHOWN]
    if shown > t:
        if p >= shown:
            return n
        out[n, 0] = t
        out[n, 1] = shown
        out[n, 2] = g
        out[n, 3] = -1
        n += 1
    state[g, SHOWN] = NEVER
    if p > t:
        out[n, 0] = t
        out[n, 1] = p
        out[n, 2] = g
        out[n, 3] = 1
        n += 1
        state[g, SHOWN] = p
    return n


@inline
def next_wake(mode, g, t, state):
    """When the value next changes by itself, or is last heard of; FOREVER if never."""
    if state[g, SHOWN] > t:
        return state[g, SHOWN]
    left, right = state[g, LEFT], state[g, RIGHT]
    if mode == EXCEPT and right > t and left > right:
        return right
    last = max(left, right)
    return last if last > t else FOREVER


@inline
def run(mode, g, t, state, out, n):
    """Settle every instant of one value up to t; returns -1 - n if the output is full."""
    while True:
        u = min(state[g, DIRTY], state[g, WAKE])
        if u > t or u == FOREVER:
            return n
        if n + 2 > out.shape[0]:
            return -1 - n
        n = settle(mode, g, u, state, out, n)
        if state[g, DIRTY] == u:
            state[g, DIRTY] = FOREVER
        state[g, WAKE] = next_wake(mode, g, u, state)


@inline
def is_quiet(mode, t, side, value):
    """Whether one more copy changes nothing now: of a shown value, or of one that stays hidden."""
    if value[DIRTY] != FOREVER or value[WAKE] <= t:
        return False
    if mode == EXCEPT and (value[RIGHT] > t or side == RIGHT):
        return value[RIGHT] > t
    return value[SHOWN] > t


@kernel
def arrive(mode, i, j, l_times, l_exps, l_gids, r_times, r_exps, r_gids, state, touched, registers, out, n):
    """Take the arrivals of both sides, from rows i and j on, in time order, first settling their values' earlier instants.

    An arrival that changes nothing by itself only moves a number: the value's wake-up may then be early, never late.
    `touched[: registers[0]]` lists values to finish. Returns (rows taken of each side, outputs).
    """
    lefts, rights = l_times.shape[0], r_times.shape[0]
    while i < lefts or j < rights:
        if j >= rights or (i < lefts and l_times[ix(i)] <= r_times[ix(j)]):
            side = LEFT
            g, t, e = l_gids[ix(i)], l_times[ix(i)], l_exps[ix(i)]
        else:
            side = RIGHT
            g, t, e = r_gids[ix(j)], r_times[ix(j)], r_exps[ix(j)]
        value = state[ix(g)]
        if not is_quiet(mode, t, side, value):
            if min(value[DIRTY], value[WAKE]) < t:
                n = run(mode, g, t - 1, state, out, n)
                if n < 0:
                    return i, j, -1 - n
            if not is_quiet(mode, t, side, value):
                if value[LISTED] == 0:
                    value[LISTED] = 1
                    touched[registers[0]] = g
                    registers[0] += 1
                value[DIRTY] = t
        if side == LEFT:
            value[LEFT] = max(value[LEFT], e)
            i += 1
        else:
            value[RIGHT] = max(value[RIGHT], e)
            j += 1
    return i, j, n


@kernel
def arrive_distinct(begin, times, gids, exps, state, touched, registers, out, n):
    """`arrive` for DISTINCT, where one more copy either changes nothing or is shown at once.

    A copy with a greater exp in the instant in which its value was first shown takes that row over.
    """
    for i in range(begin, times.shape[0]):
        g, t, e = gids[ix(i)], times[ix(i)], exps[ix(i)]
        value = state[ix(g)]
        shown = value[SHOWN]
        left = max(value[LEFT], e)
        if shown > t:
            value[LEFT] = left
            if e > shown and value[TIME] == t:
                out[value[ROW], 1] = e
                value[SHOWN] = e
                value[WAKE] = e
            continue
        if n + 2 > out.shape[0]:
            return i, n
        if value[LISTED] == 0:
            value[LISTED] = 1
            touched[registers[0]] = g
            registers[0] += 1
        youngest = value[LEFT]
        value[LEFT] = left
        if shown != NEVER and shown < t and youngest > shown:
            # The row ended before this instant and its youngest copy followed.
            out[n, 0] = shown
            out[n, 1] = youngest
            out[n, 2] = g
            out[n, 3] = 1
            n += 1
            value[SHOWN] = youngest
            value[WAKE] = youngest
            if youngest > t:
                continue
        out[n, 0] = t
        out[n, 1] = left
        out[n, 2] = g
        out[n, 3] = 1
        value[SHOWN] = left
        value[WAKE] = left
        value[TIME] = t
        value[ROW] = n
        n += 1
    return times.shape[0], n


@kernel
def list_due(due, state, touched, registers):
    """Values that wake up are to be finished too."""
    for g in due:
        if state[g, LISTED] == 0:
            state[g, LISTED] = 1
            touched[registers[0]] = g
            registers[0] += 1


@kernel
def finish(mode, begin, now, touched, state, dead, registers, head, forth, back, when, cal, out, n):
    """Settle the touched values up to `now`, schedule their next wake-up, list those that are gone.

    registers[1] = length of `dead`. Returns (values done, outputs).
    """
    for i in range(begin, registers[0]):
        g = touched[i]
        n = run(mode, g, now, state, out, n)
        if n < 0:
            return i, -1 - n
        state[g, LISTED] = 0
        wake = state[g, WAKE]
        if back[g] != -1 and when[g] != wake:
            calendar.cancel(g, head, forth, back, cal)
        if back[g] == -1 and wake < FOREVER:
            calendar.put(g, wake, head, forth, back, when, cal)
        last = max(state[g, LEFT], state[g, RIGHT])
        if last <= now and last > NEVER:
            state[g, LEFT] = NEVER
            state[g, RIGHT] = NEVER
            state[g, SHOWN] = NEVER
            state[g, WAKE] = FOREVER
            if back[g] != -1:
                calendar.cancel(g, head, forth, back, cal)
            dead[registers[1]] = g
            registers[1] += 1
    return registers[0], n


@kernel
def lay_out(out, keys, low, begins, times, exps, gids, signs):
    """The rows of `out` in the order of their keys, by counting (begins: zeros, one for every key from `low` on and one
    more)."""
    for r in range(keys.shape[0]):
        begins[keys[r] - low + 1] += 1
    for k in range(1, begins.shape[0]):
        begins[k] += begins[k - 1]
    for r in range(keys.shape[0]):
        k = keys[r] - low
        at = begins[k]
        begins[k] = at + 1
        times[at] = out[r, 0]
        exps[at] = out[r, 1]
        gids[at] = out[r, 2]
        signs[at] = out[r, 3]
