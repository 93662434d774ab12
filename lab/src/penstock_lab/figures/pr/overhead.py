"""Figures 6.10 and 7.9: what approaches take when nothing is dropped, and what they keep when there is too much.

Calm  there are units enough: a query runs by the ordinary operators, whatever its allocation.
Busy  there are fewer units than all rows take, and no lifespan: everything goes through queues and routes, and is told in the end.

Without ranks, as in the dissertation: there is nothing to prefer, so that all is in vain. And calm with three ranks, of which somebody
has to know.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pyarrow as pa

from penstock.errors import StateError
from penstock_lab.benchmarks.points import Point
from penstock_lab.benchmarks.runs import now
from penstock_lab.figures.bars import at_least, at_most
from penstock_lab.figures.cacq.chart import Chart, Data, Sample, Sizes
from penstock_lab.figures.pr.approaches import ALLOCATION, PP, PR_JOIN, PR_PRUNE, RAND, SEM, TRAD, settle
from penstock_lab.figures.pr.floor import FOREVER, Floor
from penstock_lab.figures.pr.joins import SECTORS
from penstock_lab.figures.pr.measures import AGAINST, SOURCE, outcome
from penstock_lab.figures.runner import Connect, Tell
from penstock_lab.figures.tp import market, queries
from penstock_lab.figures.tp.load import Load

CALM, BUSY = "calm", "busy"
ENOUGH = 1 << 50
"""A budget that is never spent."""
SHORT = 0.7
"""Of what a push takes: so much is there when it is to be busy."""
PUSH = 0.5
TICKS, POSTS = 1_000.0, 400.0
"""A second, and in a window: as many ticks as the dissertation's windows have tuples."""
MONITORED, JOINED = 1.05, 1.02
"""CPU time against `TRAD`, and of PR-Join against the atomic join."""

Run = tuple[str, str, int]
"""An approach, calm or busy, and how many ranks."""
PREFERRED_RUNS: tuple[Run, ...] = (
    *((name, CALM, 0) for name in (PR_PRUNE, PP, SEM, RAND, TRAD)),
    *((name, CALM, 3) for name in (PR_PRUNE, TRAD)),
    *((name, BUSY, 0) for name in (PR_PRUNE, PP, TRAD)),
)
JOIN_RUNS: tuple[Run, ...] = tuple(
    (name, how, 0) for how in (CALM, BUSY) for name in (PR_JOIN, PR_PRUNE, TRAD)
)


def _series(run: Run) -> str:
    name, how, levels = run
    return f"{name}, {how}" + (f", {levels} ranks" if levels else "")


@lru_cache(maxsize=2)
def _made(seconds: int) -> market.Market:
    streams = queries.POSTS[:2]
    return market.make(
        seconds=seconds, load=Load(TICKS), streams=streams, posts=Load(POSTS), promising=0.15, each=23
    )


def _taken(seconds: int, connect: Connect) -> float:
    """Units that a push takes on average, by the ordinary operators: those of routes are no fewer."""
    session, query = _opened(TRAD, ENOUGH, 0, connect)
    pipeline = session.engine.queries["posted"].pipeline
    taken = []
    for until, rows in _made(seconds).feed.pushes(PUSH):
        _pushed(session, until, rows)
        taken.append(float(pipeline.spent))
        query.changes()
    return sum(taken) / len(taken)


def _opened(approach: str, budget: int, levels: int, connect: Connect) -> tuple[Any, Any]:
    session: Any = connect(budget=budget, allocation=ALLOCATION[approach])
    session.execute(market.declarations(queries.POSTS[:2]))
    text = queries.stock_join(2, levels, 1_000, FOREVER)
    query = session.query(text, name="posted")
    settle(session.engine.queries["posted"].pipeline, approach)
    return session, query


def _pushed(session: Any, until: int, rows: dict[str, pa.RecordBatch]) -> None:
    for stream, batch in rows.items():
        session.push(stream, batch)
    session.advance(until)


class _Runner:
    """A session that is timed push by push."""

    def __init__(self, run: Run, short: int, connect: Connect) -> None:
        approach, how, levels = run
        self.run = run
        self.session, self.query = _opened(approach, ENOUGH if how == CALM else short, levels, connect)
        self.pipeline = self.session.engine.queries["posted"].pipeline
        self.took = 0.0
        self.told = self.busy = 0

    def take(self, until: int, rows: dict[str, pa.RecordBatch]) -> None:
        began = now()
        _pushed(self.session, until, rows)
        self.told += len(self.query.changes())
        self.took += now() - began
        self.busy += self.pipeline.busy

    def end(self) -> None:
        began = now()
        self.session.drain()
        self.told += len(self.query.changes())
        self.took += now() - began


def _turn(turn: int, runs: Sequence[Run], seconds: int, short: int, connect: Connect) -> list[float]:
    """CPU seconds of each. They take every push one after the other: what else the machine does, it does to all."""
    runners = [_Runner(run, short, connect) for run in runs]
    pushes = list(_made(seconds).feed.pushes(PUSH))
    gc.collect()
    shuffled = random.Random(turn)  # nobody is always the first, nor always behind the same one
    for push in pushes:
        for one in shuffled.sample(runners, len(runners)):
            one.take(*push)
    for one in shuffled.sample(runners, len(runners)):
        one.end()
        if one.busy if one.run[1] == CALM else 2 * one.busy < len(pushes):
            raise StateError(f"{_series(one.run)}: busy in {one.busy} of {len(pushes)} pushes")
    if len(counts := {one.told for one in runners}) > 1:
        raise StateError(f"nothing is dropped, and yet there are {sorted(counts)} results")
    return [one.took for one in runners]


def _measured(
    runs: Sequence[Run], floor: Floor, kept: Iterable[str], sizes: Sizes, tell: Tell, connect: Connect
) -> Data:
    """`rows`: seconds."""
    tell("how much a push takes")
    short = round(SHORT * _taken(sizes.rows, connect))
    rows = sum(batch.num_rows for batch in _made(sizes.rows).feed.streams.values())
    turns = []
    for turn in range(sizes.turns + 1):  # the first loads kernels
        tell(f"turn {turn} of {sizes.turns}")
        turns.append(_turn(turn, runs, sizes.rows, short, connect))
    samples = [
        Sample(_series(run), run[2], tuple(rows / t for t in times))
        for run, times in zip(runs, zip(*turns[1:], strict=True), strict=True)
    ]
    tell("state and queues")
    for name in kept:
        one = outcome(floor, name, connect)
        more: dict[str, float | None] = {"in_state": one.stored, "in_queues": one.waiting}
        samples.append(Sample(f"{name}, too much", 0, (float("nan"),), more))
    return Data(samples)


# ------------------------------------------------------------------ what is asked


def _slower(data: Data, one: Run, other: Run) -> float:
    """CPU time of one against the other's, turn by turn."""
    return data.last(_series(other)).against(data.last(_series(one)))


def _preferred_bars(data: Data) -> list[Point]:
    pairs = (((CALM, 0), "calm"), ((CALM, 3), "calm, 3 ranks"), ((BUSY, 0), "busy"))
    return [
        at_most(
            f"CPU time, {PR_PRUNE} against {TRAD}, {name}",
            _slower(data, (PR_PRUNE, *how), (TRAD, *how)),
            MONITORED,
        )
        for how, name in pairs
    ]


def _preferred_words(data: Data) -> list[Point]:
    rest = (PP, SEM, RAND)
    return [
        at_most(
            f"CPU time, {PR_PRUNE} against {name}, calm",
            _slower(data, (PR_PRUNE, CALM, 0), (name, CALM, 0)),
            1.05,
        )
        for name in rest
    ] + [_more_kept(data, PR_PRUNE, (PP, SEM, RAND, TRAD))]


def _join_bars(data: Data) -> list[Point]:
    return [
        at_most(
            f"CPU time, {PR_JOIN} against {PR_PRUNE}, {how}",
            _slower(data, (PR_JOIN, how, 0), (PR_PRUNE, how, 0)),
            JOINED,
        )
        for how in (CALM, BUSY)
    ]


def _join_words(data: Data) -> list[Point]:
    slower = _slower(data, (PR_JOIN, CALM, 0), (TRAD, CALM, 0))
    return [
        Point(f"slower than {TRAD}, calm", 100 * (slower - 1), 9, "%"),
        _more_kept(data, PR_JOIN, (PR_PRUNE, SEM, RAND, TRAD)),
    ]


def _more_kept(data: Data, own: str, others: Iterable[str]) -> Point:
    kept = {name: data.last(f"{name}, too much").more["in_queues"] or 0 for name in (own, *others)}
    most = max(kept[name] for name in others)
    return at_least(f"{own} has most rows in its queues", kept[own] / max(most, 1), 1)


def _lead(data: Data) -> str:
    paces = [s for s in data.samples if "in_state" not in s.more]
    told = ", ".join(f"{s.series} {s.value:,.0f}" for s in paces)
    kept = ", ".join(
        f"{s.series.removesuffix(', too much')} {s.more['in_state']:,.0f} and {s.more['in_queues']:,.0f}"
        for s in data.samples
        if "in_state" in s.more
    )
    return f"rows a second of CPU time: {told}; rows in state and queues when there is too much: {kept}"


PANELS = (
    ("rows_per_second", "rows/s of CPU time, nothing dropped"),
    ("in_state", "rows in state, too much"),
    ("in_queues", "rows in queues, too much"),
)

CHARTS = (
    Chart(
        "pr-6.10",
        "overhead: CPU time where nothing is dropped, rows kept where there is too much",
        "ranks",
        PANELS,
        f"{PR_PRUNE} takes at most {MONITORED} times the CPU time of fifo, with units enough, with and without ranks, and with too few and no lifespan",
        "Figure 6.10: minimal, PR and PR-Prune more than PP and semantic, these more than random and trad; queues slightly longer",
        lambda sizes, tell, connect: _measured(
            PREFERRED_RUNS, Floor(), (PR_PRUNE, PP, SEM, RAND, TRAD), sizes, tell, connect
        ),
        Sizes((), rows=30, turns=7),
        Sizes((), rows=60, turns=21),
        _lead,
        _preferred_bars,
        _preferred_words,
        AGAINST,
        scales=("linear", "linear"),
        source=SOURCE,
    ),
    Chart(
        "prj-7.9",
        "overhead of PR-Join: CPU time where nothing is dropped, rows kept where there is too much",
        "ranks",
        PANELS,
        f"without ranks {PR_JOIN} takes at most {JOINED} times the CPU time of the atomic join, with units enough and with too few",
        "Figure 7.9: 1.3 % fewer results than PR and random, 1.8 % fewer than semantic; trad 6 to 9 % more",
        lambda sizes, tell, connect: _measured(
            JOIN_RUNS, replace(SECTORS, periods=1), (PR_JOIN, PR_PRUNE, SEM, RAND, TRAD), sizes, tell, connect
        ),
        Sizes((), rows=30, turns=9),
        Sizes((), rows=60, turns=31),
        _lead,
        _join_bars,
        _join_words,
        AGAINST,
        scales=("linear", "linear"),
        source=SOURCE,
    ),
)
