"""Values as 64-bit words, so that every hash table needs one kernel only.

Equal values (as SQL groups them: NULL equals NULL, NaN equals NaN, -0.0 equals 0.0) have equal words
and different values have different words.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.types.batch import Array, Column, Ints
from penstock.types.data_type import Type

_NAN = np.float64(np.nan).view(np.int64)
_NULL_DOUBLE = np.int64(0x7FF8_0000_0000_0001)
_NULL_SMALL = np.iinfo(np.int64).min

_WIDE = (Type.BIGINT, Type.INTERVAL, Type.TIMESTAMP)
"""Types that use all 64 bits: their NULLs need a word of their own."""


def plain(column: Column, type_: Type) -> Ints:
    """One word a row; what a NULL gives is unspecified."""
    values = column.values
    if type_.is_float:
        with np.errstate(invalid="ignore"):  # under NULL anything may stand
            doubles = values.astype(np.float64) + 0.0  # -0.0 becomes 0.0
        words = doubles.view(np.int64)
        nan = np.isnan(doubles)
        if nan.any():
            words[nan] = _NAN
        return words
    return values.astype(np.int64)


def width(types: Sequence[Type]) -> int:
    """How many words a row of these types takes."""
    flags = -(-len(types) // 63) if any(t in _WIDE for t in types) else 0
    return max(len(types), 1) + flags


def rows(columns: Sequence[Column], types: Sequence[Type], n: int) -> Ints:
    """A table of words, one row per row; NULLs are values of their own. One column of 32 bits stays as narrow as it is."""
    if width(types) == 1 and columns and columns[0].valid is None:
        only = columns[0].values
        return (only if only.dtype == np.int32 else plain(columns[0], types[0])).reshape(n, 1)
    out = np.zeros((n, width(types)), np.int64)
    for i, (column, type_) in enumerate(zip(columns, types, strict=True)):
        out[:, i] = plain(column, type_)
        valid = column.valid
        if valid is None:
            continue
        if type_ in _WIDE:
            out[:, i][~valid] = 0
            out[:, len(types) + i // 63] |= np.left_shift((~valid).astype(np.int64), i % 63)
        else:
            out[:, i][~valid] = _NULL_DOUBLE if type_.is_float else _NULL_SMALL
    return out


def copies(ids: Array) -> Ints:
    """How many equal ids stand before each: the number of a copy among its equals."""
    order = np.argsort(ids, kind="stable")
    sorted_ids = ids[order]
    first = np.ones(len(ids), np.bool_)
    first[1:] = sorted_ids[1:] != sorted_ids[:-1]
    start = np.maximum.accumulate(np.where(first, np.arange(len(ids)), 0))
    out = np.empty(len(ids), np.int64)
    out[order] = np.arange(len(ids)) - start
    return out
