"""Runs a large case on the engine through its public API; what is read stays in Arrow."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from ..algebra import patterns, sql
from .course import Advance, Case, Clock, Drop, Look, Push, Register


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


class ClockDiffers(AssertionError):
    """The engine's clock is not where the watermarks put it."""


def record(case: Case) -> list[Heard]:
    import penstock

    session = penstock.connect(**dict(case.options))
    clock = Clock(case)
    heard = [Heard() for _ in case.queries]
    running: dict[int, Any] = {}
    session.execute(";".join(s.ddl(case.timestamps) for s in case.streams))
    for number, event in enumerate(case.events):
        clock.apply(event)
        match event:
            case Push():
                for batch in batches(case, event):
                    session.push(event.stream, batch)
            case Advance(to):
                session.advance(to)
            case Register(index):
                query = case.queries[index]
                keep = {"keep": True} if "MONOTONIC" in patterns(query) else {}
                running[index] = session.query(sql(query), name=f"q{index}", **keep)
                heard[index].pattern, heard[index].since = running[index].pattern, clock.now
            case Drop(index):
                running.pop(index).drop()
            case Look(index, snapshot):
                if number == len(case.events) - 1 and dict(case.options).get("budget"):
                    session.drain()
                look(heard[index], running[index], clock.now, snapshot)
    late = {s.name: session.late(s.name).num_rows for s in case.streams}
    if any(late.values()):
        raise ClockDiffers(f"late rows, and there should be none: {late}")
    return heard


def look(heard: Heard, query: Any, now: int, snapshot: bool) -> None:
    heard.changes.append((now, query.changes()))
    if snapshot:
        heard.snapshots[now] = query.snapshot()
    heard.until = now


def batches(case: Case, event: Push) -> list[pa.Table]:
    stream = case.stream(event.stream)
    start, stop = stream.place(event.start), stream.place(event.stop)
    table = stream.table
    if case.timestamps:
        table = table.set_column(0, "ts", table.column("ts").cast(pa.timestamp("us")))
    count = min(event.batches, max(stop - start, 1))
    edges = [start + (stop - start) * j // count for j in range(count + 1)]
    return [table.slice(a, b - a) for a, b in itertools.pairwise(edges)]
