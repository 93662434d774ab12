"""Watermarks, clock and lateness, exactly as the contract has them; one event at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.oracle.algebra import Query, streams
from tests.oracle.schema import Row, Schema
from tests.oracle.streams import Advance, Arrival, Event, Register, Update

BEGINNING = -(2**62)
"""Stands for minus infinity: before every instant."""
END = 2**62


@dataclass(slots=True)
class Version:
    """A table row and the instants [since, until) in which the table holds it."""

    row: Row
    since: int
    until: int = END


@dataclass(slots=True)
class World:
    """What has come so far."""

    schema: Schema
    watermark: dict[str, int] = field(default_factory=dict)
    clock: int = BEGINNING
    read: set[str] = field(default_factory=set)
    accepted: dict[str, list[Row]] = field(default_factory=dict)
    late: dict[str, list[Row]] = field(default_factory=dict)
    tables: dict[str, list[Version]] = field(default_factory=dict)
    updated: dict[str, int] = field(default_factory=dict)
    """The latest `at` given for each table: updates of one table are kept in order."""
    registered: dict[int, int] = field(default_factory=dict)
    """The clock at each query's registration."""

    def __post_init__(self) -> None:
        for stream in self.schema.streams:
            self.watermark[stream.name] = BEGINNING
            self.accepted[stream.name] = []
            self.late[stream.name] = []
        for table in self.schema.tables:
            self.tables[table.name] = [Version(row, BEGINNING) for row in table.rows]

    def apply(self, event: Event, queries: tuple[Query, ...]) -> None:
        match event:
            case Arrival(name, row):
                stream = self.schema.stream(name)
                ts = row[stream.time]
                (self.late if ts < self.watermark[name] else self.accepted)[name].append(row)
                self.watermark[name] = max(self.watermark[name], ts - stream.delay)
            case Advance(to):
                for name in self.watermark:
                    self.watermark[name] = max(self.watermark[name], to + 1)
            case Update(table, insert, delete, _):
                at = self.at(event)
                self.updated[table] = at
                versions = self.tables[table]
                for row in delete:
                    next(v for v in versions if v.row == row and v.until == END).until = at
                versions.extend(Version(row, at) for row in insert)
            case Register(query):
                self.registered[query] = self.clock
                self.read |= {s.stream for s in streams(queries[query])}
        if self.read:
            self.clock = max(self.clock, min(self.watermark[s] for s in self.read) - 1)
            for name in self.read:
                self.watermark[name] = max(self.watermark[name], self.clock + 1)

    def at(self, update: Update) -> int:
        """When an update takes effect: clock + 1 by default, never before an earlier update."""
        if self.clock == BEGINNING:
            return BEGINNING
        ahead = 0 if update.ahead is None else update.ahead * int(self.schema.unit)
        return max(self.clock + 1 + ahead, self.updated.get(update.table, BEGINNING))


def play(schema: Schema, queries: tuple[Query, ...], events: tuple[Event, ...]) -> World:
    """The world after all events."""
    world = World(schema)
    for event in events:
        world.apply(event, queries)
    return world
