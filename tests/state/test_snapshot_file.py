"""A snapshot's file is read exactly as it was written, or refused by name."""

from __future__ import annotations

import json
import os
import random
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.durability.snapshot import Snapshot, read, write
from penstock.errors import StateError
from penstock.state import snapshot_file

SMALL = Snapshot(
    {"clock": -(2**61), "name": "ström", "none": None, "list": [1, [True]]},
    {
        "a/bytes": np.arange(13, dtype=np.uint8),
        "a/flag": np.array([True, False, True]),
        "b/none": np.empty((0, 3), np.int64),
        "b/table": np.arange(6, dtype=np.int16).reshape(2, 3),
        "c/double": np.array([np.nan, -0.0, np.inf, 5e-324]),
        "c/seed": np.array([2**64 - 1], np.uint64),
    },
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state"


def test_what_is_written_is_read(path: Path) -> None:
    write(SMALL, path)
    got = read(path)
    assert got.meta == SMALL.meta
    assert list(got.arrays) == list(SMALL.arrays)
    for name, array in got.arrays.items():
        assert array.dtype == SMALL.arrays[name].dtype
        assert array.shape == SMALL.arrays[name].shape
        assert array.tobytes() == SMALL.arrays[name].tobytes()
        assert array.flags.writeable and array.flags.c_contiguous and array.flags.aligned
    write(got, str(path))
    assert read(str(path)).meta == SMALL.meta


def test_arrays_that_lie_otherwise_in_memory(path: Path) -> None:
    table = np.arange(12, dtype=np.int32).reshape(3, 4)
    write(Snapshot({}, {"t": table.T, "s": table[::2, 1], "b": table.astype(">i4")}), path)
    got = read(path).arrays
    assert got["t"].tolist() == table.T.tolist()
    assert got["s"].tolist() == table[::2, 1].tolist()
    assert got["b"].tolist() == table.tolist()


def test_every_array_begins_at_a_multiple_of_eight(path: Path) -> None:
    write(SMALL, path)
    content = path.read_bytes()
    (length,) = struct.unpack_from("<Q", content, 16)
    table = json.loads(content[24 : 24 + length])["arrays"]
    assert (24 + length) % 8 == 0
    assert all(offset % 8 == 0 for _, _, _, offset, _ in table)
    assert len(content) % 8 == 0


def test_every_truncation_is_refused(path: Path) -> None:
    write(SMALL, path)
    content = path.read_bytes()
    for size in range(len(content)):
        path.write_bytes(content[:size])
        with pytest.raises(StateError, match=r"state: (cut off|damaged)"):
            read(path)


def test_bytes_behind_the_end_are_refused(path: Path) -> None:
    write(SMALL, path)
    content = path.read_bytes()
    for more in (b"\0", bytes(8), content):
        path.write_bytes(content + more)
        with pytest.raises(StateError, match="cut off or damaged"):
            read(path)


def test_a_flipped_bit_in_any_byte_is_refused(path: Path) -> None:
    write(SMALL, path)
    content = path.read_bytes()
    rng = random.Random(5)
    for byte in range(len(content)):
        flipped = bytearray(content)
        flipped[byte] ^= 1 << rng.randrange(8)
        path.write_bytes(flipped)
        with pytest.raises(StateError, match=str(path)):
            read(path)


def test_random_damage_is_refused(path: Path) -> None:
    write(SMALL, path)
    content = path.read_bytes()
    rng = random.Random(7)
    for _ in range(500):
        damaged = bytearray(content)
        begin = rng.randrange(len(content))
        damaged[begin : begin + rng.randrange(1, 40)] = rng.randbytes(rng.randrange(1, 40))
        if damaged != content:
            path.write_bytes(damaged)
            with pytest.raises(StateError, match=str(path)):
                read(path)


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"\x80\x04K\x01.", bytes(100), b"\x89PNG\r\n\x1a\n" + bytes(50)]
)
def test_foreign_files_are_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(StateError, match=str(path)):
        read(path)


def test_what_is_not_there_is_refused(path: Path) -> None:
    with pytest.raises(StateError, match="state cannot be read: No such file"):
        read(path)
    path.mkdir()
    with pytest.raises(StateError, match="state cannot be read"):
        read(path)


def test_another_format_is_refused(path: Path) -> None:
    write(SMALL, path)
    content = bytearray(path.read_bytes())
    struct.pack_into("<I", content, 8, snapshot_file.VERSION + 1)
    path.write_bytes(content)
    with pytest.raises(
        StateError,
        match=f"written in format {snapshot_file.VERSION + 1}, and this version of penstock reads format {snapshot_file.VERSION}",
    ):
        read(path)


def forged(path: Path, header: Any, body: bytes = b"") -> None:
    """A file whose checksums fit, whatever it says."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(
        struct.pack("<8sIIQ", snapshot_file.MAGIC, snapshot_file.VERSION, zlib.crc32(text), len(text))
        + text
        + body
    )


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (["a", "|O", [1], 0, 0], "plain numbers"),
        (["a", "|V8", [1], 0, 0], "plain numbers"),
        (["a", "<M8[us]", [1], 0, 0], "plain numbers"),
        (["a", ">i8", [1], 0, 0], "plain numbers"),
        (["a", "<c16", [1], 0, 0], "plain numbers"),
        (["a", "<i8,<i8", [1], 0, 0], "plain numbers"),
        (["a", "<i8", [2**40], 0, 0], "the header tells of"),
        (["a", "<i8", [2**62, 2**62], 0, 0], "impossible shape"),
        (["a", "<i8", [0, 2**62], 0, 0], "impossible shape"),
        (["a", "<i8", [-1], 0, 0], "impossible shape"),
        (["a", "<i8", [1.0], 0, 0], "impossible shape"),
        (["a", "<i8", [True], 0, 0], "impossible shape"),
        (["a", "<i8", [1], 8, 0], "not where it belongs"),
        (["a", "<i8", [1], 0, 1], "checksum"),
        (["a", "<i8", "1", 0, 0], "table of arrays"),
        ([1, "<i8", [1], 0, 0], "table of arrays"),
        ({"name": "a"}, "table of arrays"),
    ],
)
def test_tables_that_lie_are_refused(path: Path, entry: Any, why: str) -> None:
    forged(path, {"meta": {}, "arrays": [entry]}, bytes(8))
    with pytest.raises(StateError, match=why):
        read(path)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b"9" * 10_000,
        {},
        [],
        {"meta": [], "arrays": []},
        {"meta": {}, "arrays": 1},
    ],
    ids=range(9),
)
def test_headers_that_are_none_are_refused(path: Path, header: Any) -> None:
    forged(path, header)
    with pytest.raises(StateError, match="the header is not what it should be"):
        read(path)


def test_two_arrays_of_one_name_are_refused(path: Path) -> None:
    one = np.zeros(1, np.int64).tobytes()
    forged(
        path, {"meta": {}, "arrays": [["a", "<i8", [1], 8 * k, zlib.crc32(one)] for k in range(2)]}, one + one
    )
    with pytest.raises(StateError, match="not where it belongs"):
        read(path)


@pytest.mark.parametrize(
    "array", [np.array([object()]), np.array(["a"]), np.array([1j]), np.zeros(1, "M8[us]")]
)
def test_only_plain_numbers_are_written(path: Path, array: Any) -> None:
    with pytest.raises(StateError, match=r"array a of .* is not made of plain numbers"):
        write(Snapshot({}, {"a": array}), path)
    assert not list(path.parent.iterdir())


def test_nothing_else_stays_in_the_folder(path: Path) -> None:
    for _ in range(3):
        write(SMALL, path)
    assert [entry.name for entry in path.parent.iterdir()] == ["state"]


@pytest.mark.parametrize("call", ["fsync", "write", "replace"])
def test_a_failed_write_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    write(SMALL, path)
    before = path.read_bytes()

    def fails(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    if call == "fsync":
        monkeypatch.setattr(os, "fsync", fails)
    elif call == "replace":
        monkeypatch.setattr(Path, "replace", fails)
    else:
        monkeypatch.setattr(snapshot_file, "write_to", fails)
    with pytest.raises(StateError, match="state cannot be written: No space left on device"):
        write(Snapshot({"clock": 2}, {}), path)
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == ["state"]


def test_a_folder_that_is_not_there_is_told(path: Path) -> None:
    with pytest.raises(StateError, match="cannot be written: No such file"):
        write(SMALL, path / "state")


def test_meta_that_is_no_json_is_told(path: Path) -> None:
    for meta in ({"a": np.int64(1)}, {"a": float("nan")}):
        with pytest.raises((TypeError, ValueError)):
            write(Snapshot(meta, {}), path)
    assert not list(path.parent.iterdir())
