"""The Home Arrest query under a load that its budget does not reach for: what is told of each rank, and how late.

Capacity  the budget: work units a step. It is what the steady load of 1× takes on average, measured.
Load      units that all rows of a step take, worked on as they come and none dropped: measured with a budget of nothing, drained every step.
Clock     virtual: a unit is a microsecond of processing, a step of `STEP` seconds of event time lasts as many as it has units. So a run is the
          same whenever it is repeated. A wall clock would take the place of `Town.latency` and of the budget's unit.
Latency   from the beginning of the step in which a result's youngest row came to the end of that in which the result was told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.surfaces.figures.runner import Connect
from penstock.surfaces.figures.tp import city, queries
from penstock.surfaces.figures.tp.load import MICROSECONDS, Floats, Ints, Load
from penstock.surfaces.figures.tp.outcomes import stored

STEP = 0.1
RATE, PATROL = 20.0, 16.0
"""Rows a second of prisoners at 1×, and of officers."""
WINDOW = 8_000
"""Milliseconds. A row meets some hundred of the other stream, and a lifespan is a seventh of it."""
BEGIN = 18.75 * 3600
"""When nearly everybody is elsewhere: earlier or later half of the tuples meet nobody, and 15 % of the tuples would be 26 % of the work."""
LIFESPAN = 7_500
"""Microseconds: the dissertation's 7.5 ms."""
FOREVER = 10**15
BASE, BURST, EVERY, LASTS = 0.25, 6.0, 60.0, 45.0
"""The fluctuating load: a calm quarter of a minute, and three quarters in which it is six times the capacity."""

TRAD, FIFO, RANDOM, SEMANTIC, PROMOTE = "trad", "fifo", "random", "semantic", "promote"
ALLOCATIONS = (TRAD, FIFO, RANDOM, SEMANTIC, PROMOTE)
"""TRAD: as they came, with no lifespan at all; what is told too late does not count."""


@dataclass(frozen=True, slots=True)
class Town:
    """`load`: prisoners, in times of `RATE`; in bursts `burst` times that."""

    data_set: str = "15-5-5"
    seconds: float = 60.0
    load: float = 1.0
    burst: float = 1.0
    lifespan: int = LIFESPAN
    seed: int = 2013

    @property
    def levels(self) -> int:
        return len(city.shares(self.data_set))

    @property
    def steps(self) -> int:
        return round(self.seconds / STEP)

    def made(self) -> city.City:
        load = Load(RATE * self.load, burst=self.burst, every=EVERY, lasts=LASTS)
        return city.make(
            self.data_set, self.seconds, load=load, patrol=Load(PATROL), begin=BEGIN, seed=self.seed
        )


def fluctuating(data_set: str, seconds: float, lifespan: int = LIFESPAN) -> Town:
    return Town(data_set, seconds, BASE, BURST / BASE, lifespan)


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

    @property
    def ranks(self) -> int:
        return int(self.told.shape[1]) - 1

    def results(self, rank: int, until: int | None = None) -> int:
        return int(self.told[:until, rank].sum())

    def latency(self, rank: int, steps: slice) -> float | None:
        """The mean, in microseconds, of results whose youngest row came in these steps."""
        count = self.told[steps, rank].sum()
        return float(self.late[steps, rank].sum() / count) if count else None


def open_session(town: Town, made: city.City, connect: Connect, **options: Any) -> tuple[Any, Any]:
    """A session with the query, and the query."""
    session: Any = connect(**options)
    session.execute(city.DECLARATIONS)
    session.update_table("prisonerInfo", insert=made.info[0][1])
    text = queries.home_arrest(town.levels, WINDOW, town.lifespan)
    return session, session.query(text, name="near")


def run(
    town: Town,
    made: city.City,
    budget: int | None,
    allocation: str,
    connect: Connect,
    each: Callable[[], None] = lambda: None,
) -> Outcome:
    """What one allocation makes of a budget; no budget: all there is."""
    traditional = allocation == TRAD
    given = {} if budget is None else {"budget": budget, "allocation": FIFO if traditional else allocation}
    asked = replace(town, lifespan=FOREVER) if traditional else town
    session, query = open_session(asked, made, connect, **given)
    pipeline = session.engine.queries["near"].pipeline
    told = np.zeros((town.steps, town.levels + 1), np.int64)
    late = np.zeros(told.shape)
    state = np.zeros((3, town.steps), np.int64)
    lasts = budget or 0
    for step, (until, rows) in enumerate(made.feed.pushes(STEP)):
        each()
        for name, batch in rows.items():
            session.push(name, batch)
        session.advance(until)
        changes = query.changes()
        if len(changes):
            came = (changes["__ts"].cast(pa.int64()).to_numpy() - made.feed.start) // round(
                STEP * MICROSECONDS
            )
            rank = changes["__rank"].fill_null(0).to_numpy()
            ages = (step - came + 1) * float(lasts)
            if traditional:
                useful = ages <= town.lifespan + lasts
                came, rank, ages = came[useful], rank[useful], ages[useful]
            np.add.at(told, (came, rank), 1)
            np.add.at(late, (came, rank), ages)
        if budget is not None:
            state[:, step] = pipeline.busy, pipeline.waiting, stored(pipeline)
    return Outcome(told, late, *state)


# ------------------------------------------------------------------ load and capacity


def offered(town: Town, made: city.City, connect: Connect) -> Floats:
    """Units that the rows of each step take."""
    session, query = open_session(replace(town, lifespan=FOREVER), made, connect, budget=0, allocation=FIFO)
    pipeline = session.engine.queries["near"].pipeline
    taken = np.zeros(town.steps)
    for step, (until, rows) in enumerate(made.feed.pushes(STEP)):
        for name, batch in rows.items():
            session.push(name, batch)
        session.advance(until)
        session.drain()
        taken[step] = pipeline.spent
        query.changes()
    return taken


@lru_cache
def capacity(connect: Connect, seconds: float = 60.0) -> int:
    """The budget: units a step that a steady load of 1× takes once windows have turned over."""
    town = Town(seconds=seconds)
    return round(float(offered(town, town.made(), connect)[settled() :].mean()))


def settled() -> int:
    """Steps until windows have turned over twice: what was built before a load began is gone."""
    return round(2 * WINDOW / 1000 / STEP)


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


def until_calm(outcome: Outcome, budget: int, lifespan: int) -> list[float]:
    """After each burst that is followed by a calm: lifespans from its last row until the query is calm, and stays so for a lifespan."""
    period, rest = round(EVERY / STEP), round((EVERY - LASTS) / STEP)
    long = -(-lifespan // budget)
    found = []
    for end in range(period, len(outcome.busy) - rest + 1, period):
        busy = outcome.busy[end : end + rest]
        stays = np.convolve(busy, np.ones(long), mode="valid") == 0
        steps = int(stays.argmax()) if stays.any() else rest
        found.append(steps * budget / lifespan)
    return found
