"""A join without a tree drops what some input cannot support, hop by hop: the answers are the same, and less is made."""

from __future__ import annotations

import random
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.api.query import Query
from penstock.api.session import Session
from penstock.errors import StateError
from penstock.operators.join.fifo_join import FifoJoin
from penstock.plan.join_tree import Demand, Tree
from penstock.plan.state_upkeep import Upkeep
from penstock.spark.declarations_log import Declared
from tests.demand.drawn import GRAPHS, answers, make
from tests.demand.hurried import hurried
from tests.demand.test_duck import alive, snapshots
from tests.demand.test_restarts import with_restarts
from tests.equivalence.test_restarts import Restarts

DEMANDS = ("off", "doe", "jit")


def walks(session: Session) -> list[FifoJoin]:
    return [
        operator
        for tail in session.engine.tails.values()
        for operator, _ in tail.pipeline.stages
        if isinstance(operator, FifoJoin)
    ]


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("sources", range(3, 9))
def test_every_graph_and_number_of_sources(graph: str, sources: int) -> None:
    """Every demand and every way to walk, whatever is asked and kept meanwhile."""
    denied = 0
    for lonely in (0.0, 0.9):
        case = make(940_000 + sources, sources, graph, lonely)
        plain, _ = answers(case, None, join="tree", demand="jit")
        rng = random.Random(f"{graph} {sources}")
        for demand in DEMANDS:
            for join in ("mjoin", "auto"):
                with hurried(rng.randrange(1 << 30)):
                    found, session = answers(case, rng.choice((1, 5, 50)), join=join, demand=demand)
                assert found == plain, f"{case}, {demand}, {join}"
                (walk,) = walks(session)
                denied += walk.counted()["suppressed"] if demand == "jit" else 0
                assert demand != "off" or walk.counted()["asked"] == 0
        found, _ = answers(case, 20, join="eddy")
        assert found == plain, f"{case}, shared"
    assert denied > 0


@pytest.mark.parametrize("demand", DEMANDS)
@pytest.mark.parametrize("join", ["mjoin", "auto", "eddy"])
def test_snapshots_are_duckdb_s(join: str, demand: str) -> None:
    found = 0
    with hurried(7):
        for seed in range(945_000, 945_008):
            case = make(seed, 3 + seed % 4)
            for clock, got in snapshots(case, join=join, demand=demand):
                assert got == alive(case, clock), f"{case} at {clock}"
                found += len(got)
    assert found > 50


def selective() -> Session:
    made = penstock.connect(join="mjoin", share=False, replan=False)
    streams = (f"CREATE STREAM {name} (ts BIGINT, x INT, y INT) WATERMARK ts DELAY OF 0" for name in "abc")
    made.execute(";".join(streams))
    return made


def test_what_was_learnt_outlives_a_restart(tmp_path: Path) -> None:
    """Asked after a restart is what was asked before it, and the next trial comes when it would have."""
    text = (
        "SELECT a.ts AS i FROM a [RANGE 2000], b [RANGE 2000], c [RANGE 2000] WHERE a.x = b.x AND a.y = c.y"
    )
    rng = np.random.default_rng(1)
    sessions = [selective(), selective()]
    restart = Restarts(selective, tmp_path / "state")
    said: list[list[Any]] = [[], []]
    for made in sessions:
        made.query(text, name="q")
    for part in range(8):
        ts = np.arange(1000 * part, 1000 * (part + 1))
        rows = {
            n: pa.table({"ts": ts, "x": rng.integers(0, 5, 1000), "y": rng.integers(0, 500_000, 1000)})
            for n in "abc"
        }
        for which, made in enumerate(sessions):
            for name, table in rows.items():
                made.push(name, table.cast(pa.schema([("ts", "int64"), ("x", "int32"), ("y", "int32")])))
            made.advance(int(ts[-1]))
            said[which] += made.queries["q"].changes().to_pylist()
        (straight,), (again,) = map(walks, sessions)
        for array in ("_gate", "_pays", "_keeps"):
            assert np.array_equal(getattr(straight._questions, array), getattr(again._questions, array)), part
        assert again._questions.plain == straight._questions.plain
        if part in (2, 4, 5):
            sessions[1] = restart(sessions[1])
    assert said[0] == said[1]
    assert straight._questions._chosen != []


@pytest.mark.parametrize("demand", DEMANDS)
def test_a_restart_changes_nothing(demand: str, tmp_path: Path) -> None:
    """What was learnt of questions is saved; horizons are made again from the rows."""
    for seed in range(946_000, 946_010):
        case = make(seed, 3 + seed % 4)
        options = {"join": "mjoin", "demand": demand, "share": False}
        straight, _ = answers(case, 30, **options)
        with hurried(seed):
            again, _ = with_restarts(case, tmp_path / "state", **options)
        assert straight == again, str(case)


def chain(**options: Any) -> tuple[Session, Query]:
    session = penstock.connect(join="mjoin", **options)
    for name in "abc":
        session.create_stream(name, {"ts": "BIGINT", "x": "INT", "y": "INT"}, time="ts")
    return session, session.query(CHAIN)


CHAIN = "SELECT a.ts AS a, b.ts AS b, c.ts AS c FROM a [RANGE 200], b [RANGE 200], c [RANGE 200] WHERE a.x = b.x AND a.y = c.y"


def fed(session: Session, rows: int, selective: int) -> None:
    """x takes 4 values, y so many; 100 rows of each stream a push."""
    rng = np.random.default_rng(3)
    for at in range(0, rows, 100):
        for name in "abc":
            ts = np.arange(at, at + 100)
            session.push(name, {"ts": ts, "x": rng.integers(0, 4, 100), "y": rng.integers(0, selective, 100)})
        session.advance(at + 99)


def test_rows_stop_at_once_where_nobody_stands_behind_their_partners() -> None:
    """A row of b has 50 partners in a; those that have no partner in c it does not even meet."""
    made, matched = {}, {}
    for demand in DEMANDS:
        session, query = chain(demand=demand)
        fed(session, 6000, 100_000)
        (walk,) = walks(session)
        made[demand], matched[demand] = walk.counted()["made"], query.matched
        met = walk._backing.there(0, walk._indexes[0, 1])
        assert (met < 20) if demand == "jit" else (met == 200)
        assert walk._questions.kept == [], "so that there is nothing left to ask"
    assert len(set(matched.values())) == 1
    assert matched["off"] > 0
    assert made["jit"] < made["off"] / 3
    assert made["doe"] > 0.99 * made["off"], "nobody was empty for long"


def test_horizons_rest_where_all_are_supported() -> None:
    """Every row of a has partners in b and in c: what is asked in trials is seldom denied, and nothing is kept."""
    session, query = chain(unread_bytes=1 << 32)
    fed(session, 3000, 4)
    (walk,) = walks(session)
    assert walk._questions.kept == []
    assert walk.counted()["asked"] < 3000
    assert query.matched > 100_000


def test_an_empty_input_stops_all_walks() -> None:
    """Until c comes to life nobody walks, if it is asked; and then nothing is missing."""
    made, matched = {}, {}
    for demand in DEMANDS:
        session, query = chain(demand=demand)
        for at in range(0, 3000, 100):
            ts = list(range(at, at + 100))
            for name in "abc" if at >= 2000 else "ab":
                session.push(name, {"ts": ts, "x": [t % 4 for t in ts], "y": [t % 50 for t in ts]})
            session.advance(at + 99)
        (walk,) = walks(session)
        made[demand], matched[demand] = walk.counted()["made"], query.matched
    assert len(set(matched.values())) == 1
    assert matched["off"] > 1000
    assert made["doe"] < 0.7 * made["off"]


def clique(sources: int, **options: Any) -> tuple[Session, Query, list[list[str]]]:
    session = penstock.connect(**options)
    pairs = list(combinations(range(sources), 2))
    columns = [[f"x{q}" for q, pair in enumerate(pairs) if i in pair] for i in range(sources)]
    for i, own in enumerate(columns):
        session.create_stream(f"s{i}", {"ts": "BIGINT", **dict.fromkeys(own, "INT")}, time="ts")
    equal = " AND ".join(f"s{i}.x{q} = s{j}.x{q}" for q, (i, j) in enumerate(pairs))
    froms = ", ".join(f"s{i} [RANGE 60]" for i in range(sources))
    return session, session.query(f"SELECT s0.ts FROM {froms} WHERE {equal}"), columns


@pytest.mark.parametrize("join", ["mjoin", "eddy"])
def test_a_clique_is_compared_hop_by_hop(join: str) -> None:
    """Three partners for each pair; by one equality a hop 3 + 9 + 27 + 81 rows would be bound for every row."""
    session, query, columns = clique(6, join=join, demand="off")
    rng = np.random.default_rng(5)
    for at in range(0, 600, 60):
        for i, own in enumerate(columns):
            session.push(f"s{i}", {"ts": np.arange(at, at + 60), **{c: rng.integers(0, 20, 60) for c in own}})
        session.advance(at + 59)
    assert query.visits + session.engine.sharing.confluence.visits < 40 * 3600
    if join == "mjoin":
        (walk,) = walks(session)
        assert walk.counted()["made"] < 6 * 3600


@pytest.mark.parametrize("demand", DEMANDS)
def test_in_a_clique_walks_go_where_fewest_partners_are(demand: str) -> None:
    """The last stream has far more values than the others: all visit it first, and hardly anything is bound."""
    session, _, columns = clique(4, join="mjoin", demand=demand)
    rng = np.random.default_rng(6)
    for at in range(0, 1200, 60):
        for i, own in enumerate(columns):
            most = 2000 if i == 3 else 20
            session.push(
                f"s{i}", {"ts": np.arange(at, at + 60), **{c: rng.integers(0, most, 60) for c in own}}
            )
        session.advance(at + 59)
    (walk,) = walks(session)
    assert walk._order[:3, 0, 0].tolist() == [3, 3, 3]
    assert walk.counted()["made"] < 4 * 1200


def test_explain_tells_what_was_made() -> None:
    session, query = chain()
    fed(session, 3000, 20_000)
    counted = query.partial_results
    told = f"partial results: {counted['made']:,} made, {counted['suppressed']:,} suppressed; {counted['asked']:,} questions asked"
    assert told in query.explain()
    assert session.execute(f"EXPLAIN ANALYZE {CHAIN}") == [query.explain()]
    assert "partial results" not in session.execute(f"EXPLAIN {CHAIN}")[0]
    (other,) = session.execute(f"EXPLAIN ANALYZE {CHAIN} AND a.x > 1")
    assert "partial results" not in other, "nobody runs this one"


def test_demand_is_told_with_the_upkeep() -> None:
    """A checkpoint goes on with another, but for trees, whose state hangs on it."""
    for demand in Demand:
        assert Upkeep.of(Upkeep(demand=demand).json()).demand is demand
    before = Declared(queries={"q": "SELECT 1"}, upkeep=Upkeep(demand=Demand.OFF))
    Declared(upkeep=Upkeep(demand=Demand.JIT)).must_follow(before)
    before.upkeep = Upkeep(tree=Tree(), demand=Demand.OFF)
    with pytest.raises(StateError, match="made with tree='left-deep, demand off'"):
        Declared(upkeep=Upkeep(tree=Tree())).must_follow(before)
