"""Crowds are drawn: streams, queries, what is fed, and where in between queries come, are read, are looked at and go."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from tests.equivalence import crowd_rows
from tests.equivalence.crowd_queries import Asked, Writer
from tests.oracle.schema import Schema
from tests.oracle.streams import Advance, Arrival, Update, cut
from tests.oracle.trace import dicts


@dataclass(frozen=True, slots=True)
class Act:
    """`add`, `drop`, `read` (changes) or `look` (snapshot)."""

    what: str
    query: int


@dataclass(frozen=True, slots=True)
class Push:
    """Rows of one stream, and the same as `push` takes them."""

    arrivals: list[Arrival]
    rows: Any

    @classmethod
    def of(cls, schema: Schema, arrivals: list[Arrival]) -> Push:
        """In turn as dicts, as a table, and as a batch, which may be laid down unread."""
        columns = schema.stream(arrivals[0].stream).columns
        rows = [a.row for a in arrivals]
        form = len(rows) % 3
        table = schema.arrow(columns, rows)
        given = dicts(schema, columns, rows) if form == 0 else table if form == 1 else table.to_batches()[0]
        return cls(arrivals, given)


Feed = Push | Advance | Update
Action = Feed | Act


@dataclass(frozen=True, slots=True)
class Crowd:
    seed: int
    size: int | None
    """Asked for; None: drawn too."""
    schema: Schema
    kept: bool
    functions: bool
    queries: tuple[Asked, ...]
    actions: tuple[Action, ...]


def draw(seed: int, size: int | None = None) -> Crowd:
    rng = random.Random(f"crowd {seed}")
    queries = rng.choice((5, 8, 12, 20, 40))
    schema = crowd_rows.schema(rng)
    calls, kept = rng.random() < 0.4, rng.random() < 0.7
    asked = Writer(rng, schema, calls).crowd(queries if size is None else size)
    events = crowd_rows.events(rng, schema, rng.choice((60, 120, 200)))
    churn = Churn(rng, asked, kept)
    for given in cut(tuple(events), rng):
        churn.around(Push.of(schema, given) if isinstance(given, list) else given)
    return Crowd(seed, size, schema, kept, calls, tuple(churn.asked), tuple(churn.actions))


class Churn:
    """Queries come and go between feeds."""

    def __init__(self, rng: random.Random, asked: list[Asked], kept: bool) -> None:
        self.rng, self.asked, self.kept = rng, asked, kept
        self.waiting = list(range(len(asked)))
        self.standing: list[int] = []
        self.actions: list[Action] = []
        self.last: int | None = None
        """The greatest instant that a row or an `advance` has named."""
        self.pace, self.leaving = rng.choice((0.1, 0.3, 0.8)), rng.choice((0.2, 0.5, 1.0))
        for _ in range(rng.randint(0 if kept else 1, len(asked))):
            self.add()

    def around(self, given: Feed) -> None:
        if self.rng.random() < self.pace:
            if self.kept:
                self.burst()
            elif self.last is not None:
                self.actions.append(Advance(self.last))
                self.burst()
        if self.standing and self.rng.random() < 0.3:
            self.actions.append(Act("read", self.rng.choice(self.standing)))
        if isinstance(given, Update) and not self.kept:
            if self.last is None:
                return  # before anything has come, an update acts from the beginning of time on
            self.actions.append(Advance(self.last))
        self.actions.append(given)
        named = [a.row[0] for a in given.arrivals] if isinstance(given, Push) else []
        named += [given.to] if isinstance(given, Advance) else []
        self.last = max([*named, *([] if self.last is None else [self.last])], default=None)

    def burst(self) -> None:
        """Some come, some go; what goes may be asked for again, at once or later."""
        while self.rng.random() < 0.75:
            match self.rng.choice(("add", "add", "drop", "look")):
                case "add" if self.waiting:
                    self.add()
                case "drop" if self.standing and self.rng.random() < self.leaving:
                    self.drop()
                case "look" if self.standing:
                    self.actions.append(Act("look", self.rng.choice(self.standing)))

    def add(self) -> None:
        self.standing.append(self.waiting.pop(0))
        self.actions.append(Act("add", self.standing[-1]))

    def drop(self) -> None:
        query = self.standing.pop(self.rng.randrange(len(self.standing)))
        self.actions.append(Act("drop", query))
        if self.rng.random() < 0.3:
            self.waiting.insert(self.rng.choice((0, len(self.waiting))), len(self.asked))
            self.asked.append(self.asked[query])
            if self.rng.random() < 0.5 and self.waiting[0] == len(self.asked) - 1:
                self.add()
