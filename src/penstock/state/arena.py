"""An arena: every array an operator remembers, by name.

State is nothing but named flat arrays, so it can be measured, laid into a memory-mapped file, written out
and taken up again without knowing what it means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from penstock.errors import StateError
from penstock.state.renumbering import Renumbering
from penstock.types import sizes
from penstock.types.batch import Array, Batch, Column
from penstock.types.data_type import Type
from penstock.types.memory import room


class Arena:
    """Named arrays. `array` makes (or replaces) one, `grow` keeps what it held, `keep` takes one made elsewhere.

    An arena over `saved` arrays is for taking up what was: until `complete`, `array` gives what was saved under the
    name, and whoever makes an array reads its size from what it is given. `partly`: what was not saved is made.
    """

    def __init__(self, saved: Mapping[str, Array] | None = None, *, partly: bool = False) -> None:
        self.arrays: dict[str, Array] = {}
        self.visits = 0
        """Rows that state was touched for in this process: put in, looked at, met, taken out."""
        self.beside: dict[str, int] = {}
        """Bytes of what can be made again and is not saved, by who holds it."""
        self.roomy = False
        """Some array was made so long that it may be worth while to look whether it can be shorter."""
        self._strings: set[str] = set()
        self._saved = None if saved is None else dict(saved)
        self._partly = partly

    def array(self, name: str, dtype: Any, shape: int | tuple[int, ...], fill: Any = None) -> Array:
        """An array that holds `fill` (a value, or an array of them), or anything; or what was saved, at least as long."""
        if self._saved is not None and not (self._partly and name not in self._saved):
            made = self.taken(name, dtype, shape)
        else:
            made = room(shape, dtype)
            if fill is not None:
                made[...] = fill
        self.roomy |= len(made) > sizes.current.sparse_rows
        self.arrays[name] = made
        return made

    def keep(self, name: str, array: Array | None) -> None:
        """This array in place of the one before; None: there is none any more."""
        if array is None:
            self.arrays.pop(name, None)
        else:
            self.arrays[name] = array

    def drop(self, prefix: str) -> None:
        """Nobody needs the arrays whose names begin so any more."""
        for name in [n for n in self.arrays if n.startswith(prefix)]:
            del self.arrays[name]
            self._strings.discard(name)

    def grow(self, name: str, size: int, fill: Any = None) -> Array:
        """The array with `size` entries along its first axis; new ones hold `fill`."""
        old = self.arrays[name]
        made = room((size, *old.shape[1:]), old.dtype)
        made[: len(old)] = old
        if fill is not None:
            made[len(old) :] = fill
        self.roomy |= size > sizes.current.sparse_rows
        self.arrays[name] = made
        return made

    def pick(self, name: str, ids: Array, size: int, fill: Any = None) -> Array:
        """The array with `size` entries, first those at these ids; all others hold `fill`."""
        old = self.arrays[name]
        made = room((size, *old.shape[1:]), old.dtype)
        made[: len(ids)] = old[ids]
        if fill is not None:
            made[len(ids) :] = fill
        self.arrays[name] = made
        return made

    def look_again(self) -> None:
        """Say anew whether it is roomy."""
        self.roomy = any(len(a) > sizes.current.sparse_rows for a in self.arrays.values() if a.ndim)

    def strings(self, name: str) -> None:
        """The array called `name` holds string codes."""
        self._strings.add(name)

    def mark_strings(self, mark: Callable[[Array], None]) -> None:
        """Show every string code that some array holds; entries never written may show anything."""
        for name in self._strings:
            if name in self.arrays:
                mark(self.arrays[name])

    @property
    def size_bytes(self) -> int:
        return sum(a.nbytes for a in self.arrays.values()) + sum(self.beside.values())

    # ------------------------------------------------------------------ rows

    def keep_columns(self, name: str, columns: Sequence[Column]) -> None:
        for i, column in enumerate(columns):
            self.keep(f"{name}.{i}", column.values)
            self.keep(f"{name}.{i}?", column.valid)

    def keep_rows(self, name: str, rows: Batch) -> None:
        """Rows without signs; if there are none, nothing."""
        some = len(rows) > 0
        self.keep(f"{name}.ts", rows.ts if some else None)
        self.keep(f"{name}.exp", rows.exp if some else None)
        for i, column in enumerate(rows.columns):
            self.keep(f"{name}.{i}", column.values if some else None)
            self.keep(f"{name}.{i}?", column.valid if some else None)

    # ------------------------------------------------------------------ what was saved

    def found(self, name: str, dtype: Any, shape: int | tuple[int, ...] = 0) -> Array | None:
        """What was saved under a name that may hold nothing."""
        if self._saved is None or name not in self._saved:
            return None
        return self.taken(name, dtype, shape)

    def columns(self, name: str, types: Sequence[Type]) -> tuple[Column, ...] | None:
        """Columns that were kept, if any were."""
        if self._saved is None or f"{name}.0" not in self._saved:
            return None
        made = []
        for i, type_ in enumerate(types):
            values = self.taken(f"{name}.{i}", type_.dtype)
            valid = self.found(f"{name}.{i}?", np.bool_)
            made.append(Column(values, valid))
            if {len(values), len(values if valid is None else valid)} != {len(made[0])}:
                raise StateError(f"columns {name} differ in length")
        return tuple(made)

    def rows(self, name: str, types: Sequence[Type]) -> Batch | None:
        """Rows that were kept, if any were."""
        ts = self.found(f"{name}.ts", np.int64)
        if ts is None:
            return None
        exp = self.taken(f"{name}.exp", np.int64)
        columns = self.columns(name, types) or ()
        if len(columns) != len(types) or any(len(part) != len(ts) for part in (Column(exp), *columns)):
            raise StateError(f"rows {name} are not whole")
        return Batch(ts, exp, columns)

    def taken(self, name: str, dtype: Any, shape: int | tuple[int, ...] = 0) -> Array:
        """What was saved under a name: of this type, at least as long, for nobody else any more."""
        found = None if self._saved is None else self._saved.pop(name, None)
        if found is None:
            raise StateError(f"there is no array {name}")
        least, *rest = (shape,) if isinstance(shape, int) else shape
        if found.dtype != dtype or not found.ndim or list(found.shape[1:]) != rest or len(found) < least:
            wanted = f"{np.dtype(dtype)}{[least, *rest]} or more"
            raise StateError(f"array {name} is {found.dtype}{list(found.shape)}, not {wanted}")
        return found

    def complete(self) -> None:
        """Everything saved was taken up: from now on arrays are made."""
        if self._saved:
            raise StateError(f"nobody takes up the arrays {', '.join(sorted(self._saved))}")
        self._saved = None


class Slab:
    """Arrays indexed by the same ids (slots or groups), grown together.

    A field is (dtype, value of new entries); an array of values makes a row per id.
    """

    def __init__(self, arena: Arena, name: str, **fields: tuple[Any, Any]) -> None:
        self._arena = arena
        self._name = name
        self._fields = fields
        self._arrays = {
            f: arena.array(f"{name}.{f}", dtype, (0, *np.shape(fill))) for f, (dtype, fill) in fields.items()
        }
        self.capacity = min(map(len, self._arrays.values()))

    def fit(self, capacity: int) -> None:
        """Room for ids below `capacity`."""
        if capacity <= self.capacity:
            return
        for field, (_, fill) in self._fields.items():
            self._arrays[field] = self._arena.grow(f"{self._name}.{field}", capacity, fill)
        self.capacity = capacity

    def lay(self, ids: Array, capacity: int) -> None:
        """Hold what was held under these ids, in their order, under 0, 1, 2, …"""
        for field, (_, fill) in self._fields.items():
            self._arrays[field] = self._arena.pick(f"{self._name}.{field}", ids, capacity, fill)
        self.capacity = capacity

    def renumber(self, made: Renumbering) -> None:
        """Hold what was held under the ids before under the new ones."""
        if self.capacity:
            self.lay(made.kept[made.kept < self.capacity], made.capacity)

    def refer(self, made: Renumbering, *fields: str) -> None:
        """Let fields that hold ids hold the new ones."""
        for field in fields:
            self._arrays[field][:] = made.of(self._arrays[field])

    def __getitem__(self, field: str) -> Array:
        return self._arrays[field]


def power_of_two(at_least: int) -> int:
    """The smallest power of two that is not below."""
    return 1 << max(at_least - 1, 1).bit_length()
