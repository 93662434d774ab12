"""A whole flow on Spark whose disk loses power again and again: nothing lost, nothing twice, never stuck."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from penstock.spark.local import local_spark
from tests import needed
from tests.powercut.campaign import run


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # no file closes without power
def test_a_flow_survives_power_cuts(tmp_path: Path) -> None:
    needed.java()
    needed.mounts()
    cuts = int(os.environ.get("PENSTOCK_CUTS", "20"))
    campaign, differences = run(local_spark("local[2,8]", "power cuts"), cuts, 1, tmp_path)
    assert differences == []
    assert campaign.cuts.total() == cuts
    gc.collect()
