"""Operators bind as in DuckDB: the text and our reading of it, written out in parentheses, agree."""

from __future__ import annotations

import random

import duckdb
import pytest

from tests.sql.cases import query

ROWS = "(VALUES (1, 3, 4, 'ab'), (2, NULL, 0, 'b'), (3, -2, 7, NULL), (4, 5, 5, 'abc'), (5, 0, -1, ''))"


def number(chance: random.Random, depth: int) -> str:
    match chance.randrange(7 if depth else 3):
        case 0:
            return chance.choice(["x", "y", "a.x"])
        case 1:
            return str(chance.randrange(9))
        case 2:
            return chance.choice(["-x", "- y", "-3"])
        case 6:
            return f"({number(chance, depth - 1)})"
        case _:
            return f"{number(chance, depth - 1)} {chance.choice('+-*')} {number(chance, depth - 1)}"


def truth(chance: random.Random, depth: int) -> str:
    match chance.randrange(9 if depth else 3):
        case 0:
            return (
                f"{number(chance, 1)} {chance.choice(['=', '<>', '<', '<=', '>', '>='])} {number(chance, 1)}"
            )
        case 1:
            return chance.choice(
                ["s LIKE 'a%'", "s NOT LIKE '%b'", "x IS NULL", "x IN (1, 2)", "y NOT IN (0, 5)"]
            )
        case 2:
            between = chance.choice(["BETWEEN", "NOT BETWEEN"])
            return f"{number(chance, 1)} {between} {number(chance, 1)} AND {number(chance, 1)}"
        case 3:
            return f"NOT {truth(chance, depth - 1)}"
        case 8:
            return f"({truth(chance, depth - 1)})"
        case _:
            return f"{truth(chance, depth - 1)} {chance.choice(['AND', 'OR'])} {truth(chance, depth - 1)}"


@pytest.mark.parametrize("make", [number, truth])
def test_operators_bind_as_in_duckdb(make):
    chance = random.Random(7)
    with duckdb.connect() as oracle:
        oracle.execute(f"CREATE TABLE a AS SELECT * FROM {ROWS} AS a(ts, x, y, s)")
        for _ in range(300):
            text = make(chance, 3)
            read = str(query(f"SELECT {text} FROM a").root.outputs[0].expression).replace("neg(", "-(")
            expected = oracle.execute(f"SELECT {text} FROM a ORDER BY ts").fetchall()
            assert oracle.execute(f"SELECT {read} FROM a ORDER BY ts").fetchall() == expected, text
