"""Without a place for compiled kernels everything still works, and one line says that it takes longer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import penstock

SOURCE = str(Path(penstock.__file__).parents[1])
SCRIPT = """
import resource, sys
import penstock
if "full" in sys.argv:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # every write to a file fails, as on a full disk
s = penstock.connect()
s.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
q = s.query("SELECT x FROM a [RANGE 10] WHERE x > 1")
s.push("a", [{"ts": 1, "x": 1}, {"ts": 2, "x": 2}])
s.advance(2)
print(q.snapshot().to_pylist())
"""
SAID = "compiled kernels cannot be kept"


def answered(*arguments: str, before: tuple[str, ...] = (), **environment: str) -> str:
    """What the script says on standard error; its answer is right."""
    given = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    done = subprocess.run(
        [*before, sys.executable, "-c", SCRIPT, *arguments],
        env=given | {"PYTHONPATH": SOURCE} | environment, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[{'x': 2}]"]
    return done.stderr


def test_no_place_for_a_cache() -> None:
    told = answered(NUMBA_CACHE_LOCATOR_CLASSES="IPythonCacheLocator")
    assert told.count(SAID) == 1
    assert "NUMBA_CACHE_DIR" in told


def test_neither_package_nor_home_can_be_written() -> None:
    """On a file system that is mounted read-only, which stops root, too."""
    unshare = shutil.which("unshare")
    mount = f"mount --bind {SOURCE} {SOURCE} && mount -o remount,ro,bind {SOURCE}"
    if (
        unshare is None
        or subprocess.run([unshare, "-m", "sh", "-c", mount], check=False, capture_output=True).returncode
    ):
        pytest.skip("to mount the package read-only, tests must run as root with `unshare`")
    before = (unshare, "-m", "sh", "-c", f'{mount} && exec "$@"', "sh")
    assert answered(before=before, HOME="/proc/nowhere").count(SAID) == 1


def test_a_full_disk(tmp_path: Path) -> None:
    told = answered("full", NUMBA_CACHE_DIR=str(tmp_path))
    assert told.count(SAID) == 1
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and p.stat().st_size]


def test_no_home_leaves_no_directory_of_that_name(tmp_path: Path) -> None:
    """A user without an entry has no home: Numba would take ~ for a directory where the process runs."""
    ask = (
        "import os; os.path.expanduser = lambda p: p\nfrom penstock.kernels import compile as jit\n"
        "from numba.core.caching import UserWideCacheLocator\n"
        "print(UserWideCacheLocator in jit._Places._locator_classes)"
    )
    done = subprocess.run(
        [sys.executable, "-c", ask],
        env={"PYTHONPATH": SOURCE, "PATH": os.environ["PATH"]},
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "False\n"


def test_a_cache_that_was_cut_off_is_made_again(tmp_path: Path) -> None:
    assert SAID not in answered(NUMBA_CACHE_DIR=str(tmp_path))
    kept = list(tmp_path.rglob("*.nbi"))
    assert kept
    for place in kept:
        place.write_bytes(b"")
    assert SAID not in answered(NUMBA_CACHE_DIR=str(tmp_path))
    assert all(place.stat().st_size for place in kept)
