"""Frequent values with bounded memory, and small tables of values that are looked up."""

from __future__ import annotations

import numpy as np

from penstock.kernels.compile import ix, kernel
from penstock.kernels.hash.mix import mix


@kernel
def space_saving(keys, weight, used, value, count, error, beside, own):
    """Count values (Metwally et al. 2005): one that is not there takes the place of the least, with its count as error.

    `beside[:, k]` is counted for the value in place k alone, so it begins anew with the value; `own` is its row that counts here.
    Returns the places in use. Of equal ones the first is the least: the same values in the same order make the same table.
    """
    room = value.shape[0]
    for i in range(keys.shape[0]):
        k = keys[i]
        at = -1
        for j in range(used):
            if value[ix(j)] == k:
                at = j
                break
        if at < 0:
            if used < room:
                at = used
                used += 1
                count[ix(at)] = 0.0
                error[ix(at)] = 0.0
            else:
                at = 0
                for j in range(1, room):
                    if count[ix(j)] < count[ix(at)]:
                        at = j
                error[ix(at)] = count[ix(at)]
            value[ix(at)] = k
            for m in range(beside.shape[0]):
                beside[ix(m), ix(at)] = 0.0
        count[ix(at)] += weight
        beside[ix(own), ix(at)] += weight
    return used


@kernel
def fill(value, which, slot_value, slot_which):
    """Lay values into an open-addressing table, each with a number from 0; empty slots have -1."""
    mask = np.uint64(slot_value.shape[0] - 1)
    slot_which[:] = -1
    for i in range(value.shape[0]):
        h = mix(value[i]) & mask
        while slot_which[ix(h)] >= 0:
            h = (h + np.uint64(1)) & mask
        slot_value[ix(h)] = value[i]
        slot_which[ix(h)] = which[i]


@kernel
def find(keys, slot_value, slot_which, out):
    """The number that each key was laid down with, -1 for none."""
    mask = np.uint64(slot_value.shape[0] - 1)
    for i in range(keys.shape[0]):
        h = mix(keys[i]) & mask
        while slot_which[ix(h)] >= 0 and slot_value[ix(h)] != keys[i]:
            h = (h + np.uint64(1)) & mask
        out[ix(i)] = slot_which[ix(h)]
