"""A list of slots in the order they came, searched from end to end for what has ended (Golab & Özsu 2005, §2.3.3).

registers: 0 = length, 1 = slots looked at, 2 = when to look again.
"""

from __future__ import annotations

from penstock.kernels.compile import kernel

LENGTH, VISITS, LOOK = 0, 1, 2


@kernel
def search(now, held, when, out, n, registers):
    """Take everything due by `now` out of the list into `out` from n on; returns where it ends. The others keep their order."""
    kept = 0
    for i in range(registers[0]):
        s, end = held[i], when[i]
        if end <= now:
            out[n] = s
            n += 1
        else:
            held[kept] = s
            when[kept] = end
            kept += 1
    registers[1] += registers[0]
    registers[0] = kept
    return n


@kernel
def tick(starts, slots, times, eager, held, when, out, n, registers):
    """Append slots as their time comes and search every `eager` units; returns where `out` ends."""
    for i in range(starts.shape[0]):
        if slots.shape[0]:
            held[registers[0]] = slots[i]
            when[registers[0]] = times[i]
            registers[0] += 1
        if starts[i] >= registers[2]:
            n = search(starts[i], held, when, out, n, registers)
            registers[2] = starts[i] + eager
    return n
