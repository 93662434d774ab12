"""Where a query's changes arrive: netted per instant, counted, kept as a view, handed out as Arrow."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pyarrow as pa

from penstock.engine.output_buffer import UnreadChanges
from penstock.engine.rerank_retractions import as_told
from penstock.errors import StateError
from penstock.ingest.convert import write_column, write_time
from penstock.kernels.state.live_row_events import mixed_instants
from penstock.operators.capabilities import Holding
from penstock.plan.edge import Edge
from penstock.plan.expressions import Column as ColumnRef
from penstock.plan.nodes import Filter, Node, Project, Reliable
from penstock.plan.query_root import Root
from penstock.plan.state_upkeep import Upkeep
from penstock.plan.update_pattern import Pattern
from penstock.state import key_words
from penstock.state.answer_view import View
from penstock.state.arena import Arena, power_of_two
from penstock.state.latest_rows import Latest
from penstock.state.strings import Strings
from penstock.state.value_ids import Registry
from penstock.types.batch import Array, Batch, Column
from penstock.types.data_type import Type
from penstock.types.event_time import EARLIEST, FOREVER


def keeps(root: Root, keep: bool | None) -> bool:
    """Whether the answer is held for snapshots: results of a MONOTONIC query are a stream unless asked for; with None
    nobody will ever ask."""
    if keep is None:
        return False
    return keep or root.judged.pattern is not Pattern.MONOTONIC


class Answer:
    """One query's output."""

    def __init__(
        self,
        root: Root,
        strings: Strings,
        time_type: Type,
        upkeep: Upkeep,
        *,
        keep: bool | None,
        told: bool,
        arena: Arena | None = None,
    ) -> None:
        self._root = root
        self._strings = strings
        self._time_type = time_type
        self._fields = root.node.schema
        self._types = [f.type for f in self._fields]
        self._strict = root.judged.pattern is Pattern.STRICT
        self._nets = self._strict and not root.inner and not _apart(root.node)
        self.kept = keeps(root, keep)
        self._in_groups = root.group is not None and not self._strict
        """The groups themselves hold the answer: no view is kept."""
        self._told = told
        self._upkeep = upkeep
        self._view = View(self._types, Edge(root.judged.pattern, told), upkeep)
        self._arena = Arena() if arena is None else arena
        self._latest: Latest | None = None
        if root.group is not None and not self._strict and not root.faithful:
            self._latest = Latest(self._arena, "latest", self._types, root.key)
        self.unread = UnreadChanges()
        self.matched = 0
        self._retold = EARLIEST
        """Until when rows may live that were told by ranks of before."""
        self._schema = self._arrow_schema()
        self._names = [f.name for f in self._fields[: root.visible]]
        if arena is not None:
            self._take_up(arena)

    def _arrow_schema(self) -> pa.Schema:
        time = self._time_type.arrow
        head = [pa.field("__op", pa.string()), pa.field("__ts", time), pa.field("__exp", time)]
        body = [pa.field(f.name, f.type.arrow) for f in self._root.said]
        if self._root.hidden_key:
            body.append(pa.field("__key", self._key_type()))
        return pa.schema(head + body)

    def _key_type(self) -> pa.DataType:
        types = [self._types[k].arrow for k in self._root.key]
        if len(types) == 1:
            return types[0]
        return pa.struct([pa.field(f"k{i}", t) for i, t in enumerate(types)])

    def take(self, batch: Batch, now: int) -> None:
        """Changes of one step."""
        kept = self.kept and not self._in_groups
        if self._retold > self._view.clock and batch.sign is not None and len(batch):
            batch = as_told(
                _gathered(batch), self._view.at(self._view.clock), self._types, self._root.visible
            )
        if self._told and len(batch):
            if kept:
                self._view.add(_gathered(batch), now)
            batch = _untold(batch)
        if self._nets and batch.sign is not None and len(batch):
            batch = self._netted(batch)
        if self._latest is not None and len(batch):
            news = self._latest.news(batch, now)
            batch = batch if len(news) == len(batch) else batch.take(news)
        n = len(batch)
        if n == 0:
            return
        written = self.written(batch)
        self.matched += n if batch.sign is None else (n + int(batch.sign.sum())) // 2
        self.unread.add(written)
        if kept and not self._told:
            self._view.add(batch, now)

    def rerank(self, *, waiting: bool) -> None:
        """The plan says other ranks from now on; `waiting`: also of rows that are still to be told by ranks of before."""
        if not (self.kept and self._root.extra and (self._strict or self._told)):
            return
        live = self._view.at(self._view.clock)
        self._retold = FOREVER if waiting else max(self._retold, int(live.exp.max(initial=EARLIEST)))

    def take_part(self, written: pa.RecordBatch, batch: Batch, begin: int, now: int) -> None:
        """The same for rows from `begin` on of a batch that was written for several queries; they keep no state and take
        nothing back."""
        self.matched += written.num_rows
        self.unread.add(written)
        if self.kept:
            self._view.add(batch.slice(begin, begin + written.num_rows), now)

    def written(self, batch: Batch) -> pa.RecordBatch:
        """Changes as they leave."""
        return self._arrow(_gathered(batch))

    def _netted(self, batch: Batch) -> Batch:
        """Without '-' and '+' of equal rows (values and exp) in one instant."""
        sign = batch.sign
        assert sign is not None
        rows = np.empty(len(batch), np.int64)
        rows = rows[: mixed_instants(batch.ts, sign, rows)]
        if not len(rows):
            return batch
        part = batch.take(rows)
        table = np.column_stack([key_words.rows(part.columns, self._types, len(rows)), part.exp, part.ts])
        ids = Registry(Arena(), "net", table.shape[1]).ids(table)
        drop = _cancelled(ids, sign[rows])
        if not drop.any():
            return batch
        keep = np.ones(len(batch), np.bool_)
        keep[rows[drop]] = False
        return batch.take(np.flatnonzero(keep))

    def _arrow(self, batch: Batch) -> pa.RecordBatch:
        n = len(batch)
        arrays = [
            _ops(n, batch.sign),
            write_time(batch.ts, self._time_type, False),
            write_time(batch.exp, self._time_type, True),
        ]
        arrays += self._payload(batch.columns, len(self._root.said))
        if self._root.hidden_key:
            keys = [write_column(batch.columns[k], self._types[k], self._strings) for k in self._root.key]
            arrays.append(
                keys[0] if len(keys) == 1 else pa.StructArray.from_arrays(keys, fields=list(self._key_type()))
            )
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _payload(self, columns: tuple[Column, ...], count: int) -> list[pa.Array]:
        return [
            write_column(c, t, self._strings)
            for c, t in zip(columns[:count], self._types[:count], strict=True)
        ]

    @property
    def has_changes(self) -> bool:
        return bool(self.unread)

    def changes(self) -> pa.Table:
        """Everything since the last call."""
        return self.unread.taken(self._schema)

    def snapshot(self, now: int, current: Callable[[int], Batch | None]) -> pa.Table:
        """The answer at the clock; `current`: what groups hold of it."""
        grouped = current(now) if self._in_groups else None
        live = self._view.at(now) if grouped is None else grouped
        names = self._schema.names[3 : 3 + self._root.visible]
        if not len(live):
            return pa.schema([self._schema.field(3 + i) for i in range(self._root.visible)]).empty_table()
        return pa.Table.from_arrays(self._payload(live.columns, self._root.visible), names=names)

    def save(self, now: int) -> Arena:
        """Everything the answer holds at the clock, changes nobody has read yet among it."""
        arena = Arena()
        for name, array in self._arena.arrays.items():
            arena.keep(name, array)
        arena.keep("matched", np.array([self.matched], np.int64))
        if self._retold > EARLIEST:
            arena.keep("retold", np.array([self._retold], np.int64))
        self._view.save(arena, now)
        if self.unread.batches:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, self._schema) as writer:
                for batch in self.unread.batches:
                    writer.write_batch(batch)
            arena.keep("pending", np.frombuffer(sink.getvalue(), np.uint8))
        return arena

    def _take_up(self, arena: Arena) -> None:
        self.matched = int(arena.taken("matched", np.int64, 1)[0])
        retold = arena.found("retold", np.int64)
        if retold is not None:
            self._retold = int(retold[0])
        self._view.take_up(arena)
        pending = arena.found("pending", np.uint8)
        if pending is not None:
            try:
                table = pa.ipc.open_stream(pa.py_buffer(pending)).read_all()
            except pa.ArrowException as error:
                raise StateError(f"unread changes cannot be read: {error}") from error
            if table.schema != self._schema:
                raise StateError(f"unread changes have the columns {table.schema.names}")
            self.unread.batches = table.to_batches()

    def holdings(self) -> list[Holding]:
        """The kept view, if there is one."""
        if not self.kept or self._in_groups:
            return []
        return [Holding("answer", self._view.structure, len(self._view))]

    @property
    def visits(self) -> int:
        """Rows that the kept view was touched for."""
        return self._view.visits

    def shrink(self, now: int, coming: int) -> None:
        """Give back room that neither the answer nor so many new rows need."""
        self._view.shrink(now, coming)
        if self._latest is not None:
            self._latest.shrink(now, coming)

    @property
    def size_bytes(self) -> int:
        """Bytes of the kept view."""
        return self._view.size_bytes

    def mark_strings(self, mark: Callable[[Array], None], now: int) -> None:
        """Tell which string codes the view holds at the clock."""
        for type_, column in self._view.columns_in_use(now):
            if type_ is Type.STRING:
                mark(column.values)
        self._arena.mark_strings(mark)


def _apart(node: Node) -> bool:
    """Whether no row that goes can equal one that comes in the same instant: groups that say nothing twice, by keys that are told."""
    told: list[int] | None = None
    while isinstance(node, Project | Filter):
        if isinstance(node, Project):
            plain = [o.expression for o in node.outputs]
            if not all(isinstance(e, ColumnRef) for e in plain):
                return False
            names = [e.index for e in plain if isinstance(e, ColumnRef)]
            told = names if told is None else [names[i] for i in told]
        node = node.input
    return isinstance(node, Reliable) and (told is None or set(range(node.keys)) <= set(told))


def _gathered(batch: Batch) -> Batch:
    """Columns read now: state they point into is about to change."""
    for column in batch.columns:
        _ = column.values
    return batch


def _untold(batch: Batch) -> Batch:
    """Without what was announced: nobody is told again when a row ends as it was said to."""
    if batch.sign is None:
        return batch
    early = batch.take(np.flatnonzero((batch.sign > 0) | (batch.ts < batch.exp)))
    if early.sign is not None and (early.sign > 0).all():
        early.sign = None
    return early


def _cancelled(ids: Array, sign: Array) -> Array:
    """Which rows meet their opposite: per id, as many of each sign as the rarer has."""
    drop = np.zeros(len(ids), np.bool_)
    plus = np.bincount(ids[sign > 0], minlength=int(ids.max()) + 1)
    minus = np.bincount(ids[sign < 0], minlength=int(ids.max()) + 1)
    pairs = np.minimum(plus, minus)
    if not pairs.any():
        return drop
    for which in (1, -1):
        rows = np.flatnonzero(sign == which)
        drop[rows[key_words.copies(ids[rows]) < pairs[ids[rows]]]] = True
    return drop


@cache
def _pluses(n: int) -> pa.Array:
    return pa.StringArray.from_buffers(n, _places(n), pa.py_buffer(b"+" * n))


@cache
def _places(n: int) -> pa.Buffer:
    """Where strings of one letter begin."""
    return pa.py_buffer(np.arange(n + 1, dtype=np.int32))


def _ops(n: int, sign: Array | None) -> pa.Array:
    """The `__op` column; all '+' is a slice of one shared array."""
    room = power_of_two(max(n, 1024))
    if sign is None:
        return _pluses(room).slice(0, n)
    data = np.int8((ord("+") + ord("-")) // 2) - sign
    return pa.StringArray.from_buffers(n, _places(room), pa.py_buffer(data))
