"""Starting: kernels compiled once, a quick import, a quick first answer, and a word to whoever waits."""

from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core.registry import CPUDispatcher

import penstock.kernels
from penstock.surfaces.warm import warm

FIRST_ANSWER = """
import penstock
s = penstock.connect()
s.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
q = s.query("SELECT x, COUNT(*) AS n FROM a [RANGE 10] GROUP BY x")
s.push("a", [{"ts": 1, "x": 1}])
s.advance(1)
print(q.snapshot().to_pylist())
"""


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env={**os.environ, **environment},
    )


def kernels() -> list[tuple[str, CPUDispatcher]]:
    """Kernels that are called from outside; those called by kernels come with their callers."""
    found = []
    for module in pkgutil.iter_modules(penstock.kernels.__path__):
        held = vars(importlib.import_module(f"penstock.kernels.{module.name}"))
        found += [(n, k) for n, k in held.items() if isinstance(k, CPUDispatcher)]
    inner = {name for _, kernel in found for name in kernel.py_func.__code__.co_names}
    return [(name, kernel) for name, kernel in found if name not in inner]


def test_warming_compiles_every_kernel() -> None:
    warm()
    assert [name for name, kernel in kernels() if not kernel.signatures] == []


def test_importing_is_quick() -> None:
    took = run("import time; t = time.process_time(); import penstock; print(time.process_time() - t)")
    assert float(took.stdout) < 0.5


@pytest.mark.slow
def test_the_first_start_says_that_it_compiles_and_the_second_is_quick(tmp_path: Path) -> None:
    first = run(FIRST_ANSWER, NUMBA_CACHE_DIR=str(tmp_path))
    assert first.stderr.splitlines() == [
        "penstock: compiling kernels for this machine (first use only, some seconds) ..."
    ]
    second = run(f"import time; {FIRST_ANSWER}\nprint(time.process_time())", NUMBA_CACHE_DIR=str(tmp_path))
    assert second.stderr == ""
    answer, seconds = second.stdout.splitlines()
    assert answer == "[{'x': 1, 'n': 1}]"
    assert float(seconds) < 3
