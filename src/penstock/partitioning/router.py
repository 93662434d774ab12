"""Rows to cells: for a batch of a stream's rows, which rows each input sends to each cell.

Invariant  the cell depends on the values alone, not on process, batch or dictionary; values that SQL groups as equal
           (NULL and NULL, NaN and NaN, 0.0 and -0.0, 5 and 5 in other integer types) have equal hashes.
Cost       O(rows × keys), in NumPy and one kernel; rows keep their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.kernels.hash.mix import mix_rows
from penstock.operators.expressions.compiled import RowError
from penstock.operators.expressions.evaluator import Computed, Evaluator
from penstock.partitioning.placement import Axis, Routing
from penstock.plan.catalog import Function
from penstock.plan.expressions import Expression
from penstock.state import key_words
from penstock.state.strings import Strings
from penstock.types.batch import Column, Ints
from penstock.types.data_type import Type

Hashes = NDArray[np.uint64]

_PRIME = np.uint64(0x100000001B3)
"""FNV's multiplier."""


class Router:
    """Deals out the rows of one stream by one routing."""

    def __init__(self, routing: Routing, strings: Strings, functions: Mapping[str, Function]) -> None:
        self.routing = routing
        self._strings = strings
        self._evaluator = Evaluator(strings, functions)
        self._keys = [
            None if axis.key is None else [(term, self._evaluator.compile(term)) for term in axis.key]
            for axis in routing.axes
        ]
        self._weights = _weights(routing.axes)
        self._copies = [
            routing.origin + sum(digits)
            for digits in product(
                *(
                    [w * c for c in range(a.share)]
                    for a, w in zip(routing.axes, self._weights, strict=True)
                    if a.key is None
                )
            )
        ]
        """The cells of a row whose other digits are 0."""

    def route(self, columns: Sequence[Column], rows: int) -> Iterator[tuple[int, Ints]]:
        """Each cell that gets rows, and their numbers in ascending order."""
        if rows == 0:
            return
        place = self.places(columns, rows)
        # Numbers of 16 bits are sorted in one pass.
        narrow = len(self.routing.cells) <= 1 << 16
        order = np.argsort(place.astype(np.uint16) if narrow else place, kind="stable")
        places, begins = np.unique(place[order], return_index=True)
        for at, numbers in zip(places.tolist(), np.split(order, begins[1:]), strict=True):
            for cell in self._copies:
                yield cell + at, numbers

    def places(self, columns: Sequence[Column], rows: int) -> Hashes:
        """Of every row the number that its keys give, from 0: of the cell, less the origin, of its first copy."""
        place = np.zeros(rows, np.uint64)
        for number, (axis, keys) in enumerate(zip(self.routing.axes, self._keys, strict=True)):
            if keys is not None and rows:
                digits = self._hashes(keys, columns, rows, number) % np.uint64(axis.share)
                place += digits * np.uint64(self._weights[number])
        return place

    def _hashes(
        self, keys: Sequence[tuple[Expression, Computed]], columns: Sequence[Column], rows: int, axis: int
    ) -> Hashes:
        values, types = [], []
        for term, run in keys:
            column, type_ = _computed(run, columns, rows, term.type), term.type
            if type_ is Type.STRING:
                column, type_ = self._by_content(column), Type.BIGINT
            values.append(column)
            types.append(type_)
        table = key_words.rows(values, types, rows).astype(np.int64)
        # The number of the axis keeps digits apart that are made from equal values.
        numbered = np.column_stack([table, np.full(rows, axis, np.int64)])
        out = np.empty(rows, np.int64)
        mix_rows(numbered, out)
        return out.view(np.uint64)

    def _by_content(self, column: Column) -> Column:
        """Strings as numbers that are the same whatever their codes are."""
        codes = column.values if column.valid is None else np.where(column.valid, column.values, 0)
        hashes = np.zeros(self._strings.capacity, np.int64)
        hashes[codes] = 1
        used = np.flatnonzero(hashes).astype(np.int32)
        hashes[used] = hash_texts(self._strings.decode(used))
        return Column(hashes[codes], column.valid)

    def release(self) -> None:
        """No more rows: literals may go."""
        self._evaluator.release()


def _weights(axes: Sequence[Axis]) -> list[int]:
    """What one step along each axis adds to the number of a cell."""
    weights = [1]
    for axis in reversed(axes):
        weights.append(weights[-1] * axis.share)
    return weights[-2::-1]


def _computed(run: Computed, columns: Sequence[Column], rows: int, type_: Type) -> Column:
    """A term's values. Rows on which a Python function fails count as NULL: the query may never ask for them, and
    if it does, the cell they go to says what is wrong."""
    try:
        return run(columns, rows)
    except RowError:
        values, valid = np.zeros(rows, type_.dtype), np.zeros(rows, np.bool_)
        for row in range(rows):
            try:
                one = run([c.slice(row, row + 1) for c in columns], 1)
            except RowError:
                continue
            values[row] = one.values[0]
            valid[row] = one.valid is None or one.valid[0]
        return Column(values, valid)


def hash_texts(texts: pa.StringArray) -> Ints:
    """64 bits of each string's bytes: a polynomial in an odd number, so that no loop runs over strings.

    >>> one, other = hash_texts(pa.array(["ab", "", "ba"])), hash_texts(pa.array(["x", "ab"]))
    >>> bool(one[0] == other[1]), len(set(one.tolist()))
    (True, 3)
    """
    _, places, payload = texts.buffers()
    offsets = np.frombuffer(places, np.int32, texts.offset + len(texts) + 1)[texts.offset :].astype(np.int64)
    sizes = np.diff(offsets)
    out = sizes.astype(np.uint64)
    filled = np.flatnonzero(sizes)
    if len(filled) == 0:
        return out.view(np.int64)
    data = np.frombuffer(payload, np.uint8)[offsets[0] : offsets[-1]].astype(np.uint64)
    begins = offsets[:-1][filled] - offsets[0]
    within = np.arange(len(data)) - np.repeat(begins, sizes[filled])
    powers = np.cumprod(np.full(int(sizes.max()), _PRIME))
    out[filled] += np.add.reduceat((data + np.uint64(1)) * powers[within], begins)
    return out.view(np.int64)
