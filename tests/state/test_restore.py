"""What a snapshot holds, and what it is refused for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import penstock
from penstock.api.query import Query
from penstock.api.session import Session
from penstock.durability.snapshot import Snapshot, dump, restore
from penstock.engine.engine import Engine
from penstock.errors import StateError
from penstock.optimizer import optimize
from penstock.plan.query_root import top
from penstock.sql import bind, parse

DECLARED = (
    "CREATE STREAM a (ts BIGINT, x INT, y INT, s STRING) WATERMARK ts DELAY OF 3",
    "CREATE STREAM b (ts BIGINT, x INT, y INT, s STRING) WATERMARK ts DELAY OF 0",
    "CREATE TABLE n (k INT, v STRING)",
    "CREATE RETROACTIVE TABLE o (k INT, v STRING)",
)
JOIN = "SELECT l.x, l.s FROM a [RANGE 10] AS l, b [RANGE 10] AS r WHERE l.x = r.x AND l.y = r.y"


def session(*queries: str, declared: Sequence[str] = DECLARED, **options: Any) -> Session:
    made = penstock.connect(**options)
    for statement in declared:
        made.execute(statement)
    for number, sql in enumerate(queries):
        made.query(sql, name=f"q{number}")
    return made


def row(ts: int, x: int = 1, y: int = 1, s: str | None = "s") -> dict[str, Any]:
    return {"ts": ts, "x": x, "y": y, "s": s}


def registered(of: Session, **instead: str) -> list[tuple[str, Any, bool]]:
    made = []
    for query in of.queries.values():
        bound = bind(parse(instead.get(query.name, query.sql))[0], of.catalog).query
        made.append((query.name, top(optimize(bound.root)), query._standing.answer.kept))
    return made


def gone_on(was: Session, snapshot: Snapshot | None = None) -> Session:
    now = session()
    now.catalog.functions.update(was.catalog.functions)
    now.engine = restore(now.catalog, registered(was), dump(was.engine) if snapshot is None else snapshot)
    for name, standing in now.engine.queries.items():
        now._queries[name] = Query(now, standing, was.queries[name]._bound)
    return now


def refused(was: Session, why: str, catalog: Session | None = None, **instead: str) -> None:
    now = catalog or session()
    with pytest.raises(StateError, match=why):
        restore(now.catalog, registered(was, **instead), dump(was.engine))


def test_clock_watermarks_waiting_and_late_rows() -> None:
    s = session("SELECT x, s FROM a [RANGE 10]")
    s.push("a", [row(5), row(9, 2), row(7, 3, s=None), row(4, 4, s="late")])
    now = gone_on(s)
    assert (now.clock, s.clock) == (5, 5)
    assert [now.engine.sources[n].watermark for n in "ab"] == [s.engine.sources[n].watermark for n in "ab"]
    assert now.engine.sources["a"].waiting == 2
    assert now.late("a").to_pylist() == [row(4, 4, s="late")]
    assert now.engine.sources["a"].late_rows == 1
    now.push("a", [row(4, 5), row(7, 6)])
    assert now.late("a").column("x").to_pylist() == [4, 5]
    now.advance(7)
    assert [r["x"] for r in now.queries["q0"].changes().to_pylist()] == [1, 3, 6]


def test_changes_nobody_has_read_are_there() -> None:
    s = session(
        "SELECT x, s FROM a [RANGE 10] WHERE s <> 'ä'", "SELECT x, COUNT(*) AS c FROM a [RANGE 10] GROUP BY x"
    )
    s.push("a", [row(k, s=t) for k, t in enumerate(["a", "ä", "b", None])])
    s.advance(4)
    s.push("a", [row(8)])
    s.advance(8)
    now = gone_on(s)
    for name, query in s.queries.items():
        assert now.queries[name].matched == query.matched > 0
        assert now.queries[name].changes().equals(query.changes())
        assert now.queries[name].changes().num_rows == 0


def test_tables_and_their_updates_to_come() -> None:
    sql = "SELECT a.ts, t.v FROM a [RANGE 4], {} AS t WHERE a.x = t.k"
    s = session(sql.format("n"), sql.format("o"))
    for table in "no":
        s.update_table(table, insert=[{"k": 1, "v": "one"}, {"k": 1, "v": None}])
        s.update_table(table, insert=[{"k": 1, "v": "then"}], delete=[{"k": 1, "v": "one"}], at=6)
    s.push("a", [row(5)])
    s.advance(5)
    now = gone_on(s)
    for session_ in (s, now):
        session_.push("a", [row(6)])
        session_.update_table("o", delete=[{"k": 1, "v": "then"}], at=7)
        session_.advance(7)
    for name in ("q0", "q1"):
        assert now.queries[name].changes().to_pylist() == s.queries[name].changes().to_pylist() != []


def test_a_query_that_stopped_has_stopped() -> None:
    def fails(x: int) -> int:
        raise ValueError("no")

    s = session("SELECT x FROM a [RANGE 10]")
    s.create_function("fails", fails, returns="BIGINT")
    s.query("SELECT fails(x) AS y FROM a [RANGE 10]", name="bad")
    with pytest.raises(penstock.DataError):
        s.push("a", [row(1), row(9)])
    now = gone_on(s)
    with pytest.raises(StateError, match=r"query bad stopped at an error: .*function fails failed on"):
        now.queries["bad"].changes()
    assert now.queries["q0"].changes().column("x").to_pylist() == [1]
    now.push("a", [row(20)])
    assert now.queries["q0"].changes().num_rows == 1
    now.drop("bad")


def test_before_anything_happened() -> None:
    for s in (session(), session("SELECT COUNT(*) AS c FROM a [RANGE 2]")):
        now = gone_on(s)
        assert now.clock == s.clock
        for query in now.queries.values():
            assert query.snapshot().to_pylist() == [{"c": 0}]
            now.push("a", [row(1)])
            now.advance(1)
            assert [r["c"] for r in query.changes().to_pylist()] == [0, 1]
    assert restore(penstock.connect().catalog, [], dump(Engine(penstock.connect().catalog))).queries == {}


def test_a_snapshot_is_apart_from_the_engines() -> None:
    s = session(JOIN)
    s.push("a", [row(1)])
    s.advance(1)
    snapshot = dump(s.engine)
    before = {name: array.copy() for name, array in snapshot.arrays.items()}
    one, other = gone_on(s, snapshot), gone_on(s, snapshot)
    for session_ in (s, one):
        session_.push("b", [row(2)])
        session_.advance(2)
        assert session_.queries["q0"].changes().num_rows == 1
    for name, array in snapshot.arrays.items():
        assert np.array_equal(array, before[name], equal_nan=array.dtype.kind == "f"), name
    other.advance(20)
    assert other.queries["q0"].changes().num_rows == 0


def test_streams_that_are_new_begin_empty() -> None:
    s = session("SELECT x FROM a [RANGE 10]", declared=DECLARED[:1])
    s.push("a", [row(9)])
    now = session()
    now.engine = restore(now.catalog, registered(s), dump(s.engine))
    assert now.clock == 5
    now.push("b", [row(1)])
    assert now.late("b").num_rows == 0


def test_queries_may_come_in_any_order() -> None:
    s = session("SELECT x FROM a [RANGE 10]", "SELECT y FROM a [RANGE 10]")
    engine = restore(session().catalog, registered(s)[::-1], dump(s.engine))
    assert [q.name for q in engine.queries.values()] == ["q0", "q1"]


def test_other_queries_are_refused() -> None:
    s = session(JOIN, "SELECT x FROM a [RANGE 10]")
    snapshot, now = dump(s.engine), session()
    with pytest.raises(StateError, match="the snapshot holds query q1, which is not there"):
        restore(now.catalog, registered(s)[:1], snapshot)
    _, root, keep = registered(s)[1]
    with pytest.raises(StateError, match="the snapshot does not hold the queries more"):
        restore(session().catalog, [*registered(s), ("more", root, keep)], snapshot)
    window = r"query q1 is another in the snapshot: its plan there is .*RANGE 10.*, here .*RANGE 11"
    refused(s, window, q1="SELECT x FROM a [RANGE 11]")
    refused(s, "query q1 is another in the snapshot: its plan", q1="SELECT y FROM a [RANGE 10]")
    refused(s, "query q1 is another in the snapshot: its plan", q1="SELECT x FROM a [RANGE 10] WHERE x > 1")


def test_keys_in_another_order_are_refused() -> None:
    """Equal plans, but rows of the one lie under hashes that the other does not make."""
    refused(
        session(JOIN),
        "query q0 is another",
        q0=JOIN.replace("l.x = r.x AND l.y = r.y", "l.y = r.y AND l.x = r.x"),
    )


def test_a_query_whose_results_were_not_kept_is_refused() -> None:
    s = session("SELECT x FROM a")
    with pytest.raises(StateError, match="its kept there is False, here True"):
        restore(session().catalog, [(name, root, True) for name, root, _ in registered(s)], dump(s.engine))


@pytest.mark.parametrize(
    ("number", "instead", "why"),
    [
        (0, "CREATE STREAM a (ts BIGINT, x INT, y INT, t STRING) WATERMARK ts DELAY OF 3", "columns .*'s STRING'.*'t STRING'"),
        (0, "CREATE STREAM a (ts BIGINT, x INT, y INT, s INT) WATERMARK ts DELAY OF 3", "columns .*'s STRING'.*'s INT'"),
        (0, "CREATE STREAM a (ts BIGINT, x INT, y INT, s STRING) WATERMARK ts DELAY OF 4", "delay there is 3, here 4"),
        (2, "CREATE TABLE n (k INT)", "columns .*'v STRING'"),
        (3, "CREATE TABLE o (k INT, v STRING)", "retroactive there is True, here False"),
        (2, "CREATE TABLE m (k INT, v STRING)", "table n, which is not there"),
        (1, "CREATE STREAM c (ts BIGINT, x INT) WATERMARK ts DELAY OF 0", "stream b, which is not there"),
    ],
)  # fmt: skip
def test_other_declarations_are_refused(number: int, instead: str, why: str) -> None:
    declared = [*DECLARED]
    declared[number] = instead
    refused(session(), why, session(declared=declared))


def test_arrays_that_do_not_fit_are_refused() -> None:
    s = session(JOIN, "SELECT DISTINCT s FROM a [RANGE 4]")
    s.push("a", [row(1)])
    s.advance(1)
    for query in s.queries.values():
        query.changes()
    snapshot = dump(s.engine)

    def refused_with(arrays: dict[str, Any], why: str = "does not fit the snapshot") -> None:
        with pytest.raises(StateError, match=why):
            restore(session().catalog, registered(s), Snapshot(snapshot.meta, arrays))

    for name, array in snapshot.arrays.items():
        refused_with({n: a for n, a in snapshot.arrays.items() if n != name})
        for other in (array.astype(np.float32), array.reshape(1, *array.shape), np.array(7)):
            refused_with({**snapshot.arrays, name: other})
    refused_with({**snapshot.arrays, "query/0/state/odd": np.zeros(1)}, "nobody takes up the arrays odd")
    refused_with({**snapshot.arrays, "query/7/state/odd": np.zeros(1)}, "what nobody takes up: query/7/state")
    with pytest.raises(StateError, match="no snapshot of an engine"):
        restore(session().catalog, [], Snapshot({}, {}))


def test_a_function_cannot_take_a_snapshot_of_its_session() -> None:
    s = session()
    seen = []

    def spies(x: int) -> int:
        with pytest.raises(StateError, match="in the middle of a step") as caught:
            dump(s.engine)
        seen.append(caught)
        return x

    s.create_function("spies", spies, returns="BIGINT")
    s.query("SELECT spies(x) AS x FROM a [RANGE 10]", name="spy")
    s.push("a", [row(1), row(9)])
    assert seen


# ------------------------------------------------------------------ what joins share

MEETING = (
    "SELECT l.y, r.s FROM a [RANGE 10] AS l, b [RANGE 20] AS r WHERE l.x = r.x AND l.y > 0",
    "SELECT l.s, r.y FROM b [RANGE 5] AS l, a [RANGE 10] AS r WHERE l.s = r.s AND l.x = r.x",
    "SELECT l.y, r.y AS z FROM a [RANGE 10] AS l, a [RANGE 3] AS r WHERE l.x = r.y",
    "SELECT DISTINCT l.s FROM a [RANGE 10] AS l, b [RANGE 10] AS r, b [RANGE 9] AS t WHERE l.x = r.x AND r.y = t.y",
)


def feed(of: Session, first: int, rows: int) -> None:
    for name in "ab":
        of.push(name, [row(ts, ts % 3, ts % 2, "pqr"[ts % 3]) for ts in range(first, first + rows)])
    of.advance(first + rows - 1)


def said(of: Session) -> dict[str, list[str]]:
    return {name: sorted(map(repr, q.changes().to_pylist())) for name, q in of.queries.items()}


@pytest.mark.parametrize("first", range(len(MEETING)))
def test_joins_that_share_go_on_with_other_bits(first: int) -> None:
    """Their bits were given out while another join was there, which is gone."""
    s = session("SELECT l.s FROM a [RANGE 2] AS l, b [RANGE 2] AS r WHERE l.x = r.x", join="eddy")
    for number in range(len(MEETING)):
        s.query(MEETING[(first + number) % len(MEETING)], name=f"m{number}")
    feed(s, 1, 12)
    s.drop("q0")
    before, now = said(s), session()
    now.engine = restore(now.catalog, registered(s)[::-1], dump(s.engine))
    for name, standing in now.engine.queries.items():
        now._queries[name] = Query(now, standing, s.queries[name]._bound)
    shared, again = s.engine.sharing, now.engine.sharing
    assert shared is not None and again is not None
    assert again.confluence.sizes == shared.confluence.sizes
    assert set(again.confluence.parties) != set(shared.confluence.parties)
    for session_ in (s, now):
        feed(session_, 13, 12)
    after = said(now)
    assert after == said(s)
    assert all(before.values()) and all(after.values())


@pytest.mark.parametrize("gone", [(0,), (1, 2), (2, 3), (0, 1, 3)])
def test_what_only_dropped_joins_had_is_not_asked_for(gone: Sequence[int]) -> None:
    """Also a stream, or a second role of one, that no join that is left has."""
    more = "SELECT l.y FROM a [RANGE 10] AS l, c [RANGE 10] AS r WHERE l.x = r.x"
    declared = (*DECLARED, "CREATE STREAM c (ts BIGINT, x INT) WATERMARK ts DELAY OF 0")
    s = session(*MEETING, more, declared=declared, join="eddy")
    s.push("c", [{"ts": 1, "x": 1}])
    s.advance(1, stream="c")
    feed(s, 1, 12)
    for number in (*gone, 4):
        s.drop(f"q{number}")
    now = session(declared=declared)
    now.engine = restore(now.catalog, registered(s), dump(s.engine))
    for name, standing in now.engine.queries.items():
        now._queries[name] = Query(now, standing, s.queries[name]._bound)
    for session_ in (s, now):
        feed(session_, 13, 12)
    after = said(now)
    assert after == said(s)
    assert len(after) == 4 - len(gone) and all(after.values())


def test_a_query_that_stopped_does_not_fail_again() -> None:
    def fails(x: int) -> bool:
        raise ValueError("no")

    s = session("SELECT x FROM b [RANGE 10] WHERE x > 0")
    s.create_function("fails", fails, returns="BOOLEAN")
    s.query("SELECT x FROM b [RANGE 10] WHERE fails(x)", name="bad")
    with pytest.raises(penstock.DataError):
        s.push("b", [row(1), row(9)])
    now = gone_on(s)
    for session_ in (s, now):
        session_.push("b", [row(10), row(11)])
        with pytest.raises(StateError, match=r"stopped at an error: .*ts 1\)"):
            session_.queries["bad"].changes()
    assert now.queries["q0"].changes().to_pylist() == s.queries["q0"].changes().to_pylist() != []
