"""The session: what users hold. Names, SQL and rows come in here and are checked before anything changes."""

from __future__ import annotations

import dataclasses
import datetime as dt
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from threading import RLock
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.api.flow_explain import shown
from penstock.api.locking import alone
from penstock.api.options import Options
from penstock.api.query import Query
from penstock.api.validation import (
    checked_name,
    column_clauses,
    delay_clause,
    flag,
    is_schema,
    microseconds,
    must_be_empty,
    quoted_name,
    sql_text,
    watermark_clauses,
)
from penstock.engine.engine import Engine, Mark, one_clock
from penstock.engine.registry import Standing
from penstock.errors import (
    BindError,
    DataError,
    OverloadWarning,
    PenstockError,
    PlanError,
    StateError,
    StreamWarning,
    UnreadWarning,
)
from penstock.ingest.convert import read_rows, write_column
from penstock.ingest.epoch_times import read_stream
from penstock.ingest.fast_path import one_batch
from penstock.ingest.source import StreamLimits
from penstock.optimizer import has_choice, optimize
from penstock.plan.catalog import Catalog, Function, Stream, Table
from penstock.plan.explain import explain
from penstock.plan.nodes import Query as Bound
from penstock.plan.query_root import Root, top
from penstock.plan.rank_levels import USUAL, checked_weight, levels_of, promises
from penstock.plan.sampled_aggregate import partial
from penstock.plan.statistics import Statistics
from penstock.plan.traversal import relations_in
from penstock.sql import (
    AlterQuery,
    CreateQuery,
    CreateStream,
    CreateTable,
    DropQuery,
    DropStream,
    DropTable,
    Explain,
    Parsed,
    Select,
    Statement,
    bind,
    bind_alter,
    parse,
)
from penstock.types.batch import Column
from penstock.types.data_type import Type
from penstock.types.schema import Schema

Rows = Any
"""Arrow table or batch, pandas frame, dict of columns, or list of dicts."""


_TUNED = ("eager", "lazy", "partitions")


class Session:
    """An embedded session: streams fed by `push`, time moved by watermarks and `advance`."""

    def __init__(self, options: Options) -> None:
        self.lock: AbstractContextManager[object] = RLock()
        """Threads use a session one after the other."""
        self.options = options
        self.catalog = Catalog()
        self.engine = Engine(self.catalog, options.upkeep, options.policies)
        self.engine.groups.single = options.clocks != "group"
        self.engine.spending.wall = options.wall
        self.engine.limits = StreamLimits(options.keep_late, self.engine.notices)
        self.engine.unread_bytes = options.unread_bytes
        self.engine.query_bytes = options.query_bytes
        self._queries: dict[str, Query] = {}
        self._unnamed = 0
        self._warned: set[str] = set()
        """Queries of which it was said that what waits for them grows without end."""

    @alone
    def tune(self, **given: object) -> None:
        """Change `eager`, `lazy` or `partitions` while queries run; answers stay what they are."""
        for name in given:
            if name not in _TUNED:
                raise StateError(f"{name!r} cannot be tuned", hint=f"one of {', '.join(_TUNED)}")
        self.engine.check_idle()
        self.engine.settle()
        self.options = dataclasses.replace(self.options, **given)  # type: ignore[arg-type]
        self.engine.upkeep.tune(self.options.upkeep)

    # ------------------------------------------------------------------ declaring

    @alone
    def execute(self, sql: str) -> list[Any]:
        """Run statements: all of them, or none and an error says which is wrong."""
        script = parse(sql_text(sql, "execute"))
        if len(script) > 1:
            self._rehearse(script)
        return [self._run(parsed) for parsed in script]

    def _rehearse(self, script: list[Parsed]) -> None:
        """Bind and plan a whole script against what each statement would find, changing nothing."""
        known = Catalog(dict(self.catalog.streams), dict(self.catalog.tables), dict(self.catalog.functions))
        reads = {name: self._reads(name) for name in self._queries}
        unnamed: list[tuple[str, Collection[str]]] = []
        time_type = self.engine.time_type
        for parsed in script:
            statement = bind(parsed, known)
            try:
                match statement:
                    case CreateStream(stream):
                        self._check_source("stream", stream.name, stream.format)
                        time_type = one_clock(stream, time_type)
                        known.streams[stream.name.lower()] = stream
                    case CreateTable(table):
                        self._check_source("table", table.name, table.format)
                        known.tables[table.name.lower()] = table
                    case CreateQuery(name, query):
                        top(optimize(query.root))
                        _new_name(name, reads)
                        reads[name.lower()] = (name, relations_in(query.root))
                    case Select(query) | Explain(query):
                        top(optimize(query.root))
                        if isinstance(statement, Select):
                            unnamed.append(("a SELECT of the script", relations_in(query.root)))
                    case DropQuery(name) | AlterQuery(name=name):
                        _known_name(name, reads)
                        if isinstance(statement, DropQuery):
                            del reads[name.lower()]
                    case DropStream(name) | DropTable(name):
                        _check_unread(name, [*reads.values(), *unnamed])
                        known.streams.pop(name.lower(), None)
                        known.tables.pop(name.lower(), None)
            except PenstockError as error:
                raise parsed.placed(error) from error.__cause__

    def _run(self, parsed: Parsed) -> Any:
        statement = bind(parsed, self.catalog)
        try:
            return self._apply(statement, parsed)
        except PenstockError as error:
            raise parsed.placed(error) from error.__cause__

    def _apply(self, statement: Statement, parsed: Parsed) -> Any:
        match statement:
            case CreateStream(stream):
                self._check_source("stream", stream.name, stream.format)
                self._add_stream(stream)
            case CreateTable(table):
                self._check_source("table", table.name, table.format)
                self._add_table(table)
            case CreateQuery(name, query):
                return self._register(name, query, keep=False)
            case DropQuery(name):
                self.drop(name)
            case DropStream(name) | DropTable(name):
                self._drop_relation(name)
            case Explain(query, analyze):
                running = [one for one in self._queries.values() if one.is_of(query)] if analyze else []
                if running:
                    return running[0].explain()
                root = optimize(query.root)
                return explain(root, lambda node: promises(query.ranks) if node is root else ())
            case Select(query):
                return self._register(None, query, keep=False)
            case AlterQuery():
                self._alter(statement, parsed)
        return None

    def _check_source(self, what: str, name: str, format_: str | None) -> None:
        """Formats are read by Spark; here rows are pushed."""
        if format_ is not None:
            raise PlanError(
                f"{what} {name} is read by Spark (USING {format_}), and this session has none",
                hint="leave out USING and push rows, or fill the table with update_table",
            )

    def _add_stream(self, stream: Stream) -> None:
        self.engine.add_stream(stream)
        self.catalog.streams[stream.name.lower()] = stream

    def _add_table(self, table: Table) -> None:
        self.engine.add_table(table)
        self.catalog.tables[table.name.lower()] = table

    def _drop_relation(self, name: str) -> None:
        key = name.lower()
        self.engine.check_idle()
        _check_unread(name, (self._reads(query) for query in self._queries))
        if key in self.catalog.streams:
            del self.catalog.streams[key], self.engine.sources[key]
        elif key in self.catalog.tables:
            del self.catalog.tables[key], self.engine.tables[key]
        else:
            raise BindError(f"there is no stream or table {name}")

    def _reads(self, query: str) -> tuple[str, Collection[str]]:
        """A query's name, and the keys of the streams and tables that it reads."""
        known = self.engine.queries[query]
        return known.name, relations_in(known.root.node)

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
        """A stream with the columns of an Arrow schema, `{column: type}`, or a table or frame without rows; rows are pushed.

        `unit`, `ahead` ("unlimited": any) and `idle` are what UNIT, AHEAD AT MOST and IDLE AFTER say of a WATERMARK in SQL.
        """
        named, timed = quoted_name(name, "a stream"), quoted_name(time, "a time column")
        columns = column_clauses(name, source, {time: "TIMESTAMP"} if unit is not None else {})
        must_be_empty(name, source)
        in_microseconds = f"{timed} TIMESTAMP".lower() in columns.lower()
        kind = "TIMESTAMP" if in_microseconds else "BIGINT"
        clauses = f"DELAY OF {delay_clause(delay, kind)}" + watermark_clauses(unit, ahead, idle, kind)
        declared = self._declare(f"CREATE STREAM {named} ({columns}) WATERMARK {timed} {clauses}")
        assert isinstance(declared, CreateStream)
        self._add_stream(declared.stream)

    @alone
    def create_table(self, name: str, data: Rows, *, retroactive: bool = False) -> None:
        """A table with this content; a schema or `{column: type}` makes an empty one."""
        kind = "RETROACTIVE TABLE" if flag(retroactive, "retroactive") else "TABLE"
        declared = self._declare(
            f"CREATE {kind} {quoted_name(name, 'a table')} ({column_clauses(name, data)})"
        )
        assert isinstance(declared, CreateTable)
        table = declared.table
        rows = no_rows(table.schema) if is_schema(data) else self._read(data, table.schema)
        self._add_table(table)
        self.engine.load(name.lower(), rows)

    def _declare(self, text: str) -> Statement:
        """A declaration put together from arguments; errors have no place, since nobody wrote the text."""
        try:
            return bind(parse(text)[0], self.catalog)
        except PenstockError as error:
            raise type(error)(error.message, text=error.text, hint=error.hint) from None

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
        """A Python function for use in queries; deterministic.

        `vectorized` takes and gives Arrow arrays. `cost`: work units a call, where a step has a budget of them: about
        how many times as long as to look at a row. `version`: what a checkpoint on Spark knows the function by
        instead of a hash of its code; change it when the function means something else.
        """
        if not checked_name(name, "a function").isidentifier():
            raise BindError(f"{name!r} is not a name for a function")
        if not callable(fn):
            raise DataError(f"function {name}: {fn!r} cannot be called")
        try:
            kind = returns if isinstance(returns, Type) else Type(returns.upper())
        except (ValueError, AttributeError):
            raise BindError(
                f"function {name}: unknown type {returns!r}",
                hint=f"one of {', '.join(t.value for t in Type)}",
            ) from None
        if type(cost) not in (int, float) or not 0 <= cost < float("inf"):
            raise DataError(f"function {name}: cost={cost!r} is not a number from 0")
        vector = flag(vectorized, "vectorized")
        if version is not None and (isinstance(version, bool) or not isinstance(version, str | int)):
            raise DataError(f"function {name}: version={version!r} is neither a string nor an integer")
        said = None if version is None else str(version)
        self.catalog.functions[name.lower()] = Function(name, fn, kind, vector, float(cost), said)

    # ------------------------------------------------------------------ queries

    @alone
    def query(self, sql: str, name: str | None = None, *, keep: bool = False, weight: float = USUAL) -> Query:
        """Register exactly one SELECT; `keep` holds the results of a MONOTONIC query for snapshots; `weight`: what it counts
        for beside other queries, where there is a budget."""
        parsed = parse(sql_text(sql, "query"))
        if len(parsed) != 1:
            raise PlanError(
                f"query takes exactly one SELECT, and there are {len(parsed)} statements",
                line=1,
                column=1,
                hint="use execute for scripts",
            )
        statement = bind(parsed[0], self.catalog)
        if not isinstance(statement, Select):
            raise PlanError(
                "query takes exactly one SELECT", line=1, column=1, hint="use execute for other statements"
            )
        try:
            return self._register(name, statement.query, keep=keep, weight=weight)
        except PenstockError as error:
            raise parsed[0].placed(error) from error.__cause__

    def _register(self, name: str | None, bound: Bound, *, keep: bool, weight: float = USUAL) -> Query:
        weight = checked_weight(weight)
        if name is None:
            self._unnamed += 1
            while f"q{self._unnamed}" in self._queries:
                self._unnamed += 1
            name = f"q{self._unnamed}"
        name = checked_name(name, "a query")
        _new_name(name, self._queries)
        levels = levels_of(bound)
        node = optimize(bound.root)
        clock = self.engine.time_type
        sampled = None if clock is None else partial(node, levels, clock, self.options.policies)
        root = top(node, levels) if sampled is None else sampled
        replan = None
        if self.options.replan and has_choice(root.node):

            def replan(known: Statistics) -> list[Root]:
                # A DISTINCT cannot come or go while the query runs: plans with and without are worth a look.
                return [top(optimize(bound.root, known, once=once), levels) for once in (True, False)]

        standing = self.engine.register(name, root, keep=flag(keep, "keep"), replan=replan, weight=weight)
        made = self._made(standing, bound)
        self._queries[name.lower()] = made
        return made

    def _made(self, standing: Standing, bound: Bound) -> Query:
        return Query(self, standing, bound)

    @alone
    def drop(self, name: str) -> None:
        """Remove a query."""
        _known_name(checked_name(name, "a query"), self._queries)
        self.engine.check_idle()
        del self._queries[name.lower()]
        self.engine.drop(name)

    def _alter(self, statement: AlterQuery, parsed: Parsed) -> None:
        _known_name(statement.name, self._queries)
        query = self._queries[statement.name.lower()]
        if statement.sets_ranks:
            statement = bind_alter(parsed, self.catalog, query.sql)
        query.alter(statement)

    @property
    def queries(self) -> Mapping[str, Query]:
        """Registered queries by name."""
        return dict(self._queries)

    @alone
    def explain(self, format: str = "text") -> str:  # noqa: A002 - as users say it, and as the command line does
        """The whole shared flow, which query uses what: `text` (with every query's plan), `json` or `dot`."""
        self.engine.check_idle()
        self.engine.settle()
        made = shown(self.engine, format)
        if format != "text":
            return made
        plans = [f"{q.name} ({q.pattern})\n{q.explain()}" for q in self._queries.values()]
        return "\n\n".join(part for part in (made, *plans, self._held()) if part)

    def _held(self) -> str:
        """What the clock waits for, if rows wait."""
        held = self.engine.held_back_by()
        if held is None:
            return ""
        sources = self.engine.sources.values()
        waiting = ", ".join(f"{s.waiting:,} of {s.stream.name}" for s in sources if s.waiting)
        return f"the clock is held back by stream {held.stream.name}: rows wait, {waiting}"

    # ------------------------------------------------------------------ feeding

    def push(self, stream: str, rows: Rows) -> None:
        """Rows of a stream in arrival order: all are taken, or none and an error says which is wrong.

        A push that is interrupted (Ctrl-C, no memory) takes nothing and can be repeated; if some of its rows may
        have been applied already, every later call is a `StateError`.
        """
        mark: Mark | None = None
        try:
            with self.lock:
                key = self._stream(stream)
                mark = self.engine.mark(key)
                batch = one_batch(rows)
                if batch is None or not self.engine.lay(key, batch):
                    declared = self.catalog.streams[key]
                    self.engine.push(key, self._read_stream(rows, declared))
            self._notify()  # nothing may follow that can be interrupted
        except (PenstockError, StreamWarning, UnreadWarning):  # a warning may have been made an error
            raise
        except BaseException as error:
            if mark is not None:
                with self.lock:
                    self.engine.undo(mark, error)
            raise

    def _notify(self) -> None:
        """Warn of what the engine has noticed, each once."""
        while self.engine.notices:
            warnings.warn(self.engine.notices.pop(0), stacklevel=3)

    @alone
    def advance(self, until: object, *, stream: str | None = None) -> None:
        """Nothing with ts <= until will come any more: process up to there.

        With `stream` this is said of one stream only: how an idle one stops holding the others back.
        """
        self.engine.advance(self.instant(until), None if stream is None else self._stream(stream))
        self._warn()
        self._notify()

    def _warn(self) -> None:
        """Once of every query for which more and more waits that no LIFESPAN bounds."""
        for name in set(self.engine.endless()) - self._warned:
            self._warned.add(name)
            load = self.engine.loads()[name]
            warnings.warn(
                f"query {name} has no LIFESPAN and more comes than its budget reaches for: {load['waiting']:,} rows wait, and what they take grows by"
                f" {load['growth']:,} units a step; give it a LIFESPAN, or the session a larger budget",
                OverloadWarning,
                stacklevel=3,
            )

    @alone
    def drain(self) -> None:
        """Work on everything that waits because a step's budget did not reach, however long it takes."""
        self.engine.drain()

    def _stream(self, name: str) -> str:
        """The key of a stream there is."""
        key = checked_name(name, "a stream").lower()
        if key not in self.catalog.streams:
            raise DataError(
                f"there is no stream {name}",
                hint=f"streams are {', '.join(self.catalog.streams) or 'none'}",
            )
        return key

    @alone
    def update_table(
        self, table: str, insert: Rows = None, delete: Rows = None, *, at: object = None
    ) -> None:
        """Change a table from `at` on (default: clock + 1); deletes name whole rows, one copy each."""
        key = checked_name(table, "a table").lower()
        if key not in self.catalog.tables:
            raise DataError(
                f"there is no table {table}", hint=f"tables are {', '.join(self.catalog.tables) or 'none'}"
            )
        schema = self.catalog.tables[key].schema
        when = None if at is None else self.instant(at)
        # Deferred rows first: strings that no operator holds may be freed once they are applied, so also those of this update.
        self.engine.settle()
        nothing = no_rows(schema)
        gone = nothing if delete is None else self._read(delete, schema)
        new = nothing if insert is None else self._read(insert, schema)
        self.engine.update(key, when, gone, new)

    @alone
    def late(self, stream: str) -> pa.Table:
        """Rows that came below their stream's watermark: the newest, as many as `keep_late` says.

        `late("a").schema.metadata[b"not_kept"]` is how many there were before them.
        """
        key = self._stream(stream)
        source = self.engine.sources[key]
        return self._set_aside(key, source.late(), source.late_rows)

    @alone
    def ahead(self, stream: str) -> pa.Table:
        """Rows that were too far ahead (WATERMARK … AHEAD AT MOST …): the newest, as `late` has them."""
        key = self._stream(stream)
        source = self.engine.sources[key]
        return self._set_aside(key, source.ahead(), source.ahead_rows)

    def _set_aside(self, key: str, columns: tuple[Column, ...] | None, count: int) -> pa.Table:
        schema = self.catalog.streams[key].schema
        rows = no_rows(schema) if columns is None else columns
        arrays = [write_column(c, f.type, self.engine.strings) for c, f in zip(rows, schema, strict=True)]
        made = pa.Table.from_arrays(arrays, names=[f.name for f in schema])
        return made.replace_schema_metadata({"not_kept": str(count - made.num_rows)})

    def _read(self, rows: Rows, schema: Schema) -> tuple[Column, ...]:
        try:
            return read_rows(rows, schema, self.engine.strings)
        except DataError:
            self.engine.sweep_strings()  # those that came with the refused rows
            raise

    def _read_stream(self, rows: Rows, stream: Stream) -> tuple[Column, ...]:
        try:
            return read_stream(rows, stream, self.engine.strings)
        except DataError:
            self.engine.sweep_strings()
            raise

    # ------------------------------------------------------------------ time and size

    @property
    @alone
    def clock(self) -> int:
        """Every row with ts <= clock has been applied (microseconds for TIMESTAMP)."""
        return self.engine.clock

    def instant(self, value: object) -> int:
        """A time as the engine counts it: an integer, or a datetime or ISO text for TIMESTAMP."""
        if isinstance(value, int | np.integer) and not isinstance(value, bool):
            when = int(value)
        elif self.engine.time_type is Type.TIMESTAMP and isinstance(value, dt.datetime | str):
            when = microseconds(value)
        else:
            raise DataError(
                f"{value!r} is not a time of this session",
                hint="BIGINT time takes integers; TIMESTAMP also datetimes",
            )
        if not self.engine.first - 1 <= when <= self.engine.last:
            raise DataError(
                f"time {when} is outside what can be counted",
                hint=f"times lie between {self.engine.first} and {self.engine.last}",
            )
        return when

    @property
    @alone
    def size_bytes(self) -> int:
        """All that is held: what operators remember, kept answers, unread changes, and rows that wait or were set aside."""
        self.engine.settle()
        return self.engine.held_bytes


def no_rows(schema: Schema) -> tuple[Column, ...]:
    return tuple(Column(np.empty(0, f.type.dtype)) for f in schema)


def _new_name(name: str, queries: Collection[str]) -> None:
    if name.lower() in queries:
        raise BindError(f"there is a query {name} already", hint="drop it first, or take another name")


def _check_unread(name: str, queries: Iterable[tuple[str, Collection[str]]]) -> None:
    readers = [query for query, read in queries if name.lower() in read]
    if readers:
        raise StateError(f"{name} is read by {', '.join(readers)}", hint="drop the queries first")


def _known_name(name: str, queries: Collection[str]) -> None:
    if name.lower() not in queries:
        raise BindError(f"there is no query {name}", hint=f"queries are {', '.join(queries) or 'none'}")
