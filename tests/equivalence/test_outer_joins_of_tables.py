"""Outer joins with tables: a plain table is looked up at a row's ts, a retroactive one is as it is."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import penstock
from tests.equivalence.outer import SCHEMA, Answers, alive, bag, rows, window

CREATE = (
    "CREATE STREAM a (ts BIGINT, k INT, v INT) WATERMARK ts DELAY OF INTERVAL 0;"
    "CREATE STREAM b (ts BIGINT, k INT, v INT) WATERMARK ts DELAY OF INTERVAL 0"
)
TABLE = pa.schema([("k", pa.int32()), ("w", pa.int32())])
Row = dict[str, Any]
EXPIRIES = ("upa", "negative", "direct", "hybrid")


def versions(random_: random.Random) -> dict[int, list[Row]]:
    """What a table holds from an instant on."""
    made = {0: [{"k": k, "w": random_.randrange(3)} for k in range(4)]}
    content = list(made[0])
    for at in sorted(random_.sample(range(2, 40), 6)):
        content = [row for row in content if random_.random() < 0.7]
        key = None if random_.random() < 0.2 else random_.randrange(6)
        content.append({"k": key, "w": random_.randrange(3)})
        made[at] = list(content)
    return made


def at(history: dict[int, list[Row]], ts: int) -> list[Row]:
    return history[max(t for t in history if t <= ts)]


class Feed:
    """A session that is fed rows and versions of a table."""

    def __init__(self, history: dict[int, list[Row]], *, retroactive: bool, **options: Any) -> None:
        self.session = penstock.connect(**options)
        self.session.execute(CREATE)
        self.history = history
        self.session.create_table("t", pa.Table.from_pylist(history[0], TABLE), retroactive=retroactive)
        self.last = 0

    def until(self, tau: int, feed: dict[str, list[Row]]) -> None:
        times = sorted(t for t in self.history if t)
        for before, t in zip([0, *times], times, strict=False):
            if self.last < t <= tau:
                old, new = (Counter((r["k"], r["w"]) for r in self.history[x]) for x in (before, t))
                table = [
                    pa.Table.from_pylist([dict(zip("kw", r, strict=True)) for r in some.elements()], TABLE)
                    for some in (new - old, old - new)
                ]
                self.session.update_table("t", insert=table[0], delete=table[1], at=t)
        for stream, its in feed.items():
            part = [row for row in its if self.last < row["ts"] <= tau]
            if part:
                self.session.push(stream, pa.Table.from_pylist(part, SCHEMA))
        self.session.advance(tau)
        self.last = tau


def looked_up(row: Row, history: dict[int, list[Row]], over: int, slide: int = 1) -> list[tuple[Any, ...]]:
    """What a row makes of the table as it was when the row became visible."""
    seen = -(-row["ts"] // slide) * slide
    found = [t for t in at(history, seen) if t["k"] == row["k"] is not None and t["w"] >= over]
    return [(row["k"], row["v"], t["k"], t["w"]) for t in found] or [(row["k"], row["v"], None, None)]


@pytest.mark.parametrize("expiry", EXPIRIES)
@pytest.mark.parametrize("text", ["[RANGE 7]", "[RANGE 9 SLIDE 3]", "[ROWS 3]", "[UNBOUNDED]"])
def test_a_row_keeps_what_it_found_in_a_plain_table(text: str, expiry: str) -> None:
    for seed in range(4):
        random_ = random.Random(f"{text}{seed}")
        history = versions(random_)
        feed = {"a": rows(random_, 30, 5)}
        over = random_.randrange(2)
        fed = Feed(history, retroactive=False, expiry=expiry)
        on = f"a.k = t.k AND t.w >= {over}"
        sides = f"a {text} LEFT JOIN t ON {on}" if seed % 2 else f"t RIGHT JOIN a {text} ON {on}"
        query = fed.session.query(f"SELECT a.k, a.v, t.k AS tk, t.w FROM {sides}")
        assert query.pattern == {"[ROWS 3]": "STRICT", "[UNBOUNDED]": "MONOTONIC"}.get(text, "WEAKEST")
        if text == "[UNBOUNDED]":
            fed.until(45, feed)
            told = Counter(tuple(row.values())[3:] for row in query.changes().to_pylist())
            assert told == Counter(one for row in feed["a"] for one in looked_up(row, history, over))
            continue
        for tau in (8, 15, 16, 30, 45):
            fed.until(tau, feed)
            live = [row for row in feed["a"] if row["ts"] <= tau]
            if text == "[ROWS 3]":
                live = live[-3:]
            elif "SLIDE" in text:
                live = [r for r in live if -(-r["ts"] // 3) * 3 <= tau < -(-(r["ts"] + 9) // 3) * 3]
            else:
                live = [row for row in live if tau < row["ts"] + 7]
            slide = 3 if "SLIDE" in text else 1
            expected = Counter(one for row in live for one in looked_up(row, history, over, slide))
            assert bag(query.snapshot()) == expected, tau


def test_plain_tables_below_joins_groups_and_outer_joins() -> None:
    random_ = random.Random(5)
    history = versions(random_)
    feed = {"a": rows(random_, 40, 5), "b": rows(random_, 40, 5)}
    fed = Feed(history, retroactive=False)
    enriched = "a [RANGE 7] LEFT JOIN t ON a.k = t.k"
    counted = fed.session.query(f"SELECT t.w, COUNT(*) AS n FROM {enriched} GROUP BY t.w")
    absent = fed.session.query(f"SELECT a.v FROM {enriched} WHERE t.k IS NULL")
    outer = fed.session.query(
        f"SELECT a.v, t.w, b.v AS bv FROM {enriched} LEFT JOIN b [RANGE 5] ON a.v = b.v"
    )
    for tau in (9, 17, 26, 45):
        fed.until(tau, feed)
        live = [r for r in feed["a"] if r["ts"] <= tau < r["ts"] + 7]
        made = [one for row in live for one in looked_up(row, history, 0)]
        assert bag(counted.snapshot()) == Counter(Counter(one[3] for one in made).items())
        assert bag(absent.snapshot()) == Counter((one[1],) for one in made if one[2] is None)
        beside = [r["v"] for r in feed["b"] if r["ts"] <= tau < r["ts"] + 5]
        pairs = [(one[1], one[3], v) for one in made for v in ([v for v in beside if v == one[1]] or [None])]
        assert bag(outer.snapshot()) == Counter(pairs)


@pytest.mark.parametrize("expiry", EXPIRIES)
@pytest.mark.parametrize("kind", ["LEFT", "RIGHT", "FULL"])
def test_rows_of_a_retroactive_table_may_be_kept(kind: str, expiry: str) -> None:
    random_ = random.Random(kind)
    history = versions(random_)
    feed = {"a": rows(random_, 30, 6), "b": rows(random_, 30, 6)}
    fed = Feed(history, retroactive=True, expiry=expiry)

    def text(source: Any) -> str:
        return (
            f"SELECT a.k, a.v, t.k AS tk, t.w, b.v AS bv FROM {source('a', 7)} AS a {kind} JOIN t"
            f" ON a.k = t.k AND a.v >= t.w LEFT JOIN {source('b', 4)} AS b ON t.k = b.k"
        )

    query = fed.session.query(text(window))
    answers = Answers(feed)
    for tau in (1, 9, 17, 26, 45):
        fed.until(tau, feed)
        answers.connection.register("t", pa.Table.from_pylist(at(history, tau), TABLE))
        expected = Counter(answers.connection.execute(text(alive(tau))).fetchall())
        assert bag(query.snapshot()) == expected, tau


def test_a_plain_table_in_a_place_where_it_cannot_be_looked_up() -> None:
    session = penstock.connect()
    session.execute(CREATE + "; CREATE TABLE t (k INT, w INT); CREATE RETROACTIVE TABLE r (k INT, w INT)")
    for kind in ("RIGHT", "FULL"):
        with pytest.raises(penstock.PlanError, match="own rows cannot be kept") as refused:
            session.query(f"SELECT a.v FROM a [RANGE 5] {kind} JOIN t ON a.k = t.k")
        assert "stream LEFT JOIN table" in str(refused.value)
    with pytest.raises(penstock.PlanError, match="STRICT") as refused:
        session.query(
            "SELECT a.v FROM a [RANGE 5] LEFT JOIN b [RANGE 5] ON a.k = b.k LEFT JOIN t ON a.k = t.k"
        )
    assert "join the table with its stream first" in str(refused.value)
    session.query("SELECT a.v FROM a [RANGE 5] LEFT JOIN t ON a.k = t.k LEFT JOIN b [RANGE 5] ON a.k = b.k")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k FROM a [RANGE 5] EXCEPT SELECT k FROM r",
        "SELECT r.k, COUNT(*) AS n FROM r GROUP BY r.k UNION ALL SELECT k, v FROM a [RANGE 5]",
    ],
)
def test_no_error_advises_to_make_retroactive_what_is(text: str) -> None:
    session = penstock.connect()
    session.execute(CREATE + "; CREATE RETROACTIVE TABLE r (k INT, w BIGINT)")
    with pytest.raises(penstock.PlanError, match="r can only be read by a join") as refused:
        session.query(text.replace("k, v FROM a", "k, ts FROM a"))
    assert "make it" not in str(refused.value)
