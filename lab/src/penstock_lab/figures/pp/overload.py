"""The Home Arrest query under a load that its budget does not reach for: what is told of each rank, and how late.

Capacity  the budget of a step, in work units. It is what the steady load of 1× takes on average, measured.
Load      units that all rows of a step take, worked on as they come and none dropped: measured with a budget of nothing, drained every step.
Clock     virtual: a unit is a microsecond of processing, a step of `STEP` seconds of event time lasts as many as it has units. So a run is the
          same whenever it is repeated. By the wall clock capacity and load are time instead of units, as long as the ordinary operators take, and steps begin when it is their time.
Latency   from the beginning of the step in which a result's youngest row came to the end of that in which the result was told, and until what
          that step took more than it had is made up for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from penstock_lab.figures.runner import Connect
from penstock_lab.figures.tp import city, queries
from penstock_lab.figures.tp.clock import Budget, Watch, microseconds, units
from penstock_lab.figures.tp.load import MICROSECONDS, Floats, Ints, Load
from penstock_lab.figures.tp.outcomes import stored

STEP = 0.1
RATE, PATROL = 20.0, 16.0
"""Rows a second of prisoners at 1×, and of officers."""
WINDOW = 8_000
"""Milliseconds. A row meets some hundred of the other stream, and a lifespan is a seventh of it."""
BEGIN = 18.75 * 3600
"""When nearly everybody is elsewhere: earlier or later half of the tuples meet nobody, and 15 % of the tuples would be 26 % of the work."""
LIFESPAN = 7_500
"""Microseconds: the dissertation's 7.5 ms."""
NOMINAL, SHORTER = 770, 2.5
"""Microseconds of a step by the virtual clock, about. By the wall clock, where steps are longer, a lifespan is so many times fewer of them."""
FOREVER = 10**15
BASE, BURST, EVERY, LASTS = 0.25, 6.0, 60.0, 45.0
"""The fluctuating load: a calm quarter of a minute, and three quarters in which it is six times the capacity."""

BRIEF = 40.0
"""Seconds that a steady load is measured for."""

TRAD, FIFO, RANDOM, SEMANTIC, PROMOTE = "trad", "fifo", "random", "semantic", "promote"
ALLOCATIONS = (TRAD, FIFO, RANDOM, SEMANTIC, PROMOTE)
"""TRAD: as they came, with no lifespan at all; what is told too late does not count."""


@dataclass(frozen=True, slots=True)
class Clock:
    """`step`: seconds of event time; `times`: how many times as many rows come; `burst`: times the capacity."""

    step: float = STEP
    times: float = 1.0
    burst: float = BURST
    wall: bool = False


VIRTUAL = Clock()
WALL = Clock(1.0, 10.0, 3.0, wall=True)
"""So many rows that what a step takes by itself, a millisecond or two, is the smaller part of it: else twice the rows would not be twice the load. Capacity is
that of the ordinary operators; along routes rows take up to three times as long, so that a burst is half as high."""


@dataclass(frozen=True, slots=True)
class Town:
    """`load`: prisoners, in times of `RATE`; in bursts `burst` times that."""

    data_set: str = "15-5-5"
    seconds: float = 60.0
    load: float = 1.0
    burst: float = 1.0
    lifespan: int = LIFESPAN
    seed: int = 2013
    clock: Clock = VIRTUAL

    @property
    def levels(self) -> int:
        return len(city.shares(self.data_set))

    @property
    def steps(self) -> int:
        return round(self.seconds / self.clock.step)

    @property
    def minute(self) -> int:
        """Steps from burst to burst."""
        return round(EVERY / self.clock.step)

    @property
    def settled(self) -> int:
        """Steps until windows have turned over twice: what was built before a load began is gone."""
        return round(2 * WINDOW / 1000 / self.clock.step)

    def useful(self, budget: Budget) -> int:
        """LIFESPAN, in microseconds."""
        return round(self.lifespan / (SHORTER * NOMINAL) * budget.lasts) if budget.wall else self.lifespan

    def made(self) -> city.City:
        times = self.clock.times
        load = Load(RATE * times * self.load, burst=self.burst, every=EVERY, lasts=LASTS)
        patrol = Load(PATROL * times)
        return city.make(self.data_set, self.seconds, load=load, patrol=patrol, begin=BEGIN, seed=self.seed)


def fluctuating(data_set: str, seconds: float, lifespan: int = LIFESPAN, clock: Clock = VIRTUAL) -> Town:
    return Town(data_set, seconds, BASE, clock.burst / BASE, lifespan, clock=clock)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Results by the step in which their youngest row came and by rank; rank 0: none. `late`: their latencies together."""

    told: Ints
    late: Floats
    busy: Ints
    waiting: Ints
    """Rows in queues, after each step."""
    stored: Ints
    """Rows in the joins' states, while it is busy."""
    had: float = 1.0
    """The share of a core that it had while it worked."""

    @property
    def ranks(self) -> int:
        return int(self.told.shape[1]) - 1

    def results(self, rank: int, until: int | None = None) -> int:
        return int(self.told[:until, rank].sum())

    def latency(self, rank: int, steps: slice) -> float | None:
        """The mean, in microseconds, of results whose youngest row came in these steps."""
        count = self.told[steps, rank].sum()
        return float(self.late[steps, rank].sum() / count) if count else None


def open_session(
    town: Town, made: city.City, connect: Connect, lifespan: int, **options: Any
) -> tuple[Any, Any]:
    """A session with the query, and the query."""
    session: Any = connect(**options)
    session.execute(city.DECLARATIONS)
    session.update_table("prisonerInfo", insert=made.info[0][1])
    text = queries.home_arrest(town.levels, WINDOW, lifespan)
    return session, session.query(text, name="near")


def run(
    town: Town,
    made: city.City,
    budget: Budget | None,
    allocation: str,
    connect: Connect,
    each: Callable[[], None] = lambda: None,
) -> Outcome:
    """What one allocation makes of a budget; no budget: all there is."""
    traditional = allocation == TRAD
    options: dict[str, Any] = {}
    useful = lifespan = town.lifespan
    if budget is not None:
        options = {"budget": budget.given, "allocation": FIFO if traditional else allocation}
        useful = lifespan = town.useful(budget)
    session, query = open_session(town, made, connect, FOREVER if traditional else lifespan, **options)
    pipeline = session.engine.queries["near"].pipeline
    told = np.zeros((town.steps, town.levels + 1), np.int64)
    late = np.zeros(told.shape)
    state = np.zeros((3, town.steps), np.int64)
    watch = Watch(budget)
    for step, (until, rows) in enumerate(made.feed.pushes(town.clock.step)):
        each()
        watch.begin()
        for name, batch in rows.items():
            session.push(name, batch)
        session.advance(until)
        changes = query.changes()
        watch.end()
        if len(changes):
            came = (changes["__ts"].cast(pa.int64()).to_numpy() - made.feed.start) // round(
                town.clock.step * MICROSECONDS
            )
            rank = changes["__rank"].fill_null(0).to_numpy()
            ages = watch.ages(came, step)
            if traditional and budget is not None:
                kept = ages <= useful + budget.lasts
                came, rank, ages = came[kept], rank[kept], ages[kept]
            if budget is not None and not budget.wall:
                ages = ages + pipeline.owed  # who has a lifespan is not judged by it either
            np.add.at(told, (came, rank), 1)
            np.add.at(late, (came, rank), ages)
        if budget is not None:
            state[:, step] = pipeline.busy, pipeline.waiting, stored(pipeline)
    return Outcome(told, late, state[0], state[1], state[2], watch.had)


# ------------------------------------------------------------------ load and capacity


def offered(town: Town, made: city.City, connect: Connect) -> Floats:
    """Units that the rows of each step take; by the wall clock microseconds, by the ordinary operators."""
    budget = 10**15 if town.clock.wall else 0
    session, query = open_session(town, made, connect, FOREVER, budget=budget, allocation=FIFO)
    pipeline = session.engine.queries["near"].pipeline
    taken = np.zeros(town.steps)
    for step, (until, rows) in enumerate(made.feed.pushes(town.clock.step)):
        for name, batch in rows.items():
            session.push(name, batch)
        began = perf_counter()
        session.advance(until)
        if not town.clock.wall:
            session.drain()
        taken[step] = 1e6 * (perf_counter() - began) if town.clock.wall else pipeline.spent
        query.changes()
    return taken


@lru_cache
def capacity(connect: Connect, clock: Clock = VIRTUAL) -> Budget:
    """What a steady load of 1× takes once windows have turned over."""
    town = Town(seconds=BRIEF if clock.wall else 60.0, clock=clock)
    made = town.made()
    if clock.wall:
        offered(town, made, connect)  # the first loads kernels
    taken = float(offered(town, made, connect)[town.settled :].mean())
    return microseconds(taken) if clock.wall else units(round(taken))


def needed(town: Town, made: city.City, connect: Connect) -> Floats:
    """Units a step that the results of rank 1 take: its prisoners and all officers by themselves, and that the others are looked up once."""
    first = np.flatnonzero(made.levels == 1)
    rows = made.feed.streams["prisonerLocation"]
    best = np.isin(rows.column("prisonerid").to_numpy(), first)
    officers = made.feed.streams["officerLocation"]
    parts = ((rows.filter(pa.array(best)), officers), (rows.filter(pa.array(~best)), officers.slice(0, 0)))
    return sum(
        (
            offered(
                town,
                replace(made, feed=replace(made.feed, streams={"prisonerLocation": p, "officerLocation": o})),
                connect,
            )
            for p, o in parts
        ),
        start=np.zeros(town.steps),
    )


def until_calm(town: Town, outcome: Outcome, budget: Budget) -> list[float]:
    """After each burst that is followed by a calm: lifespans from its last row until the query is calm, and stays so for a lifespan."""
    period, rest = town.minute, round((EVERY - LASTS) / town.clock.step)
    lifespan = town.useful(budget)
    long = ceil(lifespan / budget.lasts)
    found = []
    for end in range(period, len(outcome.busy) - rest + 1, period):
        busy = outcome.busy[end : end + rest]
        stays = np.convolve(busy, np.ones(long), mode="valid") == 0
        steps = int(stays.argmax()) if stays.any() else rest
        found.append(steps * budget.lasts / lifespan)
    return found
