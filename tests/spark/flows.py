"""Drawn flows: some twenty of the oracle's queries over one world of arrivals, dealt out to Spark in rounds.

What a round is to Spark is told in `Played`: a row is late if it is below the watermark with which its round began, rows of
a round have no order of arrival, an update takes effect just beyond all clocks, a query added later begins after the clock and the
newest row of all streams that it has to wait for. From that `cases` makes cases of the oracle with the same rows in order of time, which need no Spark to be answered.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pyarrow.compute as pc

from tests.oracle import features, schema, streams
from tests.oracle.algebra import Query, Select, SubSource, ToStream
from tests.oracle.algebra import streams as streams_of
from tests.oracle.case import Case
from tests.oracle.model import BEGINNING, World
from tests.oracle.queries import Maker
from tests.oracle.schema import Row, Schema
from tests.oracle.streams import Advance, Arrival, Event, Register, Update
from tests.oracle.twin import answer

QUERIES = 26


@dataclass(frozen=True, slots=True)
class Round:
    """What is told between two steps, and the rows of the step."""

    queries: tuple[int, ...]
    updates: tuple[Update, ...]
    pushes: tuple[tuple[str, tuple[Row, ...]], ...]
    restart: bool
    """The flow is stopped before, and goes on from its checkpoint."""
    cells: int
    """As many as the flow has in this round; they change at restarts only."""

    def rows(self, stream: str) -> list[Row]:
        return [row for name, rows in self.pushes if name == stream for row in rows]


@dataclass(frozen=True, slots=True)
class Flow:
    seed: int
    running: bool
    """Spark runs all the time and cuts batches as it likes; otherwise each round is one batch."""
    schema: Schema
    queries: tuple[Query, ...]
    rounds: tuple[Round, ...]

    @property
    def cells(self) -> tuple[int, ...]:
        """Of each round."""
        return tuple(told.cells for told in self.rounds)


@dataclass
class Played:
    """The rounds as a flow must take them."""

    flow: Flow
    arrivals: list[Arrival] = field(default_factory=list)
    """Accepted, in order of time; equal times by round, then by content."""
    updates: list[tuple[int, Update]] = field(default_factory=list)
    """With the instant from which each holds; `ahead` is None if that is what it is by default."""
    since: dict[int, int] = field(default_factory=dict)
    """The first instant that a query sees."""
    late: dict[str, int] = field(default_factory=dict)
    newest: dict[str, int] = field(default_factory=dict)

    reached: Callable[[set[int], dict[int, int], dict[str, int]], int] | None = None
    """The instant up to which some stream is applied, by queries, their first instants and watermarks; None: all have one clock."""

    def __post_init__(self) -> None:
        schema = self.flow.schema
        told_before: set[int] = set()
        self.late = {s.name: 0 for s in schema.streams}
        watermark = {s.name: BEGINNING for s in schema.streams}
        read = {s.stream for i in self.flow.rounds[0].queries for s in streams_of(self.flow.queries[i])}
        free = BEGINNING
        for told in self.flow.rounds:
            clock = min(watermark[name] for name in read) - 1
            self.since |= self._begins(told_before | set(told.queries), told.queries, watermark, clock)
            free = max(free, clock + 1)
            if self.reached is not None and told_before:
                free = max(free, self.reached(told_before, self.since, watermark) + 1)
            told_before |= set(told.queries)
            for update in told.updates:
                self._update(update, max(clock, BEGINNING), free)
            for stream in schema.streams:
                rows = [Arrival(stream.name, row) for row in in_order(schema, stream, told.rows(stream.name))]
                if stream.name not in read or not rows:
                    continue
                taken = [a for a in rows if a.row[stream.time] >= watermark[stream.name]]
                self.late[stream.name] += len(rows) - len(taken)
                self.arrivals += taken
                newest = max(a.row[stream.time] for a in rows)
                self.newest[stream.name] = max(self.newest.get(stream.name, newest), newest)
                watermark[stream.name] = max(
                    watermark[stream.name], self.newest[stream.name] - int(stream.delay)
                )
        self.arrivals.sort(key=self.time)

    def _begins(
        self, running: set[int], new: tuple[int, ...], watermark: dict[str, int], clock: int
    ) -> dict[int, int]:
        """The first instants that new queries see."""
        read = {i: {s.stream for s in streams_of(self.flow.queries[i])} for i in running}
        found = {}
        for index in new:
            waits, more = read[index], True
            while more:
                grown = waits.union(*(streams for streams in read.values() if streams & waits))
                more, waits = grown != waits, grown
            newest = [self.newest[name] + 1 for name in waits if name in self.newest]
            found[index] = max([BEGINNING, clock + 1, *newest, *(watermark[name] for name in waits)])
        return found

    def _update(self, update: Update, clock: int, free: int) -> None:
        """As `World.at` has it, but not where a cell may have been; deletes name rows as of then, so they stay in order."""
        ahead = 0 if update.ahead is None else update.ahead * int(self.flow.schema.unit)
        before = [at for at, other in self.updates if other.table == update.table]
        at = BEGINNING if clock == BEGINNING else max(clock + 1 + ahead, free, *before)
        default = clock == BEGINNING or (update.ahead is None and at == free)
        self.updates.append((at, replace(update, ahead=None if default else 0)))

    def time(self, arrival: Arrival) -> int:
        return arrival.row[self.flow.schema.stream(arrival.stream).time]

    @property
    def end(self) -> int:
        return max(self.newest.values())

    def cases(self) -> Iterator[tuple[Case, tuple[int, ...]]]:
        """Cases of the oracle, and which of the flow's queries each one's last ones are."""
        for told in self.flow.rounds:
            for since in {self.since[index] for index in told.queries}:
                wanted = tuple(index for index in told.queries if self.since[index] == since)
                yield self._case(wanted), wanted

    def _case(self, wanted: tuple[int, ...]) -> Case:
        since, schema, queries = self.since[wanted[0]], self.flow.schema, self.flow.queries
        events: list[Event] = [Register(0)]
        updates = sorted(self.updates, key=lambda u: u[0])
        if since > BEGINNING:
            # The first query, which reads along, takes the clock to where the others begin.
            wanted = (0, *wanted)
            schema = replace(schema, tables=tuple(self._content(since, t) for t in schema.tables))
            updates = [(at, u) for at, u in updates if at > since]
            events += [Advance(since - 1)]
        events += [Register(i) for i in range(1, len(wanted))]
        arrivals = [a for a in self.arrivals if self.time(a) >= since]
        for at, update in updates:
            come = [a for a in arrivals if self.time(a) < at]
            arrivals = arrivals[len(come) :]
            events += come
            events += [Advance(at - 1)] if at > BEGINNING else []
            events += [replace(update, ahead=None)]
        events += [*arrivals, Advance(self.end)]
        return Case(self.flow.seed, schema, tuple(queries[i] for i in wanted), tuple(events))

    def _content(self, at: int, table: schema.Table) -> schema.Table:
        rows = list(table.rows)
        for when, update in self.updates:
            if update.table == table.name and when <= at:
                rows = [row for row in rows if row not in update.delete] + list(update.insert)
        return replace(table, rows=tuple(rows))


def in_order(schema: Schema, stream: schema.Stream, rows: list[Row]) -> list[Row]:
    """By time, then by content: what a window that counts rows goes by."""
    table = schema.arrow(stream.columns, rows)
    names = dict.fromkeys(["ts", *table.column_names])
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names])
    return [rows[i] for i in order.to_pylist()]


# ---------------------------------------------------------------------- drawing


def draw(seed: int) -> Flow:
    rng = random.Random(f"flow {seed}")
    running = seed % 4 == 3
    enabled = (
        features.ALL
        - (features.RECENT if seed % 3 else frozenset({"drop", "idle"}))
        - {"advance", "register_late"}
        - (frozenset() if seed % 4 == 1 else {"nan"})
    )
    if running:  # whatever the batches: no row is late, and nothing hangs on the order of equal times
        enabled -= {"late", "rows", "partition"}
    drawn = schema.make(rng, enabled)
    events = streams.make(rng, drawn, (), rng.choice((60, 120, 160)), enabled)
    events = tuple(e for e in events if isinstance(e, Arrival | Update))
    count = rng.choice((3, 3, 4))
    cuts = [0, *sorted(rng.sample(range(1, len(events)), count - 1)), len(events)]
    restarts = set(rng.sample(range(1, count), rng.choice((1, 2)))) if seed % 5 in (0, 2) else set()
    cells, rounds = (2, 1, 4, 2)[seed % 4], []
    for number, (a, b) in enumerate(pairwise(cuts)):
        if number in restarts and rng.random() < 0.8:
            cells = rng.choice([n for n in (1, 2, 3, 4) if n != cells])
        rounds.append(cut_round(events[a:b], number in restarts, cells, rng))
    flow = Flow(seed, running, drawn, (), tuple(rounds))
    return with_queries(flow, Maker(rng, drawn, enabled), rng)


def cut_round(events: tuple[Event, ...], restart: bool, cells: int, rng: random.Random) -> Round:
    pushes = [group for group in streams.cut(events, rng) if isinstance(group, list)]
    return Round(
        (),
        tuple(e for e in events if isinstance(e, Update)),
        tuple((group[0].stream, tuple(a.row for a in group)) for group in pushes),
        restart,
        cells,
    )


def with_queries(flow: Flow, maker: Maker, rng: random.Random) -> Flow:
    """Most queries from the first round on, a few later: of those, only what reads streams that are read already."""
    everything = replace(flow, rounds=(replace(flow.rounds[0], queries=(0,)), *flow.rounds[1:]))
    chosen: list[Query] = []
    while len(chosen) < QUERIES:
        for attempt in range(4):
            query = maker.query()
            world = Played(replace(everything, queries=(query,)))._case((0,)) if can_share(query) else None
            if world is not None and (attempt == 3 or tells(world)):
                chosen.append(query)
                break
    late = {i for i in range(QUERIES - 3, QUERIES) if rng.random() < 0.7}
    first = tuple(i for i in range(QUERIES) if i not in late)
    read = {s.stream for i in first for s in streams_of(chosen[i])}
    late = {i for i in late if {s.stream for s in streams_of(chosen[i])} <= read}
    begins = {i: rng.randrange(1, len(flow.rounds)) for i in late}
    rounds = [
        replace(told, queries=tuple(i for i in range(QUERIES) if begins.get(i, 0) == number))
        for number, told in enumerate(flow.rounds)
    ]
    return replace(flow, queries=tuple(chosen), rounds=tuple(rounds))


def can_share(query: Query) -> bool:
    """`SELECT *` over a subquery has columns named as others have them, and with other types."""
    block = query.query if isinstance(query, ToStream) else query
    return not (
        isinstance(block, Select) and block.star and any(isinstance(s, SubSource) for s in block.sources)
    )


def tells(case: Case) -> bool:
    """The query has an answer at one of a few instants."""
    world: World = case.world()
    asked = case.queries[0]
    query = asked.query if isinstance(asked, ToStream) else asked
    times = sorted({e.row[case.schema.stream(e.stream).time] for e in case.events if isinstance(e, Arrival)})
    return any(answer(world, query, BEGINNING, tau) for tau in times[:: max(1, len(times) // 3)][1:4])
