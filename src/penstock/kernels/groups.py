"""Sliding aggregates: which group changes when, and running values per group.

First one kernel turns events (slot starts, slot ends) into output rows, one per (instant, group), with
the group's size and next expiry; then one pass per aggregate runs over the same events and writes its
column. Passes are tight loops over one accumulator each.

Subtract-on-evict is exact here: integers are summed in 128 bits, doubles as unevaluated pairs
(double-double), NaN and infinities are counted apart.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels import heap
from penstock.kernels.jit import kernel

SIZE, OLDEST, NEWEST, ROOT, TIME, ROW, SHOWN = 0, 1, 2, 3, 4, 5, 6
BLANK = np.array([0, -1, -1, -1, 0, -1, np.iinfo(np.int64).min], np.int64)
"""State of a group without members: its size, first and last member, heap, last output row and its instant,
and the exp of the row that is shown."""


@kernel
def rows_fifo(
    times, slots, signs, gid, exp, later, forever, absent, state, ev_row,
    out_time, out_exp, out_was, out_gid, out_size, out_was_size,
):  # fmt: skip
    """Output rows when members end in the order they came: the next expiry is the oldest member's.

    A group without members shows nothing (`absent` = NEVER) or a row for ever (`absent` = FOREVER). `was`
    is what the group showed, and held, before the row's instant.
    """
    n = 0
    for i in range(times.shape[0]):
        s = slots[i]
        g = gid[s]
        t = times[i]
        sign = signs[i]
        size = state[g, SIZE] + sign
        state[g, SIZE] = size
        r = state[g, ROW]
        if r < 0 or state[g, TIME] != t:
            r = n
            n += 1
            out_time[r] = t
            out_was[r] = state[g, SHOWN]
            out_gid[r] = g
            out_was_size[r] = size - sign
            state[g, ROW] = r
            state[g, TIME] = t
        ev_row[i] = r
        if sign > 0:
            if size == 1:
                state[g, OLDEST] = s
            else:
                later[state[g, NEWEST]] = s
            state[g, NEWEST] = s
        else:
            state[g, OLDEST] = later[s]
        ends = exp[state[g, OLDEST]] if size > 0 else forever
        out_exp[r] = ends
        out_size[r] = size
        state[g, SHOWN] = ends if size > 0 else absent
    for r in range(n):
        state[out_gid[r], ROW] = -1
    return n


@kernel
def rows_any(
    times, slots, signs, gid, exp, child, sibling, before, forever, absent, state, ev_row,
    out_time, out_exp, out_was, out_gid, out_size, out_was_size,
):  # fmt: skip
    """The same when members end in any order: the next expiry is the top of the group's heap."""
    n = 0
    for i in range(times.shape[0]):
        s = slots[i]
        g = gid[s]
        t = times[i]
        sign = signs[i]
        size = state[g, SIZE] + sign
        state[g, SIZE] = size
        r = state[g, ROW]
        if r < 0 or state[g, TIME] != t:
            r = n
            n += 1
            out_time[r] = t
            out_was[r] = state[g, SHOWN]
            out_gid[r] = g
            out_was_size[r] = size - sign
            state[g, ROW] = r
            state[g, TIME] = t
        ev_row[i] = r
        if sign > 0:
            state[g, ROOT] = heap.insert(state[g, ROOT], s, exp, child, sibling, before)
        else:
            state[g, ROOT] = heap.delete(state[g, ROOT], s, exp, child, sibling, before)
        ends = exp[state[g, ROOT]] if size > 0 else forever
        out_exp[r] = ends
        out_size[r] = size
        state[g, SHOWN] = ends if size > 0 else absent
    for r in range(n):
        state[out_gid[r], ROW] = -1
    return n


@kernel
def count(slots, signs, gid, ev_row, counted, total, was, out):
    """How many counted members there are, before (`was`) and after (`out`) each output row.

    Here and below: output rows are numbered as they are first touched, and what a group holds then is what
    it held at its previous row.
    """
    seen = 0
    for i in range(slots.shape[0]):
        s = slots[i]
        g = gid[s]
        r = ev_row[i]
        if r == seen:
            was[r] = total[g]
            seen += 1
        if counted[s]:
            total[g] += signs[i]
        out[r] = total[g]


@kernel
def sum_small(slots, signs, gid, ev_row, values, total, was, out):
    """Running sums of integers of at most 32 bits, which 64 bits hold; a NULL argument holds 0."""
    seen = 0
    for i in range(slots.shape[0]):
        s = slots[i]
        g = gid[s]
        r = ev_row[i]
        if r == seen:
            was[r] = total[g]
            seen += 1
        total[g] += signs[i] * values[s]
        out[r] = total[g]


@kernel
def sum_ints(slots, signs, gid, ev_row, values, total, was, out):
    """128-bit running sums (low, high); a NULL argument holds 0."""
    seen = 0
    for i in range(slots.shape[0]):
        s = slots[i]
        g = gid[s]
        r = ev_row[i]
        if r == seen:
            was[r, 0] = total[g, 0]
            was[r, 1] = total[g, 1]
            seen += 1
        v = values[s]
        low = np.uint64(total[g, 0])
        if signs[i] < 0:
            after = low - np.uint64(v)
            total[g, 1] -= (v >> 63) + (1 if low < np.uint64(v) else 0)
            total[g, 0] = np.int64(after)
        elif signs[i] > 0:
            after = low + np.uint64(v)
            total[g, 1] += (v >> 63) + (1 if after < low else 0)
            total[g, 0] = np.int64(after)
        out[r, 0] = total[g, 0]
        out[r, 1] = total[g, 1]


@kernel
def two_sum(a, b):
    """a + b and what rounding took from it (Knuth)."""
    s = a + b
    x = s - a
    return s, (a - (s - x)) + (b - x)


@kernel
def two_square(a):
    """a * a and what rounding took from it (Dekker); plain where splitting would overflow."""
    p = a * a
    if not (np.abs(a) < 1e150) or np.abs(a) < 1e-140:
        return p, 0.0
    c = 134217729.0 * a
    hi = c - (c - a)
    lo = a - hi
    return p, ((hi * hi - p) + 2.0 * hi * lo) + lo * lo


HIGH, LOW = 0, 1
NAN, MORE, LESS, MEMBERS = 0, 1, 2, 3


@kernel
def sum_doubles(slots, signs, gid, ev_row, values, squared, total, odd, was, out, was_odd, out_odd):
    """Running sums (high, low) of doubles, or of their squares; a NULL argument holds 0.

    NaN, +inf and -inf are counted apart in `odd` so that they can leave again; out_odd says what they make of
    the sum: 0 nothing, 1 +inf, 2 -inf, 3 NaN. A group without members starts afresh.
    """
    seen = 0
    for i in range(slots.shape[0]):
        s = slots[i]
        g = gid[s]
        r = ev_row[i]
        if r == seen:
            was[r, HIGH] = total[g, HIGH]
            was[r, LOW] = total[g, LOW]
            was_odd[r] = oddity(g, odd)
            seen += 1
        v = values[s]
        sign = signs[i]
        odd[g, MEMBERS] += sign
        if sign != 0 and np.isfinite(v):
            rest = 0.0
            if squared:
                v, rest = two_square(v)
            h, e = two_sum(total[g, HIGH], sign * v)
            e += total[g, LOW] + sign * rest
            total[g, HIGH], total[g, LOW] = two_sum(h, e)
        elif np.isnan(v):
            odd[g, NAN] += sign
        elif v > 0 or squared:
            odd[g, MORE] += sign
        else:
            odd[g, LESS] += sign
        if odd[g, MEMBERS] == 0:
            total[g, HIGH] = 0.0
            total[g, LOW] = 0.0
        out[r, HIGH] = total[g, HIGH]
        out[r, LOW] = total[g, LOW]
        out_odd[r] = oddity(g, odd)


@kernel
def oddities(odd):
    """`oddity` of every row."""
    out = np.empty(odd.shape[0], np.int8)
    for g in range(odd.shape[0]):
        out[g] = oddity(g, odd)
    return out


@kernel
def oddity(g, odd):
    if odd[g, NAN] > 0 or (odd[g, MORE] > 0 and odd[g, LESS] > 0):
        return 3
    if odd[g, MORE] > 0:
        return 1
    return 2 if odd[g, LESS] > 0 else 0


@kernel
def extreme(slots, signs, gid, ev_row, keys, valid, root, child, sibling, before, was, out):
    """MIN by key: the slot on top of each group's heap of non-NULL members (-1 if there is none)."""
    seen = 0
    for i in range(slots.shape[0]):
        s = slots[i]
        g = gid[s]
        r = ev_row[i]
        if r == seen:
            was[r] = root[g]
            seen += 1
        if valid[s]:
            if signs[i] > 0:
                root[g] = heap.insert(root[g], s, keys, child, sibling, before)
            else:
                root[g] = heap.delete(root[g], s, keys, child, sibling, before)
        out[r] = root[g]


@kernel
def distinct_events(slots, signs, value, valid, copies, out):
    """For aggregates over DISTINCT values: the event's sign if its value appears or vanishes, else 0."""
    for i in range(slots.shape[0]):
        s = slots[i]
        out[i] = 0
        if valid[s]:
            c = value[s]
            if signs[i] > 0:
                copies[c] += 1
                if copies[c] == 1:
                    out[i] = 1
            else:
                copies[c] -= 1
                if copies[c] == 0:
                    out[i] = -1


@kernel
def deviation(sums, squares, odd, counts, out):
    """Sample standard deviation from sums of values and of squares, both as pairs.

    n * sum(x * x) - sum(x) ** 2 is taken in pairs too, so that it survives cancellation.
    """
    for r in range(out.shape[0]):
        n = counts[r]
        if n < 2:
            out[r] = 0.0
            continue
        if odd[r] > 0:
            out[r] = np.nan
            continue
        high, low = sums[r, HIGH], sums[r, LOW]
        m = high / n
        # mean as a pair: m + d
        p = m * n
        c = 134217729.0 * m
        hi = c - (c - m)
        lo = m - hi
        k = 134217729.0 * n
        nh = k - (k - n)
        nl = n - nh
        e = ((hi * nh - p) + hi * nl + lo * nh) + lo * nl
        d = (((high - p) - e) + low) / n
        # sum(x*x) - n * (m + d)**2 = (S2 - n*m*m) - 2*n*m*d - n*d*d
        q, q_rest = two_square(m)
        # n * (q + q_rest) as a pair
        p2 = q * n
        c = 134217729.0 * q
        hi = c - (c - q)
        lo = q - hi
        e2 = ((hi * nh - p2) + hi * nl + lo * nh) + lo * nl
        v, v_rest = two_sum(squares[r, HIGH], -p2)
        v = v + (v_rest + (squares[r, LOW] - e2 - n * q_rest) - 2.0 * n * m * d - n * d * d)
        out[r] = np.sqrt(max(v, 0.0) / (n - 1))
