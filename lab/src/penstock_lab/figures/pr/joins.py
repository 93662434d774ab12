"""Figures 7.4 to 7.8: results of rank 1 when joins make those of one level at a time."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from penstock_lab.benchmarks.points import Point
from penstock_lab.figures.bars import at_least
from penstock_lab.figures.cacq.chart import Data, Sizes
from penstock_lab.figures.pr.approaches import PR_JOIN, PR_PRUNE, RAND, SEM, TRAD
from penstock_lab.figures.pr.floor import TICKS, Floor
from penstock_lab.figures.pr.measures import (
    ALL,
    ahead,
    chart,
    cumulated,
    gain,
    gains,
    shares,
    swept,
)

APPROACHES = (PR_JOIN, PR_PRUNE, SEM, RAND, TRAD)
SIDE_BY_SIDE = (PR_JOIN, PR_PRUNE)
MORE, NO_FEWER = 1.5, 0.98
"""Of the atomic join's results of rank 1: where three of four partners matter to nobody, and everywhere."""
SECTORS = Floor(sector=True, window=10.0, each=25, promising=None, posts=40.0, calm=0.3, room=1.0, lifespan=5)
"""Posts about sectors, as in chapter 5: there are few, and each has many partners. Rank 1 just fits: with room for a quarter more, or a
lifespan as long as a burst, which gives the units of as many steps again when it is over, the atomic join can afford most of what it
makes in vain. (The dissertation's lifespan is a thousandth of chapter 6's here.)"""
JOINED = {
    2: SECTORS,
    4: replace(SECTORS, joins=4, posts=6.0, calm=0.5),
    8: replace(SECTORS, joins=8, posts=8.0, calm=0.5),
}


def _no_fewer(data: Data) -> list[Point]:
    return [ahead(data, PR_JOIN, PR_PRUNE, NO_FEWER)]


def _end(data: Data) -> list[Point]:
    mine = data.last(PR_JOIN)
    return [
        at_least(
            f"results of rank 1, {PR_JOIN} against {PR_PRUNE}", gain(mine, data.last(PR_PRUNE)), NO_FEWER
        ),
        Point(
            "results of a better rank than the one before them, of a step",
            100 * (mine.more["disorder"] or 0),
            0,
            "%",
            more={name: 100 * (data.last(name).more["disorder"] or 0) for name in data.series},
        ),
    ]


def _by_partners(data: Data) -> list[Point]:
    first = data.line(PR_JOIN)[0], data.line(PR_PRUNE)[0]
    return [
        at_least(f"results of rank 1, {PR_JOIN} against {PR_PRUNE}, DS{first[0].x:g}", gain(*first), MORE),
        *_no_fewer(data),
    ]


def paper(data: Data) -> list[Point]:
    """1.5 to 190 times in 7.4, up to 614 in 7.6."""
    times = {other: [t for _, t in gains(data, PR_JOIN, other)] for other in data.series if other != PR_JOIN}
    return [
        at_least(f"1.5 times as many results of rank 1 as {PR_PRUNE}", times[PR_PRUNE][-1], 1.5),
        at_least("190 times as many as some other", max(map(max, times.values())), 190),
    ]


def _overall(data: Data) -> list[Point]:
    own = data.last(PR_JOIN).value
    told = {PR_PRUNE: 1, SEM: 6, RAND: 6, TRAD: 12}
    return [
        Point(
            f"fewer results in all, {PR_JOIN} than {name}",
            100 * (1 - own / data.last(name).value),
            fewer,
            "%",
        )
        for name, fewer in told.items()
    ]


def _overall_lead(data: Data) -> str:
    return "results of any rank and none: " + ", ".join(f"{n} {data.last(n).value:,.0f}" for n in APPROACHES)


def _lead(data: Data) -> str:
    times = ", ".join(f"{x:g}: {t:.3g}" for x, t in gains(data, PR_JOIN, PR_PRUNE))
    return f"{shares(data, data.series)}; times as many as with the atomic join, by x, {times}"


_chart = partial(chart, "prj", asked=_no_fewer, words=paper, lead=_lead)

CLAIM = f"{PR_JOIN} tells no fewer results of rank 1 than the atomic join (at least {100 * NO_FEWER:g} %)"

CHARTS = (
    _chart(
        "7.4",
        "results by rank, Data Set 1",
        "bursts",
        f"{CLAIM}, and the results of a step in the order of their ranks",
        "1.5 to 190 times as many results of rank 1 as the others; rank 2 about as many as PR, rank 3 fewer",
        cumulated(lambda periods: replace(SECTORS, periods=periods), APPROACHES),
        Sizes((), rows=3, turns=1),
        Sizes((), rows=15, turns=3),
        asked=_end,
    ),
    _chart(
        "7.5",
        "results of any rank and none, Data Set 1",
        "bursts",
        "how many results there are in all is told and not asked",
        "1 % fewer than PR, 6 % fewer than semantic and random, 12 % fewer than trad",
        cumulated(lambda periods: replace(SECTORS, periods=periods), APPROACHES, ALL),
        Sizes((), rows=3, turns=1),
        Sizes((), rows=15, turns=3),
        asked=lambda _: [],
        words=_overall,
        lead=_overall_lead,
        value="results",
    ),
    _chart(
        "7.6",
        "results of rank 1 by how many partners of a promising post matter",
        "percent",
        f"where a quarter of the partners matter {PR_JOIN} tells at least {MORE} times as many results of rank 1 as the atomic join, and no fewer elsewhere"
        f" (at least {100 * NO_FEWER:g} %)",
        "most of rank 1 in all data sets, up to 614 times; of all ranks with DS25",
        swept(
            lambda percent, periods: replace(SECTORS, data_set=f"DS{percent}", periods=periods), APPROACHES
        ),
        Sizes((25, 50, 75, 100), rows=3, turns=1),
        Sizes((25, 50, 75, 100), rows=10, turns=3),
        asked=_by_partners,
    ),
    _chart(
        "7.7",
        "results of rank 1 by the size of the window, Data Set 1",
        "ticks",
        CLAIM,
        "more of rank 1 and as many of rank 2 as PR with windows of 500, 1,000 and 2,000 tuples",
        swept(lambda ticks, periods: replace(SECTORS, window=ticks / TICKS, periods=periods), SIDE_BY_SIDE),
        Sizes((500, 1000, 2000), rows=2, turns=1),
        Sizes((500, 1000, 2000), rows=5, turns=3),
    ),
    _chart(
        "7.8",
        "results of rank 1 by the number of joins, Data Set 1",
        "joins",
        CLAIM,
        "many more of rank 1 than PR with 2, 4 and 8 joins, slightly fewer of rank 2, fewer of rank 3",
        swept(lambda joins, periods: replace(JOINED[joins], periods=periods), SIDE_BY_SIDE),
        Sizes((2, 4, 8), rows=2, turns=1),
        Sizes((2, 4, 8), rows=5, turns=3),
    ),
)
