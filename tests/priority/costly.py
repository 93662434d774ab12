"""Criteria that cost a hundred times what an operator does: promotion, and classifiers that evaluate them first or last everywhere.

`python -m tests.priority.costly` shows all cases.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import penstock
from penstock.flow.allocation import Moment, place
from penstock.flow.promote import Promote
from penstock.runtime import ranked

DECLARED = """CREATE STREAM a (ts BIGINT, k INT, x INT) WATERMARK ts DELAY OF INTERVAL 0;
CREATE TABLE b (k INT, j INT); CREATE TABLE c (j INT)"""
QUERY = """SELECT a.x FROM a [RANGE 200], b, c WHERE a.k = b.k AND b.j = c.j
LIFESPAN {} MICROSECONDS RANK 1 CRITERIA (heavy(a.x))"""
STEPS, LENGTH = 80, 10


class Fixed(Promote):
    """All levels active, every determinant at the same end of its path for ever."""

    end = 0

    def adapt(self, moment: Moment) -> None:
        if self._begun:
            return
        self._begun = True
        for core in self.scheduler.cores:
            for route in core.routes:
                paths = {one: core.path(route, one) for one in core.determinants}
                place(core, route, {one: path[self.end] for one, path in paths.items() if path})
        self.scheduler.active = frozenset(self.levels)
        self.scheduler.rearrange()


class First(Fixed):
    end = 0


class Last(Fixed):
    end = -1


class Never(Promote):
    """Nothing is ever asked: rows go as they come."""

    def adapt(self, moment: Moment) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Load:
    """`rows` of a a step, of which one in `keys` finds partners in b, `met` of them; `cost` of the criterion; one in `rare` is of rank 1."""

    rows: int
    keys: int
    met: int
    cost: float = 100.0
    rare: int = 10
    budget: int = 1000
    lifespans: int = 4
    """How many steps a lifespan lasts."""


LOADS = {
    "sorting out all but a tenth, there is no time to ask": Load(400, 10, 1, budget=250),
    "sorting out all but a tenth, there is time to ask those": Load(200, 20, 10, budget=300, cost=20),
    "rows meet few": Load(100, 1, 1, budget=200),
    "rows meet many, no time to ask all": Load(20, 1, 40, budget=1200),
    "rows meet many, time to ask all": Load(10, 1, 100, budget=1500),
    "rows meet many, just time to ask all": Load(10, 1, 100, budget=1300),
    "rows meet many, nearly time to ask all": Load(10, 1, 100, budget=1100),
    "rows meet very many": Load(10, 1, 400, budget=3000),
    "half of the rows are important": Load(10, 1, 200, budget=3000, rare=2),
    "a cheap criterion": Load(60, 2, 8, cost=1.0, budget=400),
}


def told(load: Load, allocation: type[Promote], seed: int = 1) -> int:
    """Results of rank 1."""
    rng = random.Random(seed)
    before = ranked.ALLOCATED["promote"]
    ranked.ALLOCATED["promote"] = allocation
    try:
        session: Any = penstock.connect(budget=load.budget, allocation="promote")
        session.execute(DECLARED)
        session.update_table("b", insert=[{"k": 0, "j": n} for n in range(load.met)])
        session.update_table("c", insert=[{"j": n} for n in range(load.met)])
        session.create_function("heavy", lambda x: x == 0, returns="BOOLEAN", cost=load.cost)
        query = session.query(QUERY.format(load.lifespans * load.budget), name="q")
    finally:
        ranked.ALLOCATED["promote"] = before
    found: Counter[int | None] = Counter()
    for step in range(STEPS):
        t = step * LENGTH
        rows = [
            {
                "ts": t + 1 + n * (LENGTH - 2) // load.rows,
                "k": rng.randrange(load.keys),
                "x": rng.randrange(load.rare),
            }
            for n in range(load.rows)
        ]
        session.push("a", rows)
        session.advance(t + LENGTH - 1)
        found.update(query.changes()["__rank"].to_pylist())
    return found[1]


def main() -> None:
    for name, load in LOADS.items():
        whole = told(replace(load, budget=10**9), Promote)
        made = {one.__name__: told(load, one) for one in (Promote, First, Last, Never)}
        sys.stdout.write(f"{name}: {made} of {whole}\n")


if __name__ == "__main__":
    main()
