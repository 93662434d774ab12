"""Arrow tables shaped like `changes()`, and the sums that tell whether two runs gave the same answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Array = NDArray[Any]


def plus(rows: int) -> pa.Array:
    """A `__op` column of `'+'` only, built from two buffers."""
    offsets = np.arange(rows + 1, dtype=np.int32)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(b"+" * rows))


def signs(text: Array) -> pa.Array:
    """A `__op` column from the bytes of its signs."""
    offsets = np.arange(len(text) + 1, dtype=np.int32)
    return pa.StringArray.from_buffers(len(text), pa.py_buffer(offsets), pa.py_buffer(text))


def table(names: tuple[str, ...], op: pa.Array, ts: Array, exp: Array, *columns: Array) -> pa.Table:
    """What a hand-written program would hand to the caller of `changes()`."""
    arrays = [op, pa.array(ts), pa.array(exp), *(pa.array(c) for c in columns)]
    return pa.Table.from_arrays(arrays, names=["__op", "__ts", "__exp", *names])


class Checksum:
    """Rows, retractions and the sum of every column: equal for equal multisets of changes."""

    def __init__(self) -> None:
        self.rows = 0
        self.retractions = 0
        self.sums: dict[str, float | int] = {}

    def add(self, changes: pa.Table) -> None:
        """Count in one table of changes."""
        self.rows += changes.num_rows
        if not changes.num_rows:
            return
        self.retractions += pc.sum(pc.equal(changes["__op"], "-")).as_py() or 0
        for name in changes.column_names[1:]:
            total = pc.sum(changes[name]).as_py() or 0
            # Doubles are summed in other orders by other programs: compare what survives rounding.
            self.sums[name] = self.sums.get(name, 0) + total

    def difference(self, other: Checksum) -> str | None:
        """None if equal, else the first thing that differs."""
        if self.rows != other.rows:
            return f"rows: {self.rows} and {other.rows}"
        if self.retractions != other.retractions:
            return f"retractions: {self.retractions} and {other.retractions}"
        if self.sums.keys() != other.sums.keys():
            return f"columns: {sorted(self.sums)} and {sorted(other.sums)}"
        for name, mine in self.sums.items():
            theirs = other.sums[name]
            if abs(mine - theirs) > 1e-9 * max(abs(mine), abs(theirs)):
                return f"sum of {name}: {mine} and {theirs}"
        return None
