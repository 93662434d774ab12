"""The verdict of `standing-queries`: every measurement in turn with its hand-written program, answers compared, bars computed."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count as numbers
from typing import Any

import numpy as np
import pyarrow as pa

import penstock
from penstock.types.memory import taken
from penstock_lab.benchmarks.points import Point
from penstock_lab.benchmarks.report import Tell, steady
from penstock_lab.benchmarks.runs import now
from penstock_lab.benchmarks.standing import engine, joins, symbols, workload
from penstock_lab.benchmarks.standing.engine import Standing
from penstock_lab.benchmarks.standing.symbols import Watching
from penstock_lab.reference.bitmap import Counting, Delivering, Total

SHARE = 0.5
"""Of the hand-written program, when counting for `CHURNED` queries."""
COUNTED = 4096
PACE = 1e6
"""Tuples a second, when counting for `COUNTED` queries."""
CHURNED = 1024
DELIVERED = 10e6
"""Result rows a second, when delivering to `CHURNED` queries."""
LATENCY, DELAY = 5.0, 10.0
"""Milliseconds: of adding or dropping a query, and that a push is held up by it."""
GROWTH = 1.05
ROOM = 1.3
"""Bytes for many joins against the largest of them alone."""

Sizes = tuple[tuple[int, int, int], ...]
"""Queries, pushes a turn, turns."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured. Nobody takes the changes of what is counted, so its rows are few where queries are many."""

    counting: Sizes
    delivering: Sizes
    symbols: Sizes
    churned: int
    """Queries that run while one is added and dropped."""
    churns: int
    cycles: int
    joined: int
    """Joins over five streams."""
    joined_rows: int
    """Of every stream in the longest window."""
    rows: int = workload.BATCH
    churn_rows: int = 2048


QUICK = Extent(
    counting=((1, 16, 5), (64, 16, 5), (1024, 8, 5), (4096, 2, 5), (16384, 1, 3)),
    delivering=((64, 2, 5), (1024, 1, 5)),
    symbols=((16384, 4, 5),),
    churned=1024,
    churns=200,
    cycles=2_000,
    joined=400,
    joined_rows=10_000,
)
FULL = Extent(
    counting=((1, 16, 11), (64, 16, 11), (1024, 8, 11), (4096, 2, 9), (16384, 1, 5)),
    delivering=((64, 4, 11), (1024, 2, 7), (4096, 1, 5)),
    symbols=((16384, 8, 11),),
    churned=1024,
    churns=500,
    cycles=100_000,
    joined=1000,
    joined_rows=20_000,
)


@dataclass(slots=True)
class Part:
    """One row of the verdict."""

    ours: dict[str, Any]
    theirs: dict[str, Any]
    points: list[Point]
    differences: list[str]

    def failures(self) -> list[str]:
        return self.differences + [p.failure() for p in self.points if not p.holds]

    def json(self) -> dict[str, Any]:
        return {**self.ours, "points": {p.name: p.json() for p in self.points}}


def bench(*, quick: bool, tell: Tell) -> dict[str, Any]:
    """The JSON object of the command line."""
    steady()
    return measure(QUICK if quick else FULL, tell)


def measure(extent: Extent, tell: Tell) -> dict[str, Any]:
    """So much of everything, and its verdict."""
    parts: dict[str, Part] = {}
    # First: memory that others have freed would hide what is not.
    tell(f"adding and dropping beside {extent.churned:,} queries")
    parts[f"adding and dropping, {_queries(extent.churned)}"] = churning(extent)
    tell(f"remembering for {extent.joined:,} joins")
    parts[f"remembering, {extent.joined:,} joins over {len(joins.STREAMS)} streams"] = remembering(
        extent.joined, extent.joined_rows
    )
    for size in extent.counting:
        tell(f"counting: {size[0]:,} queries")
        parts[f"counting, {_queries(size[0])}"] = counting(*size, extent.rows)
    for size in extent.symbols:
        tell(f"counting by symbol: {size[0]:,} queries")
        parts[f"counting by symbol, {_queries(size[0])}"] = counting_symbols(*size, extent.rows)
    for size in extent.delivering:
        tell(f"delivering: {size[0]:,} queries")
        parts[f"delivering, {_queries(size[0])}"] = delivering(*size, extent.rows)
    why = [f"{name}: {failure}" for name, part in parts.items() for failure in part.failures()]
    claim = (
        f"through the public interface, in CPU seconds on one core: counting at least {SHARE:.0%} of a hand-written bitmap program for"
        f" {CHURNED:,} queries and {PACE:,.0f} tuples a second for {COUNTED:,}; {DELIVERED:,.0f} result rows a second delivered;"
        f" adding or dropping a query within {LATENCY:g} ms, no push held up over {DELAY:g} ms, and nothing left of queries that went;"
        f" joins over {len(joins.STREAMS)} streams in at most {ROOM:g} × the memory of the largest of them alone, shared or by itself"
    )
    return {
        "name": "standing-queries",
        "claim": claim,
        "measured": {name: part.json() for name, part in parts.items()},
        "reference": {name: part.theirs for name, part in parts.items()},
        "holds": not why,
        "why_not": why,
    }


def counting(queries: int, pushes: int, turns: int, rows: int) -> Part:
    """Nothing is delivered: `matched` of all queries is read after the pushes of a turn."""
    asked = workload.queries(queries)
    standing = Standing(penstock.connect(), workload.DECLARATION, workload.STREAM, asked)
    programs = Counting(asked), Total(asked)
    took: list[list[float]] = []
    for start in _starts(turns, pushes * rows):
        batches = list(workload.batches(pushes, rows, start=start))
        columns = [workload.attributes(b) for b in batches]
        took.append([standing.count(batches), *(_time(program, columns) for program in programs)])
    mine, hand, total = (pushes * rows / t for t in _medians(took))
    exact, found = programs[0].counts, programs[1].found
    ours = {
        "tuples_per_second": round(mine),
        "share_of_hand_written": round(mine / hand, 4),
        "results_per_tuple": round(float(exact.sum()) / ((turns + 1) * pushes * rows), 3),
        "registering_ms_per_query": round(standing.registering * 1e3, 3),
        "lineage_bytes_per_tuple": standing.lineage(),
    }
    theirs = {
        "hand_written_tuples_per_second": round(hand),
        "hand_written_that_counts_the_total_only": round(total),
    }
    points = []
    if queries == CHURNED:
        points.append(Point("share of the hand-written program", mine / hand, SHARE, "×", at_least=True))
    if queries == COUNTED:
        points.append(Point("counting", mine, PACE, "tuples/s", at_least=True))
    differences = _differences(standing.matched(), exact)
    if found != exact.sum():
        differences.append(f"the hand-written programs found {found:,} and {exact.sum():,} results")
    return Part(ours, theirs, points, differences)


def counting_symbols(queries: int, pushes: int, turns: int, rows: int) -> Part:
    """The same by equality first."""
    asked = symbols.queries(queries)
    standing = Standing(penstock.connect(), symbols.DECLARATION, symbols.STREAM, asked)
    program = Watching(asked)
    took: list[list[float]] = []
    for start in _starts(turns, pushes * rows):
        batches = list(symbols.batches(pushes, rows, start=start))
        took.append([standing.count(batches), _time(program, batches)])
    mine, hand = (pushes * rows / t for t in _medians(took))
    ours = {
        "tuples_per_second": round(mine),
        "share_of_hand_written": round(mine / hand, 4),
        "results_per_tuple": round(float(program.counts.sum()) / ((turns + 1) * pushes * rows), 3),
        "registering_ms_per_query": round(standing.registering * 1e3, 3),
        "lineage_bytes_per_tuple": standing.lineage(),
    }
    theirs = {"hand_written_tuples_per_second": round(hand)}
    return Part(ours, theirs, [], _differences(standing.matched(), program.counts))


def delivering(queries: int, pushes: int, turns: int, rows: int) -> Part:
    """All changes of all queries are taken after every push."""
    asked = workload.queries(queries)
    standing = Standing(penstock.connect(), workload.DECLARATION, workload.STREAM, asked)
    bare, whole = Delivering(asked), Delivering(asked)
    differences: list[str] = []
    took: list[list[float]] = []
    results = 0
    for turn, start in enumerate(_starts(turns, pushes * rows)):
        batches = list(workload.batches(pushes, rows, start=start))
        if turn == 0:
            differences = _undelivered(standing, asked, batches)
        else:
            seconds, results = standing.deliver(batches)
        row_numbers = _time(bare, [workload.attributes(b) for b in batches])
        with_columns = _time(lambda batch: _columns(whole, batch), batches)
        if turn == 0:
            took.append([0.0, row_numbers, with_columns])
        else:
            took.append([value / results for value in (seconds, row_numbers, with_columns)])
    mine, numbered, gathered = (1 / t for t in _medians(took))
    ours = {
        "result_rows_per_second": round(mine),
        "share_of_hand_written": round(mine / gathered, 4),
        "tuples_per_second": round(mine / results * pushes * rows),
    }
    theirs = {
        "hand_written_result_rows_per_second": round(gathered),
        "hand_written_that_gives_row_numbers_only": round(numbered),
    }
    wanted = queries == CHURNED
    points = [Point("delivering", mine, DELIVERED, "rows/s", at_least=True)] if wanted else []
    return Part(ours, theirs, points, differences)


def churning(extent: Extent) -> Part:
    """Queries come and go beside others, between pushes."""
    rows = extent.churn_rows
    standing = Standing(
        penstock.connect(), workload.DECLARATION, workload.STREAM, workload.queries(extent.churned)
    )
    every = 100
    pushes = extent.cycles // every + 2
    kept = engine.cycles(
        standing,
        (q for part in numbers(9) for q in workload.queries(1000, seed=part)),
        extent.cycles,
        workload.batches(pushes, rows),
        every,
    )
    start = pushes * rows
    more = workload.queries(extent.churns, seed=8)
    engine.churn(standing, more[:10], workload.batches(30, rows, start=start))
    start += 30 * rows
    found = engine.churn(standing, more, workload.batches(3 * len(more), rows, start=start))
    slower = max((found.add, found.drop), key=lambda latencies: latencies.median)
    delay = {
        "median_of_others": found.still.median,
        "longest_of_others": max(found.still.cpu),
        "by_the_clock": max(found.disturbed.clock) - statistics.median(found.still.clock),
    }
    points = [
        Point(
            "adding or dropping a query, the slower by its median",
            slower.median,
            LATENCY,
            "ms",
            more={"p99": slower.p99, "p99_by_the_clock": float(np.quantile(slower.clock, 0.99))},
        ),
        Point("the longest that a push was held up", found.delay, DELAY, "ms", more=dict(delay)),
        Point(
            "memory after all cycles against a tenth of them",
            kept.after / kept.before,
            GROWTH,
            "×",
            more={
                "bytes_a_cycle": (kept.after - kept.before) / kept.cycles,
                "state": kept.state_after / max(kept.state_before, 1),
            },
        ),
    ]
    ours = {
        "add_ms": round(found.add.median, 3),
        "add_p99_ms": round(found.add.p99, 3),
        "drop_ms": round(found.drop.median, 3),
        "drop_p99_ms": round(found.drop.p99, 3),
        "cycles": extent.cycles,
        "resident_bytes": kept.after,
    }
    return Part(ours, {"pushes": "those of the same session before which no query came or went"}, points, [])


def remembering(queries: int, window: int) -> Part:
    """Joins of all sizes in the SteMs of a session, once the longest window is full."""
    alone = [joins.largest(window)]
    every, varied = (joins.held(joins.queries(queries, window, n), window) for n in (1, 2))
    shared = joins.held(alone, window, share=True, join="eddy")
    apart = joins.held(alone, window, share=False)
    points = [
        Point(f"memory, predicates over {over}, against the largest {how}", many.bytes / one.bytes, ROOM, "×")
        for over, many in (("one attribute", every), ("two", varied))
        for how, one in (("alone, which shares", shared), ("by itself (share=False)", apart))
    ]
    ours = {
        "bytes": every.bytes,
        "bytes_of_stems": every.stems,
        "rows_in_stems": every.rows,
        "results": every.every,
    }
    theirs = {"bytes_of_the_largest_shared": shared.bytes, "bytes_of_the_largest_by_itself": apart.bytes}
    found = [every.found, varied.found, shared.found, apart.found]
    differences = [f"the largest join has {found} results"] if len(set(found)) > 1 else []
    return Part(ours, theirs, points, differences)


def _undelivered(
    standing: Standing, asked: list[workload.Ranges], batches: list[pa.RecordBatch]
) -> list[str]:
    """Is every row delivered to its query, and no other? Asked of the turn that warms up."""
    given: list[list[pa.Table]] = [[] for _ in asked]
    standing.deliver(batches, lambda number, table: given[number].append(table.select(["ts", "a"])))
    program = Delivering(asked)
    expected: list[list[pa.RecordBatch]] = [[] for _ in asked]
    for batch in batches:
        rows, begins = program(workload.attributes(batch))
        both = batch.select(["ts", "a"])
        for number in range(len(asked)):
            expected[number].append(both.take(pa.array(rows[begins[number] : begins[number + 1]])))
    wrong = [
        number
        for number, (tables, wanted) in enumerate(zip(given, expected, strict=True))
        if pa.concat_tables(tables).combine_chunks() != pa.Table.from_batches(wanted).combine_chunks()
    ]
    return [f"other rows were delivered to {len(wrong):,} queries, the first q{wrong[0]}"] if wrong else []


def _columns(program: Delivering, batch: pa.RecordBatch) -> None:
    """What a query selects, of its rows."""
    rows, _ = program(workload.attributes(batch))
    for name in ("ts", "a"):
        taken(batch.column(name).to_numpy(), rows)


def _differences(found: Any, wanted: Any) -> list[str]:
    wrong = np.flatnonzero(found != wanted)
    if not len(wrong):
        return []
    first = wrong[0]
    return [
        f"counts of {len(wrong):,} queries differ, the first q{first}: {found[first]:,} and {wanted[first]:,}"
    ]


def _time(program: Any, given: Iterable[Any]) -> float:
    began = now()
    for one in given:
        program(one)
    return now() - began


def _starts(turns: int, rows: int) -> range:
    """The first instant of every turn; one more than asked for, to warm up."""
    return range(0, (turns + 1) * rows, rows)


def _medians(took: list[list[float]]) -> list[float]:
    return [statistics.median(column) for column in zip(*took[1:], strict=True)]


def _queries(count: int) -> str:
    return "1 query" if count == 1 else f"{count:,} queries"
