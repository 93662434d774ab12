"""Where the published algorithm loses answers, and other cases worth a name."""

from __future__ import annotations

from typing import Any

import penstock
from penstock.api.query import Query
from penstock.api.session import Session
from tests.demand.test_equal import joins

CLIQUE = """
CREATE STREAM a (ts BIGINT, b INT, c INT, d INT) WATERMARK ts DELAY OF INTERVAL 0;
CREATE STREAM b (ts BIGINT, a INT, c INT, d INT) WATERMARK ts DELAY OF INTERVAL 0;
CREATE STREAM c (ts BIGINT, a INT, b INT, d INT) WATERMARK ts DELAY OF INTERVAL 0;
CREATE STREAM d (ts BIGINT, a INT, b INT, c INT) WATERMARK ts DELAY OF INTERVAL 0
"""
ALL = """SELECT a.ts AS a, b.ts AS b, c.ts AS c, d.ts AS d FROM a [RANGE 100], b [RANGE 100], c [RANGE 100], d [RANGE 100]
WHERE a.b = b.a AND a.c = c.a AND a.d = d.a AND b.c = c.b AND b.d = d.b AND c.d = d.c"""


def opened(ddl: str, query: str, **options: Any) -> tuple[Session, Query]:
    session = penstock.connect(join="tree", **options)
    session.execute(ddl)
    return session, session.query(query)


def test_two_that_wait_for_each_other_s_sides_are_found() -> None:
    """On (a ⋈ b) ⋈ (c ⋈ d): a1 finds no c, d2 no b; then c3 and b4 come, and all agree."""
    session, query = opened(CLIQUE, ALL, tree="bushy", demand="jit")
    session.push("a", [{"ts": 1, "b": 1, "c": 1, "d": 1}])
    session.push("d", [{"ts": 2, "a": 1, "b": 1, "c": 1}])
    session.push("c", [{"ts": 3, "a": 1, "b": 1, "d": 1}])
    session.push("b", [{"ts": 4, "a": 1, "c": 1, "d": 1}])
    session.advance(4)
    assert query.changes().to_pylist() == [
        {"__op": "+", "__ts": 4, "__exp": 101, "a": 1, "b": 4, "c": 3, "d": 2}
    ]
    (join,) = joins(session)
    counted = join.counted()
    assert (counted["suspended"], counted["woken"]) == (3, 3)


TABLE_I = """
CREATE STREAM a (ts BIGINT, x INT, y INT) WATERMARK ts DELAY OF INTERVAL 0;
CREATE STREAM b (ts BIGINT, x INT, n INT) WATERMARK ts DELAY OF INTERVAL 0;
CREATE STREAM c (ts BIGINT, y INT) WATERMARK ts DELAY OF INTERVAL 0
"""
FIGURE_1 = (
    "SELECT a.ts AS a, b.n AS b FROM a [RANGE 9], b [RANGE 9], c [RANGE 9] WHERE a.x = b.x AND a.y = c.y"
)


def test_the_paper_s_example() -> None:
    """Table I: without a c for them, no a is joined; c1 takes both up, and each meets every b once."""
    made = {}
    for demand in ("off", "jit"):
        session, query = opened(TABLE_I, FIGURE_1, demand=demand)
        session.push("b", [{"ts": 0, "x": 1, "n": n} for n in (1, 2, 3)])
        session.push("a", [{"ts": 1, "x": 1, "y": 100}])
        session.push("b", [{"ts": 2, "x": 1, "n": 4}])
        session.push("a", [{"ts": 3, "x": 1, "y": 100}])
        session.advance(3)
        (join,) = joins(session)
        made[demand] = join.counted()["made"]
        if demand == "jit":
            # Before the first c nothing at all is wanted: also the rows of b are set aside.
            assert join.counted()["blacklist"] == 6
        session.push("c", [{"ts": 4, "y": 100}])
        session.advance(4)
        told = [(c["a"], c["b"]) for c in query.changes().to_pylist()]
        assert sorted(told) == [(1, 1), (1, 2), (1, 3), (1, 4), (3, 1), (3, 2), (3, 3), (3, 4)]
        assert join.counted()["blacklist"] == 0
    assert made == {"off": 8, "jit": 0}


def test_keys_that_collide_are_told_apart() -> None:
    """Keys toward the sibling are sums of products: here two are equal and their words are not. The words decide."""
    for demand in ("off", "jit"):
        session, query = opened(
            CLIQUE.replace(" INT,", " BIGINT,").replace(" INT)", " BIGINT)"), ALL, tree="bushy", demand=demand
        )
        (join,) = joins(session)
        factors = {(s.left, s.right): s.factor for s in join._layout.same}
        to_c, to_d = factors[0, 2], factors[0, 3]
        session.push("a", [{"ts": 1, "b": 1, "c": to_d, "d": 0}])
        session.push("b", [{"ts": 1, "a": 1, "c": 1, "d": 1}])
        session.push("c", [{"ts": 1, "a": 0, "b": 1, "d": 1}, {"ts": 1, "a": to_d, "b": 1, "d": 1}])
        session.push("d", [{"ts": 1, "a": to_c, "b": 1, "c": 1}])
        session.advance(1)
        assert len(query.changes()) == 0
        session.push("d", [{"ts": 2, "a": 0, "b": 1, "c": 1}])
        session.advance(2)
        assert len(query.changes()) == 1


def test_inputs_compared_by_many_columns() -> None:
    """More equalities between two inputs than the tree has nodes."""
    columns = [f"k{n}" for n in range(12)]
    ddl = ";".join(
        f"CREATE STREAM {name} (ts BIGINT, {', '.join(f'{c} INT' for c in columns)}) WATERMARK ts DELAY OF INTERVAL 0"
        for name in "abc"
    )
    equal = [f"{x}.{c} = {y}.{c}" for x, y in ("ab", "bc", "ac") for c in columns]
    query = f"SELECT a.ts AS a, b.ts AS b, c.ts AS c FROM a [RANGE 9], b [RANGE 9], c [RANGE 9] WHERE {' AND '.join(equal)}"
    for demand in ("off", "doe", "jit"):
        session, found = opened(ddl, query, demand=demand)
        for ts, name in enumerate("abcabc"):
            rows = [
                {"ts": ts, **dict.fromkeys(columns, 1)},
                {"ts": ts, **dict.fromkeys(columns, 1), "k11": ts},
            ]
            session.push(name, rows)
        session.advance(6)
        plain = penstock.connect(join="mjoin")
        plain.execute(ddl)
        other = plain.query(query)
        for ts, name in enumerate("abcabc"):
            rows = [
                {"ts": ts, **dict.fromkeys(columns, 1)},
                {"ts": ts, **dict.fromkeys(columns, 1), "k11": ts},
            ]
            plain.push(name, rows)
        plain.advance(6)
        told = sorted(map(str, found.changes().to_pylist()))
        assert told == sorted(map(str, other.changes().to_pylist()))
        assert len(told) > 8


def test_a_row_without_a_partner_in_a_table_never_enters() -> None:
    """A stream that is joined with a table in a subquery is an input like others: what the table denies makes nothing."""
    query = """SELECT d.ts AS a, b.n AS b FROM (SELECT a.ts AS ts, a.x AS x, a.y AS y FROM a [RANGE 9], t WHERE a.y = t.y) AS d,
    b [RANGE 9], c [RANGE 9] WHERE d.x = b.x AND d.y = c.y"""
    for demand in ("off", "jit"):
        session, found = opened(f"{TABLE_I}; CREATE TABLE t (y INT)", query, demand=demand)
        session.update_table("t", insert=[{"y": 7}])
        session.push("b", [{"ts": 0, "x": 1, "n": 1}])
        session.push("a", [{"ts": 1, "x": 1, "y": y} for y in (5, 6, 7)])
        session.push("c", [{"ts": 2, "y": y} for y in (5, 6, 7)])
        session.advance(3)
        (join,) = joins(session)
        assert {h.what: h.rows for h in join.holdings()}["input 1"] == 1
        assert join.counted()["made"] == 1
        assert [(row["a"], row["b"]) for row in found.changes().to_pylist()] == [(1, 1)]


def test_counters_are_shown() -> None:
    session, query = opened(TABLE_I, FIGURE_1, demand="jit")
    session.push("a", [{"ts": 1, "x": 1, "y": 100}])
    session.advance(1)
    assert "rows set aside: 1, blacklist" in query.explain()
    (join,) = joins(session)
    held = {holding.what: holding.rows for holding in join.holdings()}
    assert held["rows set aside"] == 1
    assert held["keys that are waited for"] == 1
    assert held["partial results of inputs 1, 2"] == 0
