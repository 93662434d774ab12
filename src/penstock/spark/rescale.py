"""Another number of cells: the rows of the log are dealt out anew, and cells begin with all of them in one step.

Invariant  a cell keeps its log as far back as rows can matter to any query (`partitioning.log_retention`). All of it as one step, less what
           came too late, makes what the old cells hold between them, provided that all of those stand at one clock: what a
           cell holds at an instant does not hang on how rows were cut into steps. What is said on the way has been said
           before; what parts below cuts say goes to the second stages with one more step of that kind.
Safety     the step and the new deal are written beside the old ones, and hold once `flow.json` says so. Until then nothing
           has happened.
Cost       one exchange of the rows that are logged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from penstock.errors import StateError
from penstock.partitioning.log_retention import horizon
from penstock.plan.catalog import Function, Stream
from penstock.spark.checkpoint import Store, read_segment, write_segment
from penstock.spark.declarations_log import Declared
from penstock.spark.fencing import must_hold
from penstock.spark.flow_plan import Flowing, flowing
from penstock.spark.partition import ROWS
from penstock.spark.shuffle import STREAM, Routes
from penstock.spark.union_layout import INPUT, STEP, Layout
from penstock.types.event_time import EARLIEST, LATEST


def rescale(
    spark: SparkSession,
    store: Store,
    functions: dict[str, Function],
    before: int,
    cells: int,
    epoch: str,
    changed: Declared | None = None,
) -> dict[str, Any]:
    """The checkpoint of `before` cells, which all stand at one clock, as one of `cells` cells; the step they begin with.

    `changed`: the declarations from then on, with more or wider columns of the same streams.
    """
    last = store.numbers("done")[-1]
    told = store.at("declared", last)
    assert told is not None
    declared, number = (Declared.of(told[1]), told[0]) if changed is None else (changed, last + 1)
    done = store.get("done", last)
    watermarks = done["watermarks"]
    rates = {stream: done["rows"].get(stream, 0) + 1.0 for stream in watermarks}
    plan = flowing(declared, declared.catalog(functions), cells, rates)
    begins = [_begin(store, cell) for cell in range(before)]
    first = max(step for step, _ in begins)
    if not all(whole for _, whole in begins):
        _must_reach_back(store, declared, plan, first)
    code: bytes = cloudpickle.dumps(functions) if functions else b""  # type: ignore[no-untyped-call]
    rows = _logged(spark, store, plan, before, range(first, last + 1), code)
    new = store.next_deal()
    header = {
        "step": last + 1, "batch": None, "declared": number, "watermarks": dict.fromkeys(watermarks, EARLIEST),
        "updates": _updates(store, declared), "sinks": [], "views": [], "together": False, "flush": watermarks,
        "inner": {"step": last, "until": {}, "laid": {}, "declared": number}, "again": True, "deal": new.deal, "sieves": {}, "asks": [], "promising": {},
        "epoch": epoch, "source": store.get("steps", last)["source"],
    }  # fmt: skip
    layout = plan.layout

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        held = list(batches)
        table = pa.Table.from_batches(held) if held else _no_rows(layout, INPUT)
        write_segment(new.log(context.partitionId(), header["step"]), header, {ROWS: table})
        yield pa.RecordBatch.from_arrays([pa.array([table.num_rows])], ["rows"])

    Routes(plan, cells, STEP).spread(rows).mapInArrow(write, "rows BIGINT").collect()
    if changed is not None:
        store.put("declared", number, changed.json())
    store.decide(header)
    must_hold(store.root, epoch)
    new.enter(cells, rates)
    return header


def _begin(store: Store, cell: int) -> tuple[int, bool]:
    """The first step whose rows a cell's log has, and whether nothing that matters was ever before it."""
    first = store.logs(cell)[0]
    return first, first == 1 or "deal" in read_segment(store.log(cell, first))[0]


def _must_reach_back(store: Store, declared: Declared, plan: Flowing, first: int) -> None:
    """Refuse if a query can need rows from before the log."""
    told = store.at("done", first - 1)
    gone = max(told[1]["newest"].values(), default=-LATEST) if told else LATEST
    for name, query in plan.queries.items():
        since = declared.since.get(name)
        if since is not None and since > gone:
            continue
        far = horizon(query.root.node, kept=name in declared.kept)
        if far is None:
            raise StateError(
                f"query {name} can need rows of any age, and the log does not go back to the first: its cells cannot be made anew",
                hint="start with the number of cells the checkpoint has, or drop the query",
            )


def _logged(
    spark: SparkSession, store: Store, plan: Flowing, before: int, steps: range, code: bytes
) -> DataFrame:
    """All rows of the log, each once, as streams lay them out."""
    root, layout, streams = str(store.root), plan.layout, dict(plan.catalog.streams)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for cell in batch.column(0).to_pylist():
                functions = cloudpickle.loads(code) if code else {}
                found = Log(Store(root), int(cell), before, layout, streams, functions)
                for step in steps:
                    yield from found.rows(step).to_batches()

    kinds = ", ".join(f"c{i} {kind}" for i, kind in enumerate(layout.slots))
    return spark.range(0, before, 1, before).mapInArrow(read, f"{STREAM} INT, {STEP} BIGINT, {kinds}")


class Log:
    """What one cell of the old deal logged."""

    def __init__(
        self,
        store: Store,
        cell: int,
        cells: int,
        layout: Layout,
        streams: dict[str, Stream],
        functions: dict[str, Function],
    ) -> None:
        self.store = store
        self.cell = cell
        self.cells = cells
        self.layout = layout
        self.streams = streams
        self.functions = functions
        self._plans: dict[int, Flowing] = {}

    def rows(self, step: int) -> pa.Table:
        """A step's rows, but for those that came too late and those whose first copy another cell has."""
        header, tables = read_segment(self.store.log(self.cell, step))
        rows, plan = tables[ROWS], self._plan(int(header["declared"]))
        parts = [_no_rows(self.layout, STREAM)]
        if not rows.num_rows:
            return parts[0]
        which = rows.column(INPUT).to_numpy()
        for number, fed in enumerate(plan.inputs):
            known = fed.stream in self.layout.places
            if known and fed.speaks and fed.input.routing.is_first_copy(self.cell):
                own = rows.take(pa.array(np.flatnonzero(which == number)))
                if not own.num_rows:
                    continue  # columns without a value are not in the log, the time of a stream without rows among them
                time = f"c{plan.layout.places[fed.stream][fed.input.stream.time]}"
                own = own.filter(pc.greater_equal(own.column(time), header["watermarks"][fed.stream]))
                ceiling = header.get("ceilings", {}).get(fed.stream, LATEST)
                own = own.filter(pc.less_equal(own.column(time), ceiling))
                parts.append(self._moved(own, fed.stream, plan, step))
        return pa.concat_tables(parts)

    def _plan(self, declared_at: int) -> Flowing:
        if declared_at not in self._plans:
            declared = Declared.of(self.store.get("declared", declared_at))
            self._plans[declared_at] = flowing(
                declared, declared.catalog(self.functions), self.cells, self.store.rates
            )
        return self._plans[declared_at]

    def _moved(self, rows: pa.Table, stream: str, then: Flowing, step: int) -> pa.Table:
        """Rows of a stream from one layout to another; columns are known by their names."""
        number = list(self.layout.places).index(stream)
        wanted = _no_rows(self.layout, STREAM).schema
        columns: dict[str, Any] = {
            STREAM: pa.repeat(pa.scalar(number, pa.int32()), rows.num_rows),
            STEP: pa.repeat(pa.scalar(step, pa.int64()), rows.num_rows),
        }
        if STEP in rows.column_names:
            columns[STEP] = rows.column(STEP)
        columns |= {f.name: pa.nulls(rows.num_rows, f.type) for f in wanted if f.name not in columns}
        fields, slots = then.catalog.streams[stream].schema, then.layout.places[stream]
        old = {field.name.lower(): slot for field, slot in zip(fields, slots, strict=True)}
        for field, here in zip(self.streams[stream].schema, self.layout.places[stream], strict=True):
            there = old.get(field.name.lower())
            if f"c{there}" in rows.column_names:
                columns[f"c{here}"] = pc.cast(rows.column(f"c{there}"), wanted.field(f"c{here}").type)
        return pa.table(columns, schema=wanted)


def _no_rows(layout: Layout, number: str) -> pa.Table:
    slots = [(f"c{i}", kind.arrow) for i, kind in enumerate(layout.slots)]
    return pa.schema([(number, pa.int32()), (STEP, pa.int64()), *slots]).empty_table()


def _updates(store: Store, declared: Declared) -> list[str]:
    """Files with the first contents of the tables, and then with what came after, in order."""
    contents: dict[str, str] = {}
    updates: dict[str, str] = {}
    for _, place in store.updates():
        header, _ = read_segment(place)
        table = header["table"]
        if table not in declared.tables:
            continue
        if header["first"]:
            contents[table] = place.name
            updates = {u: of for u, of in updates.items() if of != table}
        else:
            updates[place.name] = table
    return [*contents.values(), *updates]
