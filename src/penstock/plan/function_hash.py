"""A hash of a Python function that is the same in every process and differs when the function does.

What counts: the code (nested functions and comprehensions included), its constants, the values it closes over, its
defaults, and the global functions and values it reads. What does not: its name, file, line numbers, docstring and
annotations, the addresses of objects, and the order of sets.

Invariant  equal hashes over unequal behaviour need an object that cannot be taken apart (a connection, a compiled
           extension): of those only the type counts. Byte code differs between minor versions of Python.
"""

from __future__ import annotations

import contextlib
import copyreg
import dis
import functools
import hashlib
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
MAX_DEPTH = 60
"""Levels of values within values that are told apart; deeper ones count by their type only."""

_DOCUMENTED = 0x4000000
"""Python 3.13 marks code that has a docstring."""
_HANDLES = {"pyspark", "py4j", "penstock"}
"""Packages whose objects stand for something outside of this process."""
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented))


def function_hash(function: Callable[..., object]) -> str:
    """Sixteen hexadecimal digits.

    >>> def power(n):
    ...     return lambda x: x ** n
    >>> function_hash(power(2)) == function_hash(power(2)), function_hash(power(2)) == function_hash(power(3))
    (True, False)
    """
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    package = str(getattr(inner, "__module__", "")).partition(".")[0]
    return _Hashing(package).of(function).hex()[:16]


class _Hashing:
    """One pass over a function, the objects it reaches, and those that they reach."""

    def __init__(self, package: str) -> None:
        self._package = package
        """Of the function: code there is the user's, wherever it is installed."""
        self._open: dict[int, int] = {}
        """The objects being hashed and their depth, so that recursion ends."""
        self._known: dict[int, tuple[object, bytes]] = {}
        """Objects hashed before; held, so that no other gets their identity."""
        self._lowest = 0
        """The least depth that a recursion led back to."""

    def of(self, value: object) -> bytes:
        if type(value) in _PLAIN:
            return _digest(type(value).__name__, [repr(value).encode()])
        own = id(value)
        if own in self._known:
            return self._known[own][1]
        if own in self._open:
            self._lowest = min(self._lowest, self._open[own])
            return _digest("recursion", [str(len(self._open) - self._open[own]).encode()])
        depth = len(self._open)
        if depth >= MAX_DEPTH:
            return _named(type(value))
        before, self._lowest = self._lowest, depth
        self._open[own] = depth
        try:
            made = self._parts(value)
        finally:
            del self._open[own]
        if self._lowest >= depth:  # it means the same wherever it is reached from
            self._known[own] = (value, made)
        self._lowest = min(before, self._lowest)
        return made

    def _parts(self, value: object) -> bytes:
        match value:
            case types.FunctionType():
                is_root = len(self._open) == 1
                return self._function(value) if is_root or self._is_own(value) else _named(value)
            case types.CodeType():
                return self._code(value)
            case types.MethodType():
                return _digest("method", [self.of(value.__func__), self.of(value.__self__)])
            case types.ModuleType():
                return _digest("module", [value.__name__.encode()])
            case types.BuiltinFunctionType() if not isinstance(value.__self__, types.ModuleType | None):
                return _digest("bound", [value.__name__.encode(), self.of(value.__self__)])
            case types.BuiltinFunctionType() | types.MethodDescriptorType() | types.WrapperDescriptorType():
                return _named(value)
            case type():
                return self._class(value)
            case functools.partial():
                parts = (value.func, value.args, value.keywords)
                return _digest("partial", map(self.of, parts))
            case set() | frozenset():
                return _digest(type(value).__name__, sorted(map(self.of, value)))
            case tuple() | list() if type(value) in (tuple, list):
                return _digest(type(value).__name__, map(self.of, value))
            case dict() if type(value) is dict:
                return _digest("dict", sorted(self.of(k) + self.of(v) for k, v in value.items()))
        return self._object(value)

    def _function(self, function: types.FunctionType) -> bytes:
        code = function.__code__
        documented = code.co_consts[:1] == (function.__doc__,) and function.__doc__ is not None
        parts = [self._code(code, documented=documented), self.of(function.__defaults__)]
        parts += [self.of(function.__kwdefaults__)]
        parts += [self.of(held) for held in _cell_contents(function)]
        for name in sorted(_global_names(code)):
            if name in function.__globals__:
                parts += [name.encode(), self.of(function.__globals__[name])]
        return _digest("function", parts)

    def _code(self, code: types.CodeType, *, documented: bool = False) -> bytes:
        constants = (None, *code.co_consts[1:]) if documented else code.co_consts
        shape = (
            code.co_argcount,
            code.co_posonlyargcount,
            code.co_kwonlyargcount,
            code.co_flags & ~_DOCUMENTED,
        )
        parts = [code.co_code, repr(shape).encode(), getattr(code, "co_exceptiontable", b"")]
        parts += [repr((code.co_names, code.co_freevars, code.co_cellvars)).encode()]
        return _digest("code", parts + [self.of(constant) for constant in constants])

    def _class(self, kind: type) -> bytes:
        """A class of an installed package counts by its name, one of the user's program by what it defines."""
        if not self._is_own(kind):
            return _named(kind)
        held = {name: value for name, value in vars(kind).items() if name not in _CLASS_NOISE}
        parts = [name.encode() + self.of(_bare(held[name])) for name in sorted(held)]
        return _digest("class", [*map(self.of, kind.__bases__), *parts])

    def _object(self, value: Any) -> bytes:
        """Any other object, by how it would be pickled; by its type alone if it cannot be."""
        kind = type(value)
        for wrapped in ("py_func", "__wrapped__"):  # compiled by Numba; cached
            if isinstance(getattr(value, wrapped, None), types.FunctionType):
                return _digest("wrapped", [_named(kind), self.of(getattr(value, wrapped))])
        dtype = getattr(value, "dtype", None)
        if hasattr(value, "__array_interface__") and not getattr(dtype, "hasobject", True):
            shape = f"{dtype} {value.shape}".encode()
            return _digest("array", [shape, value.tobytes()])
        reduced: Any = None
        if kind.__module__.partition(".")[0] not in _HANDLES:
            with contextlib.suppress(Exception):  # the object's own code may raise anything
                special = copyreg.dispatch_table.get(kind)
                reduced = value.__reduce_ex__(4) if special is None else special(value)
        if reduced is None:
            return _digest("object", [self.of(kind)])
        if isinstance(reduced, str):
            return _digest("global", [_named(kind), reduced.encode()])
        parts = [list(part) if isinstance(part, Iterator) else part for part in reduced]
        return _digest("object", map(self.of, [kind, *parts]))

    def _is_own(self, value: Any) -> bool:
        """Whether something is of the user's program, not of an installed package or Python's own library."""
        module = str(getattr(value, "__module__", ""))
        package = module.partition(".")[0]
        if package in (self._package, "__main__"):
            return True
        if package in sys.stdlib_module_names:
            return False
        found = getattr(sys.modules.get(module), "__file__", None)
        return found is None or not {"site-packages", "dist-packages"} & set(Path(found).parts)


_CLASS_NOISE = {
    "__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__annotations__", "__firstlineno__",
    "__static_attributes__", "__abstractmethods__", "_abc_impl",
}  # fmt: skip


def _bare(value: object) -> object:
    """What a class attribute wraps."""
    match value:
        case staticmethod() | classmethod():
            return value.__func__
        case property():
            return (value.fget, value.fset, value.fdel)
        case types.MemberDescriptorType() | types.GetSetDescriptorType():
            return value.__name__
    return value


def _named(value: Any) -> bytes:
    """By module and name."""
    return _digest("name", [f"{getattr(value, '__module__', None)}.{value.__qualname__}".encode()])


def _cell_contents(function: types.FunctionType) -> list[object]:
    found: list[object] = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # nothing has been put into it yet
            found.append(NotImplemented)
    return found


def _global_names(code: types.CodeType) -> set[str]:
    """Names that the code looks up in its module."""
    loads = ("LOAD_GLOBAL", "LOAD_NAME")
    found = {str(i.argval) for i in dis.get_instructions(code) if i.opname in loads}
    return found.union(*(_global_names(c) for c in code.co_consts if isinstance(c, types.CodeType)))


def _digest(kind: str, parts: Iterable[bytes]) -> bytes:
    made = hashlib.sha256(kind.encode())
    for part in parts:
        made.update(len(part).to_bytes(8, "little") + part)
    return made.digest()
