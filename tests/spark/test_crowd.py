"""A crowd of queries on Spark, added and dropped between batches, some under names that others had: each says what it says
alone in an embedded session.

Some rounds run without end: there the clock is just before the newest row, so a round ends with a row of every stream at one
instant T. What is dropped then has been told of everything before T, and what is added begins after T. Then the flow is stopped and
goes on from its checkpoint, by other policies, and rounds with `availableNow` end at T themselves. A query in two stages is a step
behind while the flow runs, so only selections are dropped there.

Compared are changes, `matched`, and the answers of queries with a view as they were when their last round ended by itself.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.engine.engine import Engine
from penstock.plan.policies import JOINS, ROUTINGS, Policies
from penstock.spark.checkpoint import Store
from penstock.spark.partition import Cell
from tests.equivalence import crowd_rows
from tests.equivalence.compare import unlike
from tests.equivalence.crowd_case import Act, Action, Crowd, Push
from tests.equivalence.crowd_play import KEEPER, Session, by_itself, signed
from tests.equivalence.crowd_queries import Asked, Writer, functions
from tests.oracle import schema as schemas
from tests.oracle.check import same
from tests.oracle.replay import Change
from tests.oracle.schema import Row, Schema, Table
from tests.oracle.streams import Advance, Arrival, Update
from tests.oracle.trace import dicts, read_changes, rows_of
from tests.spark.flows import in_order

RUNNING, ENDING = 2, 2
"""Rounds of a flow that runs, and after the restart rounds that end by themselves."""
QUERIES, FIRST = 42, 28
CELLS = 2


def draw(seed: int) -> Crowd:
    rng = random.Random(f"crowd on Spark {seed}")
    schema = crowd_rows.schema(rng)
    schema = replace(schema, streams=tuple(replace(s, delay=0) for s in schema.streams))
    asked = Writer(rng, schema, functions=True, own=True).crowd(QUERIES)
    actions: list[Action] = [Act("add", q) for q in range(FIRST)]
    standing, waiting = list(range(FIRST)), list(range(FIRST, QUERIES))
    for number, pushes in enumerate(rounds(rng, schema)):
        running = number < RUNNING
        last = max(a.row[0] for push in pushes for a in push.arrivals)
        actions += [*pushes, Advance(last - 1 if running else last)]
        leaving = [q for q in standing if not running or is_selection(asked[q])]
        for query in rng.sample(leaving, min(len(leaving), 6)):
            standing.remove(query)
            actions.append(Act("drop", query))
            if rng.random() < 0.4:  # the same again
                waiting.append(len(asked))
                asked.append(asked[query])
        actions += [Advance(last)] if running else [update(rng, table) for table in schema.tables]
        if number == RUNNING + ENDING - 1:
            break
        for query in rng.sample(waiting, min(len(waiting), 7)):
            waiting.remove(query)
            standing.append(query)
            actions.append(Act("add", query))
    return Crowd(seed, QUERIES, schema, True, True, tuple(asked), tuple(actions))


def options(seed: int) -> tuple[Policies, Policies]:
    """Of the session, and of the one that goes on: only trees go on as trees, for a checkpoint holds what trees keep."""
    rng = random.Random(f"policies on Spark {seed}")
    first = Policies(seed % 2 == 1, rng.choice(ROUTINGS), rng.choice(JOINS), rng.randrange(99))
    joins = [join for join in JOINS if (join == "tree") == (first.join == "tree")]
    return first, Policies(first.share, rng.choice(ROUTINGS), rng.choice(joins), rng.randrange(99))


def update(rng: random.Random, table: Table) -> Update:
    """One row more, from the next instant on."""
    row = table.rows[0] if table.rows else None
    while row is None or row in table.rows:
        row = schemas.row(rng, table.columns, 3, nulls=0.0)
    return Update(table.name, (row,), ())


def is_selection(asked: Asked) -> bool:
    return asked.exact and " AS t0" not in asked.text and "NOT EXISTS" not in asked.text


def rounds(rng: random.Random, schema: Schema) -> Iterator[list[Push]]:
    """Rows after all of the round before, in the order in which Spark takes equal times; none are late."""
    events = [e for e in crowd_rows.events(rng, schema, 300) if isinstance(e, Arrival)]
    each, before = len(events) // (RUNNING + ENDING), None
    for begin in range(0, each * (RUNNING + ENDING), each):
        rows = [a for a in events[begin : begin + each] if before is None or a.row[0] > before]
        before = max((a.row[0] for a in rows), default=before or 0) + int(schema.unit)
        pushes = []
        for stream in schema.streams:
            own: list[Row] = [a.row for a in rows if a.stream == stream.name]
            own.append((before, *(None for _ in stream.columns[1:])))
            pushes.append(Push.of(schema, [Arrival(stream.name, r) for r in in_order(schema, stream, own)]))
        yield pushes


@dataclass
class Flow:
    """The crowd as Spark runs it."""

    spark: SparkSession
    crowd: Crowd
    folder: Path
    policies: Policies
    names: dict[int, str] = field(default_factory=dict)
    """Of the queries that are there."""
    free: list[int] = field(default_factory=list)
    told: dict[int, list[pa.Table]] = field(default_factory=dict)
    matched: dict[int, int] = field(default_factory=dict)
    """As sessions said when a query or they themselves ended."""
    shown: dict[int, pa.Table] = field(default_factory=dict)
    """The answer at the end of the last round that ended by itself."""
    handle: Any = None
    ends_by_itself: bool = False
    functions: dict[str, Any] = field(default_factory=dict)

    def connected(self) -> Any:
        """A session that is told everything anew, as a program that starts again would."""
        schema = self.crowd.schema
        session = penstock.connect(
            self.spark, checkpoint=str(self.folder), cells=CELLS, **asdict(self.policies)
        )
        session.execute(schema.ddl())
        for table in schema.tables:
            rows = schema.arrow(table.columns, list(table.rows))
            session.create_table(table.name, rows, retroactive=table.retroactive)
        functions(session)
        for stream in schema.streams:
            session.query(KEEPER.format(stream.name), name=f"keeper_{stream.name}")
        for query in self.names:
            self.register(session, query)
        session.foreach_batch(self.take)
        return session

    def register(self, session: Any, query: int) -> None:
        asked = self.crowd.queries[query]
        made = session.query(asked.text, name=self.names[query])
        if query % 3 == 0 and (made.pattern != "MONOTONIC" or asked.keep):
            made.foreach_batch(lambda frame, _: self.show(query, frame), mode="view")

    def show(self, query: int, frame: Any) -> None:
        if self.ends_by_itself:
            self.shown[query] = frame.toArrow()

    def take(self, frame: Any, _: int) -> None:
        table = frame.toArrow()
        for query, name in self.names.items():
            self.told.setdefault(query, []).append(table.filter(pc.equal(table.column("__query"), name)))

    def run(self, later: Policies) -> None:
        session, done = self.connected(), 0
        pushed = False
        for action in self.crowd.actions:
            if isinstance(action, Push):
                if done < RUNNING and self.handle is None:
                    self.handle = session.start(trigger={"processingTime": "0 seconds"})
                session.push(action.arrivals[0].stream, action.rows)
                pushed = True
            elif isinstance(action, Advance) and pushed:
                self.step(session, action.to, running=done < RUNNING)
                pushed, done = False, done + 1
                if done == RUNNING:
                    self.handle.stop()
                    self.count(session, self.names)
                    self.policies = later
                    session = self.connected()
            elif isinstance(action, Update):
                columns = self.crowd.schema.table(action.table).columns
                session.update_table(
                    action.table, insert=dicts(self.crowd.schema, columns, list(action.insert))
                )
            elif isinstance(action, Act):
                self.act(session, action)
        self.handle.stop()
        self.count(session, self.names)
        self.functions = session.flow.functions

    def count(self, session: Any, queries: Iterable[int]) -> None:
        for query in queries:
            here = session.queries[self.names[query]].matched
            self.matched[query] = self.matched.get(query, 0) + here

    def engines(self) -> list[Engine]:
        """Those of the cells, as a host takes them up from the checkpoint."""
        store = Store(self.folder)
        cells = [Cell(store, n, CELLS, self.functions) for n in range(CELLS)]
        for cell in cells:
            cell._catch_up(store.numbers("steps")[-1])
        return [stage.engine for cell in cells for stage in (cell._lower, cell._upper)]

    def step(self, session: Any, clock: int, *, running: bool) -> None:
        if running:
            self.handle.processAllAvailable()
        else:
            self.ends_by_itself = True
            self.handle = session.start(trigger={"availableNow": True})
            self.handle.awaitTermination()
        assert session.clock == clock

    def act(self, session: Any, action: Act) -> None:
        if action.what == "drop":
            self.count(session, [action.query])
            name = self.names.pop(action.query)
            heappush(self.free, int(name[1:]))
            session.queries[name].drop()
        else:
            self.names[action.query] = f"q{heappop(self.free) if self.free else len(self.names)}"
            self.register(session, action.query)

    def changes(self, query: int, columns: list[str]) -> list[Change]:
        found: list[Change] = []
        for table in self.told.get(query, []):
            if table.num_rows:
                found += read_changes(table.select(["__op", "__ts", "__exp", *columns]), None)
        return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_a_query_says_on_spark_among_others_what_it_says_alone(
    quick: SparkSession, tmp_path: Path, seed: int
) -> None:
    crowd = draw(seed)
    first, later = options(seed)
    assert first != later
    there = Flow(quick, crowd, tmp_path / "checkpoint", first)
    there.run(later)
    telling = 0
    added = [a.query for a in crowd.actions if isinstance(a, Act) and a.what == "add"]
    for query in added:
        alone = Session(crowd, by_itself(query)).play(query)[query]
        exact = crowd.queries[query].exact
        expected = [replace(change, row=change.row[:-1]) for change in alone.changes]
        got = there.changes(query, alone.columns)
        if exact:
            got = [replace(change, row=signed(change.row)) for change in got]
        told = unlike(got, expected, () if exact else ("DOUBLE",))
        assert not told, f"seed {seed}, query {query}: {crowd.queries[query].text}\n{told}"
        assert there.matched[query] == alone.matched, crowd.queries[query].text
        if query in there.shown:
            rows = rows_of(there.shown[query])
            rows = [signed(r) for r in rows] if exact else rows
            types = () if exact else ("DOUBLE",)
            assert same(alone.snapshots[-1], rows, types), crowd.queries[query].text
        telling += bool(expected)
    assert len(added) > QUERIES
    assert telling > len(added) / 3
    assert len(there.shown) > len(added) / 8
    assert sum(table.num_rows > 0 for table in there.shown.values()) >= 3
    engines = there.engines()
    assert all(engine.policies == later for engine in engines)
    assert any(engine.queries for engine in engines)
    for engine in engines:
        assert (engine.sharing is not None) == later.share
        for current in () if engine.sharing is None else engine.sharing.currents.values():
            assert current.eddy._cheap._name == later.routing
