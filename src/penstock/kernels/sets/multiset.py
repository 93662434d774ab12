"""Set operations over copies that may be taken back, and the ALL forms, which count copies.

Per value and side the live copies are in a treap sorted by exp. Events come in time order, ends first; at the end of an instant
every touched value is settled.
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.compile import kernel
from penstock.kernels.sets import distinct, treap

DISTINCT, INTERSECT, EXCEPT, INTERSECT_ALL, EXCEPT_ALL = 0, 1, 2, 3, 4
NEVER = np.iinfo(np.int64).min


@kernel
def is_only(s, exp, links):
    """Whether no other copy of the value ends with this one."""
    above = treap.neighbour(s, treap.ABOVE, links)
    below = treap.neighbour(s, treap.BELOW, links)
    return (above < 0 or exp[above] != exp[s]) and (below < 0 or exp[below] != exp[s])


@kernel
def take_back(g, t, state, out, n):
    """Send '-' for a value's row."""
    n = distinct.tell(t, state[g, distinct.SHOWN], g, -1, out, n)
    state[g, distinct.SHOWN] = NEVER
    return n


@kernel
def set_step(
    mode, times, slots, sides, signs,
    l_gid, l_exp, l_root, l_last, l_links, l_rank,
    r_gid, r_exp, r_root, r_last, r_links, r_rank,
    state, stamp, touched, told, out,
):  # fmt: skip
    """DISTINCT, INTERSECT, EXCEPT: the rule of `sets` with the greatest exps read off the treaps.

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
                treap.insert(s, g, l_exp, l_root, l_last, l_links, l_rank)
            else:
                shown = state[g, distinct.SHOWN]
                if l_exp[s] == shown and (shown > t or told) and is_only(s, l_exp, l_links):
                    n = take_back(g, t, state, out, n)
                treap.delete(s, g, l_root, l_last, l_links, l_rank)
            state[g, distinct.LEFT] = NEVER if l_last[g] < 0 else l_exp[l_last[g]]
        else:
            g = r_gid[s]
            if signs[i] > 0:
                treap.insert(s, g, r_exp, r_root, r_last, r_links, r_rank)
            else:
                shown = state[g, distinct.SHOWN]
                if (
                    mode == INTERSECT
                    and r_exp[s] == shown
                    and (shown > t or told)
                    and is_only(s, r_exp, r_links)
                ):
                    n = take_back(g, t, state, out, n)
                treap.delete(s, g, r_root, r_last, r_links, r_rank)
            state[g, distinct.RIGHT] = NEVER if r_last[g] < 0 else r_exp[r_last[g]]
        if stamp[g] != t:
            stamp[g] = t
            touched[m] = g
            m += 1
        if i + 1 == times.shape[0] or times[i + 1] != t:
            for k in range(m):
                n = distinct.settle(mode, touched[k], t, state, out, n)
                stamp[touched[k]] = NEVER
            m = 0
    return n


@kernel
def except_all(
    times, slots, sides, signs,
    l_gid, l_exp, l_root, l_last, l_links, l_rank, r_gid,
    lefts, rights, lowest, shown, on, plus, stamp, touched, told,
    out,
):  # fmt: skip
    """The max(v1 - v2, 0) copies with the greatest exp are shown: the top of each value's treap.

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
                treap.insert(s, g, l_exp, l_root, l_last, l_links, l_rank)
                lefts[g] += 1
                on[s] = False
                plus[s] = -1
                if lowest[g] >= 0 and is_inside(s, l_links, on):
                    on[s] = True
                    shown[g] += 1
                    plus[s] = n
                    n = distinct.tell(t, l_exp[s], g, 1, out, n)
            else:
                if on[s]:
                    if l_exp[s] > t or told:
                        n = distinct.tell(t, l_exp[s], g, -1, out, n)
                    if lowest[g] == s:
                        lowest[g] = treap.neighbour(s, treap.ABOVE, l_links)
                    shown[g] -= 1
                    on[s] = False
                treap.delete(s, g, l_root, l_last, l_links, l_rank)
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
                        n = distinct.tell(t, l_exp[s], g, -1, out, n)
                    on[s] = False
                    lowest[g] = treap.neighbour(s, treap.ABOVE, l_links)
                    shown[g] -= 1
                while shown[g] < due:
                    s = l_last[g] if lowest[g] < 0 else treap.neighbour(lowest[g], treap.BELOW, l_links)
                    n = distinct.tell(t, l_exp[s], g, 1, out, n)
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
def is_inside(s, links, on):
    """Whether a copy landed inside the shown part: the copy below it is shown."""
    below = treap.neighbour(s, treap.BELOW, links)
    return below >= 0 and on[below]


@kernel
def pair_up(
    sign, s, g, t,
    exp, root, last, links, rank, mate,
    o_exp, o_root, o_last, o_links, o_rank, o_mate,
    told, out, n,
):  # fmt: skip
    """A copy of one side comes (without a mate yet) or goes (and leaves its mate alone); returns outputs."""
    if sign > 0:
        mate[s] = -1
        treap.insert(s, g, exp, root, last, links, rank)
        return n
    if mate[s] < 0:
        treap.delete(s, g, root, last, links, rank)
        return n
    o = mate[s]
    o_mate[o] = -1
    treap.insert(o, g, o_exp, o_root, o_last, o_links, o_rank)
    end = min(exp[s], o_exp[o])
    if end > t or told:
        n = distinct.tell(t, end, g, -1, out, n)
    return n


@kernel
def intersect_all(
    times, slots, sides, signs,
    l_gid, l_exp, l_root, l_last, l_links, l_rank, l_mate,
    r_gid, r_exp, r_root, r_last, r_links, r_rank, r_mate,
    stamp, touched, told, out,
):  # fmt: skip
    """min(v1, v2) pairs: copies without a mate are in the treaps; at the end of an instant the greatest
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
                signs[i], s, g, t,
                l_exp, l_root, l_last, l_links, l_rank, l_mate,
                r_exp, r_root, r_last, r_links, r_rank, r_mate,
                told, out, n,
            )  # fmt: skip
        else:
            g = r_gid[s]
            n = pair_up(
                signs[i], s, g, t,
                r_exp, r_root, r_last, r_links, r_rank, r_mate,
                l_exp, l_root, l_last, l_links, l_rank, l_mate,
                told, out, n,
            )  # fmt: skip
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
                    treap.delete(a, g, l_root, l_last, l_links, l_rank)
                    treap.delete(b, g, r_root, r_last, r_links, r_rank)
                    l_mate[a] = b
                    r_mate[b] = a
                    n = distinct.tell(t, min(l_exp[a], r_exp[b]), g, 1, out, n)
            m = 0
    return n
