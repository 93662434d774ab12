"""Placements, rule by rule: for a query and a number of cells, what EXPLAIN says."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.operators.expressions.compiled import raises
from penstock.optimizer import optimize
from penstock.partitioning.placement import Placement, home, place
from penstock.plan.catalog import Catalog, Function
from penstock.plan.explain import outline
from penstock.plan.nodes import Aggregate, Node
from penstock.plan.query_root import Root, top
from penstock.sql import bind, parse
from penstock.types.data_type import Type

COLUMNS = "(ts BIGINT, x INT, y BIGINT, z INT, f DOUBLE, s STRING, e BOOLEAN)"
ALL = "hash(ts, x, y, z, f, s, e)"
HOME = 3  # of a query named q in four cells


def catalog() -> Catalog:
    known = Catalog()
    for name in "abcd":
        (made,) = parse(f"CREATE STREAM {name} {COLUMNS} WATERMARK ts DELAY OF 0")
        known.streams[name] = bind(made, known).stream
    for kind, name in (("TABLE", "t"), ("RETROACTIVE TABLE", "r")):
        (made,) = parse(f"CREATE {kind} {name} (x INT, s STRING)")
        known.tables[name] = bind(made, known).table
    known.functions["twice"] = Function("twice", lambda v: 2 * v, Type.BIGINT)
    return known


KNOWN = catalog()


def rooted(text: str) -> Root:
    return top(optimize(bind(parse(text)[0], KNOWN).query.root))


def placed(text: str, cells: int = 4, **how: Any) -> Placement:
    return place(rooted(text), cells, "q", **how)


def hold(text: str, expected: str, cells: int = 4, **how: Any) -> None:
    assert str(placed(text, cells, **how)) == expected


def in_one_cell(why: str, *aliases: str) -> str:
    return f"{', '.join(f'{a} in cell {HOME}' for a in aliases)}; 1 copy a row ({why})"


NO_KEY = "no key keeps together all that belong together"
NO_GROUP = "an aggregate without GROUP BY takes all rows"
NO_PARTITION = "ROWS without PARTITION BY counts all rows"


@pytest.mark.parametrize("window", ["[RANGE 5]", "[RANGE 6 SLIDE 2]", "[NOW]", "[UNBOUNDED]", ""])
def test_rows_that_meet_no_others_may_be_anywhere(window: str) -> None:
    text = f"SELECT x + 1 AS z FROM a {window} WHERE y > 3"
    hold(text, f"a by {ALL} over 4; 1 copy a row")
    assert placed(text).goes_anywhere
    both = f"{text} UNION ALL SELECT y FROM b {window}"
    hold(both, f"a by {ALL} over 4, b by {ALL} over 4; 1 copy a row")
    assert placed(both).goes_anywhere


def test_a_table_is_everywhere() -> None:
    for table in "tr":
        text = f"SELECT a.x FROM a [RANGE 5], {table} WHERE a.x = {table}.x"
        hold(text, f"a by {ALL} over 4, {table} everywhere; 1 copy a row")
        assert placed(text).goes_anywhere == (table == "t")  # updates of r take results back
    hold(
        "SELECT a.x FROM a [RANGE 5], b [RANGE 5], r WHERE a.s = r.s AND a.x = b.x",
        "a by hash(x) over 4, b by hash(x) over 4, r everywhere; 1 copy a row",
    )


# ------------------------------------------------------------------ joins


@pytest.mark.parametrize(
    ("predicates", "expected"),
    [
        ("a.x = b.x", "a by hash(x) over 4, b by hash(x) over 4"),
        ("a.x = b.x AND a.y < b.y", "a by hash(x) over 4, b by hash(x) over 4"),
        ("a.x = b.x AND a.s = b.s", "a by hash(x, s) over 4, b by hash(x, s) over 4"),
        ("a.x = b.z", "a by hash(x) over 4, b by hash(z) over 4"),
        ("a.x = b.x AND a.x = b.z", "a by hash(x) over 4, b by hash(x) over 4"),
        ("a.x + 1 = b.y", "a by hash((CAST(x AS BIGINT) + 1)) over 4, b by hash(y) over 4"),
        ("twice(a.x) = b.y", "a by hash(udf:twice(x)) over 4, b by hash(y) over 4"),
    ],
)
def test_partners_of_an_equi_join_are_together(predicates: str, expected: str) -> None:
    text = f"SELECT a.x FROM a [RANGE 5], b [RANGE 5] WHERE {predicates}"
    hold(text, f"{expected}; 1 copy a row")
    assert not placed(text).goes_anywhere


@pytest.mark.parametrize(
    ("predicates", "expected"),
    [
        ("a.x = b.y", ["CAST(x AS BIGINT)", "y"]),
        ("a.x = b.f", ["CAST(x AS DOUBLE)", "f"]),
        ("a.y = b.f", ["CAST(y AS DOUBLE)", "f"]),
        ("a.x = b.y AND a.x = c.f", ["CAST(x AS DOUBLE)", "CAST(y AS DOUBLE)", "f"]),
        ("a.x = b.y AND b.y = c.f", ["CAST(x AS DOUBLE)", "CAST(y AS DOUBLE)", "f"]),
        ("a.y = b.y AND b.y = c.f", ["CAST(y AS DOUBLE)", "CAST(y AS DOUBLE)", "f"]),
    ],
)
def test_keys_are_cast_to_their_common_type(predicates: str, expected: list[str]) -> None:
    streams = "abc"[: len(expected)]
    text = f"SELECT a.x FROM {', '.join(f'{n} [RANGE 5]' for n in streams)} WHERE {predicates}"
    keys = ", ".join(f"{n} by hash({key}) over 4" for n, key in zip(streams, expected, strict=True))
    hold(text, f"{keys}; 1 copy a row")


def test_a_class_may_reach_all_inputs() -> None:
    hold(
        "SELECT a.x FROM a [RANGE 5], b [RANGE 5], c [RANGE 5] WHERE a.x = b.x AND b.x = c.z",
        "a by hash(x) over 4, b by hash(x) over 4, c by hash(z) over 4; 1 copy a row",
    )


CHAIN = "SELECT a.x FROM a [RANGE 5], b [RANGE 5], c [RANGE 5] WHERE a.x = b.x AND b.y = c.y"
LONGER = CHAIN.replace("WHERE", ", d [RANGE 5] WHERE") + " AND c.s = d.s"
STAR = CHAIN.replace("WHERE", ", d [RANGE 5] WHERE").replace("b.y = c.y", "a.y = c.y AND a.s = d.s")
CYCLE = CHAIN + " AND c.s = a.s"


@pytest.mark.parametrize(
    ("text", "cells", "expected"),
    [
        (CHAIN, 2, "a by hash(x) over 2, b by hash(x) over 2, c everywhere; 1.33 copies a row"),
        (CHAIN, 4, ("a by hash(x) over 2 in 2 copies, b by hash(x) over 2 × hash(y) over 2, "
                    "c by hash(y) over 2 in 2 copies; 1.67 copies a row")),
        (CHAIN, 16, ("a by hash(x) over 4 in 4 copies, b by hash(x) over 4 × hash(y) over 4, "
                     "c by hash(y) over 4 in 4 copies; 3 copies a row")),
        (LONGER, 4, ("a by hash(x) over 2 in 2 copies, b by hash(x) over 2 in 2 copies, "
                     "c by hash(s) over 2 in 2 copies, d by hash(s) over 2 in 2 copies; 2 copies a row")),
        (STAR, 8, ("a by hash(x) over 2 × hash(y) over 2 × hash(s) over 2, b by hash(x) over 2 in 4 copies, "
                   "c by hash(y) over 2 in 4 copies, d by hash(s) over 2 in 4 copies; 3.25 copies a row")),
        (CYCLE, 8, ("a by hash(x) over 2 × hash(s) over 2 in 2 copies, b by hash(x) over 2 × hash(y) over 2 in 2 copies, "
                    "c by hash(y) over 2 × hash(s) over 2 in 2 copies; 2 copies a row")),
    ],
)  # fmt: skip
def test_several_classes_make_a_grid(text: str, cells: int, expected: str) -> None:
    hold(text, expected, cells)


@pytest.mark.parametrize(("cells", "used"), [(3, 3), (5, 4), (7, 6), (11, 9), (13, 12)])
def test_a_prime_number_of_cells_is_not_taken_by_its_word(cells: int, used: int) -> None:
    assert len(placed(CHAIN, cells).cells) == used


def test_a_fast_stream_is_not_copied() -> None:
    hold(
        CHAIN,
        "a by hash(x) over 4, b by hash(x) over 4, c everywhere; 1.03 copies a row",
        rates={"a": 100, "b": 1, "c": 1},
    )


def test_a_self_join_is_one_input_or_two() -> None:
    same = placed("SELECT p.x FROM a [RANGE 5] p, a [RANGE 9] q WHERE p.x = q.x")
    assert str(same) == "p by hash(x) over 4, q by hash(x) over 4; 1 copy a row"
    assert len(same.inputs) == 1
    other = placed("SELECT p.x FROM a [RANGE 5] p, a [RANGE 9] q WHERE p.x = q.z")
    assert str(other) == "p by hash(x) over 4, q by hash(z) over 4; 2 copies a row"
    assert len({i.name for i in other.inputs}) == 2


def test_without_an_equality_one_side_meets_all_of_the_other() -> None:
    text = "SELECT a.x FROM a [RANGE 5], b [RANGE 5] WHERE a.x < b.x"
    hold(text, f"a by {ALL} over 2, b everywhere; 1.5 copies a row", 2)
    hold(text, f"a by {ALL} over 2 in 2 copies, b by {ALL} over 2 in 2 copies; 2 copies a row", 4)
    hold(
        "SELECT a.x FROM a [RANGE 5], b [RANGE 5], c [NOW]",
        f"a by {ALL} over 3, b everywhere, c everywhere; 2.33 copies a row",
        3,
    )


# ------------------------------------------------------------------ windows that count


def test_windows_that_count_rows() -> None:
    hold("SELECT x FROM a [ROWS 5]", in_one_cell(NO_PARTITION, "a"))
    hold("SELECT x FROM a [PARTITION BY x, s ROWS 5]", "a by hash(x, s) over 4; 1 copy a row")
    join = "SELECT a.x FROM a [{}], b [RANGE 5] WHERE a.x = b.x"
    hold(join.format("PARTITION BY x ROWS 2"), "a by hash(x) over 4, b by hash(x) over 4; 1 copy a row")
    hold(
        join.format("PARTITION BY s ROWS 2"),
        f"a by hash(s) over 2 in 2 copies, b by {ALL} over 2 in 2 copies; 2 copies a row",
    )
    hold(join.format("ROWS 2"), f"a everywhere, b by {ALL} over 4; 2.5 copies a row")
    hold(
        "SELECT x FROM a [ROWS 5] UNION ALL SELECT x FROM b [RANGE 5]",
        f"a by hash(0) over 4, b by {ALL} over 4; 1 copy a row",
    )


def test_the_last_rows_of_a_join_depend_on_an_order_that_only_one_cell_has() -> None:
    last = "(SELECT a.x FROM a, b WHERE a.x = b.x) [{}ROWS 3] AS j"
    for partition, why in (("", NO_PARTITION), ("PARTITION BY x ", NO_KEY)):
        hold(f"SELECT x FROM {last.format(partition)}", in_one_cell(why, "a", "b"))
    hold(
        f"SELECT c.x FROM c [RANGE 5], {last.format('')} WHERE c.x = j.x",
        in_one_cell(NO_PARTITION, "c", "a", "b"),
    )


# ------------------------------------------------------------------ groups


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT x, COUNT(*) AS n FROM a [RANGE 5] GROUP BY x", "a by hash(x) over 4; 1 copy a row"),
        ("SELECT COUNT(*) AS n FROM a [RANGE 5] GROUP BY x, s", "a by hash(x, s) over 4; 1 copy a row"),
        ("SELECT x % 3 AS m, COUNT(*) AS n FROM a [RANGE 5] GROUP BY x % 3",
         "a by hash((CAST(x AS BIGINT) % 3)) over 4; 1 copy a row"),
        ("SELECT COUNT(*) AS n FROM a [RANGE 5]", in_one_cell(NO_GROUP, "a")),
        ("SELECT b.x, COUNT(*) AS n FROM a [RANGE 5], b [RANGE 5] WHERE a.x = b.x GROUP BY b.x",
         "a by hash(x) over 4, b by hash(x) over 4; 1 copy a row"),
        ("SELECT b.x, COUNT(*) AS n FROM a [RANGE 5], b [RANGE 5] WHERE a.y = b.x GROUP BY b.x",
         "a by hash(y) over 4, b by hash(CAST(x AS BIGINT)) over 4; 1 copy a row"),
        ("SELECT b.x, b.s, COUNT(*) AS n FROM a [RANGE 5], b [RANGE 5] WHERE a.x = b.x GROUP BY b.x, b.s",
         "a by hash(x) over 4, b by hash(x) over 4; 1 copy a row"),
        ("SELECT b.s, COUNT(*) AS n FROM a [RANGE 5], b [RANGE 5] WHERE a.x = b.x GROUP BY b.s",
         "a everywhere, b by hash(s) over 4; 2.5 copies a row"),
        (CHAIN.replace("a.x FROM", "b.y, COUNT(*) AS n FROM") + " GROUP BY b.y",
         "a everywhere, b by hash(y) over 4, c by hash(y) over 4; 2 copies a row"),
        (CHAIN.replace("a.x FROM", "b.x, b.y, COUNT(*) AS n FROM") + " GROUP BY b.x, b.y",
         ("a by hash(x) over 2 in 2 copies, b by hash(x) over 2 × hash(y) over 2, "
          "c by hash(y) over 2 in 2 copies; 1.67 copies a row")),
    ],
)  # fmt: skip
def test_the_rows_of_a_group_are_together(text: str, expected: str) -> None:
    hold(text, expected)


def test_blocks_within_blocks_meet_in_a_key_or_not_at_all() -> None:
    inner = "(SELECT x, s, COUNT(*) AS n FROM a [RANGE 5] GROUP BY x, s) AS g"
    hold(f"SELECT s, SUM(n) AS m FROM {inner} GROUP BY s", "a by hash(s) over 4; 1 copy a row")
    hold(f"SELECT n, COUNT(*) AS m FROM {inner} GROUP BY n", in_one_cell(NO_KEY, "a"))
    hold(
        f"SELECT b.x, g.n FROM b [RANGE 5], {inner} WHERE b.z = g.x",
        "b by hash(z) over 4, a by hash(x) over 4; 1 copy a row",
    )
    hold(
        "SELECT a.x FROM a [RANGE 5], (SELECT MAX(y) AS m FROM b [RANGE 5]) AS g WHERE a.y = g.m",
        f"a by {ALL} over 4, b everywhere; 2.5 copies a row",
    )


def test_an_aggregate_without_groups_has_a_row_where_there_is_no_input() -> None:
    """So it cannot stand in one place of a grid as `a [ROWS 5]` can: the others would say 0."""
    for union in ("SELECT COUNT(*) AS n FROM a [RANGE 5] UNION ALL SELECT x FROM b [RANGE 5]",
                  "SELECT COUNT(*) AS n FROM a [RANGE 5] UNION SELECT x FROM b [RANGE 5]"):  # fmt: skip
        hold(union, in_one_cell(NO_GROUP, "a", "b"))


def test_what_is_computed_from_a_float_is_not_told_by_its_group() -> None:
    """0.0 and -0.0 are one group, and 1 / f differs."""
    inner = "(SELECT DISTINCT f FROM a [RANGE 5]) AS g"
    hold(f"SELECT f, COUNT(*) AS n FROM {inner} GROUP BY f", "a by hash(f) over 4; 1 copy a row")
    hold(f"SELECT 1 / f AS i, COUNT(*) AS n FROM {inner} GROUP BY 1 / f", in_one_cell(NO_KEY, "a"))


# ------------------------------------------------------------------ rows compared by value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT DISTINCT x, s FROM a [RANGE 5]", "a by hash(x, s) over 4; 1 copy a row"),
        ("SELECT DISTINCT 1 AS one FROM a [RANGE 5]", in_one_cell(NO_KEY, "a")),
        ("SELECT x, y FROM a [RANGE 5] INTERSECT SELECT z, y FROM b [RANGE 5]",
         "a by hash(x, y) over 4, b by hash(z, y) over 4; 1 copy a row"),
        ("SELECT x, y FROM a [RANGE 5] EXCEPT ALL SELECT y, x FROM b [RANGE 5]",
         "a by hash(CAST(x AS BIGINT), y) over 4, b by hash(y, CAST(x AS BIGINT)) over 4; 1 copy a row"),
        ("SELECT x + 1 AS z, s FROM a [RANGE 5] EXCEPT SELECT y, upper(s) AS u FROM b [RANGE 5]",
         "a by hash((CAST(x AS BIGINT) + 1), s) over 4, b by hash(y, upper(s)) over 4; 1 copy a row"),
        ("SELECT a.x FROM a [RANGE 5], b [RANGE 5] WHERE a.x = b.x EXCEPT SELECT x FROM c [RANGE 5]",
         "a by hash(x) over 4, b by hash(x) over 4, c by hash(x) over 4; 1 copy a row"),
        ("SELECT a.y FROM a [RANGE 5], b [RANGE 5] WHERE a.x = b.x EXCEPT SELECT y FROM c [RANGE 5]",
         "a by hash(y) over 4, b everywhere, c by hash(y) over 4; 2 copies a row"),
        ("SELECT x FROM a [RANGE 5] UNION SELECT 5 AS five FROM b [RANGE 5]",
         "a by hash(x) over 4, b by hash(5) over 4; 1 copy a row"),
        ("SELECT x FROM a [RANGE 5] EXCEPT SELECT COUNT(*) AS n FROM b [RANGE 5]",
         "a by hash(x) over 4, b everywhere; 2.5 copies a row"),
        ("SELECT COUNT(*) AS n FROM b [RANGE 5] INTERSECT SELECT x FROM a [RANGE 5]",
         "b everywhere, a by hash(x) over 4; 2.5 copies a row"),
        ("SELECT COUNT(*) AS n FROM b [RANGE 5] EXCEPT SELECT x FROM a [RANGE 5]",
         in_one_cell(NO_GROUP, "b", "a")),
        ("ISTREAM(SELECT x, s FROM a [RANGE 5])", "a by hash(x, s) over 4; 1 copy a row"),
        ("DSTREAM(SELECT x FROM a [RANGE 5])", "a by hash(x) over 4; 1 copy a row"),
        ("RSTREAM(SELECT x FROM a [RANGE 5])", in_one_cell("RSTREAM repeats all rows", "a")),
        ("SELECT x FROM ISTREAM(SELECT x, y FROM a [RANGE 5]) [RANGE 3] AS i",
         "a by hash(x, y) over 4; 1 copy a row"),
    ],
)  # fmt: skip
def test_equal_rows_are_together(text: str, expected: str) -> None:
    hold(text, expected)


def test_a_key_of_few_values_takes_few_cells() -> None:
    hold("SELECT DISTINCT e FROM a [RANGE 5]", "a by hash(e) over 3; 1 copy a row", 6)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT a.s FROM a [RANGE 5] WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 5] WHERE b.x = a.x)",
         "a by hash(x) over 4, b by hash(x) over 4; 1 copy a row"),
        ("SELECT a.s FROM a [RANGE 5] WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 5] WHERE b.x < a.x)",
         f"a by {ALL} over 4, b everywhere; 2.5 copies a row"),
        ("SELECT a.s FROM a [RANGE 5] WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.x = a.x)",
         f"a by {ALL} over 4, r everywhere; 1 copy a row"),
        ("SELECT DISTINCT a.s FROM a [RANGE 5] LEFT ANTI JOIN b [RANGE 5] ON b.x = a.x",
         "a by hash(s) over 4, b everywhere; 2.5 copies a row"),
        ("SELECT DISTINCT a.x FROM a [RANGE 5] LEFT ANTI JOIN b [ROWS 3] ON b.x = a.x",
         "a by hash(x) over 4, b everywhere; 2.5 copies a row"),
    ],
)  # fmt: skip
def test_what_rules_a_row_out_is_where_the_row_is(text: str, expected: str) -> None:
    hold(text, expected)


def test_equal_rows_of_a_strict_query_are_together_if_nobody_nets_them() -> None:
    text = "SELECT a.s FROM a [RANGE 5] WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 5] WHERE b.x = a.x)"
    hold(text, "a by hash(s) over 4, b everywhere; 2.5 copies a row", netted=False)
    hold(text.replace("a.s", "a.x"), "a by hash(x) over 4, b by hash(x) over 4; 1 copy a row", netted=False)
    weak = "SELECT a.s FROM a [RANGE 5], b [RANGE 5] WHERE b.x = a.x"
    hold(weak, "a by hash(x) over 4, b by hash(x) over 4; 1 copy a row", netted=False)


def test_only_accepted_terms_are_keys() -> None:
    def is_plain(term: Any) -> bool:
        return not raises(term)

    text = "SELECT a.x FROM a [RANGE 5], b [RANGE 5] WHERE twice(a.x) = b.y"
    hold(f"{text} AND a.s = b.s", "a by hash(s) over 4, b by hash(s) over 4; 1 copy a row", accepts=is_plain)
    hold(text, f"a by {ALL} over 2, b everywhere; 1.5 copies a row", 2, accepts=is_plain)


# ------------------------------------------------------------------ the plan over inputs


def test_the_plan_scans_inputs() -> None:
    root = rooted("SELECT x, COUNT(*) AS n FROM a [RANGE 5] GROUP BY x")
    found = place(root, 4, "q")
    (one,) = found.inputs
    assert one.declared.name == one.name != "a"
    assert outline(found.root.node) == outline(root.node).replace("stream a", f"stream {one.name} AS a")
    assert any(n is found.root.group for n in nodes(found.root.node) if isinstance(n, Aggregate))
    assert (found.root.visible, found.root.key) == (root.visible, root.key)


def nodes(node: Node) -> list[Node]:
    return [node, *(n for i in node.inputs for n in nodes(i))]


def test_queries_with_the_same_routing_share_an_input() -> None:
    one = placed("SELECT x, COUNT(*) AS n FROM a [RANGE 5] GROUP BY x")
    other = placed("SELECT u.x FROM a [RANGE 9] AS u, b [RANGE 2] WHERE u.x = b.x")
    third = placed("SELECT DISTINCT z FROM a [RANGE 9]")
    assert set(one.inputs) < set(other.inputs)
    assert not set(third.inputs) & set(other.inputs)


def test_queries_that_cannot_be_spread_are_spread_over_the_cells() -> None:
    root = rooted("SELECT COUNT(*) AS n FROM a [RANGE 5]")
    cells = [place(root, 4, f"q{i}").cells for i in range(40)]
    assert {tuple(c) for c in cells} == {(0,), (1,), (2,), (3,)}
    assert [c[0] for c in cells] == [home(f"Q{i}", 4) for i in range(40)]


def test_one_cell_needs_no_reason() -> None:
    hold("SELECT COUNT(*) AS n FROM a [RANGE 5]", "a in cell 0; 1 copy a row", 1)
    hold(CHAIN, "a in cell 0, b in cell 0, c in cell 0; 1 copy a row", 1)
    with pytest.raises(ValueError, match="at least one cell"):
        placed(CHAIN, 0)
