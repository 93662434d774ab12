"""The benchmarks' hand-written programs against naive ones: a limit that is wrong would flatter the engine."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from penstock_lab.benchmarks import workload
from penstock_lab.benchmarks.changes import Checksum
from penstock_lab.benchmarks.points import Point
from penstock_lab.benchmarks.workload import Workload
from penstock_lab.reference import Keys
from penstock_lab.reference.aggregate import SlidingAggregate
from penstock_lab.reference.distinct import Distinct
from penstock_lab.reference.except_ import Except
from penstock_lab.reference.three_way import PAIRS, ThreeWay
from penstock_lab.reference.three_way_delta import ThreeWayDelta
from penstock_lab.reference.window_join import WindowJoin

BATCHES = [1, 7, 1000]
"""Cutting the input elsewhere must not matter to the references either."""


def small(names: str, batch: int, **keys: int) -> Workload:
    return workload.make(names, 1500, window=60, batch=batch, seed=3, **{"x_keys": 12, "y_keys": 40} | keys)


def run(program: object, work: Workload) -> Counter[tuple[object, ...]]:
    tables = [t for step in work.steps() for t in program(step)]  # type: ignore[operator]
    return bag(pa.concat_tables(tables))


def bag(table: pa.Table) -> Counter[tuple[object, ...]]:
    return Counter(zip(*(c.to_pylist() for c in table.columns), strict=True))


def in_duckdb(work: Workload, sql: str) -> Counter[tuple[object, ...]]:
    with duckdb.connect() as db:
        for name, events in work.streams.items():
            db.register(name, pa.table({"ts": events.ts, "x": events.x, "y": events.y}))
        return Counter(db.execute(sql.replace(":w", str(work.window))).fetchall())


def instants(work: Workload) -> range:
    return range(work.last + 1)


def live(work: Workload, name: str, tau: int) -> list[tuple[int, int, int]]:
    """(ts, x, y) of the rows alive at τ, oldest first."""
    s = work.streams[name]
    rows = zip(s.ts.tolist(), s.x.tolist(), s.y.tolist(), strict=True)
    return [r for r in rows if r[0] <= tau < r[0] + work.window]


@pytest.mark.parametrize("batch", BATCHES)
def test_window_join_gives_every_pair_whose_lifetimes_meet(batch: int) -> None:
    work = small("ab", batch)
    expected = in_duckdb(
        work,
        """SELECT '+', greatest(a.ts, b.ts), least(a.ts, b.ts) + :w, a.x, a.y, b.y
           FROM a, b WHERE a.x = b.x AND abs(a.ts - b.ts) < :w""",
    )
    assert run(WindowJoin(work), work) == expected


@pytest.mark.parametrize("batch", BATCHES)
def test_three_way_gives_every_triple_whose_lifetimes_meet(batch: int) -> None:
    work = small("abc", batch)
    expected = in_duckdb(
        work,
        """SELECT '+', greatest(a.ts, b.ts, c.ts) t, least(a.ts, b.ts, c.ts) + :w e, a.x, a.y, b.y, c.x
           FROM a, b, c WHERE a.x = b.x AND a.y = c.y AND t < e""",
    )
    assert run(ThreeWay(work), work) == expected
    assert run(ThreeWayDelta(work), work) == expected


@pytest.mark.parametrize("batch", BATCHES)
def test_distinct_shows_the_youngest_copy_when_nothing_is_shown(batch: int) -> None:
    work = small("a", batch)
    shown: dict[int, int] = {}
    expected: Counter[tuple[object, ...]] = Counter()
    for tau in instants(work):
        for ts, x, _ in reversed(live(work, "a", tau)):
            if shown.get(x, -1) <= tau:
                shown[x] = ts + work.window
                expected["+", tau, ts + work.window, x] += 1
    assert run(Distinct(work), work) == expected


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("keys", [12, 60])
def test_except_shows_the_youngest_copy_and_takes_it_back(batch: int, keys: int) -> None:
    work = small("ab", batch, x_keys=keys)
    shown: dict[int, int] = {}
    expected: Counter[tuple[object, ...]] = Counter()
    for tau in instants(work):
        youngest = {x: ts + work.window for ts, x, _ in live(work, "a", tau)}
        barred = {x for _, x, _ in live(work, "b", tau)}
        for x in youngest.keys() | shown.keys():
            wanted = x in youngest and x not in barred
            is_shown = shown.get(x, -1) > tau
            if is_shown and not wanted:
                expected["-", tau, shown.pop(x), x] += 1
            elif wanted and not is_shown:
                shown[x] = youngest[x]
                expected["+", tau, youngest[x], x] += 1
    assert any(op == "-" for op, *_ in expected)
    assert run(Except(work), work) == expected


@pytest.mark.parametrize("batch", BATCHES)
def test_sliding_aggregate_sends_a_row_for_every_change_of_a_group(batch: int) -> None:
    work = small("a", batch)
    before: dict[int, list[tuple[int, int]]] = {}
    expected: Counter[tuple[object, ...]] = Counter()
    for tau in instants(work):
        groups: dict[int, list[tuple[int, int]]] = {}
        for ts, x, y in live(work, "a", tau):
            groups.setdefault(x, []).append((ts, y))
        for x, rows in groups.items():
            if rows != before.get(x):
                total = sum(y for _, y in rows)
                expected["+", tau, rows[0][0] + work.window, x, total, total / len(rows)] += 1
        before = groups
    assert run(SlidingAggregate(work), work) == expected


def test_a_ring_of_pairs_grows() -> None:
    """Few values of y: far more live pairs than the ring has room for at first, and hundreds of results an arrival."""
    work = workload.make("abc", 600, window=300, x_keys=300, y_keys=2, batch=100)
    program = ThreeWay(work)
    assert run(program, work) == run(ThreeWayDelta(work), work)
    assert len(program.pair) > PAIRS


@pytest.mark.parametrize("spread", [1, 4096, 1_000_003])
def test_keys_are_numbered_as_first_seen_whatever_they_are(spread: int) -> None:
    """Far more keys than a new table takes, of both signs and with the ends of INT among them."""
    around = np.arange(-1500, 1500, dtype=np.int64) * spread
    ends = np.array([-(2**31), 2**31 - 1, -1, 0])
    column = np.tile(np.concatenate([ends, around % 2**32 - 2**31]), 2).astype(np.int32)
    keys, seen = Keys(), dict[int, int]()
    for part in np.array_split(column, 7):
        expected = [seen.setdefault(key, len(seen)) for key in part.tolist()]
        assert keys.number(part).tolist() == expected
    assert keys.count == len(seen) <= keys.room
    assert keys.values[: keys.count].tolist() == list(seen)


@pytest.mark.parametrize("program", [WindowJoin, ThreeWay, ThreeWayDelta, Distinct, Except, SlidingAggregate])
def test_a_program_does_not_depend_on_which_values_its_keys_take(program: type) -> None:
    work, factor = small("abc", 100), -100_000_007
    streams = {n: s if n == "c" else replace(s, x=s.x * np.int32(factor)) for n, s in work.streams.items()}
    before: Counter[Any] = run(program(work), work)
    expected = Counter({(*r[:3], r[3] * factor, *r[4:]): n for r, n in before.items()})
    spread = replace(work, streams=streams)
    assert run(program(spread), spread) == expected


def test_a_checksum_tells_apart_what_differs() -> None:
    one, other = Checksum(), Checksum()
    one.add(pa.table({"__op": ["+", "-"], "__ts": [1, 2], "__exp": [5, 5], "x": [3, 3]}))
    other.add(pa.table({"__op": ["+", "-"], "__ts": [1, 2], "__exp": [5, 5], "x": [3, 4]}))
    assert one.difference(one) is None
    assert one.difference(other) == "sum of x: 6 and 7"


def test_a_point_holds_on_its_side_of_the_limit() -> None:
    assert [Point("cost", v, 1.5, "×").holds for v in (1.4, 1.5, 1.6)] == [True, True, False]
    share = Point("share", 0.39, 0.4, "×", at_least=True, more={"aim": 0.6, "reaches_aim": False})
    assert share.json()["holds"] is False and share.json()["reaches_aim"] is False
    assert share.failure() == "share: 0.39 ×, at least 0.4 wanted"
