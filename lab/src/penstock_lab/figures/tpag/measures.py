"""The measurements of Figures 5.4 to 5.8: a place on a line is an approach under a load, its turns are days of other seeds.

Of a sample `value` is what the figure is about: the share of answers that are right, in per cent, or their number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from penstock_lab.baselines.windows import kept
from penstock_lab.figures.cacq.chart import Data, Sample, Sizes
from penstock_lab.figures.runner import Connect, Tell
from penstock_lab.figures.tp.load import MICROSECONDS
from penstock_lab.figures.tpag.answers import ALL, Answers, Truth
from penstock_lab.figures.tpag.runs import (
    APPROACHES,
    BEFORE,
    FOREVER,
    SAMPLED,
    WINDOW,
    Day,
    answers,
    true,
)

LOAD = 4.0
"""Where another thing is varied."""
SEED = 500
SHED = "Shed Window Ag"
ERRORS = (5, 10, 20)
DATA_SETS = (25, 50, 75, 100)


@dataclass(frozen=True, slots=True)
class Judged:
    """Of one run: answers given, those that are right, those that would be if all ticks were meant, and all that there were to give."""

    given: int
    right: int
    of_all: int
    whole: int

    @property
    def share(self) -> float:
        return 100 * self.right / max(self.given, 1)


def judged(truth: Truth, found: Answers) -> Judged:
    every = Answers(found.price, np.full_like(found.flag, ALL))
    given, right, of_all = (int(one.sum()) for one in (found.given, truth.right(found), truth.right(every)))
    return Judged(given, right, of_all, truth.answers)


def _sample(series: str, x: float, runs: Sequence[Judged], *, number: bool = False) -> Sample:
    mean = {
        name: float(np.mean([getattr(r, name) for r in runs]))
        for name in ("given", "right", "of_all", "whole")
    }
    more: dict[str, float | None] = {
        "answers": mean["given"],
        "right": mean["right"],
        "within_of_all": mean["of_all"],
        "answers_without_limit": mean["whole"],
    }
    return Sample(series, x, tuple(float(r.right) if number else r.share for r in runs), more)


def _days(sizes: Sizes, **given: Any) -> list[Day]:
    return [Day(seconds=float(sizes.rows), seed=SEED + n, **given) for n in range(sizes.turns)]


def by_load(sizes: Sizes, tell: Tell, connect: Connect, *, wall: bool = False) -> Data:
    """Every approach on Data Set 1; `sizes.xs` are loads."""
    samples = []
    for load in sizes.xs:
        for name in APPROACHES:
            tell(f"load {load}: {name}")
            runs = [
                judged(true(d, connect), answers(d, name, load, connect)) for d in _days(sizes, wall=wall)
            ]
            samples.append(_sample(name, load, runs))
    return Data(samples)


def by_minute(sizes: Sizes, tell: Tell, connect: Connect, *, wall: bool = False) -> Data:
    """How many right answers there have been, by minutes of ticks."""
    samples = []
    for name in APPROACHES:
        tell(name)
        found = [
            (day, true(day, connect), answers(day, name, LOAD, connect)) for day in _days(sizes, wall=wall)
        ]
        for x in sizes.xs:
            runs = [judged(*_until(day, truth, one, 60 * x)) for day, truth, one in found]
            samples.append(_sample(name, x, runs, number=True))
    return Data(samples)


def _until(day: Day, truth: Truth, found: Answers, seconds: int) -> tuple[Truth, Answers]:
    """The windows until so many seconds after the first tick."""
    last = day.feed.start + int(BEFORE * MICROSECONDS) + seconds * MICROSECONDS
    many = last // (day.slide * 1000) - -(-day.feed.start // (day.slide * 1000))
    return Truth(truth.counts[:many], truth.totals[:many]), Answers(found.price[:many], found.flag[:many])


def by_shedding(sizes: Sizes, tell: Tell, connect: Connect, *, wall: bool = False) -> Data:
    """TP-Ag, and whole windows or none, where windows follow each other; `sizes.xs` are loads."""
    samples = []
    for load in sizes.xs:
        tell(f"load {load}")
        days = _days(sizes, slide=WINDOW, wall=wall)
        runs = [judged(true(d, connect), answers(d, SAMPLED, load, connect)) for d in days]
        samples.append(_sample(SAMPLED, load, runs, number=True))
        runs = [judged(true(d, connect), _whole_windows(d, load, connect)) for d in days]
        samples.append(_sample(SHED, load, runs, number=True))
    return Data(samples)


def _whole_windows(day: Day, load: float, connect: Connect) -> Answers:
    """What is kept may take as long as it takes: it was chosen so that there are units for it."""
    streams = dict(day.feed.streams)
    streams["stock"] = kept(streams["stock"], WINDOW * 1000, math.ceil(load))
    return answers(day, "trad", load, connect, feed=replace(day.feed, streams=streams), lifespan=FOREVER)


def by_data_set(sizes: Sizes, tell: Tell, connect: Connect, *, wall: bool = False) -> Data:
    """More and more of two sectors is significant; `sizes.xs` are shares in per cent."""
    samples = []
    for share in sizes.xs:
        for name in APPROACHES:
            tell(f"DS{share}: {name}")
            days = _days(sizes, data_set=f"DS{share}", wall=wall)
            runs = [judged(true(d, connect), answers(d, name, LOAD, connect)) for d in days]
            samples.append(_sample(name, share, runs))
    return Data(samples)


def by_error(sizes: Sizes, tell: Tell, connect: Connect, *, wall: bool = False) -> Data:
    """How far off a mean may be: ε as a number, as Cochran's formula and the text's examples have it, and relative to the mean."""
    samples = []
    for error in sizes.xs:
        for name, relative in ((f"{SAMPLED}, ε as it is", False), (f"{SAMPLED}, ε of the mean", True)):
            tell(f"{error} %: {name}")
            runs = [
                judged(
                    true(d, connect),
                    answers(
                        d, SAMPLED, LOAD, connect, sampling_error=error / 100, sampling_relative=relative
                    ),
                )
                for d in _days(sizes, wall=wall)
            ]
            samples.append(_sample(name, error, runs))
    return Data(samples)
