"""Commands of other packages: found by entry point, imported when wanted, and never in each other's way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

GREET = """
import sys
from typing import Annotated
import typer

def greet(name: Annotated[str, typer.Argument(help="Whom.")], loud: bool = False) -> None:
    '''Greet somebody.'''
    typer.echo(name.upper() if loud else name)
    raise typer.Exit(3)
"""

NO_MODULE = (
    "command 'broken' of greeter cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'"
)
NO_FUNCTION = (
    "command 'unfinished' of greeter cannot be loaded: "
    "AttributeError: module 'greeter' has no attribute 'nothing'"
)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A directory with an installed package `greeter` that declares a good command and broken ones."""
    (tmp_path / "greeter.py").write_text(GREET)
    (tmp_path / "broken_greeter.py").write_text("import no_such_module")
    package = tmp_path / "greeter-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: greeter\nVersion: 1\n")
    (package / "entry_points.txt").write_text(
        "[penstock.commands]\n"
        "greet = greeter:greet\n"
        "broken = broken_greeter:greet\n"
        "unfinished = greeter:nothing\n"
        "warm = greeter:greet\n"
    )
    return tmp_path


def call(site: Path, *arguments: str, first: str = "") -> subprocess.CompletedProcess[str]:
    """The command line where `site` holds installed packages too."""
    code = f"import sys; sys.path.append({str(site)!r}); {first}\nfrom penstock.cli.main import main; main()"
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def listed(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line.split()[0] for line in done.stdout.split("Commands:")[1].splitlines() if line.strip()]


def test_a_plugin_is_a_command_like_any_other(site: Path) -> None:
    done = call(site, "greet", "ann", "--loud")
    assert (done.returncode, done.stdout, done.stderr) == (3, "ANN\n", "")
    done = call(site, "greet")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: Missing argument 'name'.\nUsage: ")
    assert "Greet somebody." in call(site, "greet", "--help").stdout


def test_help_lists_plugins_and_reports_those_that_do_not_load(site: Path) -> None:
    done = call(site, "--help")
    assert done.returncode == 0
    assert "greet" in listed(done) and not {"broken", "unfinished"} & set(listed(done))
    assert listed(done).count("warm") == 1
    assert done.stderr.splitlines() == [
        f"warning: {NO_MODULE}",
        f"warning: {NO_FUNCTION}",
        "warning: command 'warm' of greeter is ignored: it is built in",
    ]


def test_a_broken_plugin_says_so_when_it_is_called(site: Path) -> None:
    done = call(site, "broken")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: {NO_MODULE}\n"


def test_built_in_commands_look_for_no_plugins(site: Path) -> None:
    unread = "import importlib.metadata as m; m.entry_points = None"
    done = call(site, "dry-run", "--help", first=unread)
    assert (done.returncode, done.stderr) == (0, "")
    assert "dry-run" in done.stdout


def test_commands_of_a_package_that_is_not_installed_say_what_to_install(site: Path) -> None:
    """Where no package declares them; the tests' own environment may have it."""
    bare = "import importlib.metadata as m; m.entry_points = lambda **_: ()"
    for command in ("bench", "figure"):
        for arguments in ((), ("window-join",), ("--help",)):
            done = call(site, command, *arguments, first=bare)
            assert (done.returncode, done.stdout) == (2, "")
            assert done.stderr == (
                f"error: `penstock {command}` needs penstock-lab, which is not installed; "
                "in a clone of Penstock: pip install ./lab\n"
            )
    done = call(site, "--help", first=bare)
    assert (done.returncode, done.stderr) == (0, "")
    assert not {"bench", "figure"} & set(listed(done))
    assert call(site, "nope", first=bare).stderr.startswith("error: No such command 'nope'.")
