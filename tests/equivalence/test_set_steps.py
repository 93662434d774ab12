"""DISTINCT, INTERSECT and EXCEPT in steps of any size: whether values are found by a calendar or looked through, the same is said.

What is shown of a value is told by a brute force over the lifetimes of all copies, instant by instant.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

import penstock

STREAMS = """
CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF 0;
CREATE STREAM b (ts BIGINT, x INT) WATERMARK ts DELAY OF 0
"""
TWICE = "(SELECT x FROM a [RANGE 7] UNION ALL SELECT x FROM a [RANGE 31])"
"""Copies of one instant that end at different times."""
QUERIES = {
    "SELECT DISTINCT x FROM a [RANGE 31]": ("distinct", (31,), ()),
    f"SELECT DISTINCT x FROM {TWICE} AS t": ("distinct", (7, 31), ()),
    "SELECT x FROM a [RANGE 31] INTERSECT SELECT x FROM b [RANGE 12]": ("intersect", (31,), (12,)),
    "SELECT x FROM a [RANGE 31] EXCEPT SELECT x FROM b [RANGE 12]": ("except", (31,), (12,)),
    f"{TWICE} EXCEPT SELECT x FROM b [RANGE 12]": ("except", (7, 31), (12,)),
    "SELECT DISTINCT x FROM a [UNBOUNDED]": ("distinct", (10**9,), ()),
}
Rows = list[dict[str, int]]


def drawn(seed: int) -> dict[str, Rows]:
    """Some instants with many rows, some stretches with none."""
    chance = random.Random(seed)
    made: dict[str, Rows] = {"a": [], "b": []}
    for name, rows in made.items():
        now = 0
        while now < 400:
            keys = chance.choice((5, 100))
            rows += [{"ts": now, "x": chance.randrange(keys)} for _ in range(chance.choice((1, 1, 2, 9)))]
            now += chance.choice((0, 1, 1, 3, 40 if name == "b" else 2))
    return made


def expected(
    kind: str, lefts: tuple[int, ...], rights: tuple[int, ...], rows: dict[str, Rows]
) -> Counter[Any]:
    """The changes, from the definition: a value keeps its row while its potential reaches the announced exp."""
    copies: list[dict[int, list[tuple[int, int]]]] = [{}, {}]
    for side, name, windows in ((0, "a", lefts), (1, "b", rights)):
        for row in rows[name]:
            lives = [(row["ts"], row["ts"] + w) for w in windows]
            copies[side].setdefault(row["x"], []).extend(lives)
    said: Counter[Any] = Counter()
    last = max(row["ts"] for one in rows.values() for row in one)
    for x in {*copies[0], *copies[1]}:
        left, right = copies[0].get(x, []), copies[1].get(x, [])
        shown: int | None = None
        for t in sorted({t for life in left + right for t in life if t <= last}):
            ends = [[e for s, e in side if s <= t < e] for side in (left, right)]
            most = [max(side, default=None) for side in ends]
            wanted = most[0]
            if kind == "intersect" and wanted is not None:
                wanted = None if most[1] is None else min(wanted, most[1])
            if kind == "except" and most[1] is not None:
                wanted = None
            if shown is not None and shown <= t:
                shown = None
            if shown is not None and (wanted is None or wanted < shown):
                said["-", t, shown, x] += 1
                shown = None
            if shown is None and wanted is not None:
                said["+", t, wanted, x] += 1
                shown = wanted
    return said


def said(rows: dict[str, Rows], steps: list[int], **options: Any) -> list[Counter[Any]]:
    """The changes of all queries, with the clock going from step to step."""
    session = penstock.connect(**options)
    session.execute(STREAMS)
    queries = [session.query(text) for text in QUERIES]
    before = -1
    for until in steps:
        for name in "ab":
            some = [row for row in rows[name] if before < row["ts"] <= until]
            if some:
                session.push(name, some)
        session.advance(until)
        assert session.clock == until
        before = until
    return [
        Counter(
            (c["__op"], c["__ts"], c["__exp"] or 10**9 + c["__ts"], c["x"]) for c in q.changes().to_pylist()
        )
        for q in queries
    ]


@pytest.mark.parametrize("seed", range(4))
def test_steps_of_any_size_say_the_same(seed: int) -> None:
    rows = drawn(seed)
    last = max(row["ts"] for one in rows.values() for row in one)
    chance = random.Random(seed)
    ways: list[tuple[list[int], dict[str, Any]]] = [
        ([last], {}),
        (list(range(last + 1)), {}),
        (sorted({*chance.sample(range(last), 12), last}), {}),
        # Large steps and single instants in turn: the calendar is left and made anew.
        (sorted({*range(60, 64), *range(200, 203), *range(330, 332), 150, 151, 290, last}), {}),
        ([last // 2, last], {"eager": 1}),
        ([last // 2, last], {"partitions": 4}),
    ]
    truth = [expected(*told, rows) for told in QUERIES.values()]
    for steps, options in ways:
        for text, found, wanted in zip(QUERIES, said(rows, steps, **options), truth, strict=True):
            assert found == wanted, (text, steps, options, found - wanted, wanted - found)


def test_more_is_said_than_there_was_room_for() -> None:
    """Every copy changes the answer, so that the output grows in the middle of an instant."""
    instants = {"a": (0, 20, 60), "b": (1, 25, 61, 80)}
    rows = {name: [{"ts": t, "x": x} for t in times for x in range(200)] for name, times in instants.items()}
    truth = [expected(*told, rows) for told in QUERIES.values()]
    assert said(rows, [80]) == truth
