"""Python functions that misbehave: their query fails and says so, the others never notice."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable

import pyarrow as pa
import pytest

import penstock

POISON = 13


def on_poison(bad: Callable[[], object]) -> Callable[[object], object]:
    return lambda x: bad() if x == POISON else x


def fails() -> object:
    raise ZeroDivisionError("by design")


def stops() -> object:
    raise StopIteration


SCALARS: dict[str, tuple[str, Callable[[], object]]] = {
    "raises": ("BIGINT", fails),
    "raises StopIteration": ("BIGINT", stops),
    "a string for a number": ("BIGINT", lambda: "thirteen"),
    "a float for an integer": ("BIGINT", lambda: 1.5),
    "nan for an integer": ("BIGINT", lambda: float("nan")),
    "too large": ("BIGINT", lambda: 10**30),
    "too large for INT": ("INT", lambda: 2**31),
    "a decimal": ("BIGINT", lambda: decimal.Decimal(1)),
    "a list": ("BIGINT", list),
    "a date for a number": ("DOUBLE", lambda: dt.date(2026, 1, 1)),
    "an object": ("DOUBLE", object),
    "a complex number": ("DOUBLE", lambda: 1j),
}

VECTORS: dict[str, tuple[str, Callable[[pa.Array], object]]] = {
    "raises": ("BIGINT", lambda a: fails()),
    "too short": ("BIGINT", lambda a: a.slice(1)),
    "too long": ("BIGINT", lambda a: pa.concat_arrays([a, a])),
    "a scalar": ("BIGINT", lambda a: 5),
    "nothing": ("BIGINT", lambda a: None),
    "a list": ("BIGINT", lambda a: a.to_pylist()),
    "strings": ("BIGINT", lambda a: a.cast(pa.string())),
    "doubles": ("BIGINT", lambda a: a.cast(pa.float64())),
    "structs": ("BIGINT", lambda a: pa.StructArray.from_arrays([a], ["a"])),
    "too large for INT": ("INT", lambda a: pa.array([2**40] * len(a))),
    "a broken string": (
        "STRING",
        lambda a: pa.StringArray.from_buffers(
            len(a),
            pa.array([*range(len(a)), len(a)], pa.int32()).buffers()[1],
            pa.py_buffer(b"\xff" * len(a)),
        ),
    ),
}

QUERIES = {
    "select": "SELECT f(y) AS v FROM a [RANGE 5]",
    "where": "SELECT x FROM a [RANGE 5] WHERE f(y) IS NOT NULL",
    "join": "SELECT a.x FROM a [RANGE 5], b [RANGE 5] WHERE f(a.y) = f(b.y)",
    "residual": "SELECT a.x FROM a [RANGE 5], b [RANGE 5] WHERE a.x = b.x AND f(a.y) >= f(b.y)",
    "group": "SELECT f(y) AS v, COUNT(*) AS n FROM a [RANGE 5] GROUP BY f(y)",
    "argument": "SELECT x, MAX(f(y)) AS m FROM a [RANGE 5] GROUP BY x",
    "anti": "SELECT a.x FROM a [RANGE 5] LEFT ANTI JOIN b [RANGE 5] ON f(a.y) = f(b.y)",
}


def two_sessions() -> list[penstock.Session]:
    made = []
    for _ in range(2):
        s = penstock.connect()
        for stream in ("a", "b"):
            s.execute(f"CREATE STREAM {stream} (ts BIGINT, x INT, y BIGINT) WATERMARK ts DELAY OF INTERVAL 0")
        s.query("SELECT x, COUNT(*) AS n FROM a [RANGE 5] GROUP BY x", name="before")
        made.append(s)
    return made


def feed(s: penstock.Session, at: int, y: int) -> list[penstock.PenstockError]:
    """Both streams get a row; errors are collected, because feeding goes on after them."""
    errors = []
    for stream in ("a", "b"):
        try:
            s.push(stream, [{"ts": at, "x": y % 3, "y": y}])
        except penstock.PenstockError as error:
            errors.append(error)
    try:
        s.advance(at)
    except penstock.PenstockError as error:
        errors.append(error)
    return errors


def answers(s: penstock.Session) -> list[object]:
    return [
        [s.queries[n].changes().to_pylist(), s.queries[n].snapshot().to_pylist()] for n in ("before", "after")
    ]


def run(kind: str, body: Callable[..., object], text: str, *, vectorized: bool) -> str:
    """The query fails at the poisoned row and only then; returns what was said."""
    s, twin = two_sessions()
    s.create_function("f", body, returns=kind, vectorized=vectorized)
    q = s.query(text, name="bad")
    for session in (s, twin):
        session.query("SELECT DISTINCT y FROM b [RANGE 5]", name="after")
    errors = []
    for at, y in enumerate([1, 2, POISON, 4, POISON, 6]):
        errors += feed(s, at, y)
        assert feed(twin, at, y) == []
    assert len(errors) == 1
    (error,) = errors
    assert isinstance(error, penstock.DataError)
    assert "function f" in str(error)
    if q.matched:  # what it had made before is not lost
        assert all(change["__ts"] < 2 for change in q.changes().to_pylist())
    for use in (q.changes, q.snapshot):
        with pytest.raises(penstock.StateError, match=r"query bad stopped at an error: .*function f"):
            use()
    assert answers(s) == answers(twin)
    q.drop()
    assert feed(s, 10, 7) == feed(twin, 10, 7) == []
    assert answers(s) == answers(twin)
    return str(error)


@pytest.mark.parametrize("wrong", SCALARS)
def test_a_function_that_misbehaves_on_a_row(wrong: str) -> None:
    kind, bad = SCALARS[wrong]
    said = run(kind, on_poison(bad), QUERIES["select"], vectorized=False)
    assert f"({POISON})" in said


@pytest.mark.parametrize("where", QUERIES)
def test_wherever_a_function_stands(where: str) -> None:
    assert f"({POISON})" in run("BIGINT", on_poison(fails), QUERIES[where], vectorized=False)


@pytest.mark.parametrize("wrong", VECTORS)
def test_a_vectorized_function_that_misbehaves_on_a_batch(wrong: str) -> None:
    kind, bad = VECTORS[wrong]
    good = pa.string() if kind == "STRING" else pa.int64()

    def body(column: pa.Array) -> object:
        return bad(column) if POISON in column.to_pylist() else column.cast(good)

    run(kind, body, QUERIES["select"], vectorized=True)


BIG = 6000
"""Rows of a step that a join cuts into several."""


@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize("where", [*QUERIES, "sums", "theta", "anti residual"])
def test_the_row_is_named_by_its_time(where: str, vectorized: bool) -> None:
    text = {
        "sums": "SELECT x, SUM(f(y) % 7) AS m FROM a [RANGE 5] GROUP BY x",
        "theta": "SELECT a.x FROM a [RANGE 1], b [RANGE 1] WHERE a.x = b.x AND f(a.y) > f(b.y)",
        "anti residual": "SELECT a.x FROM a [RANGE 1] LEFT ANTI JOIN b [RANGE 1] ON a.x = b.x AND f(a.y) > b.y",
    }.get(where, QUERIES.get(where, ""))

    def each(column: pa.Array) -> pa.Array:
        return pa.array([on_poison(fails)(v) for v in column.to_pylist()], pa.int64())

    s, _ = two_sessions()
    s.create_function("f", each if vectorized else on_poison(fails), returns="BIGINT", vectorized=vectorized)
    s.query(text)
    rows = [{"ts": 20 + i, "x": i % 3, "y": POISON if i == BIG - 100 else 20 + i} for i in range(BIG)]
    s.push("b", [{**row, "y": 20} for row in rows])
    place = rf"\(row \d+ in a batch of \d+, ts {20 + BIG - 100}\)$"
    with pytest.raises(penstock.DataError, match=rf"function f failed on .*\({POISON}.*{place}"):
        s.push("a", rows)


def test_a_row_is_named_by_its_timestamp_and_its_place_in_the_push() -> None:
    s = penstock.connect()
    s.execute("CREATE STREAM a (ts TIMESTAMP, x INT) WATERMARK ts DELAY OF INTERVAL 0 SECONDS")
    s.create_function("f", lambda x: "seven" if x == 7 else x, returns="BIGINT")
    s.query("SELECT f(x) AS v FROM a [RANGE 5 SECONDS]")
    start = dt.datetime(2026, 1, 31, 12)
    with pytest.raises(penstock.DataError) as caught:
        s.push("a", [{"ts": start + dt.timedelta(milliseconds=i), "x": i} for i in range(10)])
    assert str(caught.value) == (
        "function f returns BIGINT, but on (7): 'seven' (str) does not fit BIGINT "
        "(row 7 in a batch of 9, ts 2026-01-31 12:00:00.007000); return an int or None"
    )


def test_a_batch_that_fails_only_as_a_whole_is_named_by_its_first_time() -> None:
    s = penstock.connect()
    s.execute("CREATE STREAM a (ts BIGINT, x BIGINT) WATERMARK ts DELAY OF INTERVAL 0")
    s.create_function("f", lambda a: a if len(a) < 3 else fails(), returns="BIGINT", vectorized=True)
    s.query("SELECT f(x) AS v FROM a [RANGE 5]")
    with pytest.raises(penstock.DataError) as caught:
        s.push("a", [{"ts": ts, "x": 10 * ts} for ts in range(7, 12)])
    assert str(caught.value) == (
        "function f failed on a batch of 4 rows that begins with (70): ZeroDivisionError: by design "
        "(a batch of 4 rows, from ts 7 on)"
    )


def test_a_row_of_a_table_from_the_beginning_has_no_time() -> None:
    s = penstock.connect()
    s.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
    s.create_table("n", [{"k": 1}, {"k": 0}])
    s.create_function("f", lambda k: 1 // k, returns="BIGINT")
    s.query("SELECT a.x FROM a [RANGE 5], n WHERE a.x = f(n.k)")
    with pytest.raises(penstock.DataError) as caught:
        s.push("a", [{"ts": 1, "x": 1}, {"ts": 2, "x": 1}])
    assert str(caught.value).endswith("(row 1 in a batch of 2)")


def test_a_function_cannot_use_the_session_that_calls_it() -> None:
    (s, twin) = two_sessions()
    for use in (
        lambda: s.push("a", [{"ts": 50, "x": 1, "y": 1}]),
        lambda: s.advance(60),
        lambda: s.query("SELECT x FROM a [RANGE 5]"),
        lambda: s.drop("before"),
        lambda: s.execute("CREATE STREAM c (ts BIGINT) WATERMARK ts DELAY OF INTERVAL 0"),
        lambda: s.execute("DROP STREAM b"),
    ):
        s.create_function("f", lambda x, use=use: use(), returns="BIGINT")
        q = s.query("SELECT f(y) AS v FROM a [RANGE 5]")
        at = s.clock + 1
        (error,) = feed(s, at, 1)
        assert "middle of a step" in str(error)
        assert feed(twin, at, 1) == []
        q.drop()
    for session in (s, twin):
        session.query("SELECT DISTINCT y FROM b [RANGE 5]", name="after")
    assert answers(s) == answers(twin)


def test_a_query_whose_function_fails_on_waiting_rows_is_not_registered() -> None:
    s = penstock.connect()
    s.execute("CREATE STREAM a (ts BIGINT, x INT, y BIGINT) WATERMARK ts DELAY OF INTERVAL 0")
    s.create_function("f", on_poison(fails), returns="BIGINT")
    s.push("a", [{"ts": 1, "x": 1, "y": POISON}, {"ts": 2, "x": 1, "y": 2}])
    with pytest.raises(penstock.DataError, match="function f"):
        s.query("SELECT f(y) AS v FROM a [RANGE 5]", name="bad")
    assert not s.queries
    assert not s.engine.queries
    good = s.query("SELECT y FROM a [RANGE 5]", name="bad")
    s.push("a", [{"ts": 3, "x": 1, "y": 3}])
    s.advance(3)
    assert good.snapshot().to_pylist() == [{"y": 2}, {"y": 3}]


@pytest.mark.parametrize("columns", ["x", "x, COUNT(*) AS n"])
def test_queries_that_ask_in_another_order_are_not_one(columns: str) -> None:
    """The first calls the function on every row, the second only where the rest does not settle it."""
    s = penstock.connect()
    s.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")

    def fails(x: int) -> bool:
        raise ValueError("no")

    s.create_function("fails", fails, "BOOLEAN")
    tail = " GROUP BY x" if "COUNT" in columns else ""
    bare = s.query(f"SELECT {columns} FROM a [RANGE 10] WHERE fails(x) OR x < 4{tail}")
    guarded = s.query(f"SELECT {columns} FROM a [RANGE 10] WHERE x < 4 OR fails(x){tail}")
    same = s.query(f"SELECT {columns} FROM a [RANGE 10] WHERE x < 4 OR fails(x){tail}")
    with pytest.raises(penstock.DataError, match="fails failed on"):
        s.push("a", [{"ts": 1, "x": 1}, {"ts": 2, "x": 2}])
    with pytest.raises(penstock.StateError, match="stopped at an error"):
        bare.changes()
    assert guarded.changes().num_rows == same.changes().num_rows == 1
