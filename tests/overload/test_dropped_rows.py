"""What is dropped goes to a side output, if asked for: results told and rows dropped account for every row, exactly."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.api.query import Query
from penstock.api.session import Session
from penstock.durability.snapshot import dump, read, restore, write
from penstock.errors import StateError
from penstock.optimizer import optimize
from penstock.plan.query_root import top
from penstock.plan.rank_levels import levels_of
from penstock.sql import bind, parse

STREAMS = "".join(
    f"CREATE STREAM {name} (ts BIGINT, x INT, y INT, i INT, s STRING) WATERMARK ts DELAY OF INTERVAL 0;"
    for name in "abc"
)
ONE = "SELECT i FROM a [RANGE 40] WHERE y > 3"
TWO = "SELECT a.i AS ai, b.i AS bi FROM a [RANGE 40], b [RANGE 30] WHERE a.x = b.x"
THREE = (
    "SELECT a.i AS ai, b.i AS bi, c.i AS ci FROM a [RANGE 40], b [RANGE 30], c [RANGE 20]"
    " WHERE a.x = b.x AND b.x = c.x"
)
RANKS = "LIFESPAN {} MICROSECONDS RANK 1 CRITERIA (a.y = 9) RANK 2 CRITERIA (a.y = 8)"
STEPS, LENGTH = 12, 10

Rows = list[tuple[int, dict[str, list[dict[str, Any]]]]]


def drawn(rng: random.Random) -> Rows:
    """Steps of rows; every row has a number of its own. Some steps bring many more than others."""
    made: Rows = []
    number = 0
    for step in range(STEPS):
        rows: dict[str, list[dict[str, Any]]] = {}
        for name in "abc":
            rows[name] = []
            for _ in range(rng.choice((0, 2, 5, 25, 25))):
                number += 1
                rows[name].append(
                    {
                        "ts": rng.randrange(step * LENGTH, (step + 1) * LENGTH),
                        "x": rng.randrange(4),
                        "y": rng.randrange(10),
                        "i": number,
                        "s": rng.choice(("p", "é", None)),
                    }
                )
            rows[name].sort(key=lambda row: row["ts"])
        made.append(((step + 1) * LENGTH - 1, rows))
    return made


def restarted(was: Session, sql: str, options: dict[str, Any], path: Path) -> Session:
    write(dump(was.engine), path)
    now = penstock.connect(**options)
    now.execute(STREAMS)
    bound = bind(parse(sql)[0], now.catalog).query
    assert bound is not None
    root = top(optimize(bound.root), levels_of(bound))
    now.engine = restore(now.catalog, [("q", root, True)], read(path))
    now._queries["q"] = Query(now, now.engine.queries["q"], bound)
    return now


def run(
    sql: str, rows: Rows, options: dict[str, Any], restarts: set[int], path: Path
) -> tuple[Counter[tuple[int, ...]], list[dict[str, Any]], dict[str, Any]]:
    """Results, what was dropped, and how it stood in the end."""
    session = penstock.connect(**options)
    session.execute(STREAMS)
    session.query(sql, name="q")
    told: Counter[tuple[int, ...]] = Counter()
    dropped: list[dict[str, Any]] = []
    for number, (until, tables) in enumerate(rows):
        if number in restarts:
            session = restarted(session, sql, options, path)
        for name, some in tables.items():
            if some:
                session.push(name, some)
        session.advance(until)
        told.update(_numbers(session))
        if "budget" in options and number % 3 == 2:
            dropped += session.queries["q"].dropped().to_pylist()
    session.drain()
    told.update(_numbers(session))
    if "budget" in options:
        dropped += session.queries["q"].dropped().to_pylist()
    return told, dropped, session.queries["q"].load


def _numbers(session: Session) -> list[tuple[int, ...]]:
    changes = session.queries["q"].changes()
    names = [n for n in changes.column_names if n.endswith("i")]
    return list(zip(*(changes[n].to_pylist() for n in names), strict=True))


def case(sql: str, seed: int, path: Path) -> tuple[bool, Counter[Any], Counter[Any], list[dict[str, Any]]]:
    """Whether rows meet all their partners at once ("prefer" lets them wait in between); all results, those told, what was dropped."""
    rng = random.Random(seed)
    rows = drawn(rng)
    options = {
        "budget": rng.choice((5, 20, 60)),
        "allocation": rng.choice(("promote", "prefer", "semantic", "random", "fifo")),
        "seed": seed,
        "keep_dropped": True,
    }
    ranked = f"{sql} {RANKS.format(rng.choice((10, 100, 300)))}"
    restarts = set(rng.sample(range(STEPS), rng.choice((0, 1, 3))))
    whole, _, _ = run(sql, rows, {}, set(), path)
    told, dropped, load = run(ranked, rows, options, restarts, path)
    counted = sum(one["expired"] + one["shed"] for one in load["ranks"])
    assert len(dropped) == counted and load["dropped_beyond"] == 0
    reasons = Counter(one["__reason"] for one in dropped)
    assert reasons["shed"] == sum(one["shed"] for one in load["ranks"])
    came = {(name, row["i"]): row for _, tables in rows for name, some in tables.items() for row in some}
    for one in dropped:
        for name in "abc" if len(sql) > len(TWO) else "ab" if sql == TWO else ():
            if one[f"{name}_i"] is not None:
                row = came[name, one[f"{name}_i"]]
                assert {k: one[f"{name}_{k}"] for k in row} == row
        if sql == ONE:
            assert {k: one[k] for k in came["a", one["i"]]} == came["a", one["i"]]
    return options["allocation"] != "prefer", whole, told, dropped


@pytest.mark.parametrize("first", range(0, 8, 8))
def test_of_a_stream_every_row_is_told_or_dropped(first: int, tmp_path: Path) -> None:
    lost = 0
    for seed in range(first, first + 8):
        _, whole, told, dropped = case(ONE, seed, tmp_path / "state")
        assert told + Counter((one["i"],) for one in dropped if one["y"] > 3) == whole
        lost += len(dropped)
    assert lost


@pytest.mark.parametrize("first", range(100, 116, 8))
def test_of_a_join_exactly_the_results_of_dropped_rows_are_missing(first: int, tmp_path: Path) -> None:
    lost = 0
    for seed in range(first, first + 8):
        at_once, whole, told, dropped = case(TWO, seed, tmp_path / "state")
        gone = {(name, one[f"{name}_i"]) for one in dropped for name in "ab" if one[f"{name}_i"] is not None}
        left = Counter({(a, b): n for (a, b), n in whole.items() if not {("a", a), ("b", b)} & gone})
        assert told == left if at_once else left <= told <= whole
        lost += len(dropped)
    assert lost


@pytest.mark.parametrize("first", range(200, 208, 8))
def test_of_a_longer_join_every_missing_result_has_a_dropped_part(first: int, tmp_path: Path) -> None:
    partial = 0
    for seed in range(first, first + 8):
        at_once, whole, told, dropped = case(THREE, seed, tmp_path / "state")
        assert told <= whole
        parts = [{n: one[f"{n}_i"] for n in "abc" if one[f"{n}_i"] is not None} for one in dropped]
        for missing in whole - told:
            result = dict(zip("abc", missing, strict=True))
            assert any(part.items() <= result.items() for part in parts)
        alone = {next(iter(part.items())) for part in parts if len(part) == 1}
        for result in told if at_once else ():  # a row that was dropped by itself is in nothing that is told
            assert not set(zip("abc", result, strict=True)) & alone
        partial += sum(len(part) > 1 for part in parts)
    assert partial


def test_beyond_the_bound_rows_are_counted() -> None:
    session = penstock.connect(budget=0, allocation="fifo", keep_dropped=3)
    session.execute(STREAMS)
    query = session.query(f"{ONE} LIFESPAN 1 MICROSECONDS", name="q")
    for step in range(3):
        session.push("a", [{"ts": step * 10 + k, "x": 1, "y": 9, "i": k, "s": "p"} for k in range(5)])
        session.advance(step * 10 + 9)
    session.drain()
    kept = query.dropped()
    assert kept.column_names[:6] == ["__reason", "__rank", "__operator", "__ts", "__at", "__waited"]
    assert kept.num_rows + query.load["dropped_beyond"] == sum(r["expired"] for r in query.load["ranks"])
    assert query.dropped().num_rows == 0
    assert kept.schema.field("__ts").type == pa.int64()


def test_nothing_is_kept_unless_asked_for() -> None:
    session = penstock.connect(budget=10)
    session.execute(STREAMS)
    query = session.query(ONE, name="q")
    with pytest.raises(StateError, match="keep_dropped"):
        query.dropped()
    with pytest.raises(StateError, match="keep_dropped"):
        penstock.connect(keep_dropped=-1)


def test_other_ranks_may_read_any_column_where_all_are_kept() -> None:
    session = penstock.connect(budget=10, keep_dropped=True)
    session.execute(STREAMS)
    query = session.query(f"{TWO} RANK 1 CRITERIA (a.y = 9)", name="q")
    session.push(
        "a", [{"ts": 1, "x": 1, "y": 1, "i": 1, "s": "p"}, {"ts": 1, "x": 1, "y": 1, "i": 2, "s": None}]
    )
    session.push("b", [{"ts": 2, "x": 1, "y": 1, "i": 3, "s": "q"}])
    session.advance(3)
    session.execute("ALTER QUERY q SET RANK 1 CRITERIA (a.s = 'p') RANK 2 CRITERIA (b.s = 'z')")
    session.push("b", [{"ts": 4, "x": 1, "y": 1, "i": 4, "s": "z"}])
    session.advance(5)
    session.drain()
    ranks = {(r["ai"], r["bi"]): r["__rank"] for r in query.changes().to_pylist()}
    assert ranks == {(1, 3): None, (2, 3): None, (1, 4): 1, (2, 4): 2}
