"""Large cases: as many rows as it takes to make state grow, compared with DuckDB as bags.

`PENSTOCK_CASES` sets the number of cases (default 600: 200 of some hundred rows, compared at every instant, and 20 of up to
100,000 rows); the soak (`python -m tests.oracle.soak`) draws up to a million.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.oracle.algebra import Select, StreamSource, ToStream, Window, is_grouped
from tests.oracle.algebra import tables as tables_of
from tests.oracle.check import same
from tests.oracle.coverage import EXPECTED_LARGE, counted_large
from tests.oracle.large import campaign, course, draw
from tests.oracle.large.check import Mismatch, check_case, judge
from tests.oracle.large.course import END, LARGE, Advance, Case, Look, Push, Register
from tests.oracle.large.data import Series
from tests.oracle.large.data import Stream as LargeStream
from tests.oracle.large.play import Heard, Trace, record
from tests.oracle.large.report import script
from tests.oracle.large.shrink import smallest
from tests.oracle.model import Version, World
from tests.oracle.scalar import Col
from tests.oracle.schema import Schema, Stream, Table
from tests.oracle.twin import answer

pytestmark = pytest.mark.filterwarnings(
    "ignore::penstock.StreamWarning"
)  # most rows of a cut stream may be late

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


@pytest.mark.parametrize("seed", [1117, 1149])
def test_values_are_not_lost_over_fifty_thousand_rows(seed: int) -> None:
    """DISTINCT lost values when the room for an instant's output grew."""
    case = draw.make(seed, 50_000, 300_000, lean=3.0)
    assert case.rows >= LARGE
    assert check_case(case).comparisons >= 10


def test_sizes_are_spread_over_all_magnitudes() -> None:
    sizes = [draw.make(seed, 50, 1_000_000).rows for seed in range(60)]
    assert sum(size < 1000 for size in sizes) >= 5
    assert sum(1000 <= size < LARGE for size in sizes) >= 10
    assert sum(size >= LARGE for size in sizes) >= 10


def small_world(case: Case, trace: Trace) -> World:
    """The rows of a case as the twin reads them."""
    streams = tuple(Stream(s.name, tuple((c.name, c.kind) for c in s.series), s.delay) for s in case.streams)
    tables = tuple(
        Table(t.name, tuple((c.name, c.kind) for c in t.series), t.retroactive) for t in case.tables
    )
    world = World(Schema(streams, tables, case.timestamps))
    for stream in case.streams:
        on_time = trace.world.came[stream.name].on_time
        world.accepted[stream.name] = as_rows(stream.table.filter(pa.array(on_time)))
    for table in case.tables:
        versions = zip(as_rows(table.table), *trace.world.held[table.name], strict=True)
        world.tables[table.name] = [
            Version(row, int(since), int(until)) for row, since, until in versions if since < END
        ]
    return world


def as_rows(table: pa.Table) -> list[tuple[object, ...]]:
    return list(zip(*(as_values(table.column(i)) for i in range(table.num_columns)), strict=True))


def as_values(values: pa.ChunkedArray) -> list[object]:
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    return values.to_pylist()


@pytest.mark.parametrize("block", range(4))
def test_duckdb_and_the_twin_agree_on_drawn_shapes(block: int) -> None:
    """What is compared with the engine over many rows is compared with plain Python over few."""
    compared = tables = late = 0
    for seed in range(500 + block * 24, 524 + block * 24):
        case = draw.make(seed, 20, 90)
        trace = record(case)
        judge(case, trace)
        world = small_world(case, trace)
        late += case.constructs()["late"]
        for query, heard in zip(case.queries, trace.queries, strict=True):
            for tau, table in list(heard.snapshots.items())[:3]:
                assert not isinstance(query, ToStream)
                expected = answer(world, query, heard.since, tau)
                kinds = tuple("DOUBLE" if k == "FLOAT" else k for k in query.types)
                assert same(expected, as_rows(table), kinds), (seed, tau)
                compared += 1
                tables += any(True for _ in tables_of(query))
    assert compared > 40
    assert tables >= 3
    assert late >= 5


def without_one(table: pa.Table, place: int) -> pa.Table:
    keep = np.ones(table.num_rows, bool)
    keep[place] = False
    return table.filter(pa.array(keep))


def without_a_shown_row(heard: Heard) -> None:
    at, table = max(heard.snapshots.items(), key=lambda held: held[1].num_rows)
    heard.snapshots[at] = without_one(table, table.num_rows // 2)


def without_a_change(heard: Heard) -> None:
    """Without the last row that came and stays: it is missing at all later instants."""
    for number in range(len(heard.changes) - 1, -1, -1):
        clock, table = heard.changes[number]
        stays = (
            pc.is_null(table.column("__exp")),
            pc.greater(table.column("__exp").cast(pa.int64()), heard.until),
        )
        came = pc.and_(pc.equal(table.column("__op"), "+"), pc.fill_null(pc.or_kleene(*stays), True))
        if pc.any(came).as_py():
            place = int(np.flatnonzero(came.to_numpy())[-1])
            heard.changes[number] = clock, without_one(table, place)
            return
    pytest.skip("no row stays")


@pytest.mark.parametrize("spoil", [without_a_shown_row, without_a_change])
def test_one_missing_row_is_noticed(spoil: Callable[[Heard], None]) -> None:
    noticed = 0
    for seed in range(700, 718):
        case = draw.make(seed, 500, 2000)
        trace = record(case)
        judge(case, trace)
        shown = [
            i
            for i, h in enumerate(trace.queries)
            if h.snapshots.get(h.until) and h.snapshots[h.until].num_rows
        ]
        if not shown:
            continue
        heard = trace.queries[shown[0]]
        if spoil is without_a_change and (is_grouped(case.queries[shown[0]]) or case.waits):
            continue  # the last change of a group may be one that a later one replaces
        spoil(heard)
        with pytest.raises(Mismatch, match="differ"):
            judge(case, trace)
        noticed += 1
    assert noticed >= 5


def shown_instead(
    due: list[tuple[float, float]], shown: Sequence[tuple[float | None, float]]
) -> tuple[Case, Trace]:
    """A query over the rows that are due, and a trace in which others are shown instead."""
    columns = zip("gd", zip(*due, strict=True), strict=True)
    series = [
        Series(name, "DOUBLE", f"np.array({values}) * 4".replace("nan", "np.nan")) for name, values in columns
    ]
    stream = LargeStream("a", len(due), (Series("ts", "TIME", "i"), *series))
    items = Col("t1", "g", "DOUBLE"), Col("t1", "d", "DOUBLE")
    query = Select(items, (StreamSource("a", "t1", Window("range", 100)),))
    case = Case(0, (stream,), (query,), (Register(0), Push("a", 0, len(due)), Advance(9), Look(0)))
    trace = record(case)
    assert sorted(map(repr, as_rows(trace.queries[0].snapshots[9]))) == sorted(map(repr, due))
    trace.queries[0].snapshots[9] = pa.table(dict(zip(("c0", "c1"), zip(*shown, strict=True), strict=True)))
    return case, trace


def test_rounding_of_one_column_does_not_mix_up_rows() -> None:
    """Groups with the same STDDEV but for its last digit, and different averages (large seed 40000465)."""
    judge(*shown_instead([(0.75, -1.0), (0.75, 1.0)], [(0.75 + 2**-51, -1.0), (0.75 + 2**-52, 1.0)]))


@pytest.mark.parametrize("wrong", [0.75 + 1e-8, float("inf"), float("nan")])
def test_more_than_rounding_is_noticed(wrong: float) -> None:
    case, trace = shown_instead([(0.75, -1.0), (0.75, 1.0)], [(wrong, -1.0), (0.75 + 2**-52, 1.0)])
    with pytest.raises(Mismatch, match="snapshot"):
        judge(case, trace)


def test_null_instead_of_nan_is_noticed() -> None:
    nan = float("nan")
    case, trace = shown_instead([(nan, -1.0), (0.75, 1.0)], [(None, -1.0), (0.75 + 2**-52, 1.0)])
    with pytest.raises(Mismatch, match="snapshot"):
        judge(case, trace)


def test_values_exchanged_between_rows_are_noticed() -> None:
    case, trace = shown_instead([(0.75, -1.0), (0.5, 1.0)], [(0.75, 1.0), (0.5, -1.0)])
    with pytest.raises(Mismatch, match="snapshot"):
        judge(case, trace)


@pytest.mark.parametrize("kind", ["istream", "dstream", "rstream"])
def test_a_row_too_many_in_a_stream_of_changes_is_noticed(kind: str) -> None:
    """At an instant that is compared: of few rows all are."""
    noticed = 0
    for seed in range(900, 960):
        case = draw.make(seed, 100, 300)
        query = case.queries[0]
        relation = query.query if isinstance(query, ToStream) else query
        if case.waits or (kind == "rstream" and not is_grouped(relation)):
            continue
        case = replace(case, queries=(ToStream(kind, relation), *case.queries[1:]))
        trace = record(case)
        judge(case, trace)
        heard = trace.queries[0]
        table = pa.concat_tables([t for _, t in heard.changes])
        if len(pc.unique(table.column("__ts"))) < 4:
            continue
        last = table.slice(table.num_rows - 1)
        heard.changes.append((heard.until, last))
        with pytest.raises(Mismatch, match="differs from what changed"):
            judge(case, trace)
        noticed += 1
        if noticed == 3:
            return
    pytest.fail(f"only {noticed} cases with {kind}")


def test_every_construct_is_drawn() -> None:
    seen = counted_large(range(800), 1000, 2000)
    rare = {name: seen[name] for name in sorted(EXPECTED_LARGE) if seen[name] < 3}
    assert not rare, f"drawn too rarely in 800 cases: {rare}"


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


def runs_alone(case: Case) -> bool:
    """A case with all that a reproduction has to write down."""
    used = case.constructs()
    shown = [e for e in case.events if isinstance(e, Look) and e.query == 0]
    return bool(used["update"] and used["late"] and used["nrr"] and shown) and not isinstance(
        case.queries[0], ToStream
    )


def test_a_reproduction_runs_by_itself(tmp_path: Path) -> None:
    drawn = (draw.make(s, 200, 400) for s in range(200))
    case = next(c for c in drawn if runs_alone(c))
    clock = course.World(case)
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
