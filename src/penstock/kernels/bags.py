"""Set operations over copies that may be taken back, and the ALL forms, which count copies.

Per value and side the live copies hang in a doubly linked list sorted by exp (greatest last). Copies mostly
arrive in exp order, so insertion from the end is O(1) on the whole. Events come in time order, ends
first; at the end of an instant every touched value is settled.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels import sets
from penstock.kernels.jit import kernel

DISTINCT, INTERSECT, EXCEPT, INTERSECT_ALL, EXCEPT_ALL = 0, 1, 2, 3, 4
NEVER = np.iinfo(np.int64).min


@kernel
def hang(s, g, exp, last, up, down):
    """Insert a copy into its value's list; among equals the newest is last."""
    at = last[g]
    above = -1
    while at >= 0 and exp[at] > exp[s]:
        above = at
        at = down[at]
    down[s] = at
    up[s] = above
    if at >= 0:
        up[at] = s
    if above >= 0:
        down[above] = s
    else:
        last[g] = s


@kernel
def unhang(s, g, last, up, down):
    """Take a copy out of its value's list."""
    if down[s] >= 0:
        up[down[s]] = up[s]
    if up[s] >= 0:
        down[up[s]] = down[s]
    else:
        last[g] = down[s]


@kernel
def is_only(s, exp, up, down):
    """Whether no other copy of the value ends with this one."""
    return (up[s] < 0 or exp[up[s]] != exp[s]) and (down[s] < 0 or exp[down[s]] != exp[s])


@kernel
def take_back(g, t, state, out, n):
    """Send '-' for a value's row."""
    out[n, 0] = t
    out[n, 1] = state[g, sets.SHOWN]
    out[n, 2] = g
    out[n, 3] = -1
    state[g, sets.SHOWN] = NEVER
    return n + 1


@kernel
def set_step(
    mode, times, slots, sides, signs,
    l_gid, l_exp, l_last, l_up, l_down,
    r_gid, r_exp, r_last, r_up, r_down,
    state, stamp, touched, told, out,
):  # fmt: skip
    """DISTINCT, INTERSECT, EXCEPT: the rule of `sets` with the greatest exps read off the lists.

    When the last copy with the announced exp is taken back, the shown row is taken back with it: so
    every announced end coincides with the end of a copy. `told`: ends as announced are sent too, here and below.
    """
    n = 0
    m = 0
    for i in range(times.shape[0]):
        t = times[i]
        s = slots[i]
        if sides[i] == 0:
            g = l_gid[s]
            if signs[i] > 0:
                hang(s, g, l_exp, l_last, l_up, l_down)
            else:
                shown = state[g, sets.SHOWN]
                if l_exp[s] == shown and (shown > t or told) and is_only(s, l_exp, l_up, l_down):
                    n = take_back(g, t, state, out, n)
                unhang(s, g, l_last, l_up, l_down)
            state[g, sets.LEFT] = NEVER if l_last[g] < 0 else l_exp[l_last[g]]
        else:
            g = r_gid[s]
            if signs[i] > 0:
                hang(s, g, r_exp, r_last, r_up, r_down)
            else:
                shown = state[g, sets.SHOWN]
                if (
                    mode == INTERSECT
                    and r_exp[s] == shown
                    and (shown > t or told)
                    and is_only(s, r_exp, r_up, r_down)
                ):
                    n = take_back(g, t, state, out, n)
                unhang(s, g, r_last, r_up, r_down)
            state[g, sets.RIGHT] = NEVER if r_last[g] < 0 else r_exp[r_last[g]]
        if stamp[g] != t:
            stamp[g] = t
            touched[m] = g
            m += 1
        if i + 1 == times.shape[0] or times[i + 1] != t:
            for k in range(m):
                n = sets.settle(mode, touched[k], t, state, out, n)
                stamp[touched[k]] = NEVER
            m = 0
    return n


@kernel
def except_all(
    times, slots, sides, signs,
    l_gid, l_exp, l_last, l_up, l_down, r_gid,
    lefts, rights, lowest, shown, on, plus, stamp, touched, told,
    out,
):  # fmt: skip
    """The max(v1 - v2, 0) copies with the greatest exp are shown: the top of each value's list.

    lowest[g] = the shown copy with the least exp (-1: none), shown[g] = how many, on[s] = shown or not,
    plus[s] = where this instant's '+' of a copy stands, so that a '-' in the same instant takes it out
    (sign 0).
    """
    n = 0
    m = 0
    for i in range(times.shape[0]):
        t = times[i]
        s = slots[i]
        if sides[i] == 0:
            g = l_gid[s]
            if signs[i] > 0:
                hang(s, g, l_exp, l_last, l_up, l_down)
                lefts[g] += 1
                on[s] = False
                plus[s] = -1
                if lowest[g] >= 0 and down_is_on(s, l_down, on):
                    on[s] = True
                    shown[g] += 1
                    plus[s] = n
                    out[n, 0] = t
                    out[n, 1] = l_exp[s]
                    out[n, 2] = g
                    out[n, 3] = 1
                    n += 1
            else:
                if on[s]:
                    if l_exp[s] > t or told:
                        out[n, 0] = t
                        out[n, 1] = l_exp[s]
                        out[n, 2] = g
                        out[n, 3] = -1
                        n += 1
                    if lowest[g] == s:
                        lowest[g] = l_up[s]
                    shown[g] -= 1
                    on[s] = False
                unhang(s, g, l_last, l_up, l_down)
                lefts[g] -= 1
        else:
            g = r_gid[s]
            rights[g] += signs[i]
        if stamp[g] != t:
            stamp[g] = t
            touched[m] = g
            m += 1
        if i + 1 == times.shape[0] or times[i + 1] != t:
            for k in range(m):
                g = touched[k]
                stamp[g] = NEVER
                due = max(lefts[g] - rights[g], 0)
                while shown[g] > due:
                    s = lowest[g]
                    if plus[s] >= 0:
                        out[plus[s], 3] = 0
                        plus[s] = -1
                    else:
                        out[n, 0] = t
                        out[n, 1] = l_exp[s]
                        out[n, 2] = g
                        out[n, 3] = -1
                        n += 1
                    on[s] = False
                    lowest[g] = l_up[s]
                    shown[g] -= 1
                while shown[g] < due:
                    s = l_last[g] if lowest[g] < 0 else l_down[lowest[g]]
                    out[n, 0] = t
                    out[n, 1] = l_exp[s]
                    out[n, 2] = g
                    out[n, 3] = 1
                    n += 1
                    on[s] = True
                    lowest[g] = s
                    shown[g] += 1
            for k in range(i, -1, -1):
                if times[k] != t:
                    break
                if sides[k] == 0:
                    plus[slots[k]] = -1
            m = 0
    return n


@kernel
def down_is_on(s, down, on):
    """Whether a copy landed inside the shown part: the copy below it is shown."""
    return down[s] >= 0 and on[down[s]]


@kernel
def pair_up(sign, s, g, t, exp, last, up, down, mate, o_exp, o_last, o_up, o_down, o_mate, told, out, n):
    """A copy of one side comes (without a mate yet) or goes (and leaves its mate alone); returns outputs."""
    if sign > 0:
        mate[s] = -1
        hang(s, g, exp, last, up, down)
        return n
    if mate[s] < 0:
        unhang(s, g, last, up, down)
        return n
    o = mate[s]
    o_mate[o] = -1
    hang(o, g, o_exp, o_last, o_up, o_down)
    end = min(exp[s], o_exp[o])
    if end > t or told:
        out[n, 0] = t
        out[n, 1] = end
        out[n, 2] = g
        out[n, 3] = -1
        n += 1
    return n


@kernel
def intersect_all(
    times, slots, sides, signs,
    l_gid, l_exp, l_last, l_up, l_down, l_mate,
    r_gid, r_exp, r_last, r_up, r_down, r_mate,
    stamp, touched, told, out,
):  # fmt: skip
    """min(v1, v2) pairs: copies without a mate hang in the lists; at the end of an instant the greatest
    exps of both sides are paired. A pair lives until the first of the two ends; the other is paired anew.
    """
    n = 0
    m = 0
    for i in range(times.shape[0]):
        t = times[i]
        s = slots[i]
        if sides[i] == 0:
            g = l_gid[s]
            n = pair_up(
                signs[i],
                s,
                g,
                t,
                l_exp,
                l_last,
                l_up,
                l_down,
                l_mate,
                r_exp,
                r_last,
                r_up,
                r_down,
                r_mate,
                told,
                out,
                n,
            )
        else:
            g = r_gid[s]
            n = pair_up(
                signs[i],
                s,
                g,
                t,
                r_exp,
                r_last,
                r_up,
                r_down,
                r_mate,
                l_exp,
                l_last,
                l_up,
                l_down,
                l_mate,
                told,
                out,
                n,
            )
        if stamp[g] != t:
            stamp[g] = t
            touched[m] = g
            m += 1
        if i + 1 == times.shape[0] or times[i + 1] != t:
            for k in range(m):
                g = touched[k]
                stamp[g] = NEVER
                while l_last[g] >= 0 and r_last[g] >= 0:
                    a = l_last[g]
                    b = r_last[g]
                    unhang(a, g, l_last, l_up, l_down)
                    unhang(b, g, r_last, r_up, r_down)
                    l_mate[a] = b
                    r_mate[b] = a
                    out[n, 0] = t
                    out[n, 1] = min(l_exp[a], r_exp[b])
                    out[n, 2] = g
                    out[n, 3] = 1
                    n += 1
            m = 0
    return n
