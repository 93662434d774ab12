"""Rows wait once for all queries that keep no state, and are handed over when somebody asks."""

from __future__ import annotations

from collections import Counter
from typing import Any

import penstock
from penstock.api.query import Query
from penstock.api.session import Session
from penstock.sharing.deferred_output import HOT, Waiting
from penstock.types.sizes import DEFAULT

MANY = DEFAULT.waiting_batches

AB = "SELECT l.s, r.y FROM a [RANGE 3] AS l, b [RANGE 3] AS r WHERE l.x = r.x"


def session(**options: Any) -> Session:
    made = penstock.connect(**options)
    for name in "ab":
        made.execute(f"CREATE STREAM {name} (ts BIGINT, x INT, y INT, s STRING) WATERMARK ts DELAY OF 0")
    return made


def waiting(of: Session, stream: str = "a") -> Waiting:
    assert of.engine.sharing is not None
    return of.engine.sharing.currents[stream].waiting


def step(of: Session, ts: int, a: int = 10, b: int = 0) -> None:
    """A chunk of so many rows of each stream: x goes from 0 up."""
    for name, rows in (("a", a), ("b", b)):
        of.push(name, [{"ts": ts, "x": k, "y": ts, "s": f"{ts} {k}"} for k in range(rows)])
    of.advance(ts)


def values(query: Query, column: str = "x") -> list[Any]:
    return query.changes().column(column).to_pylist()


def test_rows_are_kept_once_for_all_and_handed_over_to_who_asks() -> None:
    s = session()
    low, high, every = (
        s.query(f"SELECT x FROM a [RANGE 5]{w}") for w in (" WHERE x < 3", " WHERE x > 7", "")
    )
    none = s.query("SELECT x FROM a WHERE x > 100")
    step(s, 1)
    step(s, 2)
    assert waiting(s).rows == 20
    assert values(low) == [0, 1, 2] * 2
    assert values(low) == []
    step(s, 3)
    assert values(low) == [0, 1, 2]
    assert values(high) == [8, 9] * 3
    assert waiting(s).rows == 30, "one has not been asked yet"
    assert values(every) == [*range(10)] * 3
    assert values(none) == []
    assert waiting(s).rows == 0, "everybody has them"


def test_rows_that_nobody_wants_do_not_wait() -> None:
    s = session()
    s.query("SELECT x FROM a WHERE x < 2")
    step(s, 1, 100)
    assert waiting(s).rows == 2
    (chunk,) = waiting(s)._chunks
    assert len(chunk.batch) == 2, "they are the minority: the others are let go of"
    step(s, 2, 3)
    assert [len(chunk.batch) for chunk in waiting(s)._chunks] == [2, 3]


def test_matched_counts_without_handing_over() -> None:
    s = session(join="eddy")
    query, joined = s.query("SELECT x FROM a [RANGE 5] WHERE x < 3"), s.query(AB)
    step(s, 1, b=4)
    step(s, 2)
    assert (query.matched, joined.matched) == (6, 8)
    assert waiting(s).rows > 0, "nobody has been handed anything"
    assert (len(values(query)), len(values(joined, "y"))) == (6, 8)
    assert (query.matched, joined.matched) == (6, 8), "also afterwards"
    step(s, 3)
    assert (query.matched, joined.matched) == (9, 12)
    assert query.snapshot().num_rows == 9


def test_a_query_that_comes_later_is_owed_nothing_of_before() -> None:
    s = session()
    first = s.query("SELECT x, y FROM a WHERE x < 2")
    step(s, 1)
    second = s.query("SELECT x, y FROM a WHERE x < 2")
    assert second.matched == 0
    step(s, 2)
    assert values(second, "y") == [2, 2]
    assert values(first, "y") == [1, 1, 2, 2]
    assert waiting(s).rows == 0


def test_a_bit_that_is_given_out_again_gets_no_rows_that_wait() -> None:
    s = session()
    stays, goes = s.query("SELECT x FROM a WHERE x = 1"), s.query("SELECT x FROM a WHERE x > 4")
    step(s, 1)
    goes.drop()
    comes = s.query("SELECT x, y FROM a WHERE x > 4")
    step(s, 2)
    assert values(comes, "y") == [2] * 5
    assert values(stays) == [1, 1]
    assert waiting(s).rows == 0


def test_whoever_is_dropped_holds_nobody_up() -> None:
    s = session(join="eddy")
    asked, never = s.query("SELECT x FROM a WHERE x = 1"), s.query("SELECT x FROM a")
    joins = [s.query(AB), s.query(AB + " AND l.y > 0")]
    for ts in (1, 2):
        step(s, ts, b=4)
    assert s.engine.sharing is not None
    (tuples,) = s.engine.sharing.tuples.values()
    assert values(asked) == [1, 1]
    held = tuples.rows
    assert waiting(s).rows == 20 and held == 4 * 4
    assert len(values(joins[0], "y")) == held
    never.drop()
    joins[1].drop()
    assert waiting(s).rows == 0 and tuples.rows == 0
    step(s, 3)
    assert values(asked) == [1]


def test_few_rows_that_hold_many_up_are_handed_over_unasked() -> None:
    s = session()
    seldom, often = s.query("SELECT x FROM a WHERE x = 5"), s.query("SELECT x FROM a")
    for ts in range(3 * MANY):
        step(s, ts)
        assert values(often) == [*range(10)]
    assert waiting(s).rows <= 10 * (2 * MANY + 1), "a row in ten is cheaper handed over than ten kept"
    assert seldom.matched == 3 * MANY
    assert values(seldom) == [5] * 3 * MANY


def test_rows_that_are_wanted_wait_as_long_as_nobody_asks() -> None:
    """To hand over all that is kept would only keep it twice."""
    s = session()
    queries = [s.query(f"SELECT x FROM a WHERE x < {n}") for n in (9, 8, 7)]
    for ts in range(2 * MANY):
        step(s, ts)
    assert len(waiting(s)._chunks) == 2 * MANY
    assert [len(values(q)) for q in queries] == [2 * MANY * n for n in (9, 8, 7)]
    assert waiting(s).rows == 0


def test_who_wants_which_is_kept_while_somebody_asks_and_found_out_again_otherwise() -> None:
    s = session()
    one, other = s.query("SELECT x FROM a WHERE x < 2"), s.query("SELECT x FROM a WHERE x > 6")
    step(s, 1)
    (chunk,) = waiting(s)._chunks
    assert chunk._found is None, "nobody has asked yet"
    assert values(one) == [0, 1]
    step(s, 2)
    assert waiting(s)._chunks[-1]._found is not None
    for ts in range(3, 3 + HOT):
        step(s, ts)
    assert waiting(s)._chunks[-1]._found is None
    visits = s.engine.sharing.currents["a"].eddy.visits if s.engine.sharing else 0
    assert values(one) == [0, 1] * (1 + HOT)
    assert values(other) == [7, 8, 9] * (2 + HOT)
    assert s.engine.sharing is not None
    assert s.engine.sharing.currents["a"].eddy.visits == visits, "a row counts once"


def test_functions_are_called_once_for_a_row() -> None:
    s, seen = session(), Counter[int]()

    def noted(x: int) -> bool:
        seen[x] += 1
        return x % 2 == 0

    s.create_function("noted", noted, "BOOLEAN")
    query = s.query("SELECT x FROM a WHERE noted(x)")
    for ts in range(2 * HOT):
        step(s, ts, 4)
    assert values(query) == [0, 2] * 2 * HOT
    assert seen == dict.fromkeys(range(4), 2 * HOT)


def test_strings_survive_while_rows_wait() -> None:
    s = session()
    query = s.query("SELECT s FROM a WHERE x = 1")
    step(s, 1)
    step(s, 9)
    for ts in range(10, 20):
        s.push("b", [{"ts": ts, "x": 0, "y": 0, "s": f"passing {ts} {k}"} for k in range(2000)])
        s.query("SELECT DISTINCT s FROM b [NOW]", name=f"passing{ts}")
        s.advance(ts)
        s.drop(f"passing{ts}")
    assert len(s.engine.strings) < 10_000, "20,000 have passed"
    assert values(query, "s") == ["1 1", "9 1"]


def test_strings_survive_while_results_wait() -> None:
    s = session(join="eddy")
    query = s.query(AB + " AND l.x = 2")
    step(s, 1, b=4)
    for ts in range(10, 20):  # they take the places of the rows that have met
        s.push("a", [{"ts": ts, "x": 2, "y": 0, "s": f"passing {ts} {k}"} for k in range(2000)])
        s.advance(ts)
    s.engine._swept_at = 0
    s.engine.sweep_strings()
    assert len(s.engine.strings) < 18_000, "20,000 have passed"
    step(s, 30, b=3)
    assert values(query, "s") == ["1 2", "30 2"]


def test_changes_are_the_same_however_seldom_somebody_asks() -> None:
    texts = ("SELECT x, y FROM a [RANGE 3] WHERE x > 2", "SELECT y FROM a WHERE x = 4 OR y = 7", AB)

    def said(every: int) -> list[list[dict[str, Any]]]:
        s = session(join="eddy")
        queries = [s.query(text) for text in texts]
        made: list[list[dict[str, Any]]] = [[] for _ in texts]
        for ts in range(40):
            step(s, ts, ts % 7, ts % 3)
            if ts % every == every - 1:
                for query, all_ in zip(queries, made, strict=True):
                    all_ += query.changes().to_pylist()
        return made

    often = said(1)
    assert said(8) == said(40) == often
    assert all(often)


def test_queries_that_are_asked_regularly_are_served_together() -> None:
    s = session()
    low, high, other = (
        s.query(f"SELECT {columns} FROM a WHERE x {test}")
        for columns, test in (("x, s", "< 3"), ("x, s", "> 7"), ("s, x", "< 5"))
    )
    never = s.query("SELECT x, s FROM a WHERE x > 1")
    step(s, 1)
    assert [values(q) for q in (low, high, other)] == [[0, 1, 2], [8, 9], [0, 1, 2, 3, 4]]
    step(s, 2)
    assert values(low, "s") == ["2 0", "2 1", "2 2"]
    (_, chunk) = waiting(s)._chunks
    assert [part[0].column("s").to_pylist() for part in chunk.made.values()] == [["2 8", "2 9"]], (
        "who selects other columns is not like it, and one is never asked"
    )
    assert values(high, "s") == ["2 8", "2 9"] and not chunk.made
    assert values(other) == [0, 1, 2, 3, 4]
    step(s, 3)
    assert values(low) == [0, 1, 2]
    assert len(waiting(s)._chunks[-1].made) == 1
    high.drop()
    assert not waiting(s)._chunks[-1].made
    assert values(never, "s") == [f"{ts} {x}" for ts in (1, 2, 3) for x in range(2, 10)]


def test_answers_that_are_kept_are_served_together_too() -> None:
    s, apart = session(), session(share=False)
    texts = [f"SELECT x, y FROM a [RANGE 3] WHERE x > {n}" for n in range(6)] + [AB, AB + " AND l.x > 2"]
    both = [[of.query(text) for text in texts] for of in (s, apart)]
    for ts in range(9):
        for of in (s, apart):
            step(of, ts, b=5)
        for mine, theirs in zip(*both, strict=True):
            order = [(name, "ascending") for name in ("__ts", "__exp", *mine.snapshot().column_names)]
            assert mine.changes().sort_by(order).equals(theirs.changes().sort_by(order))
            assert mine.snapshot().sort_by(order[2:]).equals(theirs.snapshot().sort_by(order[2:]))


def test_reading_a_query_shows_rows_to_no_query_that_came_later() -> None:
    """Rows that wait are sorted again when they are read; a function of a later query may fail on them."""
    s = penstock.connect()
    s.execute("CREATE STREAM a (ts BIGINT, x INT, y INT) WATERMARK ts DELAY OF INTERVAL 0")
    first = s.query("SELECT x FROM a WHERE x > 1")
    s.query("SELECT y FROM a WHERE y > 1 AND x < 90").drop()
    s.query("SELECT y FROM a WHERE y > 1 AND x < 91")
    s.push("a", [{"ts": t, "x": t, "y": t} for t in range(10)])
    s.advance(9)
    seen: list[int] = []

    def noted(x: int) -> int:
        seen.append(x)
        if x < 10:
            raise ValueError("of a row from before the query")
        return x

    s.create_function("noted", noted, "INT")
    later = s.query("SELECT x FROM a WHERE noted(x) > 0")
    assert first.changes().num_rows == 8
    s.push("a", [{"ts": t, "x": t, "y": t} for t in range(10, 20)])
    s.advance(30)
    assert later.changes().num_rows == 10
    assert min(seen) == 10
