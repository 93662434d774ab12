"""A large case: streams, tables, queries, and the course of pushes, updates, reads, registrations and drops."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.oracle.algebra import Query, Select, SetOp, blocks, sql
from tests.oracle.algebra import streams as streams_of
from tests.oracle.features import constructs, depth
from tests.oracle.large.data import Stream, Table
from tests.oracle.scalar import Call

BEGINNING = -(2**62)
END = 2**62
LARGE = 50_000
"""Rows from which on a case counts as large."""
AMPLE = 10**12
"""A budget that is never spent: answers are complete at every instant."""

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Push:
    """Rows of a stream between two positions, in arrival order, in so many batches; there may be none."""

    stream: str
    start: int
    stop: int
    batches: int = 1


@dataclass(frozen=True, slots=True)
class Advance:
    to: int


@dataclass(frozen=True, slots=True)
class Update:
    """Rows of a table between two positions come, others go; `ahead` of the default instant, or at it (None)."""

    table: str
    insert: tuple[int, int]
    delete: tuple[int, int]
    ahead: int | None = None


@dataclass(frozen=True, slots=True)
class Register:
    query: int


@dataclass(frozen=True, slots=True)
class Drop:
    query: int


@dataclass(frozen=True, slots=True)
class Look:
    """Read the changes of a query, and with `snapshot` its answer."""

    query: int
    snapshot: bool = True


Event = Push | Advance | Update | Register | Drop | Look


@dataclass(frozen=True, slots=True)
class Case:
    seed: int
    streams: tuple[Stream, ...]
    queries: tuple[Query, ...]
    events: tuple[Event, ...]
    options: tuple[tuple[str, Any], ...] = ()
    timestamps: bool = False
    tables: tuple[Table, ...] = ()
    cells: int = 0
    """Engines that share the work; 0: one engine without cells."""

    @property
    def rows(self) -> int:
        return sum(len(s.positions) for s in self.streams)

    @property
    def budget(self) -> int | None:
        return dict(self.options).get("budget")

    @property
    def waits(self) -> bool:
        """Rows may wait for work: answers are complete only when everything has been drained."""
        return self.budget is not None and self.budget < AMPLE

    def stream(self, name: str) -> Stream:
        return next(s for s in self.streams if s.name == name)

    def table(self, name: str) -> Table:
        return next(t for t in self.tables if t.name == name)

    def constructs(self) -> Counter[str]:
        """Constructs used by the queries, the data, the events and the options."""
        used = sum((constructs(q) for q in self.queries), Counter[str]())
        used += self._keys() + self._events()
        used["several"] = int(len(self.queries) > 1)
        read = Counter(name for q in self.queries for name in {s.stream for s in streams_of(q)})
        used["shared stream"] = int(max(read.values()) > 1)
        used["timestamp"] = int(self.timestamps)
        texts = [s for stream in self.streams for s in stream.series]
        used["NULL key"] = int(any(s.nulls for s in texts))
        used["zipf"] = int(any("zipf(" in s.text for s in texts))
        used["disorder"] = int(any(stream.delay for stream in self.streams))
        used[f"depth {max(depth(q) for q in self.queries)}"] = 1
        for name, value in self.options:
            used[f"{name}={value}" if name != "budget" else "budget" if self.waits else "ample budget"] += 1
        used["cells"] = self.cells
        return used

    def _keys(self) -> Counter[str]:
        """Types by which rows are joined, grouped or compared."""
        used: Counter[str] = Counter()
        for block in (b for query in self.queries for b in blocks(query)):
            if isinstance(block, SetOp):
                used.update(f"set of {kind}" for kind in block.types)
            elif isinstance(block, Select):
                used[f"{len(block.sources)} sources"] += 1
                compared = block.conjuncts + (block.anti.on if block.anti else ())
                for one in compared:
                    if isinstance(one, Call) and one.function == "=":
                        used[f"join by {one.arguments[0].type}"] += 1
                used.update(f"group by {key.type}" for key in block.keys or ())
                used.update(f"distinct {kind}" for kind in block.types if block.distinct)
        return used

    def _events(self) -> Counter[str]:
        used: Counter[str] = Counter()
        world, begun = World(self), False
        for before, event in zip((None, *self.events), self.events, strict=False):
            match event:
                case Push(_, start, stop):
                    used["empty push"] += start == stop
                    begun = True
                case Register():
                    used["register_late"] += begun
                case Drop():
                    used["drop"] += 1
                case Advance():
                    used["idle"] += event == before
                case Update(_, _, _, ahead):
                    used["update"] += 1
                    used["update ahead"] += ahead is not None
                    used["update before rows"] += not begun
            world.apply(event)
        used["late"] = sum(int(rows.late) for rows in world.came.values())
        return used

    def texts(self) -> list[str]:
        return [sql(q) for q in self.queries]


@dataclass
class Came:
    """What has come of a stream."""

    watermark: int
    on_time: Array
    """For each row that has come, whether it was not late."""
    late: int = 0


@dataclass
class World:
    """Watermarks, the clock, late rows and versions of table rows; every stream is read from the beginning on."""

    case: Case
    now: int = BEGINNING
    came: dict[str, Came] = field(default_factory=dict)
    held: dict[str, tuple[Array, Array]] = field(default_factory=dict)
    """For each row of a table, from when until when it is there."""
    updated: dict[str, int] = field(default_factory=dict)
    """The latest instant from which an update of a table holds: updates of one table are kept in order."""

    def __post_init__(self) -> None:
        for stream in self.case.streams:
            self.came[stream.name] = Came(BEGINNING, np.zeros(len(stream.positions), bool))
        for table in self.case.tables:
            since, until = (np.full(len(table.positions), END) for _ in range(2))
            since[: table.place(table.first)] = BEGINNING
            self.held[table.name] = since, until

    def apply(self, event: Event) -> None:
        match event:
            case Push():
                self._push(event)
            case Advance(to):
                for came in self.came.values():
                    came.watermark = max(came.watermark, to + 1)
            case Update(name, insert, delete):
                at, table = self.at(event), self.case.table(name)
                since, until = self.held[name]
                self.updated[name] = at
                since[table.place(insert[0]) : table.place(insert[1])] = at
                until[table.place(delete[0]) : table.place(delete[1])] = at
        self.now = max(self.now, min(came.watermark for came in self.came.values()) - 1)

    def _push(self, event: Push) -> None:
        """A row is late if it is below the watermark that the rows before it make."""
        stream, came = self.case.stream(event.stream), self.came[event.stream]
        start, stop = stream.place(event.start), stream.place(event.stop)
        if start == stop:
            return
        marks = np.maximum.accumulate(stream.ts[start:stop] - stream.delay)
        before = np.maximum(np.concatenate([[came.watermark], marks[:-1]]), came.watermark)
        on_time = stream.ts[start:stop] >= before
        came.on_time[start:stop] = on_time
        came.late += int((~on_time).sum())
        came.watermark = max(came.watermark, int(marks[-1]))

    def at(self, update: Update) -> int:
        """When an update takes effect: clock + 1 by default, never before an earlier update."""
        if self.now == BEGINNING:
            return BEGINNING
        return max(self.now + 1 + (update.ahead or 0), self.updated.get(update.table, BEGINNING))
