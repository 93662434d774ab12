"""The oracle's queries on Spark: whatever the cells, also others after a restart, the batches and the restarts, the changes of the embedded engine.

`PENSTOCK_CASES` sets how many flows are drawn: one for every 100 cases (default 600), each with 26 queries.
The embedded engine's changes are held against DuckDB on the way.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.spark import parquet_reader
from penstock.spark.declarations_log import Declared
from penstock.spark.flow_plan import flowing
from tests.equivalence.compare import difference
from tests.equivalence.executions import drawn
from tests.oracle.algebra import sql
from tests.oracle.check import Mismatch, judge
from tests.oracle.model import BEGINNING
from tests.oracle.replay import Change
from tests.oracle.scalar import moment
from tests.oracle.trace import Cut, Heard, Trace, column, dicts, record
from tests.spark.flows import Flow, Played, draw

FLOWS = max(int(os.environ.get("PENSTOCK_CASES", "600")) // 100, 1)
USUAL = parquet_reader.MOST_CELLS


class OnSpark:
    """A drawn flow as Spark runs it; what its sink was given, by step."""

    def __init__(self, spark: SparkSession, flow: Flow, folder: Path, options: dict[str, Any]) -> None:
        self.spark, self.flow, self.checkpoint = spark, flow, str(folder)
        self.options = options
        self.chance = random.Random(flow.seed)
        self.steps: dict[int, pa.Table] = {}
        self.late: dict[tuple[int, str], int] = {}
        self.registered: list[int] = []
        self.columns: dict[int, list[str]] = {}
        self.cells = flow.cells[0]
        self.session = self.declared()
        self.played = Played(flow, reached=self.reached)
        self.handle: Any = None
        self.updated = 0

    def declared(self) -> Any:
        """A session that is told everything anew, as a program that starts again would."""
        schema = self.flow.schema
        session = penstock.connect(self.spark, checkpoint=self.checkpoint, cells=self.cells, **self.options)
        session.execute(schema.ddl())
        for table in schema.tables:
            session.create_table(
                table.name, schema.arrow(table.columns, list(table.rows)), retroactive=table.retroactive
            )
        session.create_function("odd_one", lambda x: None if x is None else 3 * x + 1, returns="BIGINT")
        for index in self.registered:
            self.register(session, index)
        session.foreach_batch(self.take)
        return session

    def reached(self, queries: set[int], since: dict[int, int], watermarks: dict[str, int]) -> int:
        """The instant up to which some stream is applied."""
        told = Declared(self.session.flow.declared.streams, self.session.flow.declared.tables)
        told.queries = {f"q{i}": sql(self.flow.queries[i], f"q{i}_") for i in sorted(queries)}
        told.since = {f"q{i}": since[i] for i in queries if since[i] > BEGINNING}
        plan = flowing(told, told.catalog(self.session.flow.functions), self.cells, {})
        return plan.clock_groups({name.lower(): at for name, at in watermarks.items()}).latest

    def take(self, frame: Any, step: int) -> None:
        self.steps[step] = frame.toArrow()

    def register(self, session: Any, index: int) -> None:
        """Under names of its own: in the frame of all queries, columns of one name have one type."""
        made = session.query(sql(self.flow.queries[index], f"q{index}_"), name=f"q{index}")
        root = made._standing.root
        self.columns[index] = [f.name for f in root.node.schema[: root.visible]]

    def run(self) -> OnSpark:
        try:
            for told in self.flow.rounds:
                last = told is self.flow.rounds[-1]
                if told.restart:
                    self.stop()
                    self.cells = told.cells
                    self.session = self.declared()
                for index in told.queries:
                    self.register(self.session, index)
                    self.registered.append(index)
                self.update(len(told.updates))
                self.step(told.pushes, flush=last)
        finally:
            parquet_reader.MOST_CELLS = USUAL
            self.stop()
        return self

    def step(self, pushes: Any, *, flush: bool) -> None:
        running = self.flow.running
        # Rows that wait in files are read by cells or by Spark, from step to step.
        parquet_reader.MOST_CELLS = self.chance.choice((0, USUAL))
        if running and (self.handle is None or not self.handle.isActive):
            self.handle = self.session.start(trigger={"processingTime": "0 seconds"})
        schema = self.flow.schema
        for stream, rows in pushes:
            self.session.push(stream, schema.arrow(schema.stream(stream).columns, list(rows)))
        if running:
            self.handle.processAllAvailable()
        if not running or flush:
            self.stop(close=False)
            self.handle = self.session.start(trigger={"availableNow": True}, flush=flush)
            self.handle.awaitTermination()

    def update(self, count: int) -> None:
        schema = self.flow.schema
        for at, update in self.played.updates[self.updated : self.updated + count]:
            columns = schema.table(update.table).columns
            when: dict[str, Any] = {}
            if update.ahead is not None:
                when["at"] = moment(at) if schema.timestamps else at
            for name, rows in (("insert", update.insert), ("delete", update.delete)):
                if rows:
                    when[name] = dicts(schema, columns, list(rows))
            self.session.update_table(update.table, **when)
        self.updated += count

    def stop(self, *, close: bool = True) -> None:
        """Also without a word to the hosts: then they live on for the next start."""
        if self.handle is None:
            return
        for step in self.handle.recentProgress:
            self.late |= {(step["step"], name): rows for name, rows in step["late"].items()}
        if close or self.handle.isActive:
            self.handle.stop()

    def heard(self, index: int) -> Heard:
        """What the sink was given of a query, as the oracle reads it."""
        found: list[Change] = []
        for table in self.steps.values():
            own = table.filter(pc.equal(table.column("__query"), f"q{index}"))
            if not own.num_rows:
                continue  # a step before the query was there has no columns of it
            ops, ts, exps = (column(own.column(name)) for name in ("__op", "__ts", "__exp"))
            rows = zip(*(column(own.column(name)) for name in self.columns[index]), strict=True)
            found += [Change(*parts) for parts in zip(ops, ts, exps, rows, strict=True)]
        return Heard(changes=found)


@pytest.mark.parametrize("seed", range(FLOWS))
def test_spark_says_what_the_embedded_engine_says(quick: SparkSession, tmp_path: Path, seed: int) -> None:
    flow = draw(seed)
    there = OnSpark(quick, flow, tmp_path / "checkpoint", drawn(seed)).run()
    played, told = there.played, 0
    for case, wanted in played.cases():
        here = record(case, Cut("whole"), quiet=True)
        judge(case, here)
        alone = Trace([Heard() for _ in case.queries], here.late)
        for place, index in enumerate(wanted, len(case.queries) - len(wanted)):
            alone.queries[place] = there.heard(index)
            told += bool(here.queries[place].changes)
        for place in range(len(case.queries) - len(wanted)):
            alone.queries[place] = here.queries[place]
        found = difference(case, here, alone)
        if found:
            how = f"{' then '.join(map(str, flow.cells))} cells{', running' if flow.running else ''}"
            pytest.fail(
                str(Mismatch(f"Spark differs from the embedded engine; {how}\n{found}", case)), pytrace=False
            )
    late = {name: sum(rows for (_, n), rows in there.late.items() if n == name) for name in played.late}
    assert late == played.late
    assert there.session.clock == played.end
    assert there.session.flow.cells == flow.cells[-1]
    assert told >= 0.6 * len(flow.queries), "most queries say something"
