"""What the hand-written programs look ranges up in: intervals between end points, a bitmap for each, a directory.

The end points of an attribute's ranges, sorted, cut its values into intervals. All values of an interval satisfy the same queries: their
bits are a row of `bits`. A directory of 4,096 cells gives the first interval of a cell; the few end points within one are
passed without a branch.

Queries are dealt to tiles of as many words as fit the cache with all their intervals, those over the same attributes
together, so that a tile need not look at attributes that none of its queries has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.types.memory import aligned
from penstock_lab.benchmarks.standing.workload import Range, Ranges

Array = NDArray[Any]

CELLS = 1 << 12
SIDES = 6
"""Rows of `bits` that are put together for a row: one an attribute."""
BLOCK = 512
"""Rows that are looked up together, so that a directory stays in the first cache."""
ALL = np.uint64(2**64 - 1)
NEVER = np.int32(2**31 - 1)
"""An end point that no value reaches."""


@dataclass(frozen=True, slots=True)
class Tile:
    """Some queries: `members[i]` is the query of bit i.

    `attributes` are those that the tile has to look at; of each the first value and the width (as a shift) of its cells, its
    `directory` and its `ends`, and the number of its first interval. `bits` are the words of all intervals in one row, and
    after them one that lets everything through, for attributes not looked at, and one that lets nothing.
    """

    members: Array
    attributes: Array
    first: Array
    shift: Array
    directory: Array
    ends: Array
    most: int
    """End points in a cell, at most."""
    base: Array
    bits: Array
    everything: int
    nothing: int


def tiles(queries: Sequence[Ranges], words: int) -> list[Tile]:
    """All queries, `64 * words` a tile."""
    order = sorted(range(len(queries)), key=lambda q: (len(queries[q].ranges), queries[q].attributes))
    size = 64 * words
    return [_tile(queries, order[i : i + size], words) for i in range(0, len(order), size)]


def _tile(queries: Sequence[Ranges], members: Sequence[int], words: int) -> Tile:
    sides: dict[int, list[tuple[int, Range]]] = {}
    for bit, member in enumerate(members):
        for one in queries[member].ranges:
            sides.setdefault(one.attribute, []).append((bit, one))
    chosen = sorted(sides)
    parts = [_intervals(sides[a], len(members), words) for a in chosen]
    longest = max(len(ends) for ends, _ in parts)
    first = np.array([ends[0] for ends, _ in parts], np.int32)
    spans = [int(ends[-1]) - int(ends[0]) for ends, _ in parts]
    shift = np.array([max(0, (span // CELLS).bit_length()) for span in spans], np.int32)
    ends = np.full((len(chosen), longest + 1), NEVER, np.int32)
    directory = np.zeros((len(chosen), CELLS + 1), np.uint16)
    most = 1
    for i, (points, _) in enumerate(parts):
        ends[i, : len(points)] = points
        starts = int(first[i]) + (np.arange(CELLS + 1, dtype=np.int64) << shift[i])
        directory[i] = np.searchsorted(points, starts)
        most = max(most, int(np.diff(directory[i]).max()))
    rows = [len(bits) for _, bits in parts]
    base = np.cumsum([0, *rows[:-1]]).astype(np.int32)
    extremes = np.array([[ALL], [0]], np.uint64).repeat(words, axis=1)
    whole = [*(bits for _, bits in parts), extremes]
    # A bitmap in two lines of the cache instead of one costs a third of the speed.
    bits = np.concatenate(whole, out=aligned((sum(map(len, whole)), words), np.uint64))
    return Tile(
        np.array(members, np.int64),
        np.array(chosen, np.int64),
        first,
        shift,
        directory,
        ends,
        most,
        base,
        bits.reshape(-1),
        (len(bits) - 2) * words,
        (len(bits) - 1) * words,
    )


def _intervals(ranges: Sequence[tuple[int, Range]], members: int, words: int) -> tuple[Array, Array]:
    """End points and a bitmap for every interval before, between and after them; who asks nothing of the attribute is satisfied."""
    points = np.unique([p for _, r in ranges for p in (r.lo, r.hi)]).astype(np.int32)
    passed = np.zeros((len(points) + 1, 64 * words), np.uint8)
    passed[:, :members] = 1
    for bit, r in ranges:
        column = passed[:, bit]
        low, high = np.searchsorted(points, (r.lo, r.hi)) + 1
        column[:low] = 0
        column[high:] = 0
    return points, np.packbits(passed, axis=1, bitorder="little").view(np.uint64)
