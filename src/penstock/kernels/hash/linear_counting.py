"""How many different values there are, roughly, in little memory: a bit for each hash (linear counting, Whang et al. 1990)."""

from __future__ import annotations

import numpy as np

from penstock.kernels.compile import kernel
from penstock.kernels.hash.mix import mix


@kernel
def note(words, bits):
    """Set the bit of every value; returns how many were not set before."""
    new = 0
    mask = np.uint64(bits.shape[0] - 1)
    for i in range(words.shape[0]):
        b = mix(words[i]) & mask
        new += not bits[b]
        bits[b] = True
    return new
