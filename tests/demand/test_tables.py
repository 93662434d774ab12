"""Streams and tables in one FROM: the streams make a tree, and the tables are looked up above it, as of a result's ts."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import penstock
from penstock.api.session import Session
from penstock.operators.join.multiway_join import MultiwayJoin
from tests.demand.test_equal import joins
from tests.equivalence.test_restarts import Restarts

DECLARED = "CREATE TABLE t (x INT, w INT); CREATE RETROACTIVE TABLE r (x INT, w INT)"
QUERIES = (
    "SELECT a.ts AS i, t.w, c.y FROM a [RANGE 20], t, b [RANGE 15], c [RANGE 30] WHERE a.x = b.x AND b.y = c.y AND t.x = a.y",
    "SELECT a.ts AS i, t.w FROM a [RANGE 20], b [RANGE 15], c, t WHERE a.x = b.x AND b.x = c.x AND t.x = c.y AND t.w > a.y",
    "SELECT a.ts AS i, r.w FROM r, a [RANGE 20], b [RANGE 15], c [RANGE 9] WHERE a.x = b.x AND b.x = c.x AND r.x = b.y",
    (
        "SELECT t.w, u.w AS v, COUNT(*) AS n FROM a [RANGE 20], t, b [RANGE 15], c [RANGE 30], t AS u"
        " WHERE a.x = b.x AND b.y = c.y AND t.x = a.y AND u.x = c.x GROUP BY t.w, u.w"
    ),
)


def connected(**options: object) -> Session:
    session: Session = penstock.connect(share=False, replan=False, **options)
    streams = (f"CREATE STREAM {n} (ts BIGINT, x INT, y INT) WATERMARK ts DELAY OF 0" for n in "abc")
    session.execute(";".join((*streams, DECLARED)))
    return session


def said(text: str, seed: int, path: Path | None = None, **options: object) -> tuple[list[str], Session]:
    """All changes in order of their text; with a restart now and then if there is a path."""
    session, rng = connected(**options), random.Random(seed)
    restart = None if path is None else Restarts(lambda: connected(**options), path)
    session.query(text, name="q")
    found: list[str] = []
    for step in range(12):
        for table in "tr":
            session.update_table(table, insert=[{"x": rng.randrange(4), "w": rng.randrange(5)}])
        for name in "abc":
            rows = [
                {"ts": 10 * step + i, "x": rng.randrange(3), "y": rng.randrange(5)} for i in range(0, 10, 2)
            ]
            session.push(name, rows)
        session.advance(10 * step + 9)
        found += map(str, session.queries["q"].changes().to_pylist())
        if restart is not None and step % 4 == 1:
            session = restart(session)
    return sorted(found), session


@pytest.mark.parametrize("text", QUERIES)
def test_a_tree_below_tables_says_the_same(text: str, tmp_path: Path) -> None:
    for seed in range(3):
        plain, session = said(text, seed, join="mjoin")
        assert len(plain) > 100
        assert not joins(session)
        for demand, shape in (("jit", "bushy"), ("off", "left-deep"), ("jit", ((0, 2), 1))):
            found, session = said(text, seed, join="tree", tree=shape, demand=demand)
            assert found == plain, (demand, shape)
            assert len(joins(session)) == 1
    again, session = said(text, seed, tmp_path / "state", join="tree", tree="bushy")
    assert again == plain
    assert len(joins(session)) == 1


def test_it_is_told_what_a_tree_below_tables_keeps() -> None:
    _, session = said(QUERIES[0], 1, join="tree", tree="left-deep")
    told = session.queries["q"].explain()
    assert "partial results of inputs 1, 2" in told
    assert session.queries["q"].partial_results["made"] > 0


def test_streams_that_only_a_table_connects_are_no_tree() -> None:
    text = "SELECT a.ts AS i FROM a [RANGE 9], b [RANGE 9], c [RANGE 9], t WHERE a.x = b.x AND t.x = a.y AND t.w = c.y"
    found, session = said(text, 1, join="tree", tree="bushy")
    assert not joins(session)
    assert any(
        isinstance(o, MultiwayJoin) for tail in session.engine.tails.values() for o, _ in tail.pipeline.stages
    )
    assert found == said(text, 1, join="mjoin")[0] != []
