"""Malformed statements: errors with line and column, and the session is as it was.

Valid statements (those of the golden scripts among them) are cut, doubled, swapped and peppered. What
is refused must say where; what is accepted is undone; the queries that run meanwhile answer like those of a session
that never saw any of it. PENSTOCK_FUZZ_STATEMENTS says how many are tried.
"""

from __future__ import annotations

import os
import random
import re
from pathlib import Path

import pytest

import penstock

STATEMENTS = int(os.environ.get("PENSTOCK_FUZZ_STATEMENTS", "2000"))
GOLDEN = Path(__file__).parents[1] / "golden"

SCHEMA = """
CREATE STREAM a (ts BIGINT, x INT, y INT) WATERMARK ts DELAY OF INTERVAL 0;
CREATE STREAM b (ts BIGINT, x INT, y INT) WATERMARK ts DELAY OF INTERVAL 0;
CREATE STREAM s (ts BIGINT, x INT, name STRING) WATERMARK ts DELAY OF INTERVAL 2;
CREATE TABLE n (k INT, v STRING);
CREATE RETROACTIVE TABLE o (k INT, v STRING);
"""

QUERIES = {
    "pairs": "SELECT a.x, b.y FROM a [RANGE 10], b [RANGE 10] WHERE a.x = b.x",
    "groups": "SELECT name, COUNT(*) AS n FROM s [RANGE 5] GROUP BY name",
    "looked": "SELECT a.x, o.v FROM a [RANGE 5], o WHERE a.x = o.k",
}

OWN = [
    "CREATE STREAM c (ts TIMESTAMP, x INT) WATERMARK ts DELAY OF INTERVAL 5 SECONDS",
    "CREATE STREAM d (ts BIGINT, `odd name` STRING) WATERMARK ts DELAY OF INTERVAL 0",
    "CREATE TABLE u (k INT, v DOUBLE)",
    "CREATE RETROACTIVE TABLE w (k INT, v DATE)",
    "CREATE QUERY fresh AS SELECT DISTINCT x FROM a [RANGE 10]",
    "CREATE QUERY pairs AS SELECT x FROM a [RANGE 10]",
    "DROP QUERY nobody",
    "DROP STREAM a",
    "DROP TABLE o",
    "ALTER QUERY pairs SET LIFESPAN 500 MILLISECONDS",
    "ALTER QUERY pairs SET RANK 1 CRITERIA (a.x > 5)",
    "EXPLAIN SELECT x FROM a [RANGE 10]",
    "SELECT x, SUM(y) AS t FROM a [RANGE 10 SLIDE 5] GROUP BY x HAVING SUM(y) > 3 LIFESPAN 10 RANK 1 CRITERIA (x = 1)",
    "SELECT CASE WHEN x IN (1, 2) THEN 'low' ELSE upper('high') END AS c FROM a [ROWS 5] WHERE y BETWEEN 1 AND 3",
    "WITH w AS (SELECT x FROM a [NOW]) SELECT w.x FROM w UNION ALL SELECT x FROM b [UNBOUNDED]",
]

PEPPER = [
    "", " ", "\n", ";", ",", ".", "(", ")", "[", "]", "'", '"', "`", "--", "/*", "*/", "*", "=", "<>", "||", "\\", "\0",
    "é", "𝄞", "\u202e", "\ud800", "0", "-1", "1e999", "99999999999999999999", "NULL", "SELECT", "FROM", "WHERE", "AS",
    "RANGE", "ROWS", "SLIDE", "PARTITION BY", "GROUP BY", "HAVING", "UNION", "EXCEPT ALL", "JOIN", "ON", "a", "b", "x",
    "ts", "name", "COUNT(*)", "SUM(", "CASE", "END", "CAST(", "INTERVAL", "RANK 1 CRITERIA", "LIFESPAN", "DROP", "QUERY",
    "{", "}", ":x", "?", "$1", "@", "#", "%", "ORDER BY x", "LIMIT 5", "x.y.z.w", "(((((", "'unclosed", "NOT", "EXISTS",
]  # fmt: skip


def golden_statements() -> list[str]:
    """Schemas and queries of the golden scripts, wherever they stand."""
    found = []
    for path in sorted(GOLDEN.glob("*.golden")):
        for section in re.split(r"(?m)^-- ", path.read_text())[1:]:
            title, _, body = section.partition("\n")
            if title.split()[0] in ("schema", "query"):
                found += [part.strip() for part in body.split(";") if part.strip()]
    assert len(found) > 60
    return found


def mutated(rng: random.Random, text: str, others: list[str]) -> str:
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        words = re.findall(r"\s+|\w+|[^\w\s]", text) or [""]
        at = rng.randrange(len(words))
        match rng.randrange(8):
            case 0:
                del words[at]
            case 1:
                words.insert(at, rng.choice(PEPPER))
            case 2:
                words[at] = rng.choice(PEPPER)
            case 3:
                other = rng.randrange(len(words))
                words[at], words[other] = words[other], words[at]
            case 4:
                words = words[:at]
            case 5:
                words[at:at] = words[at : at + rng.randrange(1, 9)]
            case 6:
                other_words = re.findall(r"\s+|\w+|[^\w\s]", rng.choice(others))
                words = words[:at] + other_words[rng.randrange(len(other_words)) :]
            case _:
                place = rng.randrange(len(text) + 1)
                words = [text[:place], rng.choice(PEPPER), text[place + rng.randrange(3) :]]
        text = "".join(words)
    return text


def connected() -> penstock.Session:
    s = penstock.connect()
    s.execute(SCHEMA)
    s.update_table("o", insert=[{"k": 1, "v": "one"}])
    s.create_function("bucket", lambda x: None if x is None else x // 10, returns="INT")
    s.create_function("shout", lambda t: None if t is None else t.upper() + "!", returns="STRING")
    for name, text in QUERIES.items():
        s.query(text, name=name)
    return s


def known(s: penstock.Session) -> object:
    """Everything a statement could have changed."""
    engine = s.engine
    queries = {n: (q.sql, q.lifespan, q.ranks, q.pattern) for n, q in s.queries.items()}
    return (
        dict(s.catalog.streams), dict(s.catalog.tables), dict(s.catalog.functions), queries, sorted(engine.queries),
        sorted(engine.sources), sorted(engine.tables), s.clock, engine.time_type, s.size_bytes,
    )  # fmt: skip


def answers(s: penstock.Session) -> object:
    return [(s.queries[n].changes().to_pylist(), s.queries[n].snapshot().to_pylist()) for n in QUERIES]


def undo(s: penstock.Session) -> None:
    """Take back what an accepted statement has done."""
    for name in [n for n in s.queries if n not in QUERIES]:
        s.drop(name)
    for name in [n for n in s.catalog.streams if n not in ("a", "b", "s")]:
        s.execute(f"DROP STREAM `{s.catalog.streams[name].name.replace('`', '``')}`")
    for name in [n for n in s.catalog.tables if n not in ("n", "o")]:
        s.execute(f"DROP TABLE `{s.catalog.tables[name].name.replace('`', '``')}`")


def feed(rng: random.Random, at: int, *sessions: penstock.Session) -> None:
    rows = [{"ts": at, "x": rng.randrange(3), "y": rng.randrange(3)} for _ in range(2)]
    names = [{"ts": at, "x": 1, "name": rng.choice(["ann", "bob", None])}]
    for s in sessions:
        s.push("a", rows)
        s.push("b", rows)
        s.push("s", names)
        s.advance(at)


def attempt(s: penstock.Session, text: str, one: bool) -> penstock.PenstockError | None:
    try:
        if one:
            s.query(text)
        else:
            s.execute(text)
    except penstock.PenstockError as error:
        return error
    return None


def check_place(error: penstock.PenstockError, text: str) -> None:
    assert error.line is not None and error.column is not None, (text, error)
    lines = text.split("\n")
    assert 1 <= error.line <= len(lines), (text, error)
    assert 1 <= error.column <= len(lines[error.line - 1]) + 1, (text, error)


@pytest.mark.slow
def test_mutated_statements_are_refused_with_their_place_or_taken_whole() -> None:
    rng = random.Random(20260131)
    sources = OWN * 3 + golden_statements()
    fuzzed, twin = connected(), connected()
    refused = 0
    for number in range(STATEMENTS):
        text = mutated(rng, rng.choice(sources), sources)
        one = rng.random() < 0.3
        before = known(fuzzed)
        error = attempt(fuzzed, text, one)
        if error is not None:
            refused += 1
            check_place(error, text)
            assert known(fuzzed) == before, text
        undo(fuzzed)
        assert sorted(fuzzed.queries) == sorted(QUERIES), text
        if number % 10 == 0:
            feed(rng, number, fuzzed, twin)
            assert answers(fuzzed) == answers(twin), text
    assert refused > STATEMENTS // 2
    assert dict(fuzzed.catalog.streams) == dict(twin.catalog.streams)
    assert fuzzed.size_bytes < 1.5 * twin.size_bytes, (
        "only room of queries that went may be left where queries share"
    )


def test_a_wrong_statement_leaves_nothing_of_its_script() -> None:
    s = connected()
    with pytest.raises(penstock.BindError) as caught:
        s.execute(
            "CREATE QUERY one AS SELECT x FROM a [NOW];\n"
            "  CREATE QUERY two AS SELECT nobody FROM a [NOW];\n"
            "CREATE QUERY three AS SELECT x FROM a [NOW]"
        )
    assert (caught.value.line, caught.value.column) == (2, 30)
    assert sorted(s.queries) == ["groups", "looked", "pairs"]


@pytest.mark.parametrize(
    "script",
    [
        "CREATE QUERY one AS SELECT x FROM a [NOW]; CREATE TABLE extra (x INT); DROP STREAM a",
        (
            "CREATE STREAM fresh (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0;"
            " CREATE QUERY two AS SELECT x FROM fresh [NOW]; DROP STREAM fresh"
        ),
        "CREATE TABLE extra (x INT); DROP TABLE extra; DROP STREAM a",
        "CREATE TABLE extra (x INT); SELECT x FROM spare [NOW]; DROP STREAM spare",
    ],
)
def test_a_script_whose_drop_is_refused_leaves_nothing(script: str) -> None:
    s = connected()
    s.execute("CREATE STREAM spare (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
    before = sorted(s.queries), sorted(s.catalog.streams), sorted(s.catalog.tables)
    with pytest.raises(penstock.StateError, match="is read by"):
        s.execute(script)
    assert (sorted(s.queries), sorted(s.catalog.streams), sorted(s.catalog.tables)) == before


def test_lifespans_and_ranks_are_altered_while_the_query_runs() -> None:
    s, twin = connected(), connected()
    rng = random.Random(1)
    q = s.queries["pairs"]
    assert (q.lifespan, q.ranks) == (None, ())
    feed(rng, 1, s, twin)
    s.execute("ALTER QUERY pairs SET LIFESPAN 500 MILLISECONDS")
    assert q.lifespan == 500_000
    feed(rng, 2, s, twin)
    s.execute("ALTER QUERY pairs SET RANK 2 CRITERIA (b.y = 1) RANK 1 CRITERIA (a.x > 5 AND b.y = 2)")
    assert [(r.level, str(r.criteria)) for r in q.ranks] == [
        (1, "((a.x > 5) AND (b.y = 2))"),
        (2, "(b.y = 1)"),
    ]
    assert q.lifespan == 500_000
    feed(rng, 3, s, twin)
    s.execute("ALTER QUERY pairs SET LIFESPAN 7")
    assert q.lifespan == 7
    assert len(q.ranks) == 2
    assert answers(s) == answers(twin)
    for wrong in (
        "ALTER QUERY pairs SET LIFESPAN 0",
        "ALTER QUERY pairs SET RANK 1 CRITERIA (a.z = 1)",
        "ALTER QUERY pairs SET RANK 1 CRITERIA (a.x)",
        "ALTER QUERY nobody SET LIFESPAN 5",
    ):
        with pytest.raises(penstock.BindError):
            s.execute(wrong)
        assert (q.lifespan, len(q.ranks)) == (7, 2)
    with pytest.raises(AttributeError):
        q.lifespan = 5  # type: ignore[misc]
