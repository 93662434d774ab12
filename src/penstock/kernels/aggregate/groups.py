"""Sliding aggregates: which group changes when, and running values per group.

First one kernel turns events (slot starts, slot ends) into output rows, one per (instant, group), with
the group's size and next expiry; then one pass per aggregate runs over the same events and writes its
column. Passes are tight loops over one accumulator each.

Subtract-on-evict is exact here: integers are summed in 128 bits, doubles as unevaluated pairs
(double-double), NaN and infinities are counted apart.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.aggregate import heap
from penstock.kernels.compile import inline, kernel, maker

SIZE, OLDEST, NEWEST, ROOT, TIME, ROW, SHOWN = 0, 1, 2, 3, 4, 5, 6
BLANK = np.array([0, -1, -1, -1, 0, -1, np.iinfo(np.int64).min], np.int64)
"""State of a group without members: its size, first and last member, heap, last output row and its instant,
and the exp of the row that is shown."""


@inline
def open_row(g, t, sign, state, out_time, out_was, out_gid, out_was_size, n):
    """Count an event; its output row, begun if the group has none at this instant. Returns (row, rows, size).

    `was` is what the group showed, and held, before the row's instant.
    """
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
    return r, n, size


@kernel
def rows_fifo(
    times, slots, signs, gid, exp, later, forever, absent, state, ev_row,
    out_time, out_exp, out_was, out_gid, out_size, out_was_size,
):  # fmt: skip
    """Output rows when members end in the order they came: the next expiry is the oldest member's.

    A group without members shows nothing (`absent` = NEVER) or a row for ever (`absent` = FOREVER).
    """
    n = 0
    for i in range(times.shape[0]):
        s = slots[i]
        g = gid[s]
        r, n, size = open_row(g, times[i], signs[i], state, out_time, out_was, out_gid, out_was_size, n)
        ev_row[i] = r
        if signs[i] > 0:
            if size == 1:
                state[g, OLDEST] = s
            else:
                later[state[g, NEWEST]] = s
            state[g, NEWEST] = s
        else:
            state[g, OLDEST] = later[s]
        out_size[r] = size
        out_exp[r] = exp[state[g, OLDEST]] if size > 0 else forever
        state[g, SHOWN] = out_exp[r] if size > 0 else absent
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
        r, n, size = open_row(g, times[i], signs[i], state, out_time, out_was, out_gid, out_was_size, n)
        ev_row[i] = r
        if signs[i] > 0:
            state[g, ROOT] = heap.insert(state[g, ROOT], s, exp, child, sibling, before)
        else:
            state[g, ROOT] = heap.delete(state[g, ROOT], s, exp, child, sibling, before)
        out_size[r] = size
        out_exp[r] = exp[state[g, ROOT]] if size > 0 else forever
        state[g, SHOWN] = out_exp[r] if size > 0 else absent
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


HIGH, LOW, SQUARES, REST, CENTRE, MASS, BASE = 0, 1, 2, 3, 4, 5, 6
SMALL = 2.0**-200
FRESH = np.zeros(7)
"""A group's sums: of x - centre (a pair), of its squares (a pair), the centre, and how much has been added and
taken away since the sums were made afresh, and how much there was then."""
NAN, MORE, LESS, MEMBERS, FIRST = 0, 1, 2, 3, 4
NOBODY = np.array([0, 0, 0, 0, -1], np.int64)
"""How many members are NaN, +inf, -inf, how many there are, and the first of their list."""


@kernel
def add_pair(high, low, value, rest):
    """(high, low) + (value, rest)."""
    h, e = two_sum(high, value)
    return two_sum(h, e + low + rest)


@kernel
def put(sums, x, sign, squared):
    """Add a finite value to a group's sums, or take it away."""
    d, r = two_sum(x, -sums[CENTRE])
    sums[HIGH], sums[LOW] = add_pair(sums[HIGH], sums[LOW], sign * d, sign * r)
    if squared:
        q, e = two_square(d)
        sums[SQUARES], sums[REST] = add_pair(sums[SQUARES], sums[REST], sign * q, sign * (e + 2.0 * d * r))
        sums[MASS] += q
    else:
        sums[MASS] += np.abs(x)


@kernel
def afresh(sums, first, after, values, squared):
    """Sum a group's members anew; deviations are taken from their mean."""
    centre = 0.0
    if squared:
        n = 0
        s = first
        while s >= 0:
            if np.isfinite(values[s]):
                n += 1
                centre += (values[s] - centre) / n
            s = after[s]
    for k in range(sums.shape[0]):
        sums[k] = 0.0
    sums[CENTRE] = centre
    s = first
    while s >= 0:
        if np.isfinite(values[s]):
            put(sums, values[s], 1.0, squared)
        s = after[s]
    sums[BASE] = sums[MASS]
    if not squared and not (np.isfinite(sums[HIGH]) and np.isfinite(sums[LOW])):
        # Beyond the largest double on the way: sum small, and stay spoiled until the large ones are gone.
        high, low = 0.0, 0.0
        s = first
        while s >= 0:
            if np.isfinite(values[s]):
                high, low = add_pair(high, low, values[s] * SMALL, 0.0)
            s = after[s]
        sums[HIGH] = high / SMALL
        sums[LOW] = low / SMALL if np.isfinite(sums[HIGH]) else 0.0
        sums[MASS] = np.inf


@kernel
def is_spoiled(sums, members, squared):
    """Whether rounding may show: what went through the sums is far beyond what is left.

    Pairs hold 106 bits and a ninth decimal must survive. Sums are not made afresh before half as much again has
    gone through them, so that the cost stays O(1) an event.
    """
    if not np.isfinite(sums[HIGH]) or not np.isfinite(sums[SQUARES]) or not np.isfinite(sums[MASS]):
        return True
    if sums[MASS] <= 1.5 * sums[BASE]:
        return False
    if squared:
        left = sums[SQUARES] - sums[HIGH] * (sums[HIGH] / max(members, 1))
        return sums[MASS] > 1e5 * left
    return sums[MASS] > 1e12 * np.abs(sums[HIGH] + sums[LOW])


@inline
def copy_row(row, rows, at):
    for k in range(row.shape[0]):
        rows[at, k] = row[k]


@kernel
def sum_doubles(
    slots, signs, gid, ev_row, values, valid, squared, total, odd, after, before, was, out, was_odd, out_odd
):
    """Running sums of doubles that are not NULL and, if `squared`, of squared deviations.

    NaN, +inf and -inf are counted apart in `odd` so that they can leave again; out_odd says what they make of
    the sum: 0 nothing, 1 +inf, 2 -inf, 3 NaN. Members hang in a list (`after`, `before`), from which spoiled sums
    are made afresh.
    """
    seen = 0
    for i in range(slots.shape[0]):
        s = slots[i]
        g = gid[s]
        r = ev_row[i]
        sums = total[g]
        if r == seen:
            copy_row(sums, was, r)
            was_odd[r] = oddity(g, odd)
            seen += 1
        v = values[s]
        sign = signs[i]
        if sign != 0 and valid[s]:
            odd[g, MEMBERS] += sign
            if sign > 0:
                first = odd[g, FIRST]
                after[s] = first
                before[s] = -1
                if first >= 0:
                    before[first] = s
                odd[g, FIRST] = s
            else:
                if before[s] >= 0:
                    after[before[s]] = after[s]
                else:
                    odd[g, FIRST] = after[s]
                if after[s] >= 0:
                    before[after[s]] = before[s]
            if np.isnan(v):
                odd[g, NAN] += sign
            elif np.isinf(v):
                odd[g, MORE if v > 0 else LESS] += sign
            elif odd[g, MEMBERS] == 0 or (odd[g, MEMBERS] == 1 and sign > 0):
                afresh(sums, odd[g, FIRST], after, values, squared)
            else:
                put(sums, v, sign, squared)
                if is_spoiled(sums, odd[g, MEMBERS], squared):
                    afresh(sums, odd[g, FIRST], after, values, squared)
        copy_row(sums, out, r)
        out_odd[r] = oddity(g, odd)


@maker
def oddities(odd):
    """`oddity` of every row."""
    out = np.empty(odd.shape[0], np.int8)
    for g in range(odd.shape[0]):
        out[g] = oddity(g, odd)
    return out


@kernel
def oddity(g, odd):
    """What NaN and infinities among the members make of their sum."""
    if odd[g, NAN] > 0 or (odd[g, MORE] > 0 and odd[g, LESS] > 0):
        return 3
    if odd[g, MORE] > 0:
        return 1
    return 2 if odd[g, LESS] > 0 else 0


@kernel
def totals(sums, odd, out):
    """SUM from the sums; beyond the largest double it is infinite."""
    for r in range(out.shape[0]):
        if odd[r] == 3:
            out[r] = np.nan
        elif odd[r] == 1:
            out[r] = np.inf
        elif odd[r] == 2:
            out[r] = -np.inf
        else:
            out[r] = sums[r, HIGH] + sums[r, LOW]


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
def distinct_events(values, signs, there, copies, out):
    """For aggregates over DISTINCT values: the event's sign if its value appears or vanishes, else 0."""
    for i in range(values.shape[0]):
        v = values[i]
        copies[v] += signs[i]
        out[i] = 0
        if there[v]:
            if signs[i] > 0 and copies[v] == 1:
                out[i] = 1
            elif signs[i] < 0 and copies[v] == 0:
                out[i] = -1


@kernel
def deviation(sums, odd, counts, out):
    """Sample standard deviation: squares of deviations from the centre, less what the centre is off the mean."""
    for r in range(out.shape[0]):
        n = counts[r]
        if n < 2:
            out[r] = 0.0
        elif odd[r] > 0:
            out[r] = np.nan
        elif not np.isfinite(sums[r, SQUARES]):
            out[r] = np.inf
        else:
            high = sums[r, HIGH]
            shift, e = two_product(high, high / n)
            v, rest = two_sum(sums[r, SQUARES], -shift)
            v += rest - e + sums[r, REST] - 2.0 * sums[r, LOW] * (high / n)
            out[r] = np.sqrt(max(v, 0.0) / (n - 1))


@kernel
def two_product(a, b):
    """a * b and what rounding took from it (Dekker)."""
    p = a * b
    c = 134217729.0 * a
    a_high = c - (c - a)
    a_low = a - a_high
    c = 134217729.0 * b
    b_high = c - (c - b)
    b_low = b - b_high
    e = ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low
    return p, e if np.isfinite(e) else 0.0
