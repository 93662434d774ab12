"""Cells as a session sees them: what one case after the other shows better than drawn ones."""

from __future__ import annotations

from typing import Any

import pytest

import penstock
from penstock.plan.policies import Policies
from penstock.testing.local_cells import Cells

COUNT = 4


@pytest.fixture
def session() -> Any:
    made = penstock.connect()
    made.engine = Cells(made.catalog, COUNT)
    for name in "ab":
        made.execute(f"CREATE STREAM {name} (ts BIGINT, x INT, s STRING) WATERMARK ts DELAY OF 0")
    return made


def row(ts: int, x: int, s: str = "") -> dict[str, Any]:
    return {"ts": ts, "x": x, "s": s}


def said(query: Any) -> list[tuple[Any, ...]]:
    return [tuple(r.values()) for r in query.changes().to_pylist()]


def cell_of(session: Any, query: str, x: int) -> int:
    """The cell in which a row of a with this x is."""
    (one,) = (i for i in session.engine.queries[query].stages.upper.inputs if i.stream.name == "a")
    router = session.engine.lower.routers[one]
    columns = session._read([row(0, x)], one.stream.schema)
    ((cell, _),) = router.route(columns, 1)
    return cell


def test_what_goes_in_one_cell_and_comes_in_another_is_no_news(session: Any) -> None:
    """Two rows look alike; at 3 the one that was ruled out comes back, and the other is ruled out."""
    q = session.query(
        "SELECT a.s FROM a [RANGE 10] WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 2] WHERE b.x = a.x)", name="q"
    )
    other = next(x for x in range(2, 50) if cell_of(session, "q", x) != cell_of(session, "q", 1))
    session.push("a", [row(1, 1, "u"), row(1, other, "u")])
    session.push("b", [row(1, other), row(3, 1)])
    session.advance(4)
    assert said(q) == [("+", 1, 11, "u")]
    assert q.snapshot().to_pylist() == [{"s": "u"}]
    session.advance(5)
    assert said(q) == [("+", 5, 11, "u")]


def test_changes_of_several_cells_come_in_time_order(session: Any) -> None:
    q = session.query("SELECT x FROM a [RANGE 5] EXCEPT SELECT x FROM b [RANGE 1]")
    session.push("a", [row(t, t) for t in range(40)])
    session.push("b", [row(t, t - 3) for t in range(3, 40)])
    session.advance(60)
    changes = said(q)
    assert {op for op, *_ in changes} == {"+", "-"}
    assert [(ts, op == "+") for op, ts, *_ in changes] == sorted((ts, op == "+") for op, ts, *_ in changes)


def test_a_query_begins_with_rows_that_wait_and_ends_when_dropped(session: Any) -> None:
    engine = session.engine
    one = session.query("SELECT x, COUNT(*) AS n FROM a [RANGE 5] GROUP BY x", name="one")
    session.query("SELECT x FROM b", name="slow")  # b holds the clock back
    session.push("a", [row(1, 1), row(2, 2)])
    two = session.query("SELECT DISTINCT x FROM a [RANGE 9]", name="two")
    assert engine.queries["two"].stages.upper.inputs == engine.queries["one"].stages.upper.inputs
    session.advance(2)
    assert sorted(said(one)) == [("+", 1, 6, 1, 1), ("+", 2, 7, 2, 1)]
    assert sorted(said(two)) == [("+", 1, 10, 1), ("+", 2, 11, 2)]
    one.drop()
    session.push("a", [row(3, 3)])
    session.advance(3)
    assert said(two) == [("+", 3, 12, 3)]
    two.drop()
    session.drop("slow")
    assert [len(e.sources) for e in engine.engines] == [0] * 2 * COUNT
    three = session.query("SELECT DISTINCT x FROM a [RANGE 9]")
    session.push("a", [row(2, 4), row(4, 4)])
    session.advance(4)
    assert said(three) == [("+", 4, 13, 4)]
    assert session.late("a").to_pylist() == [row(2, 4)]


@pytest.mark.parametrize(
    "predicate", ["i.v = l.v AND l.v = d.v", "i.v = d.v AND d.v = l.v", "d.v = f.v AND f.v = i.v"]
)
def test_numbers_of_different_types_meet(predicate: str) -> None:
    kinds = {"i": "INT", "l": "BIGINT", "d": "DOUBLE", "f": "FLOAT"}
    values = {
        "i": [0, 1, -1, 2**24 + 1, None, 7],
        "l": [0, 1, -1, 2**53, 2**53 + 1, 2**24 + 1, None],
        "d": [0.0, -0.0, 1.0, -1.0, 2.0**53, float("nan"), 2.0**24 + 1, 0.5, None],
        "f": [0.0, -0.0, 1.0, -1.0, 2.0**24, float("nan"), 0.5, None],
    }
    names = [n for n in kinds if f"{n}.v" in predicate]
    text = f"SELECT {', '.join(f'{n}.v AS {n}' for n in names)} FROM {', '.join(f'{n} [RANGE 9]' for n in names)} WHERE {predicate}"
    answers = []
    for cells in (None, 2, 5):
        session = penstock.connect()
        if cells is not None:
            session.engine = Cells(session.catalog, cells)
        for n in names:
            session.execute(f"CREATE STREAM {n} (ts BIGINT, v {kinds[n]}) WATERMARK ts DELAY OF 0")
        query = session.query(text, name="q")
        if cells is not None:
            assert session.engine.queries["q"].stages.upper.copies == 1
        for n in names:
            session.push(n, [{"ts": 1, "v": v} for v in values[n]])
        session.advance(1)
        answers.append(sorted(said(query)))
    assert len(answers[0]) > 2
    assert answers[0] == answers[1] == answers[2]


def test_one_cell_fails_and_the_query_says_so(session: Any) -> None:
    def inverse(x: int) -> float:
        return 1 / x

    session.create_function("inverse", inverse, returns="DOUBLE")
    bad = session.query("SELECT inverse(x) AS i FROM a", name="bad", keep=True)
    good = session.query("SELECT x FROM a WHERE x <> 0 AND inverse(x) < 0.5", name="good")
    with pytest.raises(penstock.DataError, match="inverse"):
        session.push("a", [row(t, t % 5) for t in range(20)])
    session.advance(30)
    assert len(said(good)) == 8
    with pytest.raises(penstock.StateError, match="query bad stopped"):
        bad.snapshot()


def test_an_update_that_does_not_fit_changes_nothing_anywhere(session: Any) -> None:
    session.create_table("t", [{"x": 1, "name": "one"}])
    q = session.query("SELECT a.ts, t.name FROM a [RANGE 5], t WHERE a.x = t.x")
    with pytest.raises(penstock.DataError, match="not in the table"):
        session.update_table("t", insert=[{"x": 2, "name": "two"}], delete=[{"x": 3, "name": "three"}])
    session.update_table("t", insert=[{"x": 3, "name": "drei"}])
    session.push("a", [row(t, t) for t in range(1, 6)])
    session.advance(9)
    assert said(q) == [("+", 1, 6, 1, "one"), ("+", 3, 8, 3, "drei")]


# ------------------------------------------------------------------ two stages

COUNTS = "SELECT b.s, COUNT(*) AS n FROM a [RANGE 10], b [RANGE 5] WHERE a.x = b.x GROUP BY b.s"
GROUPS = "SELECT n, COUNT(*) AS m FROM (SELECT x, COUNT(*) AS n FROM a [RANGE 5] GROUP BY x) AS g GROUP BY n"


def test_what_the_first_stage_says_in_several_cells_meets_in_the_second(session: Any) -> None:
    q = session.query(COUNTS, name="q")
    assert session.engine.queries["q"].stages.lower
    session.push("a", [row(1, x) for x in range(20)])
    session.push("b", [row(2, x, "uv"[x % 2]) for x in range(20)])
    session.advance(2)
    used = [
        standing for _, standing in session.engine.queries["q"].parts[0].running if standing.answer.matched
    ]
    assert len(used) > 1
    assert sorted(said(q)) == [("+", 2, 7, "u", 10), ("+", 2, 7, "v", 10)]
    session.push("b", [row(6, 3, "u")])
    session.advance(9)
    assert sorted(said(q)) == [("+", 6, 7, "u", 11), ("+", 7, 11, "u", 1)]
    assert q.snapshot().to_pylist() == [{"s": "u", "n": 1}]


def test_a_replaced_group_leaves_the_cell_it_was_counted_in(session: Any) -> None:
    """Groups of one row become groups of two: their count moves from the cell of 1 to that of 2."""
    q = session.query(GROUPS, name="q")
    assert session.engine.queries["q"].stages.upper.is_spread
    session.push("a", [row(1, x) for x in range(9)])
    session.advance(1)
    assert said(q) == [("+", 1, 6, 1, 9)]
    session.push("a", [row(2, x) for x in range(9)])
    session.advance(2)
    assert said(q) == [("-", 2, 6, 1, 9), ("+", 2, 6, 2, 9)]
    session.advance(6)
    assert said(q) == [("+", 6, 7, 1, 9)]


def test_what_goes_and_comes_in_one_instant_crosses(session: Any) -> None:
    """At 5 the row until 11 goes with one partner and comes back with another. DISTINCT, which showed it, takes the chance to show
    the row that lives longest; had the two cancelled on the way it would not."""
    whole = penstock.connect()
    for name in "ab":
        whole.execute(f"CREATE STREAM {name} (ts BIGINT, x INT, s STRING) WATERMARK ts DELAY OF 0")
    answers = []
    for made in (whole, session):
        q = made.query(
            "SELECT DISTINCT a.s FROM a [RANGE 10], b [PARTITION BY x ROWS 1] WHERE a.x = b.x", name="q"
        )
        made.push("a", [row(1, 1, "u"), row(5, 1, "u")])
        made.push("b", [row(1, 1), row(5, 1)])
        made.advance(9)
        answers.append(said(q))
    assert session.engine.queries["q"].stages.lower
    assert answers[0] == answers[1] == [("+", 1, 11, "u"), ("-", 5, 11, "u"), ("+", 5, 15, "u")]


def test_a_query_of_two_stages_begins_late_and_ends_when_dropped(session: Any) -> None:
    engine = session.engine
    session.push("a", [row(1, 1)])
    session.push("b", [row(1, 1, "u")])
    session.advance(1)
    q = session.query(COUNTS, name="q")
    assert q.snapshot().to_pylist() == []
    session.push("a", [row(2, 2)])
    session.push("b", [row(2, 2, "u"), row(2, 1, "u")])
    session.advance(2)
    assert said(q) == [("+", 2, 7, "u", 1)]
    q.drop()
    assert [len(e.sources) + len(e.queries) for e in engine.engines] == [0] * 2 * COUNT
    again = session.query(COUNTS, name="q")
    session.push("b", [row(3, 2, "u")])
    session.push("a", [row(3, 2)])
    session.advance(3)
    assert said(again) == [("+", 3, 8, "u", 1)]


def test_an_error_in_the_first_stage_stops_the_query_and_no_other(session: Any) -> None:
    session.create_function("inverse", lambda x: 1 / x, returns="DOUBLE")
    bad = session.query(
        "SELECT b.s, SUM(inverse(g.n)) AS i FROM b [RANGE 5], (SELECT x, MAX(inverse(x)) AS n FROM a [RANGE 5] GROUP BY x) AS g"
        " WHERE b.x = g.x GROUP BY b.s",
        name="bad",
    )
    good = session.query(COUNTS, name="good")
    assert session.engine.queries["bad"].stages.lower
    session.push("a", [row(1, 0), row(1, 1)])
    session.push("b", [row(1, 1, "u")])
    with pytest.raises(penstock.DataError, match="inverse"):
        session.advance(2)
    assert said(good) == [("+", 1, 6, "u", 1)]
    with pytest.raises(penstock.StateError, match="query bad@1 stopped"):
        bad.snapshot()


def test_a_part_above_reads_streams_and_tables_of_its_own(session: Any) -> None:
    whole = penstock.connect()
    for name in "ab":
        whole.execute(f"CREATE STREAM {name} (ts BIGINT, x INT, s STRING) WATERMARK ts DELAY OF 0")
    answers = []
    for made in (whole, session):
        made.create_table("t", [{"s": "u", "name": "one"}], retroactive=True)
        q = made.query(
            "SELECT g.n, t.name FROM (SELECT b.s, COUNT(*) AS n FROM a [RANGE 9], b [RANGE 9] WHERE a.x = b.x GROUP BY b.s) AS g,"
            " t WHERE g.s = t.s EXCEPT SELECT x, s FROM a [RANGE 2]",
            name="q",
        )
        made.push("a", [row(1, 1)])
        made.push("b", [row(1, 1, "u")])
        made.advance(1)
        made.push("a", [row(2, 2, "one")])
        made.update_table("t", insert=[{"s": "u", "name": "eins"}])
        made.push("b", [row(3, 5, "u"), row(3, 1, "u")])
        made.advance(20)
        answers.append(sorted(said(q)))
    placed = session.engine.queries["q"].stages
    assert {i.stream.name for i in placed.upper.inputs} == {"q@1", "a"}
    assert answers[0] == answers[1]
    assert {("-", 3, 10, 1, "one"), ("+", 2, 10, 1, "eins"), ("+", 4, 10, 2, "one")} < set(answers[0])


@pytest.mark.parametrize(
    "policies",
    [
        Policies(),
        Policies(share=False),
        Policies(join="eddy", routing="tickets", seed=7),
        Policies(join="mjoin", routing="worst"),
    ],
)
def test_cells_go_by_the_policies_of_the_session(policies: Policies) -> None:
    """A join is with others, or by itself; rows are routed, or nobody shares them."""
    made = penstock.connect()
    made.engine = Cells(made.catalog, COUNT, policies=policies)
    for name in "ab":
        made.execute(f"CREATE STREAM {name} (ts BIGINT, x INT, s STRING) WATERMARK ts DELAY OF 0")
    q = made.query("SELECT a.x FROM a [RANGE 5], b [RANGE 5] WHERE a.x = b.x")
    few = made.query("SELECT x FROM a WHERE x > 2")
    for name in "ab":
        made.push(name, [row(t, t) for t in range(9)])
    made.advance(20)
    assert sorted(said(q)) == [("+", t, t + 5, t) for t in range(9)]
    assert len(said(few)) == 6
    for engine in made.engine.lower.engines:
        assert engine.policies == policies
        if not policies.share:
            assert engine.sharing is None
            continue
        assert bool(engine.sharing.joins) == (policies.join == "eddy")
        for current in engine.sharing.currents.values():
            assert current.eddy._cheap._name == policies.routing
