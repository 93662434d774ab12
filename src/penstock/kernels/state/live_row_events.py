"""Events of a roster: which slot starts or ends when, in time order, ends before starts.

Also the small orderings every operator needs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from penstock.kernels.compile import inline, kernel

Times = NDArray[np.int64]


@kernel
def fifo(starts, slots, queue, registers, exp, now, times, out, signs):
    """Arrivals join the queue; what is due leaves from its front. Both in time order by nature.

    `queue` is circular; registers: 0 = front, 1 = length.
    """
    mask = queue.shape[0] - 1
    n = 0
    for i in range(starts.shape[0]):
        t = starts[i]
        while registers[1] > 0:
            s = queue[registers[0] & mask]
            if exp[s] > t:
                break
            times[n] = exp[s]
            out[n] = s
            signs[n] = -1
            n += 1
            registers[0] += 1
            registers[1] -= 1
        s = slots[i]
        queue[(registers[0] + registers[1]) & mask] = s
        registers[1] += 1
        times[n] = t
        out[n] = s
        signs[n] = 1
        n += 1
    while registers[1] > 0:
        s = queue[registers[0] & mask]
        if exp[s] > now:
            break
        times[n] = exp[s]
        out[n] = s
        signs[n] = -1
        n += 1
        registers[0] += 1
        registers[1] -= 1
    return n


@kernel
def merge(starts, slots, end_times, ended, times, out, signs):
    """Merge arrivals with ends (both sorted by time), ends first."""
    i = 0
    j = 0
    n = 0
    while i < starts.shape[0] or j < ended.shape[0]:
        if j < ended.shape[0] and (i >= starts.shape[0] or end_times[j] <= starts[i]):
            times[n] = end_times[j]
            out[n] = ended[j]
            signs[n] = -1
            j += 1
        else:
            times[n] = starts[i]
            out[n] = slots[i]
            signs[n] = 1
            i += 1
        n += 1


@kernel
def outside(times, low, high):
    """The first row below `low` or not below `high`; -1 if there is none."""
    if not is_any_outside(times, low, high):
        return -1
    for i in range(times.shape[0]):
        if times[i] < low or times[i] >= high:
            return i
    return -1


@inline
def is_any_outside(times, low, high):
    """Looks at all of them, without a branch a row: many at a time."""
    found = False
    for i in range(times.shape[0]):
        found |= (times[i] < low) | (times[i] >= high)
    return found


@kernel
def is_sorted(times):
    """Looks at all of them, too."""
    falls = False
    for i in range(1, times.shape[0]):
        falls |= times[i] < times[i - 1]
    return not falls


@kernel
def arrivals(times, watermark, delay, late):
    """Which rows of a push are late; returns (how many, whether all are in time order, the new watermark).

    If they are in order none is late unless the first is: `late` is not written then.
    """
    in_order = is_sorted(times)
    if in_order and times[0] >= watermark:
        return 0, True, max(watermark, times[-1] - delay)
    n = 0
    for i in range(times.shape[0]):
        late[i] = times[i] < watermark
        n += late[i]
        watermark = max(watermark, times[i] - delay)
    return n, in_order, watermark


@kernel
def too_far(times, floor, known, reference, bound, out):
    """Which rows are beyond `floor` and more than `bound` ahead of the greatest time before them; whether any is.

    While no time is `known`, none is.
    """
    found = False
    for i in range(times.shape[0]):
        t = times[i]
        far = known and t > floor and t > reference + bound
        out[i] = far
        found |= far
        if not far:
            reference = max(reference, t) if known else t
            known = True
    return found


@kernel
def mixed_instants(times, signs, out):
    """Rows (in time order, '-' first) of instants that have both signs; returns how many."""
    n = 0
    begin = 0
    for i in range(1, times.shape[0] + 1):
        if i < times.shape[0] and times[i] == times[begin]:
            continue
        if signs[begin] != signs[i - 1]:
            for r in range(begin, i):
                out[n] = r
                n += 1
        begin = i
    return n


@kernel
def counting_order(keys, low, counts, out):
    """Stable order of keys in [low, low + len(counts) - 1): O(n + range)."""
    for i in range(keys.shape[0]):
        counts[keys[i] - low + 1] += 1
    for k in range(1, counts.shape[0]):
        counts[k] += counts[k - 1]
    for i in range(keys.shape[0]):
        k = keys[i] - low
        out[counts[k]] = i
        counts[k] += 1


def time_order(times: Times) -> Times | None:
    """Positions that sort `times` stably, or None if they are sorted already."""
    n = len(times)
    if n < 2 or is_sorted(times):
        return None
    low = int(times.min())
    span = int(times.max()) - low + 1
    if span <= 32 * n + 1024:  # beyond, comparing is cheaper than counting
        out = np.empty(n, np.int64)
        counting_order(times, low, np.zeros(span + 1, np.int32), out)
        return out
    return np.argsort(times, kind="stable")
