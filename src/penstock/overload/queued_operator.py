"""A stop on a route: an operator, the classifier before it, and the rows that wait there, by level (Works 2013, §4.1.3, §4.3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.operators.join.predicates import Equality
from penstock.plan.expressions import Expression
from penstock.state.frequent_values import Table
from penstock.state.priority_queue import Lane

UNSORTED, AGAIN, ASIDE = "unsorted", "+", "~"
"""In the names of lanes."""


@dataclass(frozen=True, slots=True, eq=False)
class Determinant:
    """A disjunct of a level, over the core's columns: what it reads, and what it costs a row. Many that read the same inputs are one."""

    level: int
    alternatives: tuple[Expression, ...]
    """One of them is enough."""
    inputs: frozenset[int]
    cost: float


@dataclass(frozen=True, slots=True)
class Promising:
    """What a classifier looks up to find promising rows (the dynamic assessment set of Works 2013, §6.3.2): values of an index of a
    bound input, each with the best level of the rows that are to be met with it at the designated stop."""

    designated: int
    which: int
    index: int
    levels: tuple[tuple[int, int], ...]
    """Values and their levels, in order."""
    table: Table
    best: int

    @classmethod
    def of(cls, designated: int, which: int, index: int, levels: tuple[tuple[int, int], ...]) -> Promising:
        values, numbers = (np.array(part, np.int64) for part in zip(*levels, strict=True))
        return cls(designated, which, index, levels, Table(values, numbers), int(numbers.min()))


@dataclass(slots=True)
class Stop:
    """An operator of a route and the classifier before it."""

    route: int
    at: int
    target: int | None
    """Which input is looked up; None: rows are tested."""
    bound: frozenset[int]
    """Inputs whose rows are there before it."""
    last: bool
    builds: bool = False
    """Rows are built into their SteM here."""
    before: bool = False
    """A table is looked up before rows are built."""
    partner: int = -1
    """The bound input whose key is looked up; -1: every row of the target is a candidate."""
    equal: tuple[Equality, ...] = ()
    tests: tuple[Expression, ...] = ()
    """What can be tested once the target is there."""
    tested: float = 0.0
    """What that costs a candidate."""
    assessed: tuple[Determinant, ...] = ()
    """What the classifier evaluates now, best level first."""
    promising: tuple[Promising, ...] = ()
    """What it looks up now, of rows that promise nothing and have no level as good."""
    unsorted: Lane = field(default_factory=Lane)
    lanes: dict[int, Lane] = field(default_factory=dict)
    again: dict[int, Lane] = field(default_factory=dict)
    """By level: rows that stand back, since other rows of their objects go ahead (`overload.coverage.coverage`)."""
    aside: dict[int, Lane] = field(default_factory=dict)
    """Rows in process: they have met some levels here, and wait for the next one (Works 2013, §7.3.1)."""
    # Measured, of late: rows in, rows out, units spent by the operator.
    came: float = 0.0
    left: float = 0.0
    spent: float = 0.0
    denied: float = 0.0
    """Of those that came, rows that were not followed (`overload.semijoin_checks`)."""

    @property
    def waiting(self) -> int:
        return sum(map(len, self.every()))

    def queued(self, level: int) -> int:
        """Rows of a level that wait."""
        return sum(len(lanes[level]) for lanes in (self.lanes, self.again, self.aside) if level in lanes)

    @property
    def cost(self) -> float:
        """Units a row takes in the operator."""
        return self.spent / self.came if self.came >= 1 else 1.0

    @property
    def selectivity(self) -> float:
        """Rows that leave for one that comes; more than one: partners."""
        return self.left / self.came if self.came >= 1 else 1.0

    @property
    def known(self) -> float:
        """Rows that classifiers further on are asked for, of one that comes: those that leave, and those that are not followed."""
        return self.selectivity + (self.denied / self.came if self.came >= 1 else 0.0)

    def count(self, rows: int, out: int, spent: float) -> None:
        if self.came > 1 << 16:
            self.came, self.left, self.spent = self.came / 2, self.left / 2, self.spent / 2
            self.denied /= 2
        self.came += rows
        self.left += out
        self.spent += spent

    def every(self) -> list[Lane]:
        return [lane for _, lane in self.named()]

    def named(self) -> list[tuple[str, Lane]]:
        """In an order that does not hang on which lanes were needed first: it is the same after a restart."""
        named = [(str(level), lane) for level, lane in sorted(self.lanes.items())]
        named += [(f"{level}{AGAIN}", lane) for level, lane in sorted(self.again.items())]
        named += [(f"{level}{ASIDE}", lane) for level, lane in sorted(self.aside.items())]
        return [(UNSORTED, self.unsorted), *named]

    def lane(self, name: str) -> Lane:
        """The one of that name."""
        if name == UNSORTED:
            return self.unsorted
        lanes = self.again if name.endswith(AGAIN) else self.aside if name.endswith(ASIDE) else self.lanes
        return lanes.setdefault(int(name.rstrip(AGAIN + ASIDE)), Lane())


def ahead(route: Sequence[Stop], at: int) -> float:
    """Units that a row takes from a stop of its route on."""
    rest = 0.0
    for stop in reversed(route[at:]):
        rest = max(stop.cost, 1.0) + stop.selectivity * rest
    return rest
