"""Whatever the text, only our errors come out, each with a place, and soon."""

from __future__ import annotations

import random
import time

import pytest

from penstock.errors import ParseError, PenstockError, PlanError
from penstock.optimizer import optimize
from penstock.plan.expressions import conjuncts
from tests.sql.cases import SCHEMA, bind_all, query
from tests.sql.test_expressions import EXPRESSIONS
from tests.sql.test_queries import PLANS

DEEP = {
    "parentheses": "SELECT " + "(" * 5000 + "x" + ")" * 5000 + " FROM a",
    "unclosed parentheses": "SELECT " + "(" * 5000,
    "brackets": "SELECT x FROM a " + "[" * 5000,
    "calls": "SELECT " + "abs(" * 5000 + "x" + ")" * 5000 + " FROM a",
    "subqueries": "SELECT x FROM " + "(SELECT x FROM " * 500 + "a" + ")" * 500,
    "NOT": "SELECT x FROM a WHERE " + "NOT " * 5000 + "x > 1",
    "minus": "SELECT " + "- " * 5000 + "x FROM a",
    "CASE": "SELECT " + "CASE WHEN x > 1 THEN " * 2000 + "1" + " END" * 2000 + " FROM a",
    "plus": "SELECT " + "x + " * 5000 + "x FROM a",
    "casts": "SELECT x" + "::INT" * 5000 + " FROM a",
    "equals": "SELECT x FROM a WHERE x" + " = x" * 5000,
    "EXISTS": "SELECT x FROM a WHERE " + "NOT EXISTS (SELECT 1 FROM a WHERE " * 300 + "TRUE" + ")" * 300,
    "null byte": "SELECT \0 FROM a",
    "lone surrogate": "SELECT '\ud800' FROM a",
    "one long word": "x" * 100_000,
    "open quote": "SELECT '" + "x" * 100_000,
    "open comment": "SELECT x FROM a /* " + "x" * 100_000,
    "noise": "".join(chr(33 + i * 7 % 94) for i in range(100_000)),
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP.keys())
def test_deep_and_odd_text_is_a_parse_error(text):
    began = time.monotonic()
    with pytest.raises(ParseError) as caught:
        bind_all(text)
    assert caught.value.line is not None and caught.value.column is not None
    assert len(str(caught.value)) < 500
    assert time.monotonic() - began < 10


def test_doubling_expressions_do_not_explode():
    steps = ", ".join(f"v{i + 1} AS (SELECT p.x FROM v{i} p, v{i} q)" for i in range(60))
    with pytest.raises(PenstockError, match="more than 100 operators deep"):
        bind_all(f"WITH v0 AS (SELECT x FROM a), {steps} SELECT x FROM v60")


def test_deep_plans_are_refused_before_anything_walks_them():
    chain = " EXCEPT ".join(f"SELECT x FROM a [RANGE {5 + i}]" for i in range(200))
    with pytest.raises(PlanError, match="more than 100 operators deep") as caught:
        query(chain)
    assert (caught.value.line, caught.value.column) == (1, 1)


def test_wide_text_is_fine():
    parts = " AND ".join(f"(x <> {i} OR y <> {i})" for i in range(1000))
    assert len(conjuncts(optimize(query(f"SELECT x FROM a WHERE {parts}").root).input.predicate)) == 1000
    items = ", ".join(map(str, range(5000)))
    assert len(query(f"SELECT x FROM a WHERE x IN ({items})").root.input.predicate.arguments) == 5001
    assert len(query(" UNION ALL ".join(["SELECT x FROM a"] * 200)).root.inputs) == 200


def _corpus() -> list[str]:
    statements = [
        statement.strip()
        for statement in SCHEMA.replace("STREAM ", "STREAM new_").split(";")
        if statement.strip()
    ]
    statements += [text for text, _ in PLANS]
    statements += [f"SELECT {text} FROM a WHERE {text} IS NOT NULL" for text, *_ in EXPRESSIONS]
    statements += [
        "CREATE QUERY q AS SELECT x FROM a LIFESPAN 5 RANK 1 CRITERIA (x > 1) RANK 2 CRITERIA (y > 1)",
        "ALTER QUERY q SET RANK 1 CRITERIA (x > 1)",
        "ALTER QUERY q SET LIFESPAN 5 SECONDS",
        "EXPLAIN SELECT x FROM a; DROP QUERY q; DROP STREAM a",
        "CREATE STREAM n (ts BIGINT) USING kafka OPTIONS (a.b 'c', d = 5) WATERMARK ts DELAY OF 5",
    ]
    return statements


_STRAY = (  # noqa: SIM905  # a list of words is read as words
    "( ) [ ] , ; . * - + / % = < > <= <> || :: : ? $ @ # ! ~ ^ & | -> { } ' \" ` -- /* */ 0 1 5L 1e400 .5 '' 'a' "
    "SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT UNION ALL EXCEPT INTERSECT DISTINCT AS ON USING JOIN LEFT ANTI "
    "FULL OUTER CROSS NATURAL LATERAL VALUES WITH RECURSIVE IN IS NOT NULL TRUE LIKE ESCAPE BETWEEN AND OR CASE WHEN "
    "THEN ELSE END CAST TRY_CAST EXTRACT INTERVAL TIMESTAMP DATE EXISTS OVER FILTER RANGE ROWS SLIDE NOW UNBOUNDED "
    "PARTITION WINDOW LIFESPAN RANK CRITERIA ISTREAM DSTREAM CREATE STREAM TABLE RETROACTIVE QUERY DROP ALTER SET "
    "EXPLAIN WATERMARK DELAY OF OPTIONS SECONDS MONTHS x y a b r trades nope sum count( upper( \u00e9 \u3042 \U0001f600 "
    "TABLESAMPLE PIVOT FOR INTO FETCH QUALIFY CLUSTER SHOW DESCRIBE USE INSERT MERGE BEGIN SEMI STRUCT ARRAY MAP ANY"
).split()


def _mutated(text: str, chance: random.Random) -> str:
    words = text.replace("(", " ( ").replace(")", " ) ").replace(",", " , ").replace("[", " [ ").split(" ")
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(words))
        match chance.randrange(6):
            case 0:
                del words[at]
            case 1:
                words.insert(at, chance.choice(_STRAY))
            case 2:
                words[at] = chance.choice(_STRAY)
            case 3:
                other = chance.randrange(len(words))
                words[at], words[other] = words[other], words[at]
            case 4:
                words[at:at] = words[at : at + chance.randint(1, 5)]
            case 5:
                words[at] = words[at][: chance.randint(0, 3)]
        if not words:
            break
    return " ".join(words)


def _complaint(text: str) -> str | None:
    """What is wrong with what comes out of this text; None if it is a plan, "" if it is a good refusal."""
    try:
        bind_all(text)
    except PenstockError as error:
        placed = error.line is not None and error.column is not None
        if (
            not placed
            or not 1 <= error.line <= text.count("\n") + 1
            or not 1 <= error.column <= len(text) + 1
        ):
            return f"no good place: {error!r}"
        return "leaks the parser's words" if "sqlglot" in str(error) else ""
    except Exception as error:  # noqa: BLE001  # the very thing that must not happen
        return repr(error)
    return None


@pytest.mark.parametrize("seed", range(4))
def test_mutated_statements_give_a_plan_or_an_error_with_a_place(seed):
    chance = random.Random(seed)
    corpus = _corpus()
    texts = [_mutated(chance.choice(corpus), chance) for _ in range(1500)]
    complaints = {text: _complaint(text) for text in texts}
    assert {text: wrong for text, wrong in complaints.items() if wrong} == {}
    assert 50 < sum(wrong is None for wrong in complaints.values()) < 1400
