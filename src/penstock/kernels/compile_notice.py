"""Tell a user who waits for the compiler what for, and how long it took, on standard error.

A kernel is compiled when a machine first uses it with arrays of some types. Two lines are written: when
compiling begins, and when it has rested for a second or the process ends.
"""

from __future__ import annotations

import atexit
import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from numba.core import event

REST = 1.0
"""Seconds without the compiler after which it is taken to be done."""


class Notice(event.Listener):
    """Counts compilations from outermost to outermost: a kernel's parts are compiled with it."""

    def __init__(self) -> None:
        self.silent = False
        self.no_place: str | None = None
        """Why there is nowhere to keep kernels; said with the first compilation."""
        self._cannot_keep = False
        self.kernels = 0
        self.seconds = 0.0
        self._parts: set[str] = set()
        self._depth = 0
        self._began = 0.0
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._unsaid = (0, 0.0)
        """Kernels and seconds at the last line written."""

    def on_start(self, event: Any) -> None:
        with self._lock:
            self._stop_timer()
            self._depth += 1
            if self._depth > 1:
                return
            self._began = time.perf_counter()
            if not self._parts:
                once = "" if self.no_place else ", once on this machine; `penstock warm` compiles them all"
                self._say(f"compiling kernels for this kind of query, some seconds{once}")
            if self.no_place is not None:
                self._say_unkept(self.no_place)
            module = event.data["dispatcher"].py_func.__module__
            self._parts.add(module.rpartition(".")[2])

    def on_end(self, event: Any) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth:
                return
            self.kernels += 1
            self.seconds += time.perf_counter() - self._began
            self._timer = threading.Timer(REST, self.finish)
            self._timer.daemon = True
            self._timer.start()

    def finish(self) -> None:
        """Say what was compiled since the last time."""
        with self._lock:
            self._stop_timer()
            kernels, seconds = self.kernels - self._unsaid[0], self.seconds - self._unsaid[1]
            self._unsaid = (self.kernels, self.seconds)
            if kernels and not self._depth:
                count = "1 kernel" if kernels == 1 else f"{kernels} kernels"
                self._say(f"compiled {count} in {seconds:.1f} s ({', '.join(sorted(self._parts))})")
                self._parts.clear()

    def cannot_keep(self, why: str) -> None:
        """Compiled kernels cannot be read or written; called while one is compiled."""
        with self._lock:
            self._say_unkept(why)

    def _say_unkept(self, why: str) -> None:
        if not self._cannot_keep:
            self._cannot_keep = True
            self._say(
                f"compiled kernels cannot be kept ({why}), so every process compiles them again;"
                " set NUMBA_CACHE_DIR to a directory that only you can write"
            )

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _say(self, what: str) -> None:
        if not self.silent:
            sys.stderr.write(f"penstock: {what}\n")
            sys.stderr.flush()


notice = Notice()
event.register("numba:compile", notice)
atexit.register(notice.finish)


@contextlib.contextmanager
def silenced() -> Iterator[Notice]:
    """Nothing is written meanwhile; the counts go on."""
    notice.finish()
    notice.silent = True
    try:
        yield notice
        notice.finish()
    finally:
        notice.silent = False
