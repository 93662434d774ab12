"""Delta tables as sinks and sources.

Spark takes Delta only when its JVM starts, so the tests are run in a process of their own; to see them one by one:
python -m pytest -p no:xdist tests/delta/scenarios.py
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from scripts import delta

from tests import needed

SCENARIOS = Path(__file__).with_name("scenarios.py")


@pytest.mark.slow
def test_scenarios() -> None:
    try:
        delta.jars()
    except delta.Unavailable as reason:
        needed.missing(f"Delta Lake: {reason}")
    needed.java()
    alone = ["-p", "no:xdist", "-p", "no:cacheprovider", "--durations=0", "-rs"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *alone, str(SCENARIOS)],
        cwd=SCENARIOS.parents[2],
        env={k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    print(ran.stdout)
    assert ran.returncode == 0, ran.stdout[-10_000:] + ran.stderr[-2_000:]
    skipped = re.search(r"^SKIPPED \[\d+\] \S+ (.*)$", ran.stdout, re.MULTILINE)
    if skipped:
        pytest.skip(skipped[1])
