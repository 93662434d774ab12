"""How soon the router values a filter rightly after a query has come: shares of tickets and visits over time.

Three workloads; a query comes after every so many pushes. In the first each has a filter of its own, the later the more selective. In the second all
filters pass half, but the later have more predicates. In the third queries share filters of all selectivities.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.errors import StateError
from penstock_lab.benchmarks.points import Point
from penstock_lab.benchmarks.standing.engine import Standing
from penstock_lab.figures.cacq import routing_report
from penstock_lab.figures.cacq.chart import Chart, Data, Sample, Sizes, options
from penstock_lab.figures.cacq.filters import ATTRIBUTES, DECLARATION, GROWING, STREAM, Below, batches
from penstock_lab.figures.cacq.routing_report import RoutingReport
from penstock_lab.figures.runner import Connect, Tell

ALONE = tuple(Below(((i, 90 - 20 * i),)) for i in range(5))
"""alpha < 90, beta < 70, gamma < 50, delta < 30, epsilon < 10: independent, the last is the most selective."""
HALVES = tuple(Below(tuple((j, 50) for j in range(i, 5))) for i in range(5))
"""Query i has all from the i-th attribute on: filters are as selective, epsilon has five predicates, alpha one."""

NEAR = 0.1
"""A share is what it comes to be if it is that near."""
SETTLED = 0.25
"""The last part of the time between two queries, which says what shares come to be."""
SMOOTH = 5
"""Pushes that a share is the mean of, before it is said to be near."""
SECONDS = 2.0
"""The longest that shares may take; queries come farther apart, so that it can be seen."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Queries in the order they come, and the filter that should have most tickets when all are there."""

    number: int
    title: str
    queries: tuple[Below, ...]
    valued: str
    alike: bool = False
    """No filter drops a row by itself, so that none earns more tickets than others, whatever the paper says."""


WORKLOADS = (
    Workload(1, "independent queries, the later the more selective", ALONE, "epsilon", alike=True),
    Workload(2, "filters as selective with more and more predicates", HALVES, "epsilon"),
    Workload(3, "queries that share filters of all selectivities", GROWING, "alpha"),
)


def attribute(operator: str) -> str:
    """The attribute that a filter is on, by the name it has in `explain`."""
    found = [name for name in ATTRIBUTES if name in operator]
    if len(found) != 1:
        raise StateError(f"the operator {operator!r} is no filter on one of {', '.join(ATTRIBUTES)}")
    return found[0]


def shares(amounts: dict[str, float]) -> dict[str, float]:
    """Of the whole; what is below nothing counts as nothing."""
    above = {name: max(amount, 0.0) for name, amount in amounts.items()}
    whole = sum(above.values())
    return {name: amount / whole if whole else 0.0 for name, amount in above.items()}


def measuring(work: Workload) -> Callable[[Sizes, Tell, Connect], Data]:
    """A phase for every query: it comes, then pushes for so many seconds, `sizes.cap`, and `sizes.turns` of them at least."""

    def measure(sizes: Sizes, tell: Tell, connect: Connect) -> Data:
        standing = Standing(connect(**options(routing="tickets")), DECLARATION, STREAM, work.queries[:1])
        samples: list[Sample] = []
        seconds, start, visited = 0.0, 0, dict.fromkeys(ATTRIBUTES, 0)
        for phase, query in enumerate(work.queries):
            tell(f"{phase + 1} of {len(work.queries)} queries")
            if phase:
                standing.queries.append(standing.session.query(query.sql(), name=f"q{phase}"))
            ends, turn = seconds + sizes.cap, 0
            while turn < sizes.turns or seconds < ends:
                (batch,) = batches(1, sizes.rows, start=start)
                start, turn = start + sizes.rows, turn + 1
                seconds += standing.count([batch])
                standing.drain()
                now = routing_report.of_stream(standing.session, STREAM)
                samples += _samples(now, seconds, phase, visited)
                visited |= {attribute(o.name): o.rows for o in now.operators}
        return Data(samples)

    return measure


def _samples(now: RoutingReport, seconds: float, phase: int, visited: dict[str, int]) -> list[Sample]:
    """One for every filter there is: its share of the tickets, and of the visits since the last."""
    tickets = shares({attribute(o.name): o.tickets for o in now.operators})
    visits = shares({(a := attribute(o.name)): float(o.rows - visited[a]) for o in now.operators})
    return [
        Sample(
            name, seconds, (share,), {"visits_share": visits[name], "queries": phase + 1, "tuples": now.rows}
        )
        for name, share in tickets.items()
    ]


@dataclass(frozen=True, slots=True)
class Settling:
    """How long after a query came until every share is, and stays, near what it comes to be; and until the next came."""

    seconds: float
    tuples: float
    phase: float


def by_tickets(sample: Sample) -> float:
    return sample.value


def by_visits(sample: Sample) -> float:
    return sample.more["visits_share"] or 0.0


def settling(data: Data, queries: int, share: Callable[[Sample], float] = by_tickets) -> Settling:
    """After the last of so many queries."""
    phase = [s for s in data.samples if s.more["queries"] == queries]
    before = [s for s in data.samples if (s.more["queries"] or 0) < queries]
    began, tuples = max(((s.x, s.more["tuples"] or 0) for s in before), default=(0.0, 0.0))
    settled, seen = began, tuples
    for name in {s.series for s in phase}:
        line = sorted((s for s in phase if s.series == name), key=lambda s: s.x)
        late = line[-max(1, int(len(line) * SETTLED)) :]
        level = statistics.mean(map(share, late))
        for end, sample in enumerate(line, 1):
            if abs(statistics.mean(map(share, line[max(0, end - SMOOTH) : end])) - level) > NEAR:
                settled, seen = max(settled, sample.x), max(seen, sample.more["tuples"] or 0)
    return Settling(settled - began, seen - tuples, max(s.x for s in phase) - began)


def final(data: Data) -> dict[str, float]:
    """Shares of the tickets at the end."""
    return {name: data.last(name).value for name in data.series}


def _phases(data: Data) -> Sequence[int]:
    return sorted({int(s.more["queries"] or 0) for s in data.samples})


def judging(work: Workload) -> Callable[[Data], list[Point]]:
    def bars(data: Data) -> list[Point]:
        # Where no filter earns more than another, the lottery goes on: what rows do settles, not who is drawn.
        share = by_visits if work.alike else by_tickets
        found = {q: settling(data, q, share) for q in _phases(data)}
        slowest = max(found.values(), key=lambda one: one.seconds)
        took = {f"query_{q}": one.seconds for q, one in found.items()}
        name = "the longest until shares settle after a query"
        settled = Point(name, slowest.seconds, SECONDS, "s", more={**took, "tuples": slowest.tuples})
        return [settled] if work.alike else [settled, _valued(work, data)]

    return bars


def _valued(work: Workload, data: Data) -> Point:
    ends = final(data)
    others = max(share for name, share in ends.items() if name != work.valued)
    name = f"tickets of {work.valued} against the next most at the end"
    return Point(name, ends[work.valued] / max(others, 1e-9), 1.0, "×", at_least=True, more=dict(ends))


def papers(work: Workload) -> Callable[[Data], list[Point]]:
    def paper(data: Data) -> list[Point]:
        found = [settling(data, q) for q in _phases(data)]
        worst = max(one.seconds / one.phase for one in found)
        name = "shares settle long before the next query, at most this part of the time"
        return [Point(name, worst, 0.5, ""), _valued(work, data)]

    return paper


def lead(data: Data) -> str:
    ends = sorted(final(data).items(), key=lambda item: -item[1])
    said = ", ".join(f"{name} {share:.0%}" for name, share in ends)
    return f"tickets at the end: {said}"


def _chart(work: Workload) -> Chart:
    return Chart(
        f"cacq-tickets-{work.number}",
        f"tickets over time, {work.title}",
        "CPU seconds",
        (("tickets_share", "share of tickets"), ("visits_share", "share of visits")),
        f"after every query that comes, shares of {'visits' if work.alike else 'tickets'} settle within {SECONDS:g} s"
        + ("" if work.alike else f"; {work.valued} has most tickets at the end"),
        "in all cases a newly introduced filter has its share within seconds",
        measuring(work),
        Sizes((), rows=2_000, turns=20, cap=2.5),
        Sizes((), rows=2_000, turns=60, cap=5.0),
        lead,
        judging(work),
        papers(work),
        "the shares that the same filters come to have before the next query",
        scales=("linear", "linear"),
    )


CHARTS = tuple(_chart(work) for work in WORKLOADS)
