"""Which row a negative tuple ends: the oldest live copy with the same values and the same announced exp.

For most operators such copies are interchangeable; not where tables are looked up at arrival, above count windows.
"""

from __future__ import annotations

from penstock.kernels.compile import kernel
from penstock.kernels.state import calendar


@kernel
def match(times, signs, gids, slots, first, last, later, end):
    """Rows in time order: '+' stands at the end of its row's line, '-' takes the first and ends it.

    slots[i] is given for '+' and found for '-'. Returns the first '-' without a row, or the length.
    """
    for i in range(times.shape[0]):
        g = gids[i]
        if signs[i] > 0:
            s = slots[i]
            later[s] = -1
            if first[g] < 0:
                first[g] = s
            else:
                later[last[g]] = s
            last[g] = s
        else:
            s = first[g]
            if s < 0:
                return i
            first[g] = later[s]
            end[s] = times[i]
            slots[i] = s
    return times.shape[0]


@kernel
def search(times, exps, signs, table, slots, words, end, head, forth, back, when, registers):
    """The same without numbers, and any copy of its row: '+' is scheduled, '-' looks through the bucket in which its row is to end."""
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
