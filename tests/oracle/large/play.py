"""Runs a large case on the engine through its public API; what is read stays in Arrow."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tests.oracle.algebra import ToStream, patterns, sql
from tests.oracle.check import in_cells
from tests.oracle.large.course import BEGINNING, Advance, Case, Drop, Look, Push, Register, Update, World
from tests.oracle.large.data import Rows


@dataclass
class Heard:
    """What one query has returned."""

    pattern: str = ""
    since: int = 0
    until: int = 0
    """The clock when it was last read."""
    snapshots: dict[int, pa.Table] = field(default_factory=dict)
    changes: list[tuple[int, pa.Table]] = field(default_factory=list)
    """(clock, table) at each call of `changes()`."""


@dataclass
class Trace:
    """What the queries have returned, and what had come by then."""

    queries: list[Heard]
    world: World


class ClockDiffers(AssertionError):
    """The engine's clock is not where the watermarks put it, or other rows are late."""


def record(case: Case) -> Trace:
    import penstock

    session = penstock.connect(**dict(case.options))
    if case.cells:
        session.engine = in_cells(case.cells, dict(case.options), session.catalog)  # type: ignore[assignment]
    return Player(case, session).play()


class Player:
    """One case in one session."""

    def __init__(self, case: Case, session: Any) -> None:
        self.case, self.session = case, session
        self.world = World(case)
        self.heard = [Heard() for _ in case.queries]
        self.running: dict[int, Any] = {}

    def play(self) -> Trace:
        case, session = self.case, self.session
        session.execute(";".join(s.ddl(case.timestamps) for s in case.streams))
        for table in case.tables:
            content = table.table.slice(0, table.place(table.first))
            session.create_table(table.name, content, retroactive=table.retroactive)
        for event in case.events:
            self.feed(event)
        late = {s.name: session.late(s.name).num_rows for s in case.streams}
        expected = {name: came.late for name, came in self.world.came.items()}
        if late != expected:
            raise ClockDiffers(f"late rows: expected {expected}, got {late}")
        return Trace(self.heard, self.world)

    def feed(self, event: Any) -> None:
        case, session, world = self.case, self.session, self.world
        if isinstance(event, Update):
            self.update(event)
        world.apply(event)
        match event:
            case Push():
                for batch in batches(case, event):
                    session.push(event.stream, batch)
            case Advance(to):
                session.advance(to)
            case Register(index):
                query = case.queries[index]
                kept = not isinstance(query, ToStream) and "MONOTONIC" in patterns(query)
                running = session.query(sql(query), name=f"q{index}", **({"keep": True} if kept else {}))
                self.running[index] = running
                self.heard[index].pattern, self.heard[index].since = running.pattern, world.now
            case Drop(index):
                self.running.pop(index).drop()
            case Look():
                self.look(event)

    def update(self, event: Update) -> None:
        table, at = self.case.table(event.table), self.world.at(event)
        given = {name: between(table, *rows) for name, rows in parts(event).items()}
        when = {} if at == BEGINNING or (event.ahead is None and at == self.world.now + 1) else {"at": at}
        some = {name: rows for name, rows in given.items() if rows.num_rows}
        if some:
            self.session.update_table(event.table, **some, **when)

    def look(self, event: Look) -> None:
        heard, query, now = self.heard[event.query], self.running[event.query], self.world.now
        if now > BEGINNING and self.session.clock != now:
            raise ClockDiffers(f"the clock is {self.session.clock}, and should be {now}")
        if self.case.waits:
            self.session.drain()
        heard.changes.append((now, query.changes()))
        if event.snapshot and now > BEGINNING and not isinstance(self.case.queries[event.query], ToStream):
            heard.snapshots[now] = query.snapshot()
        heard.until = now


def parts(event: Update) -> dict[str, tuple[int, int]]:
    return {"insert": event.insert, "delete": event.delete}


def between(rows: Rows, start: int, stop: int) -> pa.Table:
    """The rows that are there between two positions of all."""
    a, b = rows.place(start), rows.place(stop)
    return rows.table.slice(a, b - a)


def batches(case: Case, event: Push) -> list[pa.Table]:
    table = between(case.stream(event.stream), event.start, event.stop)
    if case.timestamps:
        table = table.set_column(0, "ts", table.column("ts").cast(pa.timestamp("us")))
    size = table.num_rows
    count = min(event.batches, max(size, 1))
    edges = [size * j // count for j in range(count + 1)]
    return [table.slice(a, b - a) for a, b in itertools.pairwise(edges)]
