"""Predicates as clauses: what must hold for WHERE to be TRUE."""

from __future__ import annotations

import pytest
from tests.sharing.predicates import predicate

import penstock
from penstock.plan.expressions import Column, Expression
from penstock.plan.normal_form import MOST, NEVER, clauses

SESSION = penstock.connect()
SESSION.execute(
    "CREATE STREAM a (ts BIGINT, x INT, y INT, l BIGINT, f FLOAT, d DOUBLE, i SMALLINT, s STRING, b BOOLEAN) "
    "WATERMARK ts DELAY OF 0"
)


def asked(text: str) -> Expression:
    found = predicate(SESSION, text)
    assert found is not None
    return found


def made(text: str) -> list[str]:
    """A line for every clause."""
    return [
        " or ".join(
            f"{a.subject} {a.test}" if a.value is None else f"{a.subject} {a.test} {a.value}" for a in clause
        )
        for clause in clauses(asked(text))
    ]


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("x < 3", ["x < 3"]),
        ("3 < x", ["x > 3"]),
        ("3 >= x AND y <> 2", ["x <= 3", "y <> 2"]),
        ("x < 3 OR y > 4", ["x < 3 or y > 4"]),
        ("x < 3 OR (y > 4 AND y < 6)", ["x < 3 or y > 4", "x < 3 or y < 6"]),
        ("(x = 1 AND y = 1) OR (x = 2 AND y = 2)", ["x = 1 or x = 2", "x = 1 or y = 2", "y = 1 or x = 2", "y = 1 or y = 2"]),
        ("x BETWEEN 1 AND 3", ["x >= 1", "x <= 3"]),
        ("x NOT BETWEEN 1 AND 3", ["x < 1 or x > 3"]),
        ("x = 1 AND x = 1", ["x = 1"]),
        ("x < 3 OR x < 3", ["x < 3"]),
    ],
)  # fmt: skip
def test_a_conjunction_of_disjunctions(text: str, means: list[str]) -> None:
    assert sorted(made(text)) == sorted(means)


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("NOT x < 3", ["x >= 3"]),
        ("NOT (x < 3 AND y = 4)", ["x >= 3 or y <> 4"]),
        ("NOT (x <= 3 OR NOT y <> 4)", ["x > 3", "y <> 4"]),
        ("NOT x IS NULL", ["x is_not_null"]),
        ("NOT x IS NOT NULL", ["x is_null"]),
        ("NOT s LIKE 'ab%'", ["s not_prefix ab"]),
        ("NOT b", ["b = False"]),
        ("NOT NOT b", ["b = True"]),
        ("NOT x < y", ["(x < y) = False"]),
    ],
)
def test_not_goes_inwards(text: str, means: list[str]) -> None:
    assert made(text) == means


@pytest.mark.parametrize("text", ["x < NULL", "NOT x < NULL", "NOT (x = NULL)"])
def test_what_is_neither_true_nor_false_is_no_comparison_with_a_constant(text: str) -> None:
    (clause,) = clauses(asked(text))
    assert all(not isinstance(atom.subject, Column) for atom in clause)


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("x IN (1, 3)", ["x = 1 or x = 3"]),
        ("x IN (1, NULL)", ["x = 1"]),
        ("x NOT IN (1, 3)", ["x <> 1", "x <> 3"]),
        ("NOT x IN (1, 3)", ["x <> 1", "x <> 3"]),
        ("NOT x NOT IN (1, NULL)", ["x = 1"]),
        ("x IN (1, y)", ["x = 1 or (x = y) = True"]),
    ],
)
def test_lists(text: str, means: list[str]) -> None:
    assert made(text) == means


@pytest.mark.parametrize("text", ["x NOT IN (1, NULL)", "NOT x IN (NULL, 1)"])
def test_not_in_a_list_with_null_is_never_true(text: str) -> None:
    assert NEVER in clauses(asked(text))


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("s LIKE 'ab%'", "s prefix ab"),
        ("s LIKE 'é%'", "s prefix é"),
        ("s LIKE '%'", "(s LIKE '%') = True"),
        ("s LIKE 'a%b%'", "(s LIKE 'a%b%') = True"),
        ("s LIKE 'a_%'", "(s LIKE 'a_%') = True"),
        ("s LIKE 'ab'", "(s LIKE 'ab') = True"),
        (r"s LIKE 'a\%'", r"(s LIKE 'a\%') = True"),
    ],
)
def test_a_pattern_that_is_a_prefix_is_one(text: str, means: str) -> None:
    assert made(text) == [means]


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("x < 2.5", "x"),
        ("CAST(x AS BIGINT) < 3", "x"),
        ("CAST(i AS FLOAT) < 3", "i"),
        ("f < CAST(0.1 AS DOUBLE)", "f"),
        ("CAST(x AS BIGINT) IN (1, 2)", "x"),
    ],
)
def test_a_cast_that_loses_nothing_is_stripped(text: str, subject: str) -> None:
    assert {str(a.subject) for clause in clauses(asked(text)) for a in clause} == {subject}


@pytest.mark.parametrize(
    "text",
    [
        "l < CAST(2.5 AS DOUBLE)",
        "CAST(x AS FLOAT) < 3",
        "CAST(x AS SMALLINT) < 3",
        "CAST(d AS FLOAT) < 3",
        "CAST(x AS STRING) = '1'",
    ],
)
def test_a_cast_that_rounds_cuts_or_spells_stays(text: str) -> None:
    """As a FLOAT 16777217 is 16777216, which the constant is compared with."""
    assert {type(a.subject) for clause in clauses(asked(text)) for a in clause}.isdisjoint({Column})


def test_a_predicate_of_too_many_clauses_is_one_subject() -> None:
    def text(terms: int) -> str:
        return " OR ".join(f"(x = {k} AND y = {k})" for k in range(terms))

    assert MOST == 2**4
    assert len(clauses(asked(text(4)))) == MOST
    (clause,) = clauses(asked(text(5)))
    (atom,) = clause
    assert (atom.subject, atom.test, atom.value) == (asked(text(5)), "=", True)
    many = " AND ".join(f"x <> {k}" for k in range(MOST + 1))
    assert len(clauses(asked(many))) == 1


def test_true_asks_nothing_and_null_is_never_true() -> None:
    assert clauses(asked("TRUE")) == ()
    assert made("TRUE AND x < 3") == ["x < 3"]
    for text in ("FALSE", "NULL", "NOT NULL", "x < 3 AND NULL"):
        assert NEVER in clauses(asked(text)), text
    assert made("x < 3 OR NULL") == ["x < 3"]
