"""A flow without a JVM: the driver and the cells as they are, in this process; only Spark's part is played here.

Spark's logs are written as Spark writes them, without a sync. The source is a list of rows that can be read from any offset on, as a topic is.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import penstock
from penstock.ingest.convert import read_rows
from penstock.partitioning.router import Router
from penstock.spark import worker_process
from penstock.spark.driver import Flow
from penstock.spark.filesystem import whole
from penstock.spark.flow_plan import Flowing
from penstock.spark.partition import Cell
from penstock.spark.union_layout import INPUT
from penstock.state.strings import Strings
from tests.spark.test_sessions import QUERIES, A, B, drawn

CELLS = 2
ROWS = 60
NAMES = ("joined", "sizes", "only")
PRICED = "SELECT a.x, t.w FROM a [RANGE 20], t WHERE a.x = t.x"
TABLE = [{"x": 1, "w": 10}, {"x": 2, "w": 20}]
INSERTED = [{"x": 3, "w": 30}]
UPDATED_AT, UPDATED_BY = 60, 24
"""The instant from which on the update holds, and the row of each stream before which it is made."""

Rows = dict[str, list[dict[str, Any]]]


def declared(session: Any) -> dict[str, Any]:
    session.execute(A + B)
    session.create_table("t", TABLE)
    queries = {name: session.query(QUERIES[name], name=name) for name in NAMES}
    return queries | {"priced": session.query(PRICED, name="priced")}


def expected(rows: Rows) -> dict[str, list[str]]:
    """What every query says if nothing happens on the way."""
    session = penstock.connect()
    queries = declared(session)
    session.update_table("t", insert=INSERTED, delete=TABLE[:1], at=UPDATED_AT)
    for name, given in rows.items():
        session.push(name, given)
    session.advance(max(row["ts"] for given in rows.values() for row in given))
    return {name: lines(query.changes()) for name, query in queries.items()}


def lines(table: pa.Table) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in table.to_pylist())


class Answered:
    """What Spark collects of a step."""

    def __init__(self, rows: list[tuple[str, bytes]]) -> None:
        self._rows = rows

    def collect(self) -> list[tuple[str, bytes]]:
        return self._rows


class LocalFlow(Flow):
    """A flow whose cells are objects, and whose batches are rows by stream."""

    def __init__(self, checkpoint: Path, rng: random.Random) -> None:
        super().__init__(None, str(checkpoint), CELLS)  # type: ignore[arg-type]
        self.alive = [Cell(self.store, n, CELLS, {}, rng.choice((0, 1 << 20))) for n in range(CELLS)]

    def _new_run(self) -> Any:
        return None

    def _watched(self, step: int) -> AbstractContextManager[None]:
        return nullcontext()

    def _attempt(self, step: int, job: Callable[[], Any]) -> Any:
        return job()

    def _plan_of(self, header: dict[str, Any]) -> Any:
        return self.plan(), None

    def _found(self, header: dict[str, Any], frame: Any) -> Any:
        return frame, None

    def _ask(self, header: dict[str, Any], frame: Any, files: Any, watch: Any) -> Any:
        asked = {**header, "run": self.epoch}
        given = routed(self.plan(), (frame or {}) | self._inner(header))
        rows = []
        for cell, own in zip(self.alive, given, strict=True):
            answer, parts = cell.step(asked, own), []
            if answer["carried"] is not None:
                packed = {name: worker_process._packed(cell.carried[name]) for name in answer["carried"]}
                answer = {**answer, "carried": [[name, len(part)] for name, part in packed.items()]}
                parts = list(packed.values())
            rows.append((json.dumps(answer), b"".join(parts)))
        return Answered(rows), False

    def _inner(self, header: dict[str, Any]) -> Rows:
        return {
            name.lower(): [row for path in paths for row in _read(path).to_pylist()]
            for name, paths in self._files(header).items()
        }

    def changed(self, query: str) -> pa.Table | None:
        """A query's changes in the step that sinks are taking."""
        carried, paths = self.results.carried(query), self.results.files(query)
        parts = [table for table in (carried, *map(_read, paths)) if table is not None]
        return pa.concat_tables(parts, promote_options="permissive") if parts else None


def _read(path: str) -> pa.Table:
    return pq.read_table(path.removeprefix("file://"), partitioning=None)


def routed(plan: Flowing, rows: Rows) -> list[pa.Table]:
    """Each cell's rows, in the columns that all streams share."""
    parts: list[list[pa.Table]] = [[] for _ in range(CELLS)]
    for number, fed in enumerate(plan.inputs):
        given, stream, strings = rows.get(fed.stream, []), fed.input.stream, Strings()
        columns = read_rows(given, stream.schema, strings)
        places = plan.layout.places[fed.stream]
        for where, picked in Router(fed.input.routing, strings, {}).route(columns, len(given)):
            content: dict[str, pa.Array] = {INPUT: pa.array([number] * len(picked), pa.int32())}
            for slot, kind in enumerate(plan.layout.slots):
                name = stream.schema[places.index(slot)].name if slot in places else None
                values = [None if name is None else given[int(r)][name] for r in picked]
                content[f"c{slot}"] = pa.array(values, kind.arrow)
            parts[where].append(pa.table(content))
    slots = enumerate(plan.layout.slots)
    empty = pa.schema([(INPUT, pa.int32()), *((f"c{i}", kind.arrow) for i, kind in slots)])
    return [pa.concat_tables(p) if p else empty.empty_table() for p in parts]


class Life:
    """One life of a machine: a driver that starts on what the disk holds and runs until its input ends, or the power does."""

    def __init__(self, root: Path, rows: Rows, rng: random.Random) -> None:
        self.root = root
        self.rows = rows
        self.rng = rng

    def run(self) -> None:
        flow = LocalFlow(self.root / "checkpoint", self.rng)
        session = penstock.connect()
        queries = declared(session)
        flow.declared.streams = dict(session.catalog.streams)
        flow.declared.tables = dict(session.catalog.tables)
        flow.declared.queries = {name: query.sql for name, query in queries.items()}
        flow.declared.weights = dict.fromkeys(queries, 1.0)
        for name in queries:
            flow.sinks[name] = [lambda step, _, name=name: self._write(flow, name, step)]
        table, schema = session.catalog.tables["t"], pa.schema([("x", pa.int32()), ("w", pa.int32())])
        none = schema.empty_table()
        flow.update_table("t", None, none, pa.Table.from_pylist(TABLE, schema), first=True)
        flow.begin()
        spark = _Spark(self.root / "checkpoint" / "spark", self.rng)
        updated = len(flow.updates(table) or ()) > 1  # as a user who looks whether the last call came through
        while True:
            batch, start, end = spark.next(ROWS if updated else UPDATED_BY)
            if start == end:
                if end == ROWS:
                    break
                gone, new = (pa.Table.from_pylist(rows, schema) for rows in (TABLE[:1], INSERTED))
                flow.update_table("t", UPDATED_AT, gone, new, first=False)
                updated = True
                continue
            flow.take({name: given[start:end] for name, given in self.rows.items()}, batch)  # type: ignore[arg-type]
            spark.commit(batch)
            if self.rng.random() < 0.3:
                flow.settle()
        flow.settle()
        flow.flush()

    def _write(self, flow: LocalFlow, query: str, step: int) -> None:
        """A sink whose files are named by step: a step that is repeated replaces its own."""
        table = flow.changed(query)
        if table is not None:
            with whole(self.root / "sink" / query / f"{step:012d}.json") as file:
                file.write(json.dumps(lines(table)).encode())


class _Spark:
    """Batches as Spark makes them: an offset is logged before its batch runs, a commit after it, neither with a sync."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self._folder = folder
        self._rng = rng
        self._ends = {n: self._end(n) for n in self._logged("offsets")}
        self._last = max(self._ends, default=-1)
        self._repeats = self._last >= 0 and self._last not in self._logged("commits")

    def _end(self, batch: int) -> int:
        told = (self._folder / "offsets" / str(batch)).read_text().splitlines()
        return int(json.loads(told[2])["t"]["0"])

    def _logged(self, kind: str) -> list[int]:
        place = self._folder / kind
        return sorted(int(p.name) for p in place.iterdir() if p.name.isdigit()) if place.is_dir() else []

    def next(self, available: int) -> tuple[int, int, int]:
        """The next batch, and which rows of every stream are in it."""
        if self._repeats:
            self._repeats = False
        else:
            start = self._ends.get(self._last, 0)
            if start >= available:
                return self._last, start, start
            self._last += 1
            self._ends[self._last] = min(available, start + self._rng.randrange(1, 16))
            offset = json.dumps({"t": {"0": self._ends[self._last]}})
            meta = json.dumps({"batchTimestampMs": self._rng.randrange(1000)}, separators=(",", ":"))
            self._write("offsets", self._last, f"v1\n{meta}\n{offset}")
        return self._last, self._ends.get(self._last - 1, 0), self._ends[self._last]

    def commit(self, batch: int) -> None:
        self._write("commits", batch, "v1\n{}")

    def _write(self, kind: str, batch: int, content: str) -> None:
        place = self._folder / kind
        place.mkdir(parents=True, exist_ok=True)
        made = place / f".{batch}.tmp"
        made.touch()
        made.write_text(content)
        made.rename(place / str(batch))


def input_rows() -> Rows:
    return drawn(7, ROWS)
