"""Names in SQL and in calls: any that can be read; none with characters that do not show."""

from __future__ import annotations

import pytest

import penstock
from penstock.sql import parse
from penstock.types.names import MAX_NAME_LENGTH, MAX_PATH_PART, path_part

HIDDEN = [
    "\n",
    "\t",
    "\x00",
    "\x1b",
    "\x7f",
    "\x85",
    "\u200b",
    "\u200e",
    "\u202a",
    "\u202e",
    "\u2066",
    "\ufeff",
]
STATEMENTS = [
    "CREATE STREAM `{0}` (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0",
    "CREATE STREAM a (ts BIGINT, `{0}` INT) WATERMARK ts DELAY OF INTERVAL 0",
    "CREATE TABLE `{0}` (x INT)",
    "CREATE QUERY `{0}` AS SELECT x FROM s",
    "SELECT x AS `{0}` FROM s",
    "SELECT x FROM s AS `{0}`",
    "SELECT `{0}`.x FROM s AS t",
    "WITH `{0}` AS (SELECT x FROM s) SELECT x FROM s",
    "DROP QUERY `{0}`",
]


@pytest.fixture
def session() -> penstock.Session:
    made = penstock.connect()
    made.execute("CREATE STREAM s (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
    return made


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_names_that_do_not_show_are_refused(session: penstock.Session, statement: str, hidden: str) -> None:
    with pytest.raises(penstock.PenstockError) as told:
        session.execute(statement.format(f"a{hidden}b"))
    assert isinstance(told.value, penstock.ParseError)
    assert told.value.line == 1
    assert str(told.value).isprintable()


@pytest.mark.parametrize("hidden", ["\u202e", "\u200b", "\u2066"])
def test_names_without_quotes_do_not_hide_anything_either(session: penstock.Session, hidden: str) -> None:
    with pytest.raises(penstock.ParseError):
        session.execute(f"SELECT x AS a{hidden}b FROM s")


@pytest.mark.parametrize("hidden", HIDDEN)
def test_names_in_calls(session: penstock.Session, hidden: str) -> None:
    name = f"a{hidden}b"
    calls = (
        lambda: session.create_stream(name, {"ts": "BIGINT"}, time="ts"),
        lambda: session.create_stream("t", {"ts": "BIGINT", name: "INT"}, time="ts"),
        lambda: session.create_table(name, {"x": "INT"}),
        lambda: session.query("SELECT x FROM s", name=name),
        lambda: session.create_function(name, abs),
    )
    for call in calls:
        with pytest.raises(penstock.BindError, match=r"is not a name for .*does not show") as told:
            call()
        assert str(told.value).isprintable()


def test_long_names(session: penstock.Session) -> None:
    name = "n" * MAX_NAME_LENGTH
    session.execute(f"CREATE STREAM `{name}` (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
    assert session.query(f"SELECT x FROM `{name}`", name=name).name == name
    with pytest.raises(penstock.ParseError, match="more than 1,000 characters"):
        session.execute(f"CREATE TABLE `{name}n` (x INT)")
    with pytest.raises(penstock.BindError, match="more than 1,000 characters"):
        session.query("SELECT x FROM s", name=name + "n")


def test_texts_may_hold_anything_and_unnamed_columns_show_it(session: penstock.Session) -> None:
    query = session.query("SELECT 'a\u202eb' FROM s [RANGE 5] -- \u202e")
    session.push("s", [{"ts": 1, "x": 1}])
    session.advance(1)
    table = query.changes()
    (name,) = table.column_names[3:]
    assert table.column(name).to_pylist() == ["a\u202eb"]
    assert name == "'a\\u202eb'"


@pytest.mark.parametrize(
    "name", ["größe", "a b", "名前", "x.y", "..", "../../../escaped", "/abs", "a;b", "😀"]
)
def test_other_names_are_names(session: penstock.Session, name: str) -> None:
    session.execute(f"CREATE STREAM `{name}` (ts BIGINT, `{name}` INT) WATERMARK ts DELAY OF INTERVAL 0")
    query = session.query(f"SELECT `{name}` FROM `{name}`", name=name)
    session.push(name, [{"ts": 1, name: 7}])
    session.advance(1)
    assert query.changes().column(name).to_pylist() == [7]


def test_a_name_is_one_part_of_a_path() -> None:
    names = [
        "a",
        "A",
        ".",
        "..",
        "../..",
        "/abs",
        "a/b",
        "a%2Fb",
        "_x",
        "%5Fx",
        "~",
        "a\\b",
        "[b]",
        "{b,c}",
        "*",
    ]
    names += ["n" * 300, "n" * 299 + "m", "é" * 300, "n" * 79 + "+" + "0" * 40, "a b", "a=b", "C:", "con\n"]
    parts = [path_part(name) for name in names]
    assert len(set(parts)) == len(parts)
    for part in parts:
        assert len(part) <= MAX_PATH_PART
        assert part.isascii() and part.isprintable()
        assert part[0] not in "._~" and not set(part) & set("/\\[]{}*?=: .")


def test_keywords_of_two_words_may_stand_on_two_lines() -> None:
    assert parse("SELECT x, COUNT(*) AS n FROM s [RANGE 5] GROUP\n\tBY x")
