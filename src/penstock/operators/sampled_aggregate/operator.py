"""GROUP BY over what could be processed in time: one answer a group, from as many levels as are reliable together.

Paper      Works 2013 (TP-Ag), §5.4; `plan.sample_columns` tells how the plan is made.
Invariant  at every instant the answer is a function of what the group's levels hold then: rows processed, rows expired.
Pattern    told edges in; STRICT out: '-' old, '+' new, and no answer while no sample is reliable. exp = the next end in the group.
State      per group a table by level: what the two GROUP BYs below last said of it; and the answer that is shown.
Cost       O(changed groups × levels) an instant; a window is never scanned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from penstock.kernels.sets.distinct import NEVER
from penstock.operators.capabilities import Holding
from penstock.operators.contract import Site, empty, signs, together
from penstock.operators.sampled_aggregate import inference
from penstock.operators.sampled_aggregate.estimator import Estimator, Table, of_levels
from penstock.operators.sampled_aggregate.inference import added
from penstock.plan.expressions import Literal
from penstock.plan.nodes import Reliable
from penstock.plan.sample_columns import parts
from penstock.state import key_words
from penstock.state.arena import Arena, Slab
from penstock.state.payload import Frame
from penstock.state.renumbering import Renumbering
from penstock.state.strings import Strings
from penstock.state.value_ids import Registry
from penstock.types.batch import Array, Batch, Column, Ints, Mask, concat, gather, same
from penstock.types.data_type import Type
from penstock.types.event_time import FOREVER


class ReliableAnswers:
    """Inputs: the GROUP BYs by keys and level, of rows and of estimates."""

    def __init__(self, site: Site, node: Reliable, strings: Strings) -> None:
        arena, name = site.arena, site.name
        self._arena, self._since, self._tells = arena, site.since, site.tells
        self._levels = levels = node.levels + 1
        self._keys = node.keys
        schema = node.schema
        self._key_types = [f.type for f in schema[: node.keys]]
        kept, places = parts(node.aggregations)
        self._estimator = Estimator(node.aggregations, places, node.error, node.relative, strings)
        self._groups = Registry(arena, f"{name}.key", key_words.width(self._key_types))
        self._key_frame = Frame(arena, f"{name}.keys", self._key_types)
        wide = [i for i, a in enumerate(kept) if a.function == "sum" and not a.type.is_float]
        self._rows = _Cells(arena, f"{name}.rows", [a.type for a in kept], wide, levels)
        self._expired = _Cells(arena, f"{name}.expired", [Type.DOUBLE] * 3, [], levels)
        self._shown = Frame(arena, f"{name}.shown", [f.type for f in schema[node.keys :]])
        self._exp = Slab(arena, f"{name}.exp", shown=(np.int64, NEVER))
        """Until when a group's answer is said to hold; NEVER: it has none."""
        bits = ["1" * k + "0" * (levels - k) for k in range(levels + 1)]
        codes = [site.evaluator.compile(Literal(b, Type.STRING))((), 1).values for b in bits]
        self._subsets = np.concatenate(codes)
        self._width = len(schema)
        self._begun = node.keys > 0 or len(self._groups) > 0

    def step(self, inputs: Sequence[Batch], now: int) -> Batch:
        first = None if self._begun else self._begin()
        events = [self._entered(batch) for batch in inputs]
        if not any(len(e.gid) for e in events):
            return empty(self._width) if first is None else first
        moments = _moments(events)
        if first is not None and moments.time[0] == self._since:
            # Something happens in the very first instant: the empty row was never true.
            first = None
            self._exp["shown"][:] = NEVER
        self._arena.visits += sum(len(e.gid) for e in events)
        gone: _Held | None = None
        rows = self._rows.at(moments, moments.places[0], events[0], inputs[0], self._keys + 1)
        if len(inputs[1]) or not self._expired.is_blank(moments):
            gone = self._expired.at(moments, moments.places[1], events[1], inputs[1], self._keys + 1)
        with np.errstate(all="ignore"):  # NaN and infinities are values
            answers, there = self._answers(rows, gone)
        exp = _soonest(rows.exp) if gone is None else np.minimum(_soonest(rows.exp), _soonest(gone.exp))
        out = self._changes(moments, answers, there, exp)
        if self._keys:
            last = moments.last
            live = inference.some(rows.exp[last] != NEVER)
            if gone is not None:
                live |= inference.some(gone.exp[last] != NEVER)
            self._groups.release(moments.gid[last[~live]])
        return out if first is None else together([first, out])

    def holdings(self) -> list[Holding]:
        return [Holding("groups", f"tables of {self._levels} levels", len(self._groups))]

    def shrink(self, coming: int) -> None:
        made = self._groups.shrink(coming) if self._keys else None
        if made is not None:
            for held in (self._key_frame, self._rows, self._expired, self._shown, self._exp):
                held.renumber(made)

    # ------------------------------------------------------------------ what came

    def _begin(self) -> Batch:
        """The one row without GROUP BY, true before anything arrives."""
        self._begun = True
        gid = self._groups.ids(np.zeros((1, key_words.width(self._key_types)), np.int64))
        self._fit()
        nothing = _Events(gid, np.zeros(1, np.intp), np.array([self._since]), np.zeros(1, np.bool_))
        moments = _moments([nothing])
        rows = self._rows.at(moments, moments.places[0], nothing, None, 0)
        return self._changes(moments, *self._answers(rows, None), np.array([FOREVER]))

    def _entered(self, batch: Batch) -> _Events:
        n = len(batch)
        keys = batch.columns[: self._keys]
        if not n:
            return _NOTHING
        gid, new = self._groups.ids_and_new(key_words.rows(keys, self._key_types, n))
        self._fit()
        self._key_frame.put(gid[new], gather(keys, new))
        level = batch.columns[self._keys].values.astype(np.intp) - 1
        return _Events(gid, level, batch.ts, signs(batch) > 0)

    def _fit(self) -> None:
        capacity = self._groups.capacity
        for held in (self._key_frame, self._rows, self._expired, self._shown, self._exp):
            held.fit(capacity)

    # ------------------------------------------------------------------ what is said

    def _answers(self, rows: _Held, gone: _Held | None) -> tuple[list[Column], Mask]:
        """The columns behind the keys, and whether there is an answer."""
        expired = variance = None
        if gone is not None:
            expired, variance, doubt = (np.maximum(gone.parts[i], 0.0) for i in range(3))
            variance += doubt**2
        table = Table(rows.parts[0], expired, variance, rows.parts, rows.there)
        chosen = self._estimator.chosen(table)
        if not self._keys:
            something = inference.some(table.rows > 0)
            if expired is not None:
                something |= inference.some(expired > 0.0)
            chosen[~something] = self._levels
        used = None if (chosen == self._levels).all() else np.arange(self._levels) < chosen[:, None]
        told = self._estimator.answers(table, used)
        seen = of_levels(table.rows, used)
        best = (seen > 0).argmax(axis=1)
        sample = added(seen)
        population = sample.astype(np.float64)
        share = np.zeros(len(sample))
        if expired is not None:
            population += added(of_levels(expired, used))
            share = inference.shed(table.rows.astype(np.float64), expired)
        about = [
            Column((best + 1).astype(np.int32), (sample > 0) & (best < self._levels - 1)),
            Column(self._subsets[chosen]),
            Column(population),
            Column(sample),
        ]
        bounds = [end for one in told for end in (one.low, one.high)]
        return [*(one.value for one in told), *about, *bounds, Column(share)], chosen > 0

    def _changes(self, at: _Moments, answers: list[Column], there: Mask, exp: Ints) -> Batch:
        """'-' for answers that end early (or are told to), '+' for new ones; what says nothing new is not sent."""
        firsts = np.flatnonzero(at.first)
        groups = at.gid[firsts]
        before = np.arange(len(at.gid)) - 1 + len(firsts)
        before[firsts] = np.arange(len(firsts))
        now = np.where(there, exp, NEVER)
        was = np.concatenate([self._exp["shown"][groups], now])[before]
        both = [
            concat([Column(v.values.copy(), v.valid), c])
            for v, c in zip(self._shown.at(groups), answers, strict=True)
        ]
        ended = was > (NEVER if self._tells else at.time)
        again = np.flatnonzero(ended & there & (was == exp))
        for one, other in zip(both, answers, strict=True):
            if not len(again):
                break
            again = again[same(other.take(again), one.take(before[again]))]
        sent = there.copy()
        ended[again] = sent[again] = False
        self._shown.put(at.gid[at.last], gather(answers, at.last))
        self._exp["shown"][at.gid[at.last]] = now[at.last]
        plus, minus = (_by_time(np.flatnonzero(some), at.time) for some in (sent, ended))
        old = (*self._key_frame.at(at.gid[minus]), *gather(both, before[minus]))
        new = (*self._key_frame.at(at.gid[plus]), *gather(answers, plus))
        gone = Batch(at.time[minus], was[minus], old, np.full(len(minus), -1, np.int8))
        come = Batch(at.time[plus], exp[plus], new)
        return together([gone, come])


class _Events(NamedTuple):
    """Changes of one input: whose they are, when, and whether something begins or ends."""

    gid: Array
    level: Array
    time: Ints
    begins: Mask


_NOTHING = _Events(np.empty(0, np.int32), np.empty(0, np.intp), np.empty(0, np.int64), np.empty(0, np.bool_))


class _Moments(NamedTuple):
    """Every (group, instant) at which something changes, by group and then by time."""

    gid: Array
    time: Ints
    first: Mask
    """Of its group."""
    last: Array
    """Places of the last of every group."""
    places: list[Array]
    """For every input which moment an event is of."""


def _moments(events: Sequence[_Events]) -> _Moments:
    gid = np.concatenate([e.gid for e in events])
    time = np.concatenate([e.time for e in events])
    order = np.lexsort((time, gid))
    gid, time = gid[order], time[order]
    first = np.ones(len(gid), np.bool_)
    first[1:] = gid[1:] != gid[:-1]
    new = first.copy()
    new[1:] |= time[1:] != time[:-1]
    places = np.empty(len(order), np.intp)
    places[order] = np.cumsum(new) - 1
    begins = np.flatnonzero(new)
    first = first[begins]
    last = np.append(np.flatnonzero(first)[1:], len(begins)) - 1
    each = np.split(places, np.cumsum([len(e.gid) for e in events])[:-1])
    return _Moments(gid[begins], time[begins], first, last, each)


class _Held(NamedTuple):
    """[moments × levels] of one input."""

    parts: _Parts
    there: dict[int, Mask]
    """Of some parts: whether they are not NULL."""
    exp: Ints
    """NEVER: there is nothing."""


class _Parts:
    """Arrays that are made when they are asked for: what only samples need is not, while nothing expires."""

    def __init__(self, makers: Sequence[Callable[[], Array]]) -> None:
        self._makers = makers
        self._made: dict[int, Array] = {}

    def __len__(self) -> int:
        return len(self._makers)

    def __getitem__(self, at: int) -> Array:
        if at not in self._made:
            self._made[at] = self._makers[at]()
        return self._made[at]


class _Cells:
    """What a GROUP BY by keys and level last said, by group and level; a cell without rows ends NEVER and holds zeros."""

    def __init__(
        self, arena: Arena, name: str, types: Sequence[Type], nullable: Sequence[int], levels: int
    ) -> None:
        self._levels = levels
        self._parts = [f"part{i}" for i in range(len(types))]
        self._there = {i: f"there{i}" for i in nullable}
        held = {p: (t.dtype, np.zeros(levels)) for p, t in zip(self._parts, types, strict=True)}
        there = {t: (np.bool_, np.zeros(levels)) for t in self._there.values()}
        self._slab = Slab(arena, name, **held, **there, exp=(np.int64, np.full(levels, NEVER)))
        for part, type_ in zip(self._parts, types, strict=True):
            if type_ is Type.STRING:
                arena.strings(f"{name}.{part}")

    def fit(self, capacity: int) -> None:
        self._slab.fit(capacity)

    def renumber(self, made: Renumbering) -> None:
        self._slab.renumber(made)

    def is_blank(self, moments: _Moments) -> bool:
        """Whether nothing is held of these groups."""
        return bool((self._slab["exp"][moments.gid[moments.last]] == NEVER).all())

    def at(self, moments: _Moments, places: Array, events: _Events, batch: Batch | None, skip: int) -> _Held:
        """What is held at every moment, after a batch whose columns begin with `skip` others; the last of it stays."""
        if batch is None or not len(batch):
            return _Held(
                _Parts([partial(_taken, self._slab[p], moments.gid) for p in self._parts]),
                {i: self._slab[t][moments.gid] for i, t in self._there.items()},
                self._slab["exp"][moments.gid],
            )
        source = _sources(moments, places, events, self._levels)
        groups = moments.gid[moments.last]

        final = source[moments.last]

        def after(field: str, values: Array, blank: int) -> Callable[[], Array]:
            held = self._slab[field]
            every = np.concatenate((held[groups].ravel(), values, np.array([blank], held.dtype)))
            held[groups] = every.take(final)
            return partial(_taken, every, source)

        columns = batch.columns[skip:]
        return _Held(
            _Parts([after(p, _filled(c), 0) for p, c in zip(self._parts, columns, strict=True)]),
            {i: after(t, _mask(columns[i]), False)() for i, t in self._there.items()},
            after("exp", batch.exp, NEVER)(),
        )


def _taken(values: Array, where: Array) -> Array:
    found: Array = values.take(where, axis=0)
    return found


def _sources(moments: _Moments, places: Array, events: _Events, levels: int) -> Array:
    """For every moment and level where to find what holds then: in what the groups hold (levels of one after the other's),
    behind it in the rows of the batch, and behind these in a blank."""
    firsts = np.flatnonzero(moments.first)
    held = len(firsts) * levels
    source = np.full((len(moments.gid), levels), -1, np.intp)
    source[firsts] = np.arange(held).reshape(-1, levels)
    # Of several changes in an instant the last one stands: '-' comes before '+'.
    n = len(places)
    source[places, events.level] = np.where(events.begins, held + np.arange(n), held + n)
    since = np.where(source >= 0, np.arange(len(source))[:, None], 0)
    since = np.maximum.accumulate(since, axis=0)
    return source.ravel().take(since * levels + np.arange(levels))


def _soonest(exp: Ints) -> Ints:
    """When the first of what is there ends."""
    found = np.full(len(exp), FOREVER)
    for level in range(exp.shape[1]):
        own = exp[:, level]
        np.minimum(found, own, out=found, where=own != NEVER)
    return found


def _by_time(rows: Array, time: Ints) -> Array:
    return rows[np.argsort(time[rows], kind="stable")]


def _filled(column: Column) -> Array:
    """Values, 0 for NULL."""
    valid = column.valid
    return column.values if valid is None else np.where(valid, column.values, column.values.dtype.type(0))


def _mask(column: Column) -> Mask:
    return np.ones(len(column), np.bool_) if column.valid is None else column.valid
