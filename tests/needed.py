"""What some tests need of the machine. Without it they are skipped; where `CI` is set they fail instead."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import NoReturn

import pytest

from penstock.spark.java import OLDEST, Java, find_java, how_to_install


def missing(reason: str) -> NoReturn:
    """Leave the test that runs: it lacks something."""
    if os.environ.get("CI"):
        pytest.fail(f"{reason} (CI is set, so nothing may be skipped for want of it)")
    pytest.skip(reason)


@functools.cache
def found_java() -> Java | None:
    """The runtime that Spark is to use, with the variables set by which it finds it."""
    found = find_java()
    if found is not None:
        os.environ.update(found.environment)
    return found


def java() -> None:
    """Spark needs it."""
    if found_java() is None:
        missing(f"Spark needs Java {OLDEST} or newer; {how_to_install()}")


def mounts() -> None:
    """A file system of the test's own is mounted."""
    if not Path("/dev/fuse").exists():
        missing("power cuts are simulated over FUSE, and there is no /dev/fuse")
    if os.getuid() != 0:
        missing("power cuts are simulated on a file system that only root may mount")
