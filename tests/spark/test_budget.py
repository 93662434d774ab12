"""Flows with a budget: what a step has no units for waits in its cell, survives a restart, and is said in the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import penstock
from penstock.errors import StateError
from tests.spark.test_sessions import A, B, Kept, drawn, told

RANKED = (
    "SELECT a.x, a.s, b.d FROM a [RANGE 20], b [RANGE 10] WHERE a.x = b.x"
    " RANK 1 CRITERIA (a.y = 4) RANK 2 CRITERIA (a.y = 3 OR b.d > 4.5)"
)
QUERIES = {
    "joined": RANKED,
    "picked": "SELECT x, s FROM a [RANGE 10] WHERE y > 2 RANK 1 CRITERIA (s = 'p') COVER EVERY 10 BY x",
    "sums": "SELECT x, SUM(y) AS t, MAX(s) AS m FROM a [RANGE 20] GROUP BY x",
    "sizes": "SELECT n, COUNT(*) AS m FROM (SELECT x, COUNT(*) AS n FROM a [RANGE 20] GROUP BY x) AS g GROUP BY n",
}
MEANS = "SELECT a.x, AVG(b.d) AS m, COUNT(*) AS n, MAX(a.s) AS s FROM a [RANGE 20], b [RANGE 10] WHERE a.x = b.x GROUP BY a.x"
SAMPLED = {
    "means": f"{MEANS} LIFESPAN 1 HOUR RANK 1 CRITERIA (a.y = 4) RANK 2 CRITERIA (b.d > 4.5)",
    "whole": "SELECT AVG(y) AS m, MIN(s) AS s FROM a [RANGE 20] LIFESPAN 1 HOUR RANK 1 CRITERIA (s = 'p')",
    "unseen": "SELECT AVG(y) AS m FROM a [RANGE 20 SLIDE 5] WHERE y < 4 GROUP BY x LIFESPAN 1 HOUR RANK 1 CRITERIA (s = 'p')",
}
"""Groups that answer from samples; with so long a lifespan nothing expires."""
LATE = f"{MEANS} LIFESPAN 150 MICROSECONDS RANK 1 CRITERIA (a.y = 4) RANK 2 CRITERIA (b.d > 4.5)"


def connected(
    spark: SparkSession,
    place: Path,
    kept: dict[str, Kept],
    queries: dict[str, str] | None = None,
    **options: Any,
) -> Any:
    session = penstock.connect(spark, checkpoint=str(place), cells=2, **options)
    session.execute(A + B)
    for name, sql in (QUERIES if queries is None else queries).items():
        session.query(sql, name=name, weight=2 if name == "picked" else 1).foreach_batch(kept[name])
    return session


def test_what_waits_is_said_in_the_end(spark: SparkSession, tmp_path: Path) -> None:
    kept = {name: Kept() for name in QUERIES}
    here = penstock.connect()
    here.execute(A + B)
    queries = {name: here.query(sql, name=name) for name, sql in QUERIES.items()}
    options: dict[str, Any] = {"budget": 20}
    waited = []
    for part in range(3):
        there = connected(spark, tmp_path / "checkpoint", kept, **options)
        rows = drawn(part, 30, start=60 * part)
        for name in "ab":
            new = [r for r in rows[name] if r["ts"] >= 60 * part]
            here.push(name, new)
            there.push(name, new)
        if part == 1:
            there.execute("ALTER QUERY joined SET WEIGHT 3.5")
        if part < 2:
            handle = there.start(trigger={"processingTime": "0 seconds"})
            handle.processAllAvailable()
            waited.append(handle.lastProgress["queries"]["joined"]["waiting"])
        else:
            handle = there.start(trigger={"availableNow": True})
            handle.awaitTermination()
            ranks = handle.lastProgress["queries"]["joined"]["ranks"]
            (covered,) = handle.lastProgress["queries"]["picked"]["coverage"]
        handle.stop()
    here.advance(there.clock)
    assert max(waited) > 0, "a budget of 20 units does not reach"
    assert sum(one["delivered"] for one in ranks) > 10
    assert covered["objects"] == covered["covered"] > 10 and covered["missed"] == 0, "nothing expires"
    for name, query in queries.items():
        expected = query.changes()
        assert expected.num_rows > 10
        assert kept[name].rows(expected.column_names) == told(expected), name


@pytest.mark.parametrize("options", [{}, {"budget": 200}])
def test_other_ranks_reach_every_cell(spark: SparkSession, tmp_path: Path, options: dict[str, Any]) -> None:
    """From the next step on, of rows that wait too. Who comes back and does not alter it has the query as it is written."""
    kept = {"q": Kept()}
    text = "SELECT a.x, a.y, b.d FROM a [RANGE 20], b [RANGE 10] WHERE a.x = b.x RANK 1 CRITERIA (a.y = 4)"
    ends = []
    for part in range(3):
        if part != 1:
            there = connected(spark, tmp_path, kept, {"q": text}, **options)
        else:
            there.execute("ALTER QUERY q SET RANK 1 CRITERIA (a.y = 2); ALTER QUERY q SET LIFESPAN 2 HOURS")
        rows = drawn(part, 40, start=80 * part)
        for name in "ab":
            there.push(name, [r for r in rows[name] if r["ts"] >= 80 * part])
        if part != 1:
            handle = there.start(trigger={"processingTime": "0 seconds"})
        handle.processAllAvailable()
        ends.append(max(kept["q"].steps))
        if part:
            handle.stop()
    said = {step: table.to_pylist() for step, table in kept["q"].steps.items()}
    for part, important in enumerate((4, 2, 4)):
        before = ends[part - 1] if part else -1
        own = [row for step, rows in said.items() if before < step <= ends[part] for row in rows]
        assert all(row["__rank"] == (1 if row["y"] == important else None) for row in own), part
        assert {2, 4} <= {row["y"] for row in own}, "either would tell"


def test_a_budget_cannot_come_or_go(spark: SparkSession, tmp_path: Path) -> None:
    kept = {name: Kept() for name in QUERIES}
    there = connected(spark, tmp_path, kept, budget=20)
    there.push("a", drawn(1, 5)["a"])
    handle = there.start(trigger={"processingTime": "0 seconds"})
    handle.processAllAvailable()
    handle.stop()
    other = connected(spark, tmp_path, kept)
    with pytest.raises(StateError, match="budget"):
        other.start(trigger={"availableNow": True})


def test_groups_answer_from_samples_in_every_cell(spark: SparkSession, tmp_path: Path) -> None:
    """Where nothing expires as embedded, through restarts; where rows do, answers say so."""
    queries = {**SAMPLED, "late": LATE}
    kept = {name: Kept() for name in queries}
    here: Any = penstock.connect(budget=10**9)
    here.execute(A + B)
    expected = {name: here.query(sql, name=name) for name, sql in queries.items()}
    for part in range(3):
        there = connected(spark, tmp_path / "checkpoint", kept, queries, budget=20)
        rows = drawn(part, 40, start=80 * part)
        for name in "ab":
            here.push(name, rows[name])
            there.push(name, rows[name])
        last = part == 2
        handle = there.start(trigger={"availableNow": True} if last else {"processingTime": "0 seconds"})
        handle.awaitTermination() if last else handle.processAllAvailable()
        handle.stop()
    here.advance(there.clock)
    cells = {name: len(there.flow.plan().queries[name].upper.cells) for name in queries}
    assert cells == {"means": 2, "whole": 1, "unseen": 1, "late": 2}
    told_here = {name: query.changes() for name, query in expected.items()}
    for name in SAMPLED:
        assert told_here[name].num_rows > 10
        assert kept[name].rows(told_here[name].column_names) == told(told_here[name]), name
    late = [row for table in kept["late"].steps.values() for row in table.to_pylist()]
    names = next(iter(kept["late"].steps.values())).column_names
    assert names == told_here["late"].column_names
    assert any(row["__shed"] > 0 for row in late)
    assert all(row["__population"] >= row["__sample"] > 0 for row in late)
    other = connected(spark, tmp_path / "checkpoint", kept, queries, budget=20, sampling=False)
    with pytest.raises(StateError, match="sampling"):
        other.start(trigger={"availableNow": True})


def test_what_is_dropped_lies_beside_what_is_late(spark: SparkSession, tmp_path: Path) -> None:
    """Rows told and rows dropped are all rows, also after a restart."""
    kept, rows = Kept(), drawn(1, 60)["a"]
    for part in range(2):
        session = penstock.connect(
            spark, checkpoint=str(tmp_path), cells=2, budget=2, allocation="fifo", keep_dropped=True
        )
        session.execute(A)
        sql = "SELECT ts, y FROM a [RANGE 10] WHERE y > 0 LIFESPAN 9 MICROSECONDS RANK 1 CRITERIA (s = 'p')"
        query = session.query(sql, name="picked").foreach_batch(kept)
        some = [rows[30 * part + 15 * push :][:15] for push in range(2)]
        session.push("a", some[0])
        handle = session.start(trigger={"processingTime": "0 seconds"})
        handle.processAllAvailable()
        session.push("a", some[1])  # a step of its own
        handle.processAllAvailable()
        handle.stop()
        if part:
            handle = session.start(trigger={"availableNow": True})
            handle.awaitTermination()
            handle.stop()
    found = query.dropped()
    assert found.columns[:2] == ["__reason", "__rank"] and found.columns[6:] == ["ts", "x", "y", "s"]
    dropped = [row.asDict() for row in found.collect()]
    assert dropped and {row["__reason"] for row in dropped} == {"expired"}
    by_time = {row["ts"]: row for row in rows}
    assert all({k: row[k] for k in by_time[row["ts"]]} == by_time[row["ts"]] for row in dropped)
    answered = [ts for ts, _ in kept.rows(["ts", "y"])]
    assert answered
    assert sorted(answered + [row["ts"] for row in dropped if row["y"] > 0]) == sorted(
        row["ts"] for row in rows if row["y"] > 0
    )
