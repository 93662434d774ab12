"""A flow that is killed twenty times, and disturbed otherwise, returns what an undisturbed engine does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import needed
from tests.chaos import damage
from tests.chaos.campaign import DISK, run
from tests.chaos.small_disk import SmallDisk


@pytest.mark.slow
def test_twenty_kills(tmp_path: Path) -> None:
    needed.java()
    with SmallDisk(tmp_path / "checkpoint", DISK) as disk:
        campaign = run(int(os.environ.get("PENSTOCK_KILLS", "20")), 5, tmp_path, disk=disk)
        assert campaign.failures() == []
        assert damage.unnoticed(campaign.checkpoint, 20, campaign.rng)[1] == []
    assert campaign.read_by().keys() == {"cells", "Spark"}
    assert len(+campaign.kills) >= 3, "more than one kind of process was killed"
    assert campaign.kills["driver"] >= 0.2 * campaign.kills.total()
    assert len(campaign.torn()) >= 3, "tasks were killed in sinks of more than one kind"
