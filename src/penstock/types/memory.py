"""Where large arrays live: in memory of the C library, aligned as Arrow wants it.

Every step writes megabytes that leave as Arrow and are let go soon after. Memory that is given back is paid for page by page when it
is touched anew, and Arrow's usual pool gives large blocks back at once: a two-way join of small windows took 408 ns an event from there and
takes 160 from here, a three-way one 146 and 134. The C library keeps blocks of up to 32 MB once one of that size has been let go.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.types import sizes

POOL = pa.system_memory_pool()
"""The C library's."""


def room(shape: int | tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """An array that holds anything."""
    kind = np.dtype(dtype)
    count = shape if isinstance(shape, int) else prod(shape)
    if count * kind.itemsize < sizes.current.aligned_bytes:
        return np.empty(shape, kind)
    return aligned(shape, kind)


def aligned(shape: int | tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """The same, beginning where a line of the cache does."""
    kind = np.dtype(dtype)
    count = shape if isinstance(shape, int) else prod(shape)
    made = np.frombuffer(pa.allocate_buffer(count * kind.itemsize, memory_pool=POOL), kind, count)
    return made if isinstance(shape, int) else made.reshape(shape)


def taken(values: NDArray[Any], rows: NDArray[Any]) -> NDArray[Any]:
    """`values[rows]`; every row is there."""
    if len(rows) * values.itemsize < sizes.current.aligned_bytes:
        return values.take(rows)
    return values.take(rows, out=room(len(rows), values.dtype), mode="wrap")


def copied(values: NDArray[Any]) -> NDArray[Any]:
    """The same in memory of its own."""
    return values.copy() if values.nbytes < sizes.current.aligned_bytes else joined([values])


def joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """One after the other, in memory of their own."""
    rows = sum(map(len, parts))
    if rows * parts[0].itemsize < sizes.current.aligned_bytes:
        return np.concatenate(parts)
    return np.concatenate(parts, out=room(rows, parts[0].dtype))


def plus(values: NDArray[np.int64], amount: int) -> NDArray[np.int64]:
    made: NDArray[np.int64] = np.add(values, amount, out=room(len(values), np.int64))
    return made
