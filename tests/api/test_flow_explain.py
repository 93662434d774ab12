"""`session.explain()` tells the whole shared flow: which operator serves which queries, and what it has done."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import penstock
from penstock.api.session import Session


def flow(**options: Any) -> Session:
    """Four queries over two streams, 40 rows of each."""
    s = penstock.connect(**{"join": "eddy", "replan": False} | options)
    for name in "ab":
        s.execute(f"CREATE STREAM {name} (ts BIGINT, x INT, y INT, s STRING) WATERMARK ts DELAY OF 0")
    s.query("SELECT x FROM a [RANGE 5] WHERE x > 2 AND y < 2", name="alert")
    s.query("SELECT x, COUNT(*) AS n FROM a [RANGE 5] WHERE x > 2 GROUP BY x", name="counts")
    s.query("SELECT x, COUNT(*) AS n FROM a [RANGE 5] WHERE x > 2 GROUP BY x", name="same")
    join = "SELECT l.x, r.y FROM a [RANGE 10] AS l, b [RANGE 20] AS r WHERE l.x = r.x AND l.y > 5 AND r.s LIKE 'p%'"
    s.query(join, name="pairs")
    for name in "ab":
        s.push(name, [{"ts": i, "x": i % 5, "y": i % 7, "s": "pq"[i % 2]} for i in range(40)])
    s.advance(39)
    return s


def test_json_tells_operators_their_queries_and_what_they_have_done() -> None:
    told = json.loads(flow().explain("json"))
    a, b = told["streams"]["a"], told["streams"]["b"]
    assert (a["rows"], b["rows"]) == (40, 40)
    assert a["queries"] == ["alert", "counts", "pairs", "same"] and b["queries"] == ["pairs"]
    assert a["lineage_bytes"] == 16, "a word for predicates, one for joins"
    by_name = {one["operator"]: one for one in a["operators"]}
    assert by_name["x"]["queries"] == ["alert", "counts", "same"]
    assert by_name["x"]["predicates"] == 2, "equal leaves are one"
    assert by_name["y"]["queries"] == ["alert", "pairs"]
    assert (by_name["x"]["cells"], by_name["y"]["cells"]) == (2, 3)
    assert a["visits"] == sum(one["rows"] for one in a["operators"]) <= 80
    for one in a["operators"]:
        assert 0 <= one["passed"] <= one["rows"] and one["selectivity"] == one["passed"] / one["rows"]
    assert sum(one["tickets"] for one in a["operators"]) == pytest.approx(1)
    (text,) = b["operators"]
    assert (text["queries"], text["rows"], text["passed"]) == (["pairs"], 40, 20)


def test_json_tells_plans_that_several_queries_are() -> None:
    told = json.loads(flow().explain("json"))
    (tail,) = told["tails"]
    assert tail["queries"] == ["counts", "same"]
    assert tail["reads"] == ["a"] and tail["bytes"] > 0


def test_json_tells_what_joins_share() -> None:
    s = flow()
    s.query("SELECT l.s FROM a [RANGE 30] AS l, b [RANGE 3] AS r WHERE l.s = r.s", name="texts")
    s.push("a", [{"ts": 40, "x": 1, "y": 6, "s": "p"}])
    s.advance(40)
    told = json.loads(s.explain("json"))
    stems = {one["stream"]: one for one in told["stems"]}
    assert stems["a"]["queries"] == stems["b"]["queries"] == ["pairs", "texts"]
    assert len(stems["a"]["indexes"]) == 2
    assert stems["a"]["rows"] == sum(i % 7 > 5 for i in range(30, 40)) + 1, (
        "what came before the longer window is gone by the shorter"
    )
    assert told["joins"] == [{"streams": ["a", "b"], "queries": ["pairs", "texts"]}]


def test_text_says_the_same_and_every_plan() -> None:
    text = flow().explain()
    assert re.search(
        r"^stream a: 40 rows, [12]\.\d\d visits and 16 bytes of lineage a row, for alert, counts, pairs, same$",
        text,
        re.MULTILINE,
    )
    assert re.search(
        r"^  grouped filter y: 2 predicates in 3 cells, .*\n    for alert, pairs$", text, re.MULTILINE
    )
    assert re.search(r"^SteM of b: 10 rows, indexed by r\.x, for pairs$", text, re.MULTILINE)
    assert re.search(
        r"^plan project x, COUNT\(\*\) AS n over a, [\d,]+ bytes\n    for counts, same$", text, re.MULTILINE
    )
    for name in ("alert", "counts", "same", "pairs"):
        assert f"\n\n{name} (" in text


def test_many_queries_are_counted_not_listed() -> None:
    s = flow()
    for k in range(20):
        s.query(f"SELECT x FROM b WHERE y > {k}", name=f"n{k:02}")
    assert "for n00, n01, n02, n03, n04, n05 and 15 more" in s.explain()


def test_dot_is_a_graph_whose_edges_have_ends() -> None:
    text = flow().explain("dot")
    assert text.startswith("digraph penstock {") and text.endswith("}")
    nodes = set(re.findall(r"^  (\w+) \[label=", text, re.MULTILINE))
    edges = re.findall(r"^  (\w+) -> (\w+)", text, re.MULTILINE)
    assert edges and {end for edge in edges for end in edge} == nodes
    assert 'label="counts, same"' in text and 'label="pairs"' in text
    assert text.count("shape=cylinder") == 2, "a SteM for each stream"
    assert len(edges) == len(set(edges))


def test_a_session_that_shares_nothing_has_plans_only() -> None:
    s = flow(share=False)
    told = json.loads(s.explain("json"))
    assert told["streams"] == {} and told["stems"] == told["joins"] == []
    assert sorted(q for tail in told["tails"] for q in tail["queries"]) == [
        "alert",
        "counts",
        "pairs",
        "same",
    ]
    assert "plan project x over a" in s.explain()


def test_a_format_that_does_not_exist_is_refused() -> None:
    with pytest.raises(penstock.StateError, match="no format 'xml'; one of text, json, dot"):
        flow().explain("xml")
