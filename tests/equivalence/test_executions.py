"""Negative tuples, the direct approach and update patterns: three executions of one plan say the same (§2.3, §5.4.3)."""

from __future__ import annotations

import os
from typing import Any

import pytest

import penstock
from penstock.errors import StateError
from penstock.plan.state_upkeep import Expiry, Upkeep
from penstock.spark.declarations_log import Declared
from tests.equivalence.executions import EXECUTIONS
from tests.equivalence.test_cuts import hold
from tests.oracle import case as cases
from tests.oracle.check import judge
from tests.oracle.trace import Cut, record

CASES = int(os.environ.get("PENSTOCK_CASES", "600")) // 10
BLOCK = 10


@pytest.mark.parametrize("first", range(110_000, 110_000 + CASES, BLOCK))
def test_executions_say_the_same(first: int) -> None:
    for seed in range(first, first + BLOCK):
        case = cases.make(seed)
        plain = record(case, Cut("random", seed))
        for options in EXECUTIONS[1:]:
            other = record(case, Cut("random", seed), options)
            judge(case, other)
            hold(case, plain, other, f"{options} differs from the defaults")


STREAMS = """
CREATE STREAM a (ts BIGINT, x INT, y INT) WATERMARK ts DELAY OF 0;
CREATE STREAM b (ts BIGINT, x INT, y INT) WATERMARK ts DELAY OF 0
"""
QUERIES = [
    "SELECT a.y, b.y AS z FROM a [RANGE 300], b [RANGE 500] WHERE a.x = b.x",
    "SELECT DISTINCT x FROM a [RANGE 300]",
    "SELECT x FROM a [RANGE 300] EXCEPT ALL SELECT x FROM b [RANGE 200]",
    "SELECT x, COUNT(*) AS n FROM a [RANGE 300] GROUP BY x HAVING COUNT(*) > 1",
    "SELECT x FROM a [RANGE 90] UNION (SELECT y FROM b [RANGE 300] EXCEPT SELECT x FROM a [RANGE 100])",
    "SELECT x, y FROM a [RANGE 300] WHERE NOT EXISTS (SELECT 1 AS one FROM b [RANGE 9] WHERE b.x = a.x)",
    # Of one union's inputs ends are announced, of the other told.
    "SELECT x, y FROM a [RANGE 30] UNION SELECT x, y FROM b [ROWS 5]",
]


def said(tunings: dict[int, dict[str, Any]], **options: Any) -> tuple[list[list[str]], list[list[str]]]:
    """All changes and the last answers of the queries, with settings changed before some of ten pushes."""
    session = penstock.connect(**options)
    session.execute(STREAMS)
    queries = [session.query(text) for text in QUERIES]
    for k in range(10):
        session.tune(**tunings.get(k, {}))
        ts = list(range(k * 100, (k + 1) * 100))
        for name, prime in (("a", 7), ("b", 11)):
            session.push(name, {"ts": ts, "x": [t * prime % 31 for t in ts], "y": [t * t % 13 for t in ts]})
    changes = [sorted(map(repr, q.changes().to_pylist())) for q in queries]
    return changes, [sorted(map(repr, q.snapshot().to_pylist())) for q in queries]


@pytest.mark.parametrize("expiry", ["upa", "hybrid", "direct", "negative"])
def test_settings_may_change_while_queries_run(expiry: str) -> None:
    tunings = {
        2: {"eager": 1},
        3: {"partitions": 4},
        5: {"eager": None, "lazy": 0.5},
        6: {"partitions": 1000},
        8: {"eager": 20, "partitions": None},
    }
    assert said(tunings, expiry=expiry) == said({})


def test_only_how_often_may_be_tuned() -> None:
    session = penstock.connect()
    with pytest.raises(StateError, match="'expiry' cannot be tuned"):
        session.tune(expiry="direct")
    for wrong in ({"eager": 0}, {"partitions": 1 << 30}, {"lazy": 2}, {"eager": True}):
        with pytest.raises(StateError, match="option"):
            session.tune(**wrong)
    assert (session.options.eager, session.engine.upkeep.eager) == (None, None)


def test_every_execution_does_the_work_it_stands_for() -> None:
    """Visits: the direct one searches, the negative one is told everything twice."""
    visits = {}
    for expiry in ("upa", "direct", "negative"):
        session = penstock.connect(expiry=expiry, eager=1)
        session.execute(STREAMS)
        query = session.query("SELECT DISTINCT x FROM a [RANGE 500]")
        ts = list(range(2_000))
        session.push("a", {"ts": ts, "x": [t * 7 % 31 for t in ts], "y": ts})
        visits[expiry] = query.visits
    assert 2_000 < visits["upa"] < visits["negative"] / 2
    assert visits["direct"] > 500 * 1_500


def drifting(expiry: str) -> tuple[list[str], list[str], list[str]]:
    """A negation whose right side meets ever more of the left: structure, changes and answers on the way."""
    session = penstock.connect(expiry=expiry, eager=5)
    session.execute(STREAMS)
    query = session.query("SELECT x, y FROM a [RANGE 100] EXCEPT ALL SELECT x, y FROM b [RANGE 100]")
    structures, changes, answers = [], [], []
    for k in range(30):
        ts = [t for t in range(k * 20, (k + 1) * 20) for _ in range(100)]
        met = 0.01 if k < 12 else 0.9
        values = [(i * 7919 + k) % 4_001 for i in range(len(ts))]
        session.push("a", {"ts": ts, "x": values, "y": [v % 3 for v in values]})
        other = [v if (i * 31) % 100 < met * 100 else 5_000 + v for i, v in enumerate(values)]
        session.push("b", {"ts": [t + 5 for t in ts], "x": other, "y": [v % 3 for v in values]})
        changes += map(repr, query.changes().to_pylist())
        answers.append(str(sorted(map(repr, query.snapshot().to_pylist()))))
        structures.append(query.explain().split("answer: ")[1].split("\n")[0])
    return structures, sorted(changes), answers


def test_storage_follows_the_share_of_rows_that_end_early() -> None:
    """From 1 % to 90 %: within a window the way in which rows of negative tuples are found is another, and no change is."""
    structures, *said_by_upa = drifting("upa")
    assert all("in their partition" in one for one in structures[:12])
    assert all("by number" in one for one in structures[12 + 5 :])
    assert said_by_upa == list(drifting("negative")[1:])


@pytest.mark.parametrize("expiry", ["upa", "direct", "negative", "hybrid"])
@pytest.mark.parametrize("window", ["ROWS 2", "PARTITION BY x ROWS 2"])
def test_the_oldest_of_equal_rows_leaves_a_count_window(expiry: str, window: str) -> None:
    """Equal rows have met different versions of a table: it matters which of them goes."""
    session = penstock.connect(expiry=expiry)
    session.execute(STREAMS)
    session.create_table("t", [{"x": 1, "w": 0}])
    query = session.query(f"SELECT a.x, t.w FROM a [{window}], t WHERE a.x = t.x")
    for ts in range(1, 5):
        session.push("a", {"ts": [ts], "x": [1], "y": [1]})
        session.advance(ts)
        session.update_table("t", delete=[{"x": 1, "w": ts - 1}], insert=[{"x": 1, "w": ts}])
        assert sorted(row["w"] for row in query.snapshot().to_pylist()) == list(range(max(ts - 2, 0), ts))


def test_a_checkpoint_keeps_its_execution() -> None:
    """Its state fits no other; how often state is looked at may change."""
    upkeep = Upkeep(Expiry.NEGATIVE, eager=2)
    before = Declared(queries={"q": "SELECT x FROM a"}, since={"q": None}, upkeep=upkeep)
    assert Declared.of(before.json()) == before
    Declared(upkeep=Upkeep(Expiry.NEGATIVE, eager=None, partitions=8)).must_follow(before)
    Declared().must_follow(Declared(upkeep=before.upkeep))
    with pytest.raises(StateError, match=r"expiry='negative', this session has 'upa'"):
        Declared().must_follow(before)
