"""How long planning may take: an error instead of a session that is busy for good.

In processor time, so that what other programs do has no part in it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import PlanError
from penstock.types import limits

_running = threading.local()


@contextmanager
def planning() -> Iterator[None]:
    """Planning, or a part of it: the outermost counts the time."""
    if getattr(_running, "until", None) is not None:
        yield
        return
    _running.until = time.thread_time() + limits.PLAN_SECONDS
    try:
        yield
    finally:
        _running.until = None


def check() -> None:
    """Raises if planning takes too long; outside of it nothing happens."""
    until = getattr(_running, "until", None)
    if until is not None and time.thread_time() > until:
        raise PlanError(
            f"planning takes more than {limits.PLAN_SECONDS:g} s of processor time",
            hint="ask for less at once, or in several queries",
        )
