"""Accumulators: one running value per group for each aggregate, exact under eviction.

Each takes the events of a step and gives one column with a row per output row. Integers are summed in 128
bits, doubles as pairs; MIN and MAX keep a heap per group; DISTINCT forms count copies of each value.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from penstock.data.batch import Array, Column, Ints, Mask
from penstock.data.types import Type
from penstock.kernels import groups as kernels
from penstock.operators.contract import Site
from penstock.plan.expressions import Aggregation
from penstock.state import words
from penstock.state.arena import Slab
from penstock.state.registry import Registry
from penstock.state.strings import Strings


class Step(NamedTuple):
    """What an accumulator sees of a step."""

    slots: Array
    signs: Array
    started: Array
    """Slots that started in this step."""
    gid: Array
    """By slot."""
    row: Array
    """Which output row each event writes."""
    rows: int
    size: Ints
    """Members of the group, by output row."""
    out_gid: Array
    capacity: int
    groups: int


class Accumulator(Protocol):
    def step(self, step: Step, values: Array, valid: Mask | None) -> Column:
        """`values` and `valid` hold the argument, by slot."""
        ...


class CountAll:
    """COUNT(*): the group's size."""

    def step(self, step: Step, values: Array, valid: Mask | None) -> Column:
        return Column(step.size.copy())


class Count:
    """COUNT(x), and how many arguments are not NULL for those that need to know.

    Members less NULLs, so that nothing is tracked until a NULL comes; over DISTINCT values every event counts.
    """

    def __init__(self, site: Site, name: str, distinct: bool) -> None:
        self._groups = Slab(site.arena, f"{name}.count", count=(np.int64, 0))
        self._distinct = distinct

    def step(self, step: Step, values: Array, valid: Mask | None) -> Column:
        return Column(self.counts(step, valid).copy())

    def counts(self, step: Step, valid: Mask | None) -> Ints:
        if valid is None:
            return step.size
        self._groups.fit(step.groups)
        out = np.empty(step.rows, np.int64)
        counted = valid if self._distinct else ~valid
        kernels.count_valid(
            step.slots, step.signs, step.gid, step.row, counted, self._groups["count"], out
        )
        return out if self._distinct else step.size - out


class SumInts:
    """SUM and AVG of integers."""

    def __init__(self, site: Site, name: str, average: bool, distinct: bool) -> None:
        self._groups = Slab(site.arena, name, low=(np.int64, 0), high=(np.int64, 0))
        self._count = Count(site, name, distinct)
        self._average = average

    def step(self, step: Step, values: Array, valid: Mask | None) -> Column:
        self._groups.fit(step.groups)
        low, high = np.empty(step.rows, np.int64), np.empty(step.rows, np.int64)
        kernels.sum_ints(
            step.slots, step.signs, step.gid, step.row, values,
            self._groups["low"], self._groups["high"], low, high,
        )  # fmt: skip
        counts = self._count.counts(step, valid)
        some = counts > 0
        if self._average:
            total = high * 2.0**64 + low.view(np.uint64)
            small = high == low >> 63
            total = np.where(small, low, total)
            return Column(total / np.maximum(counts, 1), _mask(some))
        fits = high == low >> 63
        return Column(low, _mask(some & fits))


class SumDoubles:
    """SUM, AVG and STDDEV of doubles."""

    def __init__(self, site: Site, name: str, kind: str, distinct: bool) -> None:
        self._kind = kind
        self._sum = _pair(site, f"{name}.sum")
        self._squares = _pair(site, f"{name}.squares") if kind == "stddev" else None
        self._count = Count(site, name, distinct)

    def step(self, step: Step, values: Array, valid: Mask | None) -> Column:
        counts = self._count.counts(step, valid)
        high, low, odd = _run_pair(self._sum, step, values, False)
        if self._kind == "sum":
            return Column(_total(high, low, odd), _mask(counts > 0))
        if self._kind == "avg":
            return Column(_total(high, low, odd) / np.maximum(counts, 1), _mask(counts > 0))
        assert self._squares is not None
        high2, low2, _ = _run_pair(self._squares, step, values, True)
        out = np.empty(step.rows, np.float64)
        kernels.deviation(high, low, high2, low2, odd, counts, out)
        return Column(out, _mask(counts > 1))


def _pair(site: Site, name: str) -> Slab:
    return Slab(
        site.arena, name, high=(np.float64, 0.0), low=(np.float64, 0.0), size=(np.int64, 0),
        nan=(np.int64, 0), more=(np.int64, 0), less=(np.int64, 0),
    )  # fmt: skip


def _run_pair(groups: Slab, step: Step, values: Array, squared: bool) -> tuple[Array, Array, Array]:
    groups.fit(step.groups)
    high, low = np.empty(step.rows, np.float64), np.empty(step.rows, np.float64)
    odd = np.empty(step.rows, np.int8)
    kernels.sum_doubles(
        step.slots, step.signs, step.gid, step.row, values, groups["high"], groups["low"],
        groups["nan"], groups["more"], groups["less"], groups["size"], squared, high, low, odd,
    )  # fmt: skip
    return high, low, odd


_ODD = np.array([0.0, np.inf, -np.inf, np.nan])


def _total(high: Array, low: Array, odd: Array) -> Array:
    total = high + low
    if odd.any():
        total = np.where(odd > 0, _ODD[odd], total)
    return total


class Extreme:
    """MIN and MAX: the top of a heap per group."""

    def __init__(self, site: Site, name: str, type_: Type, largest: bool, strings: Strings) -> None:
        self._type = type_
        self._largest = largest
        self._strings = strings
        self._groups = Slab(site.arena, name, root=(np.int32, -1))
        self._links = Slab(
            site.arena, f"{name}.heap",
            child=(np.int32, -1), sibling=(np.int32, -1), before=(np.int32, -1),
        )  # fmt: skip

    def step(self, step: Step, values: Array, valid: Mask | None) -> Column:
        self._groups.fit(step.groups)
        self._links.fit(step.capacity)
        links = self._links
        top = np.empty(step.rows, np.int32)
        mask = np.ones(step.capacity, np.bool_) if valid is None else valid
        kernels.extreme(
            step.slots, step.signs, step.gid, step.row, self._keys(values), mask,
            self._groups["root"], links["child"], links["sibling"], links["before"], top,
        )  # fmt: skip
        return Column(values[top], _mask(top >= 0))

    def _keys(self, values: Array) -> Array:
        """Numbers in the order of the values; all of them anew, since strings are ranked afresh."""
        if self._type is Type.STRING:
            # Slots without a live row may hold anything.
            keys: Array = self._strings.order().take(values, mode="clip").astype(np.int64)
        elif self._type.is_float:
            # NaN is greater than every number: map doubles to integers in that order.
            doubles = values.astype(np.float64) + 0.0
            bits = doubles.view(np.int64)
            keys = np.where(bits < 0, bits ^ np.int64(0x7FFF_FFFF_FFFF_FFFF), bits)
            keys = np.where(np.isnan(doubles), np.iinfo(np.int64).max - 1, keys)
        else:
            keys = values.astype(np.int64)
        return ~keys if self._largest else keys


class Distinct:
    """Any aggregate over DISTINCT values: events at which a value appears in or vanishes from its group."""

    def __init__(self, site: Site, name: str, inner: Accumulator, type_: Type) -> None:
        self._inner = inner
        self._types = [Type.INT, type_]
        self._values = Registry(site.arena, f"{name}.value", words.width(self._types))
        self._copies = Slab(site.arena, f"{name}.copies", copies=(np.int64, 0))
        self._slots = Slab(site.arena, f"{name}.slot", value=(np.int32, 0))

    def step(self, step: Step, values: Array, valid: Mask | None) -> Column:
        self._slots.fit(step.capacity)
        mask = np.ones(step.capacity, np.bool_) if valid is None else valid
        started = step.started[mask[step.started]]
        gid, argument = Column(step.gid[started]), Column(values[started])
        ids = self._values.ids(words.rows([gid, argument], self._types, len(started)))
        self._copies.fit(self._values.capacity)
        self._slots["value"][started] = ids
        signs = np.empty(len(step.signs), np.int8)
        kernels.distinct_events(
            step.slots, step.signs, self._slots["value"], mask, self._copies["copies"], signs
        )
        seen = np.unique(self._slots["value"][step.slots[mask[step.slots]]])
        out = self._inner.step(step._replace(signs=signs), values, mask)
        self._values.release(seen[self._copies["copies"][seen] == 0])
        return out


def _mask(valid: Mask) -> Mask | None:
    return None if valid.all() else valid


def accumulator(site: Site, name: str, aggregation: Aggregation, strings: Strings) -> Accumulator:
    """The accumulator of an aggregate."""
    function, argument = aggregation.function, aggregation.argument
    if argument is None:
        return CountAll()
    made: Accumulator
    if function == "count":
        made = Count(site, name, aggregation.distinct)
    elif function in ("min", "max"):
        return Extreme(site, name, argument.type, function == "max", strings)
    elif argument.type is Type.BIGINT and function in ("sum", "avg"):
        made = SumInts(site, name, function == "avg", aggregation.distinct)
    else:
        made = SumDoubles(site, name, function, aggregation.distinct)
    return Distinct(site, name, made, argument.type) if aggregation.distinct else made
