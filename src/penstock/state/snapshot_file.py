"""Named arrays and a little JSON in one file that is there whole or not at all.

    8 bytes   magic
    4 + 4     format version; checksum of the header
    8 bytes   length of the header
    header    JSON: `meta`, and per array its name, dtype, shape, offset and checksum; spaces up to a multiple of 8
    arrays    as they lie in memory (little-endian), each followed by zeros up to a multiple of 8

Everything behind the prefix is under a checksum, and lengths are held against the file's size before anything is
allocated: a file that was cut, changed or is something else is a `StateError` that names it. Only plain numbers are read.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import struct
import zlib
from collections.abc import Mapping
from io import BufferedReader
from math import prod
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from penstock.errors import StateError
from penstock.types.batch import Array

MAGIC = b"\x89PENST\r\n"
"""Not text, and no transfer that changes line ends leaves it as it is."""
VERSION = 19
"""Counts up when the file is laid out otherwise, and when arrays of an operator come to mean something else."""
_PREFIX = struct.Struct("<8sIIQ")
_PLAIN = frozenset({"|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8"})
_MOST = 2**48
"""Entries of an array; more than any file holds, few enough that no product of them wraps."""


def write(path: Path, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Put a file in place of the one before; if that fails, the one before stays.

    A new file is private to its user, since it holds rows; one that replaces another keeps that one's permissions.
    """
    path = Path(path)
    making = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    try:
        try:
            with open(making, "xb", opener=_private) as file:
                if path.exists():
                    os.fchmod(file.fileno(), path.stat().st_mode & 0o777)
                write_to(file, meta, arrays)
                file.flush()
                os.fsync(file.fileno())
            making.replace(path)
            sync_folder(path.parent)
        except BaseException:
            with contextlib.suppress(OSError):
                making.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StateError(f"{path} cannot be written: {error.strerror or error}") from error


def write_to(file: IO[bytes], meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """The content of such a file."""
    table, parts = [], []
    offset = 0
    for name, array in arrays.items():
        part = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        if part.dtype.str not in _PLAIN:
            raise StateError(f"array {name} of {array.dtype} is not made of plain numbers")
        rest = bytes(-part.nbytes % 8)
        body = part.reshape(-1).view(np.uint8).data
        table.append([name, part.dtype.str, list(array.shape), offset, zlib.crc32(rest, zlib.crc32(body))])
        parts.append((body, rest))
        offset += part.nbytes + len(rest)
    header = json.dumps({"meta": meta, "arrays": table}, separators=(",", ":"), allow_nan=False).encode()
    header += b" " * (-len(header) % 8)
    file.write(_PREFIX.pack(MAGIC, VERSION, zlib.crc32(header), len(header)) + header)
    for body, rest in parts:
        file.write(body)
        file.write(rest)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def sync_folder(folder: Path) -> None:
    """A rename lasts once its folder is on disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class _Damage(Exception):  # noqa: N818 - a finding, turned into a StateError by whoever knows the file
    """What is wrong with a file."""


class Opens(Protocol):
    """A place that a file can be read at."""

    def open(self, mode: str) -> Any: ...


def read(path: Opens) -> tuple[dict[str, Any], dict[str, Array]]:
    """What was written; arrays are in memory of their own."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            return _read(file, size)
    except OSError as error:
        raise StateError(f"{path} cannot be read: {error.strerror or error}") from error
    except _Damage as damage:
        raise StateError(f"{path}: {damage}", hint="take an older one, or a copy") from None


def _read(file: BufferedReader, size: int) -> tuple[dict[str, Any], dict[str, Array]]:
    prefix = file.read(_PREFIX.size)
    if prefix[:8] != MAGIC[: len(prefix)]:
        raise _Damage("this is no file of saved state")
    if len(prefix) < _PREFIX.size:
        raise _Damage(f"cut off: {size} bytes are less than a prefix")
    _, version, check, length = _PREFIX.unpack(prefix)
    if version != VERSION:
        raise _Damage(f"written in format {version}, and this version of penstock reads format {VERSION}")
    if length > size - _PREFIX.size:
        raise _Damage(f"cut off or damaged: a header of {length} bytes in a file of {size}")
    header = file.read(length)
    if len(header) != length or zlib.crc32(header) != check:
        raise _Damage("damaged: the header does not fit its checksum")
    meta, table = _parsed(header)
    start = _PREFIX.size + length
    extents = [_extent(entry) for entry in table]
    end = start + sum(-(-nbytes // 8) * 8 for nbytes in extents)
    if end != size:
        raise _Damage(f"cut off or damaged: {size} bytes, where the header tells of {end}")
    arrays = {}
    offset = 0
    for (name, dtype, shape, begin, check), nbytes in zip(table, extents, strict=True):
        if begin != offset or name in arrays:
            raise _Damage(f"array {name} is not where it belongs")
        body = np.empty(-(-nbytes // 8) * 8, np.uint8)
        if file.readinto(body.data) != len(body) or zlib.crc32(body.data) != check:
            raise _Damage(f"damaged: array {name} does not fit its checksum")
        offset += len(body)
        arrays[name] = body[:nbytes].view(dtype).reshape(shape)
    return meta, arrays


def _parsed(header: bytes) -> tuple[dict[str, Any], list[list[Any]]]:
    try:
        found = json.loads(header)
        meta, table = found["meta"], found["arrays"]
    except (ValueError, RecursionError, KeyError, TypeError, IndexError):
        raise _Damage("the header is not what it should be") from None
    if not isinstance(meta, dict) or not isinstance(table, list):
        raise _Damage("the header is not what it should be")
    return meta, table


def _extent(entry: object) -> int:
    """How many bytes an array has, if its entry is one that could have been written."""
    match entry:
        case [str(name), str(dtype), list(shape), int(), int()]:
            if dtype not in _PLAIN:
                raise _Damage(f"array {name} of {dtype!r} is not made of plain numbers")
            if not all(type(n) is int and n >= 0 for n in shape) or prod(max(n, 1) for n in shape) > _MOST:
                raise _Damage(f"array {name} has an impossible shape")
            return prod(shape) * np.dtype(dtype).itemsize
        case _:
            raise _Damage("the table of arrays is not what it should be")
