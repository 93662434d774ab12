"""One 64-bit mixer for every hash table in the engine."""

from __future__ import annotations

import numpy as np

from penstock.kernels.jit import kernel


@kernel
def mix(word):
    """A bijection of 64-bit words whose low bits depend on every input bit (murmur3's finaliser)."""
    h = np.uint64(word)
    h ^= h >> np.uint64(33)
    h *= np.uint64(0xFF51AFD7ED558CCD)
    h ^= h >> np.uint64(33)
    h *= np.uint64(0xC4CEB9FE1A85EC53)
    h ^= h >> np.uint64(33)
    return h


@kernel
def mix_rows(words, out):
    """A 64-bit hash of each row of a table of words, for joins on several attributes."""
    for i in range(words.shape[0]):
        h = np.uint64(0x9E3779B97F4A7C15)
        for k in range(words.shape[1]):
            h = mix(h ^ np.uint64(words[i, k])) + np.uint64(0x9E3779B97F4A7C15)
        out[i] = np.int64(h)
