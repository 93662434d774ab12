"""Cuts: for a query and a number of cells, whether its plan is cut, where, and what the parts are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.partitioning.test_placement import CHAIN, NO_GROUP, NO_KEY, NO_PARTITION, in_one_cell, rooted

from penstock.operators.expressions.compiled import raises
from penstock.partitioning.log_retention import horizon
from penstock.partitioning.placement import place
from penstock.partitioning.stages import Stages, stages, two_stages
from penstock.plan.explain import outline
from penstock.plan.update_pattern import Pattern, pattern

JOIN = "a [RANGE 5], b [RANGE 5] WHERE a.x = b.x"
BY_X = "a by hash(x) over {n}, b by hash(x) over {n}; 1 copy a row"
GROUPS = "(SELECT x, s, COUNT(*) AS n FROM a [RANGE 5] GROUP BY x, s) AS g"


def staged(text: str, cells: int = 4, **how: Any) -> Stages:
    return stages(rooted(text), cells, "q", **how)


def hold(text: str, below: str, above: str, cells: int = 4, **how: Any) -> None:
    """Two stages, as EXPLAIN tells of them."""
    expected = f"stage 1: {below.format(n=cells)}; stage 2: {above.format(n=cells)}"
    assert str(staged(text, cells, **how)) == expected


def hold_whole(text: str, cells: int = 4, **how: Any) -> None:
    """One stage, placed as ever."""
    found = staged(text, cells, **how)
    assert not found.lower
    assert str(found) == str(found.upper) == str(place(rooted(text), cells, "q", **how))


# ------------------------------------------------------------------ when


@pytest.mark.parametrize(
    ("text", "above"),
    [
        (f"SELECT b.s, COUNT(*) AS n FROM {JOIN} GROUP BY b.s", "q@1 by hash(s) over {n}; 1 copy a row"),
        (f"SELECT DISTINCT a.s FROM {JOIN}", "q@1 by hash(s) over {n}; 1 copy a row"),
        (f"SELECT a.y FROM {JOIN} EXCEPT SELECT y FROM c [RANGE 5]",
         "q@1 by hash(y) over {n}, c by hash(y) over {n}; 1 copy a row"),
        (f"SELECT y FROM c [RANGE 5] INTERSECT SELECT a.y FROM {JOIN}",
         "c by hash(y) over {n}, q@1 by hash(y) over {n}; 1 copy a row"),
        (f"ISTREAM(SELECT a.s FROM {JOIN})", "q@1 by hash(s) over {n}; 1 copy a row"),
        ("SELECT DISTINCT a.s FROM a [RANGE 5] LEFT ANTI JOIN b [RANGE 5] ON b.x = a.x",
         "q@1 by hash(s) over {n}; 1 copy a row"),
    ],
)  # fmt: skip
def test_what_needs_another_key_than_what_lies_below_is_cut_off(text: str, above: str) -> None:
    hold(text, BY_X, above, 8)


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        (f"SELECT b.x, COUNT(*) AS n FROM {JOIN} GROUP BY b.x", 8),
        (f"SELECT b.s, COUNT(*) AS n FROM {JOIN} GROUP BY b.s", 2),
        (f"SELECT DISTINCT a.s, b.y FROM {JOIN}", 4),
        (CHAIN, 4),
        (f"SELECT b.s, COUNT(*) AS n FROM {JOIN} GROUP BY b.s", 1),
    ],
)
def test_up_to_two_copies_a_row_are_cheaper_than_a_second_exchange(text: str, cells: int) -> None:
    hold_whole(text, cells)


def test_rates_say_what_a_copy_costs() -> None:
    text = f"SELECT b.s, COUNT(*) AS n FROM {JOIN} GROUP BY b.s"
    hold_whole(text, 8, rates={"a": 1, "b": 100})
    assert staged(text, 8, rates={"a": 100, "b": 1}).lower


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT COUNT(*) AS n FROM a [RANGE 5]", NO_GROUP),
        ("SELECT x FROM a [ROWS 5]", NO_PARTITION),
        ("SELECT x, COUNT(*) AS n FROM a [ROWS 5] GROUP BY x", NO_PARTITION),
        ("SELECT DISTINCT 1 AS one FROM a [RANGE 5]", NO_KEY),
        ("RSTREAM(SELECT x FROM a [RANGE 5])", "RSTREAM repeats all rows"),
    ],
)
def test_where_nothing_below_could_be_spread_there_is_no_cut(text: str, why: str) -> None:
    assert str(staged(text)) == in_one_cell(why, "a")


def test_below_a_window_that_counts_rows_nothing_is_cut() -> None:
    joined = "(SELECT a.s, a.x FROM a, b WHERE a.x = b.x) [PARTITION BY s ROWS 3] AS j"
    for text in (f"SELECT s, COUNT(*) AS n FROM {joined} GROUP BY s", f"SELECT MAX(x) AS m FROM {joined}"):
        hold_whole(text)
        assert not list(two_stages(rooted(text), 4, "q"))


@pytest.mark.parametrize(
    ("text", "below", "why"),
    [
        (f"SELECT COUNT(*) AS n FROM {JOIN}", BY_X, NO_GROUP),
        (f"SELECT MAX(n) AS m FROM {GROUPS}", "a by hash(x, s) over 4; 1 copy a row", NO_GROUP),
        (f"RSTREAM(SELECT a.y FROM {JOIN})", BY_X, "RSTREAM repeats all rows"),
    ],
)
def test_what_has_one_cell_keeps_it_and_what_lies_below_is_spread(text: str, below: str, why: str) -> None:
    hold(text, below, in_one_cell(why, "q@1"))


def test_the_one_cell_is_left_as_little_as_can_be() -> None:
    """Not only the join is spread but also the groups, at the price of copies."""
    text = f"SELECT MAX(n) AS m FROM (SELECT b.s, COUNT(*) AS n FROM {JOIN} GROUP BY b.s) AS g"
    hold(text, "a everywhere, b by hash(s) over 4; 2.5 copies a row", in_one_cell(NO_GROUP, "q@1"))


def test_groups_of_groups() -> None:
    text = f"SELECT n, COUNT(*) AS m FROM {GROUPS} GROUP BY n"
    hold(text, "a by hash(x, s) over 4; 1 copy a row", "q@1 by hash(n) over 4; 1 copy a row")
    hold_whole(f"SELECT s, SUM(n) AS m FROM {GROUPS} GROUP BY s")


def test_a_long_join_is_cut_into_two() -> None:
    hold(CHAIN, BY_X, "q@1 by hash(y) over {n}, c by hash(y) over {n}; 1 copy a row", 16)
    turned = CHAIN.replace("a [RANGE 5], b [RANGE 5], c [RANGE 5]", "c [RANGE 5], a [RANGE 5], b [RANGE 5]")
    found = staged(turned, 16)
    assert [f.name for f in found.upper.root.node.schema] == ["x"]
    assert str(found.lower[0].placement) == BY_X.format(n=16)


def test_tables_are_looked_up_when_a_result_is_whole() -> None:
    """A table that acts forward is read at a result's ts, and a row of the inner join is no result yet."""
    found = staged(CHAIN.replace("c [RANGE 5]", "c [RANGE 5], t") + " AND b.x = t.x", 16)
    (low,) = found.lower
    assert (low.placement.tables, found.upper.tables) == ((), ("t",))


def test_a_negative_tuple_goes_where_its_row_went() -> None:
    """Neither time nor end nor sign is part of a key, also where any would do."""
    groups = f"(SELECT b.s, COUNT(*) AS n FROM {JOIN} GROUP BY b.s) AS g"
    ways = list(two_stages(rooted(f"SELECT c.x, g.n FROM c [RANGE 5], {groups} WHERE c.y < g.n"), 8, "q"))
    dealt = [str(i.routing) for way in ways for i in way.upper.inputs if i.stream.name == "q@1"]
    assert dealt == ["by hash(n) over 2 in 4 copies", "by hash(s) over 2 in 4 copies"]


def test_several_parts_may_lie_below() -> None:
    other = "SELECT c.y FROM c [RANGE 5], d [RANGE 5] WHERE c.s = d.s"
    hold(
        f"SELECT a.y FROM {JOIN} INTERSECT {other}",
        f"q@1 from {BY_X}; q@2 from {BY_X.replace('hash(x)', 'hash(s)').replace('a by', 'c by').replace('b by', 'd by')}",
        "q@1 by hash(y) over {n}, q@2 by hash(y) over {n}; 1 copy a row",
        8,
    )


def test_equal_parts_are_one() -> None:
    part = f"(SELECT DISTINCT a.s FROM {JOIN})"
    text = f"SELECT p.s FROM {part} AS p, {part} AS r WHERE p.s = r.s"
    hold(text, BY_X, "q@1 by hash(s) over {n}, q@1 by hash(s) over {n}; 1 copy a row", 8)


def test_only_accepted_terms_are_keys_of_either_stage() -> None:
    text = f"SELECT twice(b.z) AS t, COUNT(*) AS n FROM {JOIN} GROUP BY twice(b.z)"
    assert str(staged(text, 8).upper) == "q@1 by hash(udf:twice(z)) over 8; 1 copy a row"
    plain = staged(text, 8, accepts=lambda term: not raises(term))
    assert str(plain.lower[0].placement) == BY_X.format(n=8)
    assert not plain.upper.is_spread


# ------------------------------------------------------------------ what the parts are


def test_the_parts_are_plans_over_inputs() -> None:
    """Only what somebody above reads crosses; above the leaf the plan is as it was."""
    text = f"SELECT b.s, SUM(a.y) AS y, SUM(b.y) AS z FROM {JOIN} GROUP BY b.s"
    found = staged(text, 8)
    (low,) = found.lower
    assert low.name == low.stream.name == "q@1"
    assert [str(f) for f in low.stream.schema] == [
        "__ts BIGINT", "__exp BIGINT", "__sign TINYINT", "y BIGINT", "y_ BIGINT", "s STRING",
    ]  # fmt: skip
    a, b = (i.name for i in low.placement.inputs)
    (changes,) = found.upper.inputs
    assert outline(low.placement.root.node).split("\n") == [
        "project y, y AS y_, s",
        "  join of 2 on (a.x = b.x)",
        "    window [RANGE 5]",
        f"      stream {a} AS a",
        "    window [RANGE 5]",
        f"      stream {b} AS b",
    ]
    *above, leaf, window, scan = outline(found.upper.root.node).split("\n")
    assert above == outline(rooted(text).node).split("\n")[: len(above)]
    assert leaf.strip() == (
        "project NULL AS ts, NULL AS x, y, NULL AS z, NULL AS f, NULL AS s, NULL AS e, "
        "NULL AS ts, NULL AS x, y_ AS y, NULL AS z, NULL AS f, s, NULL AS e"
    )
    assert window.strip() == "window [ANNOUNCED WEAK]"
    assert scan.strip() == f"stream {changes.name} AS q@1"


def test_a_group_below_takes_back_what_it_replaces() -> None:
    (low,) = staged(f"SELECT n, COUNT(*) AS m FROM {GROUPS} GROUP BY n").lower
    root = low.placement.root
    assert (root.group, root.judged.pattern) == (None, Pattern.STRICT)


def test_a_query_says_of_itself_what_it_said_whole() -> None:
    texts = [
        f"SELECT COUNT(*) AS n FROM {JOIN} GROUP BY b.s",
        f"SELECT b.s, COUNT(*) AS n FROM {JOIN} GROUP BY b.s HAVING COUNT(*) > 1",
        f"SELECT DISTINCT a.s FROM {JOIN}",
        f"ISTREAM(SELECT a.s FROM {JOIN})",
    ]
    for text in texts:
        whole, above = rooted(text), staged(text, 8).upper.root
        assert above.node != whole.node
        assert (above.judged, above.visible, above.key) == (whole.judged, whole.visible, whole.key)
        assert (above.hidden_key, above.faithful) == (whole.hidden_key, whole.faithful)
        assert (above.group is None) == (whole.group is None)
        assert pattern(above.node) == pattern(whole.node)


def test_how_far_back_rows_matter_is_told_by_the_whole() -> None:
    found = staged(f"SELECT b.s, COUNT(*) AS n FROM {JOIN} GROUP BY b.s", 8)
    assert horizon(found.root.node) == 10
    assert horizon(found.upper.root.node) is None


def test_changes_become_rows() -> None:
    (low,) = staged(f"SELECT b.s, COUNT(*) AS n FROM {JOIN} GROUP BY b.s", 8).lower
    said = pa.table({"__op": ["+", "-"], "__ts": [1, 2], "__exp": [None, 9], "s": ["u", "v"]})
    assert low.rows(said).to_pylist() == [
        {"__ts": 1, "__exp": None, "__sign": 1, "s": "u"},
        {"__ts": 2, "__exp": 9, "__sign": -1, "s": "v"},
    ]
