"""Which operator of an eddy a group of rows visits next.

Paper      Madden et al. 2002, §3.2 (tickets weighted by predicates, back-pressure); Avnur & Hellerstein 2000 (lottery).
Invariant  an order changes how many visits rows make, never what they are sorted into.

tickets   a lottery: an operator gains a ticket for every predicate and row it takes and loses it for a row it gives back
thompson  guess every operator's share of dropped rows from what it has shown, and go by cost per dropped row
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

EXPLORE = 48
MEMORY = 1 << 16
"""Rows after which what was seen counts half."""
_CHEAP = 32.0
"""Nanoseconds a row below which operators cost the same: the clock tells no difference."""


@dataclass(slots=True)
class Ledger:
    """What an operator has done: lately (fading), and since it is there."""

    predicates: int = 0
    taken: float = 0.0
    dropped: float = 0.0
    nanoseconds: float = 0.0
    visited: int = 0
    passed: int = 0

    def note(self, visited: int, dropped: int, nanoseconds: int) -> None:
        keep = 0.5 ** (visited / MEMORY)
        self.taken = keep * self.taken + visited
        self.dropped = keep * self.dropped + dropped
        self.nanoseconds = keep * self.nanoseconds + nanoseconds
        self.visited += visited
        self.passed += visited - dropped

    def fade(self, rows: int) -> None:
        """Rows have passed by; who is seldom visited must not live on old merits."""
        keep = 0.5 ** (rows / (4 * MEMORY))
        self.taken, self.dropped, self.nanoseconds = (
            keep * x for x in (self.taken, self.dropped, self.nanoseconds)
        )

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
    def share(self) -> float:
        """Of rows dropped."""
        return (self.dropped + 1) / (self.taken + 2)


Policy = Callable[[Sequence[Ledger], np.random.Generator], list[int]]


def tickets(ledgers: Sequence[Ledger], coin: np.random.Generator) -> list[int]:
    weights = np.array([ledger.tickets / ledger.price for ledger in ledgers])
    # The order in which a lottery without replacement draws: the least of exponentials with these rates comes first.
    return [int(i) for i in np.argsort(coin.exponential(size=len(weights)) / weights)]


def thompson(ledgers: Sequence[Ledger], coin: np.random.Generator) -> list[int]:
    shares = coin.beta(
        [ledger.dropped + 1 for ledger in ledgers],
        [max(ledger.taken - ledger.dropped, 0.0) + 1 for ledger in ledgers],
    )
    prices = np.array([ledger.price for ledger in ledgers])
    return [int(i) for i in np.argsort(prices / shares)]


def best(ledgers: Sequence[Ledger], _: np.random.Generator) -> list[int]:
    return sorted(range(len(ledgers)), key=lambda i: ledgers[i].price / ledgers[i].share)


def worst(ledgers: Sequence[Ledger], coin: np.random.Generator) -> list[int]:
    return best(ledgers, coin)[::-1]


def at_random(ledgers: Sequence[Ledger], coin: np.random.Generator) -> list[int]:
    return [int(i) for i in coin.permutation(len(ledgers))]


POLICIES: dict[str, Policy] = {
    "thompson": thompson,
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
        self._fixed: tuple[int, list[int]] = (-1, [])

    def order(self, ledgers: Sequence[Ledger]) -> list[int]:
        """The order for the next group."""
        if len(ledgers) < 2:
            return list(range(len(ledgers)))
        self._groups += 1
        if self._name == "fixed":
            return self._frozen(ledgers)
        if self._groups % EXPLORE == 0 and self._name != "random":
            return at_random(ledgers, self._coin)
        return self._policy(ledgers, self._coin)

    def _frozen(self, ledgers: Sequence[Ledger]) -> list[int]:
        """At random until all operators are known a little; then one order until there are others."""
        if self._fixed[0] != len(ledgers):
            if min(ledger.visited for ledger in ledgers) < MEMORY // 64:
                return at_random(ledgers, self._coin)
            self._fixed = (len(ledgers), best(ledgers, self._coin))
        return self._fixed[1]
