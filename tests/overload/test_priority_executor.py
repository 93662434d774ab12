"""Ranks, lifespans and budgets, through the public interface."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.errors import StateError

STREAMS = (
    "CREATE STREAM a (ts BIGINT, x INT, y INT) WATERMARK ts DELAY OF INTERVAL 0;"
    "CREATE STREAM b (ts BIGINT, x INT, z INT) WATERMARK ts DELAY OF INTERVAL 0;"
)
JOIN = "SELECT a.x, a.y, b.z FROM a [RANGE 300], b [RANGE 200] WHERE a.x = b.x"
RANKS = "RANK 1 CRITERIA (a.y > 95) RANK 2 CRITERIA (a.y > 80 AND a.y <= 90 OR a.y > 94)"
CASE = "CASE WHEN a.y > 95 THEN 1 WHEN a.y > 80 AND a.y <= 90 OR a.y > 94 THEN 2 END"
STEPS = 30


def steps(rows: int, seed: int = 1) -> list[tuple[int, dict[str, pa.Table]]]:
    drawn = np.random.default_rng(seed)
    made = []
    for step in range(STEPS):
        tables = {}
        for name, column in (("a", "y"), ("b", "z")):
            ts = np.sort(drawn.integers(step * 100, (step + 1) * 100, rows))
            values = {"x": drawn.integers(0, 20, rows), column: drawn.integers(0, 100, rows)}
            tables[name] = pa.table({"ts": ts, **{k: v.astype("i4") for k, v in values.items()}})
        made.append(((step + 1) * 100 - 1, tables))
    return made


class Run:
    """One query over the rows of `steps`."""

    def __init__(self, sql: str, **options: Any) -> None:
        self.session = penstock.connect(**options)
        self.session.execute(STREAMS)
        self.query = self.session.query(sql, name="q")
        self.said: list[dict[str, Any]] = []

    def take(self, until: int, tables: dict[str, pa.Table]) -> None:
        for name, rows in tables.items():
            self.session.push(name, rows)
        self.session.advance(until)
        self.said += self.query.changes().to_pylist()

    def drain(self) -> None:
        self.session.drain()
        self.said += self.query.changes().to_pylist()

    def whole(self, rows: int = 80) -> Run:
        for until, tables in steps(rows):
            self.take(until, tables)
        self.drain()
        return self

    def counted(self, *columns: str) -> Counter[tuple[Any, ...]]:
        return Counter(tuple(row[c] for c in columns or row) for row in self.said)

    def ranks(self) -> Counter[int | None]:
        return Counter(row["__rank"] for row in self.said)


def test_a_result_says_the_first_rank_whose_criteria_hold() -> None:
    expected = Run(
        f"SELECT a.x, a.y, b.z, {CASE} AS r FROM a [RANGE 300], b [RANGE 200] WHERE a.x = b.x"
    ).whole()
    columns = ("__op", "__ts", "__exp", "x", "y", "z")
    for options in ({}, {"share": False}, {"budget": 10**9}, {"budget": 50, "allocation": "promote"}):
        ranked = Run(f"{JOIN} {RANKS}", **options).whole()
        assert ranked.counted(*columns, "__rank") == expected.counted(*columns, "r")
        assert ranked.query.snapshot().column_names == ["x", "y", "z"]


@pytest.mark.parametrize("allocation", ["fifo", "random", "semantic", "promote"])
def test_what_is_said_under_overload_is_true_and_what_is_not_is_counted(allocation: str) -> None:
    truth = Run(f"{JOIN} {RANKS}").whole()
    some = Run(f"{JOIN} LIFESPAN 3000 {RANKS}", budget=700, allocation=allocation).whole()
    assert some.counted() <= truth.counted()
    assert 0 < len(some.said) < len(truth.said)
    load = some.query.load
    assert load["waiting"] == 0
    lost = sum(one["expired"] + one["shed"] for one in load["ranks"])
    assert lost > 0
    worst = max(one["latency_p99"] for one in load["ranks"])
    assert worst <= 3000 + 3000 / 8, "nothing is said much later than its lifespan"


def test_the_most_important_go_first() -> None:
    truth = Run(f"{JOIN} {RANKS}").whole().ranks()
    made = {
        name: Run(f"{JOIN} LIFESPAN 3000 {RANKS}", budget=600, allocation=name).whole().ranks()
        for name in ("fifo", "random", "promote")
    }
    assert made["promote"][1] > 2 * max(made["fifo"][1], made["random"][1])
    assert made["promote"][1] > 0.8 * truth[1]


def test_levels_are_told_apart_by_how_late_they_are() -> None:
    run = Run(f"{JOIN} LIFESPAN 8000 {RANKS}", budget=900, allocation="promote")
    for until, tables in steps(80):
        run.take(until, tables)
    latency = {one["rank"]: one["latency_mean"] for one in run.query.load["ranks"]}
    assert latency[1] < latency[2] < latency[None]


def test_nothing_waits_once_there_is_little_to_do() -> None:
    run = Run(f"{JOIN} LIFESPAN 20000 {RANKS}", budget=5000, allocation="promote")
    busy = []
    for step, (until, tables) in enumerate(steps(200)):
        if step >= 10:
            tables = {name: rows.slice(0, 3) for name, rows in tables.items()}
        run.take(until, tables)
        busy.append(run.query.load["busy"])
    assert any(busy[:10])
    assert not busy[-1]


def test_other_ranks_while_it_runs() -> None:
    """What waits is ranked anew, and nothing is lost or said twice."""
    truth = Run(JOIN).whole()
    run = Run(f"{JOIN} {RANKS}", budget=400, allocation="promote")
    for step, (until, tables) in enumerate(steps(80)):
        if step == 15:
            run.session.execute("ALTER QUERY q SET RANK 1 CRITERIA (a.y < 5)")
            before = len(run.said)
        run.take(until, tables)
    run.drain()
    columns = ("__op", "__ts", "__exp", "x", "y", "z")
    assert run.counted(*columns) == truth.counted(*columns)
    assert all(row["__rank"] == (1 if row["y"] < 5 else None) for row in run.said[before:])
    assert [str(rank.criteria) for rank in run.query.ranks] == ["(a.y < 5)"]


def test_other_ranks_without_a_budget() -> None:
    run = Run(f"{JOIN} {RANKS}")
    for step, (until, tables) in enumerate(steps(20)):
        if step == 15:
            run.session.execute("ALTER QUERY q SET RANK 1 CRITERIA (a.y < 5)")
            before = len(run.said)
        run.take(until, tables)
    assert all(row["__rank"] == (1 if row["y"] < 5 else None) for row in run.said[before:])
    assert {row["__rank"] for row in run.said[:before]} == {1, 2, None}


def test_other_ranks_of_a_query_whose_rows_wait_to_be_asked_for() -> None:
    """What came before is told by the ranks it came by, and others that are alike say what they said."""
    session = penstock.connect()
    session.execute(STREAMS)
    text = "SELECT x, y FROM a [RANGE 300] RANK 1 CRITERIA (y > 95)"
    queries = [session.query(text, name=name) for name in ("q", "other")]
    for step, (until, tables) in enumerate(steps(20)):
        if step == 15:
            session.execute("ALTER QUERY q SET RANK 1 CRITERIA (y < 5)")
        session.push("a", tables["a"])
        session.advance(until)
    said, others = (query.changes().to_pylist() for query in queries)
    assert [row["__rank"] for row in others] == [1 if row["y"] > 95 else None for row in others]
    for row in said:
        one = row["y"] > 95 if row["__ts"] < 1500 else row["y"] < 5
        assert row["__rank"] == (1 if one else None)
    session.execute("DROP QUERY q")
    assert list(session.queries) == ["other"]


def test_another_lifespan_while_it_runs() -> None:
    run = Run(f"{JOIN} {RANKS}", budget=300, allocation="fifo")
    for step, (until, tables) in enumerate(steps(80)):
        if step == 15:
            assert not any(one["expired"] for one in run.query.load["ranks"])
            run.session.execute("ALTER QUERY q SET LIFESPAN 500")
        run.take(until, tables)
    assert sum(one["expired"] for one in run.query.load["ranks"]) > 0
    assert run.query.lifespan == 500


def test_criteria_that_read_what_is_not_kept_are_refused() -> None:
    run = Run(
        "SELECT a.x FROM a [RANGE 300], b [RANGE 200] WHERE a.x = b.x RANK 1 CRITERIA (a.y > 5)", budget=10
    )
    with pytest.raises(StateError, match=r"does not keep b\.z"):
        run.session.execute("ALTER QUERY q SET RANK 1 CRITERIA (b.z > 5)")
    run.whole(5)
    assert run.ranks()[1] > 0, "it goes on as it was"


def test_other_criteria_may_read_what_was_kept_to_join_by() -> None:
    run = Run(
        "SELECT a.y FROM a [RANGE 300], b [RANGE 200] WHERE a.x = b.x RANK 1 CRITERIA (a.y > 5)", budget=10
    )
    for step, (until, tables) in enumerate(steps(80)[:8]):
        if step == 4:
            assert run.query.load["waiting"]
            run.session.execute("ALTER QUERY q SET RANK 1 CRITERIA (b.x < 0) RANK 2 CRITERIA (b.x >= 0)")
            run.query.changes()
        run.take(until, tables)
    run.session.drain()
    assert set(run.query.changes().column("__rank").to_pylist()) == {2}


@pytest.mark.parametrize("window", ["RANGE 5", "ROWS 5"])
def test_equal_queries_may_be_told_ranks_of_their_own(window: str) -> None:
    session = penstock.connect()
    session.execute(STREAMS)
    text = f"SELECT a.x FROM a [{window}], b [{window}] WHERE a.x = b.x RANK 1 CRITERIA (a.x = 1)"
    queries = [session.query(text, name=name) for name in "qr"]
    session.execute("ALTER QUERY q SET RANK 2 CRITERIA (a.x = 1)")
    session.push("a", [{"ts": 1, "x": 1, "y": 1}])
    session.push("b", [{"ts": 1, "x": 1, "z": 1}])
    session.advance(1)
    assert [query.changes().column("__rank").to_pylist() for query in queries] == [[2], [1]]


@pytest.mark.parametrize("options", [{}, {"budget": 5}, {"expiry": "negative"}])
def test_ends_repeat_the_rank_that_was_told(options: dict[str, Any]) -> None:
    session = penstock.connect(**options)
    session.execute(STREAMS)
    query = session.query(
        "SELECT a.x FROM a [RANGE 50] WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 50] WHERE b.x = a.x) "
        "RANK 1 CRITERIA (a.x < 5)",
        name="q",
    )
    session.push("a", [{"ts": 1, "x": x, "y": 1} for x in range(10)])
    session.advance(1)
    session.drain()
    session.execute("ALTER QUERY q SET RANK 2 CRITERIA (a.x >= 5)")
    session.push("a", [{"ts": 2, "x": x, "y": 1} for x in range(10)])
    session.push("b", [{"ts": 3, "x": x, "z": 1} for x in range(0, 10, 2)])
    session.advance(3)
    session.drain()
    said = query.changes().to_pylist()
    live: Counter[tuple[Any, ...]] = Counter()
    for row in said:
        live[row["x"], row["__exp"], row["__rank"]] += 1 if row["__op"] == "+" else -1
    assert set(live.values()) == {0, 1}
    assert sorted(x for (x, *_), n in live.items() if n) == sorted(query.snapshot().column("x").to_pylist())
    session.advance(60)
    assert query.snapshot().num_rows == 0


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a.x FROM a [ROWS 5], b [RANGE 30] WHERE a.x = b.x",
        "SELECT a.x FROM a [RANGE 5] WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 5] WHERE b.x = a.x)",
    ],
)
def test_other_ranks_are_said_above_a_core_too(text: str) -> None:
    run = Run(f"{text} RANK 1 CRITERIA (a.x < 10)", budget=5)
    run.session.execute("ALTER QUERY q SET RANK 2 CRITERIA (a.x < 10) RANK 3 CRITERIA (a.x >= 10)")
    for until, tables in steps(5)[:3]:
        run.take(until, tables)
    run.drain()
    assert run.said
    assert all(row["__rank"] == (2 if row["x"] < 10 else 3) for row in run.said)


def test_ranks_of_a_query_whose_answers_have_none_may_be_others() -> None:
    session = penstock.connect()
    session.execute("CREATE STREAM a (ts BIGINT, x INT, y INT) WATERMARK ts DELAY OF INTERVAL 0")
    query = session.query("SELECT DISTINCT x FROM a [RANGE 5] RANK 1 CRITERIA (y > 1)", name="q")
    session.execute("ALTER QUERY q SET RANK 2 CRITERIA (y > 2)")
    assert [rank.level for rank in query.ranks] == [2]


def test_explain_tells_what_waits() -> None:
    run = Run(f"{JOIN} {RANKS}", budget=200, allocation="promote")
    assert "calm" in run.query.explain()
    for until, tables in steps(80)[:5]:
        run.take(until, tables)
    assert "input 1: join with input 2" in run.query.explain()
    assert "rank 1, 2 is found before it" in run.query.explain()


def test_a_budget_of_time() -> None:
    """By the wall clock nothing is the same twice, but what is said is true, and in the end everything is."""
    truth = Run(f"{JOIN} {RANKS}").whole()
    some = Run(f"{JOIN} {RANKS}", budget="1 millisecond", allocation="promote").whole()
    assert some.counted() == truth.counted()
    hasty = Run(f"{JOIN} LIFESPAN 2 MILLISECONDS {RANKS}", budget="1 millisecond").whole(400)
    assert hasty.counted() <= Run(f"{JOIN} {RANKS}").whole(400).counted()


@pytest.mark.parametrize("budget", [-1, 1.5, True, "many"])
def test_a_budget_is_a_number_of_units(budget: Any) -> None:
    with pytest.raises(StateError, match="budget"):
        penstock.connect(budget=budget)
