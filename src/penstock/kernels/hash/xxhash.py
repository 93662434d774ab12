"""XXH64 as Spark chains it over the columns of a row: each value is hashed with the hash so far as its seed.

A NULL leaves the hash as it is. Numbers of up to 32 bits are one word of four bytes, all others one of eight; strings are
their bytes. (Y. Collet, xxHash, 2012; `org.apache.spark.sql.catalyst.expressions.XXH64`.)
"""

from __future__ import annotations

import numpy as np

from penstock.kernels.compile import kernel, part

SEED = 42
"""What Spark begins a row with."""

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)


@part
def _turned(word, bits):
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


@part
def _finished(h):
    h ^= h >> np.uint64(33)
    h *= _P2
    h ^= h >> np.uint64(29)
    h *= _P3
    h ^= h >> np.uint64(32)
    return h


@part
def _with_eight(h, word):
    h ^= _turned(word * _P2, 31) * _P1
    return _turned(h, 27) * _P1 + _P4


@part
def _with_four(h, word):
    h ^= word * _P1
    return _turned(h, 23) * _P2 + _P3


@part
def _round(lane, word):
    return _turned(lane + word * _P2, 31) * _P1


@part
def _merged(h, lane):
    h ^= _turned(lane * _P2, 31) * _P1
    return h * _P1 + _P4


@part
def _read(source, at, size):
    """So many bytes, the lowest first."""
    word = np.uint64(0)
    for j in range(size):
        word |= np.uint64(source[at + j]) << np.uint64(8 * j)
    return word


@kernel
def chain_longs(values, hashes):
    """Hashes of rows, each with one more value of 64 bits."""
    for i in range(len(values)):
        h = np.uint64(hashes[i]) + _P5 + np.uint64(8)
        hashes[i] = np.int64(_finished(_with_eight(h, np.uint64(values[i]))))


@kernel
def chain_ints(values, hashes):
    """Hashes of rows, each with one more value of 32 bits."""
    for i in range(len(values)):
        h = np.uint64(hashes[i]) + _P5 + np.uint64(4)
        word = np.uint64(np.int64(values[i])) & np.uint64(0xFFFFFFFF)
        hashes[i] = np.int64(_finished(_with_four(h, word)))


@kernel
def chain_texts(source, offsets, hashes):
    """Hashes of rows, each with one more string: the bytes from its offset to the next one's."""
    for i in range(len(hashes)):
        seed = np.uint64(hashes[i])
        at, end = offsets[i], offsets[i + 1]
        size = end - at
        if size >= 32:
            a, b, c, d = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
            while at + 32 <= end:
                a = _round(a, _read(source, at, 8))
                b = _round(b, _read(source, at + 8, 8))
                c = _round(c, _read(source, at + 16, 8))
                d = _round(d, _read(source, at + 24, 8))
                at += 32
            h = _turned(a, 1) + _turned(b, 7) + _turned(c, 12) + _turned(d, 18)
            h = _merged(_merged(_merged(_merged(h, a), b), c), d)
        else:
            h = seed + _P5
        h += np.uint64(size)
        while at + 8 <= end:
            h = _with_eight(h, _read(source, at, 8))
            at += 8
        if at + 4 <= end:
            h = _with_four(h, _read(source, at, 4))
            at += 4
        while at < end:
            h = _turned(h ^ (np.uint64(source[at]) * _P5), 11) * _P1
            at += 1
        hashes[i] = np.int64(_finished(h))


@kernel
def keep_digit(hashes, share, digit, kept):
    """Keep only those rows whose hash, over `share` parts, gives the digit."""
    if share & (share - 1) == 0:
        for i in range(len(hashes)):
            kept[i] &= (hashes[i] & (share - 1)) == digit
    else:
        for i in range(len(hashes)):
            kept[i] &= hashes[i] % share == digit
