"""How kernels are compiled: once per machine, cached on disk, and never silently.

The first-ever use of a kernel compiles it (seconds); later processes load it from the cache
(milliseconds). `notice` tells a user who waits.

Where no directory for the cache can be written, or the disk is full, every process compiles for itself: that costs time,
never an answer.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba.core import caching, types
from numba.extending import intrinsic
from numba.np import arrayobj

from penstock.kernels.compile_notice import notice

F = TypeVar("F", bound=Callable[..., Any])

_njit: Any = numba.njit
_intrinsic: Any = intrinsic
"""Their declared types leave out `_nrt`, and what is called with one argument less."""


class _Places(caching.CompileResultCacheImpl):
    """Where a kernel may be kept."""

    _locator_classes = [  # noqa: RUF012 - Numba's own is a list
        place
        for place in caching.CompileResultCacheImpl._locator_classes  # noqa: SLF001 - the only place to read them
        # Without a home directory Numba would keep code in a directory named "~" where the process happens to run.
        if place is not caching.UserWideCacheLocator
        or os.environ.get("XDG_CACHE_HOME")
        or os.path.isabs(os.path.expanduser("~"))  # noqa: PTH111, PTH117 - Path raises where there is none
    ]


class _Cache(caching.FunctionCache):
    """Numba's cache on disk; one that cannot be read or written is as good as none."""

    _impl_class = _Places

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except EOFError:  # cut off by a crash: begin anew
            with contextlib.suppress(OSError):
                self.flush()
        except OSError as error:
            notice.cannot_keep(f"{self.cache_path}: {error.strerror or error}")
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            notice.cannot_keep(f"{self.cache_path}: {error.strerror or error}")


def _compiled(function: F, **options: Any) -> F:
    """Compiled lazily, kept on disk where that is possible."""
    made: Any = _njit(nogil=True, **options)(function)
    if made is not function:  # as it is with NUMBA_DISABLE_JIT
        try:
            made._cache = _Cache(function)  # noqa: SLF001 - as `enable_caching` does
        except RuntimeError:
            notice.no_place = "no writable directory: neither the package's nor one in the home directory"
    return cast("F", made)


def kernel(function: F) -> F:
    """Compile lazily, cache on disk, release the GIL.

    A kernel works on arrays its caller holds, so it counts no references (`_nrt`): where loops call parts of themselves,
    counting costs more than the work (58 ns against 4 to drain a slot of a calendar).
    """
    return _compiled(function, _nrt=False)


def maker(function: F) -> F:
    """A kernel that makes the arrays it returns."""
    return _compiled(function)


def inline(function: F) -> F:
    """A kernel's part that is written into its callers."""
    return _compiled(function, inline="always", _nrt=False)


def part(function: F) -> F:
    """A kernel's part that the compiler of machine code writes into its callers: for parts that many callers have."""
    return _compiled(function, forceinline=True, _nrt=False)


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
