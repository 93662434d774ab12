"""Figure 4.10: what allocations take when there is enough for all, what they keep when there is not, and how long a placement is searched for."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import StateError
from penstock_lab.benchmarks.points import Point
from penstock_lab.benchmarks.runs import now
from penstock_lab.figures.bars import at_least
from penstock_lab.figures.cacq.chart import Chart, Data, Measure, Sample, Sizes
from penstock_lab.figures.pp.bursts import AGAINST, SOURCE
from penstock_lab.figures.pp.overload import (
    ALLOCATIONS,
    BEGIN,
    FIFO,
    PROMOTE,
    RANDOM,
    SEMANTIC,
    TRAD,
    WINDOW,
    Clock,
    Town,
    capacity,
    fluctuating,
    run,
)
from penstock_lab.figures.pp.search import search_times
from penstock_lab.figures.runner import Connect, Tell
from penstock_lab.figures.tp import city, queries
from penstock_lab.figures.tp.load import Load

PLAIN, CASE, RANKED = "no budget, no ranks", "no budget, ranks as a CASE", "no budget"
"""Without ranks there is no `__rank` to work out and to hand over; CASE: the query selects the same by itself."""
AS_CASE = (
    "CASE WHEN PI.committed_violent_offense AND (PL.x - PI.x) * (PL.x - PI.x) + (PL.y - PI.y) * (PL.y - PI.y) >= 1"
    " THEN 1 WHEN PI.recently_found_in_wrong_location THEN 2 WHEN PI.known_flight_risk THEN 3 END AS rank_told"
)
BUDGETED = (FIFO, RANDOM, SEMANTIC, PROMOTE)
SESSIONS = (PLAIN, CASE, RANKED, *BUDGETED)
NEARLY = 0.95
"""Also against no ranks at all, though what it takes to work a rank out and to hand it over is in it."""
ENOUGH, ENOUGH_TIME = 1 << 50, "1000 seconds"
"""A budget that is never spent."""
DATA_SET = "5-5-5"
PUSH = 1.0
"""Seconds in a push: some thousand rows, as for throughput elsewhere."""
ROWS, CARS = 2_000.0, 16.0
QUICK = 24
SEARCHES = ("ROP", "exact", "exhaustive")


def measured(clock: Clock) -> Measure:
    def measure(sizes: Sizes, tell: Tell, connect: Connect) -> Data:
        """`rows`: seconds; `turns`: interleaved runs; `xs`: numbers of determinants."""
        samples = _unloaded(sizes.rows, sizes.turns, clock, tell, connect)
        samples = _kept(samples, 60.0 if sizes.rows <= QUICK else 180.0, clock, tell, connect)
        return Data([*samples, *_searches(sizes.xs, tell)])

    return measure


def _kept(samples: list[Sample], seconds: float, clock: Clock, tell: Tell, connect: Connect) -> list[Sample]:
    """What allocations hold while rows wait, beside what is known of them."""
    tell("state and queues")
    town = fluctuating(DATA_SET, seconds, clock=clock)
    made = town.made()
    for name in ALLOCATIONS:
        outcome = run(town, made, capacity(connect, clock), name, connect)
        busy = outcome.busy > 0
        kept: dict[str, float | None] = {
            "in_state": float(outcome.stored[busy].mean()),
            "in_queues": float(outcome.waiting[busy].mean()),
        }
        known = [s for s in samples if s.series == name]
        samples = [replace(s, more={**s.more, **kept}) if s.series == name else s for s in samples]
        if not known:
            samples.append(Sample(name, 0, (float("nan"),), kept))
    return samples


def _searches(determinants: Iterable[int], tell: Tell) -> list[Sample]:
    tell("searches")
    samples = []
    for found in search_times(determinants):
        for name, seconds in zip(SEARCHES, (found.rop, found.exact, found.exhaustive), strict=True):
            more: dict[str, float | None] = {"search_ms": 1000 * seconds, "placements": found.placements}
            samples.append(Sample(name, found.determinants, (float("nan"),), more))
    return samples


def _unloaded(seconds: int, turns: int, clock: Clock, tell: Tell, connect: Connect) -> list[Sample]:
    """Rows a second of CPU time; all in turn push by push, on the same rows, with the same answers."""
    made = city.make(DATA_SET, seconds, load=Load(ROWS), patrol=Load(CARS), begin=BEGIN)
    pushes = list(made.feed.pushes(PUSH))
    took: dict[str, list[list[float]]] = {name: [] for name in SESSIONS}
    for turn in range(turns + 1):
        tell(f"enough for all, turn {turn} of {turns}")
        opened = {name: _opened(made, name, clock, connect) for name in SESSIONS}
        told: dict[str, list[pa.Table]] = {name: [] for name in SESSIONS}
        spent: dict[str, list[float]] = {name: [] for name in SESSIONS}
        gc.collect()
        for at, (until, rows) in enumerate(pushes):
            first = at % len(SESSIONS)
            for name in (*SESSIONS[first:], *SESSIONS[:first]):
                session, query = opened[name]
                began = now()
                for stream, batch in rows.items():
                    session.push(stream, batch)
                session.advance(until)
                changes = query.changes()
                spent[name].append(now() - began)
                if not turn:
                    told[name].append(changes)
        if not turn:  # the first loads kernels
            whole = {name: _sorted(tables) for name, tables in told.items()}
            if any(not table.equals(whole[PLAIN]) for table in whole.values()):
                raise StateError("a budget that is never spent changes answers")
            continue
        for name in SESSIONS:
            took[name].append(spent[name])
    counts = [sum(batch.num_rows for batch in rows.values()) for _, rows in pushes]
    plain = np.array(took[PLAIN])
    # Each push against the same push without budget and ranks, a moment before or after: what else the machine does hits both.
    shares = {name: np.median(plain / np.array(times), axis=1) for name, times in took.items()}
    rate = sum(counts) / float(np.median(plain.sum(axis=1)))
    return [Sample(name, 0, tuple((rate * share).tolist())) for name, share in shares.items()]


def _opened(made: city.City, name: str, clock: Clock, connect: Connect) -> tuple[Any, Any]:
    budget = ENOUGH_TIME if clock.wall else ENOUGH
    session: Any = connect(**({"budget": budget, "allocation": name} if name in BUDGETED else {}))
    session.execute(city.DECLARATIONS)
    session.update_table("prisonerInfo", insert=made.info[0][1])
    text = queries.home_arrest(0 if name in (PLAIN, CASE) else 3, WINDOW, Town().lifespan)
    if name == CASE:
        text = text.replace("OL.officerid\n", f"OL.officerid, {AS_CASE}\n", 1)
    return session, session.query(text, name="near")


def _sorted(tables: list[pa.Table]) -> pa.Table:
    whole = pa.concat_tables(tables)
    columns = [column for column in whole.column_names if column not in ("__rank", "rank_told")]
    return whole.select(columns).sort_by([(column, "ascending") for column in columns])


def bars(data: Data) -> list[Point]:
    found = []
    for reference, others in ((CASE, ()), (PLAIN, (CASE, RANKED))):
        base = data.last(reference)
        rates = {name: data.last(name).against(base) for name in BUDGETED}
        found.append(
            Point(
                f"rows a second of CPU time without overload, allocations (as long as nothing waits all run alike) against {reference}",
                float(np.median(list(rates.values()))),
                NEARLY,
                "×",
                at_least=True,
                more={**rates, **{name: data.last(name).against(base) for name in others}},
            )
        )
    slow, fast = data.last("exhaustive"), data.last("ROP")
    found.append(
        at_least(
            f"search time at {slow.x:g} determinants, exhaustive against ROP",
            (slow.more["search_ms"] or 0) / (fast.more["search_ms"] or 1),
            1,
        )
    )
    return found


def paper(data: Data) -> list[Point]:
    rate = {name: data.last(name).value for name in (RANDOM, SEMANTIC, PROMOTE)}
    kept = {name: data.last(name).more for name in ALLOCATIONS}
    others = [name for name in ALLOCATIONS if name != TRAD]
    queued = max(kept[name]["in_queues"] or 0 for name in others)
    stored = max(kept[name]["in_state"] or 0 for name in others)
    slow, fast = data.last("exhaustive"), data.last("ROP")
    return [
        Point("slower than semantic without overload", 100 * (1 - rate[PROMOTE] / rate[SEMANTIC]), 3.1, "%"),
        Point("slower than random without overload", 100 * (1 - rate[PROMOTE] / rate[RANDOM]), 4.5, "%"),
        at_least("trad has most rows in its queues", (kept[TRAD]["in_queues"] or 0) / queued, 1),
        at_least("trad has most rows in its state", (kept[TRAD]["in_state"] or 0) / stored, 1),
        at_least(
            "semantic has 1.29 times as many rows in its state as promote",
            (kept[SEMANTIC]["in_state"] or 0) / (kept[PROMOTE]["in_state"] or 1),
            1.29,
        ),
        at_least(
            f"exhaustive takes 20 times as long as ROP at {slow.x:g} determinants",
            (slow.more["search_ms"] or 0) / (fast.more["search_ms"] or 1),
            20,
        ),
    ]


def lead(data: Data) -> str:
    told = ", ".join(f"{name} {data.last(name).value:,.0f}" for name in SESSIONS)
    kept = ", ".join(
        f"{name} {data.last(name).more['in_state']:,.0f} and {data.last(name).more['in_queues']:,.0f}"
        for name in ALLOCATIONS
    )
    return (
        f"rows a second of CPU time without overload: {told}; rows in state and queues under overload: {kept}"
    )


def chart(clock: Clock) -> Chart:
    return Chart(
        "pp-4.10",
        "overhead: without overload, in memory, of the search for a placement",
        "determinants",
        (
            ("rows_per_second", "rows/s of CPU time, enough for all"),
            ("in_state", "rows in state"),
            ("in_queues", "rows in queues"),
            ("search_ms", "search for a placement, ms"),
        ),
        "without overload allocations have at least 95 % of the throughput of a session without budget, whether it selects the rank by itself or has"
        " no ranks, and the same answers; ROP takes no longer than the exhaustive search",
        "Figure 4.10: 3.1 % fewer results than semantic and 4.5 % fewer than random without overload; trad keeps most; semantic's state 29 % larger than PP's; ROP up"
        " to 20 times as fast as the exhaustive search",
        measured(clock),
        Sizes((2, 4, 6), rows=QUICK, turns=5),
        Sizes((2, 4, 6, 8), rows=60, turns=11),
        lead,
        bars,
        paper,
        AGAINST,
        scales=("linear", "log"),
        source=SOURCE,
    )
