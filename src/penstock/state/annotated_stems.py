"""SteMs whose rows carry notes: numbers that a walk reads of a partner, such as which queries want it.

State      the links of a row are half as long as its keys, so that each leaves half a word: notes lie there, and behind the
           last key only if there are more of them than keys. A row with one key and one note is no longer than one
           without a note, and what a walk reads of it still lies together. Short notes lie there by twos.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.state.arena import Arena
from penstock.state.stems import Stems
from penstock.types.batch import Array
from penstock.types.data_type import Type

SHORT = 1 << 16
"""Notes below this are short."""
Place = tuple[int, int, int]
"""Of a note: among which halves of a row; how far to shift what stands there, and what to keep of it."""


class NotedStems(Stems):
    """`notes[i]` are the notes that a row of edge i has, all of them short or not; all else as in `Stems`."""

    def __init__(
        self,
        arena: Arena,
        name: str,
        types: Sequence[Sequence[Type]],
        keys: Sequence[int],
        notes: Sequence[int],
        *,
        short: bool = False,
    ) -> None:
        self.short = short
        halves = [-(-n // 2) if short else n for n in notes]
        more = [-(-max(n - k, 0) // 2) for n, k in zip(halves, keys, strict=True)]
        super().__init__(arena, name, types, keys, more)

    def place(self, edge: int, note: int) -> Place:
        """Where a note stands."""
        at, second = divmod(note, 2) if self.short else (note, 0)
        keys = self._keys[edge]
        half = 4 * at + 5 if at < keys else 4 * keys + 2 + at - keys
        return half, 16 * second, SHORT - 1 if self.short else 2**31 - 1

    def note(self, edge: int, note: int) -> Array:
        """A note of all rows of an edge: a view."""
        half, shift, _ = self.place(edge, note)
        if self.short:
            return self._parts(edge, np.uint16)[:, 2 * half + (shift > 0)]
        return self._parts(edge, np.int32)[:, half]

    @staticmethod
    def _layout(keys: int) -> tuple[int, list[int], list[int]]:
        return 1 + 2 * keys, [1 + 2 * k for k in range(keys)], [4 + 4 * k for k in range(keys)]
