"""Two hash functions of 64-bit words: a mixer, and a single multiplication where a table is looked up per row."""

from __future__ import annotations

import numpy as np

from penstock.kernels.compile import inline, kernel

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2⁶⁴ over the golden ratio."""


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


@inline
def spread(word, shift):
    """The bucket of a word among 2 ** (64 - shift): the high bits of a product depend on every bit below them, and keys
    that follow each other fall far apart (Knuth, vol. 3, §6.4)."""
    return (np.uint64(word) * GOLDEN) >> np.uint64(shift)


def shift_of(buckets: int) -> int:
    """What `spread` takes for a power of two of buckets."""
    return 65 - buckets.bit_length()


@kernel
def mix_rows(words, out):
    """A 64-bit hash of each row of a table of words, for joins on several attributes."""
    for i in range(words.shape[0]):
        h = GOLDEN
        for k in range(words.shape[1]):
            h = mix(h ^ np.uint64(words[i, k])) + GOLDEN
        out[i] = np.int64(h)
