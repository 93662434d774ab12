"""Outer joins give DuckDB's answers at every instant, whatever stands above and below them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.plan.nodes import Join, OuterJoin
from penstock.plan.traversal import every
from tests.equivalence.outer import CREATE, KINDS, STREAMS, Windows, chain, check, drawn, rows, window
from tests.equivalence.test_restarts import Restarts

BLOCK = 8
POLICIES: list[dict[str, Any]] = [
    {},
    {"expiry": "negative"},
    {"expiry": "direct"},
    {"expiry": "hybrid"},
    {"join": "tree"},
    {"join": "mjoin"},
    {"demand": "off"},
    {"demand": "doe"},
    {"share": False},
    {"eager": 1},
    {"cells": 3},
    {"cells": 4},
]


def test_full_joins_of_rows_that_all_have_null_keys() -> None:
    feed = {"a": [{"ts": 1, "k": None, "v": 1}], "b": [{"ts": 1, "k": None, "v": 2}]}
    check(
        lambda w: (
            f"SELECT x.k AS k1, y.k AS k2, z.v AS v3 FROM {w('b', 5)} AS x FULL JOIN {w('a', 5)} AS y"
            f" ON x.k = y.k FULL JOIN {w('b', 5)} AS z ON y.k = z.k"
        ),
        feed,
        [1, 3, 6],
    )


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_drawn_queries(policy: dict[str, Any]) -> None:
    for seed in range(BLOCK):
        random_ = random.Random(f"{policy}{seed}")
        joins = random_.choice((1, 1, 2, 2, 3, 4))
        query = drawn(random_, joins)
        count = random_.choice((5, 20, 40)) if joins < 3 else random_.choice((5, 12))
        feed = {stream: rows(random_, count, random_.choice((2, 6, 20))) for stream in STREAMS}
        check(query, feed, sorted(random_.sample(range(1, 55), 6)), **policy)


@pytest.mark.parametrize("seed", range(4))
def test_state_that_is_saved_and_restored_in_between(seed: int, tmp_path: Path) -> None:
    random_ = random.Random(seed)

    def declared() -> penstock.Session:
        session = penstock.connect()
        session.execute(CREATE)
        return session

    query = drawn(random_, 2)
    feed = {stream: rows(random_, 20, 4) for stream in STREAMS}
    check(query, feed, [5, 12, 13, 25, 45], restart=Restarts(declared, tmp_path / "state"))


@pytest.mark.parametrize("kind", [*KINDS, "mixed"])
def test_a_chain_of_twenty_outer_joins(kind: str) -> None:
    """One plan node a join: as a union of joins and anti joins over copies there would be millions."""
    random_ = random.Random(kind)
    source = chain(random_, 20, KINDS if kind == "mixed" else (kind,))
    picked = ", ".join(f"t{i}.v AS v{i}" for i in range(21))

    def text(windows: Windows) -> str:
        return f"SELECT {picked} FROM {source(windows)}"

    feed = {stream: rows(random_, 14, 30, until=12) for stream in STREAMS}
    query = check(text, feed, [3, 6, 9, 30])
    assert len(list(every(query._standing.root.node))) <= 5 * 20


def plan_of(text: str) -> Any:
    session = penstock.connect()
    session.execute(CREATE)
    return session.query(text)._standing.root.node


@pytest.mark.parametrize(
    ("kind", "where", "left"),
    [
        ("LEFT", "y.v > 1", None),
        ("LEFT", "y.k IS NOT NULL", None),
        ("LEFT", "y.k IS NULL", "left"),
        ("LEFT", "x.v > 1", "left"),
        ("LEFT", "y.v > 1 OR x.v > 1", "left"),
        ("RIGHT", "x.v = 1", None),
        ("FULL", "x.v + 1 > 1", "left"),
        ("FULL", "y.v > 1", "right"),
        ("FULL", "x.v = y.v", None),
        ("FULL", "COALESCE(x.v, 1) = 1", "full"),
    ],
)
def test_where_that_no_null_satisfies_makes_an_outer_join_less_outer(
    kind: str, where: str, left: str | None
) -> None:
    def text(windows: Windows) -> str:
        return (
            f"SELECT x.v, y.v AS w FROM {windows('a', 6)} AS x {kind} JOIN {windows('b', 6)} AS y"
            f" ON x.k = y.k WHERE {where}"
        )

    nodes = list(every(plan_of(text(window))))
    assert [n.kind for n in nodes if isinstance(n, OuterJoin)] == ([] if left is None else [left])
    assert any(isinstance(n, Join) for n in nodes) == (left is None)
    random_ = random.Random(where)
    feed = {stream: rows(random_, 25, 4) for stream in STREAMS}
    check(text, feed, [4, 11, 20, 33, 50])
