"""Which row a negative tuple ends: any live copy with the same values and the same announced exp.

Copies with equal values and exp are interchangeable, so a stack per such row is enough.
"""

from __future__ import annotations

from penstock.kernels import calendar
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


@kernel
def search(times, exps, signs, table, slots, words, end, head, forth, back, when, registers):
    """The same without numbers: '+' is scheduled, '-' looks through the bucket in which its row is to end."""
    width = words.shape[1]
    for i in range(times.shape[0]):
        if signs[i] > 0:
            s = slots[i]
            for k in range(width):
                words[s, k] = table[i, k]
            calendar.put(s, exps[i], head, forth, back, when, registers)
            continue
        s = head[(exps[i] >> registers[0]) & (head.shape[0] - 1)]
        while s >= 0:
            registers[3] += 1
            if when[s] == exps[i]:
                same = True
                for k in range(width):
                    same &= words[s, k] == table[i, k]
                if same:
                    break
            s = forth[s]
        if s < 0:
            return i
        calendar.cancel(s, head, forth, back, registers)
        end[s] = times[i]
        slots[i] = s
    return times.shape[0]
