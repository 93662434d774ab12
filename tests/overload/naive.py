"""The naive twin of answers from samples: one group at a time, from its rows, in plain Python.

Nothing is shared with the engine but the table of Student's distribution.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.operators.sampled_aggregate.inference import student

Z = 1.96
Value = float | int | str | None


@dataclass(frozen=True, slots=True)
class Level:
    """Rows processed (each a dict of columns), and what is estimated of those that were not."""

    rows: Sequence[dict[str, Any]]
    expired: float
    variance: float

    def values(self, column: str) -> list[Any]:
        return [r[column] for r in self.rows if r[column] is not None]


def cochran(population: float, deviation: float, error: float) -> float:
    if deviation == 0:
        return 0.0
    variance = Z**2 * deviation**2
    return math.ceil(variance * (population / (population - 1)) / (error**2 + variance / (population - 1)))


def is_reliable(
    levels: Sequence[Level], asked: Sequence[tuple[str, str | None]], error: float, relative: bool
) -> bool:
    rows = [r for level in levels for r in level.rows]
    expired = sum(level.expired for level in levels)
    if not rows:
        return False
    if expired == 0:
        return True
    if any(level.expired and not level.rows for level in levels):
        return False
    if len(rows) < 2 or (asked and all(f in ("min", "max") for f, _ in asked)):
        return False
    for function, column in asked:
        if function in ("sum", "avg", "stddev"):
            values = [r[column] for r in rows if r[column] is not None]
            if len(values) < 2:
                return False
            population = len(values) + expired * len(values) / len(rows)
            allowed = error * abs(statistics.fmean(values)) if relative else error
            if len(values) < cochran(population, statistics.stdev(values), allowed):
                return False
    return True


def used(
    levels: Sequence[Level], asked: Sequence[tuple[str, str | None]], error: float, relative: bool
) -> int:
    """How many levels make the answer: all at first, then without the least significant, and so on."""
    for k in range(len(levels), 0, -1):
        if is_reliable(levels[:k], asked, error, relative):
            return k
    return 0


def answer(levels: Sequence[Level], function: str, column: str | None) -> tuple[Value, Value, Value]:
    """An aggregate over these levels, with its bounds."""
    expired = sum(level.expired for level in levels)
    rows = sum(len(level.rows) for level in levels)
    if column is None:
        off = Z * math.sqrt(sum(level.variance for level in levels)) if expired else 0.0
        return rows + expired, max(rows, rows + expired - off), rows + expired + off
    every = [v for level in levels for v in level.values(column)]
    if expired == 0 or function in ("min", "max"):
        exact = plain(every, function) if expired == 0 else None
        return exact, exact, exact
    strata = [Stratum(level, column, every, rows) for level in levels]
    sampled = sum(1 for s in strata if s.n > 0)
    degrees = [s.n - 1 if s.n > 1 else max(sampled - 1, 1) for s in strata]
    population = sum(s.population for s in strata)
    if function == "count":
        off = Z * math.sqrt(sum(s.uncertain for s in strata))
        return population, max(len(every), population - off), population + off
    total = sum(s.population * s.mean for s in strata)
    mean = total / population
    weights = [s.population**2 * s.error for s in strata]
    if function == "sum":
        off = error_of(weights, degrees, sum(s.mean**2 * s.uncertain for s in strata))
        return total, total - off, total + off
    if function == "avg":
        moved = sum((s.mean - mean) ** 2 * s.uncertain for s in strata)
        off = error_of(weights, degrees, moved) / population
        return mean, mean - off, mean + off
    within = sum(max(s.population - 1, 0) * s.spread for s in strata)
    between = sum(
        s.population * (s.mean - mean) ** 2 - s.population * (1 - s.population / population) * s.error
        for s in strata
    )
    squares = within + max(between, 0.0)
    deviation = math.sqrt(squares / max(population - 1, 1))
    weights = [
        (max(s.population - 1, 0) * s.spread) ** 2 * 2 / d * s.left
        + (2 * s.population * (s.mean - mean)) ** 2 * s.error
        for s, d in zip(strata, degrees, strict=True)
    ]
    moved = sum((s.spread + (s.mean - mean) ** 2 - deviation**2) ** 2 * s.uncertain for s in strata)
    if squares == 0:
        return 0.0, 0.0, 0.0
    width = math.exp(min(700, error_of(weights, degrees, moved) / (2 * squares)))
    return deviation, deviation / width, deviation * width


def error_of(weights: Sequence[float], degrees: Sequence[float], moved: float) -> float:
    variance = sum(weights) + moved
    if variance == 0:
        return 0.0
    below = sum((w / variance) ** 2 / d for w, d in zip(weights, degrees, strict=True))
    return float(student(np.array(1 / below))) * math.sqrt(variance) if below else Z * math.sqrt(variance)


class Stratum:
    """A level as a sample of its own population."""

    def __init__(self, level: Level, column: str, every: Sequence[float], rows: int) -> None:
        values = level.values(column)
        self.n = len(values)
        share = self.n / len(level.rows) if level.rows else len(every) / rows
        missing = level.expired * share
        self.population = self.n + missing
        self.mean = statistics.fmean(values) if values else statistics.fmean(every) if every else 0.0
        alike = statistics.variance(every) if len(every) > 1 else 0.0
        self.spread = statistics.variance(values) if self.n > 1 else alike
        self.left = missing / (self.population - 1) if self.n > 1 else float(missing > 0)
        self.error = self.spread / max(self.n, 1) * self.left
        nulls = share * (1 - share)
        self.uncertain = share**2 * level.variance + nulls * level.expired * (
            1 + level.expired / max(len(level.rows), 1)
        )


def plain(values: Sequence[Any], function: str) -> Value:
    """SQL's aggregate."""
    if function == "count":
        return len(values)
    if not values or (function == "stddev" and len(values) < 2):
        return None
    made = {"sum": math.fsum, "avg": statistics.fmean, "min": min, "max": max, "stddev": statistics.stdev}
    result: Value = made[function](values)
    return result
