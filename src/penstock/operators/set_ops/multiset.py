"""Set operations that must know every copy: over inputs that take rows back, and the ALL forms.

Paper      Golab & Özsu 2005, §2.1 (two-buffer δ, intersection, negation by Equation 1).
Invariant  DISTINCT, INTERSECT, EXCEPT: as in `sets`. EXCEPT ALL: the max(v1 - v2, 0) left copies with the greatest
           exp are shown. INTERSECT ALL: min(v1, v2) pairs, paired anew when one of a pair ends.
Pattern    INTERSECT ALL of WEAK inputs: WEAK; everything else here: STRICT.
State      per live copy: its exp and its place in its value's treap.
Cost       O(log copies of the value) an event, O(1) amortised if copies come and go in the order of their ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from penstock.kernels.sets import distinct
from penstock.kernels.sets import multiset as kernels
from penstock.kernels.sets.treap import UNLINKED
from penstock.operators.capabilities import Holding
from penstock.operators.contract import Site, empty, in_order, signs
from penstock.plan.edge import Edge
from penstock.plan.update_pattern import Pattern
from penstock.state import key_words
from penstock.state.arena import Slab
from penstock.state.live_rows import Events, Roster, Signs
from penstock.state.payload import Frame
from penstock.state.renumbering import Renumbering
from penstock.state.slot_pool import Slots
from penstock.state.value_ids import Registry
from penstock.types.batch import Array, Batch, Column, Ints, gather
from penstock.types.data_type import Type
from penstock.types.schema import Schema

NEVER = int(kernels.NEVER)


class SidedEvents(NamedTuple):
    """Events of both inputs in time order, ends first within an instant; `sides`: 0 left, 1 right."""

    times: Ints
    slots: Slots
    sides: Signs
    signs: Signs


class Side:
    """The copies of one input: a roster of bare lifetimes whose payload is the value's number."""

    def __init__(self, site: Site, name: str, edge: Edge) -> None:
        self.told = edge.told
        self.roster = Roster(site.arena, f"{site.name}.{name}", [Type.INT], edge, site.upkeep)
        self.links = Slab(
            site.arena, f"{site.name}.{name}.links",
            treap=(np.int32, UNLINKED), rank=(np.uint32, 0), mate=(np.int32, -1),
            on=(np.bool_, False), plus=(np.int64, -1),
        )  # fmt: skip

    def shrink(self, coming: int) -> Renumbering | None:
        """Renumber the copies if few of many slots are taken; None: they stay."""
        made = self.roster.shrink(coming)
        if made is not None:
            self.links.renumber(made)
            self.links.refer(made, "treap")
        return made

    @property
    def gid(self) -> Array:
        return self.roster.frame.values[0]

    @property
    def exp(self) -> Ints:
        return self.roster.slab["exp"]


class BagOperation:
    """One of kernels.DISTINCT, INTERSECT, EXCEPT, INTERSECT_ALL, EXCEPT_ALL."""

    def __init__(
        self, site: Site, schema: Schema, mode: int, edges: Sequence[Edge], *, retracts: bool
    ) -> None:
        self._mode = mode
        self._retracts = retracts
        self._tells = site.tells
        self._types = [f.type for f in schema]
        arena, name = site.arena, site.name
        self._arena = arena
        self._values = Registry(arena, f"{name}.value", key_words.width(self._types))
        self._frame = Frame(arena, f"{name}.row", self._types)
        self._two = len(edges) > 1
        sides = [*edges, Edge(Pattern.MONOTONIC)][:2]
        self._sides = [Side(site, side, e) for side, e in zip(("left", "right"), sides, strict=True)]
        self._state = Slab(
            arena, name,
            l_root=(np.int32, -1), l_last=(np.int32, -1), r_root=(np.int32, -1), r_last=(np.int32, -1), copies=(np.int64, 0),
            value=(np.int64, distinct.BLANK),
            lefts=(np.int64, 0), rights=(np.int64, 0), lowest=(np.int32, -1), count=(np.int64, 0),
            stamp=(np.int64, NEVER),
        )  # fmt: skip

    def step(self, inputs: Sequence[Batch], now: int) -> Batch:
        left = self._enter(self._sides[0], inputs[0], now)
        right = self._enter(self._sides[1], inputs[1] if len(inputs) > 1 else empty(1), now)
        events = _merged(left, right)
        if not len(events.times):
            return empty(len(self._types))
        self._arena.visits += len(events.times)
        out = self._run(events)
        self._forget(left, right)
        return out

    def holdings(self) -> list[Holding]:
        copies = [
            Holding(f"copies {what}", f"treaps by value over a {side.roster.structure}", len(side.roster))
            for what, side in zip(("left", "right"), self._sides, strict=True)
        ]
        values = Holding("values", "of each what is shown", len(self._values))
        return [*(copies if self._two else copies[:1]), values]

    def shrink(self, coming: int) -> None:
        left, right = self._sides
        for side, other, refers in (
            (left, right, ("l_root", "l_last", "lowest")),
            (right, left, ("r_root", "r_last")),
        ):
            made = side.shrink(coming)
            if made is not None:
                other.links.refer(made, "mate")
                self._state.refer(made, *refers)
        made = self._values.shrink(coming)
        if made is not None:
            self._state.renumber(made)
            self._frame.renumber(made)
            for side in self._sides:
                side.roster.refer(made)

    def _enter(self, side: Side, batch: Batch, now: int) -> Events:
        n = len(batch)
        if n:
            gids, new = self._values.ids_and_new(key_words.rows(batch.columns, self._types, n))
            self._state.fit(self._values.capacity)
            self._frame.fit(self._values.capacity)
            self._frame.put(gids[new], gather(batch.columns, new))
            np.add.at(self._state["copies"], gids, signs(batch))
            batch = batch.with_columns((Column(gids),))
        events = side.roster.step(batch, now)
        side.links.fit(side.roster.capacity)
        return events

    def _run(self, events: SidedEvents) -> Batch:
        left, right = self._sides
        state = self._state
        out = np.empty((3 * len(events.times) + 8, 4), np.int64)
        touched = np.empty(len(events.times), np.int32)
        lefts = (
            left.gid, left.exp, state["l_root"], state["l_last"], left.links["treap"], left.links["rank"],
        )  # fmt: skip
        rights = (
            right.gid, right.exp, state["r_root"], state["r_last"], right.links["treap"], right.links["rank"],
        )  # fmt: skip
        if self._mode == kernels.EXCEPT_ALL:
            made = kernels.except_all(
                *events, *lefts, right.gid, state["lefts"], state["rights"], state["lowest"],
                state["count"], left.links["on"], left.links["plus"], state["stamp"], touched, self._tells, out,
            )  # fmt: skip
        elif self._mode == kernels.INTERSECT_ALL:
            made = kernels.intersect_all(
                *events,
                *lefts,
                left.links["mate"],
                *rights,
                right.links["mate"],
                state["stamp"],
                touched,
                self._tells,
                out,
            )
        else:
            made = kernels.set_step(
                self._mode,
                *events,
                *lefts,
                *rights,
                state["value"],
                state["stamp"],
                touched,
                self._tells,
                out,
            )
        out = out[:made]
        out = out[out[:, 3] != 0]
        sign = out[:, 3].astype(np.int8)
        order = in_order(out[:, 0].copy(), sign)
        if order is not None:
            out, sign = out[order], sign[order]
        columns = self._frame.at(out[:, 2].copy())
        return Batch(out[:, 0].copy(), out[:, 1].copy(), columns, sign if self._retracts else None)

    def _forget(self, left: Events, right: Events) -> None:
        """Values without a copy give their numbers back."""
        natural = []
        for side, events in zip(self._sides, (left, right), strict=True):
            ended = events.ended
            if len(ended):
                if not side.told:
                    by_time = ended[side.roster.end[ended] == side.exp[ended]]
                    np.subtract.at(self._state["copies"], side.gid[by_time], 1)
                natural.append(side.gid[ended])
            side.roster.finish()
        if natural:
            gids = np.unique(np.concatenate(natural))
            gone = gids[self._state["copies"][gids] == 0]
            self._state["value"][gone] = distinct.BLANK
            self._values.release(gone)


def _merged(left: Events, right: Events) -> SidedEvents:
    """Events of both sides in time order, ends first."""
    if not len(right.times):
        return SidedEvents(left.times, left.slots, np.zeros(len(left.times), np.int8), left.signs)
    times = np.concatenate([left.times, right.times])
    slots = np.concatenate([left.slots, right.slots])
    sign = np.concatenate([left.signs, right.signs])
    sides = np.zeros(len(times), np.int8)
    sides[len(left.times) :] = 1
    order = in_order(times, sign)
    if order is None:
        return SidedEvents(times, slots, sides, sign)
    return SidedEvents(times[order], slots[order], sides[order], sign[order])
