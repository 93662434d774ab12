"""Which plan is taken, by what is known of the data."""

from __future__ import annotations

import pytest

from penstock.optimizer import optimize
from penstock.plan.cost import estimate
from penstock.plan.explain import outline
from penstock.plan.statistics import Statistics
from tests.optimizer.drawn import DDL
from tests.optimizer.twice import Twice

FTP = {"rates": {"c": 0.01}}
"""The third stream after a selection that passes few rows, as in the paper's Query 5."""
BY_ANOTHER = """SELECT q.x, c.y FROM
    (SELECT x, y FROM a [RANGE 100] WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 100] WHERE b.x = a.x)) AS q
    JOIN c [RANGE 100] ON c.y = q.y"""
QUERY_5 = """SELECT q.x, c.y FROM
    (SELECT x FROM a [RANGE 100] WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 100] WHERE b.x = a.x)) AS q
    JOIN c [RANGE 100] ON c.x = q.x"""


def chosen(sql: str, **known: object) -> list[str]:
    """The plan, without windows and streams."""
    plan = optimize(Twice(DDL, sql).written, Statistics(**known))  # type: ignore[arg-type]
    return [line.strip() for line in outline(plan).splitlines() if "window" not in line]


def test_negation_goes_above_a_join_that_makes_few_rows() -> None:
    plan = chosen(BY_ANOTHER, **FTP)
    assert plan[1:4] == ["anti join on (b.x = a.x)", "join of 2 on (c.y = q.y)", "stream a"]


def test_negation_goes_below_a_join_that_makes_many() -> None:
    plan = chosen(BY_ANOTHER, rates={"c": 50.0})
    assert plan[1:3] == ["join of 2 on (c.y = q.y)", "anti join on (b.x = a.x)"]


def test_negation_written_above_is_pushed_down() -> None:
    sql = """SELECT a.x, c.y FROM a [RANGE 100] JOIN c [RANGE 100] ON a.y = c.y
             WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 100] WHERE b.x = a.x)"""
    plan = chosen(sql, rates={"c": 50.0}, matches={"(b.x = a.x)": 0.9})
    assert plan[1:4] == ["join of 2 on (a.y = c.y)", "anti join on (b.x = a.x)", "stream a"]


def test_negation_may_ask_the_other_side_of_an_equality() -> None:
    """Query 5 negates and joins by the same attribute: then the third stream, which has few rows, is the one to ask."""
    plan = chosen(QUERY_5, **FTP)
    assert plan[1:5] == ["join of 2 on (c.x = q.x)", "stream a", "anti join on (b.x = c.x)", "stream c"]


def test_of_several_negations_each_finds_its_place() -> None:
    sql = """SELECT a.x FROM a [RANGE 100] JOIN c [RANGE 100] ON a.y = c.y
             WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 100] WHERE b.x = a.x)
               AND NOT EXISTS (SELECT 1 FROM d [RANGE 100] WHERE d.x = a.x AND d.y = c.x)"""
    plan = chosen(sql, rates={"c": 50.0})
    assert plan[1:4] == [
        "anti join on (d.x = a.x) AND (d.y = c.x)",
        "join of 2 on (a.y = c.y)",
        "anti join on (b.x = a.x)",
    ]


@pytest.mark.parametrize(
    ("sql", "known"),
    [
        (QUERY_5, FTP),
        ("SELECT DISTINCT a.x FROM a [RANGE 500], b [RANGE 500] WHERE a.x = b.x", {}),
        ("SELECT y FROM a [RANGE 9] WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.x = a.x)", {}),
        ("SELECT DISTINCT x, y FROM (SELECT DISTINCT x, y FROM a [RANGE 50]) AS q", {}),
        ("SELECT x FROM (SELECT x FROM a [RANGE 50] EXCEPT SELECT y FROM b [RANGE 50]) AS q WHERE x = 1", {}),
    ],
)
def test_what_is_rewritten_is_expected_to_cost_less(sql: str, known: dict[str, dict[str, float]]) -> None:
    written, statistics = Twice(DDL, sql).written, Statistics(**known)  # type: ignore[arg-type]
    assert (
        estimate(optimize(written, statistics), statistics).total < 0.9 * estimate(written, statistics).total
    )


def test_predicates_sink_through_what_works_by_value() -> None:
    sets = "SELECT x, y FROM a [RANGE 5] EXCEPT ALL SELECT x, y FROM b [RANGE 5]"
    plan = chosen(f"SELECT x FROM ({sets}) AS q WHERE x > 1")
    assert plan == [
        "project x", "except all", "project x, y", "select (x > 1)", "stream a",
        "project x, y", "select (x > 1)", "stream b",
    ]  # fmt: skip


def test_predicates_on_groups_sink_unless_the_query_ends_there() -> None:
    groups = "SELECT x, COUNT(*) AS n FROM a [RANGE 5] GROUP BY x HAVING x > 1 AND COUNT(*) > 2"
    assert chosen(groups)[1] == "select ((x > 1) AND (COUNT(*) > 2))"
    inner = chosen(f"SELECT q.n FROM ({groups}) AS q JOIN b [RANGE 5] ON b.x = q.x")
    assert inner[3:7] == ["select (COUNT(*) > 2)", "aggregate COUNT(*) by x", "select (x > 1)", "stream a"]


def test_what_an_anti_join_asks_of_its_right_alone_is_asked_there() -> None:
    sql = "SELECT a.y FROM a [RANGE 5] LEFT ANTI JOIN b [RANGE 5] ON a.x = b.x AND b.y > 2 WHERE a.y < 3"
    assert chosen(sql) == [
        "project y", "anti join on (a.x = b.x)", "select (y < 3)", "stream a",
        "select (b.y > 2)", "stream b",
    ]  # fmt: skip


def test_floats_stay_above_what_works_by_value() -> None:
    ddl = DDL + "; CREATE STREAM f (ts BIGINT, z DOUBLE) WATERMARK ts DELAY OF INTERVAL 0"
    sql = "SELECT z FROM (SELECT z FROM f [RANGE 5] INTERSECT SELECT z FROM f [RANGE 9]) AS q WHERE 1 / z > 0"
    assert "select" in outline(optimize(Twice(ddl, sql).written)).splitlines()[1]
