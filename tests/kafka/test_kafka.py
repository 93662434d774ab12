"""From Kafka through a flow to Kafka, with a broker of its own.

Spark takes the connector only when its JVM starts, so the tests are run in a process of their own; to see them one by one:
python -m pytest -p no:xdist tests/kafka/scenarios.py
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from scripts import kafka

from tests import needed

SCENARIOS = Path(__file__).with_name("scenarios.py")


@pytest.mark.slow
def test_scenarios() -> None:
    try:
        kafka.connector()
        kafka.broker()
    except kafka.Unavailable as reason:
        needed.missing(f"Kafka's connector and broker: {reason}")
    needed.java()
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:xdist",
            "-p",
            "no:cacheprovider",
            "--durations=0",
            str(SCENARIOS),
        ],
        cwd=SCENARIOS.parents[2],
        env={k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    print(ran.stdout)
    assert ran.returncode == 0, ran.stdout[-10_000:] + ran.stderr[-2_000:]
