"""What a figure of many queries is made of: samples on lines, what is asked of them, and how they are drawn."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock_lab.benchmarks.points import Point
from penstock_lab.figures.runner import Connect, Tell


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured: where on the x axis, rows in a push, pushes or turns, and the seconds after which a line ends."""

    xs: tuple[int, ...]
    rows: int
    turns: int
    cap: float = 2.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One place on a line. `turns` are what the value is the median of, in the order they were taken."""

    series: str
    x: float
    turns: tuple[float, ...]
    more: dict[str, float | None] = field(default_factory=dict)
    """Known beside it: further columns of the CSV."""

    @property
    def value(self) -> float:
        return statistics.median(self.turns)

    def against(self, other: Sample) -> float:
        """How many times the value of `other`: the median of the turns, compared one by one."""
        return statistics.median(a / b for a, b in zip(self.turns, other.turns, strict=True))


@dataclass(frozen=True, slots=True)
class Data:
    """The samples of a figure."""

    samples: Sequence[Sample]

    @property
    def series(self) -> list[str]:
        return list(dict.fromkeys(s.series for s in self.samples))

    def line(self, series: str) -> list[Sample]:
        return sorted((s for s in self.samples if s.series == series), key=lambda s: s.x)

    def last(self, series: str) -> Sample:
        return self.line(series)[-1]

    def both(self, one: str, other: str) -> list[tuple[Sample, Sample]]:
        """Two lines where they both are, by x."""
        others = {s.x: s for s in self.line(other)}
        return [(s, others[s.x]) for s in self.line(one) if s.x in others]


Measure = Callable[[Sizes, Tell, Connect], Data]
Judge = Callable[[Data], list[Point]]


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure. `panels`: what is drawn, by the name of a column and its label; the first is the value itself.

    `lead` begins the verdict with what was found.
    """

    name: str
    title: str
    across: str
    panels: tuple[tuple[str, str], ...]
    claim: str
    says: str
    measure: Measure
    quick: Sizes
    full: Sizes
    lead: Callable[[Data], str]
    bars: Judge
    paper: Judge
    against: str
    """What it is measured against, in the same run."""
    scales: tuple[str, str] = ("log", "log")
    source: str = "Madden, Shah, Hellerstein & Raman, Continuously Adaptive Continuous Queries over Streams, SIGMOD 2002"
    bare: bool = False
    """Lines of one place each: drawn as columns."""


def options(**given: Any) -> dict[str, Any]:
    """Those that are not what a session does anyway."""
    usual = {"share": True, "routing": "thompson"}
    return {name: value for name, value in given.items() if usual.get(name) != value}
