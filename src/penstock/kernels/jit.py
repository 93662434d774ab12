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
from numba.np import arrayobj

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


def part(function: F) -> F:
    """A kernel's part that the compiler of machine code writes into its callers: for parts that many callers have."""
    return cast("F", _njit(cache=True, nogil=True, forceinline=True, _nrt=False)(function))


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


def _array_at(dtype: Any, dimensions: int) -> Any:
    """Makes a function: an address and a length (or two) → the array that lies there, whose owner holds it."""
    kind = types.Array(dtype, dimensions, "C")

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        made = context.make_array(kind)(context, builder)
        item = context.get_abi_sizeof(context.get_data_type(dtype))
        word = ir.IntType(64)
        shape = list(arguments[1:])
        steps = [word(item)]
        for length in reversed(shape[1:]):
            steps.insert(0, builder.mul(steps[0], length))
        arrayobj.populate_array(
            made,
            data=builder.inttoptr(arguments[0], made.data.type),
            shape=shape,
            strides=steps,
            itemsize=word(item),
            meminfo=None,
        )
        return made._getvalue()  # noqa: SLF001 - there is no other way to hand an array over

    def row(_: Any, address: Any, length: Any) -> Any:
        return kind(types.int64, types.int64), emit

    def table(_: Any, address: Any, length: Any, width: Any) -> Any:
        return kind(types.int64, types.int64, types.int64), emit

    return _intrinsic(row if dimensions == 1 else table)


int64s_at = _array_at(types.int64, 1)
int32s_at = _array_at(types.int32, 1)
bools_at = _array_at(types.boolean, 1)
words_at = _array_at(types.uint64, 1)
bitmaps_at = _array_at(types.uint64, 2)
"""Arrays at an address: a kernel takes a fixed number of arrays, and sometimes there are as many as there are."""


@_intrinsic
def lowest_bit(_: Any, word: Any) -> Any:
    """The number of the lowest bit that is set; of none, 64."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(0))

    return types.int64(types.uint64), emit


@_intrinsic
def bit_count(_: Any, word: Any) -> Any:
    """How many bits are set."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

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
