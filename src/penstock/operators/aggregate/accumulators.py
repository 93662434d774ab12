"""Accumulators: one running value per group for each aggregate, exact under eviction.

Each takes the events of a step and gives, for every output row, what the aggregate is and what it was at the
group's previous row. Integers are summed in 128 bits (64 where the argument has 32), doubles as pairs; MIN
and MAX keep a heap per group; DISTINCT forms see only events at which a value appears or vanishes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from penstock.kernels.aggregate import groups as kernels
from penstock.operators.contract import Site
from penstock.plan.expressions import Aggregation, Call, Expression
from penstock.state import key_words
from penstock.state.arena import Slab
from penstock.state.renumbering import Renumbering
from penstock.state.strings import Strings
from penstock.state.value_ids import Registry
from penstock.types.batch import Array, Column, Ints, Mask
from penstock.types.data_type import INTEGERS, Type


@dataclass(slots=True, eq=False)
class Step:
    """What accumulators see of a step. `gid`, argument values and validity are addressed by slot."""

    slots: Array
    signs: Array
    started: Array
    gid: Array
    row: Array
    """Which output row each event writes; rows are numbered as they are first written."""
    size: Ints
    """Members of the group after and before, by output row."""
    was_size: Ints
    capacity: int
    groups: int

    @property
    def rows(self) -> int:
        return len(self.size)


class Both(NamedTuple):
    """An aggregate by output row, and what it was; the latter is made when asked for."""

    now: Column
    was: Callable[[], Column]


class Accumulator(Protocol):
    def step(self, step: Step, values: Array, valid: Mask | None) -> Both: ...

    def at(self, gids: Array, size: Ints, values: Array) -> Column:
        """What the aggregate is for these groups, which have `size` members each."""
        ...

    def renumber_members(self, made: Renumbering) -> None:
        """Members have other slots."""
        ...

    def renumber_groups(self, made: Renumbering) -> None:
        """Groups have other ids."""
        ...

    def shrink(self, coming: int) -> None:
        """Give back room for ids of its own."""
        ...


class _ByGroup:
    """Remembers nothing, or groups alone."""

    def renumber_members(self, made: Renumbering) -> None:
        pass

    def renumber_groups(self, made: Renumbering) -> None:
        pass

    def shrink(self, coming: int) -> None:
        pass


class CountAll(_ByGroup):
    """COUNT(*): the group's size."""

    def step(self, step: Step, values: Array, valid: Mask | None) -> Both:
        return Both(Column(step.size), lambda: Column(step.was_size))

    def at(self, gids: Array, size: Ints, values: Array) -> Column:
        return Column(size)


class Count(_ByGroup):
    """COUNT(x), and how many arguments are not NULL for those that need to know.

    Members less NULLs, so that nothing is tracked until a NULL comes; over DISTINCT values every event counts.
    """

    def __init__(self, site: Site, name: str, distinct: bool) -> None:
        self._groups = Slab(site.arena, f"{name}.count", count=(np.int64, 0))
        self._distinct = distinct

    def step(self, step: Step, values: Array, valid: Mask | None) -> Both:
        now, was = self.counts(step, valid)
        return Both(Column(now), lambda: Column(was))

    def at(self, gids: Array, size: Ints, values: Array) -> Column:
        return Column(self.count(gids, size))

    def renumber_groups(self, made: Renumbering) -> None:
        self._groups.renumber(made)

    def count(self, gids: Array, size: Ints) -> Ints:
        _cover(self._groups, gids)
        counted: Ints = self._groups["count"][gids]
        return counted if self._distinct else size - counted

    def counts(self, step: Step, valid: Mask | None) -> tuple[Ints, Ints]:
        if valid is None:
            return step.size, step.was_size
        self._groups.fit(step.groups)
        was, out = np.empty(step.rows, np.int64), np.empty(step.rows, np.int64)
        counted = valid if self._distinct else ~valid
        kernels.count(step.slots, step.signs, step.gid, step.row, counted, self._groups["count"], was, out)
        return (out, was) if self._distinct else (step.size - out, step.was_size - was)


class Sums:
    """Sums and counts of one argument, shared by the aggregates that need them.

    `kind`: "small" integers, wider "ints", "doubles", or "squares" of doubles' deviations.
    """

    def __init__(self, site: Site, name: str, kind: str, distinct: bool) -> None:
        self._kind = kind
        self._float = kind in ("doubles", "squares")
        blank: tuple[Any, Any] = (np.int64, 0) if kind == "small" else (np.int64, np.zeros(2))
        if self._float:
            blank = (np.float64, kernels.FRESH)
        self._groups = Slab(site.arena, f"{name}.sum", total=blank, odd=(np.int64, kernels.NOBODY))
        self._links = Slab(site.arena, f"{name}.links", after=(np.int32, -1), before=(np.int32, -1))
        self._count = Count(site, name, distinct)
        self._seen: Step | None = None
        self._sums: tuple[Array, Array, Array, Array]
        self._counts: tuple[Ints, Ints]

    def run(self, step: Step, values: Array, valid: Mask | None) -> None:
        """Take the events once, whoever asks."""
        if self._seen is step:
            return
        self._seen = step
        self._counts = self._count.counts(step, valid)
        self._groups.fit(step.groups)
        if self._float:
            self._sums = self._run_doubles(step, values, valid)
            return
        shape = step.rows if self._kind == "small" else (step.rows, 2)
        was, out = np.empty(shape, np.int64), np.empty(shape, np.int64)
        events = (step.slots, step.signs, step.gid, step.row, values, self._groups["total"], was, out)
        if self._kind == "small":
            kernels.sum_small(*events)
        else:
            kernels.sum_ints(*events)
        self._sums = (out, was, _NO_ODD, _NO_ODD)

    def _run_doubles(
        self, step: Step, values: Array, valid: Mask | None
    ) -> tuple[Array, Array, Array, Array]:
        self._links.fit(step.capacity)
        there = np.ones(step.capacity, np.bool_) if valid is None else valid
        groups, links = self._groups, self._links
        width = len(kernels.FRESH)
        was, out = np.empty((step.rows, width), np.float64), np.empty((step.rows, width), np.float64)
        was_odd, out_odd = np.empty(step.rows, np.int8), np.empty(step.rows, np.int8)
        kernels.sum_doubles(
            step.slots, step.signs, step.gid, step.row, values, there, self._kind == "squares", groups["total"],
            groups["odd"], links["after"], links["before"], was, out, was_odd, out_odd,
        )  # fmt: skip
        return out, was, out_odd, was_odd

    def renumber_members(self, made: Renumbering) -> None:
        self._links.renumber(made)
        self._links.refer(made, "after", "before")
        first = self._groups["odd"][:, kernels.FIRST]
        first[:] = made.of(first)

    def renumber_groups(self, made: Renumbering) -> None:
        self._groups.renumber(made)
        self._count.renumber_groups(made)

    def load(self, gids: Array, size: Ints) -> None:
        """What the groups hold, as if a step had just given it."""
        self._seen = None
        _cover(self._groups, gids)
        counts = self._count.count(gids, size)
        self._counts = (counts, counts)
        sums = self._groups["total"][gids]
        odd = kernels.oddities(self._groups["odd"][gids]) if self._float else _NO_ODD
        self._sums = (sums, sums, odd, odd)

    def total(self, which: int) -> Column:
        """SUM now (0) or before (1)."""
        sums, counts = self._sums[which], self._counts[which]
        if self._kind == "small":
            return Column(sums, _mask(counts > 0))
        if self._kind == "ints":
            return Column(sums[:, 0].copy(), _mask((counts > 0) & (sums[:, 1] == sums[:, 0] >> 63)))
        return Column(self._double(which), _mask(counts > 0))

    def rest(self, which: int) -> Column:
        """What rounding takes from SUM of doubles, now (0) or before (1)."""
        odd = self._sums[2 + which]
        return Column(np.where(odd > 0, 0.0, self._sums[which][:, kernels.LOW]))

    def mean(self, which: int) -> Column:
        """AVG now (0) or before (1)."""
        sums, counts = self._sums[which], self._counts[which]
        if self._kind == "small":
            total = sums
        elif self._kind == "ints":
            wide = sums[:, 1] * 2.0**64 + sums[:, 0].copy().view(np.uint64)
            total = np.where(sums[:, 1] == sums[:, 0] >> 63, sums[:, 0], wide)
        else:
            total = self._double(which)
        if counts.min(initial=1) > 0:
            return Column(total / counts)
        return Column(total / np.maximum(counts, 1), counts > 0)

    def deviation(self, which: int) -> Column:
        """STDDEV now (0) or before (1)."""
        counts = self._counts[which]
        out = np.empty(len(counts), np.float64)
        kernels.deviation(self._sums[which], self._sums[2 + which], counts, out)
        return Column(out, _mask(counts > 1))

    def _double(self, which: int) -> Array:
        out = np.empty(len(self._counts[which]), np.float64)
        kernels.totals(self._sums[which], self._sums[2 + which], out)
        return out


_NO_ODD = np.empty(0, np.int8)


class OfSums(_ByGroup):
    """SUM, AVG and STDDEV, by name; and the rest of a SUM, for who adds several. `holds`: it is the first of those that share the sums."""

    def __init__(self, sums: Sums, function: str, *, holds: bool) -> None:
        self._sums = sums
        self._holds = holds
        values = {"sum": sums.total, "rest": sums.rest, "avg": sums.mean, "stddev": sums.deviation}
        self._value = values[function]

    def step(self, step: Step, values: Array, valid: Mask | None) -> Both:
        self._sums.run(step, values, valid)
        return Both(self._value(0), lambda: self._value(1))

    def at(self, gids: Array, size: Ints, values: Array) -> Column:
        self._sums.load(gids, size)
        return self._value(0)

    def renumber_members(self, made: Renumbering) -> None:
        if self._holds:
            self._sums.renumber_members(made)

    def renumber_groups(self, made: Renumbering) -> None:
        if self._holds:
            self._sums.renumber_groups(made)


class Extreme(_ByGroup):
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

    def step(self, step: Step, values: Array, valid: Mask | None) -> Both:
        self._groups.fit(step.groups)
        self._links.fit(step.capacity)
        links = self._links
        was, top = np.empty(step.rows, np.int32), np.empty(step.rows, np.int32)
        mask = np.ones(step.capacity, np.bool_) if valid is None else valid
        kernels.extreme(
            step.slots, step.signs, step.gid, step.row, self._keys(values), mask, self._groups["root"],
            links["child"], links["sibling"], links["before"], was, top,
        )  # fmt: skip
        return Both(_picked(values, top), lambda: _picked(values, was))

    def at(self, gids: Array, size: Ints, values: Array) -> Column:
        _cover(self._groups, gids)
        return _picked(values, self._groups["root"][gids])

    def renumber_members(self, made: Renumbering) -> None:
        self._links.renumber(made)
        self._links.refer(made, "child", "sibling", "before")
        self._groups.refer(made, "root")

    def renumber_groups(self, made: Renumbering) -> None:
        self._groups.renumber(made)

    def _keys(self, values: Array) -> Array:
        """Numbers in the order of the values; all of them anew, since strings are ranked afresh."""
        keys = ordinals(values, self._type, self._strings)
        return ~keys if self._largest else keys


class Distinct:
    """Any aggregate over DISTINCT values: the inner one sees values appear in and vanish from their groups."""

    def __init__(self, site: Site, name: str, inner: Accumulator, type_: Type) -> None:
        self._inner = inner
        self._types = [Type.INT, type_]
        self._known = Registry(site.arena, f"{name}.value", key_words.width(self._types))
        self._values = Slab(
            site.arena, f"{name}.copies",
            copies=(np.int64, 0), gid=(np.int32, 0), value=(type_.dtype, 0), there=(np.bool_, True),
        )  # fmt: skip
        self._slots = Slab(site.arena, f"{name}.slot", value=(np.int32, 0))

    def step(self, step: Step, values: Array, valid: Mask | None) -> Both:
        self._slots.fit(step.capacity)
        started = step.started
        gid = Column(step.gid[started])
        argument = Column(values[started], None if valid is None else valid[started])
        ids = self._known.ids(key_words.rows([gid, argument], self._types, len(started)))
        self._values.fit(self._known.capacity)
        known = self._values
        known["gid"][ids] = gid.values
        known["value"][ids] = argument.values
        known["there"][ids] = True if argument.valid is None else argument.valid
        self._slots["value"][started] = ids
        which = self._slots["value"][step.slots]
        signs = np.empty(len(step.signs), np.int8)
        kernels.distinct_events(which, step.signs, known["there"], known["copies"], signs)
        out = self._inner.step(
            Step(
                which,
                signs,
                ids,
                known["gid"],
                step.row,
                step.size,
                step.was_size,
                known.capacity,
                step.groups,
            ),
            known["value"],
            known["there"],
        )
        seen = np.unique(which)
        self._known.release(seen[known["copies"][seen] == 0])
        return out

    def at(self, gids: Array, size: Ints, values: Array) -> Column:
        return self._inner.at(gids, size, values)

    def renumber_members(self, made: Renumbering) -> None:
        self._slots.renumber(made)

    def renumber_groups(self, made: Renumbering) -> None:
        self._known.refer(made, 0)
        self._values.refer(made, "gid")
        self._inner.renumber_groups(made)

    def shrink(self, coming: int) -> None:
        made = self._known.shrink(coming)
        if made is not None:
            self._values.renumber(made)
            self._slots.refer(made, "value")
            self._inner.renumber_members(made)


def ordinals(values: Array, type_: Type, strings: Strings) -> Array:
    """Numbers in the order of the values."""
    if type_ is Type.STRING:
        # Slots without a live row may hold anything.
        ranks: Array = strings.order().take(values, mode="clip").astype(np.int64)
        return ranks
    if type_.is_float:
        # NaN is greater than every number: map doubles to integers in that order.
        with np.errstate(invalid="ignore"):  # slots without a live row may hold signalling NaNs
            doubles = values.astype(np.float64) + 0.0
        bits = doubles.view(np.int64)
        keys = np.where(bits < 0, bits ^ np.int64(0x7FFF_FFFF_FFFF_FFFF), bits)
        return np.where(np.isnan(doubles), np.iinfo(np.int64).max - 1, keys)
    return values.astype(np.int64)


def _cover(slab: Slab, gids: Array) -> None:
    """Room for groups that no step has touched yet."""
    slab.fit(int(gids.max(initial=0)) + 1)


def _picked(values: Array, slots: Array) -> Column:
    """values[slots], NULL for slot -1."""
    there = slots >= 0
    if not there.any():
        return Column(np.zeros(len(slots), values.dtype), there)
    return Column(values[slots], _mask(there))


def _mask(valid: Mask) -> Mask | None:
    return None if valid.all() else valid


class Accumulators:
    """Makes the accumulators of one GROUP BY; sums of equal arguments are kept once."""

    def __init__(self, site: Site, strings: Strings) -> None:
        self._site = site
        self._strings = strings
        self._sums: dict[tuple[Expression, str, str], Sums] = {}

    def make(self, name: str, aggregation: Aggregation) -> Accumulator:
        function, argument = aggregation.function, aggregation.argument
        if argument is None:
            return CountAll()
        if function in ("min", "max"):
            return Extreme(self._site, name, argument.type, function == "max", self._strings)
        distinct = aggregation.distinct
        made: Accumulator
        if function == "count":
            made = Count(self._site, name, distinct)
        else:
            kind = "squares" if function == "stddev" else sum_kind(argument)
            key = (argument, kind, name if distinct else "")
            holds = key not in self._sums
            if holds:
                self._sums[key] = Sums(self._site, name, kind, distinct)
            made = OfSums(self._sums[key], function, holds=holds)
        return Distinct(self._site, name, made, argument.type) if distinct else made


def sum_kind(argument: Expression) -> str:
    """How wide an accumulator an argument needs."""
    if argument.type.is_float:
        return "doubles"
    narrow = argument.type
    if isinstance(argument, Call) and argument.function == "cast":
        narrow = argument.arguments[0].type
    return "small" if narrow in INTEGERS and narrow is not Type.BIGINT else "ints"
