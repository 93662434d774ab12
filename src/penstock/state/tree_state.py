"""What a tree of joins remembers, in flat arrays: rings of its sources' rows, partial results of its nodes, bits of who waits.

Everything grows by being laid out anew; a source row keeps its number, so that partial results go on naming it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.kernels.tree import climb as kernel
from penstock.kernels.tree import store
from penstock.kernels.tree.demand import RARE, TRIAL
from penstock.kernels.tree.demand_gate import EVENTS
from penstock.kernels.tree.pane_filters import CROWD, LEAST_PANE, MOST_PANE
from penstock.kernels.tree.partners import OFTEN
from penstock.state.arena import Arena, power_of_two
from penstock.state.payload import Frame
from penstock.state.renumbering import shrunk
from penstock.types import sizes
from penstock.types.batch import Array, Batch, Column, Ints
from penstock.types.data_type import Type
from penstock.types.event_time import EARLIEST

FEW_WORDS = 128
"""Rows of a source, partial results of a node that has any: laying out anew costs more than room for so few."""
SOON = 8
"""An index that was sought so small a part of often is kept with those that were."""
PATIENT, MOST_PATIENT, REMADE = 64, 4096, 8
"""Turns for which partial results are kept at least once they are again, and twice as many the next time; or as many as it takes for REMADE times as
many rows to come as had to be gone through anew."""


class TreeState:
    """`spec`: see `kernels.tree.climb`. `parts[u]`: sources below node u; `indexes`: whose rows each would hold.

    `equalities`: how many there are. `nested`: one bucket a node and no index, so that a state is searched from its newest row on.
    """

    def __init__(
        self,
        arena: Arena,
        name: str,
        spec: Ints,
        blank: Ints,
        types: Sequence[Sequence[Type]],
        parts: Sequence[Sequence[int]],
        indexes: Sequence[int],
        *,
        equalities: int,
        nested: bool,
    ) -> None:
        self._arena, self._name, self._nested = arena, name, nested
        self.spec = spec
        self._n = len(types)
        self._parts = parts
        self._owners = list(indexes)
        self.frames = [Frame(arena, f"{name}.{i}", t) for i, t in enumerate(types)]
        self.regs: Ints = arena.array(f"{name}.regs", np.int64, len(blank), blank)
        self.rows: Ints = arena.array(f"{name}.rows", np.int64, 0)
        self.links: Array = arena.array(f"{name}.links", np.int32, 0)
        self.bits: Array = arena.array(f"{name}.bits", np.uint64, 0)
        self._filtered = self._compared()
        self._asked = np.array([j not in below for below in parts for j in range(self._n)])
        self.work = np.zeros((kernel.WORK, max(len(parts) + 1, equalities)), np.int64)
        self.lists = np.zeros(0, np.int32)
        self._quiet = -1
        """The turn since which no filter has a key and no index is kept: so it stays while nobody is asked."""
        self._fit_lists()
        if len(self.bits) == 0 and self.asks.size:
            self._lay_bits(self._sizes())

    def _sizes(self) -> Ints:
        """By question: words of a pane of both filters as they are, but least where there is no key, and none for rows that none asks about."""
        filters = self.filters
        sizes = np.maximum(filters[:, :, kernel.PANE] + 1, 0)
        empty = filters[:, :, kernel.FULL : kernel.FULL + kernel.PANES].max(axis=2) == 0
        sizes[empty[:, 0], 0] = np.where(self._asked, LEAST_PANE, 0)[empty[:, 0]]
        # One that was wanted a moment ago has not been asked yet.
        sizes[empty[:, 1] & (filters[:, 1, kernel.UPTO] >= 0), 1] = 0
        return sizes

    def _compared(self) -> Array:
        """By question: whether an inner node asks a source for its keys, and not only whether it is empty."""
        start, n = int(self.spec[kernel.VIA]), self._n
        via = self.spec[start : start + len(self._parts) * n].reshape(-1, n) >= 0
        via[:n], via[-1:] = False, False
        if self.spec[kernel.DEMAND] != kernel.JIT:
            via[:] = False
        return via.ravel()

    def _fit_lists(self) -> None:
        """Room for partners of an event, and for every row to be taken up by one."""
        rows = int((self.sources[:, kernel.MASK] + 1).sum())
        self.lists = np.zeros(self._n * kernel.LIST + 2 * rows, np.int32)

    # ------------------------------------------------------------------ registers

    def _registers(self, start: int, count: int, width: int) -> Ints:
        return self.regs[start : start + count * width].reshape(count, width)

    @property
    def sources(self) -> Ints:
        return self._registers(0, self._n, kernel.SOURCE_WORDS)

    @property
    def nodes(self) -> Ints:
        return self._registers(int(self.spec[kernel.NODE]), len(self._parts), kernel.NODE_WORDS)

    @property
    def indexes(self) -> Ints:
        return self._registers(int(self.spec[kernel.INDEX]), len(self._owners), kernel.INDEX_WORDS)

    @property
    def asks(self) -> Ints:
        count = len(self._parts) * self._n if self._owners else 0
        return self._registers(int(self.spec[kernel.ASK]), count, kernel.ASK_WORDS)

    @property
    def filters(self) -> Ints:
        """By question: the one of what waits, and the one of what has come."""
        return self.asks.reshape(-1, 3, kernel.FILTER_WORDS)[:, :2]

    def counter(self, which: int) -> int:
        return int(self.regs[int(self.spec[kernel.COUNT]) + which])

    def _set(self, which: int, value: int) -> None:
        self.regs[int(self.spec[kernel.COUNT]) + which] = value

    @property
    def _inner(self) -> range:
        return range(self._n, len(self._parts) - 1)

    # ------------------------------------------------------------------ rows

    def reserve(self, wanted: Sequence[int]) -> None:
        """Room for so many more rows of each source."""
        sources = self.sources
        short = [
            power_of_two(max(sizes.current.tree_rows, int(s[kernel.USED] - s[kernel.TAIL]) + n))
            for s, n in zip(sources, wanted, strict=True)
        ]
        ring = sources[:, kernel.MASK] + 1
        if (np.array(short) > ring).any():
            self._lay_out(np.maximum(ring, short), self.nodes[:, kernel.ROOM].copy())
        if (sources[:, kernel.USED] + np.array(wanted) >= sizes.current.tree_numbers).any():
            self._number_anew()

    def admit(self, i: int, batch: Batch, columns: Sequence[Column], keys: Sequence[Ints]) -> int:
        """Write rows after the last of a source (room is reserved); returns the first's number."""
        source = self.sources[i]
        first, mask = int(source[kernel.USED]), int(source[kernel.MASK])
        begin, n = first & mask, len(batch)
        # In one piece, if the ring does not end in it.
        place: slice | Ints = slice(begin, begin + n)
        if begin + n > mask + 1:
            place = np.arange(first, first + n) & mask
        table = self.table(i)
        table[place, 0] = batch.exp
        for k, key in enumerate(keys):
            table[place, 1 + k] = key
        self.frames[i].put(place, columns)
        source[kernel.USED] = first + n
        return first

    def table(self, i: int) -> Array:
        """A source's ring as a table: a view."""
        base, mask, width = (int(self.sources[i, f]) for f in (kernel.BASE, kernel.MASK, kernel.WIDTH))
        return self.rows[base : base + (mask + 1) * width].reshape(mask + 1, width)

    def live(self, i: int) -> Ints:
        """Where a source's rows lie, oldest first."""
        used, tail, mask = (int(self.sources[i, f]) for f in (kernel.USED, kernel.TAIL, kernel.MASK))
        places: Ints = np.arange(tail, used) & mask
        return places

    def aside(self, i: int) -> int:
        """Rows of a source that are set aside."""
        return int(self.sources[i, kernel.ASIDE])

    def partials(self, u: int, now: int) -> int:
        """Partial results of an inner node that are alive."""
        place, filled = (int(self.nodes[u, f]) for f in (kernel.PLACE, kernel.FILLED))
        return int((self.rows[place : place + 2 * filled : 2] > now).sum())

    def expire(self, now: int) -> None:
        """What has ended by `now` is gone; of partial results, when half of the time to the latest has passed."""
        store.expire(now, self.spec, self.regs, self.rows, self.links)
        for u in self._inner:
            node = self.nodes[u]
            if node[kernel.FILLED] and node[kernel.DUE] <= now:
                store.sweep(u, now, self.spec, self.regs, self.rows, self.links)
                self._due(u, now)
        steady = self.counter(kernel.STEADY)
        if self._owners and not (self._quiet == steady and self.counter(kernel.RESTING)):
            filters, indexes, none = store.end_keys(now, self.spec, self.regs, self.bits)
            self._quiet = steady if none else -1
            if filters:
                self._lay_bits(self._sizes())
            if indexes:
                self._drop_indexes()

    def widen(self) -> bool:
        """Larger panes where there are many keys, filters and indexes that are wanted; whoever would be next has its turn, too. Returns whether it is to
        change that partial results are kept."""
        crowded = self.counter(kernel.CROWDED)
        self._set(kernel.CROWDED, 0)
        if crowded & kernel.FILTERS_ANEW:
            self._widen_filters()
        if crowded & kernel.INDEXES_ANEW:
            self._add_indexes()
        return bool(crowded & kernel.KEEPING_ANEW)

    def _widen_filters(self) -> None:
        filters = self.filters
        words = filters[:, :, kernel.PANE] + 1
        crowd = filters[:, :, kernel.FULL : kernel.FULL + kernel.PANES].max(axis=2) / (
            CROWD * np.maximum(words, 1)
        )
        if (words < 0).any() or (crowd > 1).any():
            fits = words >= MOST_PANE
            sizes = self._sizes()
            sizes[(crowd > 0.5) & ~fits & (words <= FEW_WORDS)] *= 2
            sizes[(crowd > 0.9) & ~fits] *= 2
            tested, denied = self.asks[:, kernel.TESTED], self.asks[:, kernel.BLOCKED]
            soon = (words[:, 1] == 0) & (2 * tested >= TRIAL) & (RARE * denied >= tested)
            wanted = self._filtered & (soon | (words[:, 1] < 0))
            sizes[wanted, 1] = self._fitting()[wanted]
            filters[wanted, 1, kernel.UPTO] = -1
            self._lay_bits(sizes)

    def _fitting(self) -> Ints:
        """By question: words of a pane for the keys of the source that is asked."""
        rings = self.sources[:, kernel.MASK] + 1
        words = [power_of_two(max(LEAST_PANE, int(ring) // (CROWD * kernel.PANES))) for ring in rings]
        return np.tile(words, len(self._parts))

    def _due(self, u: int, now: int) -> None:
        latest = int(self.nodes[u, kernel.LATEST])
        self.nodes[u, kernel.DUE] = now + max((latest - now) // 2, 1) if latest > now else EARLIEST

    def make_room(self, u: int, now: int, *, more: bool) -> None:
        """Partial results that have ended leave; if most have not, or `more` is wanted, there is to be more room."""
        store.sweep(u, now, self.spec, self.regs, self.rows, self.links)
        if more or self.nodes[u, kernel.FILLED] * 3 >= 2 * self.nodes[u, kernel.ROOM]:
            room = self.nodes[:, kernel.ROOM].copy()
            room[u] = max(sizes.current.tree_results, 2 * room[u])
            self._lay_out(self.sources[:, kernel.MASK] + 1, room)
        self._due(u, now)

    def shrink(self, coming: int) -> None:
        """Have no room for many more rows and partial results than there are."""
        sources, nodes = self.sources, self.nodes
        ring, room = sources[:, kernel.MASK] + 1, nodes[:, kernel.ROOM].copy()
        live, first = sources[:, kernel.USED] - sources[:, kernel.TAIL], sizes.current
        for i in range(self._n):
            ring[i] = shrunk(int(ring[i]), int(live[i]), coming, first.tree_rows) or ring[i]
        for u in self._inner:
            filled = int(nodes[u, kernel.FILLED])
            room[u] = shrunk(int(room[u]), filled, coming, first.tree_results) or room[u]
        if (ring <= sources[:, kernel.MASK]).any() or (room < nodes[:, kernel.ROOM]).any():
            self._lay_out(ring, room)

    # ------------------------------------------------------------------ keeping or not

    def keep_none(self) -> None:
        """Partial results go, and nothing waits any more: all rows take part."""
        self._set(kernel.KEEPS, 0)
        self._set(kernel.RESTING, 0)
        self.nodes[:, kernel.FILLED] = 0
        self.nodes[:, kernel.LATEST] = self.nodes[:, kernel.DUE] = EARLIEST
        self.sources[:, kernel.WAITED] = 0
        waiting = self.filters[:, 0]
        waiting[:, kernel.FULL : kernel.FULL + kernel.PANES] = 0
        waiting[:, kernel.UNTIL : kernel.UNTIL + kernel.PANES] = EARLIEST
        self._lay_bits(self._sizes())
        for source in self.sources:
            begin = int(source[kernel.LINK])
            self.links[begin : begin + int(source[kernel.MASK]) + 1] = -1
        self._lay_out(self.sources[:, kernel.MASK] + 1, np.zeros(len(self._parts), np.int64))

    def keep(self, now: int) -> tuple[Array, Array, Array]:
        """Partial results are kept from here on: as if no row had come yet. Time, source and number of those that are to come again."""
        store.expire(now, self.spec, self.regs, self.rows, self.links)
        first, last = (self.sources[:, field].tolist() for field in (kernel.TAIL, kernel.SEEN))
        rows = sum(last) - sum(first)
        patience = self.counter(kernel.PATIENCE)
        self._set(kernel.KEEPS, 1)
        self._set(kernel.KEPT, max(patience, REMADE * rows // EVENTS))
        self._set(kernel.PATIENCE, min(2 * patience, MOST_PATIENT))
        self.sources[:, kernel.SEEN] = first
        self._chain_anew()
        seqs = [np.arange(a, b, dtype=np.int32) for a, b in zip(first, last, strict=True)]
        ends = [self.table(i)[seq & int(self.sources[i, kernel.MASK]), 0] for i, seq in enumerate(seqs)]
        # In the order in which they end, which is nearly that in which they came: much waits for a source whose rows come last.
        order = np.argsort(np.concatenate(ends), kind="stable")
        sides = np.repeat(np.arange(self._n, dtype=np.int8), [len(seq) for seq in seqs])
        return np.full(rows, now), sides[order], np.concatenate(seqs)[order]

    # ------------------------------------------------------------------ laying out

    def _buckets(self, rows: int) -> int:
        return 1 if self._nested else power_of_two(rows)

    def _add_indexes(self) -> None:
        """Indexes that were sought often, or soon will have been, are kept from now on, behind all else; nothing moves."""
        links = len(self.links)
        for x in np.flatnonzero(SOON * self.indexes[:, kernel.SOUGHT] > OFTEN).tolist():
            links = self._place_index(x, links)
        old = self.links
        self.links = self._arena.array(f"{self._name}.links", np.int32, links, -1)
        self.links[: len(old)] = old

    def _drop_indexes(self) -> None:
        """Indexes that nobody has asked for as long as their rows live are not kept; the others move together. They lie behind all else."""
        indexes, old, was = self.indexes, self.links, self.indexes.copy()
        idle = indexes[:, kernel.LINKED] < self.sources[self._owners, kernel.TAIL]
        kept = indexes[:, kernel.COLUMN] >= 0
        indexes[kept & idle, kernel.COLUMN] = kernel.NOT_KEPT
        front = int(was[kept, kernel.COLUMN].min())
        size = 2 * (indexes[:, kernel.BUCKETS] + 1) * (kept & ~idle)
        self.links = self._arena.array(f"{self._name}.links", np.int32, front + int(size.sum()))
        self.links[:front] = old[:front]
        for x, end in enumerate((front + np.cumsum(size)).tolist()):
            if size[x]:
                begin, at = end - int(size[x]), int(was[x, kernel.COLUMN])
                self.links[begin:end] = old[at : at + end - begin]
                indexes[x, kernel.HEADS] += begin - at
                indexes[x, kernel.COLUMN] = begin

    def _place_index(self, x: int, links: int) -> int:
        """An index lies from here on, and is empty; returns where it ends."""
        ring = int(self.sources[self._owners[x], kernel.MASK]) + 1
        self.indexes[x] = links + ring, ring - 1, links, int(self.sources[self._owners[x], kernel.TAIL]), 0
        return links + 2 * ring

    def _lay_out(self, ring: Ints, room: Ints) -> None:
        """Give every source and node its room in fresh arrays."""
        arena, name = self._arena, self._name
        sources, nodes, indexes = self.sources, self.nodes, self.indexes
        idle = indexes[:, kernel.LINKED] < sources[self._owners, kernel.TAIL]
        old, old_rows, old_links = self.regs.copy(), self.rows, self.links
        was_source = old[: sources.size].reshape(sources.shape)
        start = int(self.spec[kernel.NODE])
        was_node = old[start : start + nodes.size].reshape(nodes.shape)
        rows = links = 0
        for i, source in enumerate(sources):
            source[kernel.MASK] = ring[i] - 1
            source[kernel.BASE], source[kernel.LINK] = rows, links
            rows += int(ring[i] * source[kernel.WIDTH])
            links += int(ring[i])
        for u in self._inner:
            nodes[u, kernel.ROOM] = room[u]
            nodes[u, kernel.PLACE], nodes[u, kernel.PARTS] = rows, links
            rows += 2 * int(room[u])
            links += int(room[u] * nodes[u, kernel.PART])
        for u, node in enumerate(nodes[:-1]):
            buckets = self._buckets(int(ring[u] if u < self._n else room[u]))
            node[kernel.HEADS], node[kernel.BUCKETS] = links, buckets - 1
            links += buckets
        for x in np.flatnonzero(indexes[:, kernel.COLUMN] >= 0).tolist():
            if idle[x]:
                indexes[x, kernel.COLUMN] = kernel.NOT_KEPT
            else:
                links = self._place_index(x, links)
        self.rows = arena.array(f"{name}.rows", np.int64, rows)
        self.links = arena.array(f"{name}.links", np.int32, links, -1)
        for i in range(self._n):
            self._move_ring(i, was_source[i], old_rows, old_links)
        self._fit_lists()
        for u in self._inner:
            filled = int(nodes[u, kernel.FILLED])
            for field, width, new, held in (
                (kernel.PLACE, 2, self.rows, old_rows),
                (kernel.PARTS, int(nodes[u, kernel.PART]), self.links, old_links),
            ):
                at, was = int(nodes[u, field]), int(was_node[u, field])
                new[at : at + filled * width] = held[was : was + filled * width]
        self._chain_anew()

    def _move_ring(self, i: int, was: Ints, old_rows: Ints, old_links: Array) -> None:
        """Rows lie where the other mask says: those of a smaller ring stand in every part of the new one."""
        source = self.sources[i]
        before, size = int(was[kernel.MASK]) + 1, int(source[kernel.MASK]) + 1
        self.frames[i].fit(size)
        if before == 0:
            return
        if size < before:
            self._cut_ring(i, was, old_rows, old_links)
            return
        for new, held, base, count in (
            (self.rows, old_rows, kernel.BASE, int(source[kernel.WIDTH])),
            (self.links, old_links, kernel.LINK, 1),
        ):
            at = int(source[base])
            ring = held[int(was[base]) : int(was[base]) + before * count]
            new[at : at + size * count].reshape(-1, before * count)[:] = ring
        if size > before:
            self.frames[i].repeat(before, size)

    def _cut_ring(self, i: int, was: Ints, old_rows: Ints, old_links: Array) -> None:
        """The same for a ring that has become smaller: all live rows have room there."""
        source = self.sources[i]
        before, size = int(was[kernel.MASK]) + 1, int(source[kernel.MASK]) + 1
        live = np.arange(int(source[kernel.TAIL]), int(source[kernel.USED]))
        places = np.zeros(size, np.int64)
        places[live & (size - 1)] = live & (before - 1)
        for new, held, base, count in (
            (self.rows, old_rows, kernel.BASE, int(source[kernel.WIDTH])),
            (self.links, old_links, kernel.LINK, 1),
        ):
            at, old = int(source[base]), int(was[base])
            ring = held[old : old + before * count].reshape(before, count)
            new[at : at + size * count].reshape(size, count)[:] = ring[places]
        self.frames[i].lay(places, size)

    def _chain_anew(self) -> None:
        for i in range(self._n):
            store.index_anew(i, self.spec, self.regs, self.rows, self.links, self.work)
        for u in self._inner:
            store.chain_anew(u, self.spec, self.regs, self.rows, self.links)

    def _number_anew(self) -> None:
        """Smaller numbers for all rows; they stay where they lie."""
        sources = self.sources
        by = sources[:, kernel.TAIL] & ~sources[:, kernel.MASK]
        for field in (kernel.USED, kernel.TAIL, kernel.SEEN):
            sources[:, field] -= by
        if self._owners:
            filters = self.filters.reshape(len(self._parts), self._n, 2, -1)
            filters[..., kernel.UPTO] -= by[:, None]
        for u in self._inner:
            at, filled, width = (int(self.nodes[u, f]) for f in (kernel.PARTS, kernel.FILLED, kernel.PART))
            parts = self.links[at : at + filled * width].reshape(filled, width)
            parts[:, : width - 1] -= by[list(self._parts[u])].astype(np.int32)
        self._chain_anew()

    def _lay_bits(self, sizes: Ints) -> None:
        """Filters with panes of these sizes; a bit of a smaller one stands in every part of the larger."""
        filters, old = self.filters, self.bits
        was = self.regs.copy()
        filters[:, :, kernel.BITS] = kernel.PANES * (np.cumsum(sizes).reshape(sizes.shape) - sizes)
        filters[:, :, kernel.PANE] = sizes - 1
        self.bits = self._arena.array(f"{self._name}.bits", np.uint64, kernel.PANES * int(sizes.sum()), 0)
        store.move_bits(self.spec, was, self.regs, old, self.bits)
