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
from llvmlite import ir
from numba.core import event, types
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])

_njit: Any = numba.njit
_intrinsic: Any = intrinsic
"""Their declared types leave out `_nrt`, and what is called with one argument less."""


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


@_intrinsic
def prefetch(_: Any, array: Any, index: Any) -> Any:
    """Ask for the cache line of an entry that is wanted soon; nothing waits for it."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        ask = builder.module.declare_intrinsic(
            "llvm.prefetch", [byte], ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        )
        place = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        builder.call(ask, [place, flag(0), flag(3), flag(1)])  # to read, for every level, data
        return context.get_dummy_value()

    return types.void(array, index), emit


@_intrinsic
def lowest_bit(_: Any, word: Any) -> Any:
    """The number of the lowest bit that is set; of none, 64."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(0))

    return types.int64(types.uint64), emit


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
