"""Which rows of a stream a rank with COVER is about, where its criteria read tables too.

Invariant  a row is of the rank if it joins rows of these tables, as they are when it comes, of which the criteria are true.
State      the tables, as the ordinary operators keep them; of the stream nothing: its rows live for an instant.
Cost       a look-up in each table for every row that comes.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from penstock.operators.pipeline import Key
from penstock.overload.spj_block import CoreRun, Workshop
from penstock.overload.spj_plan import Core, Covered
from penstock.plan.exchange_input import inner_stream, leaf
from penstock.plan.expressions import Column as ColumnRef
from penstock.plan.expressions import Expression, Named, rewrite
from penstock.plan.nodes import Filter, Join, Project
from penstock.plan.update_pattern import Pattern
from penstock.types.batch import Batch, Column, Mask
from penstock.types.data_type import Type
from penstock.types.schema import Field

_ROW = "row"


class WithTables:
    """`name`: of its arrays."""

    def __init__(self, workshop: Workshop, name: str, core: Core, about: Covered) -> None:
        schema = (*about.schema, Field(_ROW, Type.BIGINT))
        numbered = tuple(Field(f"c{k}", f.type) for k, f in enumerate(schema))
        stream = inner_stream("rows", numbered, workshop.time_type)
        self._about = about
        self._rows = leaf(stream, Pattern.WEAKEST, schema, range(len(schema)))
        tables = [core.inputs[i].node for i in about.tables]
        number = ColumnRef(len(about.schema), Type.BIGINT, _ROW)

        def behind(one: Expression) -> Expression:
            """Tables stand behind the row's number."""
            return rewrite(one, lambda c: ColumnRef(c.index + (c.index >= number.index), c.type, c.name))

        self._join = Join((self._rows, *tables), tuple(map(behind, about.predicates)))
        self._node = Project(Filter(self._join, behind(about.criteria)), (Named(number, _ROW),))
        self._pipeline = workshop.pipeline(self._node, f"{name}.look.")
        self._given_at = self._pipeline.places[id(self._rows)]
        self._stages = self._pipeline.between([self._given_at], self._node)

    def begin(self, core: CoreRun, now: int) -> None:
        """Take what tables hold: rows have come to the core already."""
        none = self._given(Batch(*(np.empty(0, np.int64),) * 2, ()), 0)
        tables = [core.table(i, now) for i in self._about.tables]
        self._pipeline.begin_with([none, *tables], self._join, now)

    def of(self, batch: Batch, tables: Mapping[Key, Batch], now: int) -> Mask:
        """Which rows that came are of the rank; `tables`: what they say until now."""
        found = self._pipeline.joined(
            self._stages, {self._given_at: self._given(batch, len(batch))}, tables, now
        )
        made: Mask = np.zeros(len(batch), np.bool_)
        made[found.columns[0].values] = True
        return made

    def _given(self, batch: Batch, n: int) -> Batch:
        columns = batch.columns if n else tuple(Column(np.empty(0, f.type.dtype)) for f in self._about.schema)
        return Batch(batch.ts, batch.ts + 1, (*columns, Column(np.arange(n))))
