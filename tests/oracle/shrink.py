"""Makes a failing case small: fewer queries, fewer events, less query; greedy, until nothing more can go."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from tests.oracle.algebra import Query, Relation, Select, SetOp, SubSource, ToStream, streams, tables
from tests.oracle.case import Case
from tests.oracle.scalar import Agg, Call, Expr, walk
from tests.oracle.schema import Schema
from tests.oracle.streams import Arrival, Drop, Event, Nothing, Register, Update

C = TypeVar("C")


def smallest(case: Case, fails: Callable[[Case], bool], seconds: float = 20.0) -> Case:
    """The smallest case found in the given time that still fails."""
    return least(case, fails, _steps, seconds)


def least(case: C, fails: Callable[[C], bool], steps: Callable[[C], Iterator[C]], seconds: float) -> C:
    """Whatever is to become small: `steps` gives what is a little smaller, the boldest first."""
    deadline = time.monotonic() + seconds
    shrunk = True
    while shrunk and time.monotonic() < deadline:
        shrunk = False
        for smaller in steps(case):
            if time.monotonic() > deadline:
                break
            if fails(smaller):
                case, shrunk = smaller, True
                break
    return case


def _steps(case: Case) -> Iterator[Case]:
    if (bare := _without_unread(case)) is not None:
        yield bare
    if len(case.queries) > 1:
        for i in range(len(case.queries)):
            yield only(case, i)
        for i in range(1, len(case.queries)):
            yield without(case, i)
    size = len(case.events)
    chunk = size // 2
    while chunk >= 1:
        for start in range(0, size, chunk):
            kept = tuple(
                e
                for i, e in enumerate(case.events)
                if isinstance(e, Register | Drop) or not start <= i < start + chunk
            )
            if len(kept) < size and consistent(case.schema, kept):
                yield replace(case, events=kept)
        chunk //= 2
    for i, query in enumerate(case.queries):
        for simpler in simplified(query):
            yield replace(case, queries=(*case.queries[:i], simpler, *case.queries[i + 1 :]))
    for i, table in enumerate(case.schema.tables):
        for j in range(len(table.rows)):
            fewer = replace(table, rows=table.rows[:j] + table.rows[j + 1 :])
            drawn = replace(
                case.schema, tables=(*case.schema.tables[:i], fewer, *case.schema.tables[i + 1 :])
            )
            if consistent(drawn, case.events):
                yield replace(case, schema=drawn)


def _without_unread(case: Case) -> Case | None:
    """The case without streams and tables that no query reads."""
    used = {s.stream for q in case.queries for s in streams(q)} | {
        t.table for q in case.queries for t in tables(q)
    }
    kept = Schema(
        tuple(s for s in case.schema.streams if s.name in used),
        tuple(t for t in case.schema.tables if t.name in used),
        case.schema.timestamps,
    )
    if kept == case.schema:
        return None
    names = {Arrival: "stream", Nothing: "stream", Update: "table"}
    events = tuple(e for e in case.events if type(e) not in names or getattr(e, names[type(e)]) in used)
    return replace(case, schema=kept, events=events)


def only(case: Case, index: int) -> Case:
    """The case with one query, registered first: without a query the clock stands still."""
    events = tuple(e for e in case.events if not isinstance(e, Register | Drop))
    return replace(case, queries=(case.queries[index],), events=(Register(0), *events))


def without(case: Case, index: int) -> Case:
    """The case without one query."""
    events: list[Event] = []
    for event in case.events:
        if not isinstance(event, Register | Drop):
            events.append(event)
        elif event.query != index:
            events.append(replace(event, query=event.query - (event.query > index)))
    return replace(case, queries=case.queries[:index] + case.queries[index + 1 :], events=tuple(events))


def consistent(schema: Schema, events: tuple[Event, ...]) -> bool:
    """Every deleted table row is there, no inserted one is."""
    held = {t.name: set(t.rows) for t in schema.tables}
    for event in events:
        if isinstance(event, Update):
            rows = held[event.table]
            if not set(event.delete) <= rows or set(event.insert) & rows - set(event.delete):
                return False
            rows.difference_update(event.delete)
            rows.update(event.insert)
    return True


def simplified(query: Query, root: bool = True) -> Iterator[Query]:
    """Queries with one thing less."""
    if isinstance(query, ToStream):
        yield query.query
        for inner in simplified(query.query):
            if not isinstance(inner, ToStream):
                yield replace(query, query=inner)
        return
    if isinstance(query, SetOp):
        yield from (query.left, query.right)
        yield from (replace(query, left=q) for q in _relations(query.left))
        yield from (replace(query, right=q) for q in _relations(query.right))
        return
    yield from _select(query, root)


def _relations(query: Relation) -> Iterator[Relation]:
    for inner in simplified(query, root=False):
        if not isinstance(inner, ToStream):
            yield inner


def _select(query: Select, root: bool) -> Iterator[Select]:
    for name in ("where", "having"):
        parts: tuple[Expr, ...] = getattr(query, name)
        for i, part in enumerate(parts):
            yield replace(query, **{name: parts[:i] + parts[i + 1 :]})
            for simpler in _expressions(part):
                yield replace(query, **{name: (*parts[:i], simpler, *parts[i + 1 :])})
    for i, on in enumerate(query.on):
        for j in range(len(on or ())):
            fewer = (on or ())[:j] + (on or ())[j + 1 :]
            yield replace(query, on=(*query.on[:i], fewer, *query.on[i + 1 :]))
    if query.anti:
        yield replace(query, anti=None)
        on = query.anti.on
        for i in range(len(on)):
            if len(on) > 1:
                yield replace(query, anti=replace(query.anti, on=on[:i] + on[i + 1 :]))
    if query.is_outer:
        yield replace(query, kinds=())
        for i, kind in enumerate(query.kinds):
            if kind != "inner":
                yield replace(query, kinds=(*query.kinds[:i], "inner", *query.kinds[i + 1 :]))
    if query.distinct:
        yield replace(query, distinct=False)
    if root and len(query.items) > 1 and not query.star:
        for i in range(len(query.items)):
            kept = query.items[:i] + query.items[i + 1 :]
            if query.keys != () or any(isinstance(part, Agg) for item in kept for part in walk(item)):
                yield replace(query, items=kept)
    if query.keys is None and not query.star:
        for i, item in enumerate(query.items):
            for simpler in _expressions(item):
                yield replace(query, items=(*query.items[:i], simpler, *query.items[i + 1 :]))
    for i, source in enumerate(query.sources):
        if isinstance(source, SubSource):
            for inner in _relations(source.query):
                if inner.types == source.query.types:
                    yield replace(
                        query,
                        sources=(
                            *query.sources[:i],
                            replace(source, query=inner, name=""),
                            *query.sources[i + 1 :],
                        ),
                    )
    if query.anti and isinstance(query.anti.source, SubSource):
        for inner in _relations(query.anti.source.query):
            if inner.types == query.anti.source.query.types:
                yield replace(
                    query, anti=replace(query.anti, source=replace(query.anti.source, query=inner, name=""))
                )


def _expressions(expr: Expr) -> Iterator[Expr]:
    """Parts of the expression that could stand in its place."""
    if isinstance(expr, Call):
        yield from (a for a in expr.arguments if a.type == expr.type)
