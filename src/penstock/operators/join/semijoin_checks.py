"""What a walking join asks before it follows a partial result, and which horizons it keeps to answer (`kernels.join.semijoin_probe`).

Every so often all questions are put for a while (a *trial*); then only those go on that spared more rows than they cost: the
share denied, times the rows a partial result is followed by until the input asked is visited anyway. Where none does, and
no hop has more to compare than its key, rows walk as if nothing was ever asked.

What was learnt lies in the join's arena and is saved with it: whoever goes on from there asks what was asked before. Tables are made again.

A table (j → i) is tried where most rows of j lack partners behind them, so that hardly a key toward i has one that does not;
it goes on while what it denies is more than raising it costs. None of this decides an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.kernels.join import semijoin_probe as kernel
from penstock.kernels.join.chains import FIELD, SHIFT
from penstock.plan.join_tree import Demand
from penstock.state.stems import Stems
from penstock.types.batch import Array
from penstock.types.event_time import EARLIEST

TRIAL, FIRST, MOST = 128, 4, 512
"""Events of a trial for each input; trials' length until the first, and between two at most: rarer while nothing changes."""
CHAIN, TABLE, ENTER = 4.0, 3.0, 3.0
"""What a question costs, and a horizon for every row that enters: in rows met on a walk, which are quicker than a jump elsewhere
(three-way benchmark: a table that spares 11 rows for every row of b takes as long as none)."""
GAIN, PLAIN = 1.5, 3.0
"""What is spared is to be so many times what it costs; and so many rows more for every event that could have walked unasked."""
RARE = 0.25
"""The share of rows that somebody denies, from which on tables go by it."""
BAN = 8
"""Trials for which tables rest that did not pay."""

Directed = tuple[int, int]
"""Who is asked, or speaks, and who asks."""
Question = tuple[int, int, int]
"""Of walks from an input: who asks, once bound, and who is asked."""


@dataclass(slots=True)
class Asked:
    """Questions as arrays, for a kernel; `which` are they."""

    which: list[Question]
    questions: Array
    question_at: Array
    empty: bool


class Questions:
    """`index[i, j]`: the number of input i's index toward j, of all; `name`: under which what is learnt lies in the SteMs' arena."""

    def __init__(
        self, stems: Stems, index: Mapping[Directed, int], inputs: int, demand: Demand, name: str
    ) -> None:
        self._stems = stems
        self._index = index
        self._n = n = inputs
        self._near = [[j for j in range(n) if (i, j) in index] for i in range(n)]
        self.acyclic = sum(map(len, self._near)) == 2 * (n - 1)
        self._demand = demand
        arena = stems.arena
        # In a graph with cycles nothing is known of the order to go in until then.
        blank = 0, FIRST, (FIRST if self.acyclic else 1) * TRIAL * n, 0, 0, EARLIEST
        self._gate = arena.array(f"{name}.gate", np.int64, len(blank), blank)
        trying, self._length, self._left, empty, self._banned, now = self._gate.tolist()
        self.trying, self._empty = bool(trying), bool(empty)
        self._work = arena.array(f"{name}.work", np.float64, (n, n - 1), 4.0)
        self._stats = arena.array(f"{name}.stats", np.int64, (n, n - 1, 4), 0)
        self._answered = arena.array(f"{name}.answered", np.int64, (n, n, n, 2), 0)
        """Of every question how often it was put in this trial, or in the last one, and denied."""
        self._counted = arena.array(f"{name}.counted", np.int64, 5, 0)
        self._pays = arena.array(f"{name}.pays", np.bool_, (n, n, n), False)
        self._keeps = arena.array(f"{name}.keeps", np.bool_, (n, n), False)
        self._chosen: list[Question] = [(i, b, m) for i, b, m in np.argwhere(self._pays).tolist()]
        self.made = self.suppressed = self.asked = 0
        self.promising: set[Directed] | None = None
        """(Who is asked, who asks) of questions to try; None: all."""
        # Tables.
        self.kept: list[Directed] = []
        self.tables = np.zeros((0, 8), np.int64)
        self.into = self.out_of = np.full((n, n), -1, np.int64)
        self.horizons = np.zeros(0, np.int64)
        self.climb = np.zeros((4, n), np.int64)
        if self._keeps.any():
            self.kept = self._in_order((j, i) for j, i in np.argwhere(self._keeps).tolist())
            self.lay_out(now)

    def note(self, now: int) -> None:
        """Write down what is not an array yet."""
        self._gate[:] = self.trying, self._length, self._left, self._empty, self._banned, now

    # ------------------------------------------------------------------ how events go on

    @property
    def plain(self) -> bool:
        """Nothing is asked."""
        return not (self.trying or self._chosen or self._empty or self.kept)

    def span(self, events: int) -> int:
        """How many of these events go on as they are to."""
        return min(events, self._left) if self._turns else events

    @property
    def _turns(self) -> bool:
        """Whether there is anything to learn now and then; in a graph with cycles the order, if nothing else."""
        return self._demand is not Demand.OFF or not self.acyclic

    def asked_of(self, order: Array) -> Asked:
        """What is asked along walks in this order."""
        n = self._n
        if self.plain or n == 2:
            return Asked([], np.zeros((0, 5), np.int64), np.zeros((n, n), np.int64), empty=False)
        places = _bound_at(order)
        fields = self._stems.indexes[:, FIELD]
        at: dict[tuple[int, int], list[tuple[float, Question]]] = {}
        which = self._every() if self.trying else self._chosen
        tables = {one: d for d, one in enumerate(self.kept) if self._has_table(*one)}
        for question in which:
            i, b, m = question
            h = int(places[i, b])
            if h < places[i, m] and ((m, b) in tables or (order[i, h, 0], order[i, h, 2]) != (m, b)):
                asked, denied = self._answered[question].tolist()
                at.setdefault((i, h), []).append((-denied / max(asked, 1), question))
        rows: list[Sequence[int]] = []
        names: list[Question] = []
        bounds = np.zeros((n, n), np.int64)
        for i in range(n):
            for h in range(n):
                bounds[i, h] = len(rows)
                for _, question in sorted(at.get((i, h), [])):
                    _, b, m = question
                    rows.append((m, self._index[m, b], b, fields[self._index[b, m]], tables.get((m, b), -1)))
                    names.append(question)
        empty = self._empty or self.trying
        return Asked(names, np.array(rows, np.int64).reshape(-1, 5), bounds, empty)

    def _every(self) -> list[Question]:
        if self._demand is not Demand.JIT:
            return []
        asked = self.promising
        return [
            (i, b, m)
            for i in range(self._n)
            for b in range(self._n)
            for m in self._near[b]
            if m != i and (asked is None or (m, b) in asked)
        ]

    # ------------------------------------------------------------------ what is learnt

    def count(self, which: Asked, events: int, stats: Array, asked: Array, counted: Array) -> None:
        """So many events went by."""
        self._stats += stats
        self._counted += counted
        if self.trying:
            for question, told in zip(which.which, asked, strict=True):
                self._answered[question] += told
        self.made += int(stats[:, :-1, kernel.PASSED].sum())
        self.suppressed += int(asked[:, 1].sum() + counted[1] + counted[4])
        self.asked += int(asked[:, 0].sum() + counted[0] + counted[3])
        self._left -= events

    def count_plain(self, events: int, stats: Array) -> None:
        """So many events went by unasked."""
        self.made += int(stats[:, :-1, 1].sum())
        self._left -= events

    @property
    def due(self) -> bool:
        """A trial, or the time between two, is over."""
        return self._left <= 0 and self._turns

    def turn(self, order: Array, fan: Array, now: int) -> None:
        """Begin a trial, or decide what goes on after one."""
        if self._demand is Demand.OFF:
            self._length = min(4 * self._length, MOST)
            self._left = self._length * TRIAL * self._n
            return
        if not self.trying and self._in_vain:
            self._chosen, self._empty = [], False
            self._pays[:] = False
            self._length = min(4 * self._length, MOST)
            self._left = max(self._length * TRIAL * self._n, len(self._stems))
            return
        if self.trying:
            before = self._empty, set(self._chosen), self.kept
            self._decide(order, fan, now)
            same = before == (self._empty, set(self._chosen), self.kept)
            self._length = min(4 * self._length, MOST) if same else max(self._length // 4, FIRST)
            self._left = max(self._length * TRIAL * self._n, len(self._stems))
        else:
            self._left = TRIAL * self._n
            self._answered[:] = 0
            self._stats[:] = 0
            self._counted[:] = 0
        self.trying = not self.trying
        self._pays[:] = self._keeps[:] = False
        for question in self._chosen:
            self._pays[question] = True
        for one in self.kept:
            self._keeps[one] = True

    @property
    def _in_vain(self) -> bool:
        """It is known beforehand that a trial would find nothing to ask."""
        return self.promising == set() and all(self._stems.sizes)

    def _decide(self, order: Array, fan: Array, now: int) -> None:
        tested, stopped = self._counted[:2].tolist()
        self._empty = 3 * stopped > tested
        if self._demand is not Demand.JIT:
            return
        self._weigh()
        places = _bound_at(order)
        spared = self._choose(places)
        if not self.acyclic:
            return
        self._banned -= self._banned > 0
        keeping = self._counted[2] + ENTER * TRIAL * len(self.kept)
        if spared < GAIN * keeping + PLAIN * TRIAL * self._n and not self._empty:
            # All in all rows had better walk unasked.
            self._chosen = []
            self._banned = BAN if self.kept else self._banned
        wanted = [] if self._banned else self._tables(order, fan, places)
        if wanted != self.kept:
            self._keep(wanted, places, now)

    def _choose(self, places: Array) -> float:
        """The questions that paid in this trial, and how many rows they spared."""
        spared = 0.0
        self._chosen = []
        for i, b, m in np.argwhere(self._answered[..., 0]).tolist():
            question, (put, denied) = (i, b, m), self._answered[i, b, m].tolist()
            by_table = self._has_table(m, b)
            rest = self._rest(i, int(places[i, b]), self._n - 1 if by_table else int(places[i, m]) - 1)
            cost = put * (TABLE if by_table else CHAIN)
            if denied * rest > GAIN * cost:
                self._chosen.append(question)
                spared += denied * rest - cost
        return spared

    def _keep(self, wanted: list[Directed], places: Array, now: int) -> None:
        """Other horizons from now on; a table that is new is asked wherever there is something to spare."""
        before = {one for one in self.kept if self._has_table(*one)}
        self.kept = wanted
        self.lay_out(now)
        after = {one for one in self.kept if self._has_table(*one)}
        self._chosen = [(i, b, m) for i, b, m in self._chosen if (m, b) not in before - after]
        for i, b, m in self._every():
            h = int(places[i, b])
            if (m, b) in after - before and h < places[i, m] and self._rest(i, h, self._n - 1) > GAIN * TABLE:
                self._chosen.append((i, b, m))

    def _weigh(self) -> None:
        """Rows looked at in a hop, for each partial result that comes to it."""
        probes, met = self._stats[:, :, kernel.PROBES], self._stats[:, :, kernel.MET]
        known = probes > 0
        self._work[known] = 1.0 + met[known] / probes[known]

    def _rest(self, i: int, first: int, last: int) -> float:
        """Rows that a partial result of walks from i is followed by in hops [first, last)."""
        stats = self._stats[i]
        total, come = 0.0, 1.0
        for h in range(first, last):
            total += come * float(self._work[i, h])
            if stats[h, kernel.PROBES]:
                come *= float(stats[h, kernel.PASSED] / stats[h, kernel.PROBES])
        return total

    def _tables(self, order: Array, fan: Array, places: Array) -> list[Directed]:
        """Tables worth trying."""
        denied: dict[Directed, float] = {}
        wanted: list[Directed] = []

        def missing(m: int, j: int) -> float:
            """The share of j's rows that m, or what is behind it, has nobody for."""
            if (m, j) not in denied:
                put, no = self._answered[j, j, m].tolist()
                if not put and order[j, 0, 0] == m:
                    put, no = self._stats[j, 0, [kernel.PROBES, kernel.NOBODY]].tolist()
                share = no / put if put else 0.0
                if (m, j) not in self.kept:
                    share += (1 - share) * behind(m, j)
                denied[m, j] = share
            return denied[m, j]

        def behind(j: int, i: int) -> float:
            """The share of keys toward i whose rows of j all lack somebody else."""
            lacking = 1.0
            for m in self._near[j]:
                if m != i:
                    lacking *= 1 - missing(m, j)
            partners = max(float(fan[i, j]), 0.0)
            partners = partners / -np.expm1(-partners) if partners > 1e-3 else 1.0
            return float((1 - lacking) ** partners)

        def keep(j: int, i: int) -> None:
            """A table, and those it goes by."""
            if (j, i) not in wanted:
                for m in self._near[j]:
                    if m != i and missing(m, j) >= RARE:
                        keep(m, j)
                wanted.append((j, i))

        for j in range(self._n):
            for i in self._near[j]:
                rest = max(
                    self._rest(s, int(places[s, i]), self._n - 1)
                    for s in range(self._n)
                    if places[s, i] < places[s, j]
                )
                put, no = self._answered[i, i, j].tolist()
                known = self._has_table(j, i) and put > 0
                share = no / put if known else behind(j, i)
                if (known and share * rest > TABLE) or share * rest > GAIN * (TABLE + 2 * ENTER):
                    keep(j, i)
        return self._in_order(wanted)

    def _in_order(self, tables: Iterable[Directed]) -> list[Directed]:
        """A table is filled after those it goes by: less hangs behind them."""
        return sorted(tables, key=lambda one: (self._behind(*one), one))

    def _behind(self, j: int, i: int) -> int:
        """How many inputs hang behind j if i is taken away."""
        return 1 + sum(self._behind(m, j) for m in self._near[j] if m != i)

    # ------------------------------------------------------------------ tables

    def _has_table(self, j: int, i: int) -> bool:
        """Whether (j → i) is kept, and something behind j is, too."""
        return (j, i) in self.kept and any(m != i and (m, j) in self.kept for m in self._near[j])

    def fitted(self, now: int) -> None:
        """Tables have as many buckets as the indexes they are asked from."""
        indexes = self._stems.indexes
        for (j, i), row in zip(self.kept, self.tables, strict=True):
            least = min(indexes[self._index[j, i], SHIFT], indexes[self._index[i, j], SHIFT])
            if row[kernel.OFFSET] >= 0 and row[kernel.T_BITS] > least:
                self.lay_out(now)
                return

    def lay_out_again(self) -> None:
        """The same after the last step."""
        self.lay_out(int(self._gate[-1]))

    def lay_out(self, now: int) -> None:
        """All tables anew, from the rows that are alive."""
        stems, n = self._stems, self._n
        indexes = stems.indexes
        self.tables = np.zeros((len(self.kept), 8), np.int64)
        self.into, self.out_of = (np.full((n, n), -1, np.int64) for _ in range(2))
        size = 0
        for d, (j, i) in enumerate(self.kept):
            away, back = self._index[j, i], self._index[i, j]
            shift = int(min(indexes[away, SHIFT], indexes[back, SHIFT]))
            begin = size if self._has_table(j, i) else -1
            self.tables[d] = (j, i, begin, shift, indexes[away, FIELD], indexes[back, FIELD], away, back)
            size += 1 << 64 - shift if begin >= 0 else 0
            for table, of in ((self.into, i), (self.out_of, j)):
                table[of, np.count_nonzero(table[of] >= 0)] = d
        self.horizons = np.full(size, kernel.NEVER)
        for d in np.flatnonzero(self.tables[:, kernel.OFFSET] >= 0).tolist():
            kernel.fill(
                d,
                now,
                self.tables,
                self.into,
                self.horizons,
                stems.edges,
                indexes,
                stems.rows,
                stems.halves,
                stems.head,
            )


def _bound_at(order: Array) -> Array:
    """By the input a walk begins with: after how many hops an input is bound."""
    n = len(order)
    places = np.zeros((n, n), np.int64)
    for i in range(n):
        places[i, order[i, :, 0]] = np.arange(1, n)
    return places
