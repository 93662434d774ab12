"""One query under several executions at one window: windows filled, then measured in turn on the same rows.

CPU time     of `advance` alone: the rows have been read and wait, so that what is timed is the query, its kept answer and the
             making of changes. Reading them, which no execution can change, is timed beside it.
In turn      every turn gives each execution the same rows, one after the other, so that a busy machine slows all alike;
             executions are compared turn by turn (`against`).
Setting      windows are filled with everything brought up to date once a step; what is timed has the paper's interval.
The cap      an execution that scans its whole answer at every arrival takes minutes for a few thousand tuples. It is timed on
             the first of them, as many as fit the cap, and takes the rest of the turn a step at a time.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import penstock
from penstock.errors import StateError
from penstock_lab.figures import plan_as_written, queries, trace
from penstock_lab.figures.trace import Trace

Tell = Callable[[str], None]
Connect = Callable[..., Any]

PROBE, PROBES = 32, 4
"""Time units that tell how many fit the cap, also the fewest that are timed; and how often it is tried."""


@dataclass(frozen=True, slots=True)
class Series:
    """A line in a figure: a query and how it is run.

    `eager` is the interval in time units; None: once a step. `written`: by its plan as written, not by the one chosen for it.
    """

    name: str
    query: str
    expiry: str
    eager: int | None = 1
    partitions: int | None = None
    written: bool = False


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured: time units in a turn, and CPU seconds after which an execution is no longer timed in it."""

    windows: tuple[int, ...]
    turns: int
    units: int = 4_000
    seconds: float = 0.4


FULL = Extent((2_000, 6_000, 20_000, 60_000, 200_000), turns=11)
QUICK = Extent((2_000, 20_000), turns=5)


@dataclass(slots=True)
class Measure:
    """What one execution took at one window. Times are in CPU milliseconds per 1,000 tuples, one a turn."""

    series: Series
    window: int
    cpu: list[float] = field(default_factory=list)
    reading: list[float] = field(default_factory=list)
    visits: int = 0
    tuples: int = 0
    """Those timed; `visits` are of these, `results` of all in the turns."""
    results: int = 0
    taken_back: int = 0
    """Results that ended before the time they were announced with."""
    fed: int = 0
    state_bytes: int = 0
    answer_bytes: int = 0

    @property
    def median(self) -> float:
        return statistics.median(self.cpu)

    @property
    def visits_per_tuple(self) -> float:
        return self.visits / self.tuples

    @property
    def results_per_tuple(self) -> float:
        return self.results / self.fed

    @property
    def premature(self) -> float:
        """Of the results that began in the turns, the share that were taken back in them."""
        return self.taken_back / max(self.results, 1)

    def against(self, other: Measure, *, reading: bool = False) -> float:
        """How many times the CPU time of `other`: the median of the turns."""
        mine, theirs = ((m.cpu, m.reading if reading else [0.0] * len(m.cpu)) for m in (self, other))
        pairs = zip(*mine, *theirs, strict=True)
        return statistics.median((a + b) / (c + d) for a, b, c, d in pairs)


class Run:
    """One execution: a session with the query, and what has been measured of it."""

    def __init__(self, series: Series, window: int, extent: Extent, connect: Connect) -> None:
        text = queries.text(series.query, window)
        chosen = {} if series.partitions is None else {"partitions": series.partitions}
        self.session = connect(expiry=series.expiry, **chosen)
        self.session.execute(trace.DECLARATIONS)
        if series.written:
            self.query = plan_as_written.register(self.session, text, series.query)
        else:
            self.query = self.session.query(text, name=series.query)
        self.links = [f"link{i}" for i in range(trace.LINKS) if f"link{i} " in text]
        self.measure = Measure(series, window)
        self.extent = extent
        self.units = extent.units

    def fill(self, rows: Trace, until: int) -> None:
        """Everything up to there, as fast as it goes."""
        self._apply(rows, 0, until)
        self.query.changes()

    def warm_up(self, rows: Trace, start: int, stop: int) -> None:
        """A turn that is not counted: it is seen how many time units fit the cap, by the quickest of some probes."""
        self._tune(self.measure.series.eager)
        probed = start + PROBES * PROBE
        took = min(self._apply(rows, at, at + PROBE)[0] for at in range(start, probed, PROBE))
        fit = int(PROBE * self.extent.seconds / max(took, 1e-9))
        self.units = max(PROBE, min(self.extent.units, fit))
        if self.units < self.extent.units:
            # Who keeps up stays as it is to be measured: an answer that is kept otherwise has to be laid out anew.
            self._tune(None)
        self._apply(rows, probed, stop)
        self.query.changes()

    def turn(self, rows: Trace, start: int, stop: int) -> None:
        """Measure what fits the cap, then take the rest."""
        measure, middle = self.measure, min(start + self.units, stop)
        self._tune(measure.series.eager)
        visits, before = self.query.visits, self.query.matched
        took, reading, tuples = self._apply(rows, start, middle)
        measure.visits += self.query.visits - visits
        measure.cpu.append(took / tuples * 1e6)
        measure.reading.append(reading / tuples * 1e6)
        measure.tuples += tuples
        measure.state_bytes = max(measure.state_bytes, self.query.state_bytes)
        measure.answer_bytes = max(measure.answer_bytes, self.query.answer_bytes)
        rest = 0
        if middle < stop:
            self._tune(None)
            _, _, rest = self._apply(rows, middle, stop)
        measure.fed += tuples + rest
        measure.results += self.query.matched - before
        measure.taken_back += pc.sum(pc.equal(self.query.changes()["__op"], "-")).as_py() or 0

    def _tune(self, eager: int | None) -> None:
        self.session.tune(eager=eager)

    def _apply(self, rows: Trace, start: int, stop: int) -> tuple[float, float, int]:
        """CPU seconds of the query and of reading its rows, and how many these were."""
        batches = {link: batch for link, batch in rows.between(start, stop).items() if link in self.links}
        began = time.process_time()
        for link, batch in batches.items():
            self.session.push(link, batch)
        read = time.process_time()
        self.session.advance(stop - 1)
        done = time.process_time()
        return done - read, read - began, sum(batch.num_rows for batch in batches.values())


def load(series: Sequence[Series], connect: Connect = penstock.connect) -> None:
    """Compile and load every kernel that these executions use, so that none is waited for while time is taken."""
    measure(series, 200, Extent((200,), turns=1, units=400), lambda _: None, connect)


def measure(
    series: Sequence[Series], window: int, extent: Extent, tell: Tell, connect: Connect = penstock.connect
) -> list[Measure]:
    """All executions at one window, in turn; they must agree on the answer and on how many results there were."""
    filled = 2 * window
    """A window after the first has run out nothing reminds of the beginning, when every tuple was the first of its kind."""
    rows = trace.make(filled + (extent.turns + 1) * extent.units)
    runs = [Run(s, window, extent, connect) for s in series]
    for run in runs:
        tell(f"window {window:,}: filling for {run.measure.series.name}")
        run.fill(rows, filled)
    for turn in range(extent.turns + 1):
        start = filled + turn * extent.units
        for run in runs:
            what = f"turn {turn} of {extent.turns}" if turn else "warming up"
            tell(f"window {window:,}: {what}: {run.measure.series.name}")
            (run.turn if turn else run.warm_up)(rows, start, start + extent.units)
    agree(runs)
    return [run.measure for run in runs]


def agree(runs: Sequence[Run]) -> None:
    """All executions of a query give one answer, in one number of results; anything else is a fault of the engine."""
    first, *others = runs
    answer = _ordered(first.query.snapshot())
    for run in others:
        found = _ordered(run.query.snapshot())
        pair = f"{first.measure.series.name} and {run.measure.series.name}"
        at = f"at window {run.measure.window:,}"
        if not found.equals(answer):
            raise StateError(
                f"{pair} differ {at}: answers of {answer.num_rows:,} and {found.num_rows:,} rows that are not the same"
            )
        if run.query.matched != first.query.matched:
            raise StateError(
                f"{pair} differ {at}: {first.query.matched:,} and {run.query.matched:,} results so far"
            )


def _ordered(table: pa.Table) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in table.column_names]).combine_chunks()
