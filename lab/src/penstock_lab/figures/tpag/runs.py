"""The Stock Market Aggregate query under a load that its budget does not reach for: what TP-Ag and plain GROUP BYs answer.

TP-Ag     promotes the most significant ticks and answers from the levels that are reliable.
PP, sem,  plain aggregation of whatever the allocation let through (`promote`, `semantic`, `random`, `fifo`).
rand, trad
Load      units that a step's rows take on average, all worked on as they come. A load of 3 is a budget of a third of that.
Steady    posts come for six minutes before the first tick: most sectors are in the news from the beginning, so the load is as high.
Clock     virtual (a unit is a microsecond), so a run is the same whenever it is repeated. LIFESPAN: three steps.
Wall      by the wall clock every tick that is worked on waits a while for an answer from elsewhere (`looked_up`): a hundred ticks by themselves
          take less than the fixed cost of a step, and with many more any sample of them would be right.
Windows   10 seconds, in which 500 ticks come: the dissertation's 500 tuples, every stock about once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from time import perf_counter, sleep
from typing import Any

import numpy as np
import pyarrow as pa

from penstock_lab.figures.runner import Connect
from penstock_lab.figures.tp import market, queries
from penstock_lab.figures.tp.clock import Budget, Watch, microseconds, units
from penstock_lab.figures.tp.feed import Feed, stamps, times
from penstock_lab.figures.tp.load import MICROSECONDS, Load
from penstock_lab.figures.tpag.answers import COUNTED, Answers, Sheet, Truth, plain, sampled, truth

WINDOW, SLIDE = 10_000, 2_000
"""Milliseconds. A step is a slide: what slides comes to the query when it does."""
RATE = 50.0
"""Ticks a second."""
ALONE = 900.0
"""Seconds between posts about a sector: no more than one is alive, so every tick counts once."""
BEFORE = 360.0
"""Seconds in which there are posts and no ticks."""
STEPS = 3
"""Of a lifespan."""
FOREVER = 10**15
SAMPLED = "TP-Ag"
PLAIN = {"PP": "promote", "sem": "semantic", "rand": "random", "trad": "fifo"}
APPROACHES = (SAMPLED, *PLAIN)
BRIEF = 20.0
"""Seconds for which it is measured what a step takes, by the wall clock."""
LOOK_UP = 1_000
"""Microseconds that a tick waits, by the wall clock."""


@dataclass(frozen=True, slots=True)
class Day:
    """What is asked of which rows."""

    data_set: str = "DS1"
    seconds: float = 300.0
    seed: int = 500
    slide: int = SLIDE
    rate: float = RATE
    wall: bool = False

    @property
    def feed(self) -> Feed:
        return _feed(self.data_set, self.seconds, self.seed, self.rate)

    @property
    def step(self) -> float:
        return self.slide / 1000

    def text(self, lifespan: int, *, counted: bool) -> str:
        text = queries.stock_aggregate(
            window=WINDOW, slide=self.slide, lifespan=lifespan, joined=True, counted=counted
        )
        return text.replace("GROUP BY", "AND looked_up(S.price)\nGROUP BY") if self.wall else text

    def sheet(self, *columns: str) -> Sheet:
        return Sheet(self.feed, self.slide * 1000, columns)


@lru_cache(maxsize=4)
def _feed(data_set: str, seconds: float, seed: int, rate: float) -> Feed:
    posts = market.make(data_set, BEFORE + seconds, alone=ALONE, seed=seed).feed
    ticks = market.make(data_set, seconds, load=Load(rate), seed=seed, streams=()).feed.streams["stock"]
    later = stamps(times(ticks) + int(BEFORE * MICROSECONDS))
    return replace(posts, streams={**posts.streams, "stock": ticks.set_column(0, "ts", later)})


def pushed(session: Any, feed: Feed, step: float) -> Iterator[int]:
    """Rows come: the posts before the first tick at once, then a step at a time."""
    first = feed.start + int(BEFORE * MICROSECONDS)
    early = replace(feed, seconds=BEFORE)
    late = replace(feed, start=first, seconds=feed.seconds - BEFORE)
    for part, every in ((early, BEFORE), (late, step)):
        for until, rows in part.pushes(every):
            for name, batch in rows.items():
                session.push(name, batch)
            session.advance(until)
            yield until


def opened(text: str, connect: Connect, **options: Any) -> tuple[Any, Any]:
    session: Any = connect(**options)
    session.execute(market.declarations())
    session.create_function("looked_up", looked_up, returns="BOOLEAN", cost=LOOK_UP, vectorized=True)
    return session, session.query(text, name="means")


def looked_up(prices: pa.Array) -> pa.Array:
    """Ticks of which somebody elsewhere knows: all, but it takes time to hear of it."""
    sleep(len(prices) * LOOK_UP / MICROSECONDS)
    return pa.array(np.ones(len(prices), np.bool_))


@lru_cache(maxsize=8)
def true(day: Day, connect: Connect) -> Truth:
    """Without a limit, by levels."""
    day = replace(day, wall=False)
    sheet = day.sheet(*COUNTED)
    session, query = opened(day.text(FOREVER, counted=True), connect)
    for _ in pushed(session, day.feed, day.step):
        sheet.take(query.changes())
    return truth(sheet)


@lru_cache(maxsize=8)
def offered(day: Day, connect: Connect) -> float:
    """Units a step that has ticks; by the wall clock microseconds, since most of it is waiting."""
    session, query = opened(day.text(FOREVER, counted=False), connect, budget=0, allocation="fifo")
    pipeline = session.engine.queries["means"].pipeline
    taken: list[float] = []
    began = perf_counter()
    for _ in pushed(session, day.feed, day.step):
        session.drain()
        taken.append(1e6 * (perf_counter() - began) if day.wall else pipeline.spent)
        query.changes()
        began = perf_counter()
    return sum(taken[1:]) / (len(taken) - 1)


def budget(day: Day, load: float, connect: Connect) -> Budget:
    if not day.wall:
        return units(max(1, round(offered(day, connect) / load)))
    return microseconds(offered(replace(day, seconds=BRIEF, data_set="DS1"), connect) / load)


def answers(
    day: Day,
    approach: str,
    load: float,
    connect: Connect,
    *,
    feed: Feed | None = None,
    lifespan: int | None = None,
    **options: Any,
) -> Answers:
    """What an approach says under a load; `feed`: if it is given part of the rows only, `lifespan`: if it may take longer."""
    has = budget(day, load, connect)
    tells = approach == SAMPLED
    sheet = day.sheet(*(("price", "__subsets") if tells else COUNTED))
    session, query = opened(
        day.text(round(STEPS * has.lasts) if lifespan is None else lifespan, counted=not tells),
        connect,
        budget=has.given,
        allocation="promote" if tells else PLAIN[approach],
        sampling=tells,
        **options,
    )
    watch = Watch(has)
    watch.begin()
    for _ in pushed(session, feed or day.feed, day.step):
        sheet.take(query.changes())
        watch.begin()
    return sampled(sheet) if tells else plain(sheet)
