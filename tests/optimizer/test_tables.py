"""A join with a plain table above a negation: it runs with the negation pulled up, and the oracles agree with it.

They look the table up as of the arrival of the row that is joined. That is also what the query says if it is written in
one SELECT, where the table is joined below the negation in the first place.
"""

from __future__ import annotations

import random

import pytest

import penstock
from tests.oracle import schema as schemas
from tests.oracle import streams
from tests.oracle.algebra import Anti, Select, Source, StreamSource, SubSource, TableSource, Window
from tests.oracle.case import Case
from tests.oracle.check import check_case
from tests.oracle.drawn import Drawn
from tests.oracle.scalar import Call, Col, Expr

AB = ";".join(f"CREATE STREAM {s} (ts BIGINT, k INT) WATERMARK ts DELAY OF INTERVAL 0" for s in "ab")
APART = """SELECT q.k, n.v FROM (SELECT k FROM a [RANGE 20] WHERE NOT EXISTS
           (SELECT 1 FROM b [RANGE 3] WHERE b.k = a.k)) AS q, n WHERE n.k = q.k"""
COMPUTED = """SELECT q.k - 1 AS k, n.v FROM (SELECT k + 1 AS k FROM a [RANGE 20] LEFT ANTI JOIN b [RANGE 3]
              ON b.k = a.k) AS q, n WHERE n.k = q.k - 1"""
TOGETHER = """SELECT a.k, n.v FROM a [RANGE 20], n
              WHERE n.k = a.k AND NOT EXISTS (SELECT 1 FROM b [RANGE 3] WHERE b.k = a.k)"""


@pytest.mark.parametrize("sql", [APART, COMPUTED, TOGETHER])
def test_a_row_shown_again_is_looked_up_as_of_its_arrival(sql: str) -> None:
    play = Drawn(AB)
    play.table("n", (("k", "INT"), ("v", "INT")), [(1, 10)])
    play.query(sql)
    assert play.pattern == "STRICT"
    play.push("a", (1, 1))
    play.push("b", (2, 1))
    play.advance(3)
    play.update("n", insert=[(1, 99)], delete=[(1, 10)])
    play.advance(8)
    play.sends(("+", 1, 21, 1, 10), ("-", 2, 21, 1, 10), ("+", 5, 21, 1, 10))


def test_below_other_strict_inputs_there_is_no_such_plan() -> None:
    session = penstock.connect()
    session.execute(AB + "; CREATE TABLE n (k INT, v INT)")
    for inner in (
        "SELECT k FROM a [RANGE 5] EXCEPT ALL SELECT k FROM b [RANGE 5]",
        "SELECT k, COUNT(*) AS c FROM a [RANGE 5] GROUP BY k",
        "SELECT DISTINCT k FROM a [RANGE 5] WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 3] WHERE b.k = a.k)",
    ):
        with pytest.raises(penstock.PlanError, match="STRICT input"):
            session.query(f"SELECT n.v FROM ({inner}) AS q, n WHERE n.k = q.k")


@pytest.mark.parametrize("seed", range(60))
def test_oracles_agree(seed: int) -> None:
    rng = random.Random(f"tables {seed}")
    columns = (("ts", "TIME"), ("k", "INT"), ("x", "INT"))
    table = schemas.Table("n", (("k", "INT"), ("x", "INT")), False, ((1, 5), (2, 6)))
    drawn = schemas.Schema(tuple(schemas.Stream(s, columns) for s in "abc"), (table,))
    query = over_table(rng)
    events = streams.make(rng, drawn, (query,), 60, frozenset({"advance"}))
    assert check_case(Case(seed, drawn, (query,), events)).comparisons > 0


def over_table(rng: random.Random) -> Select:
    """Rows without a match, and perhaps those of another stream, beside a table."""
    windows = [Window("range", n) for n in (2, 5, 13, 20)] + [Window("range", 13, 5), Window("unbounded")]
    right = StreamSource("b", "r", Window("range", rng.choice((1, 3, 8))))
    matched = [equal("l", "k", "r", "k")]
    if rng.random() < 0.3:
        matched.append(Call("<", (Col("l", "x", "INT"), Col("r", "x", "INT")), "BOOLEAN"))
    inner = Select(
        (Col("l", "k", "INT"), Col("l", "x", "INT")),
        (StreamSource("a", "l", rng.choice(windows)),),
        anti=Anti(right, tuple(matched), rng.choice(("not exists", "anti join"))),
    )
    sources: list[Source] = [SubSource(inner, "q"), TableSource("n", "n", False)]
    where: list[Expr] = [equal("q", "c0", "n", "k")]
    if rng.random() < 0.4:
        sources.insert(rng.randint(0, 2), StreamSource("c", "c", Window("range", rng.choice((2, 5)))))
        where.append(equal("c", "k", "q", "c0"))
    items = (Col("q", "c0", "INT"), Col("q", "c1", "INT"), Col("n", "x", "INT"))
    return Select(items, tuple(sources), (None,) * (len(sources) - 1), tuple(where))


def equal(one: str, its: str, other: str, their: str) -> Expr:
    return Call("=", (Col(one, its, "INT"), Col(other, their, "INT")), "BOOLEAN")
