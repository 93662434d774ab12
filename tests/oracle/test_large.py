"""Large cases: as many rows as it takes to make state grow, compared with DuckDB as bags.

`PENSTOCK_CASES` sets the number of cases (default 600: 200 of some hundred rows, compared at every instant, and 20 of up to
100,000 rows); the soak (`python -m tests.oracle.soak`) draws up to a million.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from .algebra import ToStream
from .check import same
from .large import campaign, draw
from .large.check import Mismatch, check_case, judge
from .large.course import LARGE, Case, Clock, Look, Push
from .large.play import record
from .large.report import script
from .large.shrink import smallest
from .model import World
from .schema import Schema, Stream
from .twin import answer

CASES = int(os.environ.get("PENSTOCK_CASES", "600"))
BLOCK = 20


@pytest.mark.parametrize("first", range(0, CASES // 3, BLOCK))
def test_answers_at_every_instant_are_those_of_duckdb(first: int) -> None:
    outcome = campaign.run(
        range(first, min(first + BLOCK, CASES // 3)), least=300, most=3000, kept=1, dense=True
    )
    for failure in outcome.failures:
        pytest.fail(campaign.minimised(failure, seconds=30).text, pytrace=False)
    assert outcome.tally.comparisons >= 100 * outcome.cases


@pytest.mark.parametrize("first", range(0, CASES // 30, 5))
def test_answers_over_many_rows_are_those_of_duckdb(first: int) -> None:
    outcome = campaign.run(range(5000 + first, 5005 + first), least=3000, most=100_000, kept=1)
    for failure in outcome.failures:
        pytest.fail(campaign.minimised(failure, seconds=30).text, pytrace=False)
    assert outcome.tally.comparisons >= 10 * outcome.cases


@pytest.mark.parametrize("seed", [1016, 1035])
def test_answers_over_a_hundred_thousand_rows_are_those_of_duckdb(seed: int) -> None:
    """DISTINCT lost values, and LEFT JOIN showed rows without partners that had some."""
    case = draw.make(seed, 50_000, 300_000)
    assert case.rows >= LARGE
    assert check_case(case).comparisons >= 10


def test_sizes_are_spread_over_all_magnitudes() -> None:
    sizes = [draw.make(seed, 50, 1_000_000).rows for seed in range(60)]
    assert sum(size < 1000 for size in sizes) >= 5
    assert sum(1000 <= size < LARGE for size in sizes) >= 10
    assert sum(size >= LARGE for size in sizes) >= 10


def small_world(case: Case) -> World:
    """The rows of a case as the twin reads them."""
    streams = tuple(
        Stream(s.name, tuple((c.name, "TIME" if c.kind == "TIME" else c.kind) for c in s.series), s.delay)
        for s in case.streams
    )
    world = World(Schema(streams, (), case.timestamps))
    for stream in case.streams:
        columns = [as_values(stream.table.column(c.name)) for c in stream.series]
        world.accepted[stream.name] = list(zip(*columns, strict=True))
    return world


def as_values(values: pa.ChunkedArray) -> list[object]:
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    return values.to_pylist()


@pytest.mark.parametrize("block", range(4))
def test_duckdb_and_the_twin_agree_on_drawn_shapes(block: int) -> None:
    """What is compared with the engine over many rows is compared with plain Python over few."""
    compared = 0
    for seed in range(500 + block * 12, 512 + block * 12):
        case = draw.make(seed, 20, 90)
        world = small_world(case)
        heard = record(case)
        judge(case, heard)
        for query, said in zip(case.queries, heard, strict=True):
            assert not isinstance(query, ToStream)
            for tau, table in list(said.snapshots.items())[:3]:
                rows = list(zip(*(as_values(table.column(i)) for i in range(table.num_columns)), strict=True))
                expected = answer(world, query, said.since, tau)
                kinds = tuple("DOUBLE" if k == "FLOAT" else k for k in query.types)
                assert same(expected, rows, kinds), (seed, tau)
                compared += 1
    assert compared > 20


def spoiled(case: Case, index: int) -> None:
    """Raises if the judge sees that one row of a query's answer is missing."""
    heard = record(case)
    at, table = max(heard[index].snapshots.items(), key=lambda held: held[1].num_rows)
    keep = np.ones(table.num_rows, bool)
    keep[table.num_rows // 2] = False
    heard[index].snapshots[at] = table.filter(pa.array(keep))
    judge(case, heard)


def test_one_missing_row_is_noticed() -> None:
    noticed = 0
    for seed in range(700, 712):
        case = draw.make(seed, 1000, 5000)
        heard = record(case)
        found = [i for i, h in enumerate(heard) if any(t.num_rows for t in h.snapshots.values())]
        for index in found[:1]:
            with pytest.raises(Mismatch, match="differs from"):
                spoiled(case, index)
            noticed += 1
    assert noticed >= 8


def test_shrinking_keeps_what_fails() -> None:
    case = draw.make(3, 5000, 9000)

    def fails(one: Case) -> bool:
        return one.rows >= 40 and any(isinstance(e, Look) for e in one.events)

    small = smallest(case, fails, seconds=10)
    assert fails(small)
    assert small.rows < 90
    assert sum(isinstance(e, Look) for e in small.events) == 1


def test_the_rows_of_a_cut_stream_are_some_of_all() -> None:
    stream = draw.make(5, 2000, 3000).streams[0]
    cut = stream.cut(10, 1000).cut(0, 400, 2).cut(5, 50)
    whole = np.arange(stream.n)[10:1000][0:400:2][5:50]
    assert list(cut.positions) == whole.tolist()
    assert cut.ts.tolist() == stream.ts[whole].tolist()
    assert [cut.place(p) for p in (0, int(whole[3]), int(whole[3]) + 1, 10**9)] == [0, 3, 4, len(whole)]


def test_a_reproduction_runs_by_itself(tmp_path: Path) -> None:
    case = next(c for c in (draw.make(s, 200, 400) for s in range(20)) if not c.options)
    clock = Clock(case)
    for event in case.events:
        clock.apply(event)
    shown = [e for e in case.events if isinstance(e, Look) and e.query == 0 and e.snapshot]
    assert shown
    assert any(isinstance(e, Push) for e in case.events)
    program = tmp_path / "reproduction.py"
    program.write_text(script(case, 0, clock.now), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=300, check=True
    )
    lines = done.stdout.splitlines()
    assert len(lines) == len(shown) + 1
    now, rows = lines[-2].split()
    assert (int(now), lines[-1]) == (clock.now, f"due at {clock.now}: {rows}")
