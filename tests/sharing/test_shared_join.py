"""Joins that meet in shared SteMs say what each says by itself, and rows are there once for all of them."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import penstock
from penstock.api.query import Query
from penstock.api.session import Session
from penstock.kernels.hash.mix import GOLDEN, mix, mix_rows
from penstock.sharing.probe_trees import Shape, Side
from penstock.sharing.shared_join import Confluence
from penstock.types import sizes

AB = "SELECT l.x, l.y, r.y AS z FROM a [RANGE {}] AS l, b [RANGE {}] AS r WHERE l.x = r.x"
ABC = "SELECT l.x, r.y, t.y AS z FROM a [RANGE 10] AS l, b [RANGE 10] AS r, c [RANGE 10] AS t WHERE l.x = r.x AND r.x = t.x"


def session(**options: Any) -> Session:
    made = penstock.connect(**{"join": "eddy", "replan": False} | options)
    for name in "abc":
        made.execute(
            f"CREATE STREAM {name} (ts BIGINT, x INT, y INT, s STRING, l BIGINT) WATERMARK ts DELAY OF 0"
        )
    return made


def confluence(of: Session) -> Confluence:
    assert of.engine.sharing is not None
    return of.engine.sharing.confluence


def row(ts: int, x: int | None = 1, y: int | None = 1, s: str | None = "s") -> dict[str, Any]:
    return {"ts": ts, "x": x, "y": y, "s": s, "l": x}


def said(query: Query) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(change.values()) for change in query.changes().to_pylist())


class Both:
    """The same queries and rows in a session that shares and in one that does not."""

    def __init__(self, **options: Any) -> None:
        self.shared, self.apart = session(**options), session(share=False)
        self.queries: dict[str, tuple[Query, Query]] = {}
        self.results = 0

    def query(self, sql: str, name: str) -> None:
        self.queries[name] = (self.shared.query(sql, name=name), self.apart.query(sql, name=name))

    def drop(self, name: str) -> None:
        for query in self.queries.pop(name):
            query.drop()

    def push(self, stream: str, *rows: dict[str, Any]) -> None:
        for one in (self.shared, self.apart):
            one.push(stream, list(rows))

    def advance(self, until: int) -> None:
        for one in (self.shared, self.apart):
            one.advance(until)

    def check(self) -> None:
        for name, (ours, theirs) in self.queries.items():
            assert ours.matched == theirs.matched, (name, ours.sql)
            found = said(ours)
            assert found == said(theirs), (name, ours.sql)
            self.results += sum(found.values())
            if ours.pattern != "MONOTONIC":
                tables = [q.snapshot().to_pylist() for q in (ours, theirs)]
                assert Counter(map(repr, tables[0])) == Counter(map(repr, tables[1])), (name, ours.sql)

    def results_of(self, *names: str) -> list[int]:
        """How many changes each has said until now, the same in both."""
        made = []
        for name in names:
            ours, theirs = map(said, self.queries[name])
            assert ours == theirs, name
            made.append(sum(ours.values()))
        return made


def drawn(rng: random.Random) -> str:
    """Two to four inputs of three streams, joined by numbers, strings, several keys or in a circle, each with a window of its own."""
    k = rng.choice((2, 2, 2, 3, 3, 4))
    names = [f"t{i}" for i in range(k)]
    windows = [rng.choice((*[f"RANGE {rng.randint(1, 20)}"] * 4, "UNBOUNDED", "NOW")) for _ in names]
    inputs = ", ".join(f"{rng.choice('abc')} [{w}] AS {n}" for n, w in zip(names, windows, strict=True))
    where = []
    for i in range(1, k):
        j, key = rng.randrange(i), rng.choice(("x", "x", "y", "s"))
        other = key if key == "s" or rng.random() < 0.7 else rng.choice(("x", "y", "l"))
        where.append(f"t{j}.{key} = t{i}.{other}")
    if rng.random() < 0.25:
        where.append(f"t0.y = t{k - 1}.y")
    if rng.random() < 0.2:
        where.append(f"t0.y < t{k - 1}.x")
    where += [
        f"{n}.{rng.choice('xy')} {rng.choice('<>=')} {rng.randint(0, 5)}" for n in names if rng.random() < 0.4
    ]
    kind = rng.random()
    columns = ", ".join(f"{n}.{rng.choice(('x', 'y', 's', 'ts'))} AS c{i}" for i, n in enumerate(names))
    columns = "DISTINCT t0.x" if kind < 0.15 else "t0.x, COUNT(*) AS n" if kind < 0.3 else columns
    return f"SELECT {columns} FROM {inputs} WHERE {' AND '.join(where)}" + (
        " GROUP BY t0.x" if 0.15 <= kind < 0.3 else ""
    )


@pytest.mark.parametrize("join", ["eddy", "auto", "mjoin"])
@pytest.mark.parametrize("seed", range(4))
def test_drawn_joins_that_come_and_go_say_what_they_say_alone(seed: int, join: str) -> None:
    rng = random.Random(f"{seed} {join}")
    both, now = Both(join=join), 0
    for step in range(6):
        for number in range(rng.choice((0, 1, 2, 6)) if step else 6):
            both.query(drawn(rng), f"q{step}_{number}")
        if both.queries and rng.random() < 0.6:
            both.drop(rng.choice(sorted(both.queries)))
        for name in "abc":
            times = sorted(rng.randint(now, now + 15) for _ in range(rng.choice((0, 3, 20))))
            some = [
                row(ts, rng.choice((None, *range(4))), rng.choice((None, *range(6))), rng.choice((None, "p", "q")))
                for ts in times
            ]  # fmt: skip
            both.push(name, *some)
        now += 15
        both.advance(now)
        if rng.random() < 0.6:
            both.check()
    both.check()
    assert both.results > 0
    assert bool(confluence(both.shared).parties) is (join != "mjoin" and bool(both.queries))


def test_a_lone_join_walks_by_itself_and_later_ones_meet() -> None:
    both = Both(join="auto")
    both.query(AB.format(5, 5), "first")
    assert not confluence(both.shared).parties
    both.query(AB.format(6, 6), "second")
    both.query(AB.format(7, 7), "third")
    assert len(confluence(both.shared).parties) == 3, "the first has come to the others"
    both.push("a", row(1))
    both.push("b", row(2))
    both.advance(2)
    assert both.results_of("first", "second", "third") == [1, 1, 1]


def test_every_query_has_windows_of_its_own_over_one_stem() -> None:
    both = Both()
    lengths = (1, 3, 5, 9)
    for left in lengths:
        for right in lengths:
            both.query(AB.format(left, right), f"q{left}_{right}")
    both.query(AB.format(4, 4).replace("[RANGE 4] AS r", "[UNBOUNDED] AS r"), "far")
    both.push("a", *(row(ts) for ts in (0, 4, 8)))
    both.push("b", *(row(ts) for ts in (2, 4, 6, 30)))
    both.advance(30)
    assert both.results_of("q1_1", "q3_1", "q9_9", "far") == [1, 3, 9, 7]
    both.check()


def test_only_the_longest_window_decides_how_long_rows_stay() -> None:
    both = Both()
    both.query(AB.format(3, 3), "short")
    both.query(AB.format(50, 20), "long")
    held = confluence(both.shared)
    both.push("a", *(row(ts, ts % 3) for ts in range(40)))
    both.push("b", *(row(ts, ts % 3) for ts in range(40)))
    both.advance(39)
    assert held.sizes == {"a": 40, "b": 20}
    both.check()
    both.drop("long")
    both.push("a", row(40, 0))
    both.advance(40)
    assert held.sizes == {"a": 3, "b": 2}
    both.check()


def test_rows_of_one_instant_meet_once_also_themselves() -> None:
    both = Both()
    both.query(AB.format(1, 1), "two")
    both.query("SELECT l.y, r.y AS z FROM a [NOW] AS l, a [RANGE 2] AS r WHERE l.x = r.x", "self")
    three = "SELECT l.y, r.y AS z, t.y AS w FROM a [RANGE 2] AS l, a [NOW] AS r, b [NOW] AS t WHERE l.x = r.x AND l.x = t.x"
    both.query(three, "three")
    both.push("a", row(1, y=1), row(1, y=2), row(2, y=3))
    both.push("b", row(1, y=4), row(1, y=5), row(2, y=6))
    both.advance(2)
    # At 1: two a, two b. At 2: one of each, and the a of 1 still in windows of two.
    assert both.results_of("two", "self", "three") == [2 * 2 + 1, 4 + 3, 4 * 2 + 3]


def test_a_row_with_null_for_a_key_is_wanted_by_those_who_join_by_another() -> None:
    both = Both()
    both.query(AB.format(9, 9), "by_x")
    both.query(AB.format(9, 9).replace("l.x = r.x", "l.y = r.y"), "by_y")
    both.query(AB.format(9, 9).replace("l.x = r.x", "l.s = r.s AND l.y = r.x"), "by_two")
    both.push("a", row(1, x=None, y=2), row(2, x=2, y=None), row(3, x=None, y=None), row(4, s=None))
    both.push("b", row(5, x=2, y=2), row(6, x=None, y=None, s=None), row(7, x=None))
    both.advance(7)
    assert both.results_of("by_x", "by_y", "by_two") == [1, 2, 1]
    assert confluence(both.shared).sizes["a"] == 3, "nobody wants the row without keys"


def test_keys_that_are_strings_or_several() -> None:
    both = Both()
    both.query(AB.format(9, 9).replace("l.x = r.x", "l.s = r.s"), "text")
    both.query(AB.format(9, 9).replace("l.x = r.x", "l.s = r.s AND l.x = r.x AND l.y = r.y"), "three")
    both.query(AB.format(9, 9).replace("l.x = r.x", "upper(l.s) = r.s AND l.x + 1 = r.l"), "computed")
    both.push("a", row(1, s="p"), row(2, s="q"), row(3, x=2, s="p"), row(4, x=0, s="s"))
    both.push("b", row(4, s="P"), row(5, s="p"), row(6, s="S"))
    both.advance(6)
    assert both.results_of("text", "three", "computed") == [2, 1, 1]


def test_several_keys_with_the_same_hash_are_not_equal() -> None:
    def first(word: int) -> int:
        return (int(mix(np.uint64(int(GOLDEN) ^ word))) + int(GOLDEN)) % 2**64

    other = first(1) ^ first(2) ^ 5
    keys = np.array([[1, 5], [2, other - 2**64 if other >= 2**63 else other]])
    hashes = np.empty(2, np.int64)
    mix_rows(keys, hashes)
    assert hashes[0] == hashes[1]
    both = Both()
    both.query(AB.format(9, 9).replace("l.x = r.x", "l.x = r.x AND l.l = r.l"), "both")
    both.query(AB.format(9, 9).replace("l.x = r.x", "l.l = r.l AND l.x = r.x"), "turned")
    for ts, (x, l) in enumerate(keys.tolist()):
        both.push("ab"[ts], row(ts, x) | {"l": l})
    both.push("b", row(2, 1) | {"l": 5})
    both.advance(2)
    assert both.results_of("both", "turned") == [1, 1]


def test_a_circle_of_equalities() -> None:
    both = Both()
    circle = ABC.replace("r.x = t.x", "r.y = t.x AND t.y = l.y")
    both.query(circle, "circle")
    both.query(ABC, "line")
    rng = random.Random(5)
    for name in "abc":
        both.push(name, *(row(ts, rng.randrange(3), rng.randrange(3)) for ts in range(30)))
    both.advance(29)
    circled, line = both.results_of("circle", "line")
    assert 0 < circled < line


def test_columns_attributes_roles_and_streams_come_while_rows_are_held() -> None:
    both = Both()
    both.query("SELECT l.y FROM a [RANGE 40] AS l, b [RANGE 40] AS r WHERE l.x = r.x", "narrow")
    held = confluence(both.shared)
    more = {
        "column": "SELECT l.s, r.l FROM a [RANGE 40] AS l, b [RANGE 40] AS r WHERE l.x = r.x",
        "attribute": "SELECT l.y FROM a [RANGE 40] AS l, b [RANGE 40] AS r WHERE l.s = r.s AND l.y = r.x",
        "role": "SELECT l.y, r.s FROM a [RANGE 40] AS l, a [RANGE 40] AS r WHERE l.x = r.y",
        "stream": "SELECT l.y, r.s FROM c [RANGE 40] AS l, a [RANGE 40] AS r WHERE l.s = r.s",
    }
    rng, ts = random.Random(6), 0
    for name, sql in more.items():
        for _ in range(4):
            ts += 1
            for stream in "abc":
                both.push(stream, row(ts, rng.randrange(3), rng.randrange(3), rng.choice("pq")))
        both.advance(ts)
        before = held.sizes
        both.query(sql, name)
        ts += 1
        both.push("a", row(ts))
        both.advance(ts)
        assert held.sizes["a"] == before["a"] + 1, "those that were there stay"
        assert held.sizes["b"] == before["b"]
    for stream in "abc":
        both.push(stream, *(row(ts + k, k % 3, k % 2, "pq"[k % 2]) for k in range(6)))
    both.advance(ts + 6)
    assert min(both.results_of("narrow", *more)) > 0


def test_a_bit_that_is_given_out_again_shows_nothing_of_before() -> None:
    both = Both()
    both.query(AB.format(1000, 1000), "stays")
    held = confluence(both.shared)
    for ts in range(150):
        name = f"q{ts}"
        both.query(AB.format(900, 900) + f" AND l.y < {ts % 3}", name)
        both.push("a", row(ts, y=ts % 2))
        both.push("b", row(ts))
        both.advance(ts)
        # Rows of before its time are there, but not for it: of both streams it has one row.
        assert both.results_of(name) == [int(ts % 2 < ts % 3)]
        both.drop(name)
    assert held.words == 1, "150 queries, two at a time, fit into 64 bits"
    assert both.results_of("stays") == [150 * 150]


def test_there_is_room_for_any_number_of_joins() -> None:
    both = Both()
    for number in range(140):
        both.query(AB.format(5, 5 + number % 3) + f" AND l.y > {number % 7}", f"q{number}")
        if number % 20 == 0:
            both.push("a", *(row(number, k % 3, k) for k in range(9)))
            both.push("b", *(row(number, k % 3, k) for k in range(3)))
            both.advance(number)
    assert confluence(both.shared).words == 4
    both.push("a", *(row(141, k % 3, k) for k in range(9)))
    both.push("b", *(row(142, k % 3, k) for k in range(3)))
    both.advance(142)
    both.check()


def test_there_is_room_for_any_number_of_streams() -> None:
    s = penstock.connect(join="eddy", replan=False)
    names = [f"s{number}" for number in range(140)]
    for name in names:
        s.execute(f"CREATE STREAM {name} (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
    pairs = [
        s.query(f"SELECT l.x FROM {left} [RANGE 10] AS l, {right} [RANGE 10] AS r WHERE l.x = r.x")
        for left, right in pairwise(names)
    ]
    for name in names:
        s.push(name, [{"ts": 1, "x": 1}])
    s.advance(1)
    assert len(confluence(s).roles) == 140
    assert [pair.changes().num_rows for pair in pairs] == [1] * 139


def test_lineages_that_no_row_has_are_let_go_of() -> None:
    both = Both()
    held = confluence(both.shared)
    for number in range(14):
        both.query(AB.format(4, 4) + f" AND l.y % {2**number * 2} >= {2**number}", f"q{number}")
    held._many = 50
    most = 0
    for ts in range(0, 400, 10):
        both.push("a", *(row(ts + k, 1, 37 * (ts + k) % 16384) for k in range(10)))
        both.push("b", row(ts + 5), row(ts + 9))
        both.advance(ts + 9)
        most = max(most, len(held.lineages))
        held._many = 50
    assert 10 < most < 120, "400 different ones have come"
    both.check()
    assert both.results > 1000


def test_where_hardly_two_rows_are_wanted_by_the_same_each_filter_is_noted_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sizes, "current", replace(sizes.DEFAULT, lineages=200))
    monkeypatch.setattr("penstock.sharing.join_catalog.MANY", 200)
    both, rng = Both(), random.Random(3)
    held = confluence(both.shared)
    for number in range(80):
        both.query(
            AB.format(100, 100) + f" AND l.y < {rng.randrange(1000)} AND l.l > {rng.randrange(1000)}",
            f"q{number}",
        )

    def push(begin: int, end: int) -> None:
        some = [rng.randrange(1000) for _ in range(2 * (end - begin))]
        rows = [row(ts, x, y) | {"l": x} for ts, x, y in zip(range(begin, end), some, some[1:], strict=False)]
        for stream in "ab":
            both.push(stream, *rows)
        both.advance(end - 1)

    for begin in range(0, 3000, 500):
        push(begin, begin + 500)
    assert held.stems["a"].parts == 2
    assert not held.stems["b"].apart, "its rows are wanted by all"
    assert len(held.lineages) < 300, "those that rows had to themselves are let go of"
    assert held.who.bed.rows.short
    both.query(
        AB.format(9, 9) + " AND l.s <> 'q' AND l.x + l.y > 7", "another filter, and one that is no column"
    )
    push(3000, 3500)
    both.drop("another filter, and one that is no column")
    push(3500, 4000)
    assert held.stems["a"].parts == 4, "room is kept"
    both.check()
    assert both.results > 5_000


# ------------------------------------------------------------------ what is shared


def test_two_hundred_joins_over_three_streams_hold_every_row_once() -> None:
    s, rng = session(), random.Random(7)
    pairs = [("a", "b"), ("b", "c"), ("a", "c"), ("a", "b", "c")]
    for number in range(200):
        streams = pairs[number % 4]
        inputs = ", ".join(
            f"{n} [RANGE {rng.randint(50, 100) if number > 3 else 100}] AS {n}" for n in streams
        )
        where = " AND ".join(f"{m}.x = {n}.x" for m, n in pairwise(streams))
        s.query(
            f"SELECT {streams[0]}.y FROM {inputs} WHERE {where} AND {streams[0]}.y > {rng.randrange(-1, 5)}"
        )
    for name in "abc":
        s.push(name, [row(ts, ts % 7, ts % 6) for ts in range(200)])
    s.advance(199)
    held = confluence(s)
    assert len(held.parties) == 200
    assert held.sizes == {"a": 100, "b": 100, "c": 100}
    assert len(held.stems["a"].attributes) == 1
    assert sum(query.matched for query in s.queries.values()) > 200
    per_row = held.size_bytes / 300
    assert per_row < 500, "though 200 queries want them"


def test_walks_that_begin_alike_are_one() -> None:
    s = session()
    s.query(AB.format(10, 10))
    held = confluence(s)
    held._ready()
    assert len(held._plan().hops) == 2, "from a to b, and from b to a"
    s.query(ABC)
    s.query(AB.format(7, 3) + " AND l.y > 4")
    held._ready()
    plan = held._plan()
    assert len(plan.hops) == 6, "from each of three to both others; those to a and b serve all"
    a, b = (next(r.number for r in held.roles if r.stream == name) for name in "ab")
    hop = next(
        k for k, (to, giver) in enumerate(plan.hops) if (to.role, giver.role) == (b, a) and k == plan.roots[a]
    )
    assert plan.need[hop, 0] == sum(1 << bit for bit in held.parties), "all look for b together"
    assert plan.done[hop, 0] == sum(1 << bit for bit, p in held.parties.items() if len(p.roles) == 2)


def test_a_walk_goes_where_fewest_partners_were_met() -> None:
    near, far, own = Side(1, 0), Side(2, 0), Side(0, 0)
    shape = Shape((0, 1, 2), ((near, own), (own, near), (far, own), (own, far)))
    assert shape.walk(0, {(near, own): 3.0, (far, own): 0.5}) == [((far, own), ()), ((near, own), ())]
    assert shape.walk(0, {(near, own): 0.1, (far, own): 0.5}) == [((near, own), ()), ((far, own), ())]
    assert shape.walk(1, {}) == [((own, near), ()), ((far, own), ())]


def test_in_a_cycle_a_hop_compares_with_all_that_is_bound() -> None:
    a, b, c = (Side(role, 0) for role in range(3))
    shape = Shape((0, 1, 2), ((a, b), (b, a), (b, c), (c, b), (a, c), (c, a)))
    assert shape.walk(0, {(c, a): 0.5}) == [((c, a), ()), ((b, a), ((b, c),))]


def test_nobody_left_nothing_kept() -> None:
    s = session()
    for sql in (AB.format(5, 5), ABC):
        s.query(sql)
    s.push("a", [row(1)])
    s.advance(1)
    empty = session().size_bytes
    for name in list(s.queries):
        s.drop(name)
    assert confluence(s).sizes == {} and confluence(s).roles == []
    assert s.engine.sharing is not None and s.engine.sharing.currents == {}
    assert s.size_bytes <= empty


def test_a_function_that_fails_in_one_join_stops_that_one() -> None:
    s = session()

    def picky(v: int) -> bool:
        if v == 2:
            raise ValueError("two")
        return True

    s.create_function("picky", picky, "BOOLEAN")
    bad = s.query(AB.format(9, 9) + " AND picky(r.y)")
    good = s.query(AB.format(9, 9) + " AND r.y > 0")
    s.push("a", [row(1), row(9, x=5)])
    with pytest.raises(penstock.DataError, match="two"):
        s.push("b", [row(1, y=1), row(2, y=2), row(3), row(4, x=5)])
    s.advance(4)
    with pytest.raises(penstock.StateError, match="stopped at an error"):
        bad.changes()
    assert good.matched == 3


def test_strings_in_stems_survive_sweeps() -> None:
    s = session()
    query = s.query("SELECT l.s, r.s AS z FROM a [RANGE 1000] AS l, b [RANGE 1000] AS r WHERE l.x = r.x")
    keyed = s.query("SELECT l.y, r.y AS z FROM a [RANGE 1000] AS l, b [RANGE 1000] AS r WHERE l.s = r.s")
    s.push("a", [row(1, s="kept")])
    s.advance(1)
    passing = s.query("SELECT DISTINCT s FROM c [NOW]")
    for ts in (2, 3):
        s.push("c", [row(ts, s=f"string {ts} {k}") for k in range(10_000)])
        s.advance(ts)
        assert passing.changes().num_rows == 10_000
    s.advance(4)
    passing.drop()
    s.engine._swept_at = 0
    s.engine.sweep_strings()
    assert len(s.engine.strings) < 1000, "20,000 have come; room that no row has yet may hold some codes"
    s.push("b", [row(5, s="kept"), row(6, x=2, s="other")])
    s.advance(6)
    assert [(r["s"], r["z"]) for r in query.changes().to_pylist()] == [("kept", "kept")]
    assert keyed.matched == 1


def test_a_plan_whose_first_query_is_gone_goes_on_among_others() -> None:
    s = penstock.connect()
    s.execute("CREATE STREAM a (ts BIGINT, k INT, x INT) WATERMARK ts DELAY OF 0")
    text = "SELECT t1.* FROM a [RANGE 20] AS t0, a [RANGE 13] AS t1 WHERE t0.k = t1.k AND t1.x > t0.x"
    first, second = s.query(text), s.query(text)
    s.push("a", [{"ts": 39, "k": 3, "x": 1}])
    s.advance(39)
    assert "input 1: 1" in first.explain() and "input 1: 1" in second.explain()
    first.drop()
    third = s.query(text)
    s.push("a", [{"ts": 41, "k": 3, "x": 2}, {"ts": 42, "k": 3, "x": 5}])
    s.advance(42)
    assert second.changes().num_rows == 3 and third.changes().num_rows == 1
    second.drop()
    third.drop()
