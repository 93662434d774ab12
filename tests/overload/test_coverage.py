"""COVER: every object of a rank is worked on in every period while capacity allows, and missed objects are counted exactly.

The naive twin looks at rows and results alone: a table has one row for every object, so that every row that was worked on is a result.
"""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.durability import snapshot
from penstock.errors import BindError, ParseError, PlanError, StateError

STREAM = "CREATE STREAM a (ts BIGINT, x STRING, k INT, y INT) WATERMARK ts DELAY OF INTERVAL 0;"
TABLES = "CREATE TABLE t (x STRING, v INT); CREATE TABLE u (k INT, w INT);"
KEYS = 3
SQL = {
    "rows": "SELECT ts AS at, x, k, y FROM a [RANGE 50]",
    "joined": "SELECT a.ts AS at, a.x, a.k, a.y, v FROM a [RANGE 50], t, u WHERE a.x = t.x AND a.k = u.k AND a.y > 10",
}
Objects = dict[int, set[tuple[str, int]]]


def steps(drawn: np.random.Generator, count: int, rows: int, objects: int) -> list[tuple[int, pa.Table]]:
    """Most rows are of one object; the others of many."""
    made = []
    for step in range(count):
        ts = np.sort(drawn.integers(step * 100, (step + 1) * 100, rows))
        x = np.where(drawn.random(rows) < 0.7, 0, drawn.integers(0, objects, rows))
        columns = {"k": drawn.integers(0, KEYS, rows), "y": drawn.integers(0, 100, rows)}
        table = {
            "ts": ts,
            "x": pa.array([f"o{n}" for n in x]),
            **{k: v.astype("i4") for k, v in columns.items()},
        }
        made.append(((step + 1) * 100 - 1, pa.table(table)))
    return made


def session(objects: int, **options: Any) -> penstock.Session:
    made = penstock.connect(**options)
    made.execute(STREAM + TABLES)
    every = [f"o{n}" for n in range(objects)]
    made.update_table("t", {"x": every, "v": pa.array(range(objects), pa.int32())})
    made.update_table("u", {"k": pa.array(range(KEYS), pa.int32()), "w": pa.array(range(KEYS), pa.int32())})
    return made


class Twin:
    """Objects by period: those that came, and those of which there was a result."""

    def __init__(self, every: int, least: int) -> None:
        self.every, self.least = every, least
        self.came: Objects = defaultdict(set)
        self.seen: Objects = defaultdict(set)

    def note(self, objects: Objects, rows: list[dict[str, Any]], time: str) -> None:
        for row in rows:
            if row["y"] > self.least:
                objects[row[time] // self.every].add((row["x"], row["k"]))

    def counted(self) -> tuple[int, int, int, int]:
        came = sum(map(len, self.came.values()))
        seen = sum(map(len, self.seen.values()))
        return len(self.came), came, seen, came - seen


def told(one: dict[str, Any]) -> tuple[int, int, int, int]:
    return one["periods"], one["objects"], one["covered"], one["missed"]


@pytest.mark.parametrize("seed", range(12))
def test_objects_are_counted_as_the_naive_twin_counts_them(seed: int) -> None:
    drawn = random.Random(seed)
    every, least = drawn.choice((37, 100, 250)), drawn.choice((15, 40))
    lifespan = drawn.choice(("", "LIFESPAN 300", "LIFESPAN 1500"))
    options = {
        "budget": drawn.choice((20, 90, 400, 100_000)),
        "allocation": drawn.choice(("promote", "prefer", "promote", "fifo", "random", "semantic")),
    }
    sql = SQL[drawn.choice(tuple(SQL))]
    made = session(40, **options)
    ranks = f"RANK 1 CRITERIA (y > 97) RANK 2 CRITERIA (y > {least}) COVER EVERY {every} BY a.x, a.k"
    query = made.query(f"{sql} {lifespan} {ranks}", name="q")
    twin = Twin(every, least)
    rows = steps(np.random.default_rng(seed), 12, drawn.choice((60, 200)), 40)
    for until, table in rows:
        twin.note(twin.came, table.to_pylist(), "ts")
        made.push("a", table)
        made.advance(until)
        twin.note(twin.seen, query.changes().to_pylist(), "at")
        (one,) = query.load["coverage"]
        assert one["missed"] + one["covered"] == one["objects"]
    made.drain()
    made.advance(10_000)
    twin.note(twin.seen, query.changes().to_pylist(), "at")
    (one,) = query.load["coverage"]
    assert told(one) == twin.counted(), f"{options} {sql} {lifespan} {ranks}"
    for period in one["recent"]:
        number = period["from"] // every
        assert period["objects"] == len(twin.came[number])
        assert period["covered"] == len(twin.seen[number])
    if not lifespan:
        assert one["missed"] == 0, "nothing is dropped"


@pytest.mark.parametrize("seed", range(6))
def test_criteria_may_read_tables(seed: int) -> None:
    """Rows are of the rank as tables are when they come: these change while rows wait, and the engine restarts."""
    drawn = random.Random(seed)
    every, least, worth = drawn.choice((50, 100)), drawn.choice((5, 40)), drawn.randrange(5, 25)
    allocation = drawn.choice(("promote", "prefer", "promote", "fifo"))
    made = session(40, budget=drawn.choice((40, 150, 400, 100_000)), allocation=allocation)
    lifespan = drawn.choice(("", "LIFESPAN 300", "LIFESPAN 1500"))
    plain = f"{SQL['joined'].replace(' AND a.y > 10', '')} {lifespan}"
    about = f"RANK 1 CRITERIA (v > {worth} AND y > {least}) COVER EVERY {every} BY a.x, a.k"
    later = drawn.random() < 0.5
    query = made.query(plain if later else f"{plain} {about}", name="q")
    worths = {f"o{n}": [(0, n)] for n in range(40)}

    def counts(row: dict[str, Any], at: str) -> bool:
        held = [v for since, v in worths[row["x"]] if since <= row[at]][-1]
        assert row.get("v", held) == held, "a result has met the table as it was"
        return row["y"] > least and held > worth

    came: Objects = defaultdict(set)
    seen: Objects = defaultdict(set)

    def note(objects: Objects, rows: list[dict[str, Any]], at: str) -> None:
        for row in rows:
            if row[at] >= (300 if later else 0) and counts(row, at):
                objects[row[at] // every].add((row["x"], row["k"]))

    for step, (until, table) in enumerate(steps(np.random.default_rng(seed), 8, 120, 40)):
        if step == 3 and later:
            made.execute(f"ALTER QUERY q SET {about}")
        for name in drawn.sample(sorted(worths), 3):
            old, new = worths[name][-1][1], drawn.randrange(40)
            at = until - 50
            made.update_table("t", insert=[{"x": name, "v": new}], delete=[{"x": name, "v": old}], at=at)
            worths[name].append((at, new))
        note(came, table.to_pylist(), "ts")
        made.push("a", table)
        made.advance(until)
        note(seen, query.changes().to_pylist(), "at")
        if drawn.random() < 0.3:
            root = made.engine.queries["q"].root
            made.engine = snapshot.restore(made.catalog, [("q", root, False)], snapshot.dump(made.engine))
            query._standing = made.engine.queries["q"]
    made.drain()
    made.advance(10_000)
    note(seen, query.changes().to_pylist(), "at")
    (one,) = query.load["coverage"]
    objects, covered = (sum(map(len, counted.values())) for counted in (came, seen))
    assert told(one) == (len(came), objects, covered, objects - covered), f"{plain} {about}"
    assert objects > 20


def missed(cover: str, budget: int, **options: Any) -> tuple[int, int]:
    """How many objects came, and how many were missed, by the twin."""
    made = session(150, budget=budget, **options)
    query = made.query(f"{SQL['joined']} LIFESPAN 1200 RANK 1 CRITERIA (y > 20) {cover}", name="q")
    twin = Twin(200, 20)
    for until, table in steps(np.random.default_rng(5), 20, 400, 150):
        twin.note(twin.came, table.to_pylist(), "ts")
        made.push("a", table)
        made.advance(until)
        twin.note(twin.seen, query.changes().to_pylist(), "at")
    made.drain()
    made.advance(10_000)
    twin.note(twin.seen, query.changes().to_pylist(), "at")
    if cover:
        assert told(query.load["coverage"][0]) == twin.counted()
    return twin.counted()[1], twin.counted()[3]


def test_with_capacity_for_every_object_none_is_missed() -> None:
    """A step brings 400 rows, about 60 new objects; a row takes about five units."""
    cover = "COVER EVERY 200 BY a.x, a.k"
    came, without = missed("", 500)
    assert without > came / 3
    assert missed(cover, 500) == (came, 0)
    came, some = missed(cover, 150)
    assert 0 < some < came, "there is not enough for all"
    assert some < missed("", 150)[1]


def test_a_row_that_meets_nobody_has_come_to_its_end() -> None:
    made = session(1, budget=30)
    query = made.query(
        f"{SQL['joined']} LIFESPAN 100000 RANK 1 CRITERIA (y > 0) COVER EVERY 100 BY a.x", name="q"
    )
    rows = {"ts": [1, 2, 3, 4], "x": ["o0", "nobody", None, "o0"], "k": [0, 0, 0, 99], "y": [50, 50, 50, 5]}
    made.push(
        "a",
        {name: values * 30 for name, values in rows.items() if name != "ts"}
        | {"ts": sorted(rows["ts"] * 30)},
    )
    made.advance(99)
    assert query.load["busy"]
    made.drain()
    made.advance(200)
    assert told(query.load["coverage"][0]) == (1, 3, 3, 0)


def test_others_take_the_place_of_a_row_that_is_dropped() -> None:
    """The first row of an object is too old when its turn comes; a later one is not."""
    made = session(5, budget=10, allocation="promote")
    query = made.query(f"{SQL['rows']} LIFESPAN 40 RANK 1 CRITERIA (y > 0) COVER EVERY 1000 BY x", name="q")
    for step in range(20):
        x = [f"o{n % 5}" for n in range(50)]
        rows = {"ts": [step * 10] * 50, "x": x, "k": [0] * 50, "y": [1] * 50}
        made.push("a", rows)
        made.advance(step * 10)
    made.drain()
    made.advance(2000)
    assert told(query.load["coverage"][0]) == (1, 5, 5, 0)
    assert query.load["ranks"][0]["expired"] > 500


def test_what_is_counted_survives_a_restart() -> None:
    def run(restarts: bool) -> tuple[dict[str, Any], int]:
        made = session(40, budget=100)
        query = made.query(
            f"{SQL['joined']} LIFESPAN 700 RANK 1 CRITERIA (y > 20) COVER EVERY 150 BY a.x, a.k", name="q"
        )
        said = 0
        for step, (until, table) in enumerate(steps(np.random.default_rng(9), 15, 150, 40)):
            made.push("a", table)
            made.advance(until)
            said += query.changes().num_rows
            if restarts and step % 4 == 2:
                root = made.engine.queries["q"].root
                made.engine = snapshot.restore(made.catalog, [("q", root, False)], snapshot.dump(made.engine))
                query._standing = made.engine.queries["q"]
        return query.load, said

    assert run(True) == run(False)


def test_another_cover_while_it_runs() -> None:
    made = session(40, budget=100)
    query = made.query(
        f"{SQL['rows']} LIFESPAN 700 RANK 1 CRITERIA (y > 20) COVER EVERY 100 BY a.x, a.k", name="q"
    )
    twin = Twin(50, 60)
    for step, (until, table) in enumerate(steps(np.random.default_rng(3), 12, 150, 40)):
        if step == 6:
            before = query.load["coverage"][0]["periods"]
            made.execute("ALTER QUERY q SET RANK 1 CRITERIA (y > 60) COVER EVERY 50 BY a.x, a.k")
        if step >= 6:
            twin.note(twin.came, table.to_pylist(), "ts")
        made.push("a", table)
        made.advance(until)
        changes = [row for row in query.changes().to_pylist() if row["at"] >= 600]
        twin.note(twin.seen, changes, "at")
    made.drain()
    made.advance(10_000)
    twin.note(twin.seen, [row for row in query.changes().to_pylist() if row["at"] >= 600], "at")
    assert before > 0
    assert told(query.load["coverage"][0]) == twin.counted(), "it counts rows that came after"
    assert query.ranks[0].cover is not None and query.ranks[0].cover.every == 50
    made.execute("ALTER QUERY q SET RANK 1 CRITERIA (y > 60)")
    assert "coverage" not in query.load


@pytest.mark.parametrize(
    ("clause", "kind", "message"),
    [
        (
            "CRITERIA (a.y > 1) COVER EVERY 10 BY t.x",
            BindError,
            "not a column of the stream that the criteria read",
        ),
        ("CRITERIA (a.y > b.y) COVER EVERY 10 BY a.x", PlanError, "read several inputs"),
        ("CRITERIA (t.v > 1) COVER EVERY 10 BY t.x", PlanError, "read a table"),
        ("CRITERIA (a.y > t.v) COVER EVERY 10 BY b.x", BindError, "not a column of the stream"),
        ("CRITERIA (a.y > 1) COVER EVERY 10 SECONDS BY a.x", BindError, "plain number"),
        ("CRITERIA (a.y > 1) COVER EVERY 0 BY a.x", BindError, "must be positive"),
        ("CRITERIA (a.y > 1) COVER EVERY 10 BY a.k + 1", BindError, "by columns"),
        ("CRITERIA (a.y > 1) COVER EVERY 10 BY a.z", BindError, "no column"),
        ("CRITERIA (a.y > 1) COVER BY a.x", ParseError, "EVERY after COVER"),
        ("CRITERIA (a.y > 1) COVER EVERY 10", ParseError, "BY and the columns"),
    ],
)
def test_what_cover_can_speak_of(clause: str, kind: type[Exception], message: str) -> None:
    made = session(1)
    with pytest.raises(kind, match=message) as raised:
        made.query(
            f"SELECT a.x FROM a [RANGE 5], a [RANGE 6] AS b, t WHERE a.x = t.x AND b.x = a.x RANK 1 {clause}"
        )
    assert raised.value.line == 1  # type: ignore[attr-defined]
    assert not isinstance(raised.value, StateError)


def test_explain_tells_what_is_covered() -> None:
    made = session(1, budget=10)
    text = "SELECT x FROM a [RANGE 5] RANK 1 CRITERIA (TRUE) COVER EVERY 10 BY x"
    assert "rank 1 covers every x once in 10" in made.query(text).explain()
    assert "rank 1 covers every x once in 10" in made.execute(f"EXPLAIN {text}")[0]
    assert "x, k once in 10" in made.execute(f"EXPLAIN {text}, k")[0]


def test_tables_that_only_another_stream_meets() -> None:
    """Which of their rows belong to a row of the stream is not known when it comes."""
    made = session(1, budget=10)
    text = "SELECT a.x FROM a [RANGE 5], a [RANGE 6] AS b, t WHERE a.k = b.k AND b.x = t.x RANK 1 CRITERIA (t.v > a.y)"
    with pytest.raises(PlanError, match="cannot tell which rows of t"):
        made.query(f"{text} COVER EVERY 10 BY a.x")
    assert not made.queries
    assert made.query(text).load["waiting"] == 0
