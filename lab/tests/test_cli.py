"""`penstock bench` and `penstock figure` from outside: commands of penstock, declared by this package."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_both_are_commands_of_penstock() -> None:
    done = call("--help")
    assert (done.returncode, done.stderr) == (0, "")
    commands = [line.split()[0] for line in done.stdout.split("Commands:")[1].splitlines() if line.strip()]
    assert {"bench", "figure"} <= set(commands)


@pytest.mark.parametrize("arguments", [("figure", "9"), ("bench", "nope")])
def test_a_name_that_does_not_exist_is_bad_usage(arguments: tuple[str, ...]) -> None:
    done = call(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: Invalid value for 'name'")


def test_a_figure_needs_a_folder(tmp_path: Path) -> None:
    """Said before minutes of measuring, not after."""
    file = tmp_path / "figures"
    file.touch()
    done = call("figure", "upa-13", "--out", str(file))
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {file}: File exists")


def test_declaring_the_commands_imports_nothing_heavy() -> None:
    """`penstock --help` imports every plug-in."""
    modules = sorted({plugin.module for plugin in entry_points(group="penstock.commands")})
    assert "penstock_lab.cli" in modules
    code = (
        "import sys, penstock_lab.cli; print({'numba', 'numpy', 'pyarrow', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
