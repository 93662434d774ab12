"""Filters that a tuple visits, by how the next one is chosen; beside it what the best, the worst and a random choice are expected to take."""

from __future__ import annotations

from penstock.errors import StateError
from penstock_lab.benchmarks.points import Point
from penstock_lab.benchmarks.standing.engine import Standing
from penstock_lab.figures.bars import at_least, at_most
from penstock_lab.figures.cacq import routing_report
from penstock_lab.figures.cacq.chart import Chart, Data, Sample, Sizes, options
from penstock_lab.figures.cacq.filters import (
    DECLARATION,
    GROWING,
    PASSING,
    STREAM,
    at_random,
    batches,
    best_and_worst,
    expected,
)
from penstock_lab.figures.runner import Connect, Tell

POLICIES = ("thompson", "tickets", "fixed", "random", "worst")
OPTIMUM, ANY, WORST = "optimum (computed)", "random (computed)", "worst (computed)"


def measure(sizes: Sizes, tell: Tell, connect: Connect) -> Data:
    """Every policy on the same rows; what it learns in the first turn is not counted."""
    samples = []
    for policy in POLICIES:
        tell(policy)
        standing = Standing(connect(**options(routing=policy)), DECLARATION, STREAM, GROWING)
        visits, wanted = [], [0] * len(GROWING)
        before = (0, 0)
        for turn in range(sizes.turns + 1):
            given = list(batches(1, sizes.rows, start=turn * sizes.rows))
            standing.count(given)
            wanted = [n + sum(q.matches(b) for b in given) for n, q in zip(wanted, GROWING, strict=True)]
            now = routing_report.of_stream(standing.session, STREAM)
            visits.append((now.visits - before[0]) / (now.rows - before[1]))
            before = now.visits, now.rows
        if standing.matched().tolist() != wanted:
            raise StateError(f"routing {policy!r} gives other results")
        samples.append(Sample(policy, 0, tuple(visits[1:]), {"first_turn": visits[0]}))
    best, worst = best_and_worst(GROWING, PASSING)
    for name, value in ((OPTIMUM, best), (ANY, expected(GROWING, PASSING, at_random)), (WORST, worst)):
        samples.append(Sample(name, 0, (value,)))
    return Data(samples)


def _visits(data: Data, name: str) -> float:
    return data.last(name).value


def bars(data: Data) -> list[Point]:
    best = _visits(data, OPTIMUM)
    return [
        at_most("visits with Thompson sampling against the optimum", _visits(data, "thompson") / best, 1.1),
        at_most("visits with tickets against the optimum", _visits(data, "tickets") / best, 1.5),
    ]


def paper(data: Data) -> list[Point]:
    chosen = _visits(data, "tickets")
    return [
        at_least("random routing visits more than tickets", _visits(data, "random") / chosen, 1),
        at_least(
            "the worst visits more than random routing", _visits(data, "worst") / _visits(data, "random"), 1
        ),
    ]


def lead(data: Data) -> str:
    said = ", ".join(f"{name} {_visits(data, name):.4g}" for name in data.series)
    return f"filters visited a tuple: {said}"


CHART = Chart(
    "cacq-routing",
    "filters that a tuple visits, by routing policy",
    "",
    (("visits_per_tuple", "filters visited a tuple"),),
    "at most a tenth more filters than the optimum are visited with Thompson sampling, at most half more with tickets",
    "tickets are close to the optimum, random routing visits far more, the worst case all",
    measure,
    Sizes((), rows=20_000, turns=5),
    Sizes((), rows=100_000, turns=11),
    lead,
    bars,
    paper,
    "the same queries and rows under every policy; optimum, random and worst are expectations computed from the selectivities",
    bare=True,
)
