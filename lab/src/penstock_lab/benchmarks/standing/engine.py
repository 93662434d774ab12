"""The engine through its public interface: counting, delivering, queries that come and go. CPU seconds, as everywhere."""

from __future__ import annotations

import gc
import json
import os
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock_lab.benchmarks.runs import now

Take = Callable[[int, pa.Table], None]


class Written(Protocol):
    """Anything that can be said in SQL."""

    def sql(self) -> str: ...


class Standing:
    """A session that is given one stream and many queries."""

    def __init__(self, session: Any, declaration: str, stream: str, queries: Sequence[Written]) -> None:
        self.session = session
        self.session.execute(declaration)
        self.stream = stream
        began = now()
        self.queries = [self.session.query(q.sql(), name=f"q{i}") for i, q in enumerate(queries)]
        self.registering = (now() - began) / len(queries)
        """Seconds a query."""

    def step(self, batch: pa.RecordBatch) -> None:
        """Push, and say that it is complete: the last row's instant would wait for the next push."""
        self.session.push(self.stream, batch)
        self.session.advance(last(batch))

    def matched(self) -> NDArray[np.int64]:
        return np.array([q.matched for q in self.queries], np.int64)

    def count(self, batches: Iterable[pa.RecordBatch]) -> float:
        """Seconds for these pushes and for reading every query's count after them."""
        began = now()
        for batch in batches:
            self.step(batch)
        self.matched()
        return now() - began

    def deliver(self, batches: Iterable[pa.RecordBatch], take: Take | None = None) -> tuple[float, int]:
        """Seconds for these pushes and for taking every query's changes after each, and how many rows these were."""
        took, rows = 0.0, 0
        for batch in batches:
            began = now()
            self.step(batch)
            if take is None:
                for query in self.queries:
                    rows += query.changes().num_rows
            else:
                for number, query in enumerate(self.queries):
                    take(number, query.changes())
            took += now() - began
        return took, rows

    def drain(self) -> None:
        """Let go of what nobody has taken."""
        for query in self.queries:
            query.changes()

    def lineage(self) -> int | None:
        """Bytes that a tuple of the stream carries for the queries; None from an engine that keeps none."""
        try:
            told = json.loads(self.session.explain(format="json"))
        except TypeError:
            return None
        return int(told["streams"][self.stream]["lineage_bytes"])


@dataclass(slots=True)
class Latencies:
    """Milliseconds of each, in CPU time and by the clock."""

    cpu: list[float] = field(default_factory=list)
    clock: list[float] = field(default_factory=list)

    def time(self, work: Callable[[], Any]) -> Any:
        began, began_clock = now(), time.perf_counter()
        made = work()
        self.cpu.append((now() - began) * 1e3)
        self.clock.append((time.perf_counter() - began_clock) * 1e3)
        return made

    @property
    def median(self) -> float:
        return statistics.median(self.cpu)

    @property
    def p99(self) -> float:
        return float(np.quantile(self.cpu, 0.99))


@dataclass(frozen=True, slots=True)
class Churn:
    """What adding and dropping took, and what the pushes took that came after nothing, an addition, or a removal."""

    add: Latencies
    drop: Latencies
    still: Latencies
    disturbed: Latencies

    @property
    def delay(self) -> float:
        """How much longer than usual the longest push after a change took."""
        return max(self.disturbed.cpu) - self.still.median


def churn(standing: Standing, queries: Sequence[Written], batches: Iterable[pa.RecordBatch]) -> Churn:
    """A push, a query more, a push, that query less, a push; for every query. Counts are read, so that nothing waits."""
    found = Churn(Latencies(), Latencies(), Latencies(), Latencies())
    waiting = iter(batches)
    witness = standing.queries[0]

    def push() -> None:
        standing.step(next(waiting))
        _ = witness.matched

    for query in queries:
        text = query.sql()
        found.still.time(push)
        made = found.add.time(partial(standing.session.query, text, name="extra"))
        found.disturbed.time(push)
        found.drop.time(made.drop)
        found.disturbed.time(push)
    return found


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of the process after the first tenth of the cycles and after all, and of the session's state."""

    before: int
    after: int
    state_before: int
    state_after: int
    cycles: int
    """Between the two."""


def cycles(
    standing: Standing,
    queries: Iterable[Written],
    count: int,
    batches: Iterable[pa.RecordBatch],
    every: int = 100,
) -> Memory:
    """Queries that come and go, one after the other, with a push now and then whose changes are taken."""
    waiting, given = iter(batches), iter(queries)

    def go(rounds: int) -> tuple[int, int]:
        for i in range(rounds):
            made = standing.session.query(next(given).sql(), name="extra")
            if i % every == 0:
                standing.step(next(waiting))
                standing.drain()
            made.drop()
        gc.collect()
        return resident(), int(standing.session.engine.size_bytes)

    standing.drain()
    tenth = max(1, count // 10)
    before, state_before = go(tenth)
    after, state_after = go(count - tenth)
    return Memory(before, after, state_before, state_after, count - tenth)


def resident() -> int:
    """Bytes of this process that lie in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def last(batch: pa.RecordBatch) -> int:
    """The instant of its last row."""
    return int(batch.column("ts")[-1].as_py())
