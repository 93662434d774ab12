"""Rows of a join that have had nobody further on enter no index but one.

Paper      Yang & Papadias 2008: who has nobody further on is not worth a partial result; here nobody even meets it.
Invariant  a row that is not backed met no row of its leaf when it came, and none that came since has met it. It is in the index that the leaf's
           rows look into and in no other: whoever else would meet it has no result with it. The first row of the leaf that
           meets it puts it into the others, where it belongs by age. A row that is backed may have lost its partners, or nobody looked.
State      a byte a row and leaf.
Cost       of a leaf's row, to find the place of what it meets first; of all others, nothing for rows that are not backed.

A leaf is an input that has equalities with one other alone: all its rows look there first, so that none of their partners is missed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from penstock.kernels.join import chains
from penstock.state.stems import ROOM, TAIL, USED, Stems
from penstock.types.batch import Array, Ints


class Backing:
    """`joined`: pairs of inputs with equalities between them, both ways, and the index of the first that they are met by. Unless it `asks`, all rows
    enter all indexes, also those that were saved otherwise."""

    def __init__(self, stems: Stems, joined: Mapping[tuple[int, int], int], name: str, asks: bool) -> None:
        self.asks = asks
        self._stems, self._name = stems, name
        inputs = len(stems.edges)
        leaves = {c for c in range(inputs) if sum(i == c for i, _ in joined) == 1}
        pairs = sorted((a, c) for a, c in joined if c in leaves) if inputs > 2 else []
        self.pairs: Ints = np.array([(a, c, joined[a, c]) for a, c in pairs], np.int64).reshape(-1, 3)
        """Row's input, leaf, and the index that the leaf looks into."""
        self.first: Ints = np.searchsorted(self.pairs[:, 0], np.arange(inputs + 1))
        """Per input: its first pair."""
        self._room: Ints = stems.edges[:, ROOM].copy()
        self._slid: Ints = stems.slid.copy()
        self.at: Ints = np.full((inputs, inputs), -1)
        """Per input and leaf: where it says which rows are backed."""
        self.backed: Array = stems.arena.array(name, np.uint8, self._laid_out(), 1)
        self.latest: Ints = np.repeat(stems.edges[:, USED], inputs).reshape(inputs, inputs)
        """Per input and leaf: all rows after this one are backed."""
        if not asks:
            self.fit(joined)

    @property
    def arrays(self) -> tuple[Ints, Ints, Ints, Array, Ints]:
        """What walks need."""
        return self.first, self.pairs, self.at, self.backed, self.latest

    def _laid_out(self) -> int:
        room = self._room[self.pairs[:, 0]]
        self.at[self.pairs[:, 0], self.pairs[:, 1]] = np.cumsum(room) - room
        return int(room.sum())

    def follow(self) -> None:
        """Rows have moved. Where there is room for more, all of them have entered all indexes anew."""
        stems = self._stems
        room, moved = stems.edges[:, ROOM], stems.slid - self._slid
        if (room != self._room).any():
            self._room = room.copy()
            self.backed = stems.arena.array(self._name, np.uint8, self._laid_out(), 1)
        elif moved.any():
            for a, c in self.pairs[:, :2].tolist():
                part = self.backed[self.at[a, c] : self.at[a, c] + room[a]]
                part[: room[a] - moved[a]] = part[moved[a] :].copy()
            self.latest -= moved[:, None]
        self._slid = stems.slid.copy()

    def fit(self, kept: Collection[tuple[int, int]]) -> bool:
        """Let rows enter all indexes that horizons are raised by (`kept`: from whom, to whom); whether there were any.

        A row that is not backed may stay away if the leaf's next row finds it for all horizons that go on from there, and asks none itself.
        """
        stems, any_ = self._stems, False
        for a, c, index in self.pairs.tolist():
            tail, last = int(stems.edges[a, TAIL]), int(self.latest[a, c]) + 1
            safe = (a, c) not in kept and ((c, a) in kept or not any(j == a for j, _ in kept))
            if last > tail and not safe:
                chains.let_all_in(
                    a, index, int(self.at[a, c]), tail, min(last, int(stems.edges[a, USED])), self.backed, stems.edges, stems.indexes,
                    stems.first_index, stems.rows, stems.halves, stems.head,
                )  # fmt: skip
                self.latest[a, c] = -1
                any_ = True
        return any_

    def there(self, edge: int, index: int) -> int:
        """Live rows of an edge that are in one of its indexes."""
        tail, used = int(self._stems.edges[edge, TAIL]), int(self._stems.edges[edge, USED])
        missing = sum(
            used
            - tail
            - int(np.count_nonzero(self.backed[self.at[edge, c] + tail : self.at[edge, c] + used]))
            for c, only in self.pairs[self.first[edge] : self.first[edge + 1], 1:].tolist()
            if only != index
        )
        return used - tail - missing
