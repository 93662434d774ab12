"""Questions on the routes of a busy core: a row that some input further on has nobody for is not followed.

Paper      Yang & Papadias 2008 (a consumer demands what it can use), beside Works 2013; on walks without budgets: `operators.join.semijoin_checks`.
Invariant  a partial result is suppressed only if no row of some input, built before the row that drives it, has its key and is alive
           together with it. Such rows do not come later: whoever is built afterwards meets the driving row on a walk of its own. So what is suppressed makes
           no result, of whatever rank, and it is asked after its row was built.
Which      before an operator all inputs that are to be looked up further on, by a key of what has just been bound. A table is never asked: it may
           change before it is looked up. `demand="doe"` asks only whether a stream is empty; `"off"` nothing.
Levels     what classifiers further on would find of a row that is suppressed is found first: whoever meets the row later has its level. Where that
           cannot be told yet, or where somebody learns from what passes further on (`preference.monitor`), nothing is asked.
           Nor is it of groups that answer from samples: what dropped rows would have come to is estimated from rows that are followed (`overload.yields`).
Pays       for `TRIAL` rows a question is put; it goes on while what it spares is `GAIN` times what it costs, in units, and else rests, longer every time.
State      five numbers a question, saved with the rows that wait.
Cost       `ASK` units a row and question, and `LOOKED` for every row looked at until one decides; it makes nothing, so that is half of what a probe costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.kernels.join import tiered_chains
from penstock.overload.queued_operator import Determinant, Stop, ahead
from penstock.plan.join_tree import Demand
from penstock.state.hash_index import TierIndex
from penstock.state.priority_queue import END, SEQ, TS
from penstock.state.priority_stem import Stock
from penstock.types.batch import Array, Ints

ASK, LOOKED = 0.25, 0.5
"""Units. Measured beside probes of 0.07 to 0.14 µs a unit: questions that look at 0.8 to 1.1 rows took 0.5 to 1.1 of them."""
TRIAL = 64
"""Rows that a question is put for before it is judged."""
GAIN = 1.5
"""What is spared is to be so many times what it costs."""
FIRST, MOST = 8, 512
"""Trials' length for which a question rests, at first and at the most."""


@dataclass(slots=True)
class Question:
    """Before `stop`: whether the input that `later` looks up holds a partner."""

    stop: Stop
    later: Stop
    put: float = 0.0
    denied: float = 0.0
    units: float = 0.0
    rests: int = 0
    """Rows for which it is not put."""
    length: int = FIRST

    def count(self, put: int, denied: int, units: float) -> None:
        self.put += put
        self.denied += denied
        self.units += units

    def judge(self, route: Sequence[Stop]) -> None:
        """After a trial: whether to go on."""
        if self.put < TRIAL:
            return
        if self.denied * self._spared(route) < GAIN * self.units:
            self.rests, self.length = self.length * TRIAL, min(2 * self.length, MOST)
        else:
            self.length = FIRST
        self.put = self.denied = self.units = 0.0

    def _spared(self, route: Sequence[Stop]) -> float:
        """Units that a row takes that is not denied. What the operator was measured by are all that came, denied or not."""
        kept = max(1.0 - self.denied / self.put, 1.0 / self.put)
        here = max((self.stop.cost - self.units / self.put) / kept, 1.0)
        return here + self.stop.selectivity / kept * ahead(route, self.stop.at + 1)


class Asking:
    """Of one core. `routes`: by the input whose rows go along them."""

    def __init__(self, demand: Demand, routes: Mapping[int, Sequence[Stop]]) -> None:
        self.demand = demand
        self._routes = routes
        self.asked = self.denied = 0
        """Questions, and what they denied, since this process began."""
        self.learnt: dict[int, int] = {}
        """By route: the last stop at which somebody learns from what comes there."""
        self._by: dict[tuple[int, int], list[Question]] = {}
        if demand is Demand.OFF:
            return
        for route in routes.values():
            known: frozenset[int] = frozenset()
            for stop in route:
                if stop.target is None or stop.before:
                    continue  # what is not built yet is not asked: others are still to meet it
                new = stop.bound - known
                known = stop.bound
                found = [
                    Question(stop, later)
                    for later in route[stop.at + 1 :]
                    if later.partner in new and later.target in routes
                ]
                if found:
                    self._by[stop.route, stop.at] = found

    def at(self, stop: Stop) -> Sequence[Question]:
        """What is asked before a stop."""
        found = self._by.get((stop.route, stop.at), ())
        if not found or stop.at < self.learnt.get(stop.route, -1):
            return ()
        return found if all(one.inputs <= stop.bound for one in self.pending(stop)) else ()

    def pending(self, stop: Stop) -> list[Determinant]:
        """What classifiers further on look for."""
        return [one for later in self._routes[stop.route][stop.at + 1 :] for one in later.assessed]

    def put(
        self, question: Question, rows: Ints, keys: Ints, stock: Stock, index: TierIndex
    ) -> tuple[Array, float]:
        """Which rows somebody supports, and the units it took to know; all, if it is not asked now."""
        n = rows.shape[1]
        if question.rests > 0:
            question.rests -= n
            return np.ones(n, np.bool_), 0.0
        held = stock.tiers
        if self.demand is Demand.DOE:
            there, spent = np.full(n, len(held) > 0), ASK
        else:
            there, tally = np.empty(n, np.bool_), np.zeros(1, np.int64)
            tiered_chains.supported(
                keys, rows[TS], rows[END], rows[SEQ], held, stock.over, index.key, index.tier, index.head,
                index.chain, stock.ts, stock.exp, stock.built, there, tally,
            )  # fmt: skip
            spent = ASK * n + LOOKED * float(tally[0])
        denied = n - int(np.count_nonzero(there))
        question.count(n, denied, spent)
        self.asked += 1 if self.demand is Demand.DOE else n
        self.denied += denied
        return there, spent

    def judge(self, stop: Stop) -> None:
        """Rows have passed a stop: whether what was asked before it is still worth it."""
        for question in self._by.get((stop.route, stop.at), ()):
            question.judge(self._routes[stop.route])

    # ------------------------------------------------------------------ leaving and coming back

    def save(self) -> list[list[float]]:
        return [[q.put, q.denied, q.units, q.rests, q.length] for own in self._by.values() for q in own]

    def take_up(self, was: Sequence[Sequence[Any]]) -> None:
        every = [q for own in self._by.values() for q in own]
        if len(was) == len(every):  # else it was asked in another way
            for question, (put, denied, units, rests, length) in zip(every, was, strict=True):
                question.put, question.denied, question.units = put, denied, units
                question.rests, question.length = rests, length
