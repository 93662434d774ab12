"""A green run says what it did not run; where CI is set, a test that lacks something fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUMMARY = "from tests.conftest import pytest_terminal_summary\n"
TESTS = """
from tests import needed

def test_runs():
    assert True

def test_lacks_something():
    needed.missing("a broker is not here")

def test_lacks_it_too():
    needed.missing("a broker is not here")
"""


def run(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The three tests above, with the summary of this project's tests."""
    place = folder / "part"
    place.mkdir()
    (folder / "conftest.py").write_text(SUMMARY)
    (place / "test_some.py").write_text(TESTS)
    kept = {name: value for name, value in os.environ.items() if name != "CI" and "PYTEST" not in name}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, "-c", os.devnull, "--rootdir", str(folder), str(place)],
        cwd=ROOT,
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_what_was_not_run_is_listed_with_its_reason(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 0, done.stdout
    title, listed = done.stdout.split("not run", 1)[1].splitlines()[:2]
    assert set(title.strip()) == {"="}
    assert listed == "2 tests of part: a broker is not here"


def test_nothing_is_skipped_where_ci_is_set(tmp_path: Path) -> None:
    done = run(tmp_path, CI="true")
    assert done.returncode == 1
    assert "2 failed, 1 passed" in done.stdout
    assert "not run" not in done.stdout


def test_the_checks_of_every_commit_set_ci() -> None:
    assert "export CI=true" in (ROOT / ".ci" / "run").read_text().splitlines()
