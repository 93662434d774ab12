"""Rewritings that look right and are not: why the rules stop where they do."""

from __future__ import annotations

from collections import Counter

from penstock.optimizer import optimize
from penstock.plan.nodes import Distinct, Intersect, Join, Project
from tests.optimizer.twice import Twice

DDL = ";".join(f"CREATE STREAM {s} (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0" for s in "abcde")


def said(sql: str, *steps: tuple[str, int]) -> Counter[tuple[object, ...]]:
    """What a query says when rows with x = 1 come; `steps`: stream and ts."""
    twice = Twice(DDL, sql)
    twice.add("q", optimize(twice.written))
    for stream, ts in steps:
        twice.feed({stream: [(ts, 1)]}, ts - 1)
    twice.feed({}, steps[-1][1])
    return twice.said()["q"]


def alive(changes: Counter[tuple[object, ...]], at: int) -> int:
    """Rows shown at an instant."""
    count = 0
    for (op, ts, exp, *_), copies in changes.items():
        assert isinstance(ts, int) and isinstance(exp, int)
        if ts <= at < exp:
            count += copies if op == "+" else -copies
    return count


def test_except_all_does_not_change_places_with_a_join() -> None:
    """Figure 6 of the paper: two copies on the left, one on the right, two partners. (2 - 1)·2 is not 2·2 - 1."""
    rows = (("a", 1), ("a", 2), ("b", 3), ("c", 4), ("c", 5))
    difference = "SELECT x FROM a [RANGE 99] EXCEPT ALL SELECT x FROM b [RANGE 99]"
    below = said(f"SELECT q.x FROM ({difference}) AS q JOIN c [RANGE 99] ON q.x = c.x", *rows)
    pairs = "SELECT a.x FROM a [RANGE 99] JOIN c [RANGE 99] ON a.x = c.x"
    above = said(f"{pairs} EXCEPT ALL SELECT x FROM b [RANGE 99]", *rows)
    assert (alive(below, 5), alive(above, 5)) == (2, 3)


def test_distinct_below_a_join_announces_other_ends() -> None:
    """The copy that DISTINCT shows is the older one; when b comes, the pair with the younger one lasts longer."""
    rows = (("a", 1), ("a", 5), ("b", 6))
    above = said("SELECT DISTINCT a.x FROM a [RANGE 10], b [RANGE 50] WHERE a.x = b.x", *rows)
    inner = "SELECT DISTINCT x FROM a [RANGE 10]"
    below = said(f"SELECT DISTINCT q.x FROM ({inner}) AS q, b [RANGE 50] WHERE q.x = b.x", *rows)
    assert above == {("+", 6, 15, 1): 1}
    assert below == {("+", 6, 11, 1): 1}


def test_intersect_of_intersect_announces_other_ends() -> None:
    rows = (("a", 1), ("b", 2), ("a", 5), ("c", 6))
    flat = "SELECT DISTINCT a.x FROM a [RANGE 10], b [RANGE 50], c [RANGE 50] WHERE a.x = b.x AND b.x = c.x"
    nested = " INTERSECT ".join(
        f"SELECT x FROM {s}" for s in ("a [RANGE 10]", "b [RANGE 50]", "c [RANGE 50]")
    )
    assert said(flat, *rows) == {("+", 6, 15, 1): 1}
    assert said(nested, *rows) == {("+", 6, 11, 1): 1}


def test_of_three_inputs_one_is_intersected_with_a_join_of_two() -> None:
    """So the rule takes out one input only."""
    sql = "SELECT DISTINCT a.x FROM a [RANGE 100], b [RANGE 500], c [RANGE 500] WHERE a.x = b.x AND b.x = c.x"
    twice = Twice(DDL, sql)
    plan = optimize(twice.written)
    assert isinstance(plan, Project)
    both = plan.input
    assert isinstance(both, Intersect)
    assert isinstance(both.left, Project)
    assert isinstance(both.left.input, Join)
    assert len(both.left.input.inputs) == 2


def test_over_negative_input_intersect_says_more() -> None:
    """The left row that ends at 10 is taken back. A pair still ends then, so DISTINCT stays silent; no left row does."""
    rows = (("a", 1), ("c", 1), ("e", 1), ("d", 2), ("b", 3))
    left = """SELECT x FROM a [RANGE 9] WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 50] WHERE b.x = a.x)
              UNION ALL SELECT x FROM d [RANGE 28]"""
    right = "SELECT x FROM c [RANGE 19] UNION ALL SELECT x FROM e [RANGE 9]"
    distinct = f"SELECT DISTINCT q.x FROM ({left}) AS q, ({right}) AS r WHERE q.x = r.x"
    assert isinstance(optimize(Twice(DDL, distinct).written), Distinct)
    assert said(distinct, *rows) == {("+", 1, 10, 1): 1}
    intersect = f"SELECT x FROM ({left}) AS q INTERSECT SELECT x FROM ({right}) AS r"
    assert said(intersect, *rows) == {("+", 1, 10, 1): 1, ("-", 3, 10, 1): 1, ("+", 3, 20, 1): 1}


def test_having_of_a_query_that_ends_in_groups_stays() -> None:
    """Below GROUP BY it would be the same answer, but the query would no longer be STRICT."""
    rows = (("a", 1), ("a", 2))
    groups = "SELECT x, COUNT(*) AS n FROM a [RANGE 10]"
    having = said(f"{groups} GROUP BY x HAVING x > 0", *rows)
    where = said(f"{groups} WHERE x > 0 GROUP BY x", *rows)
    assert having - where == {("-", 2, 11, 1, 1): 1}
