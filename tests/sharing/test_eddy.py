"""An eddy sorts rows as every query's own predicate would, whoever else is there and in whatever order rows are routed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock
from penstock.api.session import Session
from penstock.errors import DataError
from penstock.operators.expressions.evaluator import Evaluator
from penstock.operators.grouped_filter.grouped_filter import GroupedFilter
from penstock.plan.expressions import Expression
from penstock.sharing.eddy import Eddy, Member
from penstock.sharing.routing_policy import POLICIES
from penstock.types.batch import Batch
from tests.sharing.predicates import predicate

COLUMNS = "x INT, l BIGINT, d DOUBLE, f FLOAT, s STRING, b BOOLEAN, i SMALLINT"
EXTREME = {"x": (2**31 - 1, -(2**31)), "l": (2**63 - 1, -(2**63)), "i": (2**15 - 1, -(2**15))}
REALS = (1.5, 0.0, -0.0, 2.0, 3.25, math.nan, -math.nan, math.inf, -math.inf, 1e300)
TEXTS = ("a", "ab", "b", "", "abc", "é", "z", "zz", "abd", "A", "퟿", "\U0010ffff")


def session() -> Session:
    made = penstock.connect(replan=False)
    made.create_function("odd", lambda v: v is not None and v % 2 == 1, "BOOLEAN")
    made.create_function("half", lambda v: None if v is None else v / 2, "DOUBLE")
    made.execute(f"CREATE STREAM a (ts BIGINT, {COLUMNS}) WATERMARK ts DELAY OF 0")
    return made


class Writer:
    """Rows and predicates that meet each other's bounds."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def rows(self, n: int) -> dict[str, list[Any]]:
        draw: dict[str, Callable[[], Any]] = {c: self._whole(c) for c in "xli"}
        draw |= {"d": lambda: self.rng.choice(REALS), "f": lambda: self.rng.choice(REALS[:-1])}
        draw |= {"s": lambda: self.rng.choice(TEXTS), "b": lambda: self.rng.random() < 0.5}
        null = self.rng.choice((0, 0.1, 0.5))
        return {"ts": list(range(n))} | {
            c: [None if self.rng.random() < null else draw[c]() for _ in range(n)] for c in "xldfsbi"
        }

    def _whole(self, column: str) -> Callable[[], int]:
        return lambda: (
            self.rng.choice(EXTREME[column]) if self.rng.random() < 0.1 else self.rng.randint(-5, 20)
        )

    def constant(self, column: str) -> str:
        if column in "xli":
            return str(self.rng.choice((self.rng.randint(-5, 20), *EXTREME[column])))
        if column in "df":
            return self.rng.choice(
                ("1.5", "0", "-0.0", "2", "CAST('nan' AS DOUBLE)", "CAST('-inf' AS DOUBLE)", "1e300")
            )
        return "'" + self.rng.choice(TEXTS) + "'"

    def atom(self) -> str:
        rng, column = self.rng, self.rng.choice("xldfsi")
        kind = rng.randrange(10)
        no = rng.choice(("", "NOT "))
        if kind == 0:
            return f"{column} IS {no}NULL"
        if kind == 1:
            listed = [self.constant(column) for _ in range(rng.randint(1, 5))] + ["NULL"] * (
                rng.random() < 0.1
            )
            return f"{column} {no}IN ({', '.join(listed)})"
        if kind == 2:
            return f"s {no}LIKE '{rng.choice(('a%', 'ab%', '%b%', '%', 'é%', '_', chr(0xD7FF) + '%', chr(0x10FFFF) + '%'))}'"
        if kind == 3:
            return f"{column} {no}BETWEEN {self.constant(column)} AND {self.constant(column)}"
        if kind == 4:
            return rng.choice(("b", "NOT b", "b = TRUE", "b <> TRUE", "b IS NULL"))
        if kind == 5:
            return rng.choice(
                ("x < i", "x % 3 = 1", "upper(s) = 'AB'", "length(s) > 1", "d < f", "x * 2 > l")
            )
        if kind == 6:
            return rng.choice(("odd(x)", "NOT odd(i)", "half(x) > 3", "half(x) <= 2"))
        value = self.constant(column)
        if column in "xli" and rng.random() < 0.3:
            value = rng.choice(("2.5", "3.0", "-1.5", "1e30", "-1e30"))
        test = rng.choice(("=", "<>", "<", "<=", ">", ">="))
        return f"{column} {test} {value}" if rng.random() < 0.8 else f"{value} {test} {column}"

    def predicate(self, depth: int) -> str:
        kind = self.rng.random()
        if not depth or kind < 0.3:
            return self.atom()
        if kind > 0.9:
            return f"NOT ({self.predicate(depth - 1)})"
        word = "AND" if kind < 0.65 else "OR"
        return f"({self.predicate(depth - 1)} {word} {self.predicate(depth - 1)})"


class Bench:
    """An eddy beside an evaluator."""

    def __init__(self, routing: str = "thompson", seed: int = 0, s: Session | None = None) -> None:
        self.session = session() if s is None else s
        strings, functions = self.session.engine.strings, self.session.catalog.functions
        self.eddy = Eddy(strings, functions, routing, seed)
        self.evaluator = Evaluator(strings, functions)
        self.live: list[tuple[str, Expression | None, Member]] = []

    def enrol(self, text: str) -> Member:
        found = predicate(self.session, text)
        member = self.eddy.enrol(found)
        self.live.append((text, found, member))
        return member

    def leave(self, member: Member) -> None:
        self.eddy.leave(member)
        self.live = [one for one in self.live if one[2] is not member]

    def batch(self, rows: dict[str, list[Any]]) -> Batch:
        columns = self.session._read_stream(rows, self.session.catalog.streams["a"])
        own = tuple(c.copy() for c in columns)
        return Batch(own[0].values, own[0].values, own)

    def check(self, batch: Batch) -> None:
        """Everybody gets exactly the rows for which the evaluator says TRUE, and is told how many beforehand."""
        found, failed = self.eddy.sort(batch, keep=True)
        assert failed == []
        split, n = found.split(), len(batch)
        wanted = np.zeros(n, np.bool_)
        for text, asked, member in self.live:
            expected = np.arange(n)
            if asked is not None:
                expected = np.flatnonzero(self.evaluator.predicate(asked)(batch.columns, n))
            assert np.array_equal(split.of(member.bit), expected), text
            assert found.counts[member.bit] == len(expected), text
            wanted[expected] = True
        assert np.array_equal(found.rows, np.flatnonzero(wanted))
        counted, _ = self.eddy.sort(batch, keep=False)
        assert counted.lineage is None and np.array_equal(counted.counts, found.counts)


def filter_on(eddy: Eddy, subject: str) -> GroupedFilter:
    (found,) = (o.filter for o in eddy.operators.values() if str(o.filter.subject) == subject)
    return found


@pytest.mark.parametrize("routing", POLICIES)
@pytest.mark.parametrize("seed", range(3))
def test_rows_are_sorted_as_each_predicate_says_while_queries_come_and_go(seed: int, routing: str) -> None:
    rng = random.Random(f"{seed} {routing}")
    writer, bench = Writer(rng), Bench(routing, seed)
    for n in rng.sample((1, 40, 700, 5000), 3):
        for _ in range(rng.choice((1, 6, 40))):
            bench.enrol(writer.predicate(rng.randint(0, 3)))
        bench.check(bench.batch(writer.rows(n)))
        for one in rng.sample(bench.live, len(bench.live) // 2):
            bench.leave(one[2])
    for one in list(bench.live):
        bench.leave(one[2])
    assert not bench.eddy.operators and not bench.eddy._open and not bench.eddy.start.any()


def test_a_bit_is_given_out_again_and_says_nothing_of_who_had_it() -> None:
    bench = Bench()
    batch = bench.batch(Writer(random.Random(1)).rows(300))
    bench.enrol("x > 3 OR s = 'a'")
    old = bench.enrol("x < 10 AND (d > 1 OR s = 'ab') AND l <> 4")
    bench.check(batch)
    bench.leave(old)
    new = bench.enrol("i IS NOT NULL")
    assert new.bit == old.bit
    bench.check(batch)
    bench.leave(new)
    assert bench.enrol("TRUE").bit == old.bit
    bench.check(batch)


def test_there_is_room_for_any_number_of_queries() -> None:
    bench, batch = Bench(), None
    for number, words in ((64, 1), (65, 2), (128, 2), (129, 4), (300, 8)):
        while len(bench.live) < number:
            k = len(bench.live)
            bench.enrol(f"x > {k % 20 - 2}" if k % 3 else f"x < {k % 7} OR s > '{'abc'[k % 3 :]}'")
        assert bench.eddy.words == words
        batch = bench.batch(Writer(random.Random(number)).rows(500))
        bench.check(batch)
    assert len({member.bit for _, _, member in bench.live}) == 300
    assert filter_on(bench.eddy, "x").predicates == 300


def test_bounds_that_are_nobodys_are_taken_out() -> None:
    bench = Bench()
    bench.enrol("x > 5 AND (x <> 7 OR s = 'a')")
    batch = bench.batch(Writer(random.Random(2)).rows(400))
    crowd = [bench.enrol(f"x >= {k} AND s < 'a{k}'") for k in range(-100, 100)]
    bench.check(batch)
    numbers, texts = filter_on(bench.eddy, "x"), filter_on(bench.eddy, "s")
    assert numbers.cells > 200 and texts.cells > 200
    before = bench.eddy.size_bytes
    random.Random(3).shuffle(crowd)
    for one in crowd:
        bench.leave(one)
    assert numbers.cells < 80 and texts.cells < 80
    assert bench.eddy.size_bytes < 0.6 * before
    bench.check(batch)
    bench.enrol("x >= 0")
    bench.check(batch)


def test_constants_of_strings_are_let_go_of() -> None:
    bench = Bench()
    strings = bench.session.engine.strings

    def left() -> int:
        """Strings in the pool when no row holds any."""
        bench.eddy.sort(bench.batch(Writer(random.Random(4)).rows(50)), keep=False)
        strings.sweep(np.zeros(strings.capacity, np.bool_))
        return len(strings) - 1  # the empty one

    stays = bench.enrol("s > 'm'")
    crowd = [bench.enrol(f"s = 'nobody has this {k}'") for k in range(200)]
    assert left() > 200
    for one in crowd:
        bench.leave(one)
    assert left() < 80, "few bounds that are nobody's may stay"
    bench.leave(stays)
    assert left() == 0


def test_queries_with_one_predicate_on_a_subject_cost_one_visit_however_many() -> None:
    bench = Bench()
    for k in range(100):
        bench.enrol(f"x > {k % 25}")
    batch = bench.batch(Writer(random.Random(5)).rows(1000))
    bench.eddy.sort(batch, keep=False)
    assert (bench.eddy.rows, bench.eddy.visits) == (1000, 1000)


def failing() -> Session:
    made = session()

    def picky(v: int | None) -> bool:
        if v == 13:
            raise ValueError("thirteen")
        return v is not None and v > 10

    made.create_function("picky", picky, "BOOLEAN")
    return made


def test_only_queries_whose_own_predicate_reaches_the_row_fail() -> None:
    bench = Bench(s=failing())
    reaches = bench.enrol("picky(x)")
    also = bench.enrol("l = 0 OR picky(x)")
    guarded = bench.enrol("x <> 13 AND picky(x)")
    others = [bench.enrol(text) for text in ("x > 11", "l = 1", "odd(x)")]
    rows = Writer(random.Random(6)).rows(6)
    rows |= {"x": [11, 12, 13, 14, None, 3], "l": [1, 1, 1, 0, 0, 1]}
    batch = bench.batch(rows)
    found, failed = bench.eddy.sort(batch, keep=True)
    assert failed == [reaches, also]
    assert all(isinstance(m.failed, DataError) and "thirteen" in str(m.failed) for m in failed)
    assert all(m.failed is None for m in (guarded, *others))
    split = found.split()
    assert [split.of(m.bit).tolist() for m in (guarded, *others)] == [
        [0, 1, 3],
        [1, 2, 3],
        [0, 1, 2, 5],
        [0, 2, 5],
    ]
    again, failed = bench.eddy.sort(batch, keep=True)
    assert failed == [], "who has failed gets no more rows"
    assert again.counts[[reaches.bit, also.bit]].tolist() == [0, 0]
    assert again.counts[guarded.bit] == 3


def test_a_function_that_failed_is_not_called_for_queries_that_never_asked() -> None:
    """Nobody else has a predicate: the function is the first that rows come to."""
    bench = Bench(s=failing())
    bad, every = bench.enrol("picky(x)"), bench.enrol("TRUE")
    rows = Writer(random.Random(8)).rows(3) | {"x": [12, 13, 14]}
    found, failed = bench.eddy.sort(bench.batch(rows), keep=True)
    assert failed == [bad]
    assert found.split().of(every.bit).tolist() == [0, 1, 2]
    _, failed = bench.eddy.sort(bench.batch(rows), keep=True)
    assert failed == []
    bench.leave(bad)
    bench.check(bench.batch(rows))


@pytest.mark.parametrize("other", ["TRUE", "strict(x)", "strict(l) AND i > 0"])
def test_whether_a_query_fails_does_not_hang_on_others_that_do(other: str) -> None:
    """NULL is not less than 3, nor more than 1: nothing is left to be asked, though NULL AND … must be computed for SQL."""
    made = session()

    def strict(v: int | None) -> bool:
        if v is None:
            raise ValueError("nothing")
        return v % 2 == 1

    made.create_function("strict", strict, "BOOLEAN")
    bench = Bench(s=made)
    member, second = bench.enrol("x < 3 AND strict(x) OR x > 1"), bench.enrol(other)
    rows = Writer(random.Random(9)).rows(4) | {"x": [None, 1, 0, 5], "l": [1, 1, None, 1], "i": [1] * 4}
    found, failed = bench.eddy.sort(bench.batch(rows), keep=True)
    assert failed == ([] if other == "TRUE" else [second])
    assert found.split().of(member.bit).tolist() == [1, 3]
    assert (found.counts[member.bit], bench.eddy.counts[member.bit]) == (2, 2)
    assert bench.eddy.rows == 4


def test_a_function_is_called_only_for_rows_that_some_query_still_wants() -> None:
    made, seen = session(), []

    def slow(v: int | None) -> bool:
        seen.append(v)
        return True

    made.create_function("slow", slow, "BOOLEAN")
    bench = Bench(s=made)
    bench.enrol("slow(x) AND l = 1")
    bench.enrol("i > 0")
    rows = Writer(random.Random(7)).rows(5)
    rows |= {"x": [1, 2, 3, 4, 5], "l": [1, 0, 1, None, 1], "i": [1, 1, 0, 1, 0]}
    found, _ = bench.eddy.sort(bench.batch(rows), keep=True)
    assert sorted(seen) == [1, 3, 5]
    assert found.counts[:2].tolist() == [3, 3]
