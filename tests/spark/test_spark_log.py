"""What a power cut leaves of Spark's own logs does not keep a flow from starting."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from penstock.spark import spark_log


def _put(place: Path, text: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    check = struct.pack(">4sII", b"crc\0", 512, zlib.crc32(text.encode()))
    place.with_name(f".{place.name}.crc").write_bytes(check)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three batches of two sources, one of files and one of another kind; the last is not committed."""
    root = tmp_path / "spark"
    _put(root / "metadata", '{"id":"x"}')
    for batch, offset in enumerate((0, 0, 1)):
        _put(
            root / "offsets" / str(batch), f'v1\n{{"batchWatermarkMs":0}}\n{{"logOffset":{offset}}}\n{batch}'
        )
    for batch in range(2):
        _put(root / "commits" / str(batch), 'v1\n{"nextBatchWatermarkMs":0}')
    for entry in ("0", "1"):
        _put(root / "sources" / "0" / entry, 'v1\n{"path":"f"}')
    _put(root / "sources" / "1" / "0", "start")
    return root


def _files(root: Path) -> set[str]:
    return {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and p.name[0] != "."}


def test_whole_logs_stay_as_they_are(log: Path) -> None:
    before = _files(log)
    assert spark_log.repair(log, 2) == []
    assert _files(log) == before


def test_entries_after_the_last_step_decided_are_planned_anew(log: Path) -> None:
    (log / "offsets" / "2").write_bytes(bytes(40))
    (log / "sources" / "0" / "1").write_bytes(b"")
    spark_log.repair(log, 1)
    assert _files(log) == {
        "metadata", "offsets/0", "offsets/1", "commits/0", "commits/1", "sources/0/0", "sources/1/0",
    }  # fmt: skip


@pytest.mark.parametrize("content", [b"", b"v1\n{", bytes(30), b'v1\n{"nextBatchWatermarkMs":1}'])
def test_a_damaged_commit_is_removed_so_that_its_batch_is_repeated(log: Path, content: bytes) -> None:
    (log / "commits" / "1").write_bytes(content)
    spark_log.repair(log, 2)
    assert "commits/1" not in _files(log)
    assert not (log / "commits" / ".1.crc").exists()
    assert {"commits/0", "offsets/2"} < _files(log)


def test_damaged_metadata_are_removed(log: Path) -> None:
    (log / "metadata").write_bytes(b'{"id"')
    spark_log.repair(log, 2)
    assert "metadata" not in _files(log)


@pytest.mark.parametrize("torn", ["metadata", "offsets/0", "sources/0/1", "sources/1/0"])
@pytest.mark.parametrize("lost", [True, False])
def test_without_a_step_spark_starts_from_nothing_if_its_logs_are_torn(
    log: Path, torn: str, lost: bool
) -> None:
    if lost and torn != "sources/0/1":
        (log / torn).unlink()
    else:
        (log / torn).write_bytes(b"")
    spark_log.repair(log, -1)
    assert not log.exists()
    assert spark_log.repair(log, -1) == []


def test_whole_logs_without_a_step_say_where_sources_begin(log: Path) -> None:
    """A driver killed before its first step: what came since is read, also from a source that begins with what is new."""
    before = _files(log)
    assert spark_log.repair(log, -1) == []
    assert _files(log) == before
