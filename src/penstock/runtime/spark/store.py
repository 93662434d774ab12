"""The checkpoint directory: what a flow must find again after a crash.

    flow.json                    format version, number of cells
    declared/<step>.json         streams, tables and queries from that step on
    steps/<step>.json            what the driver decided: Spark's batch, watermarks, end of input
    log/<cell>/<step>.arrow      the rows a cell accepted, in its own columns
    state/<cell>/<step>.state    a cell's state after the step
    out/<step>/<cell>/...        changes laid down for the sinks
    late/<stream>/<step>-<cell>.parquet

A file is there whole or not at all: written under a temporary name, flushed, renamed. What is read back is checked
against the checksum it carries; a file that does not fit is a `StateError` that names it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.errors import StateError

FORMAT = 1
_MARK = b"penstock\n"


class Store:
    """One flow's files under `root`."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)

    # ------------------------------------------------------------------ places

    def log(self, cell: int, step: int) -> Path:
        return self.root / "log" / str(cell) / f"{step:012d}.arrow"

    def state(self, cell: int, step: int) -> Path:
        return self.root / "state" / str(cell) / f"{step:012d}.state"

    def out(self, step: int, cell: int) -> Path:
        return self.root / "out" / f"{step:012d}" / str(cell)

    def late(self, stream: str, step: int, cell: int) -> Path:
        return self.root / "late" / stream / f"{step:012d}-{cell}.parquet"

    def numbers(self, *folder: str) -> list[int]:
        """The steps for which a folder has a file (or folder), in order."""
        place = self.root.joinpath(*folder)
        if not place.is_dir():
            return []
        found = (re.fullmatch(r"(\d{12})(\.\w+)?", entry.name) for entry in place.iterdir())
        return sorted(int(m[1]) for m in found if m)

    # ------------------------------------------------------------------ small files

    def put(self, kind: str, step: int, content: dict[str, Any]) -> None:
        write_json(self.root / kind / f"{step:012d}.json", content)

    def get(self, kind: str, step: int) -> dict[str, Any]:
        return read_json(self.root / kind / f"{step:012d}.json")

    def at(self, kind: str, step: int) -> tuple[int, dict[str, Any]] | None:
        """The newest file of a kind that is not after the step."""
        found = [n for n in self.numbers(kind) if n <= step]
        return (found[-1], self.get(kind, found[-1])) if found else None

    def open(self, cells: int) -> dict[str, Any]:
        """The flow's description, made now if this is its first start."""
        place = self.root / "flow.json"
        if not place.exists():
            content = {"format": FORMAT, "cells": cells}
            write_json(place, content)
            return content
        content = read_json(place)
        if content.get("format") != FORMAT:
            raise StateError(
                f"{place}: format {content.get('format')!r}, this version reads {FORMAT}",
                hint="start with another checkpoint directory",
            )
        return content

    # ------------------------------------------------------------------ letting go

    def forget_results(self, before: int) -> None:
        """Results of steps below `before` have been read by every sink."""
        for step in self.numbers("out"):
            if step < before:
                shutil.rmtree(self.root / "out" / f"{step:012d}", ignore_errors=True)

    def forget_cell(self, cell: int, log_before: int, state_before: int) -> None:
        """Log segments and states that nobody needs any more."""
        for step in self.numbers("log", str(cell)):
            if step < log_before:
                self.log(cell, step).unlink(missing_ok=True)
        for step in self.numbers("state", str(cell)):
            if step < state_before:
                self.state(cell, step).unlink(missing_ok=True)


# ---------------------------------------------------------------------- whole files


@contextlib.contextmanager
def whole(path: Path) -> Iterator[Any]:
    """A binary file that appears under its name only once it is complete and on disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """A rename is durable once its folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(path: Path, content: dict[str, Any]) -> None:
    body = json.dumps(content, separators=(",", ":")).encode()
    with whole(path) as file:
        file.write(_MARK + f"{zlib.crc32(body):08x}\n".encode() + body)


def read_json(path: Path) -> dict[str, Any]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from error
    head, body = content[: len(_MARK) + 9], content[len(_MARK) + 9 :]
    if head != _MARK + f"{zlib.crc32(body):08x}\n".encode():
        raise StateError(
            f"{path} is damaged: its checksum does not fit", hint="restore the file from a backup"
        )
    found: dict[str, Any] = json.loads(body)
    return found


# ---------------------------------------------------------------------- log segments


def write_segment(path: Path, header: dict[str, Any], tables: dict[str, pa.Table]) -> int:
    """Tables by name, with a header, as one checksummed file; returns its size."""
    parts = []
    for name, table in tables.items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        body = sink.getvalue()
        parts.append((name, body, zlib.crc32(body)))
    described = {**header, "tables": [[name, body.size, check] for name, body, check in parts]}
    head = json.dumps(described, separators=(",", ":")).encode()
    with whole(path) as file:
        file.write(_MARK + f"{len(head):08x} {zlib.crc32(head):08x}\n".encode() + head)
        for _, body, _ in parts:
            file.write(body)
        size: int = file.tell()
    return size


def read_segment(path: Path) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """What `write_segment` wrote, or a StateError that says what is wrong with the file."""
    damaged = StateError(f"{path} is damaged", hint="restore the file from a backup")
    try:
        content = pa.py_buffer(path.read_bytes())
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from error
    start = len(_MARK) + 18
    try:
        mark = content[:start].to_pybytes()
        length, check = (int(part, 16) for part in mark[len(_MARK) : -1].split(b" "))
        head = content[start : start + length].to_pybytes()
        if not mark.startswith(_MARK) or len(head) != length or zlib.crc32(head) != check:
            raise damaged
        header = json.loads(head)
        tables = {}
        at = start + length
        for name, size, check in header.pop("tables"):
            body = content[at : at + size]
            if body.size != size or zlib.crc32(body) != check:
                raise damaged
            tables[name] = pa.ipc.open_stream(body).read_all()
            at += size
        if at != content.size:
            raise damaged
    except (ValueError, KeyError, IndexError, pa.ArrowException) as error:
        raise damaged from error
    return header, tables
