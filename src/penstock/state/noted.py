"""SteMs whose rows carry notes: numbers that a walk reads of a partner, such as which queries want it.

State      the links of a row are half as long as its keys, so that each leaves half a word: notes lie there, and behind the
           last key only if there are more of them than keys. A row with one key and one note is no longer than one
           without a note, and what a walk reads of it still lies together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.data.batch import Array
from penstock.data.types import Type
from penstock.kernels import meeting
from penstock.state.arena import Arena
from penstock.state.stems import BASE, ROOM, WIDTH, Stems


class NotedStems(Stems):
    """`notes[i]` are the notes that a row of edge i has; all else as in `Stems`."""

    def __init__(
        self,
        arena: Arena,
        name: str,
        types: Sequence[Sequence[Type]],
        keys: Sequence[int],
        notes: Sequence[int],
    ) -> None:
        more = [-(-max(n - k, 0) // 2) for n, k in zip(notes, keys, strict=True)]
        super().__init__(arena, name, types, keys, more)

    @property
    def halves(self) -> NDArray[np.int32]:
        """All words of all rows as two halves each: a view."""
        return self.rows.view(np.int32)

    def note_field(self, edge: int, note: int) -> int:
        """Where a note stands among the halves of a row."""
        keys = self._keys[edge]
        return 4 * note + 5 if note < keys else 4 * keys + 2 + note - keys

    def note(self, edge: int, note: int) -> NDArray[np.int32]:
        """A note of all rows of an edge: a view."""
        return self._halves(edge)[:, self.note_field(edge, note)]

    def link(self, edge: int, first: int, last: int) -> None:
        for k in self._of(edge):
            meeting.link(self.rows, self.halves, self.head, self.edges[edge], self.indexes[k], first, last)

    def _links(self, edge: int) -> Array:
        return self._halves(edge)[:, 4 : 4 + 4 * self._keys[edge] : 4]

    def _halves(self, edge: int) -> NDArray[np.int32]:
        base, room, width = (int(self.edges[edge, f]) for f in (BASE, ROOM, WIDTH))
        return self.halves[2 * base : 2 * (base + room * width)].reshape(room, 2 * width)
