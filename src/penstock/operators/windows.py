"""Windows over a stream: give each row its lifetime.

Paper      Golab & Özsu 2005, §2; count windows: their §7 and ours.
Invariant  RANGE w: alive in [ts, ts + w); SLIDE l rounds both edges up to multiples of l; ROWS n: the last n
           rows (per key) in (ts, arrival) order, a displaced row is taken back; ANNOUNCED: what the rows say.
Pattern    MONOTONIC → WEAKEST (RANGE, NOW), MONOTONIC (UNBOUNDED), STRICT (ROWS), any (ANNOUNCED).
State      RANGE, ANNOUNCED: none; SLIDE: rows not visible yet; ROWS: the rows shown.
Cost       O(rows).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.kernels.state.count_window import displace
from penstock.operators.capabilities import Holding
from penstock.operators.contract import Site, empty, in_order, placed, together
from penstock.plan.exchange_input import EXP, SIGN
from penstock.plan.windows import Range
from penstock.state import key_words
from penstock.state.arena import Slab
from penstock.state.slot_pool import NO_SLOTS, Pool
from penstock.state.value_ids import Registry
from penstock.types.batch import ABSENT, Batch, Column, endless
from penstock.types.data_type import Type
from penstock.types.event_time import FOREVER
from penstock.types.memory import plus
from penstock.types.schema import Schema


class RangeWindow:
    """RANGE w and NOW."""

    def __init__(self, window: Range) -> None:
        self._length = window.length

    def step(self, inputs: Sequence[Batch], now: int) -> Batch:
        (batch,) = inputs
        return Batch(batch.ts, plus(batch.ts, self._length), batch.columns, batch.sign)


class UnboundedWindow:
    """UNBOUNDED."""

    def step(self, inputs: Sequence[Batch], now: int) -> Batch:
        (batch,) = inputs
        return Batch(batch.ts, endless(len(batch)), batch.columns, batch.sign)


class AnnouncedWindow:
    """Changes of another part of the plan, from all its cells, in order again.

    They are not netted: what DISTINCT shows of a value depends on rows that go and come in one instant.
    """

    def step(self, inputs: Sequence[Batch], now: int) -> Batch:
        (batch,) = inputs
        if not len(batch):
            return batch
        ends, sign = batch.columns[EXP], batch.columns[SIGN].values
        exp = ends.values if ends.valid is None else np.where(ends.valid, ends.values, FOREVER)
        made = Batch(batch.ts, exp, batch.columns, None if (sign > 0).all() else sign)
        order = in_order(made.ts, made.sign)
        return made if order is None else made.take(order)


class SlidingWindow:
    """RANGE w SLIDE l: rows become visible, and end, at multiples of l."""

    def __init__(self, site: Site, window: Range, schema: Schema, stored: Sequence[int]) -> None:
        self._length = window.length
        self._slide = window.slide
        self._stored = tuple(stored)
        self._arena, self._name = site.arena, f"{site.name}.held"
        for k, i in enumerate(stored):
            if schema[i].type is Type.STRING:
                site.arena.strings(f"{self._name}.{k}")
        self._held = empty(len(schema))
        held = site.arena.rows(self._name, [schema[i].type for i in stored])
        if held is not None:
            self._hold(held)

    def step(self, inputs: Sequence[Batch], now: int) -> Batch:
        (batch,) = inputs
        slide = self._slide
        ts = -(-batch.ts // slide) * slide
        exp = -(-(batch.ts + self._length) // slide) * slide
        seen = np.flatnonzero(ts < exp)
        rows = together([self._held, Batch(ts, exp, batch.columns).take(seen)])
        visible = int(np.searchsorted(rows.ts, now, side="right"))
        rest = rows.slice(visible, len(rows))
        self._hold(rest.with_columns(tuple(rest.columns[i] for i in self._stored)))
        return rows.slice(0, visible)

    def holdings(self) -> list[Holding]:
        return [Holding("rows not visible yet", "batch", len(self._held))]

    def _hold(self, rows: Batch) -> None:
        """Keep rows that are not visible yet, in copies that do not hold on to what they were cut from."""
        columns: list[Column] = [ABSENT] * len(self._held.columns)
        for i, column in zip(self._stored, rows.columns, strict=True):
            columns[i] = column if column is ABSENT else column.copy()
        self._held = Batch(rows.ts.copy(), rows.exp.copy(), tuple(columns))
        self._arena.keep_rows(self._name, self._held.with_columns(tuple(columns[i] for i in self._stored)))


class RowsWindow:
    """ROWS n and PARTITION BY k ROWS n."""

    def __init__(
        self, site: Site, schema: Schema, stored: Sequence[int], partition: tuple[int, ...], count: int
    ) -> None:
        self._stored = tuple(stored)
        self._width = len(schema)
        self._partition = partition
        self._types = [schema[i].type for i in partition]
        self._count = count
        self._pool = Pool(site.arena, site.name, [schema[i].type for i in stored])
        self._keys = Registry(site.arena, f"{site.name}.key", key_words.width(self._types))
        self._rows = Slab(
            site.arena, f"{site.name}.slot", ts=(np.int64, 0), later=(np.int32, -1), plus=(np.int64, -1)
        )
        self._groups = Slab(
            site.arena, f"{site.name}.group",
            size=(np.int64, 0), oldest=(np.int32, -1), newest=(np.int32, -1),
        )  # fmt: skip

    def holdings(self) -> list[Holding]:
        return [Holding("rows shown", "list by key" if self._partition else "queue", len(self._pool))]

    def shrink(self, coming: int) -> None:
        made = self._pool.shrink(coming)
        if made is not None:
            self._rows.renumber(made)
            self._rows.refer(made, "later")
            self._groups.refer(made, "oldest", "newest")

    def step(self, inputs: Sequence[Batch], now: int) -> Batch:
        (batch,) = inputs
        n = len(batch)
        if n == 0:
            return empty(self._width)
        slots = self._pool.take([batch.columns[i] for i in self._stored], n)
        self._rows.fit(self._pool.capacity)
        gids = self._keys.ids(key_words.rows([batch.columns[i] for i in self._partition], self._types, n))
        self._groups.fit(self._keys.capacity)
        rows, groups = self._rows, self._groups
        rows["ts"][slots] = batch.ts
        out_time, out_slot = np.empty(2 * n, np.int64), np.empty(2 * n, np.int32)
        out_sign, gone = np.empty(2 * n, np.int8), np.empty(n, np.int32)
        made, lost = displace(
            batch.ts, slots, gids, self._count,
            rows["ts"], rows["later"], rows["plus"], groups["size"], groups["oldest"], groups["newest"],
            out_time, out_slot, out_sign, gone,
        )  # fmt: skip
        keep = np.flatnonzero(out_sign[:made])
        out_time, out_slot, out_sign = out_time[keep], out_slot[keep], out_sign[keep]
        order = in_order(out_time, out_sign)
        if order is not None:
            out_time, out_slot, out_sign = out_time[order], out_slot[order], out_sign[order]
        columns = placed(self._pool.frame.at(out_slot), self._stored, self._width)
        self._pool.give(gone[:lost] if lost else NO_SLOTS)
        return Batch(out_time, np.full(len(out_time), FOREVER), columns, out_sign)
