"""The file system of the power cuts itself: what is synced stays, the rest may go."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import needed
from tests.powercut.mounted import Volatile, mounted
from tests.powercut.volatile import Loss


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Volatile]:
    needed.mounts()
    with mounted(tmp_path / "disk") as made:
        yield made


def _sync(place: Path) -> None:
    handle = os.open(place, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _cut(disk: Volatile, loss: Loss = Loss.ALL, seed: int = 0) -> set[str]:
    disk.cut()
    disk.power_on(loss, seed)
    return {str(p.relative_to(disk.place)) for p in disk.place.rglob("*")}


def test_a_file_whose_directory_was_not_synced_is_gone(disk: Volatile) -> None:
    (disk.place / "synced").write_text("x")
    _sync(disk.place / "synced")
    assert _cut(disk) == set()


def test_a_file_and_directory_that_were_synced_stay(disk: Volatile) -> None:
    (disk.place / "file").write_text("content")
    _sync(disk.place / "file")
    _sync(disk.place)
    assert _cut(disk) == {"file"}
    assert (disk.place / "file").read_text() == "content"


def test_content_that_was_not_synced_is_gone_though_its_name_stays(disk: Volatile) -> None:
    (disk.place / "file").write_text("content")
    _sync(disk.place)
    assert _cut(disk) == {"file"}
    assert (disk.place / "file").read_text() == ""


def test_what_was_written_after_a_sync_may_be_torn(disk: Volatile) -> None:
    seen = set()
    for seed in range(40):
        (disk.place / "file").write_bytes(b"old")
        disk.sync_all()
        (disk.place / "file").write_bytes(b"newer")
        _cut(disk, Loss.SOME, seed)
        seen.add((disk.place / "file").read_bytes())
    assert {b"old", b"newer"} < seen
    assert any(content[:1] == b"n" and content != b"newer" for content in seen)


def test_renames_are_lost_or_kept_each_on_its_own(disk: Volatile) -> None:
    seen = set()
    for seed in range(40):
        for name in ("a", "b"):
            (disk.place / name).write_text(name)
            (disk.place / f"{name}2").unlink(missing_ok=True)
        disk.sync_all()
        (disk.place / "a").rename(disk.place / "a2")
        (disk.place / "b").rename(disk.place / "b2")
        seen.add(frozenset(_cut(disk, Loss.SOME, seed)))
    assert seen == {frozenset({first, second}) for first in ("a", "a2") for second in ("b", "b2")}


def test_a_new_directory_needs_a_sync_of_the_one_above_it(disk: Volatile) -> None:
    (disk.place / "up" / "down").mkdir(parents=True)
    (disk.place / "up" / "down" / "file").write_text("x")
    for place in ("up/down/file", "up/down", "up"):
        _sync(disk.place / place)
    assert _cut(disk) == set()
    (disk.place / "up" / "down").mkdir(parents=True)
    for place in ("up", "."):
        _sync(disk.place / place)
    assert _cut(disk) == {"up", "up/down"}


def test_without_power_nothing_works_and_open_files_are_stale_afterwards(disk: Volatile) -> None:
    with (disk.place / "file").open("wb", buffering=0) as file:
        disk.cut_after(1)
        with pytest.raises(OSError, match="Input/output error"):
            file.write(b"x")
        assert disk.is_off
        disk.power_on(Loss.NONE, 0)
        with pytest.raises(OSError, match=r"Input/output error|Stale file handle"):
            file.write(b"x")
    assert (disk.place / "file").read_bytes() == b""
