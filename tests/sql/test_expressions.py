"""Scalar expressions: what they mean, their type, and the name they get when given none."""

from __future__ import annotations

import pytest

from penstock.types.data_type import Type
from tests.sql.cases import query

EXPRESSIONS = [
    (
        "x = 1 AND y <> 2 OR NOT x < 3",
        "(((x = 1) AND (y <> 2)) OR (NOT (x < 3)))",
        Type.BOOLEAN,
        "x = 1 AND y <> 2 OR NOT x < 3",
    ),
    (
        "x <= 1 OR x >= 2 OR x > 5",
        "(((x <= 1) OR (x >= 2)) OR (x > 5))",
        Type.BOOLEAN,
        "x <= 1 OR x >= 2 OR x > 5",
    ),
    ("x == 1", "(x = 1)", Type.BOOLEAN, "(x = 1)"),
    ("x != 1", "(x <> 1)", Type.BOOLEAN, "(x <> 1)"),
    ("x <=> y", "is_not_distinct(x, y)", Type.BOOLEAN, "x <=> y"),
    ("x IS NULL", "(x IS NULL)", Type.BOOLEAN, "x IS NULL"),
    ("x IS NOT NULL", "(x IS NOT NULL)", Type.BOOLEAN, "x IS NOT NULL"),
    ("x IS DISTINCT FROM y", "is_distinct(x, y)", Type.BOOLEAN, "x IS DISTINCT FROM y"),
    ("x IS NOT DISTINCT FROM y", "is_not_distinct(x, y)", Type.BOOLEAN, "x IS NOT DISTINCT FROM y"),
    ("(x > 1) IS TRUE", "is_true((x > 1))", Type.BOOLEAN, "(x > 1) IS TRUE"),
    ("x > 1 IS NOT FALSE", "(NOT is_false((x > 1)))", Type.BOOLEAN, "x > 1 IS NOT FALSE"),
    ("x IN (1, 2, 3)", "(x IN (1, 2, 3))", Type.BOOLEAN, "x IN (1, 2, 3)"),
    ("x NOT IN (1, 2)", "(NOT (x IN (1, 2)))", Type.BOOLEAN, "x NOT IN (1, 2)"),
    ("x IN (y, 2)", "((x = y) OR (x = 2))", Type.BOOLEAN, "x IN (y, 2)"),
    ("x BETWEEN 1 AND 5", "((x >= 1) AND (x <= 5))", Type.BOOLEAN, "x BETWEEN 1 AND 5"),
    (
        "x NOT BETWEEN 1 AND 5 AND y = 1",
        "((NOT ((x >= 1) AND (x <= 5))) AND (y = 1))",
        Type.BOOLEAN,
        "x NOT BETWEEN 1 AND 5 AND y = 1",
    ),
    ("s LIKE 'a%'", "(s LIKE 'a%')", Type.BOOLEAN, "s LIKE 'a%'"),
    ("s NOT LIKE 'a!%' ESCAPE '!'", "(NOT like(s, 'a!%', '!'))", Type.BOOLEAN, "s NOT LIKE 'a!%' ESCAPE '!'"),
    (
        "x + y * 2 - 3",
        "((CAST(x AS BIGINT) + (CAST(y AS BIGINT) * 2)) - 3)",
        Type.BIGINT,
        "((x + (y * 2)) - 3)",
    ),
    ("(x + y) * 2", "((CAST(x AS BIGINT) + CAST(y AS BIGINT)) * 2)", Type.BIGINT, "((x + y) * 2)"),
    ("-x", "neg(CAST(x AS BIGINT))", Type.BIGINT, "-x"),
    ("- -5", "5", Type.INT, "- -5"),
    ("+x", "x", Type.INT, "x"),
    ("-9223372036854775808", "-9223372036854775808", Type.BIGINT, "-9223372036854775808"),
    ("9223372036854775807", "9223372036854775807", Type.BIGINT, "9223372036854775807"),
    ("2147483648", "2147483648", Type.BIGINT, "2147483648"),
    ("x / y", "(CAST(x AS DOUBLE) / CAST(y AS DOUBLE))", Type.DOUBLE, "(x / y)"),
    ("x % 2", "(CAST(x AS BIGINT) % 2)", Type.BIGINT, "(x % 2)"),
    ("mod(x, 2)", "(CAST(x AS BIGINT) % 2)", Type.BIGINT, "mod(x, 2)"),
    ("s || 'it''s'", "(s || 'it''s')", Type.STRING, "(s || 'it''s')"),
    ("1.5", "1.5", Type.DOUBLE, "1.5"),
    ("1e3", "1000.0", Type.DOUBLE, "1e3"),
    (".5", "0.5", Type.DOUBLE, ".5"),
    ("5L", "5", Type.BIGINT, "5L"),
    ("5D", "5.0", Type.DOUBLE, "5D"),
    ("TRUE", "True", Type.BOOLEAN, "TRUE"),
    ("NULL", "NULL", Type.NULL, "NULL"),
    ("'a\"b'", "'a\"b'", Type.STRING, "'a\"b'"),
    ('"double quoted"', "'double quoted'", Type.STRING, '"double quoted"'),
    (
        "TIMESTAMP '2026-01-01 00:00:00'",
        "TIMESTAMP 1767225600000000",
        Type.TIMESTAMP,
        "TIMESTAMP '2026-01-01 00:00:00'",
    ),
    ("DATE '2026-01-02'", "DATE 20455", Type.DATE, "DATE '2026-01-02'"),
    ("INTERVAL 5 SECONDS", "INTERVAL 5000000", Type.INTERVAL, "INTERVAL 5 SECONDS"),
    ("INTERVAL '5' SECOND", "INTERVAL 5000000", Type.INTERVAL, "INTERVAL '5' SECOND"),
    ("INTERVAL '1.5 hours'", "INTERVAL 5400000000", Type.INTERVAL, "INTERVAL '1.5 hours'"),
    ("INTERVAL -5 MINUTES", "INTERVAL -300000000", Type.INTERVAL, "INTERVAL -5 MINUTES"),
    ("-INTERVAL 5 MINUTES", "INTERVAL -300000000", Type.INTERVAL, "-INTERVAL 5 MINUTES"),
    (
        "TIMESTAMP '2026-01-01 00:00:00' + INTERVAL 1 DAY",
        "(TIMESTAMP 1767225600000000 + INTERVAL 86400000000)",
        Type.TIMESTAMP,
        "(TIMESTAMP '2026-01-01 00:00:00' + INTERVAL 1 DAY)",
    ),
    (
        "CASE WHEN x > 1 THEN 'a' WHEN x > 0 THEN 'b' END",
        "case((x > 1), 'a', (x > 0), 'b', NULL)",
        Type.STRING,
        "CASE WHEN x > 1 THEN 'a' WHEN x > 0 THEN 'b' END",
    ),
    (
        "CASE x WHEN 1 THEN 'a' ELSE s END",
        "case((x = 1), 'a', s)",
        Type.STRING,
        "CASE x WHEN 1 THEN 'a' ELSE s END",
    ),
    ("CAST(x AS STRING)", "CAST(x AS STRING)", Type.STRING, "CAST(x AS STRING)"),
    ("TRY_CAST(s AS INT)", "CAST(s AS INT)", Type.INT, "TRY_CAST(s AS INT)"),
    ("x::DOUBLE", "CAST(x AS DOUBLE)", Type.DOUBLE, "x::DOUBLE"),
    ("CAST(s AS VARCHAR(10))", "s", Type.STRING, "CAST(s AS VARCHAR(10))"),
    ("upper(s)", "upper(s)", Type.STRING, "upper(s)"),
    ("UCASE(s)", "upper(s)", Type.STRING, "ucase(s)"),
    ("length(s)", "length(s)", Type.BIGINT, "length(s)"),
    ("char_length(s)", "length(s)", Type.BIGINT, "char_length(s)"),
    ("substring(s, 1, 2)", "substring(s, 1, 2)", Type.STRING, "substring(s, 1, 2)"),
    ("SUBSTRING(s FROM 1 FOR 2)", "substring(s, 1, 2)", Type.STRING, "substring(s, 1, 2)"),
    ("trim(s)", "trim(s)", Type.STRING, "trim(s)"),
    ("TRIM(LEADING FROM s)", "ltrim(s)", Type.STRING, "ltrim(s)"),
    ("TRIM(BOTH FROM s)", "trim(s)", Type.STRING, "trim(s)"),
    ("concat(s, 'x')", "concat(s, 'x')", Type.STRING, "concat(s, 'x')"),
    ("replace(s, 'a', 'b')", "replace(s, 'a', 'b')", Type.STRING, "replace(s, 'a', 'b')"),
    ("startswith(s, 'a')", "starts_with(s, 'a')", Type.BOOLEAN, "startswith(s, 'a')"),
    ("left(s, 2)", "left(s, 2)", Type.STRING, "left(s, 2)"),
    ("abs(x)", "abs(CAST(x AS BIGINT))", Type.BIGINT, "abs(x)"),
    ("round(1.25, 1)", "round(1.25, 1)", Type.DOUBLE, "round(1.25, 1)"),
    ("ceiling(1.5)", "ceil(1.5)", Type.DOUBLE, "ceiling(1.5)"),
    ("pow(x, 2)", "power(CAST(x AS DOUBLE), 2.0)", Type.DOUBLE, "pow(x, 2)"),
    ("signum(x)", "sign(CAST(x AS BIGINT))", Type.INT, "signum(x)"),
    ("greatest(x, y, 1)", "greatest(x, y, 1)", Type.INT, "greatest(x, y, 1)"),
    ("least(x, NULL)", "least(x, NULL)", Type.INT, "least(x, NULL)"),
    ("coalesce(x, y)", "coalesce(x, y)", Type.INT, "coalesce(x, y)"),
    ("ifnull(x, 0)", "coalesce(x, 0)", Type.INT, "ifnull(x, 0)"),
    ("nullif(x, 0)", "case((x = 0), NULL, x)", Type.INT, "nullif(x, 0)"),
    ("if(x > 1, 1, 0)", "case((x > 1), 1, 0)", Type.INT, "if((x > 1), 1, 0)"),
    (
        "EXTRACT(YEAR FROM TIMESTAMP '2026-01-01 00:00:00')",
        "year(TIMESTAMP 1767225600000000)",
        Type.BIGINT,
        "year(TIMESTAMP '2026-01-01 00:00:00')",
    ),
    (
        "year(DATE '2026-01-01')",
        "year(CAST(DATE 20454 AS TIMESTAMP))",
        Type.BIGINT,
        "year(DATE '2026-01-01')",
    ),
    (
        "date_trunc('hour', TIMESTAMP '2026-01-01 00:00:00')",
        "date_trunc('hour', TIMESTAMP 1767225600000000)",
        Type.TIMESTAMP,
        "date_trunc('hour', TIMESTAMP '2026-01-01 00:00:00')",
    ),
    ("twice(x)", "udf:twice(x)", Type.BIGINT, "twice(x)"),
    ("TWICE(x + 1)", "udf:twice((CAST(x AS BIGINT) + 1))", Type.BIGINT, "twice((x + 1))"),
    ("`x` + a.y", "(CAST(x AS BIGINT) + CAST(y AS BIGINT))", Type.BIGINT, "(x + y)"),
    ("a.`x`", "x", Type.INT, "x"),
]


@pytest.mark.parametrize(("text", "meaning", "kind", "name"), EXPRESSIONS)
def test_expression(text, meaning, kind, name):
    output = query(f"SELECT {text} FROM a").root.outputs[0]
    assert (str(output.expression), output.expression.type, output.name) == (meaning, kind, name)


def test_repeated_names_are_numbered_whatever_their_case():
    outputs = query("SELECT x, a.X, x AS x_1, count(*), count(*) FROM a GROUP BY x").root.outputs
    assert [one.name for one in outputs] == ["x", "X_1", "x_1_1", "count(*)", "count(*)_1"]
