"""A flow that is killed twenty times tells what an undisturbed engine tells."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from . import damage
from .campaign import run


@pytest.mark.slow
def test_twenty_kills(tmp_path: Path) -> None:
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        if os.environ.get("CI"):
            pytest.fail("Java 17 or newer is needed")
        pytest.skip("Spark needs Java 17 or newer")
    campaign = run(int(os.environ.get("PENSTOCK_KILLS", "20")), 5, tmp_path)
    assert campaign.differences() == []
    assert campaign.undetected == []
    assert damage.unnoticed(campaign.checkpoint, 20, campaign.rng)[1] == []
    assert campaign.read_by().keys() == {"cells", "Spark"}
    assert len(campaign.kills) >= 2, "more than one kind of process was killed"
