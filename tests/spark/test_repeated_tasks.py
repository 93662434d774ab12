"""Spark repeats the tasks that write to sinks: no row is lost and none is there twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_first_attempts_that_fail_leave_nothing_behind(tmp_path: Path) -> None:
    """Spark takes the number of attempts only when it starts, so the flow is in a process of its own."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.spark.repeated_tasks", str(tmp_path)],
        cwd=Path(__file__).parents[2],
        env={
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": f"--conf spark.sql.warehouse.dir={tmp_path / 'warehouse'} pyspark-shell",
        },
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-5_000:]
    told = json.loads(ran.stdout.splitlines()[-1])
    assert told["failed"] > 10
    assert len(told["changes"]) > 20 and len(told["answer"]) > 2
    for name, rows in told["found"].items():
        expected = told["answer"] if name in ("view", "sums") else told["changes"]
        assert rows == expected, name
