"""The session's string pool: every string of the engine once, known by an int32 code.

Invariant  equal strings ⇔ equal codes, as long as the code is live; code 0 is the empty string.
State      the bytes end to end, per code where they are, an open-addressing table over their hashes.
Cost       O(bytes) to encode or decode; comparing for equality is comparing integers.

`sweep` frees codes nobody holds. It raises `epoch`: whoever remembers something per code forgets it then.
Codes taken with `pin` (literals in queries) are not freed until `unpin`.
"""

from __future__ import annotations

import secrets
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.errors import DataError
from penstock.kernels import strings as kernels
from penstock.kernels.strings import BYTES, CODES, FREE
from penstock.state.arena import Arena
from penstock.types import sizes
from penstock.types.batch import Array, Column, Mask

Codes = NDArray[np.int32]

_NONE_NULL: Mask = np.empty(0, np.bool_)
_WIDEST = 2**31 - 1


def validity(array: pa.Array) -> Mask | None:
    """The Arrow validity bitmap as a mask; None if nothing is NULL."""
    if array.null_count == 0:
        return None
    bitmap = array.buffers()[0]
    if bitmap is None:
        return np.zeros(len(array), np.bool_)
    offset = array.offset
    bits = np.frombuffer(bitmap, np.uint8, (offset + len(array) + 7) // 8)
    mask = np.unpackbits(bits, count=offset + len(array), bitorder="little")[offset:]
    return mask.view(np.bool_)


class Strings:
    """An exact two-way dictionary that grows, and shrinks when swept."""

    def __init__(self) -> None:
        codes = sizes.current.string_codes
        self._data = np.empty(sizes.current.string_bytes, np.uint8)
        self._start = np.zeros(codes, np.int64)
        self._size = np.full(codes, -1, np.int32)
        self._hashes = np.zeros(codes, np.uint64)
        self._table = np.full(4 * codes, -1, np.int32)
        self._free = np.empty(codes, np.int32)
        self._meta = np.zeros(4, np.int64)
        self._seed = np.array([secrets.randbits(64) | 1 for _ in range(3)], np.uint64)
        self._pinned: Counter[int] = Counter()
        self._sorted = np.empty(0, np.int32)
        self._ranks = np.empty(0, np.int32)
        self._ranked_at = (-1, -1)
        self.epoch = 0
        """Raised by every sweep that frees something."""
        self.pin("")

    # -------------------------------------------------------------- text to codes

    def encode(self, array: pa.Array) -> Column:
        """Codes and validity of a string, large_string or dictionary array of valid UTF-8."""
        kind = array.type
        if pa.types.is_dictionary(kind):
            return self._encode_dictionary(array)
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            array = array.cast(pa.string())
            kind = array.type
        rows = len(array)
        valid = validity(array)
        _, places, payload = array.buffers()
        if rows == 0 or payload is None or payload.size == 0:
            # No payload: every string is empty, and that is code 0.
            return Column(np.zeros(rows, np.int32), valid)
        width = np.int32 if pa.types.is_string(kind) else np.int64
        offsets = np.frombuffer(places, width, array.offset + rows + 1)[array.offset :].astype(np.int64)
        source = np.frombuffer(payload, np.uint8)
        return Column(self._intern(source, offsets[:-1], offsets[1:], valid), valid)

    def _encode_dictionary(self, array: pa.DictionaryArray) -> Column:
        valid = validity(array.indices)
        if len(array.dictionary) == 0:
            return Column(np.zeros(len(array), np.int32), valid)
        words = self.encode(array.dictionary)
        if words.valid is None and valid is None:
            return Column(words.values.take(array.indices.to_numpy()))
        indices = array.indices.fill_null(0).to_numpy(zero_copy_only=False)
        values = words.values.take(indices)
        if words.valid is not None:
            inner = words.valid.take(indices)
            valid = inner if valid is None else valid & inner
        return Column(values, valid)

    def _intern(self, source: Array, lows: Array, highs: Array, valid: Mask | None) -> Codes:
        source.flags.writeable = False  # Arrow's buffers are: one compiled signature for all sources
        nulls = _NONE_NULL if valid is None else valid
        out = np.empty(len(lows), np.int32)
        row = 0
        while True:
            row = kernels.intern(
                source, lows, highs, nulls, row, out, self._data, self._start, self._size,
                self._hashes, self._table, self._free, self._meta, self._seed,
            )  # fmt: skip
            if row == len(lows):
                return out
            self._grow(int(highs[row] - lows[row]))

    def _grow(self, length: int) -> None:
        """Makes room for one more string of `length` bytes, by doubling what is full."""
        meta = self._meta
        needed = int(meta[BYTES]) + length
        if needed > len(self._data):
            bigger = np.empty(max(2 * len(self._data), needed), np.uint8)
            bigger[: meta[BYTES]] = self._data[: meta[BYTES]]
            self._data = bigger
        if meta[CODES] == len(self._start) and meta[FREE] == 0:
            more = 2 * len(self._start)
            if more > _WIDEST:
                raise DataError("the session holds more than 2^31 different strings")
            self._size = _extended(self._size, more, -1)
            self._hashes = _extended(self._hashes, more, 0)
            self._free = _extended(self._free, more, 0)
            self._start = _extended(self._start, more, 0)  # last: its length says how many fit into all
        live = int(meta[CODES] - meta[FREE])
        if 2 * (live + 1) > len(self._table):
            self._rehash(2 * len(self._table))

    def _rehash(self, places: int) -> None:
        table = np.full(places, -1, np.int32)
        kernels.rebuild(table, self._size, self._hashes, int(self._meta[CODES]))
        self._table = table  # whole, also if this is interrupted

    def code(self, text: str) -> int:
        """The code of one string, new if need be."""
        source = np.frombuffer(text.encode(), np.uint8) if text else np.empty(0, np.uint8)
        bounds = np.array([0, len(source)], np.int64)
        return int(self._intern(source, bounds[:1], bounds[1:], None)[0])

    def pin(self, text: str) -> int:
        """The code of a string that no sweep will free."""
        code = self.code(text)
        self._pinned[code] += 1
        return code

    def unpin(self, code: int) -> None:
        """Take one pin back; a string without any is swept like others."""
        self._pinned[code] -= 1
        if self._pinned[code] <= 0:
            del self._pinned[code]

    # -------------------------------------------------------------- codes to text

    def decode(self, codes: Codes, valid: Mask | None = None) -> pa.StringArray:
        """The strings; what is under NULL may be any number."""
        codes = np.ascontiguousarray(codes, np.int32)
        nulls = _NONE_NULL if valid is None else valid
        offsets = kernels.offsets_of(codes, nulls, self._size)
        if offsets[-1] > _WIDEST:
            raise DataError("more than 2 GiB of text in one batch", hint="read the result in smaller steps")
        payload = kernels.gather(codes, offsets, self._data, self._start)
        bitmap = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
        places = pa.py_buffer(offsets.astype(np.int32))
        return pa.StringArray.from_buffers(len(codes), places, pa.py_buffer(payload), bitmap)

    def text(self, code: int) -> str:
        if not (0 <= code < self._meta[CODES]) or self._size[code] < 0:
            raise KeyError(code)
        start = self._start[code]
        return self._data[start : start + self._size[code]].tobytes().decode()

    # -------------------------------------------------------------- order and parts

    def compare(self, left: Codes, right: Codes) -> NDArray[np.int8]:
        """−1, 0, 1 row by row, in binary order of UTF-8; one side may be of length 1."""
        return kernels.compare(left, right, self._data, self._start, self._size)

    def order(self) -> Codes:
        """A rank per code: smaller string, smaller rank; free codes have none (−1).

        Made anew when strings have come or gone: new ones are sorted and merged in. To compare few rows
        `compare` is cheaper; ranks are for sorting and for MIN and MAX inside kernels.
        """
        now = (self.epoch, len(self))  # until the next sweep strings are only added
        if now != self._ranked_at:
            count = int(self._meta[CODES])
            live = self._size[:count] >= 0
            if now[0] == self._ranked_at[0]:
                live[self._sorted] = False
                old = self._sorted
            else:
                old = np.empty(0, np.int32)
            new = np.flatnonzero(live).astype(np.int32)
            # Arrow sorts strings as bytes.
            new = new[pc.array_sort_indices(self.decode(new)).to_numpy()]
            at = kernels.insert_places(old, new, self._data, self._start, self._size)
            ordered = np.insert(old, at, new)
            ranks = np.full(count, -1, np.int32)
            ranks[ordered] = np.arange(len(ordered), dtype=np.int32)
            self._sorted, self._ranks, self._ranked_at = ordered, ranks, now
        return self._ranks

    def places(self, codes: Codes, among: Codes) -> NDArray[np.int64]:
        """Where strings lie among sorted ones: 2 k between, or 2 k + 1 if it is one of them, k being less."""
        return kernels.places(codes, among, self._data, self._start, self._size)

    def search(self, mode: int, texts: Codes, parts: Codes) -> Mask:
        """Row by row: starts with (0), ends with (1), contains (2); one side may be of length 1."""
        return kernels.search(mode, texts, parts, self._data, self._start, self._size)

    def sizes(self, codes: Codes) -> NDArray[np.int64]:
        """Bytes per string; what is under NULL may be any number."""
        return self._size.take(codes, mode="clip").astype(np.int64)

    def lengths(self, codes: Codes) -> NDArray[np.int64]:
        """Characters (code points) per string."""
        return kernels.characters(codes, self._data, self._start, self._size)

    def cut(self, codes: Codes, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> Codes:
        """Codes of the characters [begin, end) of each string, clipped to it."""
        lows = np.empty(len(codes), np.int64)
        highs = np.empty(len(codes), np.int64)
        kernels.cut(codes, begins, ends, lows, highs, self._data, self._start, self._size)
        # The source is a view of the pool's bytes: growing makes a new array and leaves this one be.
        return self._intern(self._data.view(), lows, highs, None)

    # -------------------------------------------------------------- leaving and coming back

    def save(self, arena: Arena) -> None:
        """Lay the pool into an arena: codes stay what they are. Who pinned a string pins it again."""
        codes, used = int(self._meta[CODES]), int(self._meta[BYTES])
        arena.keep("data", self._data[:used])
        for name, array in (
            ("start", self._start), ("size", self._size), ("hashes", self._hashes), ("free", self._free)
        ):  # fmt: skip
            arena.keep(name, array[:codes])
        arena.keep("table", self._table)
        arena.keep("meta", self._meta)
        arena.keep("seed", self._seed)

    def take_up(self, arena: Arena) -> None:
        """Be the pool that was saved; nothing has been encoded here yet."""
        self._meta = arena.taken("meta", np.int64, 4)
        codes = int(self._meta[CODES])
        self._data = arena.taken("data", np.uint8, int(self._meta[BYTES]))
        self._start = arena.taken("start", np.int64, codes)
        self._size = arena.taken("size", np.int32, codes)
        self._hashes = arena.taken("hashes", np.uint64, codes)
        self._free = arena.taken("free", np.int32, codes)
        self._table = arena.taken("table", np.int32, 256)
        self._seed = arena.taken("seed", np.uint64, 3)

    # -------------------------------------------------------------- keeping house

    def sweep(self, marks: Mask) -> int:
        """Frees every code that is neither marked nor pinned; returns how many.

        `marks` is indexed by code and at least `capacity` long. Live codes keep their numbers; freed ones
        are given out again, so whatever is remembered per code is void after this (`epoch` tells).
        """
        if len(marks) < self.capacity:
            raise ValueError(f"{len(marks)} marks for {self.capacity} codes")
        kept = np.array(marks, np.bool_)
        kept[list(self._pinned)] = True
        freed = int(kernels.sweep(kept, self._data, self._start, self._size, self._free, self._meta))
        if freed:
            self.epoch += 1
            live = len(self)
            places = len(self._table)
            while places > 4 * sizes.current.string_codes and 8 * live < places:
                places //= 2
            self._rehash(places)
            used = int(self._meta[BYTES])
            if len(self._data) > 4 * max(used, sizes.current.string_bytes):
                self._data = self._data[: 2 * max(used, sizes.current.string_bytes // 2)].copy()
        return freed

    @property
    def capacity(self) -> int:
        """One more than the greatest code ever given: the length of arrays indexed by code."""
        return int(self._meta[CODES])

    @property
    def size_bytes(self) -> int:
        arrays = (
            self._data, self._start, self._size, self._hashes, self._table, self._free,
            self._sorted, self._ranks,
        )  # fmt: skip
        return sum(a.nbytes for a in arrays)

    def __len__(self) -> int:
        """Live strings."""
        return int(self._meta[CODES] - self._meta[FREE])


def _extended(array: Array, length: int, fill: int) -> Array:
    bigger = np.full(length, fill, array.dtype)
    bigger[: len(array)] = array
    return bigger
