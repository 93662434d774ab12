"""Small pushes of Arrow rows that wait as they came, and are read together.

Reading a column of Arrow costs some 3 µs however few rows it has, and its copy 1 µs more. Rows that nothing can be
wrong with — numbers as declared, in time order, none late — need only be copied, all columns in one call.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.kernels.state.live_row_events import is_sorted
from penstock.plan.catalog import Stream
from penstock.state.arrow_columns import raw
from penstock.state.strings import validity
from penstock.types import sizes
from penstock.types.batch import Column, Ints
from penstock.types.data_type import Type
from penstock.types.event_time import LAST_MICROSECOND, LATEST
from penstock.types.schema import Schema

RESTS = 15
"""Pushes that are read at once after one that was not in time order: the next will hardly be."""


def one_batch(rows: object) -> pa.RecordBatch | None:
    """A record batch, or a table of a few rows that is one; else None."""
    if isinstance(rows, pa.Table) and rows.num_rows <= sizes.current.undecoded_rows:
        pieces = rows.to_batches()
        return pieces[0] if len(pieces) == 1 else None
    return rows if isinstance(rows, pa.RecordBatch) else None


class Unread:
    """Rows in time order, in memory of their own; of a batch only what a source looks at while they wait."""

    __slots__ = ("rows", "schema", "ts")

    def __init__(self, ts: Ints, rows: pa.RecordBatch, schema: Schema) -> None:
        self.ts = ts
        self.rows = rows
        self.schema = schema

    def __len__(self) -> int:
        return len(self.ts)

    @property
    def columns(self) -> tuple[Column, ...]:
        return read([self])

    def slice(self, start: int, stop: int) -> Unread:
        return Unread(self.ts[start:stop], self.rows.slice(start, stop - start), self.schema)


def read(parts: Sequence[Unread]) -> tuple[Column, ...]:
    """All rows, one after the other."""
    rows = parts[0].rows if len(parts) == 1 else pa.concat_batches([part.rows for part in parts])
    fields = zip(rows.columns, parts[0].schema, strict=True)
    return tuple([Column(raw(array, field.type.dtype), validity(array)) for array, field in fields])


class Plain:
    """What the rows of a stream look like if nothing can be wrong with them."""

    def __init__(self, stream: Stream) -> None:
        self._schema = stream.schema
        self._time = stream.time
        self._last = LAST_MICROSECOND if stream.time_type is Type.TIMESTAMP else LATEST - 1
        rest = [f.type for i, f in enumerate(stream.schema) if i != stream.time]
        self._possible = all(t.is_numeric for t in rest)
        self._arrow = pa.schema([(f.name, f.type.arrow) for f in stream.schema])
        self._width = 8 + sum(t.dtype.itemsize for t in rest)
        self._memory = pa.default_cpu_memory_manager()
        self._rests = 0

    def copy(self, rows: pa.RecordBatch, floor: int, limit: int = LATEST) -> Unread | None:
        """A few rows, none before `floor` or beyond `limit`; None: these must be looked at."""
        n = rows.num_rows
        if self._rests:
            self._rests -= 1
            return None
        if (
            not self._possible
            or not 0 < n <= sizes.current.undecoded_rows
            or not rows.schema.equals(self._arrow)
        ):
            return None
        if rows.get_total_buffer_size() > 2 * n * self._width:
            return None  # a slice: all that it was cut from would be copied
        column = rows.column(self._time)
        if column.null_count:
            return None
        times = raw(column, np.int64)
        if times[0] < floor or times[-1] > min(self._last, limit) or not is_sorted(times):
            self._rests = RESTS
            return None
        made = rows.copy_to(self._memory)
        return Unread(raw(made.column(self._time), np.int64), made, self._schema)
