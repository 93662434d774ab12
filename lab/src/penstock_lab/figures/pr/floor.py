"""The Stock Market Join query while posts come in bursts: what is told of each rank.

Load      ticks come steadily, posts in bursts. Before a burst windows are full of ticks, most of which matter to nobody; in it every post
          may meet them.
Need      what rank 1 takes by itself, in bursts: its ticks and the posts that these may meet, measured; and that every row is looked at once.
Capacity  the budget: work units a step, `room` times the need, or as much more as the calm takes. So rank 1 fits with all its
          partners; all of it takes many times as much, which is measured too.
Clock     virtual: a unit is a microsecond of processing, and a step of `STEP` seconds of event time lasts as many as it has units. So a run
          is the same whenever it is repeated. A lifespan is `STEPS` steps, or fewer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock_lab.figures.pr.approaches import ALLOCATION, TRAD, settle
from penstock_lab.figures.runner import Connect
from penstock_lab.figures.tp import market, queries
from penstock_lab.figures.tp.feed import Feed, times
from penstock_lab.figures.tp.load import MICROSECONDS, Floats, Ints, Load
from penstock_lab.figures.tp.outcomes import stored
from penstock_lab.figures.tp.stocks import SECTORS, SUBSECTORS

STEP = 0.2
FOREVER = 10**15
STEPS = 10
ROOM = 1.25
TICKS = 50.0
"""A second."""
LEVELS = 3


@dataclass(frozen=True, slots=True)
class Floor:
    """A trading floor: which rows, and which query.

    `named`: of the subsectors that matter, those that are posted about. `sector`: all joins are by it. `window`: in seconds, in which
    `TICKS` ticks a second come. `posts`: in a burst, of each stream, a second; `calm`: otherwise. Streams that are
    joined by sector have as many posts about each sector as the others about each subsector. `vain`: what rank 1 needs is with
    joins that meet all partners at once. `lifespan`: in steps.
    """

    data_set: str = "DS1"
    named: float = 1.0
    sector: bool = False
    joins: int = 2
    paths: int = 1
    window: float = 20.0
    posts: float = 300.0
    calm: float = 5.0
    periods: int = 2
    each: int = 23
    promising: float | None = 0.15
    levels: int = LEVELS
    room: float = ROOM
    vain: bool = False
    lifespan: int = STEPS
    seed: int = 2013

    @property
    def every(self) -> float:
        """Seconds from burst to burst: what one has left in the windows is gone long before the next."""
        return 2 * self.window

    @property
    def lasts(self) -> float:
        return self.window / 5

    @property
    def seconds(self) -> float:
        return self.periods * self.every

    @property
    def steps(self) -> int:
        return round(self.seconds / STEP)

    @property
    def streams(self) -> tuple[str, ...]:
        return queries.POSTS[: self.joins]

    def by(self, stream: str) -> str:
        """The column by which a stream is joined."""
        broad = self.streams if self.sector else queries.broad(self.paths)
        return "sector" if stream in broad else "subsector"

    @property
    def made(self) -> market.Market:
        return _made(self)

    @property
    def bursts(self) -> Ints:
        """The steps in which there is one."""
        at = np.arange(self.steps) % round(self.every / STEP)
        found: Ints = np.flatnonzero(at >= round((self.every - self.lasts) / STEP))
        return found

    @property
    def quiet(self) -> Ints:
        """The steps before bursts in which no window has anything of the last one."""
        at = np.arange(self.steps) % round(self.every / STEP)
        begin, end = (round(s / STEP) for s in (self.window, self.every - self.lasts))
        found: Ints = np.flatnonzero((at >= begin) & (at < end))
        return found

    @property
    def settled(self) -> int:
        """Steps until windows are full."""
        return round(self.window / STEP)

    def text(self, lifespan: int) -> str:
        window = round(1000 * self.window)
        return queries.stock_join(
            self.joins, self.levels, window, lifespan, paths=self.paths, sector=self.sector
        )


@lru_cache(maxsize=4)
def _made(floor: Floor) -> market.Market:
    broad = queries.broad(floor.paths)
    return market.make(
        floor.data_set,
        floor.seconds,
        load=Load(TICKS),
        streams=floor.streams,
        posts={
            name: _posts(floor, len(SECTORS) / SUBSECTORS if name in broad else 1) for name in floor.streams
        },
        broad=broad,
        promising=floor.promising,
        named=floor.named,
        each=floor.each,
        seed=floor.seed,
    )


def _posts(floor: Floor, share: float) -> Load:
    return Load(floor.calm * share, floor.posts / floor.calm, floor.every, floor.lasts)


# ------------------------------------------------------------------ runs


@dataclass(frozen=True, slots=True)
class Outcome:
    """Results by the step in which their youngest row came and by rank; rank 0: none."""

    told: Ints
    ages: Ints
    """Results by the steps that they took, the one in which they came included, and by rank."""
    disorder: float
    """Of results that follow another of the same busy step, those that are of a better rank than it."""
    stored: float
    """Rows in the states of joins, while it is busy; and in queues."""
    waiting: float
    load: dict[str, Any]
    """What the query says of itself at the end."""

    def results(self, rank: int, until: int | None = None) -> int:
        return int(self.told[:until, rank].sum())

    def waited(self, rank: int, share: float) -> int:
        """Within how many steps that share of a rank's results was told."""
        counts = np.cumsum(self.ages[:, rank])
        return int(np.searchsorted(counts, share * counts[-1])) if counts[-1] else 0


def opened(floor: Floor, lifespan: int, connect: Connect, **options: Any) -> tuple[Any, Any]:
    """A session with the query, and the query. What the papers' engines do not ask is not asked here."""
    session: Any = connect(**{"demand": "off", **options})
    session.execute(market.declarations(floor.streams))
    return session, session.query(floor.text(lifespan), name="posted")


def fed(session: Any, feed: Feed, more: int = 0) -> Iterator[int]:
    """Rows come, a step at a time; then so many steps without any."""
    until = feed.start
    for until, rows in feed.pushes(STEP):
        for name, batch in rows.items():
            session.push(name, batch)
        session.advance(until)
        yield until
    for _ in range(more):
        until += round(STEP * MICROSECONDS)
        session.advance(until)
        yield until


def run(floor: Floor, budget: int | None, connect: Connect, approach: str = TRAD) -> Outcome:
    """What an approach makes of a budget; no budget: all there is."""
    given = {} if budget is None else {"budget": budget, "allocation": ALLOCATION[approach]}
    session, query = opened(floor, FOREVER if budget is None else floor.lifespan * budget, connect, **given)
    pipeline = session.engine.queries["posted"].pipeline
    if budget is not None:
        settle(pipeline, approach)
    feed = floor.made.feed
    told, ages = (np.zeros((n, LEVELS + 1), np.int64) for n in (floor.steps, 4 * STEPS))
    kept: list[tuple[int, int]] = []
    pairs = worse = 0
    for step, _ in enumerate(fed(session, feed, floor.lifespan)):  # a burst is the last that comes
        changes = query.changes()
        if len(changes):
            came = (changes["__ts"].cast(pa.int64()).to_numpy() - feed.start) // round(STEP * MICROSECONDS)
            rank = changes["__rank"].fill_null(0).to_numpy()
            np.add.at(told, (came, rank), 1)
            np.add.at(ages, (np.minimum(step - came + 1, len(ages) - 1), rank), 1)
            if budget is not None and pipeline.busy:
                pairs += len(rank) - 1
                worse += overtaken(rank)
        if budget is not None and pipeline.busy:
            kept.append((stored(pipeline), pipeline.waiting))
    held, waiting = np.mean(kept, axis=0) if kept else (0.0, 0.0)
    return Outcome(told, ages, worse / max(pairs, 1), float(held), float(waiting), query.load)


def overtaken(rank: Ints) -> int:
    """How many results are of a better rank than the one before; 0 is no rank."""
    return int((np.diff(np.where(rank == 0, LEVELS + 1, rank)) < 0).sum())


# ------------------------------------------------------------------ load and capacity


def offered(floor: Floor, feed: Feed, connect: Connect) -> Floats:
    """Units that the rows of each step take, all worked on as they come."""
    session, query = opened(floor, FOREVER, connect, budget=0, allocation="fifo")
    pipeline = session.engine.queries["posted"].pipeline
    taken = []
    for _ in fed(session, feed):
        session.drain()
        taken.append(float(pipeline.spent))
        query.changes()
    return np.array(taken)


def best(floor: Floor) -> Feed:
    """The rows that results of rank 1 are made of: its ticks, and posts about their businesses."""
    made = floor.made
    level = dict(zip(made.stocks.symbol.to_pylist(), (made.stocks.level == 1).tolist(), strict=True))
    rows = dict(made.feed.streams)
    ticks = rows["stock"]
    rows["stock"] = ticks.filter(pa.array([level[s] for s in ticks.column("symbol").to_pylist()]))
    for name in floor.streams:
        by = floor.by(name)
        wanted = rows["stock"].column(by).unique()
        rows[name] = rows[name].filter(pc.is_in(rows[name].column(by), wanted))
    return replace(made.feed, streams=rows)


def vain(floor: Floor, feed: Feed) -> Floats:
    """Ticks without rank 1 that the posts of rank 1 (`feed`) meet in each step if they meet all partners at once."""
    ticks, met = floor.made.feed.streams["stock"], np.zeros(floor.steps)
    step, window = round(STEP * MICROSECONDS), round(floor.window * MICROSECONDS)
    for name in floor.streams:
        by, posts = floor.by(name), feed.streams[name]
        for business in posts.column(by).unique():
            at = times(posts.filter(pc.equal(posts.column(by), business)))
            for rows, sign in ((ticks, 1), (feed.streams["stock"], -1)):
                there = times(rows.filter(pc.equal(rows.column(by), business)))
                found = np.searchsorted(there, at, "right") - np.searchsorted(there, at - window, "right")
                np.add.at(met, (at - feed.start) // step, sign * found)
    return met


@dataclass(frozen=True, slots=True)
class Capacity:
    """Units a step: what there is; what rank 1 needs in bursts, and everything; what the calm takes."""

    budget: int
    need: float
    burst: float
    calm: float


@lru_cache(maxsize=32)
def capacity(floor: Floor, connect: Connect) -> Capacity:
    feed = floor.made.feed
    every = offered(floor, feed, connect)
    wanted = best(floor)
    taken = offered(floor, wanted, connect) + (vain(floor, wanted) if floor.vain else 0)
    need = float(taken[floor.bursts].mean())
    rows = np.array([sum(len(b) for b in rows.values()) for _, rows in feed.pushes(STEP)])
    calm = float(every[floor.quiet].mean())
    budget = floor.room * max(need + float(rows[floor.bursts].mean()), calm)
    return Capacity(round(budget), need, float(every[floor.bursts].mean()), calm)
