"""What a sample says of its population: which levels are reliable, the answers, and how far off these may be.

Paper      Works 2013 (TP-Ag), §5.3; Cochran 1977, chapters 4 (sample size) and 5 (strata).
Invariant  where nothing expired the sample is the population: every answer is exact and its interval a point.
Cost       O(groups × levels), whole arrays at a time.

Arrays are [groups × levels], the best level first, insignificant rows last. Of an argument there are, by level, how many
values there are, their mean, and the sum of their squared deviations from that mean: sums of plain squares would lose the
deviation of prices that are large and close together.

Levels expire at different rates, so a sample of several is not a random one of all: each level stands for its own
population (a stratum), and the answer is what these make together. Where the rates are equal it is the plain mean.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from penstock.types.batch import Ints, Mask

Doubles = NDArray[np.float64]
Number = TypeVar("Number", np.float64, np.int64)

Z = 1.96
"""95 % of a normal distribution lie within so many deviations of its mean."""

_DEGREES = np.array([1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 40, 60, 120, np.inf])
_STUDENT = np.array(
    [12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3060, 2.2281, 2.1788, 2.1314, 2.0860, 2.0423, 2.0211, 2.0003, 1.9799, Z]
)  # fmt: skip
"""The same of Student's distribution, by degrees of freedom."""


class Values(NamedTuple):
    """An argument by group and level."""

    n: Doubles
    mean: Doubles
    squares: Doubles
    """Of deviations from the level's mean."""


class Answer(NamedTuple):
    """By group; the truth is between `low` and `high` with 95 %."""

    value: Doubles
    low: Doubles
    high: Doubles


def added(parts: NDArray[Number]) -> NDArray[Number]:
    """Sums over levels: a column after the other, as levels are few and groups many."""
    total: NDArray[Number] = parts[:, 0].copy()
    for level in range(1, parts.shape[1]):
        total += parts[:, level]
    return total


def some(marks: Mask) -> Mask:
    """Whether any level is marked."""
    found: Mask = marks[:, 0].copy()
    for level in range(1, marks.shape[1]):
        found |= marks[:, level]
    return found


# ------------------------------------------------------------------ which levels


def required(population: Doubles, deviation: Doubles, error: Doubles | float) -> Doubles:
    """Cochran's sample size: so many values, rounded up, give the mean within `error`. The paper's examples (1832 and 930):

    >>> required(np.array([1984.0, 1000.0]), np.array([7.9, 5.9]), 0.1).round(2).tolist()
    [1832.44, 930.49]
    """
    spread = (Z * deviation) ** 2
    rest = np.maximum(population - 1.0, 1e-300)
    wanted: Doubles = spread * (population / rest) / np.where(spread > 0.0, error**2 + spread / rest, 1.0)
    return wanted


def deviation(n: Doubles, squares: Doubles) -> Doubles:
    """With Bessel's correction; of fewer than two values 0."""
    return np.where(n > 1.0, np.sqrt(squares / np.maximum(n - 1.0, 1.0)), 0.0)


def merged(values: Values) -> Values:
    """At every level the values of all levels up to it."""
    out = Values(*(np.empty_like(part, np.float64) for part in values))
    n = mean = squares = np.zeros(len(values.n))
    for level in range(values.n.shape[1]):
        more, own = values.n[:, level], values.mean[:, level]
        both = n + more
        share = more / np.maximum(both, 1.0)
        off = np.where(more > 0.0, own - mean, 0.0)
        mean = np.where(n > 0.0, mean + off * share, np.where(more > 0.0, own, 0.0))
        squares = squares + values.squares[:, level] + np.where(n > 0.0, off * off * n * share, 0.0)
        n = both
        for part, now in zip(out, (n, mean, squares), strict=True):
            part[:, level] = now
    return out


def enough(rows: Doubles, expired: Doubles, values: Values, error: float, *, relative: bool = False) -> Mask:
    """Whether the values up to each level are enough to tell their mean within the error.

    All arguments hold what there is up to each level (`merged`). `relative`: the error is a share of the mean.
    """
    n, mean, squares = values
    allowed = error * np.abs(mean) if relative else error
    present = np.where(rows > 0.0, n / np.maximum(rows, 1.0), 1.0)
    wanted = required(n + expired * present, deviation(n, squares), allowed)
    good: Mask = (n >= 2.0) & (n >= np.ceil(wanted))
    return good


def largest(ok: Mask, rows: Doubles, expired: Doubles) -> Ints:
    """How many levels, from the best on, a group's answer is made of: as many as are reliable together.

    `ok`: what there is up to each level is enough for every aggregate. A sample of which nothing expired is always reliable; an
    empty one says nothing, and of a level of which rows expired and none is there nothing is known.
    """
    blind = np.logical_or.accumulate((expired > 0.0) & (rows <= 0.0), axis=1)
    sample, gone = rows.cumsum(axis=1), expired.cumsum(axis=1)
    good = (ok & ~blind & (sample >= 2.0) | (gone <= 0.0)) & (sample > 0.0)
    levels = good.shape[1]
    return np.where(some(good), levels - np.argmax(good[:, ::-1], axis=1), 0)


# ------------------------------------------------------------------ answers


class Strata(NamedTuple):
    """The levels an answer is made of: rows processed, rows expired as estimated, and the variance of that estimate.

    Levels that are not used hold zeros.
    """

    rows: Doubles
    expired: Doubles
    variance: Doubles


def student(degrees: Doubles) -> Doubles:
    """Within how many deviations 95 % lie, if the deviation is known from so few."""
    inverse = 1.0 / np.maximum(degrees, 1.0)
    within: Doubles = np.interp(inverse, 1.0 / _DEGREES[::-1], _STUDENT[::-1])
    return within


def count(strata: Strata) -> Answer:
    """How many rows there would be: as sure as the estimate of those that expired."""
    least = added(strata.rows)
    value = least + added(strata.expired)
    off = Z * np.sqrt(added(strata.variance))
    return Answer(value, np.maximum(value - off, least), value + off)


class Inference:
    """What the values of an argument in some levels say of their population."""

    def __init__(self, strata: Strata, values: Values) -> None:
        rows, expired, variance = strata
        n, mean, squares = values
        pooled = Values(*(part[:, -1:] for part in merged(values)))
        spread = deviation(pooled.n, pooled.squares) ** 2
        # Arguments may be NULL: as many of the expired ones, too.
        overall = pooled.n / np.maximum(added(rows)[:, None], 1.0)
        present = np.where(rows > 0.0, n / np.maximum(rows, 1.0), overall)
        absent = present * (1.0 - present)
        missing = expired * present
        self._n = n
        self._missing_variance = present**2 * variance + absent * expired * (
            1.0 + expired / np.maximum(rows, 1.0)
        )
        self._population = n + missing
        self._total_population = np.maximum(added(self._population), 1e-300)
        # A level without values is taken to be like the others; so is the deviation of a single one.
        self._mean = np.where(n > 0.0, mean, pooled.mean)
        self._spread = np.where(n > 1.0, deviation(n, squares) ** 2, spread)
        left = np.where(n > 1.0, missing / np.maximum(self._population - 1.0, 1.0), missing > 0.0)
        self._of_mean = self._spread / np.maximum(n, 1.0) * left
        """Variance of a level's mean, less what is certain because few expired."""
        self._left = left
        others = np.maximum(added((n > 0.0).astype(np.int64))[:, None] - 1.0, 1.0)
        self._degrees = np.where(n > 1.0, n - 1.0, others)
        self._total = added(self._population * self._mean)
        self._off = self._mean - (self._total / self._total_population)[:, None]
        """What a level's mean differs from that of all."""

    def count(self) -> Answer:
        value, least = added(self._population), added(self._n)
        off = Z * np.sqrt(added(self._missing_variance))
        return Answer(value, np.maximum(value - off, least), value + off)

    def total(self) -> Answer:
        weighted = self._population**2 * self._of_mean
        moved = added(self._mean**2 * self._missing_variance)
        off = self._error(weighted, moved)
        return Answer(self._total, self._total - off, self._total + off)

    def mean(self) -> Answer:
        weighted = self._population**2 * self._of_mean
        moved = added(self._off**2 * self._missing_variance)
        off = self._error(weighted, moved) / self._total_population
        value = self._total / self._total_population
        return Answer(value, value - off, value + off)

    def deviation(self) -> Answer:
        """Of the population, if values are normal within their levels; the interval is one of its logarithm."""
        population, spread = self._population, self._spread
        least = np.maximum(self._total_population - 1.0, 1.0)
        between = population * self._off**2
        noise = population * (1.0 - population / self._total_population[:, None]) * self._of_mean
        inner = np.maximum(population - 1.0, 0.0)
        squares = added(inner * spread) + np.maximum(added(between - noise), 0.0)
        value = np.sqrt(squares / least)
        own = (inner * spread) ** 2 * 2.0 / self._degrees * self._left
        weighted = own + (2.0 * population * self._off) ** 2 * self._of_mean
        moved = added((spread + self._off**2 - (value**2)[:, None]) ** 2 * self._missing_variance)
        error = self._error(weighted, moved) / np.maximum(2.0 * squares, 1e-300)
        width = np.exp(np.minimum(error, 700.0))
        return Answer(value, value / width, value * width)

    def _error(self, weighted: Doubles, moved: Doubles) -> Doubles:
        """How far off on either side: variances by level, and what comes from the number of rows that expired.

        The degrees of freedom are those of a sum of variances (Satterthwaite).
        """
        variance = added(weighted) + moved
        shares = weighted / np.maximum(variance, 1e-300)[:, None]
        below = added(shares**2 / self._degrees)
        degrees = np.where(below > 0.0, 1.0 / np.maximum(below, 1e-300), np.inf)
        off: Doubles = student(degrees) * np.sqrt(variance)
        return off


def shed(rows: Doubles, expired: Doubles) -> Doubles:
    """The share of a whole group that expired."""
    sample = added(rows)
    population = sample + added(expired)
    return np.where(population > 0.0, 1.0 - sample / np.maximum(population, 1e-300), 0.0)


# ------------------------------------------------------------------ sums without loss


def pair_sum(high: Doubles, low: Doubles) -> tuple[Doubles, Doubles]:
    """Sums over levels of numbers that are unevaluated pairs, as a pair: nothing that 106 bits hold is lost."""
    total, rest = high[:, 0].copy(), low[:, 0].copy()
    for level in range(1, high.shape[1]):
        more = high[:, level]
        with np.errstate(invalid="ignore"):  # infinities
            made = total + more
            part = made - total
            lost = (total - (made - part)) + (more - part) + rest + low[:, level]
            total = made + np.where(np.isfinite(made), lost, 0.0)
            rest = np.where(np.isfinite(made), lost - (total - made), 0.0)
    return total, rest


def whole_sum(values: Ints) -> tuple[Ints, Mask]:
    """Sums over levels of 64-bit integers, and whether 64 bits hold them."""
    low = added(values & 0xFFFF_FFFF)
    high = added(values >> 32) + (low >> 32)
    return (high << 32) | (low & 0xFFFF_FFFF), (high >= -(2**31)) & (high < 2**31)
