"""Which rows of a table are a cell's: what `routes` tells Spark to do, done by the cell itself.

Invariant  a row goes to the cells that Spark's own exchange sends it to, so that both ways can follow each other.
Cost       a few nanoseconds a row and key.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.kernels.hash.xxhash import SEED, chain_ints, chain_longs, chain_texts, keep_digit
from penstock.partitioning.placement import Routing
from penstock.plan.expressions import Call, Expression
from penstock.plan.expressions import Column as Plain
from penstock.types.batch import Array, Ints, Mask
from penstock.types.data_type import Type

_NAN = np.float64("nan").view(np.int64)
"""As Java says it."""


class Share:
    """The rows that a routing sends to one cell; `places` are the slots of the stream's columns."""

    def __init__(self, routing: Routing, cell: int, places: tuple[int, ...]) -> None:
        self._places = places
        self.is_empty = cell not in routing.cells
        self._axes: list[tuple[int, int, int, tuple[Expression, ...]]] = []
        number = cell - routing.origin
        for place, axis in reversed(list(enumerate(routing.axes))):
            number, digit = divmod(number, axis.share)
            if axis.key is not None and axis.share > 1:
                self._axes.append((place, axis.share, digit, tuple(axis.key)))

    @property
    def is_whole(self) -> bool:
        """Every row is the cell's."""
        return not self._axes

    def rows(self, table: pa.Table) -> Mask:
        """For each row of a table with the shared columns, whether it is the cell's."""
        kept = np.ones(table.num_rows, np.bool_)
        for place, share, digit, key in self._axes:
            hashes = np.full(table.num_rows, SEED, np.int64)
            chain_ints(np.full(table.num_rows, place, np.int32), hashes)
            for term in key:
                hashes = _chained(term, self._places, table, hashes)
            keep_digit(hashes, share, digit, kept)
        return kept


def _chained(term: Expression, places: tuple[int, ...], table: pa.Table, hashes: Ints) -> Ints:
    name = f"c{places[_column(term).index]}"
    if name not in table.column_names:
        return hashes  # no query reads it, so it is NULL
    column = table.column(name).combine_chunks()
    array = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    made = hashes if valid is None else hashes.copy()
    if term.type is Type.STRING:
        text = array.cast(pa.large_string())
        _, offsets, source = text.buffers()
        places_of = np.frombuffer(offsets, np.int64)[text.offset : text.offset + len(text) + 1]
        chain_texts(np.frombuffer(source or b"", np.uint8), places_of, made)
    else:
        values = _numbers(term, array if valid is None else array.fill_null(_nothing(array.type)))
        if values.dtype == np.int64:
            chain_longs(values, made)
        else:
            chain_ints(values, made)
    return made if valid is None else np.where(valid, made, hashes)


def _column(term: Expression) -> Plain:
    """What is below the casts of a key."""
    while isinstance(term, Call):
        (term,) = term.arguments
    assert isinstance(term, Plain)
    return term


def _nothing(kind: pa.DataType) -> object:
    return False if pa.types.is_boolean(kind) else 0


def _numbers(term: Expression, array: pa.Array) -> Array:
    """A key as Spark hashes it: equal numbers alike whatever their width, every NaN alike, no negative zero."""
    plain: Array = array.to_numpy(zero_copy_only=False)
    if term.type.is_integer or term.type is Type.TIMESTAMP:
        return plain.astype(np.int64)
    if term.type.is_float:
        rounded = _rounded(term, plain) + 0.0
        bits: Array = np.where(np.isnan(rounded), _NAN, rounded.view(np.int64))
        return bits
    return plain.astype(np.int32)


def _rounded(term: Expression, plain: Array) -> Array:
    """Through all casts to DOUBLE."""
    found = _rounded(term.arguments[0], plain) if isinstance(term, Call) else plain
    if term.type.is_float:
        found = found.astype(term.type.dtype).astype(np.float64)
    return found
