"""The answers of groups from their tables by level: exact where nothing expired, else estimates with bounds.

A `Table` is what the groups hold at some instants, a row for each (instant, group). Where an answer is made of levels of which
nothing expired it is the plain GROUP BY's over these levels, by the same arithmetic: integers are added as such, doubles with
what their sums lost to rounding. Elsewhere `reliability` infers it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from penstock.operators.aggregate.accumulators import ordinals
from penstock.operators.sampled_aggregate import inference as reliability
from penstock.operators.sampled_aggregate.inference import (
    Doubles,
    Inference,
    Strata,
    Values,
    added,
)
from penstock.plan.expressions import Aggregation
from penstock.state.strings import Strings
from penstock.types.batch import Array, Column, Ints, Mask
from penstock.types.data_type import Type

_LARGEST = 2.0**63


class Parts(Protocol):
    """Arrays by place."""

    def __getitem__(self, at: int, /) -> Array: ...


class Table(NamedTuple):
    """[rows × levels]: what is there. Cells without rows hold zeros."""

    rows: Ints
    expired: Doubles | None
    """None: nothing, anywhere."""
    variance: Doubles | None
    parts: Parts
    """What `plan.sampling.parts` asks for, in its order."""
    there: Mapping[int, Mask]
    """Of parts that are sums of integers: whether they are not NULL, as where 64 bits do not hold them."""


class Told(NamedTuple):
    """What is said of an aggregate, by row."""

    value: Column
    low: Column
    high: Column


class Estimator:
    """How a query's aggregates are answered from such tables."""

    def __init__(
        self,
        aggregations: Sequence[Aggregation],
        places: Sequence[Mapping[str, int]],
        error: float,
        relative: bool,
        strings: Strings,
    ) -> None:
        self._aggregations = aggregations
        self._places = places
        self._error, self._relative = error, relative
        self._strings = strings
        self._means = list({p["stddev"]: p for p in places if "stddev" in p}.values())
        """The places of every argument of which a mean is told."""
        functions = [a.function for a in aggregations]
        self._only_extremes = bool(functions) and all(f in ("min", "max") for f in functions)

    # ------------------------------------------------------------------ which levels

    def chosen(self, table: Table) -> Ints:
        """Of how many levels the answer of each row is made; 0: there is none."""
        levels = table.rows.shape[1]
        out = np.where(reliability.some(table.rows > 0), levels, 0)
        if table.expired is None:
            return out
        some = np.flatnonzero(reliability.some(table.expired > 0.0))
        rows, expired = table.rows[some].astype(np.float64), table.expired[some]
        # Of a least or greatest value nothing less than all rows can be sure.
        ok = np.full(rows.shape, not self._only_extremes)
        for place in self._means:
            values = reliability.merged(_values(table, place, some, None))
            ok &= reliability.enough(
                rows.cumsum(axis=1), expired.cumsum(axis=1), values, self._error, relative=self._relative
            )
        out[some] = reliability.largest(ok, rows, expired)
        return out

    # ------------------------------------------------------------------ answers

    def answers(self, table: Table, used: Mask | None) -> list[Told]:
        """Every aggregate, by row, of the levels used (None: all)."""
        unsure, strata = _unsure(table, used)
        inferences: dict[int, Inference] = {}

        def inference(place: Mapping[str, int]) -> Inference:
            at = place.get("stddev", place["count"])
            if at not in inferences:
                these = None if used is None else used[unsure]
                inferences[at] = Inference(strata, _values(table, place, unsure, these))
            return inferences[at]

        told = []
        for one, place in zip(self._aggregations, self._places, strict=True):
            exact = self._exact(one, place, table, used)
            if one.function in ("min", "max"):
                told.append(_extreme(exact, unsure))
                continue
            bounds = exact.values.astype(np.float64)
            if not len(unsure):
                told.append(Told(exact, Column(bounds, exact.valid), Column(bounds, exact.valid)))
                continue
            if one.argument is None:
                found = reliability.count(strata)
            else:
                of = inference(place)
                what = {"count": of.count, "sum": of.total, "avg": of.mean, "stddev": of.deviation}
                found = what[one.function]()
            told.append(_mixed(exact, bounds, unsure, found, one.type))
        return told

    def _exact(self, one: Aggregation, place: Mapping[str, int], table: Table, used: Mask | None) -> Column:
        """As if nothing had expired in these levels."""
        if one.argument is None:
            return Column(added(of_levels(table.rows, used)))
        counts = of_levels(table.parts[place["count"]], used)
        n = added(counts)
        if one.function == "count":
            return Column(n)
        if one.function in ("min", "max"):
            return self._least(one, table.parts[place[one.function]], counts > 0)
        if one.function == "stddev":
            return _deviation(table, place, used, counts, n)
        total, fits = _total(table, place, counts, used)
        if one.function == "sum":
            return Column(total, _mask(fits & (n > 0)))
        if not fits.all():
            means = table.parts[place["avg"]] * counts
            total = np.where(fits, total, added(means))
        return Column(total / np.maximum(n, 1), _mask(n > 0))

    def _least(self, one: Aggregation, values: Array, there: Mask) -> Column:
        assert one.argument is not None
        keys = ordinals(values.ravel(), one.argument.type, self._strings).reshape(values.shape)
        keys = np.where(there, ~keys if one.function == "max" else keys, np.iinfo(np.int64).max)
        best, rows = keys.argmin(axis=1), np.arange(len(keys))
        # The greatest of all numbers looks like no value.
        best = np.where(there[rows, best], best, there.argmax(axis=1))
        return Column(values[rows, best], _mask(reliability.some(there)))


def of_levels(part: Array, used: Mask | None) -> Array:
    """Zeros in levels that are not used."""
    return part if used is None else np.where(used, part, part.dtype.type(0))


def _unsure(table: Table, used: Mask | None) -> tuple[Array, Strata]:
    """Rows of whose levels something expired, and these."""
    if table.expired is None or table.variance is None:
        return np.empty(0, np.intp), Strata(*(np.empty((0, table.rows.shape[1])),) * 3)
    every = [of_levels(p, used) for p in (table.rows.astype(np.float64), table.expired, table.variance)]
    rows = np.flatnonzero(reliability.some(every[1] > 0.0))
    return rows, Strata(*(part[rows] for part in every))


def _values(table: Table, place: Mapping[str, int], rows: Array, used: Mask | None) -> Values:
    """An argument of some rows, in the levels used."""
    n = table.parts[place["count"]][rows].astype(np.float64)
    mean, squares = np.zeros_like(n), np.zeros_like(n)
    if "stddev" in place:
        mean = table.parts[place["avg"]][rows]
        squares = table.parts[place["stddev"]][rows] ** 2 * np.maximum(n - 1.0, 0.0)
        squares[~np.isfinite(mean)] = np.nan  # also of a single infinity
    if used is None:
        return Values(n, mean, squares)
    return Values(*(np.where(used, part, 0.0) for part in (n, mean, squares)))


def _total(table: Table, place: Mapping[str, int], counts: Ints, used: Mask | None) -> tuple[Array, Mask]:
    """SUM over the levels used, and whether its type holds it."""
    at = place["sum"]
    values = of_levels(table.parts[at], used)
    if "rest" in place:
        total, _ = reliability.pair_sum(values, of_levels(table.parts[place["rest"]], used))
        return total, np.ones(len(total), np.bool_)
    whole, fits = reliability.whole_sum(values)
    return whole, fits & ~reliability.some((counts > 0) & ~table.there[at])


def _deviation(table: Table, place: Mapping[str, int], used: Mask | None, counts: Ints, n: Ints) -> Column:
    """STDDEV over the levels used; of a single one as it is."""
    own = of_levels(table.parts[place["stddev"]], counts > 0)
    single = added((counts > 0).astype(np.int64)) == 1
    every = np.arange(len(n))
    merged = reliability.merged(_values(table, place, every, used))
    several = reliability.deviation(merged.n[:, -1], merged.squares[:, -1])
    return Column(np.where(single, added(own), several), _mask(n > 1))


def _extreme(exact: Column, unsure: Array) -> Told:
    """Nobody knows the least of what has not been seen."""
    if len(unsure):
        valid = np.ones(len(exact), np.bool_) if exact.valid is None else exact.valid.copy()
        valid[unsure] = False
        exact = Column(exact.values, valid)
    return Told(exact, exact, exact)


def _mixed(exact: Column, bounds: Doubles, unsure: Array, found: reliability.Answer, type_: Type) -> Told:
    """Estimates in their rows."""
    values, low, high = exact.values.copy(), bounds.copy(), bounds.copy()
    low[unsure], high[unsure] = found.low, found.high
    valid = np.ones(len(values), np.bool_) if exact.valid is None else exact.valid.copy()
    if type_.is_integer:
        fits = np.abs(found.value) < _LARGEST
        values[unsure] = np.rint(np.where(fits, found.value, 0.0))
        valid[unsure] &= fits
    else:
        values[unsure] = found.value
    mask = _mask(valid)
    return Told(Column(values, mask), Column(low, mask), Column(high, mask))


def _mask(valid: Mask) -> Mask | None:
    return None if valid.all() else valid
