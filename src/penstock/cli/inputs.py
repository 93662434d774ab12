"""Rows for `penstock run`: files and standard input, as Arrow batches of a stream's or table's declared columns."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from penstock.errors import DataError
from penstock.ingest.epoch_times import in_microseconds
from penstock.plan.catalog import Catalog, Stream, Table
from penstock.plan.timestamp_text import parse_timestamp
from penstock.types.data_type import Type

BATCH = 65_536
"""Rows read from a file at a time: streams that are read together advance together in steps of this."""


Source = Stream | Table


def _called(source: Source) -> str:
    return f"{'stream' if isinstance(source, Stream) else 'table'} {source.name}"


def parse_options(texts: list[str], catalog: Catalog) -> dict[str, Path]:
    """`name=file` options by stream or table, checked."""
    sources: dict[str, Source] = {**catalog.streams, **catalog.tables}
    files: dict[str, Path] = {}
    for text in texts:
        name, equals, path = text.partition("=")
        name = name.strip().lower()
        if not equals or not path:
            raise DataError(f"--input {text!r} is not NAME=FILE")
        if name not in sources:
            known = ", ".join(sorted(sources)) or "none"
            raise DataError(
                f"--input {text!r} names no stream or table", hint=f"those of the script: {known}"
            )
        if name in files:
            raise DataError(f"{_called(sources[name])} has two inputs")
        files[name] = _readable(Path(path))
    return files


def _readable(path: Path) -> Path:
    """Found out before anything is read, so that no change is printed for nothing."""
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.suffix.lower() not in _READERS:
        raise DataError(f"{path}: files end in .csv, .parquet or .jsonl")
    return path


def read_file(source: Source, path: Path) -> Iterator[pa.RecordBatch]:
    """A file's rows; its kind is told by its ending."""
    try:
        yield from _READERS[path.suffix.lower()](source, path)
    except pa.ArrowException as error:
        raise DataError(f"{path}: {str(error).splitlines()[0]}") from error


def _schema(source: Source) -> pa.Schema:
    return pa.schema([(f.name, f.type.arrow) for f in source.schema])


def _csv(source: Source, path: Path) -> Iterator[pa.RecordBatch]:
    from pyarrow import csv

    schema = _schema(source)
    options = csv.ConvertOptions(
        column_types=schema,
        include_columns=schema.names,
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    with csv.open_csv(path, convert_options=options) as reader:
        yield from reader


def _parquet(source: Source, path: Path) -> Iterator[pa.RecordBatch]:
    from pyarrow import parquet

    schema = _schema(source)
    with parquet.ParquetFile(path) as file:
        missing = [n for n in schema.names if n not in file.schema_arrow.names]
        if missing:
            raise DataError(f"{path}: {_called(source)} has a column {missing[0]} that the file has not")
        for batch in file.iter_batches(BATCH, columns=schema.names):
            yield batch.select(schema.names).cast(schema)


def _jsonl(source: Source, path: Path) -> Iterator[pa.RecordBatch]:
    with path.open("rb") as file:
        rows: list[dict[str, Any]] = []
        for number, line in enumerate(file, 1):
            if line.strip():
                rows.append(parse_line(line, f"{path}, line {number}"))
            if len(rows) == BATCH:
                yield to_batch(source, rows, str(path))
                rows = []
        if rows:
            yield to_batch(source, rows, str(path))


_READERS = {".csv": _csv, ".parquet": _parquet, ".jsonl": _jsonl, ".ndjson": _jsonl}


def parse_line(line: bytes, where: str) -> dict[str, Any]:
    """One JSON object."""
    try:
        row = json.loads(line)
    except ValueError as error:
        raise DataError(f"{where}: not JSON: {error}") from error
    if not isinstance(row, dict):
        raise DataError(f"{where}: a row is a JSON object")
    return row


def to_batch(source: Source, rows: list[dict[str, Any]], where: str) -> pa.RecordBatch:
    """Objects as a batch: a column that an object lacks is NULL, one that was not declared is an error."""
    names = {f.name for f in source.schema}
    for row in rows:
        if extra := row.keys() - names:
            raise DataError(f"{where}: {_called(source)} has no column {min(extra)}")
    columns = []
    for field in source.schema:
        values = [row.get(field.name) for row in rows]
        if field.type is Type.TIMESTAMP:
            values = [_instant(v, where) for v in values]
            if isinstance(source, Stream) and field is source.schema[source.time]:
                values = [in_microseconds(v, source, where) if type(v) is int else v for v in values]
        try:
            columns.append(pa.array(values, field.type.arrow))
        except (pa.ArrowException, OverflowError, TypeError) as error:
            raise DataError(f"{where}: column {field}: {str(error).splitlines()[0]}") from error
    return pa.RecordBatch.from_arrays(columns, schema=_schema(source))


def _instant(value: Any, where: str) -> Any:
    if not isinstance(value, str):
        return value
    found = parse_timestamp(value)
    if found is None:
        raise DataError(f"{where}: {value!r} is not a timestamp", hint="2024-05-01 12:30:15.25 is one")
    return found


def read_whole(table: Table, path: Path) -> pa.Table:
    """All rows of a table's file."""
    return pa.Table.from_batches(read_file(table, path), _schema(table))


def together(streams: dict[str, Stream], files: dict[str, Path]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The files' batches, always next from the stream that is furthest behind in event time."""
    sources = {name: read_file(streams[name], path) for name, path in files.items() if name in streams}
    reached: dict[str, int] = dict.fromkeys(sources, -(2**63))
    while reached:
        name = min(reached, key=lambda n: reached[n])
        batch = next(sources[name], None)
        if batch is None:
            del reached[name]
            continue
        latest = latest_instant(streams[name], batch)
        reached[name] = max(reached[name], latest if latest is not None else reached[name])
        yield name, batch


def latest_instant(stream: Stream, batch: pa.RecordBatch) -> int | None:
    """The greatest time in a batch, as the engine counts it."""
    import pyarrow.compute as pc

    found = pc.max(batch.column(stream.time).cast(pa.int64())).as_py()
    return None if found is None else int(found)


def read_lines(
    file: IO[bytes], streams: dict[str, Stream], names: list[str]
) -> Iterator[list[tuple[str, pa.RecordBatch]]]:
    """JSON lines as they come: whatever has arrived is one step. `"stream"` tells them apart if there are several."""
    number, rest = 0, b""
    read = getattr(file, "read1", file.read)
    while chunk := read(1 << 16):
        *lines, rest = (rest + chunk).split(b"\n")
        yield _sort_lines(lines, number, streams, names)
        number += len(lines)
    if rest.strip():
        yield _sort_lines([rest], number, streams, names)


def _sort_lines(
    lines: list[bytes], number: int, streams: dict[str, Stream], names: list[str]
) -> list[tuple[str, pa.RecordBatch]]:
    rows: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        number += 1
        if not line.strip():
            continue
        where = f"standard input, line {number}"
        row = parse_line(line, where)
        name = names[0]
        if len(names) > 1 or "stream" not in {f.name for f in streams[name].schema}:
            name = str(row.pop("stream", names[0] if len(names) == 1 else "")).lower()
        if name not in names:
            raise DataError(
                f"{where}: which stream?", hint=f'add "stream": one of {", ".join(repr(n) for n in names)}'
            )
        rows.setdefault(name, []).append(row)
    return [
        (name, to_batch(streams[name], found, f"standard input, up to line {number}"))
        for name, found in rows.items()
    ]
