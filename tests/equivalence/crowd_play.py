"""Goes through a crowd's actions on a session, for all its queries or for one, and writes down what they say."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from heapq import heappop, heappush
from math import copysign
from typing import Any

import penstock
from tests.equivalence.crowd_case import Act, Crowd, Feed, Push
from tests.equivalence.crowd_queries import functions
from tests.equivalence.executions import drawn
from tests.oracle.case import Case
from tests.oracle.model import World
from tests.oracle.replay import Change, Row
from tests.oracle.streams import Advance
from tests.oracle.trace import feed, read_changes, rows_of

ROUTINGS = ("thompson", "tickets", "fixed", "random", "worst")
KEEPER = "SELECT ts FROM {0} [NOW]"


@dataclass
class Said:
    """All that one query has said."""

    refused: str = ""
    pattern: str = ""
    clock: int = 0
    """At its registration."""
    matched: int = 0
    columns: list[str] = field(default_factory=list)
    """Of the query, as `changes()` has them."""
    changes: list[Change] = field(default_factory=list)
    snapshots: list[list[Row]] = field(default_factory=list)


@cache
def knows(**option: Any) -> bool:
    """Whether the engine has this option."""
    try:
        penstock.connect(**option)
    except penstock.StateError:
        return False
    return True


def among(seed: int) -> dict[str, Any]:
    """Options of a session that holds a crowd: answers never depend on them."""
    options = drawn(seed // 4) if seed % 4 == 1 else {}
    routing = ROUTINGS[seed % len(ROUTINGS)]
    if seed % len(ROUTINGS) and knows(routing=routing):
        options = {**options, "routing": routing, "seed": seed}
    return options


def by_itself(query: int) -> dict[str, Any]:
    """Options of a session for one query: in turn one that shares nothing, and a usual one."""
    return {"share": False} if query % 2 == 0 and knows(share=False) else {}


class Session:
    """A session that goes through a crowd's actions for some of its queries."""

    def __init__(self, crowd: Crowd, options: dict[str, Any]) -> None:
        self.crowd = crowd
        self.case = Case(crowd.seed, crowd.schema, (), ())
        self.world = World(crowd.schema)
        self.world.read = {stream.name for stream in crowd.schema.streams}
        self.session = penstock.connect(**options)
        self.session.execute(crowd.schema.ddl())
        for table in crowd.schema.tables:
            data = crowd.schema.arrow(table.columns, list(table.rows))
            self.session.create_table(table.name, data, retroactive=table.retroactive)
        if crowd.functions:
            functions(self.session)
        if crowd.kept:
            for stream in crowd.schema.streams:
                self.session.query(KEEPER.format(stream.name), name=f"keeper_{stream.name}")
        self.said: dict[int, Said] = {}
        self.standing: dict[int, Any] = {}
        self.free: list[int] = []

    def play(self, only: int | None = None) -> dict[int, Said]:
        """What each query says, or only this one."""
        for action in self.crowd.actions:
            if not isinstance(action, Act):
                self.feed(action)
            elif only in (None, action.query):
                self.act(action.what, action.query, always_reads=only is None)
        for query in list(self.standing):
            self.end(query)
        return self.said

    def feed(self, given: Feed) -> None:
        if isinstance(given, Push):
            for arrival in given.arrivals:
                self.world.apply(arrival, ())
            self.session.push(given.arrivals[0].stream, given.rows)
        elif isinstance(given, Advance):
            self.world.apply(given, ())
            feed(self.session, self.case, given, {}, self.world)
        else:  # an update acts on what is beyond the clock, so the world takes it afterwards
            feed(self.session, self.case, given, {}, self.world)
            self.world.apply(given, ())

    def act(self, what: str, query: int, *, always_reads: bool) -> None:
        if what == "add":
            self.add(query)
        elif query in self.standing:
            match what:
                case "drop":
                    self.end(query)
                    heappush(self.free, int(self.standing[query].name[1:]))
                    self.standing.pop(query).drop()
                case "read" if always_reads:
                    self.read(query)
                case "look":
                    self.look(query)

    def add(self, query: int) -> None:
        """Under the least name that is free, so that names come again."""
        asked, said = self.crowd.queries[query], Said()
        self.said[query] = said
        number = heappop(self.free) if self.free else len(self.standing)
        try:
            made = self.session.query(asked.text, name=f"q{number}", keep=asked.keep)
        except penstock.PenstockError as error:
            heappush(self.free, number)
            said.refused = f"{type(error).__name__}: {error}"
            return
        self.standing[query] = made
        said.pattern, said.clock = made.pattern, self.session.clock

    def read(self, query: int) -> None:
        exact = self.crowd.queries[query].exact
        table = self.standing[query].changes()
        self.said[query].columns = [name for name in table.column_names if not name.startswith("__")]
        for c in read_changes(table, None):
            row = (*c.row, c.key)
            self.said[query].changes.append(replace(c, row=signed(row) if exact else row, key=None))

    def look(self, query: int) -> None:
        asked, said = self.crowd.queries[query], self.said[query]
        if said.pattern != "MONOTONIC" or asked.keep:
            rows = rows_of(self.standing[query].snapshot())
            said.snapshots.append([signed(r) for r in rows] if asked.exact else rows)

    def end(self, query: int) -> None:
        self.read(query)
        self.look(query)
        self.said[query].matched = self.standing[query].matched


def signed(row: Row) -> Row:
    """-0.0 is not 0.0 here."""
    return tuple("-0.0" if isinstance(v, float) and v == 0 and copysign(1, v) < 0 else v for v in row)
