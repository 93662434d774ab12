"""Every public method with the wrong kinds of arguments: an error on purpose, and nothing has changed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

import penstock

WRONG: dict[str, object] = {
    "None": None,
    "int": 7,
    "negative": -1,
    "huge": 10**30,
    "float": 1.5,
    "nan": float("nan"),
    "bool": True,
    "bytes": b"SELECT",
    "empty text": "",
    "text": "no such thing",
    "nul": "a\0b",
    "surrogate": "\ud800",
    "list": [1, 2],
    "empty list": [],
    "dict": {"a": 1},
    "nested": {"ts": {"ts": {}}},
    "object": object(),
    "type": int,
    "function": len,
    "array": np.arange(3),
    "matrix": np.zeros((2, 2)),
    "arrow": pa.array([1, 2]),
    "iterator": iter([1]),
    "set": {1},
}

RIGHT: dict[str, set[str]] = {
    # What looks wrong and is not.
    "query.name": {"None", "text"},
    "query.keep": {"bool"},
    "create_stream.delay": {"int"},
    "create_table.name": {"text"},
    "create_table.retroactive": {"bool"},
    "create_function.fn": {"type", "function"},
    "create_function.vectorized": {"bool"},
    "push.rows": {"empty list"},
    "update_table.insert": {"None", "empty list"},
    "update_table.delete": {"None", "empty list"},
    "update_table.at": {"None", "int"},
    "advance.until": {"int", "negative"},
    "advance.stream": {"None"},
    "snapshot.at": {"None"},
}

Call = Callable[[penstock.Session, penstock.Query, object], object]

CALLS: dict[str, Call] = {
    "connect.spark": lambda s, q, x: penstock.connect(x) if x is not None else penstock.connect(5),
    "connect.join": lambda s, q, x: penstock.connect(join=x),
    "connect.demand": lambda s, q, x: penstock.connect(demand=x),
    "execute.sql": lambda s, q, x: s.execute(x or "?" if isinstance(x, str) else x),
    "query.sql": lambda s, q, x: s.query(x),
    "query.name": lambda s, q, x: s.query("SELECT x FROM a [RANGE 5]", name=x),
    "query.keep": lambda s, q, x: s.query("SELECT x FROM a [RANGE 5]", keep=x),
    "create_stream.name": lambda s, q, x: s.create_stream(x, {"ts": "BIGINT"}, time="no"),
    "create_stream.source": lambda s, q, x: s.create_stream("n", x, time="ts"),
    "create_stream.time": lambda s, q, x: s.create_stream("n", {"ts": "BIGINT"}, time=x),
    "create_stream.delay": lambda s, q, x: s.create_stream("n", {"ts": "BIGINT"}, time="ts", delay=x),
    "create_table.name": lambda s, q, x: s.create_table(x, [{"k": 1}]),
    "create_table.data": lambda s, q, x: s.create_table("n", x),
    "create_table.retroactive": lambda s, q, x: s.create_table("n", [{"k": 1}], retroactive=x),
    "create_function.name": lambda s, q, x: s.create_function(x, len),
    "create_function.fn": lambda s, q, x: s.create_function("f", x),
    "create_function.returns": lambda s, q, x: s.create_function("f", len, returns=x),
    "create_function.vectorized": lambda s, q, x: s.create_function("f", len, vectorized=x),
    "drop.name": lambda s, q, x: s.drop(x),
    "push.stream": lambda s, q, x: s.push(x, [{"ts": 5, "x": 1}]),
    "push.rows": lambda s, q, x: s.push("a", x),
    "advance.until": lambda s, q, x: s.advance(x),
    "advance.stream": lambda s, q, x: s.advance(1, stream=x),
    "update_table.table": lambda s, q, x: s.update_table(x, insert=[{"k": 1}]),
    "update_table.insert": lambda s, q, x: s.update_table("t", insert=x),
    "update_table.delete": lambda s, q, x: s.update_table("t", delete=x),
    "update_table.at": lambda s, q, x: s.update_table("t", insert=[{"k": 1}], at=x),
    "late.stream": lambda s, q, x: s.late(x),
    "snapshot.at": lambda s, q, x: q.snapshot(at=x),
}


@pytest.fixture
def session() -> tuple[penstock.Session, penstock.Query]:
    s = penstock.connect()
    s.execute(
        "CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0; CREATE TABLE t (k BIGINT)"
    )
    s.create_table("u", [{"k": 1}])
    q = s.query("SELECT x, COUNT(*) AS n FROM a [RANGE 5] GROUP BY x", name="q")
    s.push("a", [{"ts": 1, "x": 1}, {"ts": 2, "x": 2}])
    s.advance(2)
    return s, q


def seen(s: penstock.Session, q: penstock.Query) -> object:
    return (
        q.snapshot().to_pylist(), s.clock, sorted(s.queries), sorted(s.catalog.streams), sorted(s.catalog.tables),
        sorted(s.catalog.functions), sorted(s.engine.queries), sorted(s.engine.sources), sorted(s.engine.tables),
        s.size_bytes,
    )  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_wrong_kinds_are_refused(call: str, session: tuple[penstock.Session, penstock.Query]) -> None:
    s, q = session
    before = seen(s, q)
    for kind, value in WRONG.items():
        if kind in RIGHT.get(call, ()):
            continue
        with pytest.raises(penstock.PenstockError) as caught:
            CALLS[call](s, q, value)
        assert str(caught.value)
        assert seen(s, q) == before, kind


@pytest.mark.parametrize("call", RIGHT)
def test_what_only_looks_wrong_is_taken(call: str) -> None:
    for kind in RIGHT[call]:
        s = penstock.connect()
        s.execute(
            "CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0; CREATE TABLE t (k BIGINT)"
        )
        q = s.query("SELECT x, COUNT(*) AS n FROM a [RANGE 5] GROUP BY x", name="q")
        CALLS[call](s, q, WRONG[kind])
        assert "q" in s.queries


def test_unknown_options_and_settings_are_refused() -> None:
    for given in ({"jion": "auto"}, {"budget": -1}, {"budget": 1.5}, {"seed": None}, {"budget": True}):
        with pytest.raises(penstock.StateError):
            penstock.connect(**given)


def test_a_dropped_query_says_so() -> None:
    s = penstock.connect()
    s.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 0")
    q = s.query("SELECT x FROM a [RANGE 5]", name="q")
    q.drop()
    for use in (q.changes, q.snapshot, q.drop):
        with pytest.raises(penstock.StateError, match="dropped"):
            use()
