"""Throughput against the number of sources that as many queries as before are spread over, each a range over one attribute of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock_lab.benchmarks.points import Point
from penstock_lab.benchmarks.runs import now
from penstock_lab.benchmarks.standing import workload
from penstock_lab.figures.bars import at_least
from penstock_lab.figures.cacq.chart import Chart, Data, Sample, Sizes
from penstock_lab.figures.runner import Connect, Tell

QUERIES = 1000
LINE = "shared"


def texts(sources: int, queries: int, seed: int = 7) -> list[str]:
    """So many queries over `s0`, `s1`, …"""
    random = np.random.default_rng(seed)
    made = []
    for _ in range(queries):
        source = int(random.integers(0, sources))
        one = workload.a_range(int(random.integers(0, len(workload.ATTRIBUTES))), random)
        made.append(f"SELECT ts, a FROM s{source} WHERE {one.sql()}")
    return made


class Run:
    """A session over so many sources."""

    def __init__(self, sources: int, session: Any, queries: int) -> None:
        self.session = session
        self.names = [f"{workload.STREAM}{i}" for i in range(sources)]
        for name in self.names:
            declared = workload.DECLARATION.replace(f"STREAM {workload.STREAM} ", f"STREAM {name} ")
            session.execute(declared)
        self.queries = [session.query(text) for text in texts(sources, queries)]

    def count(self, batches: Sequence[pa.RecordBatch]) -> float:
        """Seconds for a push to every source and for reading all counts."""
        began = now()
        for name, batch in zip(self.names, batches, strict=True):
            self.session.push(name, batch)
        self.session.advance(int(batches[0].column("ts")[-1].as_py()))
        self.matched()
        return now() - began

    def matched(self) -> int:
        return sum(query.matched for query in self.queries)


def measure(sizes: Sizes, tell: Tell, connect: Connect) -> Data:
    """In a turn all sources together get as many rows as one alone would."""
    samples = []
    for sources in sizes.xs:
        run, rows = Run(sources, connect(), QUERIES), sizes.rows // sources
        took, results = [], []
        for turn in range(sizes.turns + 1):
            tell(f"{sources} sources: turn {turn} of {sizes.turns}")
            batches = [
                next(iter(workload.batches(1, rows, start=turn * rows, seed=source)))
                for source in range(sources)
            ]
            before = run.matched()
            took.append(run.count(batches))
            results.append(run.matched() - before)
        pairs = list(zip(took, results, strict=True))[1:]
        more: dict[str, float | None] = {
            "results_per_second": sum(r for _, r in pairs) / sum(t for t, _ in pairs)
        }
        samples.append(Sample(LINE, sources, tuple(rows * sources / t for t, _ in pairs), more))
    return Data(samples)


def bars(data: Data) -> list[Point]:
    first, last = data.line(LINE)[0], data.last(LINE)
    return [at_least("tuples/s, most sources against one", last.value / first.value, 0.5)]


def paper(data: Data) -> list[Point]:
    first, last = data.line(LINE)[0], data.last(LINE)
    ratio = (last.more["results_per_second"] or 0) / (first.more["results_per_second"] or 1)
    return [at_least("results/s fall somewhat, to half at least", ratio, 0.5)]


def lead(data: Data) -> str:
    first, last = data.line(LINE)[0], data.last(LINE)
    return (
        f"{QUERIES:,} queries over one source take {first.value / 1e6:.3g} M tuples/s, over {last.x:.0f} sources"
        f" {last.value / 1e6:.3g} M"
    )


CHART = Chart(
    "cacq-sources",
    "throughput against the number of sources",
    "sources",
    (("tuples_per_second", "tuples/s"), ("results_per_second", "results/s")),
    "as many queries spread over more sources take at least half of the tuples a second that they take of one",
    "additional sources decrease the throughput of results somewhat",
    measure,
    Sizes((1, 4, 10), rows=1 << 16, turns=3),
    Sizes(tuple(range(1, 11)), rows=1 << 16, turns=5),
    lead,
    bars,
    paper,
    "as many queries over one source",
    scales=("linear", "linear"),
)
