"""Parquet files that cells read themselves, instead of being sent their rows.

Spark turns a row into Arrow value by value, some 50 ns each; a cell that reads the file has the columns as they lie, and picks
its own rows. Every cell reads every file: beyond some cells an exchange is cheaper (`MOST_CELLS`).

Invariant  a cell ends up with the rows that Spark would have sent it. Files that Spark might read otherwise are left to it (`fits`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.errors import StateError
from penstock.spark.flow_plan import Flowing
from penstock.spark.partition_filter import Share
from penstock.spark.scan_pushdown import Dialect, by_stream, used_slots, wanted
from penstock.spark.union_layout import INPUT
from penstock.types.data_type import Type
from penstock.types.event_time import LATEST
from penstock.types.schema import Schema

MOST_CELLS = 8
"""Reading a row takes a cell some 30 ns, sending it takes Spark 600."""
PIECE = 1 << 17
"""Rows that are looked at together."""

Files = Mapping[str, Sequence[str]]
"""Paths by stream."""

_SAYS = Dialect(pc.field, pc.scalar, pc.Expression.is_null, lambda term: term.cast(pa.int64()))
_TIMES = (Type.TIMESTAMP, Type.DATE)
_OLD = b"org.apache.spark.legacyDateTime"
_WRITER = b"org.apache.spark.version"


def fits(path: str, schema: Schema) -> bool:
    """Whether a file's columns are the declared ones as they lie, so that there is nothing in which readers could differ."""
    try:
        with pq.ParquetFile(path) as file:
            found, told = file.schema_arrow, file.schema_arrow.metadata or {}
            told = {**told, **(file.metadata.metadata or {})}
    except (OSError, pa.ArrowException):
        return False  # Spark says what is wrong with it
    if any(f.type in _TIMES for f in schema) and (_OLD in told or told.get(_WRITER, b"3") < b"3"):
        return False  # times of another calendar
    names = [name.lower() for name in found.names]
    return all(
        names.count(f.name.lower()) == 1 and _lies(found.field(names.index(f.name.lower())).type, f.type)
        for f in schema
    )


def _lies(found: pa.DataType, wanted: Type) -> bool:
    if wanted is Type.TIMESTAMP:
        return bool(pa.types.is_timestamp(found) and found.unit == "us" and found.tz is not None)
    return bool(found == wanted.arrow or (wanted is Type.STRING and pa.types.is_large_string(found)))


class Reader:
    """Reads files for one cell, by one plan."""

    def __init__(self, plan: Flowing, cell: int) -> None:
        self._plan = plan
        self._cell = cell
        read, places = by_stream(plan), plan.layout.places
        self._used = used_slots(plan, read)
        self._wanted = {name: wanted(found, places[name], _SAYS) for name, found in read.items()}
        self._shares: dict[str, list[tuple[int, Share]]] = {}
        for number, fed in enumerate(plan.inputs):
            share = Share(fed.input.routing, cell, places[fed.stream])
            if fed.below is None and not share.is_empty:
                self._shares.setdefault(fed.stream, []).append((number, share))

    def read(
        self, files: Files, watermarks: Mapping[str, int], ceilings: Mapping[str, int]
    ) -> tuple[pa.Table, dict[str, Any]]:
        """The cell's rows, input after input, each with what it is for; and what was seen of all rows.

        Rows without a time are left out. Of several cells one counts.
        """
        parts: list[tuple[int, pa.Table]] = []
        seen: dict[str, dict[str, int]] = {"rows": {}, "newest": {}, "unplaced": {}}
        for stream, paths in files.items():
            for path in paths:
                try:
                    found, counted = self._one(
                        stream, path, watermarks.get(stream), ceilings.get(stream, LATEST)
                    )
                except (OSError, pa.ArrowException) as error:
                    raise StateError(f"{path} cannot be read: {error}") from error
                parts += found
                if self._cell == 0:
                    seen["rows"][stream] = seen["rows"].get(stream, 0) + counted["rows"]
                    if counted["unplaced"]:
                        before = seen["unplaced"].get(stream, 0)
                        seen["unplaced"][stream] = before + counted["unplaced"]
                if counted["timed"]:
                    newest = counted["newest"]
                    seen["newest"][stream] = max(seen["newest"].get(stream, newest), newest)
        parts.sort(key=lambda part: part[0])
        tables = [table for _, table in parts if table.num_rows]
        rows = pa.concat_tables(tables, promote_options="default") if tables else pa.table({})
        return rows, seen

    def _one(
        self, stream: str, path: str, watermark: int | None, ceiling: int
    ) -> tuple[list[tuple[int, pa.Table]], dict[str, int]]:
        """A file's rows; with all columns if some are late or beyond the ceiling: these are set aside whole."""
        declared = self._plan.catalog.streams[stream]
        places = self._plan.layout.places[stream]
        time = f"c{places[declared.time]}"
        used = self._used.get(stream, set()) | {places[declared.time]}
        while True:
            parts: list[tuple[int, pa.Table]] = []
            counted = {"rows": 0, "unplaced": 0, "newest": 0, "timed": 0}
            for piece in self._pieces(path, declared.schema, places, used):
                times = piece.column(time)
                if times.null_count:
                    counted["unplaced"] += times.null_count
                    piece = piece.filter(pc.is_valid(times))
                    times = piece.column(time)
                if not piece.num_rows:
                    continue
                ends = pc.min_max(times).as_py()
                newest = ends["max"]
                is_far = newest > ceiling
                if is_far:
                    newest = pc.max(times.filter(pc.less_equal(times, ceiling))).as_py()
                if newest is not None:
                    counted["newest"] = max(counted["newest"], newest) if counted["timed"] else newest
                    counted["timed"] = 1
                counted["rows"] += piece.num_rows
                is_late = watermark is not None and ends["min"] < watermark
                if (is_late or is_far) and used != set(places):
                    used = set(places)
                    break
                odd = (pc.field(time) < watermark) | (pc.field(time) > ceiling) if is_late or is_far else None
                parts += self._own(stream, piece, odd)
            else:
                return parts, counted

    def _pieces(
        self, path: str, schema: Schema, places: tuple[int, ...], used: set[int]
    ) -> Iterator[pa.Table]:
        """The used columns under the names that all streams share, times as numbers."""
        with pq.ParquetFile(path, memory_map=True) as file:
            there = {name.lower(): name for name in file.schema_arrow.names}
            slots = {
                there[f.name.lower()]: slot for f, slot in zip(schema, places, strict=True) if slot in used
            }
            for batch in file.iter_batches(PIECE, columns=list(slots), use_threads=False):
                arrays = [_as_numbers(batch.column(name)) for name in slots]
                yield pa.Table.from_arrays(arrays, names=[f"c{slot}" for slot in slots.values()])

    def _own(self, stream: str, piece: pa.Table, late: Any) -> Iterator[tuple[int, pa.Table]]:
        """What a piece has for each input of the cell."""
        use = self._wanted.get(stream)
        if use is not None:
            piece = piece.filter(use if late is None else use | late)
        for number, share in self._shares.get(stream, ()):
            own = piece if share.is_whole else piece.filter(pa.array(share.rows(piece)))
            told = pa.array(np.full(own.num_rows, number, np.int32))
            yield number, own.append_column(INPUT, told)


def _as_numbers(array: pa.Array) -> pa.Array:
    """Times as numbers; strings with offsets of 32 bits."""
    if pa.types.is_timestamp(array.type):
        return array.view(pa.int64())
    if pa.types.is_date32(array.type):
        return array.view(pa.int32())
    return array.cast(pa.string()) if pa.types.is_large_string(array.type) else array
