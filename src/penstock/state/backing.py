"""Which rows of a join have ever had a partner in an input that only they meet.

Paper      Yang & Papadias 2008: who has nobody further on need not be followed; here the row that is met says so itself.
Invariant  a row that is not backed has met no row of the leaf when it came, and no row of the leaf that came since has met it. So a walk
           that binds it need not look there. One that is may have lost its partners, or nobody looked.
State      a byte a row and leaf, beside what is saved: whoever takes rows up begins as if all were backed.
Cost       a byte read for every row met on the way to a leaf, instead of a bucket and what is in it.

A leaf is an input that has equalities with one other alone: all its rows look there first, so that none of their partners is missed.
"""

from __future__ import annotations

import numpy as np

from penstock.data.batch import Array, Ints
from penstock.kernels import chains
from penstock.state.stems import ROOM, Stems


class Backing:
    """`joined`: pairs of inputs with equalities between them, both ways, and the index of the first that they are met by."""

    def __init__(self, stems: Stems, joined: dict[tuple[int, int], int]) -> None:
        self._stems = stems
        inputs = len(stems.edges)
        leaves = {c for c in range(inputs) if sum(i == c for i, _ in joined) == 1}
        pairs = sorted((a, c) for a, c in joined if c in leaves) if inputs > 2 else []
        self.pairs: Ints = np.array([(a, c, joined[a, c], joined[c, a]) for a, c in pairs], np.int64).reshape(
            -1, 4
        )
        """Row's input, leaf, and the index of each that the other meets it by."""
        self.first: Ints = np.searchsorted(self.pairs[:, 0], np.arange(inputs + 1))
        """Per input: its first pair."""
        self.at: Ints = np.full((inputs, inputs), -1)
        """Per input and leaf: where it says which rows are backed."""
        self.backed: Array = np.empty(0, np.uint8)
        self._room: Ints = np.zeros(len(pairs), np.int64)
        self._slid: Ints = stems.slid.copy()

    def follow(self) -> None:
        """Rows have moved, or there is room for more."""
        owner = self.pairs[:, 0]
        room = self._stems.edges[owner, ROOM]
        moved = self._stems.slid - self._slid
        if not moved.any() and (room == self._room).all():
            return
        parts = []
        for (a, c), size, before in zip(self.pairs[:, :2].tolist(), room, self._room, strict=True):
            backed = np.ones(size, np.uint8)
            begin = self.at[a, c]
            held = self.backed[begin + moved[a] : begin + before][:size]
            backed[: len(held)] = held
            parts.append(backed)
        self.at[owner, self.pairs[:, 1]] = np.cumsum(room) - room
        self.backed, self._room, self._slid = np.concatenate(parts), room, self._stems.slid.copy()

    def doubt(self, side: Array, slot: Array) -> None:
        """These have entered by a walk that does not tell."""
        stems = self._stems
        chains.doubt(
            side, slot, self.pairs, self.at, self.backed, stems.edges, stems.indexes, stems.rows, stems.halves, stems.head
        )  # fmt: skip

    @property
    def nbytes(self) -> int:
        return int(self.backed.nbytes)
