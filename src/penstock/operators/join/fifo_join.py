"""Multiway equi-join of FIFO windows: no intermediate state, event at a time in one kernel.

Paper      Madden et al. 2002 (SteMs); Viglas et al. 2003 (M-Join); lifetimes: Golab & Özsu 2005, §2.2.
Invariant  each row walks the other inputs' SteMs and then enters its own: every result once, by its last
           arrival in (ts, alias) order, alive in [max ts, min exp), in time order.
Pattern    WEAKEST, MONOTONIC → WEAK (MONOTONIC over streams).
State      one SteM per input, one index per partner; no ts: all that can be met came earlier.
Cost       O(arrivals + live partners met). A walk visits next the input that met fewest partners per probe, tests there all
           equalities with what is bound, and drops what another input cannot support (`questions`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from penstock.kernels.join import chains, cyclic, semijoin_probe, two_way
from penstock.operators.capabilities import Holding, Share
from penstock.operators.contract import Site, empty, placed
from penstock.operators.join.cyclic import Cycles
from penstock.operators.join.predicates import Equality, KeyMaker, Residual, Tester, offsets
from penstock.operators.join.ring_insert import entered
from penstock.operators.join.semijoin_checks import Questions
from penstock.plan.expressions import Expression, columns
from penstock.plan.join_tree import Demand
from penstock.state.lazy_index import Backing
from penstock.state.stems import Stems
from penstock.types import limits, sizes
from penstock.types.batch import ABSENT, Array, Batch, Column
from penstock.types.memory import joined, room
from penstock.types.schema import Schema


@dataclass(slots=True)
class Part:
    """Results: when they begin and end, and where their rows are; the first `made` of them are there."""

    ts: Array
    exp: Array
    slots: Array
    made: int = 0
    full: bool = False


@dataclass(frozen=True, slots=True)
class Kept:
    """Rows of an input as they lie in a SteM."""

    exp: Array
    keys: dict[tuple[Expression, ...], Array]
    columns: dict[int, Column]
    texts: dict[Expression, Column]
    """Keys that are strings."""


class FifoJoin:
    """Every input shares an equality with another, and all are connected by them."""

    def __init__(
        self,
        site: Site,
        schemas: Sequence[Schema],
        equalities: Sequence[Equality],
        residuals: Sequence[Residual],
        needed: frozenset[int],
    ) -> None:
        self._arena = site.arena
        self._name = site.name
        self._equalities = equalities
        self._tester = Tester(site)
        self._tests = [r.whole for r in residuals]
        n = len(schemas)
        self._keys = [KeyMaker(site) for _ in schemas]
        self._index: dict[tuple[int, int], int] = {}
        for i, j in sorted({pair for e in equalities for pair in ((e.left, e.right), (e.right, e.left))}):
            between = self._between(i, j)
            self._index[i, j] = self._keys[i].index([e.side(i) for e in between])
            # Keys of several attributes are hashes: test the equalities themselves.
            if i < j and len(between) > 1:
                self._tests += [e.whole for e in between]
        tested = {c.index for t in self._tests for c in columns(t)}
        if site.may_move:
            tested |= {c.index for e in equalities for c in columns(e.whole)}
        self._shares = {(min(e.left, e.right), max(e.left, e.right)): Share() for e in equalities}
        self._offsets = offsets(schemas)
        self._widths = [len(s) for s in schemas]
        self._width = sum(self._widths)
        self._stored = [
            tuple(k for k in range(len(s)) if start + k in needed | tested)
            for s, start in zip(schemas, self._offsets, strict=True)
        ]
        types = [
            [s[k].type for k in stored] + keys.strings
            for s, stored, keys in zip(schemas, self._stored, self._keys, strict=True)
        ]
        is_cyclic = len(self._index) // 2 > n - 1
        counts = [k.count for k in self._keys]
        first = np.cumsum(counts) - counts
        self._indexes = {(i, j): int(first[i]) + k for (i, j), k in self._index.items()}
        alike = _alike(self._indexes) if not is_cyclic else []
        self._stems = Stems(site.arena, site.name, types, counts, lazy=is_cyclic, alike=alike)
        demand = site.upkeep.demand
        self._questions = Questions(self._stems, self._indexes, n, demand, f"{site.name}.asked")
        self._cycles: Cycles | None = None
        if is_cyclic:
            self._cycles = Cycles(self._stems, self._indexes, n, demand, site.name)
            self._questions.promising = self._cycles.promising()
            self._order = self._cycles.order
        else:
            self._fan = site.arena.array(f"{site.name}.fan", np.float64, (n, n), -1.0)
            self._order = site.arena.array(f"{site.name}.order", np.int64, (n, n - 1, 4), -1)
            if self._order[0, 0, 0] < 0:
                self._plan()
        self._backing = Backing(
            self._stems, {} if is_cyclic else self._indexes, f"{site.name}.backed", demand is Demand.JIT
        )
        self._follow()
        self._ends = np.full(n, semijoin_probe.NEVER)
        self._room = sizes.current.join_outputs

    def _between(self, i: int, j: int) -> list[Equality]:
        return [e for e in self._equalities if {e.left, e.right} == {i, j}]

    def holdings(self) -> list[Holding]:
        return [
            Holding(f"input {i + 1}", "hash chains over a queue", rows)
            for i, rows in enumerate(self._stems.sizes)
        ]

    def counted(self) -> dict[str, int]:
        """Counters since this process began, for figures and EXPLAIN; of two inputs nothing is partial."""
        if len(self._keys) == 2:
            return {}
        asked = self._questions
        return {"made": asked.made, "suppressed": asked.suppressed, "asked": asked.asked}

    @property
    def held_bytes(self) -> int:
        """Of live rows: what is written of each and a bucket in every index; and all horizons."""
        stems = self._stems
        total = int(self._questions.horizons.nbytes) + (self._cycles.bits.nbytes if self._cycles else 0)
        total += int(self._backing.backed.nbytes)
        for rows, width, maker, frame in zip(
            stems.sizes, stems.edges[:, chains.WIDTH].tolist(), self._keys, stems.frames, strict=True
        ):
            total += rows * (8 * width + 4 * maker.count + sum(t.dtype.itemsize for t in frame.types))
        return total

    @property
    def held_values(self) -> int:
        """Ends and keys of live rows."""
        return sum(
            rows * (1 + maker.count) for rows, maker in zip(self._stems.sizes, self._keys, strict=True)
        )

    # ------------------------------------------------------------------ order

    def _plan(self) -> bool:
        """For each input: visit next the connected input with the fewest partners per probe so far. Whether that is new."""
        n = len(self._keys)
        before = self._order.copy()
        fan = self._fan.tolist()
        beside: list[list[int]] = [[] for _ in range(n)]
        for t, b in self._index:
            beside[b].append(t)
        for i in range(n):
            bound, last = {i}, i
            reached: list[tuple[float, int, int]] = []
            for h in range(n - 1):
                for t in beside[last]:
                    heappush(reached, (fan[i][t] if fan[i][t] >= 0 else 1e6, t, last))
                target = last
                while target in bound:
                    _, target, partner = heappop(reached)
                self._order[i, h] = (
                    target,
                    self._indexes[target, partner],
                    partner,
                    self._indexes[partner, target],
                )
                bound.add(target)
                last = target
        return not np.array_equal(before, self._order)

    def _follow(self) -> None:
        """Walks go in another order, or ask something else."""
        self._asked = self._questions.asked_of(self._order)
        if self._cycles is not None:
            self._cycles.follow(self._asked)

    def _learn(self, stats: Array) -> None:
        """Partners met per probe, smoothed; walks follow when one has moved by a tenth."""
        moved = False
        fan = self._fan
        for i, hops in enumerate(stats[:, :, :2].tolist()):
            for h, (probes, met) in enumerate(hops):
                if probes:
                    target, giver = int(self._order[i, h, 0]), int(self._order[i, h, 2])
                    live = self._backing.there(target, int(self._order[i, h, 1]))
                    self._count(giver, target, probes, met, live)
                    old, new = float(fan[i, target]), met / probes
                    if old >= 0:
                        new = old + min(1.0, probes / 4096) * (new - old)
                    fan[i, target] = new
                    moved = moved or abs(new - old) > 0.1 * abs(old)
        if moved and self._plan():
            self._follow()

    def _count(self, i: int, j: int, probes: int, met: int, live: float) -> None:
        """Partners met between two inputs, of so many live rows."""
        self._shares[min(i, j), max(i, j)].count(probes * live, met)

    def shares(self) -> dict[str, float]:
        found = {}
        for pair, share in self._shares.items():
            between = self._between(*pair)
            if share.value is not None:
                found.update({str(e.whole): share.value ** (1 / len(between)) for e in between})
        return found

    def alive(self, which: int, now: int) -> Batch:
        edge = self._stems.edges[which]
        rows = np.arange(int(edge[chains.TAIL]), int(edge[chains.USED]))
        columns = placed(self._stems.frames[which].at(rows), self._stored[which], self._widths[which])
        return Batch(np.full(len(rows), now), self._stems.table(which)[rows, 0], columns)

    def kept(self, which: int) -> Kept:
        """The rows of an input, for another join to go on with."""
        edge = self._stems.edges[which]
        rows = np.arange(int(edge[chains.TAIL]), int(edge[chains.USED]))
        table, maker = self._stems.table(which), self._keys[which]
        columns = self._stems.frames[which].at(rows)
        stored = self._stored[which]
        return Kept(
            table[rows, 0],
            {keys: table[rows, self._stems.field(which, k)] for k, keys in enumerate(maker.indexes)},
            dict(zip(stored, columns, strict=False)),
            dict(zip(maker.texts, columns[len(stored) :], strict=True)),
        )

    # ------------------------------------------------------------------ a step

    def step(self, inputs: Sequence[Batch], now: int) -> Batch:
        events = entered(self._keys, self._stored, inputs, self._stems)
        out = empty(self._width) if events is None else self._tested(self._walked(*events))
        self._stems.expire(now)
        self._questions.note(now)
        return out

    def shrink(self, coming: int) -> None:
        if not self._stems.shrink(coming):
            return
        self._backing.follow()
        if self._cycles is not None:
            self._cycles.slide()
            self._follow()
            self._arena.beside[self._name] = int(self._cycles.bits.nbytes)
        elif self._questions.kept:
            self._questions.lay_out_again()
            self._arena.beside[self._name] = int(self._questions.horizons.nbytes)

    def _walked(self, ts: Array, side: Array, slot: Array) -> Batch:
        n = len(self._keys)
        parts: list[Part] = []
        live = self._stems.live_bytes
        far = (live > sizes.current.far_bytes) + (live > sizes.current.farther_bytes)
        if n == 2:
            self._run_two(ts, side, slot, far, parts)
            # Half of the probes go each way.
            self._count(0, 1, len(ts), sum(p.made for p in parts), sum(self._stems.sizes) / 2)
        elif self._cycles is not None:
            self._run_cyclic(self._cycles, ts, side, slot, far, parts)
        else:
            self._backing.follow()
            self._run(ts, side, slot, far, parts)
        out_ts, out_exp = (
            some[0] if len(some) == 1 else joined(some)
            for some in ([p.ts[: p.made] for p in parts], [p.exp[: p.made] for p in parts])
        )
        slots = [p.slots[:, : p.made] for p in parts]
        # Rows leave a ring untouched: its end moves over them.
        self._arena.visits += len(ts) + (len(out_ts) if n == 2 else 0)
        if len(out_ts) < self._room // 8:
            self._room = max(sizes.current.join_outputs, self._room // 2)
        return Batch(
            out_ts, out_exp, self._columns(slots[0] if len(slots) == 1 else np.concatenate(slots, axis=1))
        )

    def _into(self, done: int, total: int, run: Callable[..., tuple[int, int]], parts: list[Part]) -> None:
        """Run a kernel for events [done, total): results go on where those before them end, as long as there is room."""
        n = len(self._keys)
        while done < total:
            if not parts or parts[-1].full:
                size = self._room
                limits.check_results(sum(p.made for p in parts))
                parts.append(Part(room(size, np.int64), room(size, np.int64), room((n, size), np.int32)))
            part, before = parts[-1], done
            free = len(part.ts) - part.made
            done, part.made = run(done, part.made, part.ts, part.exp, part.slots)
            if done < total:
                part.full = True
                if done == before:  # a single row makes more than there was room for
                    limits.check_results(free + 1)
                if done == before or part.made > len(part.ts) // 2:
                    self._room *= 2

    def _hops(self) -> Array:
        """What walks look up about their hops."""
        plan = np.empty(self._order.shape[0] * self._order.shape[1] * chains.HOP, np.int64)
        chains.hops(
            self._stems.edges,
            self._stems.indexes,
            self._order,
            self._backing.at,
            self._backing.asks,
            self._fan,
            plan,
        )
        return plan

    def _run_two(self, ts: Array, side: Array, slot: Array, far: int, parts: list[Part]) -> None:
        stems = self._stems
        cursor = np.empty((3, chains.BLOCK), np.int64)

        def run(done: int, made: int, *out: Array) -> tuple[int, int]:
            walked: tuple[int, int] = two_way.walk(
                done, made, ts, side, slot, stems.edges, stems.indexes, stems.rows, stems.halves, stems.head, far, cursor, *out
            )  # fmt: skip
            return walked

        self._into(0, len(ts), run, parts)

    def _run(self, ts: Array, side: Array, slot: Array, far: int, parts: list[Part]) -> None:
        """Events go on as they are to until it is time to ask more, or less."""
        questions = self._questions
        done = 0
        while done < len(ts):
            if questions.due:
                questions.turn(self._order, self._fan, int(ts[done]))
                if questions.kept and self._backing.fit(questions.kept):
                    questions.lay_out(int(ts[done]))
                self._follow()
            last = done + questions.span(len(ts) - done)
            if questions.plain:
                self._run_plain(done, ts[:last], side, slot, far, parts)
            else:
                self._run_asking(done, ts[:last], side, slot, far, parts)
            done = last
        self._arena.beside[self._name] = int(questions.horizons.nbytes)

    def _run_plain(self, done: int, ts: Array, side: Array, slot: Array, far: int, parts: list[Part]) -> None:
        stems, n = self._stems, len(self._keys)
        stats, work = np.zeros((n, n - 1, 2), np.int64), np.empty((4, n), np.int64)
        cursor = np.empty((4, chains.BLOCK), np.int64)
        plan, backing = self._hops(), self._backing

        def run(done: int, made: int, *out: Array) -> tuple[int, int]:
            walked: tuple[int, int] = chains.walk(
                done, made, ts, side, slot, stems.edges, stems.indexes, stems.first_index, plan,
                *backing.arrays, stems.rows, stems.halves, stems.head, far, cursor, work, stats, *out,
            )  # fmt: skip
            return walked

        self._into(done, len(ts), run, parts)
        self._arena.visits += int(stats[:, :, 1].sum())
        self._questions.count_plain(len(ts) - done, stats)
        self._learn(stats)

    def _run_asking(
        self, done: int, ts: Array, side: Array, slot: Array, far: int, parts: list[Part]
    ) -> None:
        stems, n, questions, asked_of = self._stems, len(self._keys), self._questions, self._asked
        questions.fitted(int(ts[done]))
        stats, work = np.zeros((n, n - 1, 4), np.int64), np.empty((5, n), np.int64)
        asked, counted = np.zeros((len(asked_of.questions), 2), np.int64), np.zeros(5, np.int64)
        cursor = np.empty((4, chains.BLOCK), np.int64)
        plan = self._hops()
        newest = self._newest(side[done:], slot[done:]) if asked_of.empty else self._ends

        def run(done: int, made: int, *out: Array) -> tuple[int, int]:
            walked: tuple[int, int] = semijoin_probe.walk(
                done, made, ts, side, slot, stems.edges, stems.indexes, stems.first_index, plan, asked_of.questions,
                asked_of.question_at, asked_of.empty, newest, questions.tables, questions.into, questions.out_of, questions.horizons,
                questions.climb, *self._backing.arrays, stems.rows, stems.halves, stems.head, far, cursor, work, stats, asked, counted,
                *out,
            )  # fmt: skip
            return walked

        first = done
        self._into(done, len(ts), run, parts)
        self._arena.visits += int(stats[:, :, semijoin_probe.MET].sum() + asked[:, 0].sum() + counted[2])
        questions.count(asked_of, len(ts) - first, stats, asked, counted)
        self._learn(stats)

    def _run_cyclic(
        self, walks: Cycles, ts: Array, side: Array, slot: Array, far: int, parts: list[Part]
    ) -> None:
        """The same where equalities have cycles."""
        stems, n, questions = self._stems, len(self._keys), self._questions
        seen = stems.edges[:, chains.USED] - np.bincount(side, minlength=n)
        walks.slide()
        done = 0
        while done < len(ts):
            if questions.due:
                if not questions.trying:
                    for (i, j), (tested, met) in walks.sample(int(ts[done]), seen).items():
                        self._shares[min(i, j), max(i, j)].count(tested, met)
                    questions.promising = walks.promising()
                questions.turn(self._order, walks.alike, int(ts[done]))
                self._follow()
            elif walks.outgrown:
                self._follow()
            last = done + questions.span(len(ts) - done)
            self._run_cycle(walks, done, ts[:last], side, slot, seen, far, parts)
            done = last
        self._arena.beside[self._name] = int(walks.bits.nbytes)

    def _run_cycle(
        self,
        walks: Cycles,
        done: int,
        ts: Array,
        side: Array,
        slot: Array,
        seen: Array,
        far: int,
        parts: list[Part],
    ) -> None:
        stems, n, questions, asked_of = self._stems, len(self._keys), self._questions, self._asked
        stats, counted = np.zeros((n, n - 1, 4), np.int64), np.zeros(5, np.int64)
        asked, words = np.zeros((len(asked_of.questions), 2), np.int64), np.empty(len(walks.checks), np.int64)
        work, cursor = np.empty((7, n), np.int64), np.empty((4, chains.BLOCK), np.int64)
        newest = self._newest(side[done:], slot[done:]) if asked_of.empty else self._ends

        def run(done: int, made: int, *out: Array) -> tuple[int, int]:
            walked: tuple[int, int] = cyclic.walk(
                done, made, ts, side, slot, stems.edges, stems.indexes, stems.linked, seen, walks.plan, walks.checks,
                asked_of.questions, walks.sieves, asked_of.empty, newest, walks.filters, walks.bits, stems.rows, stems.halves, stems.head, far,
                cursor, work, words, stats, asked, counted, *out,
            )  # fmt: skip
            return walked

        first = done
        self._into(done, len(ts), run, parts)
        self._arena.visits += int(
            stats[:, :, semijoin_probe.MET].sum() + asked[:, 0].sum() + counted[cyclic.NOTED]
        )
        questions.count(asked_of, len(ts) - first, stats, asked, counted)

    def _newest(self, side: Array, slot: Array) -> Array:
        """When the youngest row of every input ends, but for these, which are coming."""
        newest = np.full(len(self._keys), semijoin_probe.NEVER)
        for i, edge in enumerate(self._stems.edges):
            coming = side == i
            first = int(coming.argmax())
            last = int(slot[first] if coming[first] else edge[chains.USED]) - 1
            if last >= edge[chains.TAIL]:
                newest[i] = self._stems.table(i)[last, 0]
        return newest

    def _columns(self, slots: Array) -> tuple[Column, ...]:
        out: list[Column] = [ABSENT] * self._width
        for start, stored, frame, rows in zip(
            self._offsets, self._stored, self._stems.frames, slots, strict=True
        ):
            for k, column in zip(stored, frame.at(rows), strict=False):
                out[start + k] = column
        return tuple(out)

    def _tested(self, batch: Batch) -> Batch:
        for test in self._tests:
            if not len(batch):
                break
            passed = self._tester.test(test, batch.columns, batch.ts)
            if not passed.all():
                batch = batch.take(np.flatnonzero(passed))
        return batch


def _alike(indexes: Mapping[tuple[int, int], int]) -> list[tuple[int, int]]:
    """Indexes of two inputs that are compared, each in one pair."""
    found: list[tuple[int, int]] = []
    for (i, j), k in indexes.items():
        both = k, indexes[j, i]
        if not any(one in pair for one in both for pair in found):
            found.append(both)
    return found


def is_connected(n: int, equalities: Sequence[Equality]) -> bool:
    """Whether equalities lead from any input to every other."""
    reached: set[int] = {0}
    new = reached
    while new:
        new = {e.left + e.right - r for e in equalities for r in reached if r in (e.left, e.right)} - reached
        reached |= new
    return len(reached) == n
