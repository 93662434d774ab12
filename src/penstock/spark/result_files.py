"""What cells lay down for sinks and for each other: under which names, in which form."""

from __future__ import annotations

from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.types.data_type import Type
from penstock.types.names import path_part

TOGETHER = "\ntogether"
"""Under which all queries' changes are laid down as one table; no query's own name holds a line feed."""


def view_name(query: str) -> str:
    """Under which a query's current answer is laid down, beside its changes."""
    return f"{query}\nview"


def file_name(what: str) -> str:
    """Of a query's changes, of its answer, or of all changes together."""
    return f"{path_part(what)}.parquet"


def write_results(table: pa.Table, place: IO[bytes]) -> None:
    """A file that is read once, in its order, and soon: one group of rows, as they are. Dictionaries of numbers and compression cost more than
    they save: 183 → 70 → 44 ms for a million changes."""
    texts = [f.name for f in table.schema if pa.types.is_string(f.type)]
    pq.write_table(
        table,
        place,
        compression="none",
        use_dictionary=texts,
        write_statistics=False,
        row_group_size=max(1, table.num_rows),
    )


def travelling(table: pa.Table) -> pa.Table:
    """Times as numbers, as rows of streams have them on their way."""
    columns = []
    for column in table.columns:
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us")).cast(pa.int64())
        elif pa.types.is_date32(column.type):
            column = column.cast(pa.int32())
        columns.append(column)
    return pa.Table.from_arrays(columns, names=table.column_names)


def for_spark(table: pa.Table, *, intervals: bool = False) -> pa.Table:
    """Types that Spark reads back as its own: instants in UTC; in files intervals as microseconds."""
    columns = []
    for column in table.columns:
        kind = column.type
        if pa.types.is_timestamp(kind):
            column = column.cast(pa.timestamp("us", "UTC"))
        elif pa.types.is_duration(kind):
            column = column.cast(pa.duration("us") if intervals else pa.int64())
        elif pa.types.is_null(kind):
            column = column.cast(pa.string())
        columns.append(column)
    return pa.Table.from_arrays(columns, names=table.column_names)


def put_together(columns: dict[str, Type], results: dict[str, pa.Table]) -> pa.Table:
    """All queries' changes as one table, `__query` first, then the columns of any of them."""
    parts = []
    for name, table in results.items():
        arrays = {"__query": pa.repeat(name, table.num_rows)}
        arrays |= {c: table.column(c) for c in ("__op", "__ts", "__exp")}
        for column, kind in columns.items():
            there = column in table.column_names
            arrays[column] = (
                table.column(column).cast(kind.arrow) if there else pa.nulls(table.num_rows, kind.arrow)
            )
        parts.append(pa.table(arrays))
    return pa.concat_tables(parts)
