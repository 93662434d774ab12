"""Memory follows what is alive: it goes back after a burst, and answers are those of a session that keeps its room."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.types import sizes

WINDOW = 100
TWO = "SELECT a.v, b.x FROM a [RANGE 100], b [RANGE 100] WHERE a.v = b.v"
THREE = "SELECT a.v, c.x FROM a [RANGE 100], b [RANGE 80], c [RANGE 90] WHERE a.v = b.v AND b.v = c.v"
CYCLE = f"{THREE} AND a.x = c.x"
GROUPED = "SELECT v, COUNT(*) AS n, MAX(x) AS m FROM a [RANGE 100] GROUP BY v"


@dataclass(frozen=True)
class Case:
    """Queries that run together."""

    name: str
    queries: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)


def one(name: str, sql: str, **options: Any) -> Case:
    return Case(name, (sql,), options)


CASES = [
    one("join", TWO),
    one("join of three", THREE),
    one("cyclic join", CYCLE),
    one("tree", THREE, join="tree"),
    one("tree without demand", THREE, join="tree", demand="off"),
    one("distinct", "SELECT DISTINCT v FROM a [RANGE 100]"),
    one("groups", GROUPED),
    one("sums in a ring", "SELECT v, SUM(x) AS s FROM a [RANGE 100] GROUP BY v"),
    one(
        "groups of many kinds",
        "SELECT v, SUM(d) AS s, STDDEV(d) AS e, COUNT(DISTINCT x) AS c, SUM(DISTINCT v) AS t, MIN(d) AS l "
        "FROM a [RANGE 100] GROUP BY v",
    ),
    one("except", "SELECT v FROM a [RANGE 100] EXCEPT SELECT v FROM b [RANGE 100]"),
    one("except all", "SELECT v FROM a [RANGE 100] EXCEPT ALL SELECT v FROM b [RANGE 100]"),
    one("intersect all", "SELECT v FROM a [RANGE 100] INTERSECT ALL SELECT v FROM b [RANGE 100]"),
    one("outer join", "SELECT a.v, b.x FROM a [RANGE 100] LEFT JOIN b [RANGE 50] ON a.v = b.v"),
    one(
        "anti join",
        "SELECT v FROM a [RANGE 100 SLIDE 30] AS l "
        "WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 100] AS r WHERE r.v = l.v)",
    ),
    one("istream", "ISTREAM(SELECT DISTINCT v FROM a [RANGE 100])"),
    one("negative tuples", GROUPED, expiry="negative"),
    one("direct", TWO, expiry="direct"),
    one("looked at often", TWO, eager=1),
    Case("shared SteMs", (TWO, "SELECT a.x, b.v FROM a [RANGE 90], b [RANGE 60] WHERE a.v = b.v AND a.x > 1")),
    Case("shared SteMs of three", (THREE, TWO, "SELECT b.v FROM b [RANGE 70], c [RANGE 100] WHERE b.v = c.v")),
    Case("groups over shared SteMs", (TWO, "SELECT a.v, COUNT(*) AS n FROM a [RANGE 100], b [RANGE 9] WHERE a.v = b.v GROUP BY a.v")),
    one("rows", "SELECT v, x FROM a [ROWS 10]"),
    one("rows by key", "SELECT v, x FROM a [PARTITION BY x ROWS 3]"),
    one("join with rows", "SELECT a.v, b.x FROM a [ROWS 10], b [RANGE 100] WHERE a.v = b.v"),
    one("distinct of rows", "SELECT DISTINCT v FROM a [ROWS 10]"),
    one("groups of rows", "SELECT v, COUNT(*) AS n, SUM(DISTINCT x) AS m, MAX(x) AS l FROM a [ROWS 10] GROUP BY v"),
    one("except of rows", "SELECT v FROM a [RANGE 100] EXCEPT ALL SELECT v FROM b [ROWS 10]"),
    one("rstream of rows", "RSTREAM(SELECT v FROM a [ROWS 10])"),
    one("table", "SELECT a.v, t.w FROM a [RANGE 100], t WHERE a.x = t.k"),
    one("table and join", "SELECT a.v, t.w FROM a [RANGE 100], b [RANGE 100], t WHERE a.v = b.v AND a.x = t.k"),
    one("groups over a table", "SELECT a.v, COUNT(*) AS n FROM a [RANGE 100], t WHERE a.x = t.k GROUP BY a.v"),
    one("not in a table", "SELECT a.v, a.x FROM a [RANGE 100] LEFT JOIN t ON a.x = t.k WHERE t.w IS NULL"),
    one("retroactive table", "SELECT DISTINCT a.v, r.w FROM a [RANGE 100], r WHERE a.x = r.k"),
    one("not in a retroactive table", "SELECT v, x FROM a [RANGE 100] WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = a.x)"),
    one("budget", TWO, budget=10**9),
    one("budget for three", THREE, budget=10**9),
    one("budget for groups", GROUPED, budget=10**9),
    one("budget for rows", "SELECT v, COUNT(*) AS n FROM a [ROWS 10] GROUP BY v", budget=10**9),
    one("budget and table", "SELECT a.v, t.w FROM a [RANGE 100], b [RANGE 100], t WHERE a.v = b.v AND a.x = t.k", budget=10**9),
]  # fmt: skip
LARGE = [case for case in CASES if case.name != "rstream of rows"]
"""Without those that say their whole answer at every instant: too much for many rows."""


def rows(n: int, first: int, seed: int) -> pa.Table:
    drawn = np.random.default_rng(seed)
    return pa.table(
        {
            "ts": first + np.arange(n) * 60 // n,
            "v": drawn.integers(0, n, n),
            "x": pa.array(drawn.integers(0, 9, n), pa.int32()),
            "d": pa.array(drawn.normal(size=n), mask=drawn.random(n) < 0.1),
        }
    )


def connected(case: Case) -> tuple[penstock.Session, list[penstock.Query]]:
    session = penstock.connect(**case.options)
    for name in "abc":
        session.execute(
            f"CREATE STREAM {name} (ts BIGINT, v BIGINT, x INT, d DOUBLE) WATERMARK ts DELAY OF INTERVAL 0"
        )
    held = pa.table({"k": pa.array([1, 2, 3], pa.int32()), "w": pa.array(["one", "two", "three"])})
    session.create_table("t", held)
    session.create_table("r", held, retroactive=True)
    return session, [session.query(sql) for sql in case.queries]


def read(queries: list[penstock.Query]) -> list[list[str]]:
    """What is said of a step, and the answer, in no order."""
    told = []
    for query in queries:
        told.append(sorted(map(repr, query.changes().to_pylist())))
        if query.pattern != "MONOTONIC":
            told.append(sorted(map(repr, query.snapshot().to_pylist())))
    return told


def after_a_burst(case: Case) -> tuple[penstock.Session, list[penstock.Query]]:
    session, queries = connected(case)
    for seed, stream in enumerate("abc"):
        session.push(stream, rows(60_000, 0, seed))
    peak = session.size_bytes
    session.advance(60)
    for query in queries:
        query.changes()
    assert max(peak, session.size_bytes) > 1_000_000
    return session, queries


@pytest.mark.parametrize("case", LARGE, ids=lambda case: case.name)
def test_room_goes_back_when_the_last_row_has_expired(case: Case) -> None:
    session, queries = after_a_burst(case)
    session.advance(60 + 2 * WINDOW)
    for query in queries:
        query.changes()
    assert session.size_bytes < 100_000


@pytest.mark.parametrize("case", LARGE, ids=lambda case: case.name)
def test_room_follows_the_few_rows_that_are_left(case: Case) -> None:
    session, queries = after_a_burst(case)
    for seed, stream in enumerate("abc"):
        session.push(stream, rows(50, 130, seed))
    session.advance(189)  # the first have gone
    assert any(read(queries))
    assert session.size_bytes < 200_000
    session.advance(190)
    assert session.size_bytes < 100_000


def played(case: Case, room: sizes.Sizes) -> list[object]:
    with sizes.lowered(room):
        session, queries = connected(case)
        told: list[object] = []
        for round_ in range(4):
            first, n = round_ * 300, 400 if round_ % 2 else 40
            for seed, stream in enumerate("abc"):
                session.push(stream, rows(n, first, 3 * round_ + seed))
            for t in (
                first + 30,
                first + 75,
                first + 100,
                first + 130,
                first + 159,
                first + 161,
                first + 290,
            ):
                session.advance(t)
                told.append(read(queries))
                if t == first + 100:
                    changed = pa.table({"k": pa.array([1, 4], pa.int32()), "w": ["one", f"{round_}"]})
                    session.update_table("t", insert=changed.slice(1), delete=changed.slice(0, round_ == 0))
                    session.update_table("r", insert=changed.slice(1), delete=changed.slice(0, round_ == 0))
        return told


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_answers_are_those_of_a_session_that_keeps_its_room(case: Case) -> None:
    kept = played(case, replace(sizes.DEFAULT, sparse_rows=1 << 60))
    assert any(kept)
    assert (
        played(case, replace(sizes.DEFAULT, sparse_rows=2, slots=2, values=2, stem_rows=2, tree_rows=2))
        == kept
    )
