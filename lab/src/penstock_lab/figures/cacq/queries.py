"""Results a second against the number of queries: all shared, and every query by itself as long as that is bearable."""

from __future__ import annotations

from penstock.errors import StateError
from penstock_lab.benchmarks.points import Point
from penstock_lab.benchmarks.standing import workload
from penstock_lab.benchmarks.standing.engine import Standing
from penstock_lab.figures.bars import at_least
from penstock_lab.figures.cacq.chart import Chart, Data, Sample, Sizes, options
from penstock_lab.figures.runner import Connect, Tell

SHARED, APART = "shared", "each by itself"
BUDGET = 1 << 24
"""Rows times queries in a push."""


def measure(sizes: Sizes, tell: Tell, connect: Connect) -> Data:
    """Both in turn, on the same rows; whoever takes longer than the cap for a push is not asked for more queries."""
    samples: list[Sample] = []
    running = [SHARED, APART]
    for count in sizes.xs:
        tell(f"{count:,} queries")
        asked = workload.queries(count)
        rows = min(sizes.rows, max(1024, BUDGET // count))
        runs = {
            name: Standing(
                connect(**options(share=name == SHARED)), workload.DECLARATION, workload.STREAM, asked
            )
            for name in running
        }
        took: dict[str, list[float]] = {name: [] for name in running}
        for turn in range(sizes.turns + 1):
            batches = list(workload.batches(1, rows, start=turn * rows))
            for name, run in runs.items():
                tell(f"{count:,} queries: {name}, turn {turn} of {sizes.turns}")
                took[name].append(run.count(batches))
        samples += _samples(count, rows, runs, took)
        running = [name for name in running if min(took[name]) <= sizes.cap]
        if not running:
            break
    return Data(samples)


def _samples(count: int, rows: int, runs: dict[str, Standing], took: dict[str, list[float]]) -> list[Sample]:
    found = {name: run.matched().tolist() for name, run in runs.items()}
    if len({tuple(matched) for matched in found.values()}) > 1:
        raise StateError(f"{count:,} queries have other results when they are shared")
    made = []
    for name, times in took.items():
        results = sum(found[name]) / len(times)
        more: dict[str, float | None] = {
            "tuples_per_second": rows / sorted(times[1:])[len(times[1:]) // 2],
            "lineage_bytes": runs[name].lineage() if name == SHARED else None,
        }
        made.append(Sample(name, count, tuple(results / t for t in times[1:]), more))
    return made


def bars(data: Data) -> list[Point]:
    pairs = data.both(SHARED, APART)
    mine, theirs = pairs[-1]
    alone = data.both(SHARED, APART)[0]
    return [
        at_least(f"results/s, shared against each by itself, {mine.x:,.0f} queries", mine.against(theirs), 2),
        at_least("results/s, shared against each by itself, 1 query", alone[0].against(alone[1]), 0.9),
    ]


def paper(data: Data) -> list[Point]:
    shared, apart = (max(s.value for s in data.line(name)) for name in (SHARED, APART))
    return [
        at_least("the most that each by itself reaches is half of what sharing does", shared / apart, 2),
        at_least(
            "sharing keeps its pace for the most queries, against its best",
            data.last(SHARED).value / shared,
            0.5,
        ),
    ]


def lead(data: Data) -> str:
    shared, apart = data.last(SHARED), data.last(APART)
    return (
        f"{shared.x:,.0f} queries share one flow at {shared.value / 1e6:,.3g} M results/s"
        f" ({shared.more['tuples_per_second'] or 0:,.0f} tuples/s); each by itself {apart.x:,.0f} reach"
        f" {apart.value / 1e6:,.3g} M"
    )


CHART = Chart(
    "cacq-queries",
    "results a second against the number of queries",
    "queries",
    (("results_per_second", "results/s"), ("tuples_per_second", "tuples/s")),
    "where each query by itself is still bearable, sharing gives at least twice as many results a second; of a single query it gives"
    " nine tenths at least",
    "one eddy a query peaks near half of what one for all delivers, which goes on to scale",
    measure,
    Sizes((1, 16, 128, 1024), rows=1 << 16, turns=3),
    Sizes((1, 4, 16, 64, 256, 1024, 4096, 10_000), rows=1 << 16, turns=5),
    lead,
    bars,
    paper,
    "the same queries, every one by itself (share=False), on the same rows, in turn",
)
