"""One cell: an embedded engine, the log of what it accepted, and the way back after a crash.

Invariant  the state after step n is a function of the declarations, the logged input and the watermarks of steps 1..n.
           A step is asked for at least once: one that has been applied is answered with what was laid down, one that
           was logged is applied from the log, so that a repeat changes nothing. Two hosts may hold the same cell and be asked
           for the same step at once: both apply what the first of them logged, and each lays its changes down apart.
Cost       a step: one write and one flush of its input; now and then one of the state.
"""

from __future__ import annotations

import contextlib
import secrets
import sys
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.data.batch import Column, gather
from penstock.data.clock import LATEST
from penstock.errors import StateError
from penstock.kernels.events import time_order
from penstock.plan.catalog import Catalog, Function, Stream
from penstock.runtime import snapshot
from penstock.runtime.border import read_rows, write_column
from penstock.runtime.embedded import Engine
from penstock.runtime.spark.declared import Declared
from penstock.runtime.spark.layout import INPUT, Layout
from penstock.runtime.spark.plans import Fed, Flowing, flowing
from penstock.runtime.spark.store import Store, read_segment, whole, write_segment

ROWS = "rows"
TOGETHER = "/together"
"""Under which all queries' changes are laid down as one table; no query's own name comes to this."""
LEAST_LOG = 8 << 20
"""Bytes of log that are replayed sooner than a state is read."""


class Cell:
    """Cell `number` of `cells`."""

    def __init__(
        self, store: Store, number: int, cells: int, functions: dict[str, Function], carries: int = 0
    ) -> None:
        self.store = store
        self.carried: dict[str, pa.Table] = {}
        """The last step's results if they have at most `carries` bytes: they go with the answer, not through files."""
        self._carries = carries
        self._writer = ThreadPoolExecutor(1)
        self.number = number
        self.cells = cells
        self.functions = functions
        self._begin()

    # ------------------------------------------------------------------ the way back

    def _begin(self) -> None:
        """Know nothing but what the checkpoint holds."""
        self.version = 0
        """The last step applied."""
        self._declared_at = 0
        self._flowing: Flowing | None = None
        self._engine: Engine | None = None
        self._answer: dict[str, Any] = {}
        self._logged = self._stated = 0
        """Bytes of log since the last state, and bytes of that state."""
        self._open()

    def _open(self) -> bool:
        """Take up the newest state that is whole, if it is newer than what is here; the log leads on from there."""
        for step in reversed(self.store.states(self.number)):
            if step <= self.version:
                break
            place = self.store.state(self.number, step)
            try:
                found = snapshot.read(place)
            except StateError as error:
                # An older state and a longer log lead to the same place.
                sys.stderr.write(f"penstock: {error}; an older state is taken\n")
                continue
            told = found.meta.pop("cell")
            declared = Declared.of(self.store.get("declared", told["declared"]))
            wanted = flowing(declared, declared.catalog(self.functions), self.cells)
            catalog = Catalog(wanted.streams(self.number), dict(declared.tables), dict(self.functions))
            queries = [(name, root, wanted.keeps(name)) for name, root in wanted.roots(self.number).items()]
            self._engine = snapshot.restore(catalog, queries, found)
            self._flowing, self._declared_at = wanted, told["declared"]
            self.version, self._answer = step, told["answer"]
            self._stated, self._logged = _bytes(found), 0
            return True
        logged = self.store.logs(self.number)
        if (
            not self.version
            and logged
            and logged[0] != 1
            and read_segment(self.store.log(self.number, logged[0]))[0].get("begins")
        ):
            self.version = logged[0] - 1  # rows were dealt out anew, and this is where they begin
            return True
        return False

    def _save(self) -> None:
        """Write the state once the log since the last one is longer than it, and let go of what lies before the last but one."""
        if self._engine is None or self._logged < max(LEAST_LOG, self._stated):
            return
        found = snapshot.dump(self._engine)
        answer = self._answer
        if self.carried:  # whoever takes up the state here can be asked for them
            laid = self._write(self.version, self.carried)
            answer = {**answer, "carried": [], "laid": laid, "files": list(self.carried)}
        found.meta["cell"] = {"declared": self._declared_at, "answer": answer}
        place = self.store.state(self.number, self.version)
        place.parent.mkdir(parents=True, exist_ok=True)
        snapshot.write(found, place)
        self._stated, self._logged = _bytes(found), 0
        kept = self.store.states(self.number)[-2:]
        before = kept[0] + 1 if len(kept) == 2 else 0
        self.store.forget_cell(self.number, min(before, self._out_of_sight()), kept[0])

    def _out_of_sight(self) -> int:
        """The step from which on rows can still matter to a query: other cells could be made from these (see `rescale`)."""
        assert self._engine is not None and self._flowing is not None
        far = self._flowing.horizon
        if far is None:
            return self.version
        for step in self.store.logs(self.number):
            newest = self.store.newest(step)
            if newest is None or newest + far > self._engine.clock:
                return step
        return self.version

    # ------------------------------------------------------------------ a step

    def step(self, header: dict[str, Any], rows: pa.Table) -> dict[str, Any]:
        """Apply a step once; what it gave, also if it was applied before."""
        step = int(header["step"])
        self._catch_up(step - 1)
        if self.version == step:
            return self._answer
        if self.version > step:
            raise StateError(f"cell {self.number} is at step {self.version}, and step {step} was asked for")
        if self.store.log(self.number, step).exists():
            self._answer = self._apply(*self._log(header, rows), lay_down=True)
        else:
            # The log is written while the rows are applied; the answer waits for both.
            logging = self._writer.submit(self._log, header, rows)
            try:
                self._answer = self._apply(header, rows, lay_down=True)
                if logging.result()[1] is not rows:  # another host was first
                    self._begin()
                    return self.step(header, rows)
            except BaseException:
                wait([logging])
                self._begin()  # as if this step had not been tried
                raise
        self._save()
        return self._answer

    def _log(self, header: dict[str, Any], rows: pa.Table) -> tuple[dict[str, Any], pa.Table]:
        """Write a step's input down; what counts is what was written first."""
        place = self.store.log(self.number, int(header["step"]))
        with contextlib.suppress(FileExistsError):
            if not place.exists():
                self._logged += write_segment(place, header, {ROWS: rows}, once=True)
                if self.store.is_over(int(header["step"])):
                    place.unlink(missing_ok=True)
                    raise StateError(f"step {header['step']} was done by another host of cell {self.number}")
                return header, rows
        header, tables = read_segment(place)
        self._logged += tables[ROWS].nbytes
        return header, tables[ROWS]

    def _catch_up(self, step: int) -> None:
        """Bring the state to a step that has been answered, from the log or from a state that another host has written."""
        while self.version < step:
            found = self._logged_step(self.version + 1)
            if found is not None:
                self._answer = self._apply(*found, lay_down=False)
            elif not any(self._open() for _ in range(3)):  # a state may be let go of while it is looked at
                place = self.store.log(self.number, self.version + 1)
                raise StateError(
                    f"cell {self.number} cannot be brought to step {step}: {place} is not there",
                    hint="restore the checkpoint directory from a backup",
                )

    def _logged_step(self, step: int) -> tuple[dict[str, Any], pa.Table] | None:
        """What was logged, if it is still there: a host that went on without this one lets go of it."""
        place = self.store.log(self.number, step)
        if not place.exists():
            return None
        try:
            header, tables = read_segment(place)
        except StateError:
            if place.exists():
                raise
            return None
        self._logged += tables[ROWS].nbytes
        return header, tables[ROWS]

    def _apply(self, header: dict[str, Any], rows: pa.Table, *, lay_down: bool) -> dict[str, Any]:
        began = time.perf_counter()
        step = int(header["step"])
        engine = self._told(int(header["declared"]), header["watermarks"], header["updates"])
        self._update_tables(engine, header["updates"], first=False)
        views = self._views(engine, header["views"]) if lay_down and header["flush"] is None else {}
        counts = self._feed(engine, rows, header["watermarks"], step if lay_down else None)
        if header["flush"] is not None:
            engine.limit = self._limit(header["flush"])
            engine.raise_watermarks(self._physical(header["flush"]))
            views = self._views(engine, header["views"]) if lay_down else {}
        engine.settle()
        results = {s.name: s.answer.changes() for s in engine.queries.values() if s.answer.has_changes}
        wanted: dict[str, pa.Table] = {}
        if lay_down:
            wanted = {name: results[name] for name in header["sinks"] if name in results}
            if header["together"] and results:
                wanted[TOGETHER] = self._put_together(results)
            wanted |= views
        laid = self._lay_down(step, wanted) if lay_down else None
        self.version = step
        return {
            "cell": self.number,
            "step": step,
            "clock": engine.clock if engine.queries else None,
            "out": {name: table.num_rows for name, table in results.items()},
            "laid": laid,
            "files": [] if laid is None else list(wanted),
            "state_bytes": engine.size_bytes,
            "ms": round(1000 * (time.perf_counter() - began), 3),
            "carried": list(self.carried) if lay_down else [],
            **counts,
        }

    # ------------------------------------------------------------------ what is asked

    def _told(self, declared_at: int, watermarks: dict[str, int], updates: list[str]) -> Engine:
        """The engine with the watermarks of the step and the queries declared for it."""
        engine = self._engine
        if engine is not None and self._flowing is not None:
            engine.limit = self._limit(watermarks)
            engine.raise_watermarks(self._physical(watermarks))
        if engine is None or declared_at != self._declared_at:
            declared = Declared.of(self.store.get("declared", declared_at))
            engine = self._declare(
                engine, flowing(declared, declared.catalog(self.functions), self.cells), updates
            )
            self._declared_at = declared_at
            engine.limit = self._limit(watermarks)
            engine.raise_watermarks(self._physical(watermarks))
        return engine

    def _declare(self, engine: Engine | None, wanted: Flowing, updates: list[str]) -> Engine:
        """Queries that are new begin now, those gone are dropped; the others run on undisturbed."""
        if engine is None:
            engine = Engine(Catalog())
        engine.catalog.functions.update(wanted.catalog.functions)
        roots, streams = wanted.roots(self.number), wanted.streams(self.number)
        for key, stream in streams.items():
            if key not in engine.sources:
                engine.add_stream(stream)
                engine.catalog.streams[key] = stream
        for key, table in wanted.catalog.tables.items():
            if key not in engine.tables:
                engine.add_table(table)
                engine.catalog.tables[key] = table
        self._update_tables(engine, updates, first=True)
        for standing in list(engine.queries.values()):
            before = self._flowing.begun.get(standing.name) if self._flowing is not None else None
            if standing.name not in roots or before != wanted.begun[standing.name]:
                engine.drop(standing.name)
        for name, root in roots.items():
            if name.lower() not in engine.queries:
                engine.register(name, root, keep=wanted.keeps(name), since=wanted.begun[name][1])
        for key in [k for k in engine.sources if k not in streams]:
            del engine.sources[key], engine.catalog.streams[key]
        self._engine, self._flowing = engine, wanted
        return engine

    def _limit(self, watermarks: dict[str, int]) -> int:
        """A cell that reads fewer streams than the others waits for the rest: after a step without rows all have one clock."""
        assert self._flowing is not None
        others = {fed.stream for fed in self._flowing.inputs} - self._flowing.read(self.number)
        return min((watermarks[s] - 1 for s in others if s in watermarks), default=LATEST)

    def _physical(self, watermarks: dict[str, int]) -> dict[str, int]:
        """Watermarks of streams as those of their inputs."""
        assert self._flowing is not None and self._engine is not None
        inputs = self._flowing.inputs
        return {
            i.name: watermarks[i.stream]
            for i in inputs
            if i.stream in watermarks and i.name in self._engine.sources
        }

    def _views(self, engine: Engine, names: list[str]) -> dict[str, pa.Table]:
        """Current answers, as of the watermarks: the same instant in every cell, before any has run ahead."""
        return {
            view_name(name): engine.snapshot(engine.queries[name.lower()])
            for name in names
            if name.lower() in engine.queries
        }

    def _put_together(self, results: dict[str, pa.Table]) -> pa.Table:
        """All queries' changes as one table, `__query` first."""
        assert self._flowing is not None
        columns = self._flowing.together()
        parts = []
        for name, table in results.items():
            arrays = {"__query": pa.repeat(name, table.num_rows)}
            arrays |= {c: table.column(c) for c in ("__op", "__ts", "__exp")}
            for column, kind in columns.items():
                there = column in table.column_names
                arrays[column] = (
                    table.column(column).cast(kind.arrow) if there else pa.nulls(table.num_rows, kind.arrow)
                )
            parts.append(pa.table(arrays))
        return pa.concat_tables(parts)

    def _update_tables(self, engine: Engine, updates: list[str], *, first: bool) -> None:
        """First contents come before the queries that read them, updates after."""
        for name in updates:
            header, tables = read_segment(self.store.root / "tables" / name)
            if header["first"] != first:
                continue
            schema = engine.tables[header["table"]].table.schema
            gone, new = (read_rows(tables[part], schema, engine.strings) for part in ("delete", "insert"))
            if first:
                engine.load(header["table"], new)
            else:
                engine.update(header["table"], header["at"], gone, new)

    def _feed(
        self, engine: Engine, rows: pa.Table, watermarks: dict[str, int], late_step: int | None
    ) -> dict[str, Any]:
        """Rows to their inputs in time order, but for those that came too late."""
        assert self._flowing is not None
        late: dict[str, int] = {}
        newest: dict[str, int] = {}
        seen = 0
        which = rows.column(INPUT).to_numpy() if rows.num_rows else np.empty(0, np.int32)
        for number, fed in enumerate(self._flowing.inputs):
            own = (
                rows
                if len(self._flowing.inputs) == 1
                else rows.take(pa.array(np.flatnonzero(which == number)))
            )
            if not own.num_rows:
                continue
            stream = fed.input.stream
            speaks = fed.speaks and fed.input.routing.is_first_copy(self.number)
            seen += own.num_rows if speaks else 0
            if fed.counted:
                own = own.take(_content_order(own, self._flowing.layout, fed))
            columns = self._flowing.layout.read(own, stream, engine.strings)
            ts = columns[stream.time].values
            newest[fed.stream] = max(newest.get(fed.stream, int(ts.max())), int(ts.max()))
            too_late = ts < watermarks.get(fed.stream, np.iinfo(np.int64).min)
            if too_late.any():
                if speaks:
                    late[fed.stream] = int(too_late.sum())
                    if late_step is not None:
                        self._set_aside(
                            stream, fed.stream, _at(columns, np.flatnonzero(too_late)), engine, late_step
                        )
                columns = _at(columns, np.flatnonzero(~too_late))
            order = time_order(columns[stream.time].values)
            engine.push(fed.name, columns if order is None else _at(columns, order))
        return {"rows": seen, "late": late, "newest": newest}

    # ------------------------------------------------------------------ what is laid down

    def _lay_down(self, step: int, results: dict[str, pa.Table]) -> str | None:
        """Results for the sinks: with the answer if they are small, otherwise as files; the folder they are in."""
        small = sum(table.nbytes for table in results.values()) <= self._carries
        self.carried = results if small else {}
        return None if small else self._write(step, results)

    def _write(self, step: int, results: dict[str, pa.Table]) -> str:
        """In a folder of this attempt alone: nobody reads there before the answer names it, nobody else writes there."""
        laid = f"{self.number}-{secrets.token_hex(6)}"
        folder = self.store.out(step, laid)
        if results:
            folder.mkdir(parents=True)
        for name, table in results.items():
            write_results(for_spark(table), folder / file_name(name))
        return laid

    def _set_aside(
        self, stream: Stream, name: str, columns: tuple[Column, ...], engine: Engine, step: int
    ) -> None:
        place = self.store.late(name, step, self.number)
        arrays = [
            write_column(c, f.type, engine.strings) for c, f in zip(columns, stream.schema, strict=True)
        ]
        table = pa.Table.from_arrays(arrays, names=[f.name for f in stream.schema])
        with whole(place) as file:
            pq.write_table(for_spark(table), file)


def view_name(query: str) -> str:
    """Under which a query's current answer is laid down, beside its changes."""
    return f"{query}/view"


def file_name(what: str) -> str:
    """Of a query's changes, of its answer, or of all changes together."""
    return f"{quote(what, safe='')}.parquet"


def write_results(table: pa.Table, place: Path) -> None:
    """A file that is read once. A dictionary of numbers costs more than it saves: 183 → 70 ms for a million changes."""
    texts = [f.name for f in table.schema if pa.types.is_string(f.type)]
    pq.write_table(table, place, compression="lz4", use_dictionary=texts, write_statistics=False)


def for_spark(table: pa.Table, *, intervals: bool = False) -> pa.Table:
    """Types that Spark reads back as its own: instants in UTC; in files intervals as microseconds."""
    columns = []
    for column in table.columns:
        kind = column.type
        if pa.types.is_timestamp(kind):
            column = column.cast(pa.timestamp("us", "UTC"))
        elif pa.types.is_duration(kind):
            column = column.cast(pa.duration("us") if intervals else pa.int64())
        elif pa.types.is_null(kind):
            column = column.cast(pa.string())
        columns.append(column)
    return pa.Table.from_arrays(columns, names=table.column_names)


def _content_order(rows: pa.Table, layout: Layout, fed: Fed) -> pa.Array:
    """Rows by time and then by content: what a window that counts rows sees must not hang on how they came."""
    places = layout.places[fed.stream]
    keys = dict.fromkeys([places[fed.input.stream.time], *places])
    there = [f"c{slot}" for slot in keys if f"c{slot}" in rows.column_names]
    return pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in there])


def _bytes(found: snapshot.Snapshot) -> int:
    return sum(array.nbytes for array in found.arrays.values())


def _at(columns: tuple[Column, ...], rows: Any) -> tuple[Column, ...]:
    return tuple(Column(c.values, c.valid) for c in gather(columns, rows))
