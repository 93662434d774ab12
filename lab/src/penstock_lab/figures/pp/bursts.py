"""Figures 4.5 and 4.6: what is told of each rank, and how late, while the load rises and falls; and steady loads beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np

from penstock_lab.benchmarks.points import Point
from penstock_lab.figures.bars import at_least, at_most
from penstock_lab.figures.cacq.chart import Chart, Data, Measure, Sample, Sizes
from penstock_lab.figures.pp.overload import (
    ALLOCATIONS,
    BASE,
    BRIEF,
    EVERY,
    FIFO,
    LASTS,
    PROMOTE,
    RANDOM,
    SEMANTIC,
    TRAD,
    Clock,
    Outcome,
    Town,
    capacity,
    fluctuating,
    needed,
    offered,
    run,
    until_calm,
)
from penstock_lab.figures.runner import Connect, Tell
from penstock_lab.figures.tp.city import City
from penstock_lab.figures.tp.clock import SHARE, Budget
from penstock_lab.figures.tp.load import Floats
from penstock_lab.figures.tp.outcomes import checked

SOURCE = "Works, Targeted Prioritized Processing in Overloaded Data Stream Systems, dissertation, WPI 2013"
AGAINST = "the other allocations, and no limit at all, on the same rows; what is told must be part of what there is without a limit"
DATA_SET = "15-5-5"
STEADY = "promote, steady "


def measured(clock: Clock) -> Measure:
    """`rows`: seconds of the fluctuating load; `turns`: of each steady one; `xs`: these."""

    def measure(sizes: Sizes, tell: Tell, connect: Connect) -> Data:
        samples = list(_fluctuating(sizes.rows, clock, tell, connect))
        for times in sizes.xs:
            tell(f"steady load, {times} times the capacity")
            samples.append(_steady(times, sizes.turns, clock, connect))
        return Data(samples)

    return measure


def _fluctuating(seconds: int, clock: Clock, tell: Tell, connect: Connect) -> tuple[Sample, ...]:
    tell("a load that rises and falls")
    return _minutely(seconds, clock, connect)


@lru_cache(maxsize=1)
def _minutely(seconds: int, clock: Clock, connect: Connect) -> tuple[Sample, ...]:
    """Of both figures, made once."""
    budget = capacity(connect, clock)
    town = fluctuating(DATA_SET, seconds, clock=clock)
    made = town.made()
    load = _offered(town, made, connect) / _capacity(budget)
    whole = run(town, made, None, FIFO, connect)
    samples: list[Sample] = []
    for name in ALLOCATIONS:
        outcome = checked(run(town, made, budget, name, connect), whole, name)
        calm = until_calm(town, outcome, budget)
        samples += _minutes(name, town, outcome, whole, load, max(calm, default=None))
    return tuple(samples)


def _capacity(budget: Budget) -> float:
    """Units a step, or microseconds of it."""
    return budget.lasts * SHARE if budget.wall else budget.lasts


def _offered(town: Town, made: City, connect: Connect) -> Floats:
    """By the wall clock what both of its loads take by themselves: to work on all of a minute takes minutes."""
    if not town.clock.wall:
        return offered(town, made, connect)
    low, high = (
        float(offered(one, one.made(), connect)[one.settled :].mean())
        for one in (
            replace(town, seconds=BRIEF / 2, load=load, burst=1.0) for load in (BASE, town.clock.burst)
        )
    )
    calm = np.arange(town.steps) % town.minute < town.minute * (1 - LASTS / EVERY)
    return np.where(calm, low, high)


def _minutes(
    name: str, town: Town, outcome: Outcome, whole: Outcome, load: Floats, calm: float | None
) -> list[Sample]:
    """A sample a minute; results are those so far."""
    made = []
    for end in range(town.minute, len(load) + 1, town.minute):
        part = slice(end - town.minute, end)
        more: dict[str, float | None] = {
            "load": float(load[part].mean()),
            "until_calm": calm,
            "had": outcome.had,
        }
        for rank in (1, 2, 3, 0):
            more[f"latency_{rank}"] = _ms(outcome.latency(rank, part))
            more[f"results_{rank}"] = outcome.results(rank, end)
            more[f"share_{rank}"] = outcome.results(rank, end) / max(whole.results(rank, end), 1)
        more["results"] = int(outcome.told[:end].sum())
        value = more.pop("latency_1")
        made.append(Sample(name, end / town.minute, (value if value is not None else float("nan"),), more))
    return made


def _steady(times: int, seconds: int, clock: Clock, connect: Connect) -> Sample:
    """Once windows have turned over. A result that is not told counts as late as a lifespan: else a rank of which only the
    earliest are told would seem fast."""
    budget = capacity(connect, clock)
    town = Town(DATA_SET, seconds, times, clock=clock)
    made, settled = town.made(), town.settled
    brief = replace(town, seconds=min(seconds, BRIEF / 2 if clock.wall else BRIEF))
    load, need = (
        f(brief, brief.made(), connect)[settled:].mean() / _capacity(budget) for f in (offered, needed)
    )
    whole = run(town, made, None, FIFO, connect)
    outcome = checked(run(town, made, budget, PROMOTE, connect), whole, PROMOTE)
    there, told = (one.told[settled:].sum(axis=0) for one in (whole, outcome))
    late = outcome.late[settled:].sum(axis=0) + (there - told) * float(town.useful(budget))
    more: dict[str, float | None] = {"load": float(load), "need_1": float(need), "had": outcome.had}
    for rank in (1, 2, 3, 0):
        more[f"latency_{rank}"] = float(late[rank] / there[rank] / 1000)
        more[f"results_{rank}"] = int(told[rank])
        more[f"share_{rank}"] = float(told[rank] / there[rank])
    more["results"] = int(told.sum())
    value = more.pop("latency_1") or 0.0
    return Sample(f"{STEADY}{times}×", seconds / EVERY, (value,), more)


def _ms(latency: float | None) -> float | None:
    return None if latency is None else latency / 1000


def _told(data: Data, name: str, rank: int) -> float:
    """Results, of the share of a core that it had."""
    more = data.last(name).more
    return (more[f"results_{rank}"] or 0.0) / (more.get("had") or 1)


def _gain(data: Data, others: Sequence[str], rank: int, best: bool = True) -> float:
    """Results of promotion against those of the best, or of the worst, of others."""
    theirs = [_told(data, name, rank) for name in others]
    return _told(data, PROMOTE, rank) / max((max if best else min)(theirs), 1)


@dataclass(frozen=True, slots=True)
class Limits:
    """What is asked. By the wall clock less: what else the machine does is in every number."""

    times: float = 4.0
    """Results of rank 1 against those of fifo and random."""
    told: float = 99.0
    """Of those of rank 1, where their work fits."""
    fits: float = 1.0
    """Work of rank 1, of what there is."""
    first: float = 1.0
    """How much later rank 1 may seem than others: by the wall clock, at a load that fits, all are told at once."""
    order: float = 1.15
    """How much later rank 2 may seem than rank 3: each has a hundred rows or a few."""
    calm: float = 2.0
    """Lifespans after a burst."""


LIMITS = {False: Limits(), True: Limits(2.0, 90.0, 0.25, 1.1, 1.3, 4.0)}
"""By the wall clock, or not. Work is measured by the ordinary operators; on routes it takes up to three times as long."""


def bars(data: Data, limits: Limits = LIMITS[False]) -> list[Point]:
    found = [
        at_least(f"results of rank 1, promote against {name}", _gain(data, (name,), 1), times)
        for name, times in ((FIFO, limits.times), (RANDOM, limits.times), (SEMANTIC, 1.0))
    ]
    steady = [data.last(name) for name in data.series if name.startswith(STEADY)]
    fits = [one for one in steady if (one.more["need_1"] or 0) <= limits.fits * (one.more.get("had") or 1)]
    shares = {one.series: one.more["share_1"] or 0 for one in fits}
    if fits:
        found.append(
            Point(
                "results of rank 1 told in time, worst steady load at which their work fits",
                100 * min(shares.values()),
                limits.told,
                "%",
                at_least=True,
                more={f"{s}, its load": one.more["load"] or 0 for s, one in zip(shares, fits, strict=True)},
            )
        )
    if steady:
        first = max(one.value / (one.more[f"latency_{rank}"] or 1) for one in steady for rank in (2, 3, 0))
        last = max(
            (one.more[f"latency_{rank}"] or 0) / (one.more["latency_0"] or 1)
            for one in steady
            for rank in (2, 3)
        )
        middle = max((one.more["latency_2"] or 0) / (one.more["latency_3"] or 1) for one in steady)
        found += [
            at_most("latency of rank 1 against any other, worst steady load", first, limits.first),
            at_most("latency of ranks 2 and 3 against no rank, worst steady load", last, 1),
            at_most("latency of rank 2 against rank 3, worst steady load", middle, limits.order),
        ]
    calm = data.last(PROMOTE).more["until_calm"]
    if calm is not None:
        found.append(Point("until promote is calm after a burst, worst", calm, limits.calm, "lifespans"))
    return found


def paper(data: Data) -> list[Point]:
    others = (TRAD, RANDOM, SEMANTIC)
    return [
        at_least(
            "5.7 times as many results of rank 1 as the best of the others", _gain(data, others, 1), 5.67
        ),
        at_least("15.4 times as many as the worst", _gain(data, others, 1, best=False), 15.44),
        at_least("2 times as many results of rank 3 as the best of the others", _gain(data, others, 3), 2.01),
    ]


def lead(data: Data) -> str:
    told = ", ".join(f"{name} {100 * (data.last(name).more['share_1'] or 0):.0f} %" for name in ALLOCATIONS)
    return f"of the results of rank 1 are told {told}"


# ------------------------------------------------------------------ 4.6


def overall(data: Data) -> list[Point]:
    mine, theirs = (data.last(name).more["results"] or 0 for name in (PROMOTE, FIFO))
    near = max(abs((data.last(name).more["results"] or 0) / mine - 1) for name in (SEMANTIC, RANDOM))
    fewer = 100 * (1 - mine / theirs)
    return [
        Point("fewer results in all, promote than fifo", fewer, 17, "%"),
        Point("semantic and random, distance from promote", 100 * near, 1, "%"),
    ]


def overall_lead(data: Data) -> str:
    told = ", ".join(f"{name} {data.last(name).more['results'] or 0:,.0f}" for name in ALLOCATIONS)
    return f"results of any rank and none: {told}"


def measured_overall(clock: Clock) -> Measure:
    """The same runs by the number of all results."""

    def measure(sizes: Sizes, tell: Tell, connect: Connect) -> Data:
        return Data(
            [
                Sample(s.series, s.x, (s.more["results"] or 0.0,), {**s.more, "latency_1": s.value})
                for s in _fluctuating(sizes.rows, clock, tell, connect)
            ]
        )

    return measure


def charts(clock: Clock) -> tuple[Chart, ...]:
    limits = LIMITS[clock.wall]
    return (
        Chart(
            "pp-4.5",
            "latency and results by rank while the load rises and falls, data set 15-5-5",
            "minute",
            (
                ("latency_1", "latency of rank 1, ms"),
                ("latency_2", "latency of rank 2, ms"),
                ("latency_3", "latency of rank 3, ms"),
                ("results_1", "results of rank 1 so far"),
            ),
            f"promote tells at least {limits.times:g} times as many results of rank 1 as fifo and random, and more than semantic; at steady loads of 1 to 4 times"
            f" the capacity latency follows rank, and {limits.told:g} % of rank 1 are told in time where their work fits; after a burst it is calm within"
            f" {limits.calm:g} lifespans",
            "Figure 4.5: PP has the lowest latency of each level and tells 467 to 1444 % more results of rank 1 (so 5.7 to 15.4 times as many)",
            measured(clock),
            Sizes((1, 4), rows=75, turns=50),
            Sizes((1, 2, 3, 4), rows=315, turns=180),
            lead,
            partial(bars, limits=limits),
            paper,
            AGAINST,
            scales=("linear", "linear"),
            source=SOURCE,
        ),
        Chart(
            "pp-4.6",
            "results of any rank and none, data set 15-5-5",
            "minute",
            (("results", "results so far"),),
            "how many results there are in all is told and not asked",
            "Figure 4.6: PP, semantic and random within 1 % of each other, PP 17 % fewer than trad",
            measured_overall(clock),
            Sizes((), rows=75, turns=0),
            Sizes((), rows=315, turns=0),
            overall_lead,
            lambda _: [],
            overall,
            AGAINST,
            scales=("linear", "linear"),
            source=SOURCE,
        ),
    )
