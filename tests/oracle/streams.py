"""Arrivals: one global sequence of rows, `advance` calls, table updates and registrations.

Time runs forward with ties, bursts and gaps; a row may come out of order within its stream's delay
(accepted) or beyond it (late). A *cut* groups neighbouring rows of one stream into pushes; by the
watermark rule no cut may change an answer.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.oracle import algebra
from tests.oracle import schema as schemas
from tests.oracle.algebra import Query
from tests.oracle.schema import Row, Schema, Table


@dataclass(frozen=True, slots=True)
class Arrival:
    stream: str
    row: Row


@dataclass(frozen=True, slots=True)
class Advance:
    to: int


@dataclass(frozen=True, slots=True)
class Update:
    """`at` None means the default, clock + 1; otherwise `ahead` ticks later than that."""

    table: str
    insert: tuple[Row, ...]
    delete: tuple[Row, ...]
    ahead: int | None = None


@dataclass(frozen=True, slots=True)
class Register:
    query: int


@dataclass(frozen=True, slots=True)
class Drop:
    """Only of a query whose streams others read: the clock does not depend on it."""

    query: int


@dataclass(frozen=True, slots=True)
class Nothing:
    """A push without rows."""

    stream: str


Event = Arrival | Advance | Update | Register | Drop | Nothing

ORIGINS = (0, 0, 0, -40, 1000, -(10**12), 10**15, 2**60, -(2**60))
MOMENTS = (1_704_067_200, -30, 0, -2_208_988_800, 64_060_588_800)  # 2024, 1969, 1970, 1900, 4000


def make(
    rng: random.Random, schema: Schema, queries: tuple[Query, ...], size: int, enabled: frozenset[str]
) -> tuple[Event, ...]:
    """A world of `size` rows; the first query is registered before anything happens."""
    read = {source.stream for query in queries for source in algebra.streams(query)}
    draw = _Drawing(rng, schema, "nan" in enabled, read, "idle" in enabled)
    events: list[Event] = [Register(0)]
    live = [0]
    if schema.tables and queries and rng.random() < 0.3:
        events.append(draw.update())
    waiting = list(range(1, len(queries)))
    if "register_late" not in enabled:
        events += [Register(q) for q in waiting]
        live += waiting
        waiting = []
    last = 0
    for _ in range(size):
        draw.step()
        events.append(draw.arrival("late" in enabled))
        if rng.random() < 0.12 and "advance" in enabled:
            events.append(draw.advance())
        if schema.tables and rng.random() < 0.12:
            events.append(draw.update())
        if waiting and rng.random() < 0.08:
            live.append(waiting.pop(0))
            events.append(Register(live[-1]))
        if "drop" in enabled and len(live) > 1 and rng.random() < 0.03:
            gone = rng.choice(live)
            others = {s.stream for q in live if q != gone for s in algebra.streams(queries[q])}
            if {s.stream for s in algebra.streams(queries[gone])} <= others:
                live.remove(gone)
                events.append(Drop(gone))
        if "idle" in enabled and rng.random() < 0.02:
            events.append(Nothing(rng.choice(schema.streams).name))
        last = draw.now
    events += [Register(q) for q in waiting]
    for step in sorted(rng.sample(range(1, 60), 5)):
        events.append(Advance(draw.at(last + step)))
        if schema.tables and queries and rng.random() < 0.1:
            events.append(draw.update())
        if "idle" in enabled and rng.random() < 0.1:  # nothing comes, and time stands still
            events += [
                Nothing(rng.choice(schema.streams).name),
                events[-1] if isinstance(events[-1], Advance) else Advance(draw.at(last + step)),
            ]
    return tuple(events)


@dataclass
class _Drawing:
    rng: random.Random
    schema: Schema
    nan: bool
    read: set[str]
    pauses: bool
    """Whether a stream may pause for a while."""
    origin: int = 0
    now: int = 0
    pace: tuple[int, ...] = (0, 0, 1)
    keys: int = 4
    held: dict[str, set[Row]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rng = self.rng
        self.origin = rng.choice(MOMENTS if self.schema.timestamps else ORIGINS)
        self.pace = rng.choice(
            ((0, 0, 1), (0, 0, 0, 1), (0, 0, 1, 2), (1,), (0, 0, 0, 0, 5), (0, 0, 0, 1, 3))
        )
        self.keys = rng.choice((2, 3, 3, 5))
        self.nulls = rng.choice((0.0, 0.05, 0.25))
        self.late = rng.choice((0.0, 0.05, 0.2))
        self.weights = [rng.choice((2, 4, 8)) if s.name in self.read else 0.5 for s in self.schema.streams]
        self.held = {t.name: set(t.rows) for t in self.schema.tables}
        self.idle = rng.randrange(len(self.weights)) if self.pauses and rng.random() < 0.25 else None
        self.rests = (rng.randint(0, 20), rng.randint(20, 60)) if self.idle is not None else (0, 0)
        """The stream that pauses, and after how many rows of all it does."""
        self.count = 0

    def at(self, tick: int) -> int:
        return (self.origin + tick) * int(self.schema.unit)

    def step(self) -> None:
        self.now += self.rng.choice(self.pace) if self.rng.random() > 0.03 else self.rng.randint(10, 40)

    def arrival(self, late: bool) -> Arrival:
        weights = list(self.weights)
        self.count += 1
        if (
            self.idle is not None
            and self.rests[0] <= self.count < self.rests[1]
            and sum(weights) > weights[self.idle]
        ):
            weights[self.idle] = 0
        stream = self.rng.choices(self.schema.streams, weights)[0]
        slack = stream.delay // int(self.schema.unit)
        tick = self.now - self.rng.randint(0, slack)
        if late and self.rng.random() < self.late:
            tick -= self.rng.randint(1, 6)
        row = schemas.row(
            self.rng, stream.columns, self.keys, self.at(tick), self.nulls, 0.15 if self.nan else 0.0
        )
        return Arrival(stream.name, row)

    def advance(self) -> Advance:
        """Mostly to just before the rows still to come; sometimes past them, and mostly they follow."""
        slack = max(stream.delay for stream in self.schema.streams) // int(self.schema.unit)
        tick = self.now + self.rng.choice((-3 - slack, -1 - slack, -1 - slack, -1, 0, 1, 2, 8))
        if tick >= self.now - slack and self.rng.random() < 0.9:
            self.now = tick + 1 + slack
        return Advance(self.at(tick))

    def update(self) -> Update:
        table: Table = self.rng.choice(self.schema.tables)
        held = self.held[table.name]
        gone = self.rng.sample(sorted(held, key=str), min(len(held), self.rng.randint(0, 2)))
        fresh = {
            schemas.row(self.rng, table.columns, 4) for _ in range(self.rng.randint(0 if gone else 1, 2))
        } - held
        held.difference_update(gone)
        held.update(fresh)
        ahead = self.rng.choice((None, None, 0, 3))
        return Update(table.name, tuple(sorted(fresh, key=str)), tuple(gone), ahead)


def cut(
    events: tuple[Event, ...], rng: random.Random | None, one_by_one: bool = False
) -> Iterator[Event | list[Arrival]]:
    """Pushes (lists of arrivals of one stream) and the other events between them.

    Without `rng` neighbours are pushed together as far as can be; with it, cut at random.
    """
    group: list[Arrival] = []
    chance = 0.0 if rng is None else rng.choice((0.1, 0.4, 0.8))
    for event in events:
        joins = isinstance(event, Arrival) and group and event.stream == group[0].stream
        if group and (not joins or one_by_one or (rng is not None and rng.random() < chance)):
            yield group
            group = []
        if isinstance(event, Arrival):
            group.append(event)
        else:
            yield event
    if group:
        yield group
