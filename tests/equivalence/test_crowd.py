"""Shared = alone, for crowds of 5 to 40 queries and one of 200; `PENSTOCK_CASES` sets how many (default 600: 40).

A failure prints its seed and a crowd made small: `python -m tests.equivalence.crowd --seconds 0 --seed SEED` plays it again.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace

import pytest

import penstock
from penstock.types import sizes
from tests.equivalence.crowd import Differs, Outcome, check, smaller
from tests.equivalence.crowd_case import Act, Crowd, draw

CROWDS = max(int(os.environ.get("PENSTOCK_CASES", "600")) // 15, 1)
BLOCK = 5


def hold(crowd: Crowd, outcome: Outcome) -> None:
    try:
        check(crowd, outcome)
    except Differs as differs:
        pytest.fail(str(smaller(differs)), pytrace=False)


@pytest.mark.parametrize("first", range(0, CROWDS, BLOCK))
def test_a_query_says_among_others_what_it_says_alone(first: int) -> None:
    outcome = Outcome()
    for seed in range(first, first + BLOCK):
        hold(draw(seed), outcome)
    assert outcome.refused == 0
    assert outcome.telling > outcome.queries / 4
    assert outcome.snapshots > outcome.queries / 2


@pytest.mark.parametrize("short", [40, 1 << 16])
def test_so_it_is_where_lineages_are_noted_in_parts(short: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first row on, in numbers that are soon too long to be short, and let go of whenever there are some."""
    monkeypatch.setattr("penstock.sharing.join_catalog.MANY", -1)
    monkeypatch.setattr("penstock.sharing.join_catalog.RARE", 10**9)
    monkeypatch.setattr(sizes, "current", replace(sizes.current, lineages=3))
    monkeypatch.setattr("penstock.sharing.stem_store.SHORT", short)
    outcome = Outcome()
    for seed in range(900 + short % 7, 905 + short % 7):
        hold(draw(seed), outcome)
    assert outcome.telling > outcome.queries / 4


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "size"), [(200_018, 200), (70_017, 70)])
def test_more_queries_than_a_word_has_bits(seed: int, size: int) -> None:
    crowd = draw(seed, size)
    outcome = Outcome()
    hold(crowd, outcome)
    assert outcome.queries >= size
    assert outcome.telling > size / 2
    assert most_at_once(crowd) > 64


def most_at_once(crowd: Crowd) -> int:
    standing = most = 0
    for action in crowd.actions:
        if isinstance(action, Act):
            standing += {"add": 1, "drop": -1}.get(action.what, 0)
            most = max(most, standing)
    return most


def test_crowds_hold_what_sharing_must_get_right() -> None:
    """The generator draws what it is there for: otherwise the other tests prove less than they say."""
    words: Counter[str] = Counter()
    for seed in range(60):
        crowd = draw(seed)
        texts = [asked.text for asked in crowd.queries]
        added = [a.query for a in crowd.actions if isinstance(a, Act) and a.what == "add"]
        words["same text twice"] += len(texts) - len(set(texts))
        words["dropped"] += sum(isinstance(a, Act) and a.what == "drop" for a in crowd.actions)
        words["again"] += sum(texts[q] in {texts[p] for p in added[:n]} for n, q in enumerate(added))
        words["kept" if crowd.kept else "bare"] += 1
        words["functions"] += crowd.functions
        for word in (
            " = ", " <> ", " < ", " <= ", " > ", " >= ", "BETWEEN", " IN (", "NOT IN", "LIKE", "IS NULL", "IS NOT NULL", " OR ",
            "NOT (", "NaN", "Infinity", "-0.0", "-2147483648", "-9223372036854775808", "DATE '", "TIMESTAMP '", "% 3", "upper(",
            "tag(", "is_small(", "RANGE", "SLIDE", "ROWS", "NOW", "UNBOUNDED", "DISTINCT", "GROUP BY", "HAVING", "EXCEPT", "EXCEPT ALL",
            "INTERSECT", "UNION", "NOT EXISTS", " AS t3", " AS u1", "WHERE NULL", "1 = 0",
        ):  # fmt: skip
            words[word] += sum(word in text for text in texts)
    rare = {word: number for word, number in words.items() if number < 3}
    assert not rare


def test_a_failing_function_stops_only_the_queries_that_call_it() -> None:
    s = penstock.connect()
    s.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
    s.create_function("inverse", lambda x: 1 / x, returns="DOUBLE")
    plain = [s.query(f"SELECT x FROM a [RANGE 5] WHERE x < {n}", name=f"plain{n}") for n in range(10)]
    calling = [
        s.query(f"SELECT x FROM a [RANGE 5] WHERE inverse(x) > 0.{n}", name=f"calling{n}") for n in range(5)
    ]
    s.push("a", [{"ts": 1, "x": 1}, {"ts": 2, "x": 2}, {"ts": 3, "x": 3}])
    s.advance(3)
    with pytest.raises(penstock.DataError, match="inverse failed on"):
        s.push("a", [{"ts": 4, "x": 0}, {"ts": 6, "x": 5}])
    s.push("a", [{"ts": 7, "x": 4}])
    s.advance(7)
    for n, query in enumerate(plain):
        assert query.changes()["x"].to_pylist() == [x for x in (1, 2, 3, 0, 5, 4) if x < n]
    for n, query in enumerate(calling):
        assert query.changes()["x"].to_pylist() == [x for x in (1, 2, 3) if n * x < 10]
        with pytest.raises(penstock.StateError, match="stopped at an error"):
            query.changes()
        query.drop()
    s.push("a", [{"ts": 9, "x": 8}])
    s.advance(9)
    assert plain[9].changes()["x"].to_pylist() == [8]


def test_a_dropped_query_says_nothing_more_and_its_name_is_free() -> None:
    s = penstock.connect()
    s.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
    keeper = s.query("SELECT x FROM a [RANGE 100]", name="keeper")
    first = s.query("SELECT DISTINCT x FROM a [RANGE 100]", name="q")
    s.push("a", [{"ts": 1, "x": 1}])
    s.advance(1)
    assert first.matched == 1
    first.drop()
    for call in (first.changes, first.snapshot, first.drop):
        with pytest.raises(penstock.StateError, match="was dropped"):
            call()
    again = s.query("SELECT DISTINCT x FROM a [RANGE 100]", name="q")
    assert (again.matched, again.snapshot().num_rows, again.changes().num_rows) == (0, 0, 0)
    s.push("a", [{"ts": 2, "x": 1}])
    s.advance(2)
    assert again.changes()["__ts"].to_pylist() == [2]
    assert keeper.matched == 2
