"""Which row a negative tuple ends: any live copy with the same values and the same announced exp.

Copies with equal values and exp are interchangeable, so a stack per such row is enough.
"""

from __future__ import annotations

from penstock.kernels.jit import kernel


@kernel
def match(times, signs, gids, slots, top, under, end):
    """Rows in time order: '+' lays its slot on its row's stack, '-' takes one off and ends it.

    slots[i] is given for '+' and found for '-'. Returns the first '-' without a row, or the length.
    """
    for i in range(times.shape[0]):
        g = gids[i]
        if signs[i] > 0:
            under[slots[i]] = top[g]
            top[g] = slots[i]
        else:
            s = top[g]
            if s < 0:
                return i
            top[g] = under[s]
            end[s] = times[i]
            slots[i] = s
    return times.shape[0]
