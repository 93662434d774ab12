"""The SteMs of a join: live rows of several FIFO edges, each indexed by its keys (Madden et al. 2002, §2.3).

Rows of an edge lie in arrival order, so expiry moves one pointer; chains are newest first, so a walk stops
at the first expired row; nothing is ever deleted. When an edge's part is full, its live rows slide to its
front. All edges share the same flat arrays, each at an offset of its own, so that one kernel can walk any
number of them in any order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.data.batch import Array, Batch, Column, Ints
from penstock.data.types import Type
from penstock.kernels import chains
from penstock.state.arena import Arena, power_of_two
from penstock.state.frame import Frame

USED, TAIL, ROOM, BASE = chains.USED, chains.TAIL, chains.ROOM, chains.BASE
OWNER, LINKS, HEADS, MASK = chains.OWNER, chains.LINKS, chains.HEADS, chains.MASK


class Stems:
    """`types[i]` are the payload columns of edge i, `keys[i]` the number of its indexes."""

    def __init__(self, arena: Arena, name: str, types: Sequence[Sequence[Type]], keys: Sequence[int]) -> None:
        self._arena = arena
        self._name = name
        self.frames = [Frame(arena, f"{name}.{i}", t) for i, t in enumerate(types)]
        self.edges = arena.array(f"{name}.edges", np.int64, (len(types), 4), 0)
        """Per edge: rows used, first live row, room, offset into `exp`."""
        self.indexes = arena.array(f"{name}.indexes", np.int64, (sum(keys), 4), 0)
        """Per index: its edge, offset into `key` and `chain`, offset into `head`, number of buckets less one."""
        self.indexes[:, OWNER] = np.repeat(np.arange(len(keys)), keys)
        self.first_index = np.concatenate([[0], np.cumsum(keys)])
        self.exp: Ints = arena.array(f"{name}.exp", np.int64, 0)
        self.key: Ints = arena.array(f"{name}.key", np.int64, 0)
        self.chain: Array = arena.array(f"{name}.chain", np.int32, 0)
        self.head: Array = arena.array(f"{name}.head", np.int32, 0)

    def __len__(self) -> int:
        return int((self.edges[:, USED] - self.edges[:, TAIL]).sum())

    def reserve(self, wanted: Sequence[int]) -> None:
        """Room for so many more rows on each edge."""
        room = self.edges[:, ROOM].copy()
        for i, n in enumerate(wanted):
            used, tail = int(self.edges[i, USED]), int(self.edges[i, TAIL])
            if used + n <= room[i]:
                continue
            live = used - tail
            if live + n > 0.7 * room[i]:
                room[i] = max(64, int(1.4 * (live + n)))
            if tail:
                self._slide(i, tail, used)
        if (room != self.edges[:, ROOM]).any():
            self._lay_out(room)

    def admit(self, edge: int, batch: Batch, columns: Sequence[Column], keys: Sequence[Ints]) -> int:
        """Write rows after the last (room is reserved); returns the first's slot. They are not linked."""
        first = int(self.edges[edge, USED])
        last = first + len(batch)
        base = int(self.edges[edge, BASE])
        self.exp[base + first : base + last] = batch.exp
        self.frames[edge].put(slice(first, last), columns)
        for index, key in zip(self._of(edge), keys, strict=True):
            at = int(self.indexes[index, LINKS])
            self.key[at + first : at + last] = key
        self.edges[edge, USED] = last
        return first

    def expire(self, now: int) -> None:
        """Rows with exp <= now are gone."""
        for edge in self.edges:
            live = self.exp[edge[BASE] + edge[TAIL] : edge[BASE] + edge[USED]]
            if len(live) and live[0] <= now:
                edge[TAIL] += np.searchsorted(live, now, side="right")

    def _of(self, edge: int) -> range:
        return range(int(self.first_index[edge]), int(self.first_index[edge + 1]))

    def _slide(self, i: int, tail: int, used: int) -> None:
        """Move an edge's live rows to its front; chains keep pointing at them."""
        live, base = used - tail, int(self.edges[i, BASE])
        self.frames[i].shift(tail, used)
        self.exp[base : base + live] = self.exp[base + tail : base + used]
        for index in self._of(i):
            at, heads = int(self.indexes[index, LINKS]), int(self.indexes[index, HEADS])
            self.key[at : at + live] = self.key[at + tail : at + used]
            self.chain[at : at + live] = self.chain[at + tail : at + used] - tail
            head = self.head[heads : heads + int(self.indexes[index, MASK]) + 1]
            head -= np.int32(tail)
            np.maximum(head, -1, out=head)
        self.edges[i, TAIL], self.edges[i, USED] = 0, live

    def _lay_out(self, room: Ints) -> None:
        """Give every edge its room in fresh arrays."""
        old = (self.exp, self.key, self.edges.copy(), self.indexes.copy())
        arena, name = self._arena, self._name
        edges, indexes = self.edges, self.indexes
        edges[:, ROOM] = room
        edges[:, BASE] = np.cumsum(room) - room
        owner = indexes[:, OWNER]
        indexes[:, LINKS] = np.cumsum(room[owner]) - room[owner]
        buckets = np.array([power_of_two(int(r)) for r in room[owner]], np.int64)
        indexes[:, MASK] = buckets - 1
        indexes[:, HEADS] = np.cumsum(buckets) - buckets
        self.exp = arena.array(f"{name}.exp", np.int64, int(room.sum()))
        self.key = arena.array(f"{name}.key", np.int64, int(room[owner].sum()))
        self.chain = arena.array(f"{name}.chain", np.int32, len(self.key))
        self.head = arena.array(f"{name}.head", np.int32, int(buckets.sum()), -1)
        for i, frame in enumerate(self.frames):
            frame.fit(int(room[i]))
            used = int(edges[i, USED])
            self._copy(self.exp, int(edges[i, BASE]), old[0], int(old[2][i, BASE]), used)
        for k in range(len(indexes)):
            edge = edges[owner[k]]
            self._copy(self.key, int(indexes[k, LINKS]), old[1], int(old[3][k, LINKS]), int(edge[USED]))
            chains.link(self.key, self.head, self.chain, indexes[k], int(edge[TAIL]), int(edge[USED]))

    @staticmethod
    def _copy(to: Array, at: int, source: Array, begin: int, n: int) -> None:
        to[at : at + n] = source[begin : begin + n]
