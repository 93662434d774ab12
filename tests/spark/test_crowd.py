"""A crowd of queries on Spark, added and dropped between batches, some under names that others had: each says what it says
alone in an embedded session.

Some rounds run without end: there the clock is just before the newest row, so a round ends with a row of every stream at one
instant T. What is dropped then has been told of everything before T, and what is added begins after T. Then the flow is stopped and
goes on from its checkpoint, and rounds with `availableNow` end at T themselves. A query in two stages is a step
behind while the flow runs, so only selections are dropped there.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import penstock
from tests.equivalence import crowd_rows
from tests.equivalence.compare import unlike
from tests.equivalence.crowd_case import Act, Action, Crowd, Push
from tests.equivalence.crowd_play import KEEPER, Session, by_itself, signed
from tests.equivalence.crowd_queries import Asked, Writer, functions
from tests.oracle import schema as schemas
from tests.oracle.replay import Change
from tests.oracle.schema import Row, Schema, Table
from tests.oracle.streams import Advance, Arrival, Update
from tests.oracle.trace import dicts, read_changes

from .flows import in_order

RUNNING, ENDING = 2, 2
"""Rounds of a flow that runs, and after the restart rounds that end by themselves."""
QUERIES, FIRST = 60, 40


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
    names: dict[int, str] = field(default_factory=dict)
    """Of the queries that are there."""
    free: list[int] = field(default_factory=list)
    told: dict[int, list[pa.Table]] = field(default_factory=dict)
    handle: Any = None

    def connected(self) -> Any:
        """A session that is told everything anew, as a program that starts again would."""
        schema = self.crowd.schema
        session = penstock.connect(self.spark, checkpoint=str(self.folder), cells=2)
        session.execute(schema.ddl())
        for table in schema.tables:
            rows = schema.arrow(table.columns, list(table.rows))
            session.create_table(table.name, rows, retroactive=table.retroactive)
        functions(session)
        for stream in schema.streams:
            session.query(KEEPER.format(stream.name), name=f"keeper_{stream.name}")
        for query, name in self.names.items():
            session.query(self.crowd.queries[query].text, name=name)
        session.foreach_batch(self.take)
        return session

    def take(self, frame: Any, _: int) -> None:
        table = frame.toArrow()
        for query, name in self.names.items():
            self.told.setdefault(query, []).append(table.filter(pc.equal(table.column("__query"), name)))

    def run(self) -> None:
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
                    session = self.connected()
            elif isinstance(action, Update):
                columns = self.crowd.schema.table(action.table).columns
                session.update_table(
                    action.table, insert=dicts(self.crowd.schema, columns, list(action.insert))
                )
            elif isinstance(action, Act):
                self.act(session, action)
        self.handle.stop()

    def step(self, session: Any, clock: int, *, running: bool) -> None:
        if running:
            self.handle.processAllAvailable()
        else:
            self.handle = session.start(trigger={"availableNow": True})
            self.handle.awaitTermination()
        assert session.clock == clock

    def act(self, session: Any, action: Act) -> None:
        if action.what == "drop":
            name = self.names.pop(action.query)
            heappush(self.free, int(name[1:]))
            session.queries[name].drop()
        else:
            name = f"q{heappop(self.free) if self.free else len(self.names)}"
            session.query(self.crowd.queries[action.query].text, name=name)
            self.names[action.query] = name

    def changes(self, query: int, columns: list[str]) -> list[Change]:
        found: list[Change] = []
        for table in self.told.get(query, []):
            if table.num_rows:
                found += read_changes(table.select(["__op", "__ts", "__exp", *columns]), None)
        return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
def test_a_query_says_on_spark_among_others_what_it_says_alone(
    quick: SparkSession, tmp_path: Path, seed: int
) -> None:
    crowd = draw(seed)
    there = Flow(quick, crowd, tmp_path / "checkpoint")
    there.run()
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
        telling += bool(expected)
    assert len(added) > QUERIES
    assert telling > len(added) / 3
