"""Another plan may take a query's place at any instant: no change is lost, none comes twice (`engine.adaptive.migration`)."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import pytest

import penstock
from penstock.api.query import Query
from penstock.api.session import Session
from penstock.engine.adaptive.migration import compare
from penstock.optimizer import has_choice, optimize
from penstock.plan.query_root import Root, top
from penstock.plan.statistics import Statistics

STREAMS = ";".join(
    f"CREATE STREAM {name} (ts BIGINT, x INT, y INT, s STRING) WATERMARK ts DELAY OF 0" for name in "abc"
)
NEGATIONS = {
    "plain": "SELECT a.y, c.s FROM a [RANGE 40], c [RANGE 25] WHERE a.x = c.x AND "
    "NOT EXISTS (SELECT 1 AS one FROM b [RANGE 30] WHERE b.x = a.x)",
    "strings": "SELECT a.s, c.y FROM a [RANGE 40] LEFT ANTI JOIN b [RANGE 30] ON a.s = b.s JOIN c [RANGE 25] ON a.x = c.x",
    "three": "SELECT a.y, c.y AS z, d.s FROM a [RANGE 20], c [RANGE 25], b [RANGE 9] AS d WHERE a.x = c.x AND c.s = d.s "
    "AND NOT EXISTS (SELECT 1 AS one FROM b [RANGE 5] WHERE b.y = c.y)",
    "count windows": "SELECT a.y, c.s FROM a [ROWS 20], c [RANGE 25] WHERE a.x = c.x AND "
    "NOT EXISTS (SELECT 1 AS one FROM b [ROWS 7] WHERE b.x = a.x)",
    "theta": "SELECT a.y, c.s FROM a [RANGE 12], c [RANGE 9] WHERE a.x = c.x AND a.y <> c.y AND "
    "NOT EXISTS (SELECT 1 AS one FROM b [RANGE 6] WHERE b.x = a.x AND b.y < a.y)",
    "groups above": "SELECT a.x, COUNT(*) AS n, MAX(c.s) AS m FROM a [RANGE 40], c [RANGE 25] WHERE a.x = c.x AND "
    "NOT EXISTS (SELECT 1 AS one FROM b [RANGE 30] WHERE b.x = a.x) GROUP BY a.x",
    "values above and below": "SELECT DISTINCT a.y, c.s FROM (SELECT DISTINCT x, y FROM a [RANGE 30]) AS a, c [RANGE 25] "
    "WHERE a.x = c.x AND NOT EXISTS (SELECT 1 AS one FROM b [RANGE 8] WHERE b.x = a.x)",
}
OPPOSITE = tuple(
    Statistics(rates=dict(zip("abc", rates, strict=True))) for rates in product((0.001, 1.0, 100.0), repeat=3)
)


def plans(session: Session, text: str) -> list[Root]:
    """The query's plans for streams of various rates."""
    query = session.query(text, name="probe")
    bound = query._bound
    query.drop()
    found = [top(optimize(bound.root, known, once=once)) for known in OPPOSITE for once in (True, False)]
    return [p for i, p in enumerate(found) if all(p.node != other.node for other in found[:i])]


def rows(rng: random.Random, begin: int, nulls: bool) -> dict[str, list[Any]]:
    n = rng.randrange(1, 25)
    ts = sorted(rng.randrange(begin, begin + 10) for _ in range(n))

    def value(most: int) -> int | None:
        return None if nulls and rng.random() < 0.1 else rng.randrange(most)

    texts = [None if nulls and rng.random() < 0.1 else "uvw"[rng.randrange(3)] for _ in range(n)]
    return {"ts": ts, "x": [value(5) for _ in ts], "y": [value(4) for _ in ts], "s": texts}


def run(text: str, seed: int, options: dict[str, Any], *, moves: bool) -> tuple[list[list[str]], int]:
    """Changes and answers step by step; with `moves` the plan changes at random steps."""
    rng, coin = random.Random(seed), random.Random(f"moves {seed}")
    session = penstock.connect(replan=True, **options)
    session.execute(STREAMS)
    choices = plans(session, text)
    assert len(choices) > 1
    query: Query = session.query(text)
    said = []
    for k in range(25):
        for name in "abc":
            session.push(name, rows(rng, 10 * k, nulls=seed % 3 == 0))
        if rng.random() < 0.3:
            session.advance(10 * k + 9)
        said.append(sorted(map(repr, query.changes().to_pylist())))
        said.append(sorted(map(repr, query.snapshot().to_pylist())))
        if moves and coin.random() < 0.4:
            session.engine._migrate(query._standing, coin.choice(choices))
    return said, query._standing.migrations


EXECUTIONS = (
    {},
    {"expiry": "negative"},
    {"expiry": "direct", "eager": 1},
    {"expiry": "hybrid"},
    {"eager": 1},
)


@pytest.mark.parametrize("name", NEGATIONS)
def test_a_migration_changes_nothing(name: str) -> None:
    moved = 0
    for seed in range(10):
        options = EXECUTIONS[seed % len(EXECUTIONS)]
        straight, none = run(NEGATIONS[name], seed, options, moves=False)
        other, migrations = run(NEGATIONS[name], seed, options, moves=True)
        assert none == 0
        assert straight == other, (name, seed, options)
        moved += migrations
    assert moved > 20


def test_a_plan_follows_the_data() -> None:
    """The negation stands over whichever of the joined streams is rare; answers stay what they are."""
    text = (
        "SELECT a.y, c.s FROM a [RANGE 200], c [RANGE 200] WHERE a.x = c.x AND "
        "NOT EXISTS (SELECT 1 AS one FROM b [RANGE 200] WHERE b.x = a.x)"
    )
    said, shapes = {}, []
    for replan in (True, False):
        session = penstock.connect(replan=replan)
        session.execute(STREAMS)
        query = session.query(text)
        changes: list[str] = []
        for k in range(100):
            counts = {"a": 400, "b": 100, "c": 10} if k < 30 else {"a": 10, "b": 100, "c": 400}
            for name, count in counts.items():
                ts = [100 * k + 100 * i // count for i in range(count)]
                x = [(i * 37 + k) % 50 + (100 if name == "b" and i % 3 else 0) for i in range(count)]
                session.push(name, {"ts": ts, "x": x, "y": [v % 7 for v in x], "s": ["t"] * count})
            changes += map(repr, query.changes().to_pylist())
            if replan:
                shapes.append("anti join on (b.x = c.x)" in query.explain())
        said[replan] = sorted(changes)
        assert (query._standing.migrations > 0) is replan
    assert said[True] == said[False]
    assert shapes[29], "c is rare"
    assert not shapes[99], "a is rare"


def test_what_cannot_follow_stays() -> None:
    session = penstock.connect()
    session.execute(STREAMS)

    def plan(text: str) -> Root:
        query = session.query(text, name="probe")
        root = query._standing.root
        query.drop()
        return root

    join = plan("SELECT a.x FROM a [RANGE 5], b [RANGE 5] WHERE a.x = b.x")
    other = plan("SELECT a.x FROM a [RANGE 6], b [RANGE 5] WHERE a.x = b.x")
    assert compare(join.node, other.node) is None
    assert compare(join.node, plan("SELECT DISTINCT a.x FROM a [RANGE 5]").node) is None
    same = compare(join.node, join.node)
    assert same is not None and not same.anew
    assert not has_choice(join.node)
    assert has_choice(plan(NEGATIONS["plain"]).node)


TABLE = [{"x": 2, "w": "one"}]


def test_a_table_that_is_read_twice() -> None:
    """The join keeps other columns of each of the two, though both have one source."""
    text = (
        "SELECT t.w FROM (SELECT x, y FROM a [RANGE 40] LEFT ANTI JOIN b [RANGE 3] ON b.x <= a.x) AS q"
        " JOIN t ON TRUE JOIN t AS u ON TRUE"
    )
    said, migrations = [], []
    for replan in (True, False):
        rng = random.Random(7)
        session = penstock.connect(replan=replan)
        session.execute(STREAMS)
        session.create_table("t", TABLE, retroactive=True)
        query: Query = session.query(text)
        known = [Statistics(rates={"b": 100.0}, sizes={"t": size}) for size in (0.01, 1e6)]
        choices = [top(optimize(query._bound.root, one)) for one in known]
        assert choices[0].node != choices[1].node
        changes: list[str] = []
        for k in range(12):
            for name in "abc":
                session.push(name, rows(rng, 10 * k, nulls=False))
            if k % 3 == 2:
                session.update_table("t", insert=[{"x": k, "w": str(k)}])
            session.advance(10 * k + 9)
            changes += map(repr, query.changes().to_pylist())
            if replan:
                session.engine._migrate(query._standing, choices[k % 2])
        said.append(sorted(changes))
        migrations.append(query._standing.migrations)
    assert said[0] == said[1] and len(said[0]) > 50
    assert migrations[0] > 3 and migrations[1] == 0


def test_a_table_that_is_read_twice_after_overload() -> None:
    """The same when a query that was overloaded goes back to the join."""
    text = "SELECT a.y, t.w FROM a [RANGE 400], b [RANGE 400], t, t AS u WHERE a.x = b.x AND t.x = a.y"
    answers = []
    for options in ({"budget": 60}, {}):
        rng = random.Random(7)
        session = penstock.connect(**options)
        session.execute(STREAMS)
        session.create_table("t", TABLE, retroactive=True)
        query: Query = session.query(text)
        was_overloaded = False
        for k in range(8):
            for name in "abc":
                session.push(name, rows(rng, 10 * k, nulls=False))
            session.advance(10 * k + 9)
            was_overloaded |= bool(options) and query._standing.pipeline.busy  # type: ignore[attr-defined]
        for k in range(80, 300):  # nothing comes: what waits is worked on
            session.advance(k)
        for name in "abc":
            session.push(name, {"ts": [300, 300], "x": [1, 2], "y": [2, 2], "s": ["u", "v"]})
        for k in range(300, 320):
            session.advance(k)
        assert was_overloaded is bool(options)
        if options:
            assert not query._standing.pipeline.busy  # type: ignore[attr-defined]
        answers.append(sorted(map(repr, query.snapshot().to_pylist())))
    assert answers[0] == answers[1] and len(answers[1]) > 20
