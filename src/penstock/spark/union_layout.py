"""Columns of several streams in one frame, so that one exchange carries them all.

Streams share columns of equal type by position (`c0`, `c1`, …): a row of any of them fills its own and leaves the rest
NULL. Times travel as numbers: what a cell counts in, and independent of Spark's time zone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from penstock.plan.catalog import Stream
from penstock.state.arrow_columns import from_arrow
from penstock.state.strings import Strings
from penstock.types.batch import Column
from penstock.types.data_type import Type

TRAVELS_AS = {Type.TIMESTAMP: Type.BIGINT, Type.DATE: Type.INT}
"""Types that cross as another one: microseconds and days."""

CELL, INPUT = "__cell", "__input"
STEP = "__step"
"""Rows that were dealt out anew say with which step they came first."""


@dataclass(frozen=True, slots=True)
class Layout:
    """`slots` are the types of the shared columns, `places` the slot of every column of every stream."""

    slots: tuple[Type, ...]
    places: dict[str, tuple[int, ...]]

    def read(self, rows: pa.Table, stream: Stream, strings: Strings) -> tuple[Column, ...]:
        """A stream's columns from rows of the frame that are all its own."""
        columns = []
        for field, slot in zip(stream.schema, self.places[stream.name.lower()], strict=True):
            kind = TRAVELS_AS.get(field.type, field.type)
            name = f"c{slot}"
            # A column without a value does not travel.
            values = rows.column(name) if name in rows.column_names else None
            array = pa.nulls(rows.num_rows, kind.arrow) if values is None else values.combine_chunks()
            if isinstance(array, pa.ChunkedArray):
                array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
            columns.append(from_arrow(array, kind, strings))
        return tuple(columns)


def lay_out(streams: Iterable[Stream]) -> Layout:
    """Each stream takes the first free slots of its columns' types."""
    slots: list[Type] = []
    places: dict[str, tuple[int, ...]] = {}
    for stream in streams:
        free = list(range(len(slots)))
        taken: list[int] = []
        for field in stream.schema:
            kind = TRAVELS_AS.get(field.type, field.type)
            slot = next((i for i in free if slots[i] is kind), None)
            if slot is None:
                slot = len(slots)
                slots.append(kind)
            else:
                free.remove(slot)
            taken.append(slot)
        places[stream.name.lower()] = tuple(taken)
    return Layout(tuple(slots), places)
