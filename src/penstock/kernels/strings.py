"""Kernels of the string pool: interning, gathering, comparing and cutting UTF-8 bytes by code.

A pool is seven arrays: `data` (bytes), `start` and `size` per code (size −1: the code is free), `hashes` per
code, `table` (open addressing, −1: empty), `free` (a stack of freed codes) and `meta`. Codes that are out
of range or free read as the empty string, because values under NULL may be anything.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.kernels.compile import kernel, maker

CODES, BYTES, FREE = 0, 1, 2
"""Places in `meta`: codes ever given, bytes used, codes on the free stack."""

Bytes = NDArray[np.uint8]
Codes = NDArray[np.int32]
Sizes = NDArray[np.int32]
Places = NDArray[np.int64]
Hashes = NDArray[np.uint64]
Flags = NDArray[np.bool_]

_EIGHT = np.uint64(8)
_R32 = np.uint64(32)
_R29 = np.uint64(29)


@kernel
def hash_bytes(source: Bytes, low: int, high: int, seed: Hashes) -> Any:
    """64 bits of the bytes [low, high). The multipliers are secret per process, so that no fixed set of
    strings collides everywhere; the table compares bytes, so a collision costs time and nothing else."""
    h = seed[0] ^ (np.uint64(high - low) * seed[1])
    i = low
    while i + 8 <= high:
        word = np.uint64(0)
        for j in range(8):
            word |= np.uint64(source[i + j]) << np.uint64(8 * j)
        h = (h ^ word) * seed[1]
        h ^= h >> _R32
        h *= seed[2]
        h ^= h >> _R29
        i += 8
    word = np.uint64(0)
    while i < high:
        word = (word << _EIGHT) | np.uint64(source[i])
        i += 1
    h = (h ^ word) * seed[1]
    h ^= h >> _R32
    h *= seed[2]
    h ^= h >> _R29
    return h


@kernel
def _place(table: Codes, hashed: Any) -> Any:
    return np.int64(hashed & np.uint64(len(table) - 1))


@kernel
def intern(
    source: Bytes,
    lows: Places,
    highs: Places,
    valid: Flags,
    first: int,
    out: Codes,
    data: Bytes,
    start: Places,
    size: Sizes,
    hashes: Hashes,
    table: Codes,
    free: Codes,
    meta: Places,
    seed: Hashes,
) -> int:
    """Codes of the strings `source[lows[i]:highs[i]]` from row `first` on; NULL rows get code 0.

    Returns the first row not done: the number of rows, or less when the pool must grow first. `valid` may
    be empty: nothing is NULL.
    """
    mask = len(table) - 1
    some_null = len(valid) > 0
    for row in range(first, len(lows)):
        if some_null and not valid[row]:
            out[row] = 0
            continue
        low, high = lows[row], highs[row]
        length = high - low
        hashed = hash_bytes(source, low, high, seed)
        place = _place(table, hashed)
        found = -1
        while table[place] >= 0:
            code = table[place]
            if hashes[code] == hashed and size[code] == length:
                base = start[code]
                same = True
                for j in range(length):
                    if data[base + j] != source[low + j]:
                        same = False
                        break
                if same:
                    found = code
                    break
            place = (place + 1) & mask
        if found < 0:
            live = meta[CODES] - meta[FREE]
            if meta[BYTES] + length > len(data) or 2 * (live + 1) > len(table):
                return row
            if meta[FREE] > 0:
                meta[FREE] -= 1
                found = free[meta[FREE]]
            else:
                if meta[CODES] == len(start):
                    return row
                found = meta[CODES]
                meta[CODES] += 1
            base = meta[BYTES]
            for j in range(length):
                data[base + j] = source[low + j]
            meta[BYTES] += length
            start[found] = base
            size[found] = length
            hashes[found] = hashed
            table[place] = found
        out[row] = found
    return len(lows)


@kernel
def rebuild(table: Codes, size: Sizes, hashes: Hashes, count: int) -> None:
    """Enters every live code into an empty table."""
    mask = len(table) - 1
    for code in range(count):
        if size[code] >= 0:
            place = _place(table, hashes[code])
            while table[place] >= 0:
                place = (place + 1) & mask
            table[place] = code


@maker
def sweep(marks: Flags, data: Bytes, start: Places, size: Sizes, free: Codes, meta: Places) -> int:
    """Frees unmarked codes and closes the gaps in `data`; live codes keep their number.

    Codes are not in byte order once some were reused, so bytes go to a new array; it is returned through
    `data` by copying back, which keeps the array's identity. Returns how many codes were freed.
    """
    freed = 0
    for code in range(meta[CODES]):
        if size[code] >= 0 and not marks[code]:
            size[code] = -1
            free[meta[FREE]] = code
            meta[FREE] += 1
            freed += 1
    total = 0
    for code in range(meta[CODES]):
        if size[code] > 0:
            total += size[code]
    packed = np.empty(total, np.uint8)
    used = 0
    for code in range(meta[CODES]):
        if size[code] >= 0:
            base = start[code]
            for j in range(size[code]):
                packed[used + j] = data[base + j]
            start[code] = used
            used += size[code]
    data[:used] = packed
    meta[BYTES] = used
    return freed


@kernel
def _length(code: Any, size: Sizes) -> Any:
    if code < 0 or code >= len(size) or size[code] < 0:
        return 0
    return size[code]


@maker
def offsets_of(codes: Codes, valid: Flags, size: Sizes) -> Places:
    """Where each string begins when they are laid end to end, and where the last ends."""
    out = np.empty(len(codes) + 1, np.int64)
    some_null = len(valid) > 0
    total = 0
    out[0] = 0
    for i in range(len(codes)):
        if not (some_null and not valid[i]):
            total += _length(codes[i], size)
        out[i + 1] = total
    return out


@maker
def gather(codes: Codes, offsets: Places, data: Bytes, start: Places) -> Bytes:
    """The strings laid end to end."""
    out = np.empty(offsets[-1], np.uint8)
    for i in range(len(codes)):
        low = offsets[i]
        length = offsets[i + 1] - low
        if length > 0:
            base = start[codes[i]]
            for j in range(length):
                out[low + j] = data[base + j]
    return out


@kernel
def order_of(a: Any, b: Any, data: Bytes, start: Places, size: Sizes) -> Any:
    """−1, 0 or 1: binary order of UTF-8, which is the order of code points."""
    if a == b:
        return 0
    m, n = _length(a, size), _length(b, size)
    if m == 0 or n == 0:
        return (m > n) - (m < n)
    x, y = start[a], start[b]
    for j in range(min(m, n)):
        if data[x + j] != data[y + j]:
            return -1 if data[x + j] < data[y + j] else 1
    return (m > n) - (m < n)


@maker
def compare(left: Codes, right: Codes, data: Bytes, start: Places, size: Sizes) -> NDArray[np.int8]:
    """Row by row; a side of length 1 stands beside every row of the other."""
    n = max(len(left), len(right)) if len(left) and len(right) else 0
    out = np.empty(n, np.int8)
    one_left, one_right = len(left) == 1, len(right) == 1
    for i in range(n):
        a = left[0] if one_left else left[i]
        b = right[0] if one_right else right[i]
        out[i] = order_of(a, b, data, start, size)
    return out


@maker
def insert_places(codes: Codes, new: Codes, data: Bytes, start: Places, size: Sizes) -> Places:
    """Where each of the sorted `new` codes goes among the sorted `codes`."""
    out = np.empty(len(new), np.int64)
    floor = 0
    for i in range(len(new)):
        low, high = floor, len(codes)
        while low < high:
            middle = (low + high) // 2
            if order_of(codes[middle], new[i], data, start, size) < 0:
                low = middle + 1
            else:
                high = middle
        out[i] = low
        floor = low
    return out


@maker
def places(codes: Codes, among: Codes, data: Bytes, start: Places, size: Sizes) -> Places:
    """Where each of the codes lies among sorted ones: 2 k between, 2 k + 1 if it is one of them, k being less."""
    out = np.empty(len(codes), np.int64)
    for i in range(len(codes)):
        low, high = 0, len(among)
        while low < high:
            middle = (low + high) // 2
            if order_of(among[middle], codes[i], data, start, size) < 0:
                low = middle + 1
            else:
                high = middle
        out[i] = 2 * low + (low < len(among) and among[low] == codes[i])
    return out


@kernel
def _matches(data: Bytes, at: int, part: int, length: int) -> bool:
    for j in range(length):
        if data[at + j] != data[part + j]:
            return False
    return True


@maker
def search(mode: int, texts: Codes, parts: Codes, data: Bytes, start: Places, size: Sizes) -> Flags:
    """Row by row: does the text start with (0), end with (1) or contain (2) the part? Byte matches are
    character matches, because UTF-8 is self-synchronising."""
    n = max(len(texts), len(parts)) if len(texts) and len(parts) else 0
    out = np.empty(n, np.bool_)
    one_text, one_part = len(texts) == 1, len(parts) == 1
    for i in range(n):
        text = texts[0] if one_text else texts[i]
        part = parts[0] if one_part else parts[i]
        m, k = _length(text, size), _length(part, size)
        if k == 0:
            out[i] = True
        elif k > m:
            out[i] = False
        else:
            a, b = start[text], start[part]
            if mode == 0:
                out[i] = _matches(data, a, b, k)
            elif mode == 1:
                out[i] = _matches(data, a + m - k, b, k)
            else:
                hit = False
                for at in range(a, a + m - k + 1):
                    if _matches(data, at, b, k):
                        hit = True
                        break
                out[i] = hit
    return out


@maker
def characters(codes: Codes, data: Bytes, start: Places, size: Sizes) -> Places:
    """Code points per string: bytes that do not continue one."""
    out = np.empty(len(codes), np.int64)
    for i in range(len(codes)):
        total = 0
        length = _length(codes[i], size)
        if length > 0:
            base = start[codes[i]]
            for j in range(base, base + length):
                total += (data[j] & 0xC0) != 0x80
        out[i] = total
    return out


@kernel
def cut(
    codes: Codes,
    begins: Places,
    ends: Places,
    lows: Places,
    highs: Places,
    data: Bytes,
    start: Places,
    size: Sizes,
) -> None:
    """Byte bounds of the characters [begins, ends) of each string, clipped to it."""
    for i in range(len(codes)):
        length = _length(codes[i], size)
        if length == 0 or ends[i] <= begins[i]:
            lows[i] = 0
            highs[i] = 0
            continue
        base = start[codes[i]]
        low = high = base + length
        seen = 0
        for j in range(base, base + length):
            if (data[j] & 0xC0) != 0x80:
                if seen == max(begins[i], 0):
                    low = j
                if seen == ends[i]:
                    high = j
                    break
                seen += 1
        lows[i] = low
        highs[i] = max(low, high)
