"""Which plan a query means: one line of SQL, one line of algebra."""

from __future__ import annotations

import pytest

from tests.sql.cases import plan, query

PLANS = [
    ("SELECT x FROM a", "Project[x](a[UNBOUNDED])"),
    ("SELECT * FROM a [RANGE 100]", "Project[ts; x; y; s](a[RANGE 100])"),
    (
        "SELECT a.* FROM a [RANGE 100 SLIDE 10], b [NOW]",
        "Project[a.ts AS ts; a.x AS x; a.y AS y; a.s AS s](Join(a[RANGE 100 SLIDE 10], b[RANGE 1]))",
    ),
    ("SELECT X, Y AS Why FROM A", "Project[x AS X; y AS Why](a:A[UNBOUNDED])"),
    ("SELECT x FROM a [ROWS 50]", "Project[x](a[ROWS 50])"),
    ("SELECT x FROM a [PARTITION BY x, y ROWS 1]", "Project[x](a[PARTITION BY #1, #2 ROWS 1])"),
    ("SELECT x FROM a [UNBOUNDED]", "Project[x](a[UNBOUNDED])"),
    ("SELECT aa.x FROM a [RANGE 5] AS aa", "Project[x](a:aa[RANGE 5])"),
    ("SELECT aa.x FROM a AS aa [RANGE 5]", "Project[x](a:aa[RANGE 5])"),
    ("SELECT aa.x FROM a [RANGE 5] aa", "Project[x](a:aa[RANGE 5])"),
    ("SELECT aa.x FROM a aa [RANGE 5]", "Project[x](a:aa[RANGE 5])"),
    (
        "SELECT a.x FROM a, b [ROWS 3], c [UNBOUNDED], r WINDOW 30",
        "Project[a.x AS x](Join(a[RANGE 30], b[ROWS 3], c[UNBOUNDED], r))",
    ),
    (
        "SELECT symbol FROM trades [RANGE 5 MINUTES SLIDE 1 MINUTE]",
        "Project[symbol](trades[RANGE 300000000 SLIDE 60000000])",
    ),
    ("SELECT symbol FROM trades [RANGE 1 WEEK]", "Project[symbol](trades[RANGE 604800000000])"),
    ("SELECT symbol FROM trades WINDOW 30 SECONDS", "Project[symbol](trades[RANGE 30000000])"),
    ("SELECT symbol FROM trades [RANGE INTERVAL '5' MINUTE]", "Project[symbol](trades[RANGE 300000000])"),
    (
        "SELECT a.x FROM a, b WHERE a.x = b.x AND a.y > 5",
        "Project[a.x AS x](Filter[((a.x = b.x) AND (a.y > 5))](Join(a[UNBOUNDED], b[UNBOUNDED])))",
    ),
    (
        "SELECT a.x FROM a JOIN b ON a.x = b.x AND a.y > 5 JOIN c ON c.x = b.x",
        "Project[a.x AS x](Join[(a.x = b.x); (a.y > 5); (c.x = b.x)](a[UNBOUNDED], b[UNBOUNDED], c[UNBOUNDED]))",
    ),
    (
        "SELECT a.x FROM a INNER JOIN b ON a.x = b.x",
        "Project[a.x AS x](Join[(a.x = b.x)](a[UNBOUNDED], b[UNBOUNDED]))",
    ),
    (
        "SELECT q.x FROM ((SELECT x FROM a) AS q JOIN b ON q.x = b.x)",
        "Project[q.x AS x](Join[(q.x = b.x)](Project[x](a[UNBOUNDED]), b[UNBOUNDED]))",
    ),
    (
        "SELECT q.x FROM (((SELECT x FROM a)) [RANGE 5] q CROSS JOIN (b JOIN c ON b.x = c.x))",
        "Project[q.x AS x](Join[(b.x = c.x)](Project[x](a[UNBOUNDED])[RANGE 5], b[UNBOUNDED], c[UNBOUNDED]))",
    ),
    (
        "SELECT q.x FROM (ISTREAM(SELECT x FROM a) AS q CROSS JOIN b)",
        "Project[q.x AS x](Join(ToStream[ISTREAM](Project[x](a[UNBOUNDED])), b[UNBOUNDED]))",
    ),
    (
        "SELECT x FROM (((SELECT x FROM a) UNION ALL SELECT x FROM b) EXCEPT SELECT x FROM c) AS q",
        "Project[x](Except(Union(Project[x](a[UNBOUNDED]), Project[x](b[UNBOUNDED])), Project[x](c[UNBOUNDED])))",
    ),
    ("SELECT a.x FROM a CROSS JOIN b", "Project[a.x AS x](Join(a[UNBOUNDED], b[UNBOUNDED]))"),
    (
        "SELECT a.x FROM a, b JOIN c ON b.x = c.x",
        "Project[a.x AS x](Join[(b.x = c.x)](a[UNBOUNDED], b[UNBOUNDED], c[UNBOUNDED]))",
    ),
    (
        "SELECT * FROM a JOIN b USING (x)",
        "Project[a.x AS x; a.ts AS ts; a.y AS y; a.s AS s; b.ts AS ts_1; b.z AS z](Join[(a.x = b.x)](a[UNBOUNDED], b[UNBOUNDED]))",
    ),
    (
        "SELECT x, a.x, b.x FROM a JOIN b USING (x) JOIN c USING (x)",
        "Project[a.x AS x; a.x AS x_1; b.x AS x_2](Join[(a.x = b.x); (a.x = c.x)](a[UNBOUNDED], b[UNBOUNDED], c[UNBOUNDED]))",
    ),
    (
        "SELECT a.x, name FROM a JOIN r ON a.x = r.x",
        "Project[a.x AS x; r.name AS name](Join[(a.x = r.x)](a[UNBOUNDED], r))",
    ),
    (
        "SELECT a.x FROM a LEFT ANTI JOIN b [RANGE 5] ON a.x = b.x",
        "Project[x](AntiJoin[(a.x = b.x)](a[UNBOUNDED], b[RANGE 5]))",
    ),
    (
        "SELECT a.x, z FROM a LEFT JOIN b ON a.x = b.x",
        "Project[a.x AS x; b.z AS z](LeftJoin[(a.x = b.x)](a[UNBOUNDED], b[UNBOUNDED]))",
    ),
    (
        "SELECT c.x, b.x FROM c RIGHT OUTER JOIN b ON c.x = b.x",
        "Project[c.x AS x; b.x AS x_1](RightJoin[(c.x = b.x)](c[UNBOUNDED], b[UNBOUNDED]))",
    ),
    (
        "SELECT x FROM c FULL JOIN b USING (x)",
        "Project[coalesce(c.x, b.x) AS x](FullJoin[(c.x = b.x)](c[UNBOUNDED], b[UNBOUNDED]))",
    ),
    (
        "SELECT x FROM a WHERE NOT EXISTS (SELECT * FROM b [RANGE 5] WHERE b.x = a.x AND b.z > 1.5 AND y > 0)",
        "Project[x](AntiJoin[(b.x = a.x); (a.y > 0)](a[UNBOUNDED], Filter[(b.z > 1.5)](b[RANGE 5])))",
    ),
    (
        "SELECT x FROM a WHERE x > 1 AND NOT EXISTS (SELECT 1 FROM c) AND (NOT (EXISTS (SELECT 1 FROM b WHERE b.x = a.x)))",
        "Project[x](AntiJoin[(b.x = a.x)](AntiJoin(Filter[(x > 1)](a[UNBOUNDED]), c[UNBOUNDED]), b[UNBOUNDED]))",
    ),
    (
        "SELECT x FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.x = a.x AND NOT EXISTS (SELECT 1 FROM c WHERE c.x = b.x))",
        "Project[x](AntiJoin[(b.x = a.x)](a[UNBOUNDED], AntiJoin[(c.x = b.x)](b[UNBOUNDED], c[UNBOUNDED])))",
    ),
    ("SELECT v.k FROM (SELECT x AS k FROM a [RANGE 5]) AS v", "Project[k](Project[x AS k](a[RANGE 5]))"),
    ("SELECT k FROM (SELECT x AS k FROM a [RANGE 5])", "Project[k](Project[x AS k](a[RANGE 5]))"),
    (
        "SELECT v.x FROM (SELECT x FROM a UNION ALL SELECT x FROM b) [RANGE 5] AS v",
        "Project[x](Union(Project[x](a[UNBOUNDED]), Project[x](b[UNBOUNDED]))[RANGE 5])",
    ),
    (
        "WITH v AS (SELECT x FROM a), w (q) AS (SELECT x + 1 FROM v) SELECT v.x, q FROM v, w AS ww",
        "Project[v.x AS x; ww.q AS q](Join(Project[x](a[UNBOUNDED]), Project[(x + 1) AS q](Project[(CAST(x AS BIGINT) + 1) AS (x + 1)](Project[x](a[UNBOUNDED])))))",
    ),
    ("SELECT DISTINCT x FROM a", "Distinct(Project[x](a[UNBOUNDED]))"),
    (
        "SELECT DISTINCT count(*) FROM a GROUP BY x",
        "Distinct(Project[COUNT(*) AS count(*)](Aggregate[x | COUNT(*)](a[UNBOUNDED])))",
    ),
    ("SELECT count(*) FROM a", "Project[COUNT(*) AS count(*)](Aggregate[ | COUNT(*)](a[UNBOUNDED]))"),
    (
        "SELECT x, count(*), sum(y) / count(*) + 1 FROM a GROUP BY x",
        "Project[x; COUNT(*) AS count(*); ((CAST(SUM(CAST(y AS BIGINT)) AS DOUBLE) / CAST(COUNT(*) AS DOUBLE)) + 1.0) AS ((sum(y) / count(*)) + 1)](Aggregate[x | COUNT(*), SUM(CAST(y AS BIGINT))](a[UNBOUNDED]))",
    ),
    (
        "SELECT x + 1, max(y) FROM a GROUP BY x + 1 HAVING max(y) > 3 AND x + 1 < 5",
        "Project[(x + 1); MAX(y) AS max(y)](Filter[((MAX(y) > 3) AND ((x + 1) < 5))](Aggregate[(CAST(x AS BIGINT) + 1) AS (x + 1) | MAX(y)](a[UNBOUNDED])))",
    ),
    (
        "SELECT x + 1 AS k, count(*) AS n FROM a GROUP BY k HAVING n > 2",
        "Project[k; COUNT(*) AS n](Filter[(COUNT(*) > 2)](Aggregate[(CAST(x AS BIGINT) + 1) AS k | COUNT(*)](a[UNBOUNDED])))",
    ),
    (
        "SELECT x AS y, count(*) FROM a GROUP BY x, y",
        "Project[x AS y; COUNT(*) AS count(*)](Aggregate[x, y | COUNT(*)](a[UNBOUNDED]))",
    ),
    (
        "SELECT count(DISTINCT y), count(y), avg(z), stddev(z) FROM a, b",
        "Project[COUNT(DISTINCT a.y) AS count(DISTINCT y); COUNT(a.y) AS count(y); AVG(b.z) AS avg(z); STDDEV(b.z) AS stddev(z)](Aggregate[ | COUNT(DISTINCT a.y), COUNT(a.y), AVG(b.z), STDDEV(b.z)](Join(a[UNBOUNDED], b[UNBOUNDED])))",
    ),
    ("SELECT x FROM a GROUP BY x", "Project[x](Aggregate[x | ](a[UNBOUNDED]))"),
    (
        "SELECT 1 FROM a HAVING count(*) > 1",
        "Project[1](Filter[(COUNT(*) > 1)](Aggregate[ | COUNT(*)](a[UNBOUNDED])))",
    ),
    (
        "SELECT x FROM a UNION ALL SELECT x FROM b UNION ALL SELECT x FROM c",
        "Union(Project[x](a[UNBOUNDED]), Project[x](b[UNBOUNDED]), Project[x](c[UNBOUNDED]))",
    ),
    (
        "SELECT x FROM a UNION SELECT x FROM b UNION SELECT x FROM c",
        "Distinct(Union(Project[x](a[UNBOUNDED]), Project[x](b[UNBOUNDED]), Project[x](c[UNBOUNDED])))",
    ),
    (
        "SELECT x FROM a UNION SELECT z FROM b",
        "Distinct(Union(Project[CAST(x AS DOUBLE) AS x](a[UNBOUNDED]), Project[z](b[UNBOUNDED])))",
    ),
    (
        "SELECT x FROM a EXCEPT ALL SELECT x FROM b",
        "ExceptAll(Project[x](a[UNBOUNDED]), Project[x](b[UNBOUNDED]))",
    ),
    (
        "SELECT x FROM a EXCEPT SELECT x FROM b INTERSECT SELECT x FROM c",
        "Except(Project[x](a[UNBOUNDED]), Intersect(Project[x](b[UNBOUNDED]), Project[x](c[UNBOUNDED])))",
    ),
    (
        "(SELECT x FROM a EXCEPT SELECT x FROM b) INTERSECT ALL SELECT x FROM c",
        "IntersectAll(Except(Project[x](a[UNBOUNDED]), Project[x](b[UNBOUNDED])), Project[x](c[UNBOUNDED]))",
    ),
    (
        "SELECT x, NULL FROM a UNION ALL SELECT ts, s FROM a",
        "Union(Project[CAST(x AS BIGINT) AS x; NULL](a[UNBOUNDED]), Project[ts; s](a[UNBOUNDED]))",
    ),
    ("ISTREAM(SELECT x FROM a [RANGE 5])", "ToStream[ISTREAM](Project[x](a[RANGE 5]))"),
    ("DSTREAM(SELECT x FROM a WINDOW 5)", "ToStream[DSTREAM](Project[x](a[RANGE 5]))"),
    ("RSTREAM(SELECT x FROM a) WINDOW 5", "ToStream[RSTREAM](Project[x](a[RANGE 5]))"),
    (
        "SELECT v.x FROM ISTREAM(SELECT x FROM a [RANGE 5]) [RANGE 7] AS v",
        "Project[x](ToStream[ISTREAM](Project[x](a[RANGE 5]))[RANGE 7])",
    ),
    (
        "SELECT a.x, b.x, a.x AS x FROM a, b",
        "Project[a.x AS x; b.x AS x_1; a.x AS x_2](Join(a[UNBOUNDED], b[UNBOUNDED]))",
    ),
]


@pytest.mark.parametrize(("text", "expected"), PLANS)
def test_query_means_plan(text, expected):
    assert plan(text) == expected


def test_long_conjunctions_make_shallow_plans():
    """AND of thousands: walkers of plans recurse, so the tree is balanced."""
    text = "SELECT x FROM a WHERE " + " AND ".join(f"x > {i}" for i in range(3000))

    def depth(expression):
        return 1 + max((depth(part) for part in getattr(expression, "arguments", ())), default=0)

    assert depth(query(text).root.input.predicate) < 20


def test_unqualified_names_in_not_exists_mean_the_inner_input_first():
    text = "SELECT x FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE x = a.x)"
    assert plan(text) == "Project[x](AntiJoin[(b.x = a.x)](a[UNBOUNDED], b[UNBOUNDED]))"


def test_columns_of_a_join_are_positions_side_by_side():
    join = query("SELECT b.z FROM a JOIN b ON a.x = b.x").root
    assert [argument.index for argument in join.input.predicates[0].arguments] == [1, 5]
    assert join.outputs[0].expression.index == 6


def test_right_join_swaps_the_sides_of_its_condition():
    join = query("SELECT c.x FROM c RIGHT JOIN b ON c.x = b.x").root.input
    alone = join.branches.inputs[1].input
    assert [column.index for column in alone.predicates[0].arguments] == [4, 1]


def test_one_aggregate_is_computed_once():
    aggregate = query("SELECT sum(y), sum(y) + 1, sum(a.y) FROM a HAVING sum(y) > 0").root.input.input
    assert [str(one) for one in aggregate.aggregations] == ["SUM(CAST(y AS BIGINT))"]


@pytest.mark.parametrize(
    ("text", "lifespan"),
    [
        ("SELECT x FROM a LIFESPAN 500", 500),
        ("SELECT x FROM a LIFESPAN 500 MILLISECONDS", 500_000),
        ("SELECT symbol FROM trades LIFESPAN 2 SECONDS", 2_000_000),
        ("SELECT x FROM a", None),
    ],
)
def test_lifespan_with_a_unit_is_in_microseconds(text, lifespan):
    assert query(text).lifespan == lifespan


def test_ranks_are_bound_over_the_inputs_side_by_side_and_sorted():
    found = query(
        "SELECT a.x FROM a, b WHERE a.x = b.x RANK 2 CRITERIA (b.z > 1) LIFESPAN 5 RANK 1 CRITERIA (y = 3) WINDOW 9"
    )
    assert [(rank.level, str(rank.criteria)) for rank in found.ranks] == [
        (1, "(a.y = 3)"),
        (2, "(b.z > 1.0)"),
    ]
    assert found.ranks[1].criteria.arguments[0].index == 6
    assert found.lifespan == 5
    assert str(found.root.input.input.inputs[0].window) == "RANGE 9"


def test_rank_and_lifespan_stay_good_names():
    text = "SELECT rank, lifespan FROM (SELECT x AS rank, y AS lifespan FROM a) AS window_of RANK 1 CRITERIA (rank > 1)"
    assert [str(rank.criteria) for rank in query(text).ranks] == ["(rank > 1)"]


def test_text_of_a_query_is_what_was_written():
    assert query("-- first\n  SELECT x\n  FROM a LIFESPAN 5 ; ").text == "SELECT x\n  FROM a LIFESPAN 5"


def test_subquery_columns_are_qualified_by_its_alias():
    inner = query("SELECT v.k FROM (SELECT x AS k FROM a) AS v").root.input
    assert [field.qualifier for field in inner.schema] == ["v"]
