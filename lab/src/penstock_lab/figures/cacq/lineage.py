"""Throughput against the bits that a tuple carries: a few queries do the work, the others only have a bit.

The others ask for values that never come, all of one attribute, so that no number of them adds a look-up or a result.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.errors import StateError
from penstock_lab.benchmarks.points import Point
from penstock_lab.benchmarks.standing import workload
from penstock_lab.benchmarks.standing.engine import Standing, Written
from penstock_lab.figures.bars import at_least
from penstock_lab.figures.cacq.chart import Chart, Data, Sample, Sizes
from penstock_lab.figures.runner import Connect, Tell

ACTIVE = 32
GROWTH = 0.1
"""Of the ratio of bits: how much the cost of a tuple may grow with them."""
DENSE = 0.5
"""Queries a bit of lineage, at least."""


@dataclass(frozen=True, slots=True)
class Idle:
    """A query that no row is for."""

    number: int

    def sql(self) -> str:
        beyond = workload.DOMAIN + self.number
        return f"SELECT ts, a FROM {workload.STREAM} WHERE f >= {beyond}"


def measure(sizes: Sizes, tell: Tell, connect: Connect) -> Data:
    """Every size by itself, on the same rows."""
    samples: list[Sample] = []
    matched = None
    for bits in sizes.xs:
        tell(f"{bits:,} queries")
        asked: list[Written] = [*workload.queries(ACTIVE), *(Idle(i) for i in range(bits - ACTIVE))]
        standing = Standing(connect(), workload.DECLARATION, workload.STREAM, asked)
        paces = []
        for turn in range(sizes.turns + 1):
            batches = list(workload.batches(1, sizes.rows, start=turn * sizes.rows))
            paces.append(sizes.rows / standing.count(batches))
        found = standing.matched()
        if matched is None:
            matched = found[:ACTIVE]
        if found[ACTIVE:].any() or not np.array_equal(found[:ACTIVE], matched):
            raise StateError(f"{bits:,} queries: the first {ACTIVE} no longer have the same results")
        lineage = standing.lineage()
        samples.append(
            Sample(
                "shared",
                bits,
                tuple(paces[1:]),
                {
                    "lineage_bytes": lineage,
                    "results_per_tuple": float(found.sum()) / ((sizes.turns + 1) * sizes.rows),
                },
            )
        )
    return Data(samples)


def bars(data: Data) -> list[Point]:
    first, last = data.line("shared")[0], data.last("shared")
    slower = first.value / last.value
    wider = last.x / first.x
    name = "cost of a tuple, most bits against fewest, as a share of the ratio of bits"
    kept = last.more["lineage_bytes"]
    return [
        Point(name, slower / wider, GROWTH, "×", more={"slower": slower, "bits": wider}),
        at_least(
            "queries a bit that the session says a tuple carries", last.x / (8 * kept) if kept else 0, DENSE
        ),
    ]


def paper(data: Data) -> list[Point]:
    """Tuples a second that a further bit costs, among few bits and among many."""
    line = data.line("shared")
    few, many = ((a.value - b.value) / (b.x - a.x) for a, b in (line[:2], line[-2:]))
    return [at_least("the curve becomes flatter", abs(few) / max(abs(many), 1e-9), 1)]


def lead(data: Data) -> str:
    first, last = data.line("shared")[0], data.last("shared")
    return f"{first.value / 1e6:.3g} M tuples/s with {first.x:,.0f} bits a tuple, {last.value / 1e6:.3g} M with {last.x:,.0f}"


CHART = Chart(
    "cacq-lineage",
    "throughput against the bits of a tuple",
    "queries that have a bit",
    (("tuples_per_second", "tuples/s"),),
    f"from the fewest bits to the most, a tuple's cost grows by at most {GROWTH:.0%} of what its bits grow by; two bits a query at most",
    "throughput drops as tuples carry more bits, and the slope decreases",
    measure,
    Sizes((32, 128, 512, 2048), rows=1 << 14, turns=5),
    Sizes((32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384), rows=1 << 14, turns=7),
    lead,
    bars,
    paper,
    "the same queries with fewer bits, on the same rows",
)
