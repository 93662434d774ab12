"""The benchmark of many standing queries on small data: programs against plain loops, the engine against the programs."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock_lab.benchmarks.standing import engine, joins, run, symbols, workload
from penstock_lab.benchmarks.standing.workload import DOMAIN, Range, Ranges
from penstock_lab.reference import bitmap_tables as tables
from penstock_lab.reference.bitmap import ROWS, Counting, Delivering, Total

SMALL = run.Extent(
    counting=((1, 2, 1), (70, 2, 1)),
    delivering=((70, 2, 1),),
    symbols=((300, 2, 1),),
    churned=5,
    churns=4,
    cycles=20,
    joined=20,
    joined_rows=500,
    rows=1000,
    churn_rows=100,
)


def silent(_: str) -> None:
    return None


def columns(rows: int, start: int = 0) -> tuple[Any, ...]:
    (batch,) = workload.batches(1, rows, start=start)
    return workload.attributes(batch)


@pytest.mark.parametrize("rows", [1, 7, 8, 64, 65, 511, 513, 1003])
@pytest.mark.parametrize("queries", [1, 64, 65, 300, 1100])
def test_programs_find_what_a_plain_loop_finds(queries: int, rows: int) -> None:
    asked, given = workload.queries(queries), columns(rows)
    expected = [workload.matches(q, given) for q in asked]
    counting, total, delivering = Counting(asked), Total(asked), Delivering(asked)
    counting(given)
    total(given)
    numbers, begins = delivering(given)
    assert counting.counts.tolist() == delivering.counts.tolist() == [len(e) for e in expected]
    assert total.found == counting.counts.sum() == len(numbers)
    for q, e in enumerate(expected):
        assert numbers[begins[q] : begins[q + 1]].tolist() == e.tolist()


def test_counts_go_on_from_push_to_push() -> None:
    asked, counting = workload.queries(5), Counting(workload.queries(5))
    pushes = [columns(n, start=n) for n in (100, 3)]
    for given in pushes:
        counting(given)
    assert counting.counts.tolist() == [sum(len(workload.matches(q, g)) for g in pushes) for q in asked]


def test_planes_hold_as_many_rows_as_are_added_before_they_are_read() -> None:
    everything = Ranges((Range(0, 0, DOMAIN),))
    counting = Counting([everything])
    counting(columns(ROWS + 5))
    assert counting.counts.tolist() == [ROWS + 5]


def test_values_at_and_beyond_the_end_points_and_many_in_a_cell() -> None:
    asked = [Ranges((Range(0, lo, lo + 1),)) for lo in range(50, 60)] + [Ranges((Range(1, 0, DOMAIN),))]
    (tile,) = tables.tiles(asked, 1)
    assert tile.most >= 1
    first = np.array([-5, 0, 49, 50, 51, 59, 60, 61, 99_999, 2**31 - 2], np.int32)
    given = (first, *(np.zeros(len(first), np.int32) for _ in range(5)))
    counting = Counting(asked)
    counting(given)
    assert counting.counts.tolist() == [1, 1, 0, 0, 0, 0, 0, 0, 0, 1, len(first)]
    crowded = [Ranges((Range(0, lo, DOMAIN),)) for lo in (0, *range(30_000, 30_009))]
    (tile,) = tables.tiles(crowded, 1)
    assert tile.most > 3
    first = np.arange(29_990, 30_020, dtype=np.int32)
    counting = Counting(crowded)
    counting((first, *(first for _ in range(5))))
    assert counting.counts.tolist() == [30, *range(20, 11, -1)]


def test_a_tile_looks_only_at_attributes_that_its_queries_have() -> None:
    asked = [Ranges((Range(a, 10, 20),)) for a in (3, 5) for _ in range(64)]
    assert [t.attributes.tolist() for t in tables.tiles(asked, 1)] == [[3], [5]]


def test_a_range_lets_a_tenth_to_three_tenths_through() -> None:
    for query in workload.queries(200):
        assert 1 <= len(query.ranges) == len(set(query.attributes)) <= workload.MOST
        for r in query.ranges:
            assert 0 <= r.lo < r.hi <= DOMAIN and 0.099 < (r.hi - r.lo) / DOMAIN <= 0.3


def test_symbols_are_found_as_a_plain_loop_finds_them() -> None:
    asked = symbols.queries(500)
    program = symbols.Watching(asked)
    pushes = list(symbols.batches(2, 300))
    longer = pa.array(["S1", "", "S1234567890", "é"])
    odd = pa.record_batch(
        [pa.array(range(4)), longer, pa.array([DOMAIN] * 4, pa.int32())], names=["ts", "symbol", "price"]
    )
    pushes += [pushes[0].slice(7, 100), odd]
    for batch in pushes:
        program(batch)
    assert program.counts.tolist() == [sum(symbols.matches(q, b) for b in pushes) for q in asked]
    assert program.counts.sum() > 10


def test_the_engine_agrees_and_the_verdict_is_whole() -> None:
    result = json.loads(json.dumps(run.measure(SMALL, silent)))
    assert set(result) == {"name", "claim", "measured", "reference", "holds", "why_not"}
    assert set(result["measured"]) == set(result["reference"])
    assert not [w for w in result["why_not"] if "differ" in w or "delivered to" in w]
    assert result["measured"]["counting, 70 queries"]["tuples_per_second"] > 0
    points = result["measured"]["adding and dropping, 5 queries"]["points"]
    assert len(points) == 3 and all(p["value"] is not None for p in points.values())
    assert result["holds"] is (not result["why_not"])
    kept = result["measured"]["remembering, 20 joins over 5 streams"]
    assert kept["rows_in_stems"] == 5 * 500 and kept["bytes"] > kept["bytes_of_stems"] > 0
    assert len(kept["points"]) == 4


def test_bars_are_asked_of_the_sizes_that_they_are_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "CHURNED", 3)
    monkeypatch.setattr(run, "COUNTED", 4)
    monkeypatch.setattr(run, "PACE", 1e15)
    three, four = (run.counting(n, 1, 1, 500) for n in (3, 4))
    assert [p.name for p in three.points] == ["share of the hand-written program"]
    assert four.failures() == [four.points[0].failure()]
    assert run.delivering(4, 1, 1, 500).points == []
    assert [p.unit for p in run.delivering(3, 1, 1, 500).points] == ["rows/s"]


def test_a_count_that_differs_is_a_failure() -> None:
    assert run._differences(np.array([1, 2, 3]), np.array([1, 5, 4])) == [
        "counts of 2 queries differ, the first q1: 2 and 5"
    ]
    assert run._differences(np.array([1]), np.array([1])) == []


def test_rows_given_to_the_wrong_query_are_seen() -> None:
    asked = workload.queries(4)
    standing = engine.Standing(penstock.connect(), workload.DECLARATION, workload.STREAM, asked[::-1])
    (wrong,) = run._undelivered(standing, asked, list(workload.batches(1, 500)))
    assert wrong.startswith("other rows were delivered to 4 queries, the first q0")


def test_a_push_that_is_held_up_is_told_from_the_others() -> None:
    lat = engine.Latencies
    found = engine.Churn(lat([1.0]), lat([1.0]), still=lat([2.0, 2.5, 2.0]), disturbed=lat([2.0, 9.0]))
    assert found.delay == 7.0


def test_memory_is_looked_at_after_a_tenth_and_after_all_cycles() -> None:
    standing = engine.Standing(penstock.connect(), workload.DECLARATION, workload.STREAM, workload.queries(2))
    kept = engine.cycles(standing, workload.queries(30), 30, workload.batches(10, 50), every=10)
    assert kept.cycles == 27
    assert kept.before > 0 and kept.after > 0
    assert list(standing.session.queries) == ["q0", "q1"]
    assert kept.state_after < kept.state_before + 4_000, (
        "grouped filters keep a few cells of queries that went"
    )


def test_joins_are_of_two_to_five_streams_and_read_what_the_largest_reads() -> None:
    asked = joins.queries(300, 1000)
    assert asked[0] == joins.largest(1000)
    assert {len(q.inputs) for q in asked} == {2, 3, 4, 5}
    assert all(len({stream for stream, _, _ in q.inputs}) == len(q.inputs) for q in asked)
    assert all(1 <= window <= 1000 for q in asked for _, window, _ in q.inputs)
    assert len({q.sql() for q in asked}) == 300
    assert {p[0] for q in asked for _, _, some in q.inputs for p in some} == {"v"}
    two = joins.queries(300, 1000, 2)
    assert {p[0] for q in two for _, _, some in q.inputs for p in some} == {"v", "w"}


def test_what_joins_remember_is_what_the_session_says() -> None:
    """Many more take hardly more than the one, whose rows they share; a session that shares nothing has each one's own."""
    asked = joins.queries(30, 2000)
    every, one = joins.held(asked, 2000), joins.held(asked[:1], 2000, join="eddy")
    apart = joins.held(asked, 2000, share=False)
    assert every.found == one.found == apart.found > 0
    assert every.every == apart.every > every.found
    assert every.stems == one.stems
    assert every.rows == one.rows == 5 * 2000
    assert one.bytes <= every.bytes < 1.3 * one.bytes
    assert apart.bytes > 5 * every.bytes and apart.stems == 0
