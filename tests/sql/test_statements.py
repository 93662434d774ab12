"""CREATE, DROP, ALTER, EXPLAIN, and scripts of several statements."""

from __future__ import annotations

import copy

import pytest

import penstock
from penstock.errors import BindError, PlanError
from penstock.plan.catalog import Catalog, Stream, Table
from penstock.sql import (
    AlterQuery,
    CreateQuery,
    CreateStream,
    CreateTable,
    DropQuery,
    DropStream,
    DropTable,
    Explain,
    Select,
    bind,
    bind_alter,
    parse,
)
from penstock.types.data_type import Type
from penstock.types.schema import Field
from tests.sql.cases import CATALOG, draw


def only(text):
    (parsed,) = parse(text)
    return bind(parsed, CATALOG)


def test_create_stream_with_everything():
    made = only(
        "CREATE STREAM T (Ts TIMESTAMP, symbol STRING, price DOUBLE, size INT) "
        "USING kafka OPTIONS (subscribe 'trades', kafka.bootstrap.servers = 'h:1', startingOffsets 'earliest') "
        "WATERMARK ts DELAY OF INTERVAL 5 SECONDS"
    )
    assert made == CreateStream(
        Stream(
            "T",
            (
                Field("Ts", Type.TIMESTAMP),
                Field("symbol", Type.STRING),
                Field("price", Type.DOUBLE),
                Field("size", Type.INT),
            ),
            time=0,
            delay=5_000_000,
            format="kafka",
            options=(
                ("subscribe", "trades"),
                ("kafka.bootstrap.servers", "h:1"),
                ("startingOffsets", "earliest"),
            ),
        )
    )


@pytest.mark.parametrize(
    ("time", "delay", "units"),
    [
        ("BIGINT", "INTERVAL 0", 0),
        ("BIGINT", "0", 0),
        ("BIGINT", "5", 5),
        ("BIGINT", "INTERVAL 7", 7),
        ("TIMESTAMP", "INTERVAL 0", 0),
        ("TIMESTAMP", "INTERVAL 0 SECONDS", 0),
        ("TIMESTAMP", "INTERVAL '2' MINUTE", 120_000_000),
        ("TIMESTAMP", "INTERVAL '2 minutes'", 120_000_000),
        ("TIMESTAMP", "3 MILLISECONDS", 3_000),
    ],
)
def test_delay_is_in_time_units(time, delay, units):
    assert only(f"CREATE STREAM n (x INT, at {time}) WATERMARK at DELAY OF {delay}").stream.delay == units


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("BOOLEAN", Type.BOOLEAN), ("tinyint", Type.TINYINT), ("SMALLINT", Type.SMALLINT), ("INT", Type.INT),
        ("INTEGER", Type.INT), ("BIGINT", Type.BIGINT), ("LONG", Type.BIGINT), ("FLOAT", Type.FLOAT),
        ("REAL", Type.FLOAT), ("DOUBLE", Type.DOUBLE), ("STRING", Type.STRING), ("VARCHAR", Type.STRING),
        ("VARCHAR(20)", Type.STRING), ("TEXT", Type.STRING), ("TIMESTAMP", Type.TIMESTAMP), ("DATE", Type.DATE),
    ],
)  # fmt: skip
def test_types(written, kind):
    assert only(f"CREATE TABLE n (v {written})").table.schema == (Field("v", kind),)


def test_tables():
    fields = (Field("x", Type.INT),)
    assert only("CREATE TABLE n (x INT)") == CreateTable(Table("n", fields))
    assert only("CREATE RETROACTIVE TABLE n (x INT)") == CreateTable(Table("n", fields, retroactive=True))
    made = only("CREATE TABLE n (x INT) USING parquet OPTIONS (path '/p')")
    assert made == CreateTable(Table("n", fields, False, "parquet", (("path", "/p"),)))


def test_keywords_of_other_databases_are_names_here():
    names = "rank, key, value, count, date, timestamp, now, range, stream, index, format, type, source, row, first"
    columns = ", ".join(f"{name.strip()} INT" for name in names.split(","))
    made = only(f"CREATE STREAM n (ts BIGINT, {columns}) WATERMARK ts DELAY OF 0")
    known = Catalog(streams={"n": made.stream})
    found = bind(parse(f"SELECT {names}, n.rank + n.date FROM n WHERE timestamp > 5")[0], known)
    assert [f.name for f in found.query.root.schema][:-1] == [name.strip() for name in names.split(",")]


@pytest.mark.parametrize(
    ("window", "shown"),
    [
        ("RANGE 10 SECONDS", "RANGE 10 SECONDS"),
        ("RANGE 60 SECONDS SLIDE 1500 MILLISECONDS", "RANGE 1 MINUTE SLIDE 1500 MILLISECONDS"),
        ("RANGE 36 HOURS SLIDE 14 DAYS", "RANGE 36 HOURS SLIDE 2 WEEKS"),
        ("RANGE 7 MICROSECONDS", "RANGE 7 MICROSECONDS"),
        ("RANGE 1000001 MICROSECONDS", "RANGE 1000001 MICROSECONDS"),
        ("NOW", "RANGE 1 MICROSECOND"),
        ("ROWS 60", "ROWS 60"),
    ],
)
def test_windows_over_timestamps_are_shown_in_units_and_mean_the_same(window: str, shown: str) -> None:
    text = f"SELECT x FROM (SELECT * FROM t WHERE x > 1) AS u [{window}]"
    s = penstock.connect()
    s.execute("CREATE STREAM t (ts TIMESTAMP, x INT) WATERMARK ts DELAY OF INTERVAL 0 SECONDS")
    (said,) = s.execute(f"EXPLAIN {text}")
    assert f"window [{shown}]" in said
    assert s.execute(f"EXPLAIN {text.replace(window, shown)}") == [said]


def test_windows_over_plain_time_are_shown_as_numbers() -> None:
    s = penstock.connect()
    s.execute("CREATE STREAM t (ts BIGINT, at TIMESTAMP, x INT) WATERMARK ts DELAY OF INTERVAL 0")
    (said,) = s.execute("EXPLAIN SELECT x FROM t [RANGE 60000000 SLIDE 1000000]")
    assert "window [RANGE 60000000 SLIDE 1000000]" in said


def test_queries_are_created_dropped_and_explained():
    made = only("CREATE QUERY Hot AS SELECT x FROM a [RANGE 5] LIFESPAN 9")
    assert isinstance(made, CreateQuery)
    assert (made.name, made.query.text, made.query.lifespan) == (
        "Hot",
        "SELECT x FROM a [RANGE 5] LIFESPAN 9",
        9,
    )
    assert draw(made.query.root) == "Project[x](a[RANGE 5])"
    assert only("DROP QUERY hot") == DropQuery("hot")
    assert only("DROP STREAM A") == DropStream("a")
    assert only("DROP TABLE r") == DropTable("r")
    explained = only("EXPLAIN SELECT x FROM a")
    assert isinstance(explained, Explain)
    assert not explained.analyze
    assert only("EXPLAIN ANALYZE SELECT x FROM a").analyze


def test_script_with_comments_and_empty_statements():
    script = parse(
        """
        -- a comment; with a semicolon
        CREATE TABLE n (x INT);;   /* another; */
        SELECT ';' AS semicolon FROM a -- end
        ;
        """
    )
    assert [parsed.text for parsed in script] == ["CREATE TABLE n (x INT)", "SELECT ';' AS semicolon FROM a"]
    assert [type(bind(parsed, CATALOG)) for parsed in script] == [CreateTable, Select]
    assert parse("") == parse(" ; ; -- nothing") == []


def test_places_count_lines_of_the_whole_script():
    script = parse("SELECT x FROM a;\n\nSELECT\n  nope FROM a")
    bind(script[0], CATALOG)
    with pytest.raises(BindError) as caught:
        bind(script[1], CATALOG)
    assert (caught.value.line, caught.value.column, caught.value.text) == (4, 3, "nope")


def test_alter_lifespan():
    assert only("ALTER QUERY q SET LIFESPAN 500 MILLISECONDS") == AlterQuery("q", lifespan=500_000)
    assert only("ALTER QUERY q SET LIFESPAN 500") == AlterQuery("q", lifespan=500)


def test_alter_rank_is_bound_over_the_query_it_alters():
    (parsed,) = parse("ALTER QUERY q SET RANK 1 CRITERIA (b.z > 5) RANK 3 CRITERIA (y = 1)")
    assert bind(parsed, CATALOG) == AlterQuery("q", sets_ranks=True)
    altered = bind_alter(parsed, CATALOG, "SELECT a.x FROM a [RANGE 5], b WHERE a.x = b.x")
    assert altered.name == "q"
    assert [(rank.level, str(rank.criteria)) for rank in altered.ranks] == [
        (1, "(b.z > 5.0)"),
        (3, "(a.y = 1)"),
    ]
    with pytest.raises(BindError) as caught:
        bind_alter(parsed, CATALOG, "SELECT x FROM a")
    assert (caught.value.column, caught.value.text) == (36, "b.z")
    with pytest.raises(PlanError, match="one SELECT"):
        bind_alter(parsed, CATALOG, "SELECT x FROM a UNION SELECT x FROM b")


def test_binding_leaves_the_catalog_alone():
    before = copy.copy(CATALOG.streams), copy.copy(CATALOG.tables), copy.copy(CATALOG.functions)
    only("CREATE STREAM n (ts BIGINT) WATERMARK ts DELAY OF 0")
    only("DROP STREAM a")
    assert (CATALOG.streams, CATALOG.tables, CATALOG.functions) == before
