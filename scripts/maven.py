"""Jars from Maven Central, kept under ~/.cache/penstock ($PENSTOCK_CACHE) for the next time."""
# ruff: noqa: INP001 - of scripts

from __future__ import annotations

import fcntl
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

SCALA = "2.13"
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"

Coordinates = tuple[str, str, str]
"""Group, artifact, version."""


class Unavailable(Exception):  # noqa: N818 - a state of affairs
    """What is needed is not on this machine and cannot be fetched; says why."""


def pyspark() -> str:
    """The version that is installed."""
    try:
        return importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        raise Unavailable("PySpark is not installed") from None


def not_brought(jars: Iterable[Path]) -> list[Path]:
    """Those that PySpark does not bring itself, in whatever version."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None and found.origin is not None
    brought = {_artifact(jar) for jar in (Path(found.origin).parent / "jars").glob("*.jar")}
    return [jar for jar in jars if _artifact(jar) not in brought]


def _artifact(jar: Path) -> str:
    """A jar's name without its version."""
    return re.sub(r"-\d[\w.-]*\.jar$", "", jar.name)


def cache() -> Path:
    given = os.environ.get("PENSTOCK_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "penstock"


def fetched(name: str, choices: Sequence[Sequence[Coordinates]], without: Sequence[str] = ()) -> list[Path]:
    """The jars of the first choice that Maven Central has, with all they depend on; kept for the next time."""
    home = cache() / name
    home.parent.mkdir(parents=True, exist_ok=True)
    with (home.parent / f".{home.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.is_dir():
            maven = shutil.which("mvn")
            if maven is None:
                raise Unavailable("Maven (mvn) is not installed")
            reasons = []
            for choice in choices:
                with tempfile.TemporaryDirectory(dir=home.parent, prefix=".making-") as making:
                    reason = _copy(maven, Path(making), choice, without)
                    if reason is None:
                        (Path(making) / "jars").rename(home)
                        break
                    reasons.append(reason)
            else:
                raise Unavailable(f"Maven cannot fetch {name}: {' / '.join(dict.fromkeys(reasons))}")
    return sorted(home.glob("*.jar"))


def _copy(maven: str, folder: Path, wanted: Sequence[Coordinates], without: Sequence[str]) -> str | None:
    """Maven's reason why it cannot fetch them, or None."""
    excluded = "".join(
        f"<exclusion><groupId>{g}</groupId><artifactId>*</artifactId></exclusion>" for g in without
    )
    dependencies = "".join(
        f"<dependency><groupId>{g}</groupId><artifactId>{a}</artifactId><version>{v}</version>"
        f"<exclusions>{excluded}</exclusions></dependency>"
        for g, a, v in wanted
    )
    (folder / "pom.xml").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>penstock</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
    command = [maven, "-q", "-B", PLUGIN, "-DincludeScope=runtime", "-DoutputDirectory=jars"]
    try:
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        return "it takes more than five minutes"
    if ran.returncode == 0:
        return None
    told = [line for line in ran.stdout.splitlines() if line.startswith("[ERROR]")]
    return told[0].removeprefix("[ERROR] ")[:500] if told else f"exit status {ran.returncode}"
