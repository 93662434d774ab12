"""DISTINCT, INTERSECT and EXCEPT: what is shown of each value, and until when.

One rule serves all three. At an instant let `potential` be the exp a value would get if it were shown
afresh: δ: the greatest left exp; ∩: the smaller of the two sides' greatest; −: the greatest left exp if no
right copy lives. A shown value stays while its potential reaches its announced exp, else it is taken
back; a value not shown is shown as soon as it has a potential.

Where every end is told in advance the input is never stored: two or three numbers a value suffice (δ*, Golab &
Özsu 2005, §5.3.1). They lie side by side in one row of `state`, and all else follows from them: a row that is shown
changes by itself only when it ends, a value that is hidden only when its last right copy ends. So a copy that changes nothing moves
one number, and touches nothing else.

Values are independent: each is settled on its own clock and the output is sorted once.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.compile import inline, ix, kernel, part, prefetch
from penstock.kernels.state import calendar

DISTINCT, INTERSECT, EXCEPT = 0, 1, 2
NEVER = np.iinfo(np.int64).min
FOREVER = np.iinfo(np.int64).max

SHOWN, LEFT, RIGHT = 0, 1, 2
BLANK = np.full(4, NEVER)
"""State of a value nobody has seen: exp shown and greatest exps of both sides; the fourth keeps a row within a cache line.
DISTINCT needs the first two."""

OUTPUTS_PER_ROW = 3
"""At most: one of the value before the instant (`catch_up`), two in it (`settle`)."""
AHEAD, LARGE = 16, 1 << 15
"""Rows that the state of a row's value is asked for before its turn, and from how many words of state on: fewer are in the cache."""


@inline
def potential(mode, g, t, state):
    """The exp of a value if it were shown afresh; NEVER if it may not be."""
    p = state[g, LEFT]
    if mode == INTERSECT:
        p = min(p, state[g, RIGHT])
    elif mode == EXCEPT and state[g, RIGHT] > t:
        p = NEVER
    return p


@inline
def tell(t, exp, g, sign, out, n):
    """A row of `out` is (time, exp, value, sign)."""
    out[n, 0] = t
    out[n, 1] = exp
    out[n, 2] = g
    out[n, 3] = sign
    return n + 1


@inline
def settle(mode, g, t, state, out, n):
    """Apply the rule to one value at one instant; returns the new output length (at most 2 more)."""
    p = potential(mode, g, t, state)
    shown = state[g, SHOWN]
    if shown > t:
        if p >= shown:
            return n
        n = tell(t, shown, g, -1, out, n)
    state[g, SHOWN] = NEVER
    if p > t:
        n = tell(t, p, g, 1, out, n)
        state[g, SHOWN] = p
    return n


@inline
def catch_up(mode, g, t, state, out, n):
    """What a value has done by itself before an instant since it was last settled (at most one output); a second time there is nothing to do.

    A row that ended is followed by another if there are younger copies, a value that was hidden is shown if left copies outlive the right ones.
    """
    shown = state[g, SHOWN]
    begins = shown
    if mode == EXCEPT and shown == NEVER and state[g, LEFT] > state[g, RIGHT]:
        begins = state[g, RIGHT]
    if begins != NEVER and begins < t:
        p = potential(mode, g, begins, state)
        if p > begins:
            n = tell(begins, p, g, 1, out, n)
        state[g, SHOWN] = p if p >= t else NEVER
    if mode == EXCEPT and state[g, RIGHT] < t:
        state[g, RIGHT] = NEVER
    return n


@inline
def next_wake(mode, g, state):
    """When a value that is settled next changes by itself, or is last heard of; a value that has no copy: NEVER."""
    if state[g, SHOWN] != NEVER:
        return state[g, SHOWN]
    if mode == DISTINCT:
        return state[g, LEFT]
    left, right = state[g, LEFT], state[g, RIGHT]
    if mode == EXCEPT and right != NEVER and left > right:
        return right
    return max(left, right)


@inline
def last_end(mode, g, state):
    """When the last copy of a value ends."""
    return state[g, LEFT] if mode == DISTINCT else max(state[g, LEFT], state[g, RIGHT])


@inline
def instant_end(i, times, t):
    """Where the rows of an instant end, from row i on."""
    while i < times.shape[0] and times[ix(i)] == t:
        i += 1
    return i


@part
def _arrive(
    mode, i, j, l_times, l_exps, l_gids, rights, r_times, r_exps, r_gids, state, touched, registers, out, n
):
    lefts = l_times.shape[0]
    size, width = out.shape[0], state.shape[1]
    ahead = AHEAD if state.size >= LARGE else lefts + rights
    listed = registers[0]
    while i < lefts or j < rights:
        t = l_times[ix(i)] if i < lefts else FOREVER
        if j < rights:
            t = min(t, r_times[ix(j)])
        first, a, b = listed, i, j
        # An instant is taken whole or not at all: a value that half an instant has settled would not
        # be listed again, and so never be scheduled.
        if n + OUTPUTS_PER_ROW * (lefts - i + rights - j) > size:
            rows = instant_end(i, l_times, t) - i
            if rights:
                rows += instant_end(j, r_times, t) - j
            if n + OUTPUTS_PER_ROW * rows > size:
                break
        while a < lefts and l_times[ix(a)] == t:
            g = l_gids[ix(a)]
            if a + ahead < lefts:
                prefetch(state, l_gids[ix(a + ahead)] * width)
            if state[ix(g), SHOWN] <= t and (mode != EXCEPT or state[ix(g), RIGHT] <= t):
                n = catch_up(mode, ix(g), t, state, out, n)
                touched[ix(listed)] = g
                listed += 1
            state[ix(g), LEFT] = max(state[ix(g), LEFT], l_exps[ix(a)])
            a += 1
        while b < rights and r_times[ix(b)] == t:
            g = r_gids[ix(b)]
            if b + ahead < rights:
                prefetch(state, r_gids[ix(b + ahead)] * width)
            if state[ix(g), RIGHT if mode == EXCEPT else SHOWN] <= t:
                n = catch_up(mode, ix(g), t, state, out, n)
                touched[ix(listed)] = g
                listed += 1
            state[ix(g), RIGHT] = max(state[ix(g), RIGHT], r_exps[ix(b)])
            b += 1
        for k in range(first, listed):
            n = settle(mode, ix(touched[ix(k)]), t, state, out, n)
        i, j = a, b
    registers[0] = listed
    return i, j, n


@kernel
def arrive(mode, i, j, l_times, l_exps, l_gids, r_times, r_exps, r_gids, state, touched, registers, out, n):
    """Take the arrivals of both sides, from rows i and j on, instant by instant: first every copy, then what they make of
    their values.

    A copy that changes nothing (of a shown value, or of one that stays hidden) only moves a number: the value's wake-up may
    then be early, never late. `touched[: registers[0]]` lists the values of the others. Stops before
    an instant that the output may have no room for. Returns (rows taken of each side, outputs).
    """
    rights = r_times.shape[0]
    return _arrive(
        mode,
        i,
        j,
        l_times,
        l_exps,
        l_gids,
        rights,
        r_times,
        r_exps,
        r_gids,
        state,
        touched,
        registers,
        out,
        n,
    )


@kernel
def arrive_distinct(i, times, exps, gids, state, touched, registers, out, n):
    """The same for DISTINCT, compiled for it alone."""
    i, _, n = _arrive(
        DISTINCT, i, 0, times, exps, gids, 0, times, exps, gids, state, touched, registers, out, n
    )
    return i, n


@inline
def forget(mode, g, state):
    """A value without a copy."""
    state[g, SHOWN] = NEVER
    state[g, LEFT] = NEVER
    if mode != DISTINCT:
        state[g, RIGHT] = NEVER


@kernel
def sweep(mode, begin, now, state, dead, registers, out, n):
    """Settle all values from `begin` on up to `now`, in the order they lie in, and list those that are gone.

    registers[1] = length of `dead`. Returns (values done, outputs).
    """
    for g in range(begin, state.shape[0]):
        if state[ix(g), SHOWN] > now:
            continue
        last = last_end(mode, ix(g), state)
        if last == NEVER:
            continue
        if n + 2 > out.shape[0]:
            return g, n
        n = catch_up(mode, ix(g), now + 1, state, out, n)
        if last <= now:
            forget(mode, ix(g), state)
            dead[registers[1]] = g
            registers[1] += 1
    return state.shape[0], n


@kernel
def finish(mode, begin, now, touched, state, dead, registers, head, forth, back, when, cal, out, n):
    """The same for the values in `touched`, some of them twice, and schedule when they next change by themselves."""
    for i in range(begin, touched.shape[0]):
        g = touched[i]
        last = last_end(mode, g, state)
        if last == NEVER:
            continue
        if n + 2 > out.shape[0]:
            return i, n
        n = catch_up(mode, g, now + 1, state, out, n)
        wake = next_wake(mode, g, state)
        gone = last <= now
        if back[g] != -1 and (gone or when[g] != wake):
            calendar.cancel(g, head, forth, back, cal)
        if gone:
            forget(mode, g, state)
            dead[registers[1]] = g
            registers[1] += 1
        elif back[g] == -1 and wake < FOREVER:
            calendar.put(g, wake, head, forth, back, when, cal)
    return touched.shape[0], n


@kernel
def wakes(mode, state, out):
    """When each value next changes by itself; all are settled. Who never does, or is not there: FOREVER."""
    for g in range(state.shape[0]):
        wake = next_wake(mode, g, state)
        out[g] = FOREVER if wake == NEVER else wake


@kernel
def stretch(out, signed):
    """The least and the greatest key of some rows: their instants, and if they are `signed` those that go before those that come."""
    low = high = key_of(out, 0, signed)
    for r in range(1, out.shape[0]):
        key = key_of(out, r, signed)
        low = min(low, key)
        high = max(high, key)
    return low, high


@inline
def key_of(out, r, signed):
    return 2 * out[r, 0] + (1 if out[r, 3] > 0 else 0) if signed else out[r, 0]


@kernel
def lay_out(out, signed, low, begins, times, exps, gids, signs):
    """The rows of `out` in the order of their keys, by counting (begins: zeros, one for every key from `low` on and one
    more)."""
    for r in range(out.shape[0]):
        begins[key_of(out, r, signed) - low + 1] += 1
    total = 0
    for k in range(
        begins.shape[0]
    ):  # the sum in a register: through memory each would wait for the one before
        total += begins[k]
        begins[k] = total
    for r in range(out.shape[0]):
        k = key_of(out, r, signed) - low
        at = begins[k]
        begins[k] = at + 1
        times[at] = out[r, 0]
        exps[at] = out[r, 1]
        gids[at] = out[r, 2]
        signs[at] = out[r, 3]
