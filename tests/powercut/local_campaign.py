"""Cut the power again and again, and compare what sinks hold in the end: `python -m tests.powercut.local_campaign --cuts 2000`.

Every life begins on what a disk may hold after the cut before. A life that fails by anything but a cut is a failure: the flow is stuck.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from penstock.spark import partition as cells
from tests.powercut.local_flow import Life, Rows, expected, input_rows
from tests.powercut.recorded import Disk, PowerCut

MOST_LIVES = 30
"""Cuts of one flow before it is left alone to the end."""
MOST_FAILURES = 10
"""After which a campaign ends: a flow that cannot start at all is never cut."""
OPERATIONS = 700
"""After which a life is cut at the latest, while it is to be cut; a flow takes some 1,000 without states."""


@dataclass
class Report:
    """What a campaign found."""

    cuts: int = 0
    flows: int = 0
    failures: list[str] = field(default_factory=list)


def answers(root: Path, names: list[str]) -> dict[str, list[str]]:
    """What the sinks hold, by query."""
    found: dict[str, list[str]] = {}
    for name in names:
        folder = root / "sink" / name
        files = sorted(folder.glob("*.json")) if folder.is_dir() else []
        found[name] = sorted(line for file in files for line in json.loads(file.read_text()))
    return found


def one_flow(seed: int, rows: Rows, wanted: dict[str, list[str]], home: Path, most: int) -> tuple[int, str]:
    """Run a flow through cuts until it ends; how many there were, and what went wrong."""
    rng = random.Random(seed)
    root = home / "0"
    root.mkdir()
    cuts = 0
    with mock.patch.object(cells, "LEAST_LOG", rng.choice((0, 4000, 1 << 30))):
        while True:
            # Many cuts soon after the start, where a life finishes what the one before has begun.
            near = rng.random() < 0.4
            cut = rng.randrange(1, 80 if near else OPERATIONS) if cuts < most else None
            disk = Disk(root, cut)
            try:
                with disk.powered():
                    Life(root, rows, rng).run()
                break
            except PowerCut:
                cuts += 1
                after = home / str(cuts)
                disk.after_cut(after, rng)
                shutil.rmtree(root)
                root = after
            except Exception:  # noqa: BLE001 - reported
                return cuts, f"seed {seed}, life {cuts + 1}: stuck\n{traceback.format_exc()}"
    found = answers(root, list(wanted))
    for name, expected_lines in wanted.items():
        lost = Counter(expected_lines) - Counter(found[name])
        more = Counter(found[name]) - Counter(expected_lines)
        if lost or more:
            return (
                cuts,
                f"seed {seed}, {cuts} cuts, query {name}: lost {lost.total()}, twice or wrong {more.total()}",
            )
    return cuts, ""


def campaign(cuts: int, first_seed: int = 0, *, tell: bool = False) -> Report:
    """Flows until there have been so many cuts."""
    rows = input_rows()
    wanted = expected(rows)
    report = Report()
    began = time.monotonic()
    while report.cuts < cuts and len(report.failures) < MOST_FAILURES:
        home = Path(tempfile.mkdtemp(prefix="penstock-powercut-"))
        try:
            most = min(MOST_LIVES, cuts - report.cuts)
            made, failure = one_flow(first_seed + report.flows, rows, wanted, home, most)
        finally:
            shutil.rmtree(home, ignore_errors=True)
        report.cuts += made
        report.flows += 1
        if failure:
            report.failures.append(failure)
        if tell:
            spent = time.monotonic() - began
            print(
                f"{report.cuts} cuts, {report.flows} flows, {len(report.failures)} failures, {spent:.0f} s",
                flush=True,
            )
            if failure:
                print(failure, flush=True)
    return report


def main() -> int:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--cuts", type=int, default=2000)
    given.add_argument("--seed", type=int, default=0)
    told = given.parse_args()
    report = campaign(told.cuts, told.seed, tell=True)
    return 1 if report.failures or report.cuts < told.cuts else 0


if __name__ == "__main__":
    sys.exit(main())
