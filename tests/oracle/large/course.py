"""A large case: streams, queries, and the course of pushes, `advance` calls, reads, registrations and drops."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from ..algebra import Relation, sql
from ..features import constructs
from .data import Stream

BEGINNING = -(2**62)
LARGE = 50_000
"""Rows from which on a case counts as large."""


@dataclass(frozen=True, slots=True)
class Push:
    """Rows of a stream between two positions, in arrival order, in so many batches."""

    stream: str
    start: int
    stop: int
    batches: int = 1


@dataclass(frozen=True, slots=True)
class Advance:
    to: int


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


Event = Push | Advance | Register | Drop | Look


@dataclass(frozen=True, slots=True)
class Case:
    seed: int
    streams: tuple[Stream, ...]
    queries: tuple[Relation, ...]
    events: tuple[Event, ...]
    options: tuple[tuple[str, Any], ...] = ()
    timestamps: bool = False

    @property
    def rows(self) -> int:
        return sum(len(s.positions) for s in self.streams)

    def stream(self, name: str) -> Stream:
        return next(s for s in self.streams if s.name == name)

    def constructs(self) -> Counter[str]:
        used = sum((constructs(q) for q in self.queries), Counter[str]())
        used["several"] = int(len(self.queries) > 1)
        used["drop"] = sum(isinstance(e, Drop) for e in self.events)
        used["timestamp"] = int(self.timestamps)
        used["string key"] = int(any(s.kind == "STRING" for st in self.streams for s in st.series))
        used["NULL key"] = int(any(s.nulls for st in self.streams for s in st.series))
        for name, value in self.options:
            used[f"{name}={value}"] += 1
        return used

    def texts(self) -> list[str]:
        return [sql(q) for q in self.queries]


@dataclass
class Clock:
    """Watermarks and the clock; every stream is read by some query from the beginning on."""

    case: Case
    now: int = BEGINNING
    watermark: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.watermark = {s.name: BEGINNING for s in self.case.streams}

    def apply(self, event: Event) -> None:
        if isinstance(event, Push):
            stream = self.case.stream(event.stream)
            some = stream.ts[stream.place(event.start) : stream.place(event.stop)]
            if len(some):
                self.watermark[event.stream] = max(
                    self.watermark[event.stream], int(some.max()) - stream.delay
                )
        elif isinstance(event, Advance):
            for name in self.watermark:
                self.watermark[name] = max(self.watermark[name], event.to + 1)
        self.now = max(self.now, min(self.watermark.values()) - 1)
