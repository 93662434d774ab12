"""Which operator of an eddy a group of rows visits next.

Paper      Madden et al. 2002, §3.2 (tickets weighted by predicates, back-pressure); Avnur & Hellerstein 2000 (lottery).
Invariant  an order changes how many visits rows make, never what they are sorted into.

tickets   a lottery: an operator gains a ticket for every predicate and row it takes and loses it for a row it gives back
thompson  guess every operator's share of objections from what it has shown, and go by the cost of one
fixed     the best order as it was after the first rows, for good
random    any order; the one to beat
worst     the best order turned round

Nothing queues in a flow that runs in one thread; what back-pressure does, keeping slow operators from coming first, the
measured cost does here. What was seen long ago counts less and less. One group in `EXPLORE` goes at random, so that
operators that come last are known too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

EXPLORE = 96
MEMORY = 1 << 16
"""Rows after which what was seen counts half."""
_CHEAP = 32.0
"""Nanoseconds a row below which operators cost the same: the clock tells no difference."""


@dataclass(slots=True)
class Ledger:
    """What an operator has done: lately (fading), and since it is there."""

    predicates: int = 0
    rows: float = 0.0
    """Of a sample."""
    asked: float = 0.0
    """Queries that asked something of those."""
    objected: float = 0.0
    taken: float = 0.0
    dropped: float = 0.0
    """Rows that nobody wanted afterwards."""
    nanoseconds: float = 0.0
    visited: int = 0
    passed: int = 0

    def note(self, visited: int, dropped: int, sample: Sequence[int], nanoseconds: int) -> None:
        """Rows visited and dropped; of a sample rows, queries that asked, queries that objected."""
        self._fade(0.5 ** (visited / MEMORY))
        self.rows += sample[0]
        self.asked += sample[1]
        self.objected += sample[2]
        self.taken += visited
        self.dropped += dropped
        self.nanoseconds += nanoseconds
        self.visited += visited
        self.passed += visited - dropped

    def pass_on(self, rows: int) -> None:
        """Rows have asked all operators at once: how many left nobody wanted after this one is not told."""
        self.visited += rows
        self.passed += rows - int(rows * self.dropped / self.taken) if self.taken >= 1 else rows

    def fade(self, rows: int) -> None:
        """Rows have passed by; who is seldom visited must not live on old merits."""
        self._fade(0.5 ** (rows / (4 * MEMORY)))

    def _fade(self, keep: float) -> None:
        self.rows *= keep
        self.asked *= keep
        self.objected *= keep
        self.taken *= keep
        self.dropped *= keep
        self.nanoseconds *= keep

    @property
    def cost(self) -> float:
        """Nanoseconds a row."""
        return self.nanoseconds / self.taken if self.taken >= 1 else 0.0

    @property
    def price(self) -> float:
        """The cost in steps of two: what is measured in one thread among others is no finer."""
        return float(2 ** int(np.log2(max(self.cost, _CHEAP) / _CHEAP)))

    @property
    def tickets(self) -> float:
        """At least one: an operator without would never be tried."""
        return max(1.0, self.predicates * self.dropped)

    @property
    def load(self) -> float:
        """Queries that ask something of a row."""
        return (self.asked + 1) / (self.rows + 1)

    @property
    def worth(self) -> float:
        """Queries that object to a row."""
        return self.load * (self.objected + 1) / (self.asked + 2)


Orders = NDArray[np.intp]
"""A row of operator numbers for every group."""
Policy = Callable[[Sequence[Ledger], int, np.random.Generator], Orders]


def tickets(ledgers: Sequence[Ledger], groups: int, coin: np.random.Generator) -> Orders:
    weights = np.array([ledger.tickets / ledger.price for ledger in ledgers])
    # A lottery without replacement draws in the order of exponentials with these rates.
    return np.argsort(coin.exponential(size=(groups, len(weights))) / weights, axis=1)


def thompson(ledgers: Sequence[Ledger], groups: int, coin: np.random.Generator) -> Orders:
    objected = np.array([ledger.objected for ledger in ledgers])
    passed = np.array([max(ledger.asked - ledger.objected, 0.0) for ledger in ledgers])
    each = np.array([ledger.price / ledger.load for ledger in ledgers])
    return np.argsort(each / coin.beta(objected + 1, passed + 1, (groups, len(ledgers))), axis=1)


def best(ledgers: Sequence[Ledger], groups: int, _: np.random.Generator) -> Orders:
    order = np.argsort([ledger.price / ledger.worth for ledger in ledgers], kind="stable")
    return np.repeat(order[None], groups, axis=0)


def worst(ledgers: Sequence[Ledger], groups: int, coin: np.random.Generator) -> Orders:
    return best(ledgers, groups, coin)[:, ::-1]


def at_random(ledgers: Sequence[Ledger], groups: int, coin: np.random.Generator) -> Orders:
    return np.argsort(coin.random((groups, len(ledgers))), axis=1)


USUAL = "thompson"
"""The others route every row, to be compared with; under this one rows that no order spares a visit are not routed."""
POLICIES: dict[str, Policy] = {
    USUAL: thompson,
    "tickets": tickets,
    "fixed": best,
    "random": at_random,
    "worst": worst,
}


class Router:
    """Orders by a policy, with a seed; the same rows in the same groups are routed the same way but for measured costs."""

    def __init__(self, policy: str, seed: int) -> None:
        self._name = policy
        self._policy = POLICIES[policy]
        self._coin = np.random.default_rng(seed)
        self._groups = 0
        self._fixed: Orders = np.empty((1, 0), np.intp)

    def orders(self, ledgers: Sequence[Ledger], groups: int) -> Orders:
        """For so many groups to come."""
        n = len(ledgers)
        if n < 2 or not groups:
            return np.zeros((groups, n), np.intp)
        if self._name == "fixed":
            return self._frozen(ledgers, groups)
        made = self._policy(ledgers, groups, self._coin)
        exploring = (self._groups + np.arange(groups)) % EXPLORE == EXPLORE // 2
        self._groups += groups
        if exploring.any() and self._name != "random":
            made[exploring] = at_random(ledgers, int(exploring.sum()), self._coin)
        return made

    def _frozen(self, ledgers: Sequence[Ledger], groups: int) -> Orders:
        """At random until all operators are known a little; then one order until there are others."""
        if self._fixed.shape[1] != len(ledgers):
            if min(ledger.visited for ledger in ledgers) < MEMORY // 64:
                return at_random(ledgers, groups, self._coin)
            self._fixed = best(ledgers, 1, self._coin)
        return np.repeat(self._fixed, groups, axis=0)
