"""Settings for every test and for the processes that a test starts."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.needed import found_java

JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Most of what Java does in a test it does once: a second compiler and collectors of many threads cost more than they save
(56 → 32 s of processor time for a flow of twelve steps with the start of its Spark)."""
CLASSES = Path(sys.prefix) / "spark.jsa"
"""Spark's classes as tests/spark/classes.py keeps them."""

# As Spark's own scripts read them: for the process that makes a command line, and for the driver.
os.environ.setdefault("SPARK_LAUNCHER_OPTS", JAVA)
if CLASSES.is_file():  # Java looks itself whether they fit
    JAVA += f" -XX:SharedArchiveFile={CLASSES} -Xlog:cds=off"
os.environ.setdefault("SPARK_SUBMIT_OPTS", JAVA)
found_java()

LONG = (
    "kafka/",
    "chaos/",
    "cluster/",
    "spark/test_crash_points",
    "spark/test_oracle_cases",
    "project/test_cli",
    "spark/",
)
"""Begun first, the longest first: the end waits for whatever was begun last."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def turn(item: pytest.Item) -> int:
        place = item.path.as_posix().rpartition("/tests/")[2]
        return next((turn for turn, start in enumerate(LONG) if place.startswith(start)), len(LONG))

    items.sort(key=turn)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say at the end what was not run and why: a green run is worth what it ran."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reasons[reason.removeprefix("Skipped: ")].append(report.nodeid)
    if not reasons:
        return
    terminalreporter.section("not run")
    for reason, tests in sorted(reasons.items(), key=lambda pair: -len(pair[1])):
        places = sorted({test.partition("::")[0].rpartition("/")[0] for test in tests})
        count = "1 test" if len(tests) == 1 else f"{len(tests)} tests"
        terminalreporter.write_line(f"{count} of {', '.join(places)}: {reason}")
