"""The SteMs of a join: live rows of several FIFO edges, each indexed by its keys (Madden et al. 2002, §2.3).

Rows of an edge lie in arrival order, so expiry moves one pointer; chains are newest first, so a walk stops
at the first expired row; nothing is ever deleted. When an edge's part is full, its live rows slide to its
front. All edges share the same flat arrays, each at an offset of its own, so that one kernel can walk any
number of them in any order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.kernels.hash.mix import shift_of
from penstock.kernels.join import chains
from penstock.state.arena import Arena, power_of_two
from penstock.state.payload import Frame
from penstock.state.renumbering import shrunk
from penstock.types import sizes
from penstock.types.batch import Array, Batch, Column, Ints
from penstock.types.data_type import Type

USED, TAIL, ROOM, BASE, WIDTH = chains.USED, chains.TAIL, chains.ROOM, chains.BASE, chains.WIDTH
OWNER, FIELD, HEADS, SHIFT, LINK = chains.OWNER, chains.FIELD, chains.HEADS, chains.SHIFT, chains.LINK
LINE = 8
"""Words of a cache line."""
TIMES = 4
"""Two indexes lie side by side if one has no more than so many times the buckets of the other."""


class Stems:
    """`types[i]` are the payload columns of edge i, `keys[i]` the number of its indexes, `more[i]` of words behind them. `lazy`: rows
    enter an index when it is asked (`kernels.join.cyclic`).

    `alike`: pairs of indexes that are asked for the same keys. Their buckets lie side by side: a row that looks another edge up and then enters its
    own has both in one cache line. Where there are such pairs every bucket has room for two.

    What a walk reads of a row lies together in `rows`: its exp and, per index, its key and the row before it
    in the same bucket, which takes half a word. Two indexes share a word for that: a row of theirs is half a cache line and never lies on two.
    """

    def __init__(
        self,
        arena: Arena,
        name: str,
        types: Sequence[Sequence[Type]],
        keys: Sequence[int],
        more: Sequence[int] | None = None,
        *,
        lazy: bool = False,
        alike: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.arena = arena
        self._alike = alike
        self._cells = chains.CELLS if alike else 1
        self._lazy = lazy
        self._name = name
        self._keys = list(keys)
        self.frames = [Frame(arena, f"{name}.{i}", t) for i, t in enumerate(types)]
        edges, indexes = np.zeros((len(types), 5), np.int64), np.zeros((sum(keys), 5), np.int64)
        layouts = [self._layout(k) for k in keys]
        edges[:, WIDTH] = [
            width + n for (width, _, _), n in zip(layouts, more or [0] * len(keys), strict=True)
        ]
        indexes[:, OWNER] = np.repeat(np.arange(len(keys)), keys)
        indexes[:, FIELD] = [field for _, fields, _ in layouts for field in fields]
        indexes[:, LINK] = [link for _, _, links in layouts for link in links]
        self.edges = arena.array(f"{name}.edges", np.int64, edges.shape, edges)
        """Per edge: rows used, first live row, room, offset into `rows`, words a row."""
        self.indexes = arena.array(f"{name}.indexes", np.int64, indexes.shape, indexes)
        """Per index: its edge, where its key stands in a row, offset into `head`, `shift` of the number of buckets; among which halves
        of a row the row before it stands."""
        self.first_index = np.concatenate([[0], np.cumsum(keys)])
        self.linked: Ints = arena.array(f"{name}.linked", np.int64, sum(keys), 0) if lazy else edges[:0, 0]
        """Per index, if they are lazy: rows that are in it."""
        self.slid: Ints = np.zeros(len(types), np.int64)
        """Per edge: by how many slots its rows have moved to the front, in this process."""
        self.rows: Ints = arena.array(f"{name}.rows", np.int64, 0)
        self.head: Array = arena.array(f"{name}.head", np.int32, 0)

    @staticmethod
    def _layout(keys: int) -> tuple[int, list[int], list[int]]:
        """Of a row with so many keys: its words, where its keys stand, and among its halves its links. Key, two links, key, by twos.

        >>> Stems._layout(1), Stems._layout(2)
        ((3, [1], [4]), (4, [1, 3], [4, 5]))
        """
        fields = [1 + 3 * (k // 2) + 2 * (k % 2) for k in range(keys)]
        links = [4 + 6 * (k // 2) + k % 2 for k in range(keys)]
        return 1 + keys + -(-keys // 2), fields, links

    def __len__(self) -> int:
        return int((self.edges[:, USED] - self.edges[:, TAIL]).sum())

    @property
    def halves(self) -> NDArray[np.int32]:
        """All words of all rows as two halves each: a view."""
        return self.rows.view(np.int32)

    @property
    def live_bytes(self) -> int:
        """What walks may read of the live rows."""
        return int(((self.edges[:, USED] - self.edges[:, TAIL]) * self.edges[:, WIDTH]).sum()) * 8

    @property
    def sizes(self) -> list[int]:
        """Live rows of every edge."""
        return [int(n) for n in self.edges[:, USED] - self.edges[:, TAIL]]

    def bytes_of(self, edge: int) -> int:
        """What an edge takes, with the room it has to grow."""
        heads = sum(4 << 64 - int(self.indexes[k, SHIFT]) for k in self._of(edge) if self.edges[edge, ROOM])
        return self.table(edge).nbytes + heads + self.frames[edge].size_bytes

    def table(self, edge: int) -> Array:
        """An edge's rows as a table, one row each: a view."""
        base, room, width = (int(self.edges[edge, f]) for f in (BASE, ROOM, WIDTH))
        return self.rows[base : base + room * width].reshape(room, width)

    def reserve(self, wanted: Sequence[int]) -> None:
        """Room for so many more rows on each edge."""
        room = self.edges[:, ROOM].copy()
        for i, n in enumerate(wanted):
            used, tail = int(self.edges[i, USED]), int(self.edges[i, TAIL])
            if used + n <= room[i]:
                continue
            live = used - tail
            if live + n > 0.55 * room[i]:
                # Twice what is needed now: live rows slide every other step, not every step.
                room[i] = max(sizes.current.stem_rows, 2 * (live + n))
            if tail:
                self._slide(i, tail, used)
        if (room != self.edges[:, ROOM]).any():
            self._lay_out(room)

    def shrink(self, coming: int) -> bool:
        """Have no room for many more rows than there are; whether there was."""
        room = self.edges[:, ROOM].copy()
        for i, live in enumerate(self.sizes):
            room[i] = shrunk(int(room[i]), live, coming, sizes.current.stem_rows) or room[i]
        less = np.flatnonzero(room < self.edges[:, ROOM]).tolist()
        for i in less:
            tail, used = int(self.edges[i, TAIL]), int(self.edges[i, USED])
            if tail:
                self._slide(i, tail, used)
            self.frames[i].lay(np.arange(int(self.edges[i, USED])), int(room[i]))
        if less:
            self._lay_out(room)
        return bool(less)

    def admit(self, edge: int, batch: Batch, columns: Sequence[Column], keys: Sequence[Ints]) -> int:
        """Write rows after the last (room is reserved); returns the first's slot. They are not linked."""
        first = int(self.edges[edge, USED])
        last = first + len(batch)
        rows = self.table(edge)[first:last]
        rows[:, 0] = batch.exp
        for k, key in enumerate(keys):
            rows[:, self.field(edge, k)] = key
        self.frames[edge].put(slice(first, last), columns)
        self.edges[edge, USED] = last
        return first

    def expire(self, now: int) -> None:
        """Rows with exp <= now are gone."""
        for i, edge in enumerate(self.edges):
            tail, used = int(edge[TAIL]), int(edge[USED])
            exp = self.table(i)[tail:used, 0]
            if tail < used and exp[0] <= now:
                edge[TAIL] += np.searchsorted(exp, now, side="right")

    def link(self, edge: int, first: int, last: int) -> None:
        """Put rows into the indexes of their edge."""
        for k in self._of(edge):
            chains.link(
                self.rows, self.halves, self.head, self.edges[edge], self.indexes[k], self._cells, first, last
            )

    def clear(self, edge: int) -> None:
        """Let go of an edge's rows."""
        self.edges[edge, TAIL] = self.edges[edge, USED] = 0
        for k in self._of(edge):
            self._buckets(k)[:] = -1

    def field(self, edge: int, key: int) -> int:
        """Where a key stands in a row."""
        return int(self.indexes[self.first_index[edge] + key, FIELD])

    def _of(self, edge: int) -> range:
        return range(int(self.first_index[edge]), int(self.first_index[edge + 1]))

    def _buckets(self, index: int) -> Array:
        """The buckets of an index: a view."""
        heads, shift = int(self.indexes[index, HEADS]), int(self.indexes[index, SHIFT])
        return self.head[heads : heads + (self._cells << 64 - shift) : self._cells]

    def _parts(self, edge: int, kind: type[np.generic]) -> Array:
        """An edge's rows, words by words of another kind: a view."""
        return self.table(edge).view(kind)

    def _slide(self, i: int, tail: int, used: int) -> None:
        """Move an edge's live rows to its front; chains keep pointing at them."""
        live = used - tail
        self.frames[i].shift(tail, used)
        rows = self.table(i)
        rows[:live] = rows[tail:used]
        halves = self._parts(i, np.int32)
        for index in self._of(i):
            head = self._buckets(index)
            if self._lazy:
                linked = int(self.linked[index])
                self.linked[index] = max(linked - tail, 0)
                if linked <= tail:
                    # No row that is alive is in it; one that has never had any, or none since, is empty.
                    if linked:
                        head[:] = -1
                    continue
            halves[:live, self.indexes[index, LINK]] -= tail
            head -= np.int32(tail)
            np.maximum(head, -1, out=head)
        self.slid[i] += tail
        self.edges[i, TAIL], self.edges[i, USED] = 0, live

    def _lay_out(self, room: Ints) -> None:
        """Give every edge its room in fresh arrays."""
        held = [self.table(i)[: int(used)] for i, used in enumerate(self.edges[:, USED])]
        arena, name = self.arena, self._name
        edges, indexes = self.edges, self.indexes
        size = room * edges[:, WIDTH]
        edges[:, ROOM] = room
        size += -size % LINE
        edges[:, BASE] = np.cumsum(size) - size
        owner = indexes[:, OWNER]
        buckets = np.array([power_of_two(int(r)) for r in room[owner]], np.int64)
        total = self._spread_out(buckets)
        self.rows = arena.array(f"{name}.rows", np.int64, int(size.sum()))
        self.head = arena.array(f"{name}.head", np.int32, total, -1)
        for i, frame in enumerate(self.frames):
            frame.fit(int(room[i]))
            self.table(i)[: len(held[i])] = held[i]
            if not self._lazy:
                self.link(i, int(edges[i, TAIL]), int(edges[i, USED]))
        self.linked[:] = 0

    def _spread_out(self, buckets: Ints) -> int:
        """Say where the buckets of every index lie; how many there are in all."""
        total, placed = 0, set()
        for one, two in self._alike:
            most, least = max(buckets[one], buckets[two]), min(buckets[one], buckets[two])
            if most <= TIMES * least:
                self.indexes[[one, two], HEADS] = total, total + 1
                self.indexes[[one, two], SHIFT] = shift_of(int(most))
                placed |= {one, two}
                total += chains.CELLS * int(most)
        for k in range(len(buckets)):
            if k not in placed:
                self.indexes[k, [HEADS, SHIFT]] = total, shift_of(int(buckets[k]))
                total += self._cells * int(buckets[k])
        return total
