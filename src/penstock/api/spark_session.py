"""The session on Spark: the same names and statements, rows from Spark's sources, answers to Spark's sinks.

What is declared is checked here exactly as in an embedded session (an engine that is never fed stands behind it), then told
to the flow, which carries it out from its next step on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import pyarrow as pa

from penstock.api.locking import alone
from penstock.api.options import Options
from penstock.api.query import Query
from penstock.api.session import Rows, Session, no_rows
from penstock.api.spark_query import SparkQuery
from penstock.api.validation import checked_name
from penstock.engine.registry import Standing
from penstock.errors import DataError, PlanError, StateError
from penstock.ingest.convert import write_column
from penstock.ingest.epoch_times import read_stream
from penstock.plan.catalog import Stream, Table
from penstock.plan.nodes import Query as Bound
from penstock.plan.rank_levels import USUAL
from penstock.spark import frames
from penstock.spark.driver import Flow
from penstock.spark.filesystem import Place
from penstock.spark.handle import Handle
from penstock.spark.local import say_if_cold, use_this_python
from penstock.spark.parquet_folders import folder
from penstock.spark.sinks import formats
from penstock.spark.sinks.contract import FunctionSink, OutputSink
from penstock.sql import AlterQuery, Parsed
from penstock.state.strings import Strings
from penstock.types.batch import Column
from penstock.types.data_type import Type


class SparkSession(Session):
    """A session whose data pipeline is Spark's."""

    def __init__(self, spark: Any, checkpoint: str, cells: int | None, options: Options) -> None:
        super().__init__(options)
        if options.wall is not None:
            raise StateError(
                f"budget={options.budget!r}: on Spark a step's budget is a number of work units",
                hint="steps are replayed after a crash, and must be worth the same again",
            )
        self.spark = spark
        self.flow = Flow(spark, checkpoint, cells, self.engine.upkeep, self.engine.policies)
        self.flow.query_bytes, self.flow.set_aside.keep = options.query_bytes, options.keep_late
        use_this_python(spark)
        # One lock for both: steps hold it, and so do sinks, whose functions may use the session.
        self.lock = self.flow.lock
        self._frames: dict[str, Any] = {}
        self._handle: Handle | None = None
        self._waiting: dict[str, tuple[Standing, str]] = {}
        """Queries registered while the flow runs that have no sink yet, with their texts."""

    # ------------------------------------------------------------------ declaring

    def _check_source(self, what: str, name: str, format_: str | None) -> None:
        """Spark reads them all."""

    @alone
    def create_stream(
        self,
        name: str,
        source: object = None,
        *,
        time: str,
        delay: object = 0,
        unit: str | None = None,
        ahead: object = None,
        idle: object = None,
    ) -> None:
        """A stream from any streaming DataFrame, or one that is fed by `push`."""
        declare = partial(
            super().create_stream, name, time=time, delay=delay, unit=unit, ahead=ahead, idle=idle
        )
        if not frames.is_frame(source):
            declare(source)
            return
        if not source.isStreaming:  # type: ignore[attr-defined]
            raise DataError(f"stream {name}: the DataFrame is not streaming", hint="use spark.readStream")
        declare(frames.columns(name, source))
        self._frames[name.lower()] = source

    @alone
    def create_table(self, name: str, data: Rows, *, retroactive: bool = False) -> None:
        super().create_table(name, frames.collected(data), retroactive=retroactive)
        self._tell_content(name)

    def _add_stream(self, stream: Stream) -> None:
        super()._add_stream(stream)
        with self.flow.lock:
            self.flow.declared.streams[stream.name.lower()] = stream

    def _add_table(self, table: Table) -> None:
        super()._add_table(table)
        with self.flow.lock:
            self.flow.declared.tables[table.name.lower()] = table
        if table.format is None:
            self._take_up(table.name.lower())
        else:
            rows = frames.table(self.spark, table).toArrow()
            self.engine.load(table.name.lower(), self._read(rows, table.schema))
            self._tell_content(table.name)

    def _tell_content(self, name: str) -> None:
        key = name.lower()
        if not self._take_up(key):
            first = self._arrow(key, self.engine.tables[key].content)
            self.flow.update_table(key, None, self._arrow(key, None), first, first=True)

    def _take_up(self, key: str) -> bool:
        """Let the table be what the checkpoint holds, if it does: deletes are looked up in it."""
        table = self.catalog.tables[key]
        told = self.flow.updates(table)
        if told is None:
            return False
        self.engine.add_table(table)
        for parts in told:
            gone, new = (self._read(parts[part], table.schema) for part in ("delete", "insert"))
            self.engine.update(key, None, gone, new)
        return True

    @alone
    def update_table(
        self, table: str, insert: Rows = None, delete: Rows = None, *, at: object = None
    ) -> None:
        """Takes effect with the next step of the flow; the instant is written down with it."""
        insert, delete = frames.collected(insert), frames.collected(delete)
        super().update_table(table, insert, delete)
        key = table.lower()
        schema = self.catalog.tables[key].schema
        gone, new = (None if rows is None else self._read(rows, schema) for rows in (delete, insert))
        when = None if at is None else self.instant(at)
        self.flow.update_table(key, when, self._arrow(key, gone), self._arrow(key, new), first=False)

    def _arrow(self, table: str, columns: tuple[Column, ...] | None) -> pa.Table:
        schema = (
            self.catalog.tables[table].schema
            if table in self.catalog.tables
            else self.engine.tables[table].table.schema
        )
        rows = no_rows(schema) if columns is None else columns
        arrays = [write_column(c, f.type, self.engine.strings) for c, f in zip(rows, schema, strict=True)]
        return pa.Table.from_arrays(arrays, names=[f.name for f in schema])

    def _drop_relation(self, name: str) -> None:
        super()._drop_relation(name)
        with self.flow.lock:
            self.flow.declared.streams.pop(name.lower(), None)
            self.flow.declared.tables.pop(name.lower(), None)
        self._frames.pop(name.lower(), None)

    def _made(self, standing: Standing, bound: Bound) -> Query:
        """Register with the flow. While it runs, a query begins once it has a sink: else a step could come between."""
        with self.flow.lock:
            self._waiting[standing.name] = (standing, bound.text)
            if not self._is_running or self.flow.sinks.get(""):
                self._begin(standing.name)
        return SparkQuery(self, standing, bound)

    def _begin(self, name: str) -> None:
        """The query runs from the next step on."""
        if name in self._waiting:
            standing, text = self._waiting.pop(name)
            self.flow.declared.queries[name] = text
            self.flow.declared.weights[name] = standing.weight

    @contextmanager
    def beginning(self, name: str) -> Iterator[None]:
        """Let a waiting query begin, unless what is done meanwhile fails; the flow's lock is held."""
        waiting = self._waiting.get(name)
        self._begin(name)
        try:
            yield
        except BaseException:
            if waiting is not None:
                del self.flow.declared.queries[name], self.flow.declared.weights[name]
                self._waiting[name] = waiting
            raise

    @property
    def _is_running(self) -> bool:
        return self._handle is not None and self._handle.isActive

    def prepare(self, query: str, prepare: Callable[[], None]) -> None:
        """Let a sink make what readers look for: now if the flow runs, and whenever it starts."""
        if self._is_running:
            prepare()
        self.flow.preparations.setdefault(query, []).append(prepare)

    @alone
    def query(
        self, sql: str, name: str | None = None, *, keep: bool = False, weight: float = USUAL
    ) -> SparkQuery:
        made = super().query(sql, name, keep=keep, weight=weight)
        assert isinstance(made, SparkQuery)
        return made

    def _alter(self, statement: AlterQuery, parsed: Parsed) -> None:
        """From the next step on, in every cell."""
        known = self._queries.get(statement.name.lower())
        if known is not None:
            with self.flow.lock:
                self._begin(known.name)
        if statement.sets_ranks and known is not None and self.flow.plan().queries[known.name].lower:
            raise StateError(
                f"query {known.name} runs in two stages, and the second has only what the ranks that it began with read",
                hint="register the query anew, with the new ranks",
            )
        if statement.sets_ranks and known is not None and known.pattern == "STRICT" and known.ranks:
            raise StateError(
                f"query {known.name} takes results back, by the ranks with which it told them",
                hint="register the query anew, with the new ranks",
            )
        super()._alter(statement, parsed)
        if statement.weight is None:
            name, what = (
                self._queries[statement.name.lower()].name,
                "ranks" if statement.sets_ranks else "lifespan",
            )
            with self.flow.lock:
                self.flow.declared.altered.setdefault(name, {})[what] = parsed.text

    @alone
    def drop(self, name: str) -> None:
        known = (*self.flow.declared.queries, *self._waiting, *self.flow.stopped.errors)
        kept = next((n for n in known if n.lower() == name.lower()), None)
        super().drop(name)
        if kept is not None:
            self._waiting.pop(kept, None)
            self.flow.forget(kept)

    @alone
    def create_function(
        self,
        name: str,
        fn: Callable[..., object],
        returns: str | Type = "DOUBLE",
        *,
        vectorized: bool = False,
        cost: float = 1.0,
        version: str | int | None = None,
    ) -> None:
        super().create_function(name, fn, returns, vectorized=vectorized, cost=cost, version=version)
        function = self.catalog.functions[name.lower()]
        self.flow.functions[name.lower()] = function
        self.flow.declared.functions[name.lower()] = function.identity

    @alone
    def explain(self, format: str = "text") -> str:  # noqa: A002
        """Every query's plan, what they share, and how rows are spread over the cells."""
        made = super().explain(format)
        if format != "text":
            return made
        placed = self.flow.plan().queries
        cells = [f"{name} in {q.cells} of {self.flow.cells} cells: {q}" for name, q in placed.items()]
        return "\n\n".join([made, "\n".join(cells), *self._clocks()])

    def _clocks(self) -> list[str]:
        """What the clock waits for, as of the last step."""
        last = self.flow.progress[-1] if self.flow.progress else None
        if last is None or last["heldBackBy"] is None:
            return []
        waiting = ", ".join(f"{count:,} of {name}" for name, count in last["waiting"].items())
        return [f"the clock is held back by stream {last['heldBackBy']}: rows wait, {waiting}"]

    # ------------------------------------------------------------------ running

    @alone
    def start(self, trigger: Mapping[str, Any] | None = None, *, flush: bool = True) -> Handle:
        """Run the flow: one Spark query over all streams, until stopped or, with `availableNow`, until the input ends."""
        if self._is_running:
            raise StateError("the flow is running", hint="stop it first")
        if not self._queries:
            raise PlanError("there is no query to run", hint="register one with query or CREATE QUERY")
        say_if_cold(self.spark)
        for name in list(self._waiting):
            self._begin(name)
        told = dict(trigger or {})
        streams = self.flow.declared.streams
        found = {name: folder(self._source(name, stream), stream) for name, stream in streams.items()}
        folders = {name: one for name, one in found.items() if one is not None}
        fed = {name: self._fed(name, stream) for name, stream in streams.items()}
        self._handle = self.flow.start(fed, folders if len(folders) == len(fed) else None, told, flush=flush)
        return self._handle

    def _fed(self, name: str, stream: Stream) -> Any:
        """The frame of a stream's rows that have a time."""
        frame = self._source(name, stream)
        # What is pushed has been looked at already.
        is_pushed = name not in self._frames and stream.format is None
        return frame if is_pushed else frames.placed(frame, stream)

    def _source(self, name: str, stream: Stream) -> Any:
        """What a stream's rows come from."""
        given = self._frames.get(name)
        if given is None:
            return frames.source(self.spark, stream, self._pushed(name))
        return frames.timed(given, stream)

    # ------------------------------------------------------------------ sinks of the whole flow

    def foreach_batch(self, function: Callable[[Any, int], None]) -> None:
        """`function(frame, step)` with the changes of all queries, `__query` first."""
        if not callable(function):
            raise DataError(f"{function!r} cannot be called")
        self._attach(FunctionSink(function))

    def write(
        self,
        format: str = "parquet",  # noqa: A002 - what Spark calls it
        path: str | None = None,
        **options: str,
    ) -> None:
        """Append the changes of all queries."""
        self._attach(formats.writer(self.flow, "", format, path, False, options))

    def to_table(self, name: str, **options: str) -> None:
        """The changes of all queries into a table of Spark's catalog."""
        self._attach(formats.table(self.flow, "", checked_name(name, "a table"), False, options))

    def _attach(self, sink: OutputSink) -> None:
        flow = self.flow
        with flow.lock:
            for name in list(self._waiting):
                self._begin(name)
            self.prepare("", lambda: sink.prepare(formats.together_columns(flow)))
            flow.sinks.setdefault("", []).append(lambda step, _: sink(formats.together(flow), step))

    # ------------------------------------------------------------------ feeding

    def _pushed(self, stream: str) -> Place:
        """Where rows given by `push` wait for Spark to read them."""
        return self.flow.store.pushed(stream)

    def push(self, stream: str, rows: Rows) -> None:
        """Rows for a stream without a source of its own."""
        key = self._stream(stream)
        declared = self.catalog.streams[key]
        if declared.format is not None or key in self._frames:
            raise StateError(f"stream {stream} has a source of its own")
        strings = Strings()  # of this push alone: threads push while others push and while steps run
        columns = read_stream(rows, declared, strings)
        arrays = [write_column(c, f.type, strings) for c, f in zip(columns, declared.schema, strict=True)]
        frames.drop_file(
            self._pushed(key), pa.Table.from_arrays(arrays, names=[f.name for f in declared.schema])
        )

    def advance(self, until: object, *, stream: str | None = None) -> None:
        """Nothing with ts <= until will come any more, on a stream or on any: from the next step on.

        How an idle stream stops holding the others back; rows that come below it after all are late.
        """
        self.flow.advance(self.instant(until), None if stream is None else self._stream(stream))

    def ahead(self, stream: str) -> Any:
        """Rows that were too far ahead (WATERMARK … AHEAD AT MOST …), as a DataFrame: the newest, as `late` has them."""
        return self._set_aside_frame("ahead", stream)

    def late(self, stream: str) -> Any:
        """Rows that came below their stream's watermark, as a DataFrame: the newest, at least as many as `keep_late` says if there were more.

        The metadata of its time column say how many are `not_kept`.
        """
        return self._set_aside_frame("late", stream)

    def _set_aside_frame(self, kind: str, stream: str) -> Any:
        key = self._stream(stream)
        folder = self.flow.store.set_aside(kind, key)
        return frames.set_aside(self.spark, self.catalog.streams[key], folder, self.flow.not_kept(kind, key))

    @property
    def clock(self) -> int:
        """Every row with ts <= clock has been applied."""
        clock = self.flow.known.clock
        return self.flow.first_instant - 1 if clock is None else clock

    @property
    def size_bytes(self) -> int:
        """What all cells remember, as of the last step."""
        last = self.flow.progress[-1] if self.flow.progress else None
        return 0 if last is None else int(last["stateBytes"])
