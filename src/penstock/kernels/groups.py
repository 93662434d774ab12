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


@kernel
def rows_fifo(  # type: ignore[no-untyped-def]
    times, slots, signs, gid, exp, forever,
    size, oldest, newest, later, last_time, last_row,
    ev_row, out_time, out_exp, out_gid, out_size, out_before,
):  # fmt: skip
    """Output rows when members end in the order they came: the next expiry is the oldest member's.

    `out_before` is the same group's previous output row of this call, or -1.
    """
    n = 0
    for i in range(times.shape[0]):
        s = slots[i]
        g = gid[s]
        t = times[i]
        if signs[i] > 0:
            if size[g] == 0:
                oldest[g] = s
            else:
                later[newest[g]] = s
            newest[g] = s
            size[g] += 1
        else:
            oldest[g] = later[s]
            size[g] -= 1
        r = last_row[g]
        if r < 0 or last_time[g] != t:
            out_before[n] = r
            out_time[n] = t
            out_gid[n] = g
            last_row[g] = n
            last_time[g] = t
            r = n
            n += 1
        ev_row[i] = r
        out_size[r] = size[g]
        out_exp[r] = exp[oldest[g]] if size[g] > 0 else forever
    for r in range(n):
        last_row[out_gid[r]] = -1
    return n


@kernel
def rows_any(  # type: ignore[no-untyped-def]
    times, slots, signs, gid, exp, forever,
    size, root, child, sibling, before, last_time, last_row,
    ev_row, out_time, out_exp, out_gid, out_size, out_before,
):  # fmt: skip
    """The same when members end in any order: the next expiry is the top of the group's heap."""
    n = 0
    for i in range(times.shape[0]):
        s = slots[i]
        g = gid[s]
        t = times[i]
        if signs[i] > 0:
            root[g] = heap.insert(root[g], s, exp, child, sibling, before)
            size[g] += 1
        else:
            root[g] = heap.delete(root[g], s, exp, child, sibling, before)
            size[g] -= 1
        r = last_row[g]
        if r < 0 or last_time[g] != t:
            out_before[n] = r
            out_time[n] = t
            out_gid[n] = g
            last_row[g] = n
            last_time[g] = t
            r = n
            n += 1
        ev_row[i] = r
        out_size[r] = size[g]
        out_exp[r] = exp[root[g]] if size[g] > 0 else forever
    for r in range(n):
        last_row[out_gid[r]] = -1
    return n


@kernel
def count_valid(slots, signs, gid, ev_row, valid, count, out):  # type: ignore[no-untyped-def]
    """COUNT(x): members whose argument is not NULL."""
    for i in range(slots.shape[0]):
        s = slots[i]
        g = gid[s]
        if valid[s]:
            count[g] += signs[i]
        out[ev_row[i]] = count[g]


@kernel
def sum_ints(slots, signs, gid, ev_row, values, low, high, out_low, out_high):  # type: ignore[no-untyped-def]
    """128-bit running sums; a NULL argument holds 0."""
    for i in range(slots.shape[0]):
        s = slots[i]
        g = gid[s]
        v = values[s] if signs[i] != 0 else 0
        if signs[i] < 0:
            # low/high minus v: add the complement with a carry.
            before = np.uint64(low[g])
            after = before - np.uint64(v)
            high[g] -= (v >> 63) + (1 if before < np.uint64(v) else 0)
        else:
            before = np.uint64(low[g])
            after = before + np.uint64(v)
            high[g] += (v >> 63) + (1 if after < before else 0)
        low[g] = np.int64(after)
        r = ev_row[i]
        out_low[r] = low[g]
        out_high[r] = high[g]


@kernel
def two_sum(a, b):  # type: ignore[no-untyped-def]
    """a + b and what rounding took from it (Knuth)."""
    s = a + b
    x = s - a
    return s, (a - (s - x)) + (b - x)


@kernel
def two_square(a):  # type: ignore[no-untyped-def]
    """a * a and what rounding took from it (Dekker); plain where splitting would overflow."""
    p = a * a
    if not (np.abs(a) < 1e150) or np.abs(a) < 1e-140:
        return p, 0.0
    c = 134217729.0 * a
    hi = c - (c - a)
    lo = a - hi
    return p, ((hi * hi - p) + 2.0 * hi * lo) + lo * lo


@kernel
def sum_doubles(slots, signs, gid, ev_row, values, high, low, nan, more, less, size, squared, out, out_low, out_odd):  # type: ignore[no-untyped-def]
    """Running sums of doubles (or of their squares); a NULL argument holds 0.

    NaN, +inf and -inf are counted apart so that they can leave again. An emptied group starts afresh.
    `size` is a scratch count of members per group.
    """
    for i in range(slots.shape[0]):
        s = slots[i]
        g = gid[s]
        v = values[s]
        sign = signs[i]
        size[g] += sign
        if sign != 0 and np.isfinite(v):
            if squared:
                v, rest = two_square(v)
            else:
                rest = 0.0
            h, e = two_sum(high[g], sign * v)
            e += low[g] + sign * rest
            high[g], low[g] = two_sum(h, e)
        elif np.isnan(v):
            nan[g] += sign
        elif v > 0 or squared:
            more[g] += sign
        else:
            less[g] += sign
        if size[g] == 0:
            high[g] = 0.0
            low[g] = 0.0
        r = ev_row[i]
        out[r] = high[g]
        out_low[r] = low[g]
        if nan[g] > 0 or (more[g] > 0 and less[g] > 0):
            out_odd[r] = 3
        elif more[g] > 0:
            out_odd[r] = 1
        elif less[g] > 0:
            out_odd[r] = 2
        else:
            out_odd[r] = 0


@kernel
def extreme(slots, signs, gid, ev_row, keys, valid, root, child, sibling, before, out):  # type: ignore[no-untyped-def]
    """MIN by key: the slot on top of each group's heap of non-NULL members (-1 if there is none)."""
    for i in range(slots.shape[0]):
        s = slots[i]
        g = gid[s]
        if valid[s]:
            if signs[i] > 0:
                root[g] = heap.insert(root[g], s, keys, child, sibling, before)
            else:
                root[g] = heap.delete(root[g], s, keys, child, sibling, before)
        out[ev_row[i]] = root[g]


@kernel
def distinct_events(slots, signs, value, valid, copies, out):  # type: ignore[no-untyped-def]
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
def deviation(high, low, high2, low2, odd, counts, out):  # type: ignore[no-untyped-def]
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
        m = high[r] / n
        # mean as a pair: m + d
        p = m * n
        c = 134217729.0 * m
        hi = c - (c - m)
        lo = m - hi
        k = 134217729.0 * n
        nh = k - (k - n)
        nl = n - nh
        e = ((hi * nh - p) + hi * nl + lo * nh) + lo * nl
        d = (((high[r] - p) - e) + low[r]) / n
        # sum(x*x) - n * (m + d)**2 = (S2 - n*m*m) - 2*n*m*d - n*d*d
        q, q_rest = two_square(m)
        # n * (q + q_rest) as a pair
        p2 = q * n
        c = 134217729.0 * q
        hi = c - (c - q)
        lo = q - hi
        e2 = ((hi * nh - p2) + hi * nl + lo * nh) + lo * nl
        v, v_rest = two_sum(high2[r], -p2)
        v = v + (v_rest + (low2[r] - e2 - n * q_rest) - 2.0 * n * m * d - n * d * d)
        out[r] = np.sqrt(max(v, 0.0) / (n - 1))
