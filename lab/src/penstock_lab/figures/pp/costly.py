"""Criteria that cost a hundred times what an operator does: promotion, and classifiers that evaluate them first or last everywhere, or never.

The dissertation says that to determine precedence is to cost no more than it brings, and has no figure of it. A stream is joined with two
tables; one row in ten is of rank 1, and to find that out takes as much as a third of what a row takes, or a hundred times as much.
By the virtual clock alone: a criterion's cost is what it was declared to be.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from penstock.overload.policy.promote import Promote
from penstock_lab.baselines.places import First, Last, Never
from penstock_lab.benchmarks.points import Point
from penstock_lab.figures.bars import at_least
from penstock_lab.figures.cacq.chart import Chart, Data, Sample, Sizes
from penstock_lab.figures.pp.bursts import SOURCE
from penstock_lab.figures.runner import Connect, Tell

DECLARED = """CREATE STREAM a (ts BIGINT, k INT, x INT) WATERMARK ts DELAY OF INTERVAL 0;
CREATE TABLE b (k INT, j INT); CREATE TABLE c (j INT)"""
QUERY = """SELECT a.x FROM a [RANGE 200], b, c WHERE a.k = b.k AND b.j = c.j
LIFESPAN {} MICROSECONDS RANK 1 CRITERIA (heavy(a.x))"""
LENGTH = 10
WAYS: dict[str, type[Promote]] = {
    "promote": Promote,
    "asked first everywhere": First,
    "asked last everywhere": Last,
    "never asked": Never,
}
BEHIND = 0.995
"""Of the best of the others: a row more or less at the end is a few results in a thousand."""


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


def told(load: Load, way: type[Promote], connect: Connect, steps: int, seed: int = 1) -> int:
    """Results of rank 1."""
    rng = random.Random(seed)
    session: Any = connect(budget=load.budget, allocation="promote")
    session.execute(DECLARED)
    session.update_table("b", insert=[{"k": 0, "j": n} for n in range(load.met)])
    session.update_table("c", insert=[{"j": n} for n in range(load.met)])
    session.create_function("heavy", lambda x: x == 0, returns="BOOLEAN", cost=load.cost)
    query = session.query(QUERY.format(load.lifespans * load.budget), name="q")
    pipeline = session.engine.queries["q"].pipeline
    pipeline.allocation = way(pipeline.scheduler, 0)
    found: Counter[int | None] = Counter()
    for step in range(steps):
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


def measure(sizes: Sizes, tell: Tell, connect: Connect) -> Data:
    """`xs`: the loads, by number; `rows`: steps; `turns`: seeds."""
    samples = []
    loads = list(LOADS.items())
    for x in sizes.xs:
        name, load = loads[x]
        tell(name)
        whole = told(replace(load, budget=10**9), Promote, connect, sizes.rows)
        for way, kind in WAYS.items():
            turns = tuple(
                float(told(load, kind, connect, sizes.rows, seed + 1)) for seed in range(sizes.turns)
            )
            samples.append(Sample(way, x, turns, {"without_limit": whole}))
    return Data(samples)


def ratios(data: Data) -> dict[str, float]:
    """By load: promote against the best of the others."""
    best = zip(*(data.line(way) for way in WAYS if way != "promote"), strict=True)
    names = list(LOADS)
    return {
        names[round(mine.x)]: mine.value / max(1.0, *(one.value for one in others))
        for mine, others in zip(data.line("promote"), best, strict=True)
    }


def bars(data: Data) -> list[Point]:
    found = ratios(data)
    return [
        Point(
            "results of rank 1, promote against the best fixed place, worst load",
            min(found.values()),
            BEHIND,
            "×",
            at_least=True,
            more=dict(found),
        )
    ]


def paper(data: Data) -> list[Point]:
    never = max(a.value / max(b.value, 1) for a, b in data.both("promote", "never asked"))
    return [at_least("more results of rank 1 than if nobody is ever asked, best load", never, 1)]


def lead(data: Data) -> str:
    told = "; ".join(f"{name}: {ratio:.3f}" for name, ratio in ratios(data).items())
    return f"results of rank 1, promote against the best of first, last and never, by load: {told}"


CHART = Chart(
    "pp-costly",
    "criteria that cost a hundred times what an operator does",
    "load (by number)",
    (("results_1", "results of rank 1"),),
    "promote tells no fewer results of rank 1 than if criteria were evaluated first everywhere, last everywhere, or never",
    "§4.3: precedence is determined where it is worth what it costs (no figure)",
    measure,
    Sizes((2, 4, 6, 8), rows=80, turns=1),
    Sizes(tuple(range(len(LOADS))), rows=80, turns=3),
    lead,
    bars,
    paper,
    "the same promotion with places that are fixed, on the same rows with the same budget",
    scales=("linear", "log"),
    source=SOURCE,
)
