"""Figures 6.4 to 6.8: results of rank 1 when posts that may meet it are pulled forward too."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from penstock_lab.benchmarks.points import Point
from penstock_lab.figures.bars import at_least
from penstock_lab.figures.cacq.chart import Data, Sizes
from penstock_lab.figures.pr.approaches import PP, PR, PR_PRUNE, RAND, SEM, TRAD
from penstock_lab.figures.pr.floor import Floor
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

APPROACHES = (PR_PRUNE, PR, PP, SEM, RAND, TRAD)
OPTIMIZED = (PR_PRUNE, PR, PP)
PROMOTED, PLAIN, ALIKE = 1.3, 10.0, 2.0
"""How many times as many as promotion alone, and as with no allocation; by how many per cent the optimizers may differ."""
JOINED = {
    2: Floor(named=0.25),
    4: Floor(named=0.25, joins=4, posts=60.0, calm=3.0),
    8: Floor(named=0.25, joins=8, posts=25.0, calm=2.0),
}
"""By joins. Results are a product over all streams of posts, so that there must be fewer of these; and of subsectors that matter
so many must be named that one of them has as many posts as another subsector: else eight joins find nothing of rank 1."""
PATHS = replace(JOINED[8], vain=True)
"""Of several paths every second is by sector, and a post meets the ticks of its whole sector at once: ten times those of rank 1. Without
units for these nobody would tell more than a few results."""


def bars(data: Data) -> list[Point]:
    return [ahead(data, PR_PRUNE, PP, PROMOTED), ahead(data, PR_PRUNE, TRAD, PLAIN)]


def _end(data: Data) -> list[Point]:
    """Of what has come together at the end."""
    mine = data.last(PR_PRUNE)
    limits = ((PP, PROMOTED), (TRAD, PLAIN))
    return [
        at_least(f"results of rank 1, {PR_PRUNE} against {other}", gain(mine, data.last(other)), limit)
        for other, limit in limits
    ]


def _alike(data: Data) -> Point:
    apart = {f"at {x:g}": 100 * abs(times - 1) for x, times in gains(data, PR_PRUNE, PR)}
    return Point(
        f"results of rank 1, {PR_PRUNE} and {PR} apart, worst",
        max(apart.values()),
        ALIKE,
        "%",
        more={**apart},
    )


def paper(data: Data) -> list[Point]:
    others = [other for other in (PR, PP, SEM, RAND) if other in data.series]
    times = [gain(a, b) for other in others for a, b in data.both(PR_PRUNE, other)]
    return [
        at_least("1.3 times as many results of rank 1 as any other but trad", min(times), 1.3),
        at_least("23 times as many as some other", max(times), 23),
    ]


def _levels(data: Data) -> list[Point]:
    """PR-Prune first, and semantic shedding before it at the other ranks."""
    mine, theirs = data.last(PR_PRUNE).more, data.last(SEM).more
    return [
        *paper(data),
        *(
            at_least(
                f"semantic shedding has more of rank {rank}",
                (theirs[f"results_{rank}"] or 0) / (mine[f"results_{rank}"] or 1),
                1,
            )
            for rank in (2, 3)
        ),
    ]


def _overall(data: Data) -> list[Point]:
    own = data.last(PR).value
    told = {PR_PRUNE: 2, PP: 4, SEM: 4, RAND: 10, TRAD: 15}
    return [
        Point(f"fewer results in all, {PR} than {name}", 100 * (1 - own / data.last(name).value), fewer, "%")
        for name, fewer in told.items()
    ]


def _overall_lead(data: Data) -> str:
    said = ", ".join(f"{name} {data.last(name).value:,.0f}" for name in APPROACHES)
    return f"results of any rank and none: {said}"


def _lead(data: Data) -> str:
    return shares(data, data.series)


_chart = partial(chart, "pr", asked=bars, words=paper, lead=_lead)


def _data_set_1(periods: int) -> Floor:
    return Floor(periods=periods)


CHARTS = (
    _chart(
        "6.4",
        "results by rank, Data Set 1",
        "bursts",
        f"{PR_PRUNE} tells at least {PROMOTED} times as many results of rank 1 as promotion alone and {PLAIN:g} times as many as fifo",
        "PR-Prune has most of rank 1; semantic shedding slightly more of ranks 2 and 3",
        cumulated(_data_set_1, APPROACHES),
        Sizes((), rows=2, turns=1),
        Sizes((), rows=10, turns=3),
        asked=_end,
        words=_levels,
    ),
    _chart(
        "6.5",
        "results of any rank and none, Data Set 1",
        "bursts",
        "how many results there are in all is told and not asked",
        "PR 2 % fewer than PR-Prune, 4 % fewer than PP and semantic, 10 % fewer than random, 15 % fewer than trad",
        cumulated(_data_set_1, APPROACHES, ALL),
        Sizes((), rows=2, turns=1),
        Sizes((), rows=10, turns=3),
        asked=lambda _: [],
        words=_overall,
        lead=_overall_lead,
        value="results",
    ),
    _chart(
        "6.6",
        "results of rank 1 by how many of the subsectors that matter are in the news",
        "percent",
        f"at any share {PR_PRUNE} tells at least {PROMOTED} times as many results of rank 1 as promotion alone and {PLAIN:g} times as many as fifo",
        "71 to 85 times as many as trad; than the others 1.3 to 19.8 (DS25), 1.5 to 23 (DS50), 1.7 to 15.9 (DS75), 1.6 to 22 (DS100)",
        swept(lambda percent, periods: Floor(named=percent / 100, periods=periods), APPROACHES),
        Sizes((25, 50, 75, 100), rows=2, turns=1),
        Sizes((25, 50, 75, 100), rows=5, turns=3),
        words=lambda data: [*paper(data), ahead(data, PR_PRUNE, TRAD, 71)],
    ),
    _chart(
        "6.7",
        "results of rank 1 by the number of joins",
        "joins",
        f"whatever the number of joins {PR_PRUNE} tells at least {PROMOTED} times as many results of rank 1 as promotion alone",
        "PR-Prune more of rank 1 than PR and PP with 2, 4 and 8 joins",
        swept(lambda joins, periods: replace(JOINED[joins], periods=periods), OPTIMIZED),
        Sizes((2, 4, 8), rows=2, turns=1),
        Sizes((2, 4, 8), rows=5, turns=3),
        asked=lambda data: [ahead(data, PR_PRUNE, PP, PROMOTED)],
        words=lambda data: [ahead(data, PR_PRUNE, PR, 1)],
    ),
    _chart(
        "6.8",
        "results of rank 1 by the number of dynamic evaluation paths, 8 joins",
        "paths",
        f"whatever the number of paths {PR_PRUNE} tells at least {PROMOTED} times as many results of rank 1 as promotion alone, and as many as {PR}"
        f" within {ALIKE:g} %",
        "PR-Prune more of rank 1 than PR and PP with 1, 2, 4 and 8 paths",
        swept(lambda paths, periods: replace(PATHS, paths=paths, periods=periods), OPTIMIZED),
        Sizes((1, 8), rows=2, turns=2),
        Sizes((1, 2, 4, 8), rows=5, turns=3),
        asked=lambda data: [ahead(data, PR_PRUNE, PP, PROMOTED), _alike(data)],
        words=lambda data: [ahead(data, PR_PRUNE, PR, 1)],
    ),
)
