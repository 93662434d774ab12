"""What a checkpoint holds is its owner's alone, whatever the umask."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.spark.checkpoint import Store
from penstock.spark.filesystem import make_folder, whole
from penstock.state.snapshot_file import write


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    before = os.umask(0o002)
    yield
    os.umask(before)


def modes(root: Path, ours: set[str]) -> dict[str, int]:
    """Permissions of everything below a folder, but for what Spark itself writes in its own folder."""
    found = {str(root): stat.S_IMODE(root.stat().st_mode)}
    for place in root.rglob("*"):
        part = place.relative_to(root).parts
        if part[0] in ours or len(part) == 1:
            found[str(place)] = stat.S_IMODE(place.stat().st_mode)
    return found


def test_a_checkpoint_is_private(spark: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "checkpoint"
    session = penstock.connect(spark, checkpoint=str(root), cells=2)
    session.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
    query = session.query("SELECT DISTINCT x FROM a [RANGE 100]", name="q")
    query.write(format="parquet", path=str(tmp_path / "out"))
    session.push("a", [{"ts": i, "x": i % 7} for i in range(50)])
    session.start(trigger={"availableNow": True}).awaitTermination()
    ours = {p.name for p in root.iterdir()} - {"spark"}
    assert {"cells", "steps", "done", "declared", "hosts", "pushed"} <= ours
    found = modes(root, ours)
    wide = {name: oct(mode) for name, mode in found.items() if mode & 0o077}
    assert wide == {}
    assert any(name.endswith(".arrow") for name in found), "the log was looked at"


def test_a_folder_of_the_group_stays_the_groups(tmp_path: Path) -> None:
    """Driver and executors may run as different users of one group, who then make the checkpoint's root themselves."""
    root = tmp_path / "shared"
    root.mkdir()
    root.chmod(0o2770)
    Store(root).open(2)
    with whole(root / "steps" / "a.json") as file:
        file.write(b"{}")
    assert stat.S_IMODE((root / "steps").stat().st_mode) == 0o2770
    assert stat.S_IMODE((root / "steps" / "a.json").stat().st_mode) == 0o660


def test_a_folder_everybody_can_write_shares_nothing(tmp_path: Path) -> None:
    root = tmp_path / "like-tmp"
    root.mkdir()
    root.chmod(0o1777)
    make_folder(root / "a" / "b")
    with whole(root / "c.json") as file:
        file.write(b"{}")
    assert [stat.S_IMODE((root / n).stat().st_mode) for n in ("a", "a/b", "c.json")] == [0o700, 0o700, 0o600]


def test_saved_state_is_private(tmp_path: Path) -> None:
    place = tmp_path / "saved"
    write(place, {}, {"a": np.arange(3)})
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    place.chmod(0o640)
    write(place, {}, {"a": np.arange(4)})
    assert stat.S_IMODE(place.stat().st_mode) == 0o640, "a file that is replaced keeps its permissions"
