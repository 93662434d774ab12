"""How rows walk where equalities have cycles: in which order, what every hop compares, and which filters of pairs are kept (`kernels.join.cyclic`).

All goes by the share of pairs of rows that are equal, sampled for every two inputs that are compared: a row's partners in an
input are its live rows times the share, and those of all that is bound the product of shares. None of this decides an answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, inf

import numpy as np

from penstock.kernels.hash.mix import shift_of
from penstock.kernels.join import chains
from penstock.kernels.join import cyclic as kernel
from penstock.operators.join.semijoin_checks import Asked, Directed
from penstock.plan.join_tree import Demand
from penstock.state.arena import power_of_two
from penstock.state.stems import Stems
from penstock.types.batch import Array, Ints

SAMPLE = 64
"""Rows of an input whose partners are counted."""
KEEPS = 0.99
"""A hop that leaves less of what comes to it makes a walk narrower."""
KNOWN, STAYS = 0.8, 0.85
"""So much of its cost counts where a hop goes by an index that others keep anyway, or goes on as it did: shares are never known to the last digit."""
PROBE, UPKEEP, MANY = 3.0, 8.0, 64
"""In rows met: what a probe costs besides those it meets, and a filter for every event; partners that leave few bits of a bucket free."""
LONELY = 1.0
"""Rows that an event need not meet on its first hop if rows without a partner do not set out, from which on it may pay to ask for one."""
ROWS_A_BUCKET, LEAST = 4, 16
GROWN, FITS, SHRUNK = 2, 1.25, 8
"""So many times the rows that walks, or filters, were laid out for, or so small a part of them, and they are laid out anew."""
MOVED = 0.25
"""By so much of itself a share may have moved before walks are laid out anew: those of a sample of 64 rows are a tenth apart."""

Pair = tuple[int, int, int]
"""Of a filter: whose rows it knows, by their word toward whom, and what other input's word they have."""


class Cycles:
    """`index[i, j]`: the number of input i's index toward j, of all; `name`: under which what is learnt lies in the SteMs' arena."""

    def __init__(
        self, stems: Stems, index: Mapping[Directed, int], inputs: int, demand: Demand, name: str
    ) -> None:
        self._stems, self._index, self._n, self._demand = stems, index, inputs, demand
        self._fields: list[int] = stems.indexes[:, chains.FIELD].tolist()
        n = inputs
        self.order = stems.arena.array(f"{name}.order", np.int64, (n, n - 1, 4), -1)
        """Hop h of rows of input i: (input visited, its index, input that gives the key, its index)."""
        self.alike = stems.arena.array(f"{name}.alike", np.float64, (n, n), -1.0)
        self._lonely = stems.arena.array(f"{name}.lonely", np.float64, (n, n), 0.0)
        self._pairs = np.array(
            [
                (i, self._fields[index[i, j]], j, self._fields[index[j, i]])
                for i in range(n)
                for j in range(n)
                if (i, j) in index
            ],
            np.int64,
        )
        self.plan: Ints = np.zeros(0, np.int64)
        self.checks: Ints = np.zeros((0, 3), np.int64)
        self.sieves: Ints = np.zeros((0, 4), np.int64)
        self.filters: Ints = np.zeros((0, kernel.FILTER), np.int64)
        self.bits: Array = np.zeros(0, np.uint64)
        self._slid = stems.slid.copy()
        self._laid = [0] * n
        self._kept: list[Pair] = []
        self._fitted = self._laid
        self._by = np.zeros((n, n))
        """The shares that walks were laid out for."""
        if self.order[0, 0, 0] < 0:
            self._choose()

    # ------------------------------------------------------------------ what is learnt

    def sample(self, now: int, seen: Ints) -> dict[Directed, tuple[float, int]]:
        """Count partners of some rows of every input, and walk by that from now on; by pair the pairs of rows compared, and equal."""
        found = np.zeros((len(self._pairs), 3), np.int64)
        stems = self._stems
        keys, counts = np.zeros(kernel.TABLE, np.int64), np.zeros((2, kernel.TABLE), np.int64)
        kernel.sample(self._pairs, SAMPLE, now, seen, stems.edges, stems.rows, keys, counts, found)
        live = (seen - stems.edges[:, chains.TAIL]).tolist()
        told = {}
        for (i, _, j, _), (rows, met, lonely) in zip(self._pairs.tolist(), found.tolist(), strict=True):
            if rows and live[j]:
                share, before = met / (rows * live[j]), float(self.alike[i, j])
                self.alike[i, j] = share if before < 0 else (before + share) / 2
                told[i, j] = float(rows * live[j]), met
            self._lonely[i, j] = lonely / rows if rows else 0.0
        if self._moved:
            self._choose()
        return told

    @property
    def _moved(self) -> bool:
        """Whether shares, or rows, are no longer those that walks were laid out for."""
        by = np.abs(np.maximum(self.alike, 0.0) - self._by)
        return bool((by > MOVED * self._by).any()) or _apart(self._laid, self._stems.sizes, FITS)

    def promising(self) -> set[Directed]:
        """(who is asked, who asks): where rows that have no partner would meet many others first."""
        sizes, targets = self._stems.sizes, enumerate(self.order[:, 0, 0].tolist())
        met = np.array([1 + sizes[target] * max(float(self.alike[i, target]), 0.0) for i, target in targets])
        asked = np.argwhere(self._lonely * met[:, None] > LONELY).tolist()
        return {(j, i) for i, j in asked if (i, j) in self._index}

    def _choose(self) -> None:
        """Visit next the input that costs least over what it drops; first hops first, for others may go by their indexes."""
        n, index = self._n, self._index
        live = [max(rows, 1) for rows in self._stems.sizes]
        shares = [[min(share, 1.0) if share >= 0 else 1.0 for share in row] for row in self.alike.tolist()]
        ways = {
            t: [
                (b, index[t, b], shares[b][t], 1 + live[t] * shares[b][t])
                for b in range(n)
                if (t, b) in index
            ]
            for t in range(n)
        }
        before = self.order.tolist()
        used: set[int] = set()
        bound = [{i} for i in range(n)]
        for h in range(n - 1):
            for i in range(n):
                _, target, giver = min(
                    _guess(t, ways[t], bound[i], live[t], before[i][h][1], used)
                    for t in range(n)
                    if t not in bound[i]
                )
                self.order[i, h] = (target, index[target, giver], giver, index[giver, target])
                bound[i].add(target)
            used.update(self.order[:, h, 1].tolist())

    # ------------------------------------------------------------------ what kernels read

    @property
    def outgrown(self) -> bool:
        """Inputs have far more live rows, or fewer, than when it was decided how to walk."""
        return _apart(self._laid, self._stems.sizes, GROWN)

    def follow(self, asked: Asked) -> None:
        """Walks go in another order, ask something else, or have more to meet."""
        if self._moved or not len(self.plan):
            self._by = np.maximum(self.alike, 0.0)
            self._lay_walks(self.order.tolist(), self._by.tolist())
        plan = self.plan.reshape(-1, kernel.HOP)
        plan[:-1, kernel.PUT] = asked.question_at[:, : self._n - 1].ravel()
        plan[-1, kernel.PUT] = len(asked.which)

    def _lay_walks(self, order: list[list[list[int]]], alike: list[list[float]]) -> None:
        """All that kernels read but the questions."""
        self._laid = [max(rows, LEAST) for rows in self._stems.sizes]
        pairs: dict[Pair, int] = {}
        plan: list[tuple[int, ...]] = []
        checks: list[tuple[int, int, int]] = []
        sieves: list[tuple[int, int, int, int]] = []
        for i, hops in enumerate(order):
            denying = self._sieves(i, hops, alike)
            bound = [i]
            for h, (target, index, giver, key) in enumerate(hops):
                field = self._fields[index]
                plan.append((target, index, field, giver, self._fields[key], len(checks), 0, len(sieves)))
                sieves += [
                    (
                        pairs.setdefault((z, g, target), len(pairs)),
                        g,
                        self._field(g, z),
                        self._field(target, z),
                    )
                    for z, g, _ in denying[h]
                ]
                checks += [
                    (self._field(target, b), b, self._field(b, target))
                    for b in bound
                    if b != giver and (target, b) in self._index
                ]
                bound.append(target)
        end = [0] * kernel.HOP
        end[kernel.CHECK], end[kernel.SIEVE] = len(checks), len(sieves)
        self.plan = np.array([*plan, end], np.int64).ravel()
        self.checks = np.array(checks, np.int64).reshape(-1, 3)
        self.sieves = np.array(sieves, np.int64).reshape(-1, 4)
        if list(pairs) != self._kept or _apart(self._fitted, self._laid, FITS):
            self._lay_out(list(pairs))

    def _field(self, i: int, j: int) -> int:
        """Where rows of i have their word toward j."""
        return self._fields[self._index[i, j]]

    def _sieves(self, i: int, hops: list[list[int]], alike: list[list[float]]) -> list[list[Pair]]:
        """By hop the filters that spare more than they cost, that of the input visited next before others: (input, who gives the bucket, input
        visited)."""
        found: list[list[Pair]] = [[] for _ in hops]
        if self._demand is not Demand.JIT:
            return found
        live = self._laid
        come = 1.0
        bound = [i]
        for h, (target, _, _, _) in enumerate(hops[:-1]):
            come *= self._equal(target, bound, alike)
            if come * (PROBE + MANY) <= UPKEEP:
                break
            spared = 0.0
            for z, *_ in hops[h + 1 :]:
                givers = [b for b in bound if (z, b) in self._index]
                if not givers or (z, target) not in self._index:
                    continue
                # Its partners are what one bucket holds; the fewer, the more bits are free.
                giver = min(givers, key=lambda b: alike[b][z])
                partners = live[z] * alike[giver][z]
                denied = exp(-partners * alike[target][z])
                spared = spared or PROBE + partners
                if partners <= MANY and come * denied * spared > UPKEEP:
                    found[h].append((z, giver, target))
                    come *= 1 - denied * 0.9
            bound.append(target)
        return found

    def _equal(self, target: int, bound: list[int], alike: list[list[float]]) -> float:
        """Rows of an input that equal all that is bound."""
        equal = float(self._laid[target])
        for b in bound:
            if (target, b) in self._index:
                equal *= min(alike[b][target], 1.0)
        return equal

    def _lay_out(self, pairs: list[Pair]) -> None:
        """Filters without a row in them: rows enter when one is asked."""
        self._kept, self._fitted = pairs, self._laid
        self.filters = np.zeros((len(pairs), kernel.FILTER), np.int64)
        size = 0
        for f, (z, giver, other) in enumerate(pairs):
            buckets = power_of_two(max(LEAST, self._laid[z] // ROWS_A_BUCKET))
            row = self.filters[f]
            row[kernel.OF], row[kernel.KEY], row[kernel.WORD] = (
                z,
                self._field(z, giver),
                self._field(z, other),
            )
            row[kernel.BITS], row[kernel.BUCKETS] = size, shift_of(buckets)
            row[kernel.LIMIT] = self._laid[z] // (kernel.PANES - 1) + 1
            row[kernel.UNTIL :] = np.iinfo(np.int64).min
            size += kernel.PANES * buckets
        self.bits = np.zeros(size, np.uint64)
        self._slid[:] = self._stems.slid

    def slide(self) -> None:
        """Rows have moved to the front of their edges since: they are the same."""
        if len(self.filters):
            by = self._stems.slid - self._slid
            self.filters[:, kernel.UPTO] = np.maximum(
                self.filters[:, kernel.UPTO] - by[self.filters[:, kernel.OF]], 0
            )
        self._slid[:] = self._stems.slid


def _guess(
    target: int,
    ways: list[tuple[int, int, float, float]],
    bound: set[int],
    live: int,
    before: int,
    used: set[int],
) -> tuple[float, int, int]:
    """What it costs to visit an input next, the input, and the bound one to come from. `ways`: from whom, by which index, the share of
    pairs that are equal, rows met."""
    equal, partners, giver = float(live), inf, -1
    for b, x, share, rows in ways:
        if b in bound:
            equal *= share
            met = rows * (KNOWN if x in used else 1.0) * (STAYS if before == x else 1.0)
            if met < partners:
                partners, giver = met, b
    return partners / (1 - equal) if equal < KEEPS else 1e9 * equal + partners, target, giver


def _apart(laid: list[int], sizes: Sequence[int], grown: float) -> bool:
    """Whether inputs have so many times the rows that something was laid out for, or far fewer."""
    return any(
        rows > grown * most or SHRUNK * rows + LEAST < most for most, rows in zip(laid, sizes, strict=True)
    )
