"""Time against the number of queries: the engine beside static grouped plans, which give the same rows to the same queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from penstock.errors import StateError
from penstock_lab.baselines import cacq, stocks
from penstock_lab.baselines.niagara import JoinFirst, PushDown
from penstock_lab.baselines.stocks import Market, in_order
from penstock_lab.benchmarks.points import Point
from penstock_lab.benchmarks.runs import now
from penstock_lab.figures.bars import at_least
from penstock_lab.figures.cacq.chart import Chart, Data, Sample, Sizes
from penstock_lab.figures.runner import Connect, Tell

CACQ, COUNTED, PUSH_DOWN, JOIN_FIRST = "CACQ", "CACQ, counted only", "push-down", "join-first"
STATIC = (PUSH_DOWN, JOIN_FIRST)
ROUNDS, MOST = 8, 512
"""Times that every symbol is quoted in a push, and times queries: what a step costs however few its rows are is no one's merit, and copies
for very many queries must find room."""


def agree(given: Mapping[str, list[pa.Table]], where: str) -> None:
    """Every query has been given the same rows by all."""
    (first, wanted), *others = given.items()
    expected = [in_order([one]) for one in wanted]
    for name, tables in others:
        for query, (table, one) in enumerate(zip(tables, expected, strict=True)):
            if in_order([table]) != one:
                raise StateError(f"{first} and {name} differ {where}: query {query} is given other rows")


def in_turn(
    programs: Mapping[str, Any], market: Market, where: str, tell: Tell
) -> dict[str, tuple[float, ...]]:
    """Milliseconds a push: each takes the same quotes, one after the other; those of the first push are compared."""
    agree({name: program(market.quotes[0]) for name, program in programs.items()}, where)
    took: dict[str, list[float]] = {name: [] for name in programs}
    for turn, quotes in enumerate(market.quotes[1:], 1):
        for name, program in programs.items():
            tell(f"{where}: {name}, turn {turn} of {len(market.quotes) - 1}")
            began = now()
            program(quotes)
            took[name].append((now() - began) * 1e3)
    return {name: tuple(times) for name, times in took.items()}


def measure(sizes: Sizes, tell: Tell, connect: Connect) -> Data:
    samples = []
    for count in sizes.xs:
        rounds = max(1, min(ROUNDS, MOST // int(count)))
        market = stocks.market(sizes.turns + 1, symbols=sizes.rows, rounds=rounds)
        tell(f"with {count:,} queries")
        constants = stocks.constants(count)
        programs = {
            CACQ: cacq.by_constants(market, constants, connect()),
            PUSH_DOWN: PushDown(market.articles, constants, connect()),
            JOIN_FIRST: JoinFirst(market.articles, constants, connect()),
        }
        took = in_turn(programs, market, f"with {count:,} queries", tell)
        took[COUNTED] = _counting(cacq.by_constants(market, constants, connect()), market)
        results = sum(int((q.column("price").to_numpy() > c).sum()) for q in market.quotes for c in constants)
        more: dict[str, float | None] = {"results_a_push": results / len(market.quotes)}
        samples += [Sample(name, count, times, more) for name, times in took.items()]
    return Data(samples)


def _counting(engine: cacq.Cacq, market: Market) -> tuple[float, ...]:
    took = []
    for quotes in market.quotes:
        began = now()
        engine.count(quotes)
        took.append((now() - began) * 1e3)
    return tuple(took[1:])


def bars(data: Data) -> list[Point]:
    return [
        at_least(f"time of {name} against CACQ, {mine.x:,.0f} queries", theirs.against(mine), 1)
        for name in STATIC
        for mine, theirs in data.both(CACQ, name)
    ]


def paper(data: Data) -> list[Point]:
    worst = min(theirs.against(mine) for mine, theirs in data.both(CACQ, PUSH_DOWN))
    few, many = (data.both(CACQ, JOIN_FIRST)[i] for i in (0, -1))
    return [
        at_least("push-down is slower for any number of queries, at least", worst, 1),
        at_least("join-first is slower for few queries", few[1].against(few[0]), 1),
        Point("join-first is slightly faster for very many", many[1].against(many[0]), 1, "×"),
    ]


def lead(data: Data) -> str:
    last = data.last(CACQ)
    rest = ", ".join(f"{data.last(n).value:.3g} with {n}" for n in (COUNTED, *STATIC))
    return f"a push of quotes for {last.x:,.0f} queries takes {last.value:.3g} ms with CACQ, {rest}"


CHART = Chart(
    "cacq-niagara",
    "time for a push against the number of queries, static grouped plans beside it",
    "queries",
    (("ms_a_push", "CPU ms for a push"),),
    "CACQ takes no longer than either static plan for any number of queries, every query being given its rows",
    "CACQ is faster than join-first for few queries and slightly slower for very many; push-down is slower throughout",
    measure,
    Sizes((1, 16, 256, 2048), rows=stocks.QUOTES, turns=3),
    Sizes((1, 4, 16, 64, 256, 512, 1024, 2048), rows=stocks.QUOTES, turns=9),
    lead,
    bars,
    paper,
    "static grouped plans around the same join, on the same quotes, in turn, with the same results",
)
