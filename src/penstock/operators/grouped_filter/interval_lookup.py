"""From a value to the id of its cell: a place of its own for every value, a directory over bounds, or texts by code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.kernels.filters.layout import PADS
from penstock.operators.expressions.strings import PerCode
from penstock.state.arena import power_of_two
from penstock.state.strings import Strings
from penstock.types import sizes
from penstock.types.batch import Array, Column, Ints

PLACES = 1 << 12, 1 << 16
"""Of a directory, at least and at most; between, four for every bound: few then share one."""
_GREATEST = np.iinfo(np.int64).max
_NO_BOUNDS: Ints = np.empty(0, np.int64)
_NO_IDS = _NO_PLACES = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class Index:
    """What `kernels.filters.look_up` takes."""

    low: int
    shift: int
    directory: Array
    bounds: Ints
    """And `PADS`."""
    ids: Array
    direct: Array
    most: int = 0
    """Bounds that one place of the directory leaves to look at, at most."""
    places: PerCode | None = None
    """Of strings: from codes to what is looked up."""


def numbers_index(bounds: Ints, ids: Array) -> Index:
    """Cells of numbers between sorted bounds."""
    low = int(bounds[0]) if len(bounds) else 0
    span = int(bounds[-1]) - low if len(bounds) else 0
    if span < sizes.current.direct_values:
        # One place for all that lies below the first bound; the last stands for all above.
        repeats = np.ones(len(ids), np.int64)
        repeats[1:-1] = np.diff(bounds)
        return Index(
            low - 1 if len(bounds) else 0, 0, _NO_PLACES, _NO_BOUNDS, _NO_IDS, np.repeat(ids, repeats)
        )
    places = min(max(power_of_two(4 * len(bounds)), PLACES[0]), PLACES[1])
    shift = max(0, span.bit_length() - places.bit_length() + 1)
    starts = np.uint64(low & (2**64 - 1)) + (np.arange(1, places, dtype=np.uint64) << np.uint64(shift))
    inside = np.arange(1, places) <= (span >> shift)
    directory = np.full(places + 1, len(bounds), np.int32)
    directory[0] = 0
    directory[1:places][inside] = np.searchsorted(bounds, starts[inside].view(np.int64), side="left")
    most = int(np.diff(directory).max())
    return Index(low, shift, directory, np.append(bounds, [_GREATEST] * PADS), ids, _NO_IDS, most)


def texts_index(
    bounds: Sequence[tuple[str, int]], ids: Array, known: int, pins: dict[str, int], strings: Strings
) -> Index:
    """Cells of texts between (text, whether just behind it), found once per distinct string; `pins` keeps the constants' codes."""
    texts = list(dict.fromkeys(text for text, _ in bounds))
    for text in pins.keys() - set(texts):
        strings.unpin(pins.pop(text))
    for text in texts:
        if text not in pins:
            pins[text] = strings.pin(text)
    among = np.array([pins[text] for text in texts], np.int32)
    # A string is between two constants or one of them: 2 k or 2 k + 1, k constants being less.
    cells, passed, held = np.empty(2 * len(texts) + 1, np.int64), 0, set(bounds)
    for k, text in enumerate(texts):
        cells[2 * k] = passed
        passed += (text, 0) in held
        cells[2 * k + 1] = passed
        passed += (text, 1) in held
    cells[-1] = passed
    by_place = ids[cells]
    memo = PerCode(strings, np.dtype(np.int32), lambda codes: Column(by_place[strings.places(codes, among)]))
    return Index(0, 0, _NO_PLACES, _NO_BOUNDS, _NO_IDS, np.arange(known, dtype=np.int32), places=memo)
