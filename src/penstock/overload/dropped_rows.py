"""Rows that a query under overload has dropped, for whoever wants to see them: a side output, as late rows have one.

A row of it is a partial result as it waited: why and before which operator it was dropped, its rank as far as it was known, and the columns
of the inputs whose rows were there; those of the others are NULL. It is written as Arrow when it is dropped, since its places are given
to others then. So many rows are kept until somebody asks; of those beyond only the number is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.errors import StateError
from penstock.overload.metrics import place
from penstock.overload.operator_queues import Routes
from penstock.overload.queued_operator import Stop
from penstock.overload.spj_plan import Core, side_by_side
from penstock.state.arena import Arena
from penstock.state.arrow_columns import to_arrow
from penstock.state.priority_queue import BACK_BURNER, CAME, LEVEL, TS
from penstock.state.strings import Strings
from penstock.types.batch import Column, Ints
from penstock.types.data_type import Type
from penstock.types.schema import Field, Schema

EXPIRED, SHED = "expired", "shed"
_KEPT, _BEYOND = "dropped", "dropped.beyond"


def dropped_schema(cores: Sequence[Core], time_type: Type) -> Schema:
    """What is told of a dropped row, and then every column of what the query reads; where several have one name, with whose it is."""
    head = (
        Field("__reason", Type.STRING),
        Field("__rank", Type.INT),
        Field("__operator", Type.STRING),
        Field("__ts", time_type),
        Field("__at", time_type),
        Field("__waited", Type.BIGINT),
    )
    fields = [field for core in cores for field in core.schema]
    names = [field.name for field in fields]
    made: list[Field] = []
    for field in fields:
        name = field.name if names.count(field.name) == 1 else f"{field.qualifier}_{field.name}"
        while any(name == other.name for other in made):
            name += "_"
        made.append(Field(name, field.type))
    return head + tuple(made)


class Aside:
    """Of a query; `most`: rows that are kept at the most."""

    def __init__(self, cores: Sequence[Routes], strings: Strings, time_type: Type, most: int) -> None:
        self._cores = cores
        self._strings = strings
        self._time_type = time_type
        self._most = most
        self._starts = [sum(len(c.core.schema) for c in cores[:n]) for n in range(len(cores))]
        self.schema = dropped_schema([routes.core for routes in cores], time_type)
        self._arrow = pa.schema([pa.field(f.name, f.type.arrow) for f in self.schema])
        self._pending: list[pa.RecordBatch] = []
        self._rows = 0
        self.clock = 0
        """Event time of the step."""
        self.beyond = 0
        """Rows that there was no room for."""

    def take(
        self, core: int, stop: Stop, rows: Ints, reason: str, now: int, where: str | None = None
    ) -> None:
        """Partial results that are dropped before a stop, at a moment of processing time; `where`: whole results, elsewhere."""
        n = min(rows.shape[1], self._most - self._rows)
        self.beyond += rows.shape[1] - n
        if not n:
            return
        rows = rows[:, :n]
        routes = self._cores[core]
        starts = side_by_side(routes.core.inputs)
        bound = stop.bound if where is None else range(len(starts))
        there = frozenset(starts[i] + k for i in bound for k in range(len(routes.core.inputs[i].schema)))
        found = routes.columns(rows, there)
        level = rows[LEVEL]
        time = Type.TIMESTAMP if self._time_type is Type.TIMESTAMP else Type.BIGINT
        arrays = [
            pa.repeat(reason, n),
            self._written(Column(level.astype(np.int32), level < BACK_BURNER), Type.INT),
            pa.repeat(place(core, stop) if where is None else where, n),
            self._written(Column(np.ascontiguousarray(rows[TS])), time),
            self._written(Column(np.full(n, self.clock)), time),
            self._written(Column(now - rows[CAME]), Type.BIGINT),
        ]
        own = range(self._starts[core], self._starts[core] + len(found))
        for k, field in enumerate(self.schema[len(arrays) :]):
            at = k - own.start
            if k in own and at in there:
                arrays.append(self._written(found[at], field.type))
            else:
                arrays.append(pa.nulls(n, field.type.arrow))
        self._pending.append(pa.RecordBatch.from_arrays(arrays, schema=self._arrow))
        self._rows += n

    def _written(self, column: Column, kind: Type) -> pa.Array:
        return to_arrow(column, kind, self._strings)

    def given(self) -> pa.Table:
        """Everything since the last call."""
        batches, self._pending, self._rows = self._pending, [], 0
        return pa.Table.from_batches(batches, schema=self._arrow)

    # ------------------------------------------------------------------ leaving and coming back

    def save(self, arena: Arena, name: str) -> None:
        """`name`: whose they are."""
        arena.keep(f"{name}{_BEYOND}", np.array([self.beyond], np.int64))
        if self._pending:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, self._arrow) as writer:
                for batch in self._pending:
                    writer.write_batch(batch)
            arena.keep(f"{name}{_KEPT}", np.frombuffer(sink.getvalue(), np.uint8))

    def take_up(self, arena: Arena, name: str) -> None:
        self.beyond = int(arena.taken(f"{name}{_BEYOND}", np.int64, 1)[0])
        pending = arena.found(f"{name}{_KEPT}", np.uint8)
        if pending is None:
            return
        try:
            table = pa.ipc.open_stream(pa.py_buffer(pending)).read_all()
        except pa.ArrowException as error:
            raise StateError(f"dropped rows cannot be read: {error}") from error
        if table.schema != self._arrow:
            raise StateError(f"dropped rows have the columns {table.schema.names}")
        self._pending, self._rows = table.to_batches(), table.num_rows
