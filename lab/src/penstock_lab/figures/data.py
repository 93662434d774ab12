"""What a figure is drawn and judged from: measures by series and window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock_lab.figures.runner import Measure, Series

BATCHED = " (batched)"
"""Ends the name of a series that brings its state up to date once a step, the engine's own way."""


@dataclass(frozen=True, slots=True)
class Data:
    """The measures of one query's executions."""

    measures: Sequence[Measure]

    @property
    def windows(self) -> list[int]:
        return sorted({m.window for m in self.measures})

    @property
    def series(self) -> list[Series]:
        return list(dict.fromkeys(m.series for m in self.measures))

    def line(self, name: str) -> list[Measure]:
        """A series from the smallest window to the largest."""
        found = [m for m in self.measures if m.series.name == name]
        return sorted(found, key=lambda m: m.window)

    def last(self, name: str) -> Measure:
        """A series at the largest window."""
        return self.line(name)[-1]
