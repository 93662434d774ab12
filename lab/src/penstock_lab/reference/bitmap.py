"""Hand-written programs for conjunctions of ranges: what the engine is measured against.

A row's bitmap of queries is the AND of one table row a side (`tables`). `Counting` adds bitmaps up query by query, by vertical counters:
bit q of plane l is bit l of query q's count, so one instruction adds to as many counters as a vector has bits. `Total`
only counts how many bits there are. `Delivering` gives every query the numbers of its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.types.memory import room
from penstock_lab.benchmarks.standing.workload import Ranges
from penstock_lab.reference import njit
from penstock_lab.reference.bitmap_tables import BLOCK, CELLS, SIDES, Tile, tiles
from penstock_lab.reference.bitmap_vectors import PLANES, lowest, steps

Array = NDArray[Any]

ROWS = 1 << (PLANES - 1)
"""How many rows are added up before counts are read from the planes."""
LAST = CELLS - 1
GROUP = 64
"""Rows after which what has left the low planes goes on."""
WIDTHS = (1, 4, 16)
"""Words in a tile: the least that holds the queries, or the last. Tables of 1,024 queries fit the second cache."""


@njit
def _find(column, start, rows, first, shift, cells, ends, most, base, words, at):  # type: ignore[no-untyped-def]
    """Where in `bits` the intervals of some values are: a directory entry, then past the end points of its cell."""
    zero, last = np.int32(0), np.int32(LAST)
    for i in range(rows):
        value = column[np.uint64(start + i)]
        interval = np.int32(cells[np.uint32(min(max((value - first) >> shift, zero), last))])
        interval += np.int32(value >= ends[np.uint32(interval)])
        interval += np.int32(value >= ends[np.uint32(interval)])
        interval += np.int32(value >= ends[np.uint32(interval)])
        at[i] = interval
    for _ in range(3, most):
        for i in range(rows):
            at[i] += np.int32(column[np.uint64(start + i)] >= ends[np.uint32(at[i])])
    for i in range(rows):
        at[i] = np.int32((at[i] + base) * words)


@njit
def _read(planes, words, members, counts):  # type: ignore[no-untyped-def]
    """Counts from planes, which are then empty."""
    one = np.uint64(1)
    for i in range(len(members)):
        word, bit = i >> 6, np.uint64(i & 63)
        count = np.int64(0)
        for level in range(PLANES):
            count += np.int64((planes[level * words + word] >> bit) & one) << level
        counts[members[i]] += count
    planes[:] = 0


@cache
def _kernels(words: int) -> tuple[Any, Any, Any]:
    """For tiles of one width: one that is known when they are compiled."""
    add, ripple, ones, meet = steps(words)
    width = np.int32(words)

    @njit
    def block_of(columns, start, rows, sides, at):  # type: ignore[no-untyped-def]
        attributes, first, shift, directory, ends, most, base = sides
        for i in range(len(attributes)):
            _find(
                columns[attributes[i]], start, rows, first[i], shift[i], directory[i], ends[i], most, base[i],
                width, at[i],
            )  # fmt: skip

    @njit
    def counting(columns, start, stop, sides, bits, nothing, at, planes):  # type: ignore[no-untyped-def]
        for begin in range(start, stop, BLOCK):
            rows = min(BLOCK, stop - begin)
            block_of(columns, begin, rows, sides, at)
            for row in range(rows, (rows + 7) & -8):
                at[0, row] = nothing
            for group in range(0, rows, GROUP):
                for row in range(group, min(group + GROUP, rows), 8):
                    add(bits, at, row, planes)
                ripple(planes)

    @njit
    def total(columns, sides, bits, at):  # type: ignore[no-untyped-def]
        found = 0
        for begin in range(0, len(columns[0]), BLOCK):
            rows = min(BLOCK, len(columns[0]) - begin)
            block_of(columns, begin, rows, sides, at)
            for row in range(rows):
                found += ones(bits, at, row)
        return found

    @njit
    def delivering(columns, sides, bits, at, x, members, places, numbers):  # type: ignore[no-untyped-def]
        one = np.uint64(1)
        for begin in range(0, len(columns[0]), BLOCK):
            rows = min(BLOCK, len(columns[0]) - begin)
            block_of(columns, begin, rows, sides, at)
            for row in range(rows):
                meet(bits, at, row, x)
                for word in range(words):
                    left = x[word]
                    while left:
                        query = members[64 * word + lowest(left)]
                        numbers[places[query]] = begin + row
                        places[query] += 1
                        left &= left - one

    return counting, total, delivering


class _Program:
    """Queries dealt to tiles, and room to work in."""

    def __init__(self, queries: Sequence[Ranges]) -> None:
        self.queries = len(queries)
        self.words = next((w for w in WIDTHS if 64 * w >= len(queries)), WIDTHS[-1])
        self.tiles = tiles(queries, self.words)
        self.counting, self.total, self.delivering = _kernels(self.words)
        self.planes = np.zeros((PLANES + 1) * self.words, np.uint64)
        self.counts = np.zeros(self.queries, np.int64)

    def sides(self, tile: Tile) -> tuple[Any, ...]:
        return tile.attributes, tile.first, tile.shift, tile.directory, tile.ends, tile.most, tile.base

    def at(self, tile: Tile) -> Array:
        """All sides let everything through until they are looked at."""
        return np.full((SIDES, BLOCK), tile.everything, np.int32)


class Counting(_Program):
    """`counts`: rows of every query so far."""

    def __call__(self, columns: tuple[Array, ...]) -> None:
        for tile in self.tiles:
            at, sides = self.at(tile), self.sides(tile)
            for start in range(0, len(columns[0]), ROWS):
                stop = min(start + ROWS, len(columns[0]))
                self.counting(columns, start, stop, sides, tile.bits, tile.nothing, at, self.planes)
                _read(self.planes, self.words, tile.members, self.counts)


class Total(_Program):
    """`found`: rows of all queries together so far."""

    found = 0

    def __call__(self, columns: tuple[Array, ...]) -> None:
        for tile in self.tiles:
            self.found += self.total(columns, self.sides(tile), tile.bits, self.at(tile))


class Delivering(Counting):
    """Gives, for a push, the row numbers of all queries one after the other, and where each query's begin.

    They are counted first, so that every number is written once, where it stays.
    """

    def __call__(self, columns: tuple[Array, ...]) -> tuple[Array, Array]:  # type: ignore[override]
        before = self.counts.copy()
        super().__call__(columns)
        begins = np.zeros(self.queries + 1, np.int64)
        np.cumsum(self.counts - before, out=begins[1:])
        numbers, places = room(int(begins[-1]), np.int32), begins[:-1].copy()
        x = np.empty(self.words, np.uint64)
        for tile in self.tiles:
            self.delivering(
                columns, self.sides(tile), tile.bits, self.at(tile), x, tile.members, places, numbers
            )
        return numbers, begins
