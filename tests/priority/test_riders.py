"""Queries that ride on one core: rows are worked on once, and each is told its own columns, ranks and lifespans."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

import penstock
from penstock.errors import StateError
from penstock.runtime import snapshot

from .test_many import SETTINGS, STREAMS, Flow, steps

FROM = "FROM a [RANGE 200], b [RANGE 100] WHERE a.x = b.x"
SELECTS = ("a.x, a.y", "a.y + b.z AS s", "b.z, a.ts AS t", "a.x, b.ts AS t, a.y * 2 AS d")


def drawn_riders(
    drawn: random.Random, count: int, lifespans: tuple[str, ...] = ("",)
) -> dict[str, tuple[str, float]]:
    made = {}
    for n in range(count):
        ranks = []
        for level in sorted(drawn.sample(range(1, 5), drawn.randint(0, 3))):
            low = drawn.randrange(0, 90, 30)
            column = drawn.choice(("a.y", "a.y", "b.z"))
            ranks.append(
                f"RANK {level} CRITERIA ({column} >= {low} AND {column} < {low + 20} OR a.x = {level})"
            )
        text = f"SELECT {drawn.choice(SELECTS)} {FROM} {drawn.choice(lifespans)} {' '.join(ranks)}"
        made[f"q{n}"] = text, drawn.choice((0.5, 1.0, 2.0))
    return made


@pytest.mark.parametrize("seed", range(8))
def test_riders_are_told_what_they_would_be_told_alone(seed: int) -> None:
    """While rows wait queries are dropped, weigh something else, rank something else; once nothing waits all has been said."""
    drawn = random.Random(seed)
    queries = drawn_riders(drawn, 5)
    allocation = drawn.choice(("promote", "prefer", "fifo", "semantic", "random"))
    options = {
        "budget": drawn.choice((150, 500, 2000)),
        "significance": SETTINGS[seed % 3],
        "allocation": allocation,
    }
    truth, some = Flow(queries), Flow(queries, **options)
    assert len({id(some.pipeline(name)) for name in queries}) == 1
    for step, (until, tables) in enumerate(steps(10, 50, seed)):
        if step in (3, 6):
            gone = drawn.choice(list(some.queries))
            for flow in (truth, some):
                flow.session.execute(f"DROP QUERY {gone}")
                del flow.queries[gone]
        if step == 5:
            some.session.execute(f"ALTER QUERY {drawn.choice(list(some.queries))} SET WEIGHT 7")
        truth.take(until, tables)
        some.take(until, tables)
    some.drain()
    for name in some.queries:
        assert some.counted(name) == truth.counted(name), f"{options} {queries[name]}"
        assert some.queries[name].load["waiting"] == 0


def test_other_ranks_of_a_rider() -> None:
    queries = {
        "q": (f"SELECT a.x, a.y {FROM} RANK 1 CRITERIA (a.y > 90)", 1.0),
        "r": (f"SELECT b.z, a.y {FROM} RANK 1 CRITERIA (a.y < 5)", 1.0),
    }
    truth, some = Flow(queries), Flow(queries, budget=300)
    before = 0
    for step, (until, tables) in enumerate(steps(10, 50, 2)):
        if step == 4:
            before = len(some.said["q"])
            some.session.execute("ALTER QUERY q SET RANK 1 CRITERIA (b.z > 50) RANK 3 CRITERIA (a.y < 50)")
            with pytest.raises(StateError, match="COVER"):
                some.session.execute("ALTER QUERY r SET RANK 1 CRITERIA (a.y > 1) COVER EVERY 10 BY a.x")
        truth.take(until, tables)
        some.take(until, tables)
    some.drain()
    assert some.counted("r") == truth.counted("r")
    plain = lambda flow: Counter((row["__ts"], row["x"], row["y"]) for row in flow.said["q"])  # noqa: E731
    assert plain(some) == plain(truth)
    assert {row["__rank"] for row in some.said["q"][before:]} == {1, 3, None}


def spent(queries: dict[str, tuple[str, float]], **options: Any) -> float:
    flow = Flow(queries, budget=10**9, **options)
    total = 0.0
    for until, tables in steps(6, 80, 3):
        flow.take(until, tables)
        total += sum({id(p): p.spent for p in map(flow.pipeline, queries)}.values())
    return total


def test_rows_are_worked_on_once() -> None:
    queries = drawn_riders(random.Random(1), 8)
    (first, *_) = queries.items()
    assert spent(queries) == spent(dict([first]))
    assert spent(queries, share=False) == 8 * spent(dict([first]))


def test_equal_criteria_are_one_at_their_best_place() -> None:
    rank = "CRITERIA (a.y > 50 AND a.x = 3)"
    queries = {
        "q": (f"SELECT a.x {FROM} RANK 2 {rank} RANK 3 CRITERIA (a.y < 10)", 1.0),
        "r": (f"SELECT b.z {FROM} RANK 1 CRITERIA (a.x = 3 AND a.y > 50) RANK 2 CRITERIA (b.z = 1)", 1.0),
    }
    flow = Flow(queries, budget=100, significance="impartial")
    (routes,) = flow.pipeline("q").scheduler.cores
    assert [(one.level, *map(str, one.alternatives)) for one in routes.determinants] == [
        (1, "((a.x = 3) AND (a.y > 50))"), (2, "(b.z = 1)"), (3, "(a.y < 10)"),
    ]  # fmt: skip
    strict = Flow({"q": (queries["q"][0], 5.0), "r": queries["r"]}, budget=100, significance="strict")
    (routes,) = strict.pipeline("q").scheduler.cores
    assert len(routes.determinants) == 2, "all that the heavier one wants comes before what the other ranks"


def test_what_matters_to_anybody_goes_first() -> None:
    """Ranks that contradict each other: both queries get what they rank, hardly any of the rest."""
    sql = "SELECT x, y FROM a [RANGE 50] LIFESPAN 800 RANK 1 CRITERIA ({})"
    queries = {"low": (sql.format("y < 15"), 1.0), "high": (sql.format("y >= 85"), 1.0)}
    truth, some = Flow(queries), Flow(queries, budget=110, allocation="promote")
    for until, tables in steps(30, 200, 6):
        truth.take(until, {"a": tables["a"]})
        some.take(until, {"a": tables["a"]})
    for name in queries:
        told, whole = (Counter(row["__rank"] for row in flow.said[name]) for flow in (some, truth))
        assert told[1] > 0.9 * whole[1]
        assert told[None] < 0.6 * whole[None]
        load = some.queries[name].load
        assert {one["rank"]: one["delivered"] for one in load["ranks"]}[1] + load["in_time"] >= told[1]


def test_every_rider_has_its_lifespan() -> None:
    """A row is dropped when it is too old for all; a result that is too old for one is not told to it, and counted."""
    sql = "SELECT x, y FROM a [RANGE 50] {} RANK 1 CRITERIA (y < 30)"
    queries = {"short": (sql.format("LIFESPAN 200"), 1.0), "long": (sql.format("LIFESPAN 1500"), 1.0)}
    flow = Flow(queries, budget=100, allocation="fifo")
    for until, tables in steps(30, 130, 6):
        flow.take(until, {"a": tables["a"]})
    loads = {name: query.load for name, query in flow.queries.items()}
    told = {name: len(said) for name, said in flow.said.items()}
    assert flow.counted("short") <= flow.counted("long")
    assert 0 < told["short"] < told["long"]
    late = {
        name: sum(one["expired_at"].get("a result, too late for this query", 0) for one in load["ranks"])
        for name, load in loads.items()
    }
    assert late["long"] == 0
    assert told["short"] + late["short"] == told["long"], "what one was told and the other was not is counted"
    assert max(one["latency_p99"] for one in loads["short"]["ranks"]) <= 200 + 64
    flow.session.execute("ALTER QUERY short SET LIFESPAN 5000")
    assert flow.pipeline("long").scheduler.lifespan == 5000


def test_riders_survive_a_restart() -> None:
    queries = drawn_riders(random.Random(4), 4, ("", "LIFESPAN 600", "LIFESPAN 2500"))

    def run(restarts: bool) -> tuple[dict[str, Any], dict[str, Counter[tuple[Any, ...]]]]:
        flow = Flow(queries, budget=250)
        for step, (until, tables) in enumerate(steps(9, 50, 8)):
            flow.take(until, tables)
            if step == 3:
                flow.session.execute("DROP QUERY q1; ALTER QUERY q2 SET WEIGHT 4")
                del flow.queries["q1"]
            if restarts and step % 3 == 1:
                engine = flow.session.engine
                known = [(q.name, q.root, False) for q in engine.queries.values()]
                flow.session.engine = snapshot.restore(flow.session.catalog, known, snapshot.dump(engine))
                for name, query in flow.queries.items():
                    query._standing = flow.session.engine.queries[name]
        return flow.session.engine.loads(), {name: flow.counted(name) for name in flow.queries}

    assert run(False) == run(True)


def test_riders_go_on_by_another_scale() -> None:
    """An engine that was saved is taken up by other policies: ranks are numbered anew, also of what waits."""
    queries = drawn_riders(random.Random(11), 4)
    truth, flow = Flow(queries), Flow(queries, budget=250, significance="shared")
    for step, (until, tables) in enumerate(steps(8, 50, 8)):
        truth.take(until, tables)
        flow.take(until, tables)
        if step == 4:
            engine = flow.session.engine
            known = [(q.name, q.root, False) for q in engine.queries.values()]
            other = replace(engine.policies, significance="strict")
            flow.session.engine = snapshot.restore(flow.session.catalog, known, snapshot.dump(engine), other)
            for name, query in flow.queries.items():
                query._standing = flow.session.engine.queries[name]
            assert flow.pipeline("q0").waiting > 0
            assert flow.pipeline("q0").riders.setting == "strict"  # type: ignore[union-attr]
    flow.drain()
    for name in queries:
        assert flow.counted(name) == truth.counted(name)


def test_who_rides_alone() -> None:
    """Another core, another beginning, a Python function, COVER, something above the core, or share=False."""
    sql = f"SELECT a.x {FROM}"

    def together(first: str, second: str, **options: Any) -> bool:
        session = penstock.connect(budget=10, **options)
        session.execute(STREAMS)
        session.create_function("f", lambda x: x, "INT")
        made = [session.query(text) for text in (first, second)]
        return len({id(session.engine.queries[query.name].pipeline) for query in made}) == 1

    assert together(sql, f"SELECT b.z {FROM} RANK 1 CRITERIA (a.y = 1)")
    assert together(
        sql,
        "SELECT p.y FROM a [RANGE 200] AS p, b [RANGE 100] AS q WHERE q.x = p.x RANK 1 CRITERIA (p.y = 1)",
    )
    assert not together(sql, sql, share=False)
    assert not together(sql, f"{sql} AND a.y > 1")
    assert not together(sql, sql.replace("200", "201"))
    assert not together(sql, f"SELECT f(a.x) AS x {FROM}")
    assert not together(sql, f"{sql} RANK 1 CRITERIA (f(a.x) = 1)")
    assert not together(sql, f"{sql} RANK 1 CRITERIA (a.y = 1) COVER EVERY 5 BY a.x")
    assert not together(sql, f"SELECT DISTINCT a.x {FROM}")
    flow = Flow({"q": (sql, 1.0)}, budget=100)
    for until, tables in steps(2, 5, 1):
        flow.take(until, tables)
    flow.session.query(sql, name="later")
    assert flow.pipeline("q") is not flow.pipeline("later")
    assert "calm" in flow.session.queries["later"].explain()
