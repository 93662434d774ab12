"""Figures 4.7 to 4.9: results of rank 1 by the number of levels, by the share of rank 1, by lifespan; under the same load that rises and falls."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from penstock_lab.benchmarks.points import Point
from penstock_lab.figures.bars import at_least
from penstock_lab.figures.cacq.chart import Chart, Data, Measure, Sample, Sizes
from penstock_lab.figures.pp.bursts import AGAINST, SOURCE
from penstock_lab.figures.pp.overload import (
    ALLOCATIONS,
    FIFO,
    PROMOTE,
    Clock,
    Town,
    capacity,
    fluctuating,
    run,
)
from penstock_lab.figures.runner import Connect, Tell
from penstock_lab.figures.tp.outcomes import checked

Made = Callable[[int, float], Town]
"""By what is varied, and seconds."""
OTHERS = tuple(name for name in ALLOCATIONS if name != PROMOTE)


def _measure(town: Made, clock: Clock) -> Measure:
    def measure(sizes: Sizes, tell: Tell, connect: Connect) -> Data:
        budget = capacity(connect, clock)
        samples = []
        for x in sizes.xs:
            one = town(x, sizes.rows)
            made = one.made()
            whole = run(one, made, None, FIFO, connect)
            for name in ALLOCATIONS:
                tell(f"{one.data_set}, lifespan {one.lifespan / 1000:g} ms: {name}")
                outcome = checked(run(one, made, budget, name, connect), whole, name)
                more: dict[str, float | None] = {
                    "share_1": outcome.results(1) / max(whole.results(1), 1),
                    "had": outcome.had,
                }
                for rank in (*range(2, outcome.ranks + 1), 0):
                    more[f"results_{rank}"] = outcome.results(rank)
                samples.append(Sample(name, x, (outcome.results(1),), more))
        return Data(samples)

    return measure


def gains(data: Data) -> list[float]:
    """By x: results of rank 1 of promote against those of the best of the others."""
    best = [max(map(_made, column)) for column in zip(*map(data.line, OTHERS), strict=True)]
    return [_made(mine) / max(theirs, 1) for mine, theirs in zip(data.line(PROMOTE), best, strict=True)]


def _made(sample: Sample) -> float:
    """Of the share of a core that it had."""
    return sample.value / (sample.more.get("had") or 1)


def _ahead(data: Data) -> list[Point]:
    return [at_least("results of rank 1, promote against the best of the others, worst", min(gains(data)), 1)]


def _narrows(data: Data) -> list[Point]:
    found = gains(data)
    return [
        *_ahead(data),
        at_least("that gain, least share of rank 1 against greatest", found[0] / found[-1], 1),
    ]


NEARLY = 0.9
"""By the wall clock: of what would be as many."""


def _grows(data: Data, least: float = 1.0) -> list[Point]:
    line = data.line(PROMOTE)
    return [
        *_ahead(data),
        at_least(
            "results of rank 1 of promote, longest lifespan against shortest",
            line[-1].value / line[0].value,
            least,
        ),
    ]


def _markedly(data: Data) -> list[Point]:
    return [at_least("markedly more (half as many again), worst", min(gains(data)), 1.5)]


def _lead(data: Data) -> str:
    shares = ", ".join(f"{s.x:g}: {100 * (s.more['share_1'] or 0):.0f} %" for s in data.line(PROMOTE))
    times = ", ".join(f"{gain:.2g}" for gain in gains(data))
    return f"promote tells of rank 1, by x, {shares}; times as many as the best of the others: {times}"


def _chart(
    number: str, title: str, across: str, claim: str, says: str, town: Made,
    quick: tuple[int, ...], full: tuple[int, ...], bars: Callable[[Data], list[Point]], clock: Clock,
) -> Chart:  # fmt: skip
    return Chart(
        f"pp-{number}",
        title,
        across,
        (("results_1", "results of rank 1"),),
        claim,
        f"Figure {number}: {says}",
        _measure(town, clock),
        Sizes(quick, rows=60, turns=1),
        Sizes(full, rows=180, turns=1),
        _lead,
        bars,
        _markedly,
        AGAINST,
        scales=("linear", "linear"),
        source=SOURCE,
    )


def charts(clock: Clock) -> tuple[Chart, ...]:
    return (
        _chart(
            "4.7",
            "results of rank 1 by the number of levels, 5 % of the tuples each",
            "levels",
            "promote tells more results of rank 1 than any other, whatever the number of levels",
            "markedly more results of rank 1 however many levels there are",
            lambda levels, seconds: fluctuating("-".join(["5"] * levels), seconds, clock=clock),
            (3, 6),
            (3, 4, 5, 6),
            _ahead,
            clock,
        ),
        _chart(
            "4.8",
            "results of rank 1 by its share of the tuples, one level",
            "percent",
            "promote tells more results of rank 1 than any other, and the gain narrows as their share grows",
            "more at every share; the gain narrows as the share grows",
            lambda percent, seconds: fluctuating(str(percent), seconds, clock=clock),
            (20, 50),
            (20, 30, 40, 50),
            _narrows,
            clock,
        ),
        _chart(
            "4.9",
            "results of rank 1 by lifespan, data set 5-5-5",
            "lifespan_us",
            "promote tells more results of rank 1 than any other, and more with the longest lifespan than with the shortest",
            "more with every lifespan, and the more the longer it is",
            lambda lifespan, seconds: fluctuating("5-5-5", seconds, lifespan, clock),
            (2500, 10_000),
            (2500, 5000, 7500, 10_000),
            partial(_grows, least=NEARLY if clock.wall else 1.0),
            clock,
        ),
    )
