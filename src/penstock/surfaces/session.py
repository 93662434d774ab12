"""The session: what users hold. Names, SQL and rows come in here and are checked before anything changes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.data.batch import Column
from penstock.data.schema import Field, Schema
from penstock.data.types import Type
from penstock.errors import BindError, DataError, PlanError, StateError
from penstock.language import (
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
from penstock.plan.catalog import Catalog, Function, Table
from penstock.plan.explain import explain
from penstock.plan.nodes import Query as Bound
from penstock.plan.roots import top
from penstock.rules import optimize
from penstock.runtime.border import FOREIGN, read_rows, write_column
from penstock.runtime.embedded import Engine, Standing
from penstock.surfaces.options import Options

Rows = Any
"""Arrow table or batch, pandas frame, dict of columns, or list of dicts."""


class Query:
    """A standing query: sees rows with ts > the clock at its registration, until dropped."""

    def __init__(self, session: Session, standing: Standing, bound: Bound) -> None:
        self._session = session
        self._standing = standing
        self._bound = bound

    @property
    def name(self) -> str:
        return self._standing.name

    @property
    def pattern(self) -> str:
        """MONOTONIC, WEAKEST, WEAK or STRICT."""
        return self._standing.root.judged.pattern.value

    @property
    def matched(self) -> int:
        """How many changes there have been so far."""
        return self._standing.answer.matched

    @property
    def sql(self) -> str:
        return self._bound.text

    @property
    def size_bytes(self) -> int:
        """What the query's operators remember."""
        return self._standing.pipeline.arena.size_bytes

    def explain(self) -> str:
        """The plan, every edge with its pattern and why."""
        return explain(self._standing.root.node)

    def changes(self) -> pa.Table:
        """Changes since the last call: `__op`, `__ts`, `__exp`, the query's columns."""
        self._check()
        return self._standing.answer.changes()

    def snapshot(self, at: object = None) -> pa.Table:
        """The answer at the engine's clock."""
        self._check()
        engine = self._session.engine
        if at is not None:
            when = self._session.instant(at)
            if when < engine.clock:
                raise StateError(
                    f"the answer at {when} is gone: the clock is at {engine.clock}",
                    hint="take snapshots at the clock",
                )
            if when > engine.clock:
                raise StateError(
                    f"the answer at {when} is not known yet: the clock is at {engine.clock}",
                    hint="advance first",
                )
        if not self._standing.answer.kept:
            raise StateError(
                f"query {self.name} is MONOTONIC: its results are a stream and are not kept",
                hint="read changes(), or register it with keep=True",
            )
        table: pa.Table = engine.snapshot(self._standing)
        return table

    def drop(self) -> None:
        """Remove the query; its state is freed."""
        self._check_registered()
        self._session.drop(self.name)

    def _check_registered(self) -> None:
        if self._session.engine.queries.get(self.name.lower()) is not self._standing:
            raise StateError(f"query {self.name} was dropped")

    def _check(self) -> None:
        self._check_registered()
        self._session.engine.check(self._standing)

    def __repr__(self) -> str:
        return f"<penstock query {self.name}: {self.pattern}>"


class Session:
    """An embedded session: streams fed by `push`, time moved by watermarks and `advance`."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.catalog = Catalog()
        self.engine = Engine(self.catalog)
        self._queries: dict[str, Query] = {}
        self._unnamed = 0

    # ------------------------------------------------------------------ declaring

    def execute(self, sql: str) -> list[Any]:
        """Run statements; each is whole or not at all, and the first wrong one stops the script."""
        if not isinstance(sql, str):
            raise StateError(f"execute takes SQL text, not {type(sql).__name__}")
        return [self._run(parsed) for parsed in parse(sql)]

    def _run(self, parsed: Parsed) -> Any:
        statement = bind(parsed, self.catalog)
        return self._apply(statement, parsed)

    def _apply(self, statement: Statement, parsed: Parsed) -> Any:
        match statement:
            case CreateStream(stream):
                if stream.format is not None:
                    raise PlanError(
                        f"stream {stream.name} is read by Spark (USING {stream.format}), and this session has none",
                        hint="leave out USING and push rows, or connect with a SparkSession",
                    )
                self._check_new(stream.name)
                self.engine.add_stream(stream)
                self.catalog.streams[stream.name.lower()] = stream
            case CreateTable(table):
                if table.format is not None:
                    raise PlanError(
                        f"table {table.name} is read by Spark (USING {table.format}), and this session has none",
                        hint="leave out USING and fill it with update_table",
                    )
                self._check_new(table.name)
                self._add_table(table)
            case CreateQuery(name, query):
                return self._register(name, query, keep=False)
            case DropQuery(name):
                self.drop(name)
            case DropStream(name) | DropTable(name):
                self._drop_relation(name)
            case Explain(query):
                return explain(optimize(query.root))
            case Select(query):
                return self._register(None, query, keep=False)
            case AlterQuery():
                self._alter(statement, parsed)
        return None

    def _check_new(self, name: str) -> None:
        key = name.lower()
        if key in self.catalog.streams or key in self.catalog.tables:
            raise BindError(
                f"there is a stream or table {name} already", hint="drop it first, or take another name"
            )

    def _add_table(self, table: Table) -> None:
        self.engine.add_table(table)
        self.catalog.tables[table.name.lower()] = table

    def _drop_relation(self, name: str) -> None:
        key = name.lower()
        readers = [
            q.name for q in self.engine.queries.values() if key in q.pipeline.streams | q.pipeline.tables
        ]
        if readers:
            raise StateError(f"{name} is read by {', '.join(readers)}", hint="drop the queries first")
        if key in self.catalog.streams:
            del self.catalog.streams[key], self.engine.sources[key]
        elif key in self.catalog.tables:
            del self.catalog.tables[key], self.engine.tables[key]
        else:
            raise BindError(f"there is no stream or table {name}")

    def create_stream(self, name: str, source: object = None, *, time: str, delay: object = 0) -> None:
        """A stream with the schema of Arrow, pandas or `{column: type}`; rows are pushed."""
        columns = ", ".join(f"{_quoted(n)} {t}" for n, t in _declared(source))
        amount = f"INTERVAL {delay}" if isinstance(delay, str) else f"{delay}"
        self.execute(f"CREATE STREAM {_quoted(name)} ({columns}) WATERMARK {_quoted(time)} DELAY OF {amount}")

    def create_table(self, name: str, data: Rows, *, retroactive: bool = False) -> None:
        """A table with this content."""
        self._check_new(name)
        schema = tuple(Field(n, Type(t)) for n, t in _declared(data))
        if not schema:
            raise DataError(
                f"table {name} has no columns", hint="give rows, or an empty Arrow table with a schema"
            )
        table = Table(str(name), schema, retroactive)
        rows = self._read(data, schema)
        self._add_table(table)
        self.engine.load(name.lower(), rows)

    def create_function(
        self,
        name: str,
        fn: Callable[..., object],
        returns: str | Type = "DOUBLE",
        *,
        vectorized: bool = False,
    ) -> None:
        """A Python function for use in queries; deterministic; `vectorized` takes and gives Arrow arrays."""
        if not callable(fn):
            raise DataError(f"function {name}: {fn!r} cannot be called")
        if not isinstance(name, str) or not name.isidentifier():
            raise BindError(f"{name!r} is not a name for a function")
        try:
            kind = returns if isinstance(returns, Type) else Type(returns.upper())
        except (ValueError, AttributeError):
            raise BindError(
                f"function {name}: unknown type {returns!r}",
                hint=f"one of {', '.join(t.value for t in Type)}",
            ) from None
        self.catalog.functions[name.lower()] = Function(name, fn, kind, vectorized)

    # ------------------------------------------------------------------ queries

    def query(self, sql: str, name: str | None = None, *, keep: bool = False) -> Query:
        """Register exactly one SELECT; `keep` holds the results of a MONOTONIC query for snapshots."""
        if not isinstance(sql, str):
            raise StateError(f"query takes SQL text, not {type(sql).__name__}")
        parsed = parse(sql)
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
        return self._register(name, statement.query, keep=keep)

    def _register(self, name: str | None, bound: Bound, *, keep: bool) -> Query:
        if name is None:
            self._unnamed += 1
            while f"q{self._unnamed}" in self._queries:
                self._unnamed += 1
            name = f"q{self._unnamed}"
        if not isinstance(name, str) or not name:
            raise BindError(f"{name!r} is not a name for a query")
        if name.lower() in self._queries:
            raise BindError(f"there is a query {name} already", hint="drop it first, or take another name")
        root = top(optimize(bound.root))
        standing = self.engine.register(name, root, keep=keep)
        made = Query(self, standing, bound)
        self._queries[name.lower()] = made
        return made

    def drop(self, name: str) -> None:
        """Remove a query."""
        if name.lower() not in self._queries:
            raise BindError(
                f"there is no query {name}", hint=f"queries are {', '.join(self._queries) or 'none'}"
            )
        del self._queries[name.lower()]
        self.engine.drop(name)

    def _alter(self, statement: AlterQuery, parsed: Parsed) -> None:
        query = self._queries.get(statement.name.lower())
        if query is None:
            raise BindError(
                f"there is no query {statement.name}",
                hint=f"queries are {', '.join(self._queries) or 'none'}",
            )
        if statement.sets_ranks:
            statement = bind_alter(parsed, self.catalog, query.sql)
        query.alter(statement)

    @property
    def queries(self) -> Mapping[str, Query]:
        """Registered queries by name."""
        return dict(self._queries)

    def explain(self) -> str:
        """Every query's plan."""
        return "\n\n".join(f"{q.name} ({q.pattern})\n{q.explain()}" for q in self._queries.values())

    # ------------------------------------------------------------------ feeding

    def push(self, stream: str, rows: Rows) -> None:
        """Rows of a stream in arrival order: all are taken, or none and an error says which is wrong."""
        key = str(stream).lower()
        if key not in self.catalog.streams:
            raise DataError(
                f"there is no stream {stream}",
                hint=f"streams are {', '.join(self.catalog.streams) or 'none'}",
            )
        declared = self.catalog.streams[key]
        columns = read_rows(rows, declared.schema, self.engine.strings, frozenset([declared.time]))
        self.engine.push(key, columns)

    def advance(self, until: object) -> None:
        """Nothing with ts <= until will come any more: process up to there."""
        self.engine.advance(self.instant(until))

    def update_table(
        self, table: str, insert: Rows = None, delete: Rows = None, *, at: object = None
    ) -> None:
        """Change a table from `at` on (default: clock + 1); deletes name whole rows, one copy each."""
        key = str(table).lower()
        if key not in self.catalog.tables:
            raise DataError(
                f"there is no table {table}", hint=f"tables are {', '.join(self.catalog.tables) or 'none'}"
            )
        schema = self.catalog.tables[key].schema
        gone, new = self._read(delete, schema), self._read(insert, schema)
        self.engine.update(key, None if at is None else self.instant(at), gone, new)

    def late(self, stream: str) -> pa.Table:
        """Rows that came below their stream's watermark."""
        key = str(stream).lower()
        if key not in self.catalog.streams:
            raise DataError(f"there is no stream {stream}")
        schema = self.catalog.streams[key].schema
        columns = self.engine.sources[key].late() or self._read(None, schema)
        arrays = [write_column(c, f.type, self.engine.strings) for c, f in zip(columns, schema, strict=True)]
        return pa.Table.from_arrays(arrays, names=[f.name for f in schema])

    def _read(self, rows: Rows, schema: Schema) -> tuple[Column, ...]:
        if rows is None:
            return tuple(Column(np.empty(0, f.type.dtype)) for f in schema)
        return read_rows(rows, schema, self.engine.strings, frozenset())

    # ------------------------------------------------------------------ time and size

    @property
    def clock(self) -> int:
        """Every row with ts <= clock has been applied (microseconds for TIMESTAMP)."""
        return self.engine.clock

    def instant(self, value: object) -> int:
        """A time as the engine counts it: an integer, or a datetime or ISO text for TIMESTAMP."""
        if isinstance(value, int | np.integer) and not isinstance(value, bool):
            when = int(value)
        elif self.engine.time_type is Type.TIMESTAMP and isinstance(value, dt.datetime | str):
            when = _microseconds(value)
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
    def size_bytes(self) -> int:
        """What all queries' operators remember."""
        return self.engine.size_bytes


def _microseconds(value: dt.datetime | str) -> int:
    if isinstance(value, str):
        try:
            value = dt.datetime.fromisoformat(value)
        except ValueError:
            raise DataError(f"{value!r} is not a time", hint="write 2026-01-31T12:00:00") from None
    if value.tzinfo is not None:
        value = value.astimezone(dt.UTC).replace(tzinfo=None)
    return (value - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)


def _quoted(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise BindError(f"{name!r} is not a name")
    return "`" + name.replace("`", "``") + "`"


_NAMED = [
    (pa.types.is_boolean, "BOOLEAN"), (pa.types.is_int8, "TINYINT"), (pa.types.is_int16, "SMALLINT"),
    (pa.types.is_uint8, "SMALLINT"), (pa.types.is_int32, "INT"), (pa.types.is_uint16, "INT"),
    (pa.types.is_integer, "BIGINT"), (pa.types.is_float32, "FLOAT"), (pa.types.is_floating, "DOUBLE"),
    (pa.types.is_timestamp, "TIMESTAMP"), (pa.types.is_date, "DATE"),
    (pa.types.is_string, "STRING"), (pa.types.is_large_string, "STRING"),
]  # fmt: skip


def _declared(data: object) -> Iterator[tuple[str, str]]:
    """Column names and SQL types of a schema, a frame, or rows."""
    if isinstance(data, Mapping) and data and all(isinstance(v, str) for v in data.values()):
        yield from data.items()
        return
    for field in _arrow_schema(data):
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        named = next((sql for test, sql in _NAMED if test(kind)), None)
        if named is None:
            raise DataError(f"column {field.name} has type {field.type}, which has no SQL type here")
        yield field.name, named


def _arrow_schema(data: object) -> pa.Schema:
    try:
        if isinstance(data, pa.Schema):
            return data
        if isinstance(data, pa.Table | pa.RecordBatch):
            return data.schema
        if isinstance(data, list):
            return pa.Table.from_pylist(data).schema
        if isinstance(data, Mapping):
            return pa.table(dict(data)).schema
        return pa.Schema.from_pandas(data, preserve_index=False)
    except FOREIGN as error:
        raise DataError(f"no column types can be read from {type(data).__name__}: {error}") from None
