"""Queries that ride on one core: rows are worked on once, and each is told its own columns, ranks and lifespans."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

import penstock
from penstock.durability import snapshot
from penstock.errors import DataError, PlanError, StateError
from tests.overload.test_many import SETTINGS, STREAMS, Flow, steps

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
            with pytest.raises(StateError, match="does not keep"):
                some.session.execute("ALTER QUERY r SET RANK 1 CRITERIA (b.ts > 1)")
            with pytest.raises(PlanError, match="several inputs"):
                some.session.execute("ALTER QUERY r SET RANK 1 CRITERIA (a.y > b.z) COVER EVERY 10 BY a.x")
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


ABOVE = (
    "DISTINCT a.y",
    "DISTINCT a.x, b.z",
    "a.x, COUNT(*) AS n, SUM(b.z) AS s",
    "COUNT(*) AS n, MAX(a.y) AS m",
    "a.x, a.y, b.z",
    "b.ts AS t, a.y",
    "twice(a.y) AS w, b.z",
)


TABLE = "CREATE TABLE t (x INT, v INT, w INT);"


def drawn_query(drawn: random.Random, *, table: bool) -> str:
    """Whatever may ride: something above, COVER, functions in SELECT and in criteria."""
    select = drawn.choice((*ABOVE, "a.x, v", "w, COUNT(*) AS n") if table else ABOVE)
    low = drawn.randrange(0, 90, 10)
    ranks = [
        f"RANK 1 CRITERIA (a.y BETWEEN {low} AND {low + 9} OR b.z = {low})",
        f"RANK 2 CRITERIA (twice(a.y) > {150 + low})",
        f"RANK {drawn.choice((1, 3))} CRITERIA (a.y > {low}) COVER EVERY {drawn.choice((70, 200))} BY a.x",
        f"RANK 4 CRITERIA (a.ts > {10 * low} AND a.x < 20)",
    ]
    if table:
        ranks.append(f"RANK 5 CRITERIA (w > 5 AND a.y > {low}) COVER EVERY 100 BY a.x")
        ranks.append(f"RANK 6 CRITERIA (v = {low // 10})")
    first, second = sorted(drawn.sample(ranks, 2))
    chosen = drawn.choice(("", first, f"{first} {second}" if first[5] != second[5] else second))
    group = " GROUP BY " + select.split(", COUNT")[0] if ", COUNT" in select else ""
    joined = FROM.replace(" WHERE ", ", t WHERE a.x = t.x AND ") if table else FROM
    return f"SELECT {select} {joined}{group} {chosen}"


def restart(flow: Flow) -> None:
    engine = flow.session.engine
    known = [(q.name, q.root, q.answer.kept) for q in engine.queries.values()]
    flow.session.engine = snapshot.restore(flow.session.catalog, known, snapshot.dump(engine))
    for name, query in flow.queries.items():
        query._standing = flow.session.engine.queries[name]


@pytest.mark.parametrize("seed", range(10))
def test_who_comes_later_is_told_what_he_would_be_told_alone(seed: int) -> None:
    """Queries of all kinds come and go while rows wait, and the engine restarts; all of them ride on one core."""
    drawn = random.Random(seed)
    options = {
        "budget": drawn.choice((150, 400, 2000, 10**6)),
        "significance": SETTINGS[seed % 3],
        "allocation": drawn.choice(("promote", "prefer", "prefer", "fifo", "semantic", "random")),
        "keep_dropped": drawn.random() < 0.3,
    }
    flows = Flow({}), Flow({}, **options)
    for flow in flows:
        flow.session.create_function("twice", lambda v: None if v is None else 2 * v, "INT")
        flow.session.execute(TABLE)
        flow.session.update_table("t", insert=[{"x": n, "v": n % 7, "w": n % 11} for n in range(25)])
    some, texts = flows[1], {}
    for step, (until, tables) in enumerate(steps(10, 40, seed)):
        for _ in range(drawn.choice((0, 1, 2)) + 2 * (step == 0)):
            name = f"q{len(texts)}"
            texts[name], weight = drawn_query(drawn, table=seed % 2 == 1), drawn.choice((0.5, 1.0, 2.0))
            for flow in flows:
                flow.queries[name] = flow.session.query(texts[name], name=name, weight=weight)
                flow.said[name] = []
        if drawn.random() < 0.3 and len(some.queries) > 1:
            gone = drawn.choice(list(some.queries))
            for flow in flows:
                flow.session.execute(f"DROP QUERY {gone}")
                del flow.queries[gone]
        for flow in flows:
            flow.session.update_table("t", insert=[{"x": 25 + step, "v": step, "w": 9}], at=until - 30)
            flow.take(until, tables)
        if drawn.random() < 0.3:
            restart(some)
        assert len({id(some.pipeline(name)) for name in some.queries}) == 1
    some.drain()
    for name in some.queries:
        assert some.counted(name) == flows[0].counted(name), f"{options} {texts[name]}"
        assert some.queries[name].snapshot().num_rows == flows[0].queries[name].snapshot().num_rows
        assert some.queries[name].load["waiting"] == 0
        if options.get("keep_dropped"):
            assert some.queries[name].dropped().num_rows == 0


def test_who_comes_later_counts_only_what_is_his() -> None:
    """Rows that came before are dropped for the first query alone."""
    sql = "SELECT x, y FROM a [RANGE 50] LIFESPAN 300 RANK 1 CRITERIA (y < 30)"
    flow = Flow({"first": (sql, 1.0)}, budget=60, keep_dropped=True)
    came = 0
    for step, (until, tables) in enumerate(steps(12, 200, 6)):
        if step == 6:
            flow.queries["later"] = flow.session.query(f"{sql} COVER EVERY 100 BY x", name="later")
            flow.said["later"] = []
            assert flow.pipeline("later") is flow.pipeline("first")
        flow.take(until, {"a": tables["a"]})
        came += 200 * (step >= 6)
    flow.drain()
    flow.session.advance(5_000)
    flow.hear()
    load = flow.queries["later"].load
    dropped = flow.queries["later"].dropped()
    assert len(flow.said["later"]) + sum(one["expired"] for one in load["ranks"]) == came
    assert dropped.num_rows == came - len(flow.said["later"])
    assert min(dropped["ts"].to_pylist()) >= 600
    assert len(flow.said["first"]) + flow.queries["first"].dropped().num_rows == 2 * came
    (covered,) = load["coverage"]
    assert covered["periods"] == 6
    objects = {(row["ts"] // 100, row["x"]) for row in rows_of(steps(12, 200, 6)[6:]) if row["y"] < 30}
    told = {(row["__ts"] // 100, row["x"]) for row in flow.said["later"] if row["y"] < 30}
    assert (covered["objects"], covered["covered"]) == (len(objects), len(told))


def rows_of(made: Any) -> list[dict[str, Any]]:
    return [row for _, tables in made for row in tables["a"].to_pylist()]


def test_what_is_too_late_for_one_is_dropped_for_one() -> None:
    """Told and dropped make up all there is for each, whatever the others' lifespans; COVER goes by one's own."""
    sql = "SELECT x, y, ts AS at FROM a [RANGE 50] {} RANK 1 CRITERIA (y < 30) COVER EVERY 100 BY x"
    queries = {"short": (sql.format("LIFESPAN 200"), 1.0), "long": (sql.format("LIFESPAN 1500"), 1.0)}
    flow = Flow(queries, budget=60, allocation="fifo", keep_dropped=True)
    for until, tables in steps(20, 130, 6):
        flow.take(until, {"a": tables["a"]})
    flow.drain()
    flow.session.advance(5_000)
    flow.hear()
    for name, query in flow.queries.items():
        dropped = query.dropped()
        assert len(flow.said[name]) + dropped.num_rows == 20 * 130
        assert (
            not {(r["at"], r["x"], r["y"]) for r in flow.said[name]}
            & {(r["ts"], r["x"], r["y"]) for r in dropped.to_pylist()}
            or dropped.num_rows
        )
        (covered,) = query.load["coverage"]
        told = {(row["at"] // 100, row["x"]) for row in flow.said[name] if row["y"] < 30}
        assert covered["covered"] == len(told)
    assert len(flow.said["short"]) < len(flow.said["long"])


def test_a_function_that_fails_stops_its_query_alone() -> None:
    def brittle(v: int) -> int:
        if v == 77:
            raise ValueError("77")
        return v

    plain = f"SELECT a.x, a.y {FROM} RANK 1 CRITERIA (a.y > 90)"
    queries = {
        "plain": plain,
        "columns": f"SELECT brittle(a.y) AS y {FROM}",
        "ranks": f"SELECT a.x {FROM} RANK 1 CRITERIA (brittle(a.y) > 50)",
        "groups": f"SELECT brittle(a.y) AS y, COUNT(*) AS n {FROM} GROUP BY brittle(a.y)",
    }
    truth = Flow({"plain": (plain, 1.0)})
    flow = Flow({}, budget=200)
    flow.session.create_function("brittle", brittle, "INT")
    for name, sql in queries.items():
        flow.queries[name] = flow.session.query(sql, name=name)
        flow.said[name] = []
    assert len({id(flow.pipeline(name)) for name in queries}) == 1
    for step, (until, tables) in enumerate(steps(8, 50, 3)):
        truth.take(until, tables)
        for name, rows in tables.items():
            flow.session.push(name, rows)
        with suppress(DataError):
            flow.session.advance(until)
        if step == 5:
            restart(flow)
        flow.said["plain"] += flow.queries["plain"].changes().to_pylist()
    with suppress(DataError):
        flow.session.drain()
    flow.said["plain"] += flow.queries["plain"].changes().to_pylist()
    assert flow.counted("plain") == truth.counted("plain")
    for name in ("columns", "ranks", "groups"):
        if flow.queries[name]._standing.answer.has_changes:
            flow.queries[name].changes()  # first what it had made
        with pytest.raises(StateError, match="stopped at an error"):
            flow.queries[name].changes()
        flow.session.execute(f"DROP QUERY {name}")
    assert "riders" not in flow.queries["plain"].load


def test_who_rides_alone() -> None:
    """Another core or several, samples, a function in what is joined if rows have come, or share=False."""
    sql = f"SELECT a.x {FROM}"

    def together(first: str, second: str, later: bool = False, **options: Any) -> bool:
        session = penstock.connect(budget=10, **options)
        session.execute(STREAMS)
        session.create_function("f", lambda x: x, "INT")
        made = [session.query(first)]
        if later:
            session.advance(50)
        made.append(session.query(second))
        return len({id(session.engine.queries[query.name].pipeline) for query in made}) == 1

    assert together(sql, f"SELECT b.z {FROM} RANK 1 CRITERIA (a.y = 1)")
    assert together(
        sql,
        "SELECT p.y FROM a [RANGE 200] AS p, b [RANGE 100] AS q WHERE q.x = p.x RANK 1 CRITERIA (p.y = 1)",
    )
    assert together(sql, f"{sql} RANK 1 CRITERIA (f(a.x) = 1)", later=True)
    assert together(f"{sql} AND f(a.x) = 1", f"{sql} AND f(a.x) = 1")
    assert not together(f"{sql} AND f(a.x) = 1", f"{sql} AND f(a.x) = 1", later=True)
    assert not together(sql, sql, share=False)
    assert not together(sql, f"{sql} AND a.y > 1")
    assert not together(sql, sql.replace("200", "201"))
    assert not together(sql, f"SELECT DISTINCT a.x {FROM} EXCEPT {sql}")
    groups = f"SELECT a.x, AVG(a.y) AS m {FROM} GROUP BY a.x"
    assert together(sql, groups)
    assert not together(sql, f"{groups} LIFESPAN 10 RANK 1 CRITERIA (a.y = 1)")


@pytest.mark.parametrize("budget", [150, 10**6])
def test_tables_above_are_told_to_all_that_ride(budget: int) -> None:
    """Groups joined with a table that changes while rows wait; who comes later runs by himself."""
    groups = (
        f"SELECT g.x, g.n, t.w FROM (SELECT a.x, COUNT(*) AS n {FROM} GROUP BY a.x) AS g, t WHERE g.x = t.x"
    )
    values = f"SELECT d.y, t.v FROM (SELECT DISTINCT a.x, a.y {FROM}) AS d, t WHERE d.x = t.x"
    flows = Flow({}), Flow({}, budget=budget)
    for flow in flows:
        flow.session.execute(TABLE.replace("CREATE", "CREATE RETROACTIVE"))
        flow.session.update_table("t", insert=[{"x": n, "v": n % 7, "w": n % 11} for n in range(20)])
        for name, text in (("q", groups), ("r", values), ("s", f"SELECT a.x {FROM}")):
            flow.queries[name], flow.said[name] = flow.session.query(text, name=name), []
    some = flows[1]
    for step, (until, tables) in enumerate(steps(8, 40, 12)):
        for flow in flows:
            flow.session.update_table("t", insert=[{"x": 20 + step, "v": step, "w": 9}], at=until - 30)
            flow.session.update_table("t", delete=[{"x": step, "v": step % 7, "w": step % 11}], at=until - 10)
            if step == 4:
                flow.queries["late"], flow.said["late"] = flow.session.query(values, name="late"), []
            flow.take(until, tables)
        assert some.pipeline("q") is some.pipeline("r") is not some.pipeline("s")
        if step % 3 == 2:
            restart(some)
    assert "late" in some.queries and some.pipeline("late") is not some.pipeline("q")
    some.drain()
    for name in some.queries:
        assert some.counted(name) == flows[0].counted(name)
        assert len(some.said[name]) > 20
