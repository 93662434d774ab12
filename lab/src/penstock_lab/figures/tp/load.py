"""How many tuples a stream has when: a calm rate, and bursts that come again and again.

The dissertation's systems are overloaded now and then, not always; a load says how often, how long and how much.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MICROSECONDS = 1_000_000
"""In a second."""


@dataclass(frozen=True, slots=True)
class Load:
    """`rate` tuples a second; in the last `lasts` seconds of every `every` it is `burst` times that.

    >>> float(Load(10.0, burst=4.0, every=60.0, lasts=15.0).expected(120.0))
    2100.0
    """

    rate: float
    burst: float = 1.0
    every: float = 60.0
    lasts: float = 15.0

    def __post_init__(self) -> None:
        if self.rate <= 0 or self.burst <= 0 or not 0 <= self.lasts <= self.every or self.every <= 0:
            raise ValueError(f"not a load: {self}")

    def expected(self, seconds: float | Floats) -> Floats:
        """How many tuples come in so many seconds from the start."""
        calm = self.every - self.lasts
        periods, within = np.divmod(seconds, self.every)
        part = np.minimum(within, calm) + self.burst * np.maximum(within - calm, 0)
        return np.asarray(self.rate * (periods * self._period + part))

    def arrivals(self, seconds: float, random: np.random.Generator) -> Ints:
        """When tuples come, in microseconds from the start: a Poisson process whose rate is the load's.

        That of rate one, seen through the inverse of `expected`.
        """
        whole = float(self.expected(seconds))
        drawn = np.sort(random.uniform(0.0, whole, random.poisson(whole)))
        periods, part = np.divmod(drawn / self.rate, self._period)
        calm = self.every - self.lasts
        within = np.minimum(part, calm) + np.maximum(part - calm, 0) / self.burst
        at: Ints = ((periods * self.every + within) * MICROSECONDS).astype(np.int64)
        return np.minimum(at, int(seconds * MICROSECONDS) - 1)

    @property
    def _period(self) -> float:
        """The tuples of a whole period, had it one a second when calm."""
        return self.every - self.lasts + self.burst * self.lasts


def rounds(count: int, members: int, random: np.random.Generator) -> Ints:
    """Whose each of so many tuples is: everybody's once a round, in an order drawn anew for each.

    So the share of a group of members is the same in every round, which a draw for each tuple would not give.
    """
    many = -(-count // members)
    drawn = random.permuted(np.broadcast_to(np.arange(members), (many, members)), axis=1)
    return drawn.reshape(-1)[:count]
