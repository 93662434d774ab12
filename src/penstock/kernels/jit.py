"""How kernels are compiled: once per machine, cached on disk, and never silently.

The first-ever use of a kernel compiles it (seconds); later processes load it from the cache
(milliseconds). A user who waits is told what for, once, on standard error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core import event

F = TypeVar("F", bound=Callable[..., Any])

_njit: Any = numba.njit
"""Its declared types leave out `_nrt`."""


def kernel(function: F) -> F:
    """Compile lazily, cache on disk, release the GIL.

    A kernel works on arrays its caller holds, so it counts no references (`_nrt`): where loops call parts of themselves,
    counting costs more than the work (58 ns against 4 to drain a slot of a calendar).
    """
    return cast("F", _njit(cache=True, nogil=True, _nrt=False)(function))


def maker(function: F) -> F:
    """A kernel that makes the arrays it returns."""
    return cast("F", _njit(cache=True, nogil=True)(function))


def inline(function: F) -> F:
    """A kernel's part that is written into its callers."""
    return cast("F", _njit(cache=True, nogil=True, inline="always", _nrt=False)(function))


@inline
def ix(index):
    """An index that is not negative: spares the look whether it counts from the end (a fifth of a join's walk)."""
    return np.uint64(index)


class _Notice(event.Listener):
    """Says once that compiling has begun."""

    def __init__(self) -> None:
        self.said = False

    def on_start(self, event: Any) -> None:
        if not self.said:
            self.said = True
            sys.stderr.write(
                "penstock: compiling kernels for this machine (first use only, some seconds) ...\n"
            )
            sys.stderr.flush()

    def on_end(self, event: Any) -> None:
        """Nothing to say: the answer follows."""


event.register("numba:compile", _Notice())
