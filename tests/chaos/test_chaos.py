"""A flow that is killed twenty times tells what an undisturbed engine tells."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import needed

from . import damage
from .campaign import run


@pytest.mark.slow
def test_twenty_kills(tmp_path: Path) -> None:
    needed.java()
    campaign = run(int(os.environ.get("PENSTOCK_KILLS", "20")), 5, tmp_path)
    assert campaign.differences() == []
    assert campaign.undetected == []
    assert damage.unnoticed(campaign.checkpoint, 20, campaign.rng)[1] == []
    assert campaign.read_by().keys() == {"cells", "Spark"}
    assert len(campaign.kills) >= 2, "more than one kind of process was killed"
