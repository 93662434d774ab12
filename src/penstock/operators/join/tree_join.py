"""Multiway equi-join of FIFO windows as a tree of joins that keep their partial results, made only on demand.

Paper      Yang & Papadias 2008 (JIT); Markowetz, Yang & Papadias 2007 (DOE); Viglas et al. 2003 (trees of joins).
Invariant  for every node u and all rows below it that are alive and equal each other: the partial result is kept in u, or a
           part of it waits at some (w, j) and source j holds no live row that equals it. So whatever an answer needs is there
           when its last row comes, and every answer is made once, then (docs/decisions/019).
Pattern    WEAKEST, MONOTONIC → WEAK (MONOTONIC over streams).
           A tree that keeps nothing (`kernels.tree.stateless`) meets rows alone: there no partial result is kept, and none waits.
State      one ring a source; at every inner node the partial results made, or none; with demand an index a pair of sources, and bits.
Cost       O(arrivals + partners met + partial results), and what is asked before one is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from penstock.kernels.tree import climb as kernel
from penstock.kernels.tree import stateless
from penstock.kernels.tree import step as tree_walk
from penstock.operators.capabilities import Holding
from penstock.operators.contract import Site, empty, placed
from penstock.operators.join.predicates import Equality, KeyMaker, offsets
from penstock.operators.join.ring_insert import entered
from penstock.operators.join.tree_layout import Layout, laid_out
from penstock.plan.expressions import columns
from penstock.plan.join_tree import Demand, Tree
from penstock.state.tree_state import PATIENT, TreeState
from penstock.types import limits, sizes
from penstock.types.batch import ABSENT, Array, Batch, Column, Ints
from penstock.types.event_time import EARLIEST
from penstock.types.memory import joined, room
from penstock.types.schema import Schema


class TreeJoin:
    """Three or more inputs, all connected by equalities, and no other predicate."""

    def __init__(
        self,
        site: Site,
        schemas: Sequence[Schema],
        equalities: Sequence[Equality],
        needed: frozenset[int],
        tree: Tree,
    ) -> None:
        self._arena = site.arena
        n = len(schemas)
        self._keys = [KeyMaker(site) for _ in schemas]
        for e in equalities:
            for i in (e.left, e.right):
                self._keys[i].index([e.side(i)])
        words = [[key for (key,) in maker.indexes] for maker in self._keys]
        self._layout = laid_out(tree.over(n), equalities, words, site.upkeep.demand)
        self._offsets = offsets(schemas)
        self._widths = [len(s) for s in schemas]
        self._width = sum(self._widths)
        if site.may_move:
            needed |= {c.index for e in equalities for c in columns(e.whole)}
        self._stored = [
            tuple(k for k in range(len(s)) if start + k in needed)
            for s, start in zip(schemas, self._offsets, strict=True)
        ]
        types = [
            [s[k].type for k in stored] + keys.strings
            for s, stored, keys in zip(schemas, self._stored, self._keys, strict=True)
        ]
        self._state = TreeState(
            site.arena,
            site.name,
            self._layout.spec(),
            _blank(self._layout, [len(w) for w in words], nested=tree.nested),
            types,
            [node.sources for node in self._layout.nodes],
            [i for i, _ in self._layout.indexes],
            equalities=len(equalities),
            nested=tree.nested,
        )
        self._room = sizes.current.join_outputs
        self._now = EARLIEST

    # ------------------------------------------------------------------ what it holds

    def holdings(self) -> list[Holding]:
        state, layout = self._state, self._layout
        held = [
            Holding(f"input {i + 1}", "hash chains over a ring", len(state.live(i)))
            for i in range(layout.sources)
        ]
        how = "hash chains" if state.counter(kernel.KEEPS) else "found anew"
        for u in layout.inner:
            below = ", ".join(str(i + 1) for i in layout.nodes[u].sources)
            held.append(Holding(f"partial results of inputs {below}", how, state.partials(u, self._now)))
        if layout.demand is Demand.OFF:
            return held
        counted = self.counted()
        return [
            *held,
            Holding("rows set aside", "blacklist: rings without chains", counted["blacklist"]),
            Holding("keys that are waited for", "four panes of bits a question", counted["buffer"]),
        ]

    def counted(self) -> dict[str, int]:
        """Counters since the beginning, and sizes now, for figures and EXPLAIN. `spared`: bytes that partial results would have taken, had all been
        made, if each were as small as the smallest."""
        state, layout = self._state, self._layout
        left_out = max(state.counter(kernel.SUPPRESSED) - state.counter(kernel.RESUMED), 0)
        aside = 0
        if layout.demand is not Demand.OFF:
            aside = sum(state.aside(i) for i in range(layout.sources))
        return {
            "made": state.counter(kernel.MADE) + state.counter(kernel.RESUMED),
            "suppressed": state.counter(kernel.SUPPRESSED),
            "suspended": state.counter(kernel.SUSPENDED),
            "resumed": state.counter(kernel.RESUMED),
            "woken": state.counter(kernel.WOKEN),
            "spared": left_out * min(self._bytes_of(u) for u in layout.inner),
            "visits": state.counter(kernel.VISITS),
            "kept": state.counter(kernel.KEEPS),
            "partials": sum(state.partials(u, self._now) for u in layout.inner),
            "blacklist": aside,
            "buffer": int(state.filters[:, 0, kernel.FULL : kernel.FULL + kernel.PANES].sum()),
            "bytes": self.held_bytes,
        }

    @property
    def held_bytes(self) -> int:
        """Of live rows and partial results: what is written of each and a bucket in every index it is in; and all bits."""
        state = self._state
        total = int(state.bits.nbytes) + int(state.regs.nbytes)
        indexes = [1] * self._layout.sources
        for x, (i, _) in enumerate(self._layout.indexes):
            indexes[i] += int(state.indexes[x, kernel.COLUMN] >= 0)
        for i, frame in enumerate(state.frames):
            own = 8 * int(state.sources[i, kernel.WIDTH]) + 8 * indexes[i]
            total += len(state.live(i)) * (own + sum(t.dtype.itemsize for t in frame.types))
        for u in self._layout.inner:
            total += state.partials(u, self._now) * self._bytes_of(u)
        return total

    def _bytes_of(self, u: int) -> int:
        """A partial result of a node: its end and hash, its components and link, and a bucket."""
        return 16 + 4 * int(self._state.nodes[u, kernel.PART]) + 4

    @property
    def held_values(self) -> int:
        """Ends and keys of live rows and partial results, if these held those of their parts."""
        state = self._state
        width = state.sources[:, kernel.WIDTH]
        rows = sum(len(state.live(i)) * int(width[i]) for i in range(self._layout.sources))
        return rows + sum(
            state.partials(u, self._now) * int(width[list(self._layout.nodes[u].sources)].sum())
            for u in self._layout.inner
        )

    def alive(self, which: int, now: int) -> Batch:
        rows = self._state.live(which)
        columns = placed(self._state.frames[which].at(rows), self._stored[which], self._widths[which])
        return Batch(np.full(len(rows), now), self._state.table(which)[rows, 0], columns)

    # ------------------------------------------------------------------ a step

    def step(self, inputs: Sequence[Batch], now: int) -> Batch:
        self._now = now
        events = entered(self._keys, self._stored, inputs, self._state)
        out = empty(self._width) if events is None else self._climbed(*events)
        self._state.expire(now)
        return out

    def shrink(self, coming: int) -> None:
        self._state.shrink(coming)

    def _climbed(self, ts: Array, side: Array, seq: Array) -> Batch:
        state, n = self._state, len(self._keys)
        before = state.counter(kernel.VISITS)
        parts = []
        done = total = 0
        while done < len(ts):
            size = self._room
            out_ts, out_exp = room(size, np.int64), room(size, np.int64)
            out_slot = room((n, size), np.int32)
            first = done
            held = (state.spec, state.regs, state.rows, state.links, state.bits, state.work, state.lists)
            run: Callable[..., tuple[int, int]] = (
                tree_walk.run if state.counter(kernel.KEEPS) else stateless.run
            )
            done, made = run(done, ts, side, seq, *held, out_ts, out_exp, out_slot)
            parts.append((out_ts[:made], out_exp[:made], out_slot[:, :made]))
            total += made
            limits.check_results(total)
            if state.counter(kernel.CROWDED):
                if state.widen():
                    self._change(int(ts[min(done, len(ts) - 1)]) - 1)
            elif done < len(ts):
                short = state.counter(kernel.SHORT)
                if short == self._layout.root:
                    if done == first:  # a single row makes more than there was room for
                        limits.check_results(size + 1)
                    self._room *= 2
                else:
                    state.make_room(short, int(ts[done]) - 1, more=done == first)
        out_ts, out_exp = (joined([p[f] for p in parts]) for f in (0, 1))
        slots = parts[0][2] if len(parts) == 1 else np.concatenate([p[2] for p in parts], axis=1)
        self._arena.visits += len(ts) + state.counter(kernel.VISITS) - before
        if len(out_ts) < self._room // 8:
            self._room = max(sizes.current.join_outputs, self._room // 2)
        return Batch(out_ts, out_exp, self._columns(slots))

    def _change(self, now: int) -> None:
        """From here on partial results are kept, or no longer. What rows that are alive make is made again, and has been answered."""
        if self._state.counter(kernel.KEEPS):
            self._state.keep_none()
            return
        again = self._state.keep(now)
        if len(again[0]):
            self._climbed(*again)

    def _columns(self, slots: Array) -> tuple[Column, ...]:
        out: list[Column] = [ABSENT] * self._width
        for start, stored, frame, rows in zip(
            self._offsets, self._stored, self._state.frames, slots, strict=True
        ):
            for k, column in zip(stored, frame.at(rows), strict=False):
                out[start + k] = column
        return tuple(out)


def _blank(layout: Layout, words: Sequence[int], *, nested: bool) -> Ints:
    """Registers before the first row."""
    regs = np.zeros(layout.registers, np.int64)
    sources = regs[: layout.node_registers].reshape(-1, kernel.SOURCE_WORDS)
    sources[:, kernel.MASK] = -1
    sources[:, kernel.WIDTH] = [1 + w for w in words]
    nodes = regs[layout.node_registers : layout.index_registers].reshape(-1, kernel.NODE_WORDS)
    nodes[:, kernel.PART] = [len(node.sources) + 1 for node in layout.nodes]
    nodes[:, kernel.LATEST] = nodes[:, kernel.DUE] = EARLIEST
    indexes = regs[layout.index_registers : layout.ask_registers].reshape(-1, kernel.INDEX_WORDS)
    indexes[:, kernel.COLUMN] = kernel.NEVER_KEPT if nested else kernel.NOT_KEPT
    filters = regs[layout.ask_registers : layout.counters].reshape(-1, 3, kernel.FILTER_WORDS)[:, :2]
    filters[:, :, kernel.UNTIL : kernel.UNTIL + kernel.PANES] = EARLIEST
    filters[:, :, kernel.PANE], filters[:, :, kernel.STRETCH] = kernel.NO_FILTER, 1
    regs[layout.counters + kernel.KEEPS] = 1
    regs[layout.counters + kernel.PATIENCE] = PATIENT
    order = regs[layout.order_registers :].reshape(len(layout.nodes), -1)
    order[:] = -1
    for u in range(layout.root):
        asked = layout.order(u)
        order[u, : len(asked)] = asked
    return regs
