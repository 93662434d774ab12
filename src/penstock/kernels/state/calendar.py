"""A calendar queue: slots scheduled by time in buckets of 2**shift units (Golab & Özsu 2005, Figure 7).

Insert, cancel and drain cost O(1) a slot. `back` of the first slot of bucket b holds -(b + 2).
registers: 0 = shift, 1 = drained up to (inclusive), 2 = number scheduled, 3 = slots looked at, 4 = when to look again.
"""

from __future__ import annotations

from penstock.kernels.compile import kernel

SHIFT, DRAINED, COUNT, VISITS, LOOK = 0, 1, 2, 3, 4


@kernel
def put(slot, time, head, forth, back, when, registers):
    """Schedule one slot; what is already due is drained next."""
    when[slot] = time
    if time <= registers[1]:
        time = registers[1] + 1
    b = (time >> registers[0]) & (head.shape[0] - 1)
    first = head[b]
    forth[slot] = first
    back[slot] = -(b + 2)
    if first >= 0:
        back[first] = slot
    head[b] = slot
    registers[2] += 1


@kernel
def cancel(slot, head, forth, back, registers):
    """Unschedule one slot (it must be scheduled)."""
    before, after = back[slot], forth[slot]
    if before < -1:
        head[-before - 2] = after
    else:
        forth[before] = after
    if after >= 0:
        back[after] = before
    back[slot] = -1
    registers[2] -= 1


@kernel
def put_many(slots, times, forever, head, forth, back, when, registers):
    """Schedule slots, except those that never end."""
    for i in range(slots.shape[0]):
        if times[i] < forever:
            put(slots[i], times[i], head, forth, back, when, registers)
        else:
            back[slots[i]] = -1


@kernel
def cancel_many(slots, head, forth, back, registers):
    """Unschedule those that are scheduled."""
    for s in slots:
        if back[s] != -1:
            cancel(s, head, forth, back, registers)


@kernel
def drain(now, out, n, head, forth, back, when, registers):
    """Unschedule everything due by `now` into `out` from n on (unordered); returns where it ends."""
    if registers[2] == 0:
        registers[1] = max(registers[1], now)
        return n
    shift = registers[0]
    size = head.shape[0]
    # The bucket of `registers[1]` itself may hold later times of its own span.
    first = registers[1] >> shift
    last = now >> shift
    if last - first >= size:
        last = first + size - 1
    for k in range(first, last + 1):
        slot = head[k & (size - 1)]
        while slot >= 0:
            after = forth[slot]
            registers[3] += 1
            if when[slot] <= now:
                cancel(slot, head, forth, back, registers)
                out[n] = slot
                n += 1
            slot = after
    registers[1] = max(registers[1], now)
    return n


@kernel
def tick(starts, slots, times, forever, eager, out, n, head, forth, back, when, registers):
    """Schedule slots as their time comes (none: time only passes) and drain every `eager` units; returns where `out` ends."""
    for i in range(starts.shape[0]):
        if slots.shape[0]:
            if times[i] < forever:
                put(slots[i], times[i], head, forth, back, when, registers)
            else:
                back[slots[i]] = -1
        if starts[i] >= registers[4]:
            n = drain(starts[i], out, n, head, forth, back, when, registers)
            registers[4] = starts[i] + eager
    return n


@kernel
def rebuild(size, head, forth, back, when, registers):
    """Link all scheduled slots (back != -1) below `size` anew after `shift` or the table changed."""
    for slot in range(size):
        if back[slot] != -1:
            back[slot] = -1_000_000_000
    head[:] = -1
    registers[2] = 0
    for slot in range(size):
        if back[slot] == -1_000_000_000:
            put(slot, when[slot], head, forth, back, when, registers)
