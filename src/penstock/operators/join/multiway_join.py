"""Multiway join of any inputs: no intermediate state, each arrival walks the other inputs' SteMs.

For what `fifo_join` cannot: inputs that end in any order or take rows back, tables, any predicate.

Paper      Madden et al. 2002 (SteMs); Viglas et al. 2003 (M-Join); lifetimes: Golab & Özsu 2005, §2.2.
Invariant  a result lives in [max ts, min end) of its parts; it is made once, by its last arrival in
           (ts, alias) order, and taken back once, by the first of its parts to end early.
Pattern    rule 3; one stream with tables looked up at arrival (NRR) keeps its input's pattern.
State      one SteM per input (`LinkedRoster`); tables by version.
Cost       O(arrivals × partners met). A walk visits next the input that met fewest partners per probe so far.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.kernels.join import chains
from penstock.operators.capabilities import Holding, Share
from penstock.operators.contract import Site, empty, in_order, placed, together
from penstock.operators.join.predicates import Equality, KeyMaker, Tester, offsets, take_apart
from penstock.plan.edge import Edge
from penstock.plan.expressions import Expression, columns
from penstock.plan.update_pattern import Pattern
from penstock.state.indexed_live_rows import LinkedRoster
from penstock.types import limits, sizes
from penstock.types.batch import ABSENT, Array, Batch, Column, Ints, Mask
from penstock.types.schema import Schema


@dataclass(slots=True)
class Input:
    """One input: what of it is stored (positions in its schema), and its SteM."""

    schema: Schema
    offset: int
    stored: tuple[int, ...]
    lookup: bool
    """A table read as of the result's ts: never starts a walk, never ends a result."""
    keys: KeyMaker
    stem: LinkedRoster = field(init=False)
    passed_by: Mask = field(init=False)
    """Some rows were not stored: nothing can match them."""


@dataclass(slots=True)
class Walk:
    """Partial results of one walk: where each bound input's row is, and when the walk's row came or ended."""

    times: Ints
    slots: dict[int, Array]

    def take(self, rows: Array) -> Walk:
        return Walk(self.times[rows], {i: s[rows] for i, s in self.slots.items()})


class MultiwayJoin:
    """Any number of inputs of any pattern, any predicates."""

    def __init__(
        self,
        site: Site,
        schemas: Sequence[Schema],
        predicates: Sequence[Expression],
        edges: Sequence[Edge],
        lookups: Sequence[bool],
        needed: frozenset[int],
    ) -> None:
        self._equalities, self._residuals = take_apart(predicates, schemas)
        self._tester = Tester(site)
        self.told = needed
        """Columns that results have: less than what is kept, where not all of that is read of them."""
        self._places: dict[frozenset[int], list[tuple[list[int], list[int]]]] = {}
        """By columns that are read: of every input which of the stored ones these are, and where they stand."""
        self._width = sum(len(s) for s in schemas)
        tested = {c.index for r in self._residuals for c in columns(r.whole)}
        tested |= {c.index for e in self._equalities for c in columns(e.whole)}
        starts = offsets(schemas)
        self._arena = site.arena
        self._tells = site.tells
        self._strict = site.tells or any(
            e.pattern is Pattern.STRICT for e, lookup in zip(edges, lookups, strict=True) if not lookup
        )
        self._inputs: list[Input] = []
        for i, (schema, start, lookup) in enumerate(zip(schemas, starts, lookups, strict=True)):
            stored = tuple(k for k in range(len(schema)) if start + k in needed or start + k in tested)
            one = Input(schema, start, stored, lookup, KeyMaker(site))
            self._make_indexes(i, one)
            types = [schema[k].type for k in stored] + one.keys.strings
            name = f"{site.name}.{i}"
            # Who tells nobody of ends as announced may find them later.
            one.stem = LinkedRoster(
                site.arena, name, types, one.keys.count, Edge(Pattern.STRICT) if lookup else edges[i],
                site.upkeep, tells=site.tells, lazy=not site.tells,
            )  # fmt: skip
            one.passed_by = site.arena.array(f"{name}.passed", np.bool_, 1, False)
            self._inputs.append(one)
        self._shares: dict[Expression, Share] = {e.whole: Share() for e in self._equalities}
        self._fan = site.arena.array(f"{site.name}.fan", np.float64, (len(schemas), len(schemas)), -1.0)

    def _make_indexes(self, i: int, one: Input) -> None:
        """One index per partner this input shares equalities with, and one of all rows for walks without."""
        for partner in {e.left + e.right - i for e in self._equalities if i in (e.left, e.right)}:
            one.keys.index([e.side(i) for e in self._between(i, partner)])
        one.keys.index([])

    def _between(self, i: int, j: int) -> list[Equality]:
        return [e for e in self._equalities if {e.left, e.right} == {i, j}]

    # ------------------------------------------------------------------ a step

    def step(self, inputs: Sequence[Batch], now: int) -> Batch:
        total = sum(len(b) for b in inputs)
        live = sum(len(i.stem) for i in self._inputs)
        limit = max(4096, live // 4)
        if total <= limit or self._strict:
            return self._slice(inputs, now)
        # Long steps are cut in time: rows newer than a probe only lengthen its walk.
        longest = max(inputs, key=len)
        cuts = longest.ts[np.arange(1, total // limit + 1) * len(longest) // (total // limit + 1)]
        outputs = []
        begin = [0] * len(inputs)
        for until in [*np.unique(cuts).tolist(), now]:
            ends = [int(np.searchsorted(b.ts, until, side="right")) for b in inputs]
            part = [b.slice(s, e) for b, s, e in zip(inputs, begin, ends, strict=True)]
            outputs.append(_gathered(self._slice(part, until)))
            begin = ends
        return together(outputs)

    def _slice(self, inputs: Sequence[Batch], now: int) -> Batch:
        started: list[Array] = []
        retracted: list[Array] = []
        for one, batch in zip(self._inputs, inputs, strict=True):
            new, gone = self._enter(one, batch, now)
            started.append(new)
            retracted.append(gone)
        out = self._changed(started, retracted, now) if self._strict else self._found(started)
        self._entered()
        return out

    def take_in(self, inputs: Sequence[Batch], now: int) -> None:
        """Rows whose results have been told elsewhere: nothing is walked, however many meet."""
        for one, batch in zip(self._inputs, inputs, strict=True):
            self._enter(one, batch, now)
        self._entered()

    def shrink(self, coming: int) -> None:
        for one in self._inputs:
            one.stem.shrink(coming)

    def _entered(self) -> None:
        for one in self._inputs:
            # Results over versions of a table that are gone may yet have to be taken back.
            if not (one.lookup and self._strict):
                one.stem.finish()

    def _found(self, started: Sequence[Array]) -> Batch:
        """What new rows make where nothing is ever taken back. Walks are put in order, not what they meet: of a result's columns each is
        gathered once."""
        walks = []
        for i, one in enumerate(self._inputs):
            if not one.lookup:
                for new in self._pieces(i, started[i]):
                    walk = self._walk(i, Walk(one.stem.ts[new], {i: new}), back=False)
                    if len(walk.times):
                        walks.append(walk)
        if not walks:
            return empty(self._width)
        walk = walks[0] if len(walks) == 1 else _after_one_another(walks)
        order = in_order(walk.times, None)
        if order is not None:
            walk = walk.take(order)
        return Batch(walk.times, self._ends(walk, "exp"), self._columns(walk, self.told))

    def _changed(self, started: Sequence[Array], retracted: Sequence[Array], now: int) -> Batch:
        """What new rows make, and what ends with rows that end."""
        outputs = []
        for i, one in enumerate(self._inputs):
            if one.lookup:
                continue
            for new in self._pieces(i, started[i]):
                walk = Walk(one.stem.ts[new], {i: new})
                outputs.extend(self._results(self._walk(i, walk, back=False), now))
            for gone in self._pieces(i, retracted[i]):
                walk = Walk(one.stem.end[gone], {i: gone})
                outputs.append(self._taken_back(self._walk(i, walk, back=True)))
        return _gathered(together(outputs)) if outputs else empty(self._width)

    def _pieces(self, i: int, rows: Array) -> Iterator[Array]:
        """Rows that start walks, in pieces whose pairs with inputs that no equality reaches fit in memory."""
        pairs = 1
        for j, one in enumerate(self._inputs):
            if j != i and not any(j in (e.left, e.right) for e in self._equalities):
                pairs *= max(1, len(one.stem))
        size = max(1, sizes.current.join_pairs // pairs)
        for begin in range(0, len(rows), size):
            yield rows[begin : begin + size]

    def _enter(self, one: Input, batch: Batch, now: int) -> tuple[Array, Array]:
        """Put a batch into its SteM; returns slots that started and slots that ended early."""
        before = len(batch)
        batch, keys = one.keys.clean(batch)
        one.passed_by[0] |= len(batch) < before
        stored = tuple(batch.columns[k] for k in one.stored) + one.keys.held(batch)
        if batch.sign is not None:
            plus = np.flatnonzero(batch.sign > 0)
            keys = [k[plus] for k in keys]
        events = one.stem.step(batch.with_columns(stored), keys, now)
        gone = one.stem.to_tell(events)
        return events.started, gone[~one.stem.fresh[gone]]

    def holdings(self) -> list[Holding]:
        return [
            Holding(f"input {i + 1}", f"hash chains over a {one.stem.roster.structure}", len(one.stem))
            for i, one in enumerate(self._inputs)
        ]

    def shares(self) -> dict[str, float]:
        return {str(p): share.value for p, share in self._shares.items() if share.value is not None}

    def alive(self, which: int, now: int) -> Batch | None:
        one = self._inputs[which]
        return None if one.passed_by[0] and one.stem.roster.matches else self.joinable(which, now)

    def joinable(self, which: int, now: int) -> Batch:
        """The rows of an input that something can match."""
        one = self._inputs[which]
        slots = one.stem.alive(now)
        columns = placed(one.stem.columns(slots), one.stored, len(one.schema))
        return Batch(np.full(len(slots), now), one.stem.exp[slots], columns)

    # ------------------------------------------------------------------ walks

    def _walk(self, i: int, walk: Walk, *, back: bool) -> Walk:
        """Extend rows of input i by every other input; `back`: find results that end now."""
        bound = {i}
        while len(bound) < len(self._inputs):
            if not len(walk.times):
                return Walk(walk.times, dict.fromkeys(range(len(self._inputs)), _NONE))
            target, partner = self._next(i, bound, back)
            bound.add(target)
            walk = self._hop(i, walk, target, partner, back=back)
            walk = self._tested(walk, bound, target, partner)
        return walk

    def _next(self, i: int, bound: set[int], back: bool) -> tuple[int, int]:
        """The connected input with the least partners per probe; tables last when results end."""
        best: tuple[float, int, int] | None = None
        for target in range(len(self._inputs)):
            if target in bound:
                continue
            partner = next((p for p in sorted(bound) if self._between(p, target)), -1)
            # Without a key every row is a candidate, however few were met by one.
            fan = self._fan[i, target] if partner >= 0 else -1.0
            guess = fan if fan >= 0 else float(len(self._inputs[target].stem))
            cost = (
                guess
                + (0.0 if partner >= 0 else 1e12)
                + (1e15 if back and self._inputs[target].lookup else 0.0)
            )
            if best is None or cost < best[0]:
                best = (cost, target, partner)
        assert best is not None
        return best[1], best[2]

    def _hop(self, i: int, walk: Walk, target: int, partner: int, *, back: bool) -> Walk:
        """Probe one input for every partial result."""
        one = self._inputs[target]
        stem = one.stem
        equal = self._between(target, partner) if partner >= 0 else []
        index = stem.indexes[one.keys.index([e.side(target) for e in equal])]
        keys = self._probe_keys(walk, partner, equal)
        smaller = one.lookup or target < i
        times = walk.times
        if back and one.lookup:
            times = np.maximum.reduce([self._inputs[k].stem.ts[s] for k, s in walk.slots.items()])
        n = len(keys)
        fan = self._fan[i, target] if equal else min(float(len(stem)), sizes.current.fan_outputs / max(n, 1))
        room = max(sizes.current.join_outputs, int(2 * n * max(fan, 0.25)))
        rows_out, slots_out = [], []
        done = total = 0
        while done < n:
            row, slot = np.empty(room, np.int32), np.empty(room, np.int32)
            before = done
            if back and not one.lookup:
                done, made = chains.probe_back(
                    keys, times, done, index.key, index.head, index.chain, stem.exp, stem.end, stem.fresh,
                    target > i, self._tells, row, slot,
                )  # fmt: skip
            else:
                done, made = chains.probe(
                    keys, times, done, index.key, index.head, index.chain, stem.ts, stem.end, smaller, row, slot
                )  # fmt: skip
            rows_out.append(row[:made])
            slots_out.append(slot[:made])
            total += made
            limits.check_results(total)
            if done == before:
                room *= 2
        rows = rows_out[0] if len(rows_out) == 1 else np.concatenate(rows_out)
        found = slots_out[0] if len(slots_out) == 1 else np.concatenate(slots_out)
        self._arena.visits += len(rows)
        if not back:
            if equal:
                self._learn(i, target, n, len(rows))
            for e in equal:
                # Of several the share of each is taken to be alike.
                pairs = n * len(stem)
                self._shares[e.whole].count(pairs, (len(rows) / max(pairs, 1)) ** (1 / len(equal)) * pairs)
        walk = walk.take(rows)
        walk.slots[target] = found
        return walk

    def _probe_keys(self, walk: Walk, partner: int, equal: Sequence[Equality]) -> Ints:
        """The partner's side of the key, for every partial result."""
        if partner < 0:
            return np.zeros(len(walk.times), np.int64)
        one = self._inputs[partner]
        index = one.stem.indexes[one.keys.index([e.side(partner) for e in equal])]
        return index.key[walk.slots[partner]]

    def _learn(self, i: int, target: int, probes: int, met: int) -> None:
        fan = met / probes
        old = self._fan[i, target]
        weight = min(1.0, probes / 4096)
        self._fan[i, target] = fan if old < 0 else old + weight * (fan - old)

    def _tested(self, walk: Walk, bound: set[int], target: int, partner: int) -> Walk:
        """Drop partial results that fail a predicate that can now be tested."""
        due = [r.whole for r in self._residuals if target in r.inputs and r.inputs <= bound]
        used = self._between(target, partner) if partner >= 0 else []
        for e in self._equalities:
            if (
                target in (e.left, e.right)
                and {e.left, e.right} <= bound
                and (e not in used or len(used) > 1)
            ):
                due.append(e.whole)
        for predicate in due:
            if not len(walk.times):
                break
            read = frozenset(c.index for c in columns(predicate))
            passed = self._tester.test(predicate, self._columns(walk, read), walk.times)
            if not passed.all():
                walk = walk.take(np.flatnonzero(passed))
        return walk

    def _columns(self, walk: Walk, wanted: frozenset[int]) -> tuple[Column, ...]:
        found = self._places.get(wanted)
        if found is None:
            found = self._places[wanted] = [_among(one, wanted) for one in self._inputs]
        out: list[Column] = [ABSENT] * self._width
        for i, slots in walk.slots.items():
            which, places = found[i]
            if which:
                for place, column in zip(places, self._inputs[i].stem.columns(slots, which), strict=True):
                    out[place] = column
        return tuple(out)

    # ------------------------------------------------------------------ results

    def _ends(self, walk: Walk, what: str) -> Ints:
        parts = [
            getattr(self._inputs[i].stem, what)[s]
            for i, s in walk.slots.items()
            if not self._inputs[i].lookup
        ]
        first: Ints = parts[0]
        return first if len(parts) == 1 else np.minimum.reduce(parts)

    def _results(self, walk: Walk, now: int) -> list[Batch]:
        """New results; those that end early within the step carry their '-' along."""
        if not len(walk.times):
            return []
        exp = self._ends(walk, "exp")
        columns = self._columns(walk, self.told)
        plus = Batch(walk.times, exp, columns, np.ones(len(exp), np.int8))
        end = self._ends(walk, "end")
        early = np.flatnonzero((end < exp) | (end <= now) if self._tells else end < exp)
        if not len(early):
            return [plus]
        minus = plus.take(early)
        minus.ts, minus.sign = end[early], np.full(len(early), -1, np.int8)
        return [plus, minus]

    def _taken_back(self, walk: Walk) -> Batch:
        exp = self._ends(walk, "exp")
        return Batch(walk.times, exp, self._columns(walk, self.told), np.full(len(exp), -1, np.int8))


def _among(one: Input, wanted: frozenset[int]) -> tuple[list[int], list[int]]:
    """Which of an input's stored columns are wanted, and where they stand among those of all."""
    found = [(n, one.offset + k) for n, k in enumerate(one.stored) if one.offset + k in wanted]
    return [n for n, _ in found], [place for _, place in found]


_NONE = np.empty(0, np.int32)


def _after_one_another(walks: Sequence[Walk]) -> Walk:
    return Walk(
        np.concatenate([w.times for w in walks]),
        {i: np.concatenate([w.slots[i] for w in walks]) for i in walks[0].slots},
    )


def _gathered(batch: Batch) -> Batch:
    """Columns read now: SteM rows may move with the next slice."""
    order = in_order(batch.ts, batch.sign)
    if order is not None:
        batch = batch.take(order)
    for column in batch.columns:
        if column is not ABSENT:
            _ = column.values
    return batch
