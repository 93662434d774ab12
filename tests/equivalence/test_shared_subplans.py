"""Common table expressions that are read often are planned and run once, and mean what they meant."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.plan.nodes import Shared
from penstock.plan.traversal import every
from tests.equivalence.outer import CREATE, STREAMS, Windows, check, rows, window
from tests.equivalence.test_restarts import Restarts

POLICIES: list[dict[str, Any]] = [
    {},
    {"expiry": "negative"},
    {"expiry": "direct"},
    {"expiry": "hybrid"},
    {"join": "tree"},
    {"demand": "off"},
    {"share": False},
    {"eager": 1},
    {"cells": 3},
]
STEPS = (
    "SELECT DISTINCT x.k, y.v FROM {c} AS x JOIN {c} AS y ON x.k = y.k",
    "SELECT x.k, y.v FROM {c} AS x LEFT JOIN {c} AS y ON x.k = y.v",
    "SELECT DISTINCT x.k, y.v FROM {c} AS x FULL JOIN {c} AS y ON x.k = y.v AND x.v > 1",
    "SELECT k, v FROM {c} WHERE v > 1 UNION ALL SELECT k, v FROM {c} WHERE v <= 1",
    "SELECT x.k, MAX(y.v) AS v FROM {c} AS x JOIN {c} AS y ON x.k = y.k GROUP BY x.k",
    "SELECT k, v FROM {c} EXCEPT SELECT k, v FROM {c} WHERE v = 2",
    "SELECT k, v FROM {c} INTERSECT SELECT v, k FROM {c}",
    "SELECT x.k, x.v FROM {c} AS x WHERE NOT EXISTS (SELECT 1 FROM {c} AS y WHERE y.k = x.k AND y.v > x.v)",
)


def drawn(random_: random.Random, steps: int) -> Callable[[Windows], str]:
    chosen = [random_.choice(STEPS) for _ in range(steps)]
    lengths = random_.randrange(3, 12), random_.randrange(3, 12)

    def text(windows: Windows) -> str:
        a, b = windows("a", lengths[0]), windows("b", lengths[1])
        parts = [f"c0 AS (SELECT x.k, y.v FROM {a} AS x JOIN {b} AS y ON x.v = y.v)"]
        parts += [f"c{i + 1} AS ({one.format(c=f'c{i}')})" for i, one in enumerate(chosen)]
        return f"WITH {', '.join(parts)} SELECT k, v FROM c{steps}"

    return text


def plan_of(text: str) -> Any:
    session = penstock.connect()
    session.execute(CREATE)
    return session.query(text)._standing.root.node


def doubling(steps: int) -> str:
    """Each reads the one before twice."""
    parts = ["c0 AS (SELECT k, v FROM a [RANGE 5])"]
    parts += [
        f"c{i} AS (SELECT DISTINCT x.k, y.v FROM c{i - 1} AS x JOIN c{i - 1} AS y ON x.k = y.k)"
        for i in range(1, steps + 1)
    ]
    return f"WITH {', '.join(parts)} SELECT k, v FROM c{steps}"


def test_a_plan_grows_with_the_text() -> None:
    plan = plan_of(doubling(20))
    assert len(list(every(plan))) <= 6 * 20
    assert sum(isinstance(node, Shared) for node in every(plan)) == 20


def test_what_is_small_is_written_out() -> None:
    assert not any(isinstance(node, Shared) for node in every(plan_of(doubling(3))))


def test_what_is_read_once_is_not_shared() -> None:
    once = doubling(6).replace("SELECT k, v FROM c6", "SELECT k FROM (SELECT k, v FROM c6) AS q WHERE v > 1")
    shared = [node.name for node in every(plan_of(once)) if isinstance(node, Shared)]
    assert shared == [f"c{i}" for i in range(5, -1, -1)]


def test_explain_shows_a_shared_subplan_once() -> None:
    session = penstock.connect()
    session.execute(CREATE)
    text = session.query(doubling(6)).explain()
    assert text.count("└ stream a") == 1
    assert text.count("shared c3") == 2


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_drawn_queries(policy: dict[str, Any]) -> None:
    for seed in range(5):
        random_ = random.Random(f"{policy}{seed}")
        query = drawn(random_, random_.choice((4, 5, 6)))
        feed = {stream: rows(random_, 10, 4, until=25) for stream in STREAMS}
        standing = check(query, feed, sorted(random_.sample(range(1, 40), 5)), **policy)
        root = standing._standing.root.node if "cells" not in policy else plan_of(query(window))
        assert any(isinstance(node, Shared) for node in every(root))


def test_state_that_is_saved_and_restored_in_between(tmp_path: Path) -> None:
    def declared() -> penstock.Session:
        session = penstock.connect()
        session.execute(CREATE)
        return session

    for seed in range(3):
        random_ = random.Random(seed)
        feed = {stream: rows(random_, 10, 4, until=25) for stream in STREAMS}
        check(drawn(random_, 5), feed, [4, 11, 12, 20, 40], restart=Restarts(declared, tmp_path / "state"))


def test_ranks_and_other_queries_beside_a_shared_subplan() -> None:
    session = penstock.connect()
    session.execute(CREATE)
    text = doubling(5)
    ranked = session.query(f"{text} RANK 1 CRITERIA (v > 2)", name="ranked")
    session.query("SELECT x.k FROM a [RANGE 5] AS x, a [RANGE 5] AS y WHERE x.k = y.k", name="other")
    again = session.query(text, name="again")
    session.push("a", [{"ts": 1, "k": 1, "v": 1}, {"ts": 2, "k": 1, "v": 3}])
    session.advance(2)
    assert sorted(row["v"] for row in again.snapshot().to_pylist()) == [1, 3]
    assert {row["v"]: row["__rank"] for row in ranked.changes().to_pylist()} == {1: None, 3: 1}
    session.execute("ALTER QUERY ranked SET RANK 1 CRITERIA (v < 2)")
