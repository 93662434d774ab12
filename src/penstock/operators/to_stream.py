"""ISTREAM, DSTREAM, RSTREAM: a relation back into a stream.

Paper      Arasu, Babu & Widom 2006 (CQL), §4.2; used by P-CQL.
Invariant  ISTREAM at τ: values by which the answer at τ exceeds the answer just before; DSTREAM: the reverse;
           RSTREAM: the whole answer, at every instant at which it changes.
Pattern    any → MONOTONIC.
State      the live rows of the input.
Cost       O(events); RSTREAM: O(rows of the answer) per instant of change, which is its output.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.operators.capabilities import Holding
from penstock.operators.contract import Site, empty
from penstock.plan.edge import Edge
from penstock.plan.nodes import StreamKind
from penstock.state import key_words
from penstock.state.arena import Arena
from penstock.state.live_rows import Events, Roster
from penstock.state.value_ids import Registry
from penstock.types.batch import Array, Batch, Column, Ints
from penstock.types.event_time import FOREVER
from penstock.types.schema import Schema


class ToStreamOperation:
    def __init__(self, site: Site, schema: Schema, kind: StreamKind, edge: Edge) -> None:
        self._types = [f.type for f in schema]
        self._kind = kind
        self._arena, self._name = site.arena, site.name
        self._alive = site.arena.array(f"{site.name}.alive", np.int32, 0)
        """RSTREAM: the slots of the answer."""
        self._roster = Roster(
            site.arena, site.name, self._types, edge, site.upkeep, with_ts=kind is StreamKind.RSTREAM
        )

    def step(self, inputs: Sequence[Batch], now: int) -> Batch:
        (batch,) = inputs
        events = self._roster.step(batch, now)
        if not len(events.times):
            self._roster.finish()
            return empty(len(self._types))
        times, slots, net = self._net(events)
        if self._kind is StreamKind.RSTREAM:
            at, rows = self._whole(events, np.unique(times))
        else:
            wanted = net if self._kind is StreamKind.ISTREAM else -net
            copies = np.maximum(wanted, 0)
            at, rows = np.repeat(times, copies), np.repeat(slots, copies)
        out = Batch(at, np.full(len(at), FOREVER), self._roster.columns(rows))
        out = out.with_columns(tuple(_now(c) for c in out.columns))
        self._roster.finish()
        self._settle(events)
        return out

    def shrink(self, coming: int) -> None:
        made = self._roster.shrink(coming)
        if made is not None:
            self._alive = made.of(self._alive)
            self._arena.keep(f"{self._name}.alive", self._alive)

    def holdings(self) -> list[Holding]:
        return [Holding("rows", self._roster.structure, len(self._roster))]

    def _net(self, events: Events) -> tuple[Ints, Array, Ints]:
        """Per (instant, value): a slot that holds the value, and by how many copies the answer grew."""
        times, slots, sign = events.times, events.slots, events.signs
        distinct, index = np.unique(slots, return_inverse=True)
        columns = self._roster.columns(distinct)
        registry = Registry(Arena(), "values", key_words.width(self._types))
        value = registry.ids(key_words.rows(columns, self._types, len(distinct)))[index]
        order = np.lexsort((value, times))
        times, slots, value = times[order], slots[order], value[order]
        change = np.empty(len(times), np.bool_)
        change[0] = True
        change[1:] = (times[1:] != times[:-1]) | (value[1:] != value[:-1])
        first = np.flatnonzero(change)
        net = np.add.reduceat(sign[order].astype(np.int64), first)
        moved = net != 0
        return times[first][moved], slots[first][moved], net[moved]

    def _whole(self, events: Events, instants: Ints) -> tuple[Ints, Array]:
        """All rows alive at each instant of change."""
        ts, end = self._roster.slab["ts"], self._roster.end
        slots = np.union1d(self._alive, np.unique(events.slots)).astype(np.int32)
        at, rows = [], []
        for t in instants:
            live = slots[(ts[slots] <= t) & (end[slots] > t)]
            at.append(np.full(len(live), t))
            rows.append(live)
        if not at:
            return np.empty(0, np.int64), np.empty(0, np.int32)
        return np.concatenate(at), np.concatenate(rows)

    def _settle(self, events: Events) -> None:
        if self._kind is StreamKind.RSTREAM:
            self._alive = np.setdiff1d(np.union1d(self._alive, events.started), events.ended)
            self._arena.keep(f"{self._name}.alive", self._alive)


def _now(column: Column) -> Column:
    """Gathered at once: the slots are about to be freed."""
    _ = column.values
    return column
