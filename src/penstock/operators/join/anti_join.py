"""NOT EXISTS and LEFT ANTI JOIN: left rows while no right row matches.

Paper      Golab & Özsu 2005, §2.1 (negation), here with any predicate.
Invariant  a left row is shown exactly while its number of live matching right rows is zero.
Pattern    STRICT: an arrival on the right takes left rows back.
State      both inputs' live rows, linked by key; per left row its number of matches.
Cost       O(arrivals and ends × matches).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from penstock.kernels.join import chains
from penstock.operators.capabilities import Holding, Share
from penstock.operators.contract import Site, empty, in_order, placed, signs, together
from penstock.operators.join.predicates import KeyMaker, Tester, take_apart
from penstock.operators.retracting_window import Negatives
from penstock.plan.edge import Edge
from penstock.plan.expressions import Expression, columns
from penstock.plan.update_pattern import Pattern
from penstock.state.arena import Slab
from penstock.state.indexed_live_rows import LinkedRoster
from penstock.types import limits, sizes
from penstock.types.batch import ABSENT, Array, Batch, Column, Ints
from penstock.types.schema import Schema


class AntiJoinOperation:
    def __init__(
        self,
        site: Site,
        schemas: tuple[Schema, Schema],
        predicates: Sequence[Expression],
        edges: Sequence[Edge],
        needed: frozenset[int],
        *,
        lookup: bool = False,
    ) -> None:
        """`lookup`: the right is a table as it is when a left row comes; what becomes of it later is no matter."""
        if lookup:
            edges = [edges[0], Edge(Pattern.STRICT)]
        self._lookup = lookup
        equalities, residuals = take_apart(predicates, schemas)
        self._tester = Tester(site)
        self._tests = [r.whole for r in residuals]
        if len(equalities) > 1:
            self._tests += [e.whole for e in equalities]
        keyed = {c.index for e in equalities for c in columns(e.whole)}
        tested = {c.index for t in self._tests for c in columns(t)} | keyed
        self._width = len(schemas[0])
        self._whole = self._width + len(schemas[1])
        self._keys = [KeyMaker(site), KeyMaker(site)]
        self._sides: list[LinkedRoster] = []
        self._stored: list[tuple[int, ...]] = []
        for i, (schema, start) in enumerate(zip(schemas, (0, self._width), strict=True)):
            wanted = (needed | tested) if i == 0 else tested
            stored = tuple(k for k in range(len(schema)) if start + k in wanted)
            self._stored.append(stored)
            self._keys[i].index([e.side(i) for e in equalities])
            types = [schema[k].type for k in stored] + self._keys[i].strings
            name = f"{site.name}.{'left' if i == 0 else 'right'}"
            # Who has no matches any more is shown again at once: both sides' ends are waited for.
            self._sides.append(
                LinkedRoster(site.arena, name, types, 1, edges[i], site.upkeep, tells=site.tells, lazy=False)
            )
        self._texts = [str(e.whole) for e in equalities]
        self._text = " AND ".join(map(str, predicates))
        self._share = Share()
        self._passed_by = site.arena.array(f"{site.name}.passed", np.bool_, 2, False)
        """Some rows of a side were not stored: nothing can match them."""
        self._told_of = [True, edges[1].matches]
        """Left rows are shown all the same, and right rows may be told to end."""
        self._widths = [len(s) for s in schemas]
        self._unmatched = None
        if site.tells and not edges[0].told:
            own = replace(site, name=f"{site.name}.unmatched")
            self._unmatched = Negatives(own, schemas[0], self._stored[0], edges[0])
        self._matches = Slab(site.arena, f"{site.name}.matches", count=(np.int64, 0))

    def step(self, inputs: Sequence[Batch], now: int) -> Batch:
        left, right = self._sides
        l_batch, (l_key,), apart = self._clean_left(inputs[0])
        r_batch, (r_key,) = self._keys[1].clean(inputs[1])
        self._passed_by[1] |= len(r_batch) < len(inputs[1])
        l_new, l_gone, _ = self._enter(0, l_batch, l_key, now)
        r_new, _, r_ended = self._enter(1, r_batch, r_key, now)
        self._matches.fit(left.roster.capacity)
        self._matches["count"][l_new] = 0
        # Matches begin with the later of the two (left first in an instant) and end with the right row.
        found = [
            (l_new, left.ts[l_new], np.zeros(len(l_new), np.int64)),
            (l_gone, left.end[l_gone], np.zeros(len(l_gone), np.int64)),
            self._met_by(l_new, left.ts[l_new]),
        ]
        if not self._lookup:
            found.append(self._met(right, r_new, right.ts[r_new], left, tie=True, delta=1))
            found.append(self._met(right, r_ended, right.end[r_ended], left, tie=False, delta=-1))
        slots, times, deltas = (np.concatenate(p) for p in zip(*found, strict=True))
        out = self._transitions(slots, times, deltas) if len(slots) else empty(self._width)
        left.finish()
        right.finish()
        if self._unmatched is not None:
            apart = self._unmatched.step([apart], now)
        return together([out, apart]) if len(apart) else out

    def holdings(self) -> list[Holding]:
        return [
            Holding(what, f"hash chains over a {side.roster.structure}", len(side))
            for what, side in zip(("left", "right"), self._sides, strict=True)
        ]

    def shares(self) -> dict[str, float]:
        share = self._share.value
        return {} if share is None else dict.fromkeys(self._texts, share ** (1 / max(len(self._texts), 1)))

    def matched(self) -> dict[str, float]:
        """The share of left rows that have a match."""
        slots = self._sides[0].roster.live()
        return {self._text: float((self._matches["count"][slots] > 0).mean())} if len(slots) else {}

    def alive(self, which: int, now: int) -> Batch | None:
        if self._passed_by[which] and self._told_of[which]:
            return None
        side = self._sides[which]
        slots = side.alive(now)
        columns = placed(side.columns(slots), self._stored[which], self._widths[which])
        return Batch(np.full(len(slots), now), side.exp[slots], columns)

    def shrink(self, coming: int) -> None:
        left, right = self._sides
        made = left.shrink(coming)
        if made is not None:
            self._matches.renumber(made)
        right.shrink(coming)
        if self._unmatched is not None:
            self._unmatched.shrink(coming)

    def _clean_left(self, batch: Batch) -> tuple[Batch, list[Ints], Batch]:
        """Left rows with a NULL key match nothing: they pass as they are."""
        cleaned, keys = self._keys[0].clean(batch)
        if len(cleaned) == len(batch):
            return cleaned, keys, empty(self._width)
        self._passed_by[0] = True
        apart = batch.take(np.flatnonzero(~self._keys[0].can_match(batch)))
        apart = Batch(apart.ts, apart.exp, apart.columns, signs(apart))
        return cleaned, keys, apart

    def _enter(self, side: int, batch: Batch, key: Ints, now: int) -> tuple[Array, Array, Array]:
        """Slots that started, whose end is to be told, and all that ended."""
        roster = self._sides[side]
        if batch.sign is not None:
            key = key[batch.sign > 0]
        stored = tuple(batch.columns[k] for k in self._stored[side]) + self._keys[side].held(batch)
        events = roster.step(batch.with_columns(stored), [key], now)
        return events.started, roster.to_tell(events), events.ended

    def _met(
        self, own: LinkedRoster, rows: Array, times: Ints, other: LinkedRoster, *, tie: bool, delta: int
    ) -> tuple[Array, Ints, Ints]:
        """Left slots that right `rows` match at `times`."""
        found, partner = self._probe(own, rows, times, other, tie)
        found, partner = self._pass(partner, rows[found], times[found])
        return found, partner, np.full(len(found), delta, np.int64)

    def _met_by(self, rows: Array, times: Ints) -> tuple[Array, Ints, Ints]:
        """Left `rows`, once for each right row alive that matches."""
        left, right = self._sides
        found, partner = self._probe(left, rows, times, right, self._lookup)
        slots, at = self._pass(rows[found], partner, times[found])
        return slots, at, np.ones(len(slots), np.int64)

    def _probe(
        self, own: LinkedRoster, rows: Array, times: Ints, other: LinkedRoster, tie: bool
    ) -> tuple[Array, Array]:
        keys = own.indexes[0].key[rows]
        index = other.indexes[0]
        n, done, total, room = len(rows), 0, 0, max(sizes.current.join_outputs, 2 * len(rows))
        out_rows, out_slots = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
        while done < n:
            row, slot = np.empty(room, np.int32), np.empty(room, np.int32)
            before = done
            done, made = chains.probe(
                keys, times, done, index.key, index.head, index.chain, other.ts, other.end, tie, row, slot
            )
            out_rows.append(row[:made])
            out_slots.append(slot[:made])
            total += made
            limits.check_results(total)
            if done == before:
                room *= 2
        self._share.count(n * len(other), sum(map(len, out_rows)))
        return np.concatenate(out_rows), np.concatenate(out_slots)

    def _pass(self, l_slots: Array, r_slots: Array, times: Ints) -> tuple[Array, Ints]:
        """Pairs that satisfy what the key does not say: left slots and times."""
        for test in self._tests:
            if not len(l_slots):
                break
            row: list[Column] = [ABSENT] * self._whole
            for side, slots, start in ((0, l_slots, 0), (1, r_slots, self._width)):
                for k, column in zip(self._stored[side], self._sides[side].columns(slots), strict=False):
                    row[start + k] = column
            passed = self._tester.test(test, row, times)
            l_slots, r_slots, times = l_slots[passed], r_slots[passed], times[passed]
        return l_slots, times

    def _transitions(self, slots: Array, times: Ints, deltas: Ints) -> Batch:
        """Left rows whose count becomes zero ('+') or stops being zero ('-'), instant by instant."""
        left = self._sides[0]
        order = np.lexsort((times, slots))
        slots, times, deltas = slots[order], times[order], deltas[order]
        new_slot = np.ones(len(slots), np.bool_)
        new_slot[1:] = slots[1:] != slots[:-1]
        new_pair = new_slot.copy()
        new_pair[1:] |= times[1:] != times[:-1]
        at = np.flatnonzero(new_pair)
        net = np.add.reduceat(deltas, at)
        slots, times, first = slots[at], times[at], new_slot[at]
        running = np.cumsum(net)
        begins = np.flatnonzero(first)
        # Subtract what other rows had accumulated before this row began.
        base = np.repeat(running[begins] - net[begins], np.diff(np.append(begins, len(net))))
        after = running - base + self._matches["count"][slots]
        before = after - net
        born = left.fresh[slots] & (left.ts[slots] == times)
        was = ~born & (before == 0)
        shown = (after == 0) & (times < left.end[slots])
        last = np.append(begins[1:], len(net)) - 1
        self._matches["count"][slots[last]] = after[last]
        rows = np.flatnonzero(was != shown)
        sign = np.where(shown[rows], 1, -1).astype(np.int8)
        columns: list[Column] = [ABSENT] * self._width
        for k, column in zip(self._stored[0], left.columns(slots[rows]), strict=False):
            _ = column.values
            columns[k] = column
        made = Batch(times[rows], left.exp[slots[rows]], tuple(columns), sign)
        by_time = in_order(made.ts, sign)
        return made if by_time is None else made.take(by_time)
