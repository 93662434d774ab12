"""Starting: kernels compiled once, a quick import, a quick first answer, and a word to whoever waits."""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType

import pytest
from numba.core.registry import CPUDispatcher

import penstock.kernels
from penstock.cli.warm_kernels import warm

FIRST_ANSWER = """
import penstock
s = penstock.connect()
s.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
q = s.query("SELECT x, COUNT(*) AS n FROM a [RANGE 10] GROUP BY x")
s.push("a", [{"ts": 1, "x": 1}])
s.advance(1)
print(q.snapshot().to_pylist())
"""

UNWARMED = """
from penstock.cli.warm_kernels import warm
from tests.cli import programs
from tests.cli.test_warm import signatures
warm()
known = signatures()
def shown(program):
    for kernel, types in sorted(signatures() - known):
        print(program, kernel, types)
    known.update(signatures())
programs.run_all(shown)
print("nothing else")
"""


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
        cwd=Path(__file__).parents[2],
        env={**os.environ, **environment},
    )


def kernels() -> list[tuple[str, CPUDispatcher]]:
    """Kernels that are called from outside; those called by kernels come with their callers."""
    found = []
    for module in pkgutil.walk_packages(penstock.kernels.__path__, "penstock.kernels."):
        held = vars(importlib.import_module(module.name))
        found += [(n, k) for n, k in held.items() if isinstance(k, CPUDispatcher)]
    inner = {id(called) for _, kernel in found for called in calls(kernel.py_func)}
    return [(name, kernel) for name, kernel in found if id(kernel) not in inner]


def calls(function: FunctionType) -> Iterator[object]:
    """What a function's names stand for, also those looked up in a module."""
    used = [function.__globals__[name] for name in function.__code__.co_names if name in function.__globals__]
    for one in used:
        yield one
        if isinstance(one, ModuleType):
            yield from (vars(one)[name] for name in function.__code__.co_names if name in vars(one))


def signatures() -> set[tuple[str, str]]:
    """Kernels with the types they are loaded for."""
    return {(name, str(types)) for name, kernel in kernels() for types in kernel.signatures}


def test_warming_compiles_every_kernel() -> None:
    warm()
    assert [name for name, kernel in kernels() if not kernel.signatures] == []


def test_after_warming_programs_need_no_other_kernel() -> None:
    """In a process of its own: what other tests have loaded must not count."""
    done = run(UNWARMED)
    assert done.stdout.splitlines() == ["nothing else"]


def test_the_command_says_that_kernels_are_ready() -> None:
    command = [sys.executable, "-m", "penstock", "warm"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    assert re.fullmatch(r"kernels are ready: (all were compiled before|\d+ compiled in \d+ s)\n", done.stdout)
    assert done.stderr == ""


def test_a_machine_is_warm_once_all_is_compiled(tmp_path: Path) -> None:
    """The mark lies beside the cache and holds for these kernels only."""
    ask = "from penstock.kernels.warm_mark import is_warm, set_warm; print(is_warm()); set_warm(); print(is_warm())"
    assert run(ask, NUMBA_CACHE_DIR=str(tmp_path)).stdout.split() == ["False", "True"]
    (mark,) = tmp_path.rglob("penstock.warm")
    mark.write_text("another version")
    assert run(ask, NUMBA_CACHE_DIR=str(tmp_path)).stdout.split() == ["False", "True"]


def test_importing_is_quick() -> None:
    took = run("import time; t = time.process_time(); import penstock; print(time.process_time() - t)")
    assert float(took.stdout) < 0.5


@pytest.mark.slow
def test_the_first_start_says_that_it_compiles_and_the_second_is_quick(tmp_path: Path) -> None:
    first = run(FIRST_ANSWER, NUMBA_CACHE_DIR=str(tmp_path))
    began, ended = first.stderr.splitlines()
    assert began == (
        "penstock: compiling kernels for this kind of query, some seconds, once on this machine;"
        " `penstock warm` compiles them all"
    )
    assert re.fullmatch(r"penstock: compiled \d+ kernels in \d+\.\d s \([a-z_]+(, [a-z_]+)*\)", ended)
    second = run(f"import time; {FIRST_ANSWER}\nprint(time.process_time())", NUMBA_CACHE_DIR=str(tmp_path))
    assert second.stderr == ""
    answer, seconds = second.stdout.splitlines()
    assert answer == "[{'x': 1, 'n': 1}]"
    assert float(seconds) < 3
