"""Driver, cells and a file sink in one process, on a disk that loses power: nothing lost, nothing twice, never stuck."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from penstock.spark import filesystem
from tests.powercut.local_campaign import campaign
from tests.powercut.recorded import Disk, PowerCut


def _change(root: Path) -> None:
    with filesystem.whole(root / "whole") as file:  # create, sync, rename, sync of the folder
        file.write(b"all of it")
    (root / "old" / "kept").unlink()
    (root / "new").mkdir()
    for name in range(100):
        (root / "new" / str(name)).touch()


def test_what_was_not_synced_is_lost(tmp_path: Path) -> None:
    root = tmp_path / "disk"
    (root / "old").mkdir(parents=True)
    (root / "old" / "kept").write_text("before")
    disk = Disk(root, cut=9)
    with disk.powered(), pytest.raises(PowerCut):
        _change(root)
    found = set()
    for seed in range(40):
        after = tmp_path / str(seed)
        disk.after_cut(after, random.Random(seed))
        assert (after / "whole").read_text() == "all of it"
        found.add((after / "old" / "kept").exists() + 2 * (after / "new").exists())
    assert found == {0, 1, 2, 3}, "names without a sync are there or not, in any order"


@pytest.mark.slow
def test_flows_survive_power_cuts() -> None:
    wanted = int(os.environ.get("PENSTOCK_CUTS", "100"))
    report = campaign(wanted)
    assert report.failures == []
    assert report.cuts >= wanted


def test_a_missing_sync_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without syncs of folders flows lose steps, or do not start: the disk tells."""
    real = filesystem.sync_folder
    monkeypatch.setattr(filesystem, "sync_folder", lambda place: None if place.is_dir() else real(place))
    assert campaign(12, 5).failures
