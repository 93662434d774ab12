"""Runs a case on the engine through its public API and writes down all it says."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tests.oracle.algebra import ToStream, is_grouped, key_positions, patterns, sql
from tests.oracle.case import Case
from tests.oracle.features import constructs
from tests.oracle.model import BEGINNING, World
from tests.oracle.replay import Breach, Change, Row
from tests.oracle.scalar import NAN, Value, moment
from tests.oracle.schema import Columns, Schema, native
from tests.oracle.streams import Advance, Arrival, Drop, Nothing, Register, Update, cut


@dataclass
class Heard:
    """What one query has said."""

    pattern: str = ""
    snapshots: dict[int, list[Row]] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    calls: list[tuple[int, int]] = field(default_factory=list)
    """(clock, number of changes so far) at each call of `changes()`."""


@dataclass
class Trace:
    queries: list[Heard]
    late: dict[str, int] = field(default_factory=dict)
    clock: int = BEGINNING


@dataclass(frozen=True, slots=True)
class Cut:
    """How arrivals are grouped into pushes: `whole`, `single`, or at random by `seed`."""

    kind: str = "random"
    seed: int = 0

    def rng(self) -> random.Random | None:
        return random.Random(f"cut {self.seed}") if self.kind == "random" else None


def record(
    case: Case, how: Cut, options: dict[str, Any] | None = None, most: int = 25, quiet: bool = False,
    engine: Callable[[Any], Any] | None = None,
) -> Trace:  # fmt: skip
    """Runs the case; with `quiet`, asks for nothing before the end. `engine` makes another one for the session's catalog."""
    import penstock

    session = penstock.connect(**(options or {}))
    if engine is not None:
        session.engine = engine(session.catalog)
    world = World(case.schema)
    trace = Trace([Heard() for _ in case.queries])
    session.execute(case.schema.ddl())
    for table in case.schema.tables:
        data = case.schema.arrow(table.columns, list(table.rows))
        session.create_table(table.name, data, **({"retroactive": True} if table.retroactive else {}))
    if any(constructs(q)["udf"] for q in case.queries):
        session.create_function("odd_one", lambda x: None if x is None else 3 * x + 1, returns="BIGINT")
    registered: dict[int, Any] = {}
    plan = list(cut(case.events, how.rng(), how.kind == "single"))
    asked = sample_steps(len(plan), most, case.seed)
    for number, event in enumerate(plan):
        before = world.clock
        for part in event if isinstance(event, list) else [event]:
            if not isinstance(part, Update):
                world.apply(part, case.queries)
        feed(session, case, event, registered, world)
        if isinstance(event, Drop):
            if session.options.budget is not None:
                session.drain()  # what waits for a query goes with it
            leave(trace.queries[event.query], registered, case, event.query, world.clock)
        if isinstance(event, Register):
            trace.queries[event.query].pattern = str(registered[event.query].pattern)
        if isinstance(event, Update):
            world.apply(event, case.queries)
        last = number == len(plan) - 1
        if last and session.options.budget is not None:
            session.drain()
        if last or (world.clock != before and number in asked and not quiet):
            for index, query in registered.items():
                listen(trace.queries[index], query, case, index, world.clock, case.schema)
    trace.late = {s.name: len(session.late(s.name)) for s in case.schema.streams}
    trace.clock = world.clock
    return trace


def sample_steps(steps: int, most: int, seed: int) -> set[int]:
    if steps <= most:
        return set(range(steps))
    return set(random.Random(seed).sample(range(steps), most)) | {steps - 1}


def feed(session: Any, case: Case, event: Any, registered: dict[int, Any], world: World) -> None:
    schema = case.schema
    match event:
        case list():
            stream = schema.stream(event[0].stream)
            rows = [a.row for a in event if isinstance(a, Arrival)]
            as_dicts = (case.seed + len(rows)) % 3 == 0
            session.push(
                stream.name,
                dicts(schema, stream.columns, rows) if as_dicts else schema.arrow(stream.columns, rows),
            )
        case Nothing(name):
            stream = schema.stream(name)
            session.push(name, schema.arrow(stream.columns, []))
        case Advance(to):
            session.advance(moment(to) if schema.timestamps else int(to))
        case Update(table, insert, delete, ahead):
            columns = schema.table(table).columns
            at = world.at(event)
            when: dict[str, Any] = {}
            if at != BEGINNING and not (ahead is None and at == world.clock + 1):
                when["at"] = moment(at) if schema.timestamps else at
            for name, rows in (("insert", insert), ("delete", delete)):
                if rows:
                    when[name] = dicts(schema, columns, list(rows))
            session.update_table(table, **when)
        case Register(index):
            query = case.queries[index]
            keep = {"keep": True} if "MONOTONIC" in patterns(query) else {}
            registered[index] = session.query(sql(query), name=f"q{index}", **keep)


def dicts(schema: Schema, columns: Columns, rows: list[Row]) -> list[dict[str, Value]]:
    def value(kind: str, v: Value) -> Value:
        if kind == "TIME":
            return moment(v) if schema.timestamps else int(v)
        return native(kind, v)

    return [{name: value(kind, v) for (name, kind), v in zip(columns, row, strict=True)} for row in rows]


def listen(heard: Heard, query: Any, case: Case, index: int, clock: int, schema: Schema) -> None:
    """One call of `changes()` and, where it means something, of `snapshot()`."""
    asked = case.queries[index]
    heard.changes += read_changes(query.changes(), key_of(asked))
    heard.calls.append((clock, len(heard.changes)))
    if clock > BEGINNING and not isinstance(asked, ToStream):
        heard.snapshots[clock] = rows_of(query.snapshot())


def leave(heard: Heard, registered: dict[int, Any], case: Case, index: int, clock: int) -> None:
    """The last that is heard of a query, and its drop."""
    gone = registered.pop(index)
    listen(heard, gone, case, index, clock, case.schema)
    gone.drop()


def key_of(query: Any) -> Callable[[Row], Value] | None:
    """How to find a row's group key among its columns; None if there is none or it travels as `__key`."""
    if not is_grouped(query):
        return None
    places = key_positions(query)
    return None if places is None else lambda row: tuple(row[p] for p in places)


def read_changes(table: pa.Table, key: Callable[[Row], Value] | None) -> list[Change]:
    for name in ("__op", "__ts", "__exp"):
        if name not in table.column_names:
            raise Breach(f"changes() has no column {name}: {table.column_names}")
    ops, ts, exps = (column(table.column(n)) for n in ("__op", "__ts", "__exp"))
    rows = rows_of(table)
    if "__key" in table.column_names:
        keys = column(table.column("__key"))
    else:
        keys = [None if key is None else key(row) for row in rows]
    return [Change(*parts) for parts in zip(ops, ts, exps, rows, map(frozen, keys), strict=True)]


def frozen(key: Value) -> Value:
    if isinstance(key, dict):
        key = tuple(key.values())
    return tuple(NAN if v != v else v for v in key) if isinstance(key, list | tuple) else key


def rows_of(table: pa.Table) -> list[Row]:
    """The query's own columns, NaN as one object, times as integers."""
    names = [i for i, n in enumerate(table.column_names) if not n.startswith("__")]
    columns = [column(table.column(i)) for i in names]
    return list(zip(*columns, strict=True))


def column(values: pa.ChunkedArray) -> list[Value]:
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us")).cast(pa.int64())
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    found = values.to_pylist()
    return [NAN if v != v else v for v in found] if pa.types.is_floating(values.type) else found
