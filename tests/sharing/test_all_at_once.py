"""Rows that ask all filters at once are sorted and counted as those that go from filter to filter."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.sharing import eddy

_NUMBERS = {"x": 2**31 - 1, "l": 2**63 - 1}


def _predicate(coin: random.Random) -> str:
    c = coin.choice(["x", "l"])
    far = coin.choice([_NUMBERS[c], _NUMBERS[c] - 1, 1 - _NUMBERS[c], -7, 50_000])
    parts = [
        f"x > {coin.randint(-9, 40)}",
        f"l <= {coin.randint(-9, 90_000)}",
        f"{c} >= {far}",
        f"{c} <> {far}",
    ]
    parts += [f"d < {coin.random():.3f}", "d IS NULL", f"s <> '{coin.choice('abcd')}'", f"x IN ({far}, 3, 4)"]
    return " AND ".join(coin.sample(parts, coin.randint(1, 3)))


def _rows(coin: random.Random, count: int) -> pa.RecordBatch:
    def some(make: Any, nulls: float) -> list[Any]:
        return [None if coin.random() < nulls else make() for _ in range(count)]

    nulls = coin.choice([0.0, 0.1])
    made = {
        "ts": pa.array(range(count), pa.int64()),
        "x": pa.array(some(lambda: coin.choice([coin.randint(-9, 40), _NUMBERS["x"]]), nulls), pa.int32()),
        "l": pa.array(
            some(lambda: coin.choice([coin.randint(-9, 90_000), _NUMBERS["l"], -(2**63)]), nulls), pa.int64()
        ),
        "d": pa.array(some(lambda: coin.choice([coin.random(), float("nan"), -0.0]), nulls), pa.float64()),
        "s": pa.array(some(lambda: coin.choice("abcde"), nulls), pa.string()),
    }
    return pa.RecordBatch.from_pydict(made)


@pytest.mark.parametrize("queries", [20, 100, 600])
@pytest.mark.parametrize("seed", range(3))
def test_answers_are_those_of_queries_by_themselves(
    seed: int, queries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eddy, "NEARLY_ALL", 0.0)
    monkeypatch.setattr(eddy, "WANTED", 0.0)
    monkeypatch.setattr(eddy, "LOOK", 3)
    monkeypatch.setattr(eddy, "MEMORY", 700)
    coin = random.Random(100 * queries + seed)
    texts = [_predicate(coin) for _ in range(queries)]
    shared, apart = (penstock.connect(share=share) for share in (True, False))
    for s in (shared, apart):
        s.execute("CREATE STREAM a (ts BIGINT, x INT, l BIGINT, d DOUBLE, s STRING) WATERMARK ts DELAY OF 0")
        for number, text in enumerate(texts):
            s.query(f"SELECT ts, x FROM a WHERE {text}", name=f"q{number}")
    rows = _rows(coin, 2011)
    for begin, end in ((0, 1), (1, 900), (900, 1413), (1413, 2011)):
        for s in (shared, apart):
            s.push("a", rows.slice(begin, end - begin))
            s.advance(end - 1)
        if begin == 900:  # from here on lineage is kept
            for name, query in shared.queries.items():
                assert query.changes().equals(apart.queries[name].changes()), name
        found = {name: query.matched for name, query in shared.queries.items()}
        assert found == {name: query.matched for name, query in apart.queries.items()}
    assert sum(found.values()) > 1000
    for name, query in shared.queries.items():
        assert query.changes().equals(apart.queries[name].changes()), name


def test_filters_that_all_rows_visit_are_asked_at_once() -> None:
    s = penstock.connect()
    s.execute("CREATE STREAM a (ts BIGINT, x INT, y INT) WATERMARK ts DELAY OF 0")
    for number in range(40):
        s.query(f"SELECT ts FROM a WHERE {'xy'[number % 2]} >= {number}")
    assert s.engine.sharing is not None
    held = s.engine.sharing.currents["a"].eddy
    values = np.arange(70_000, dtype=np.int32) % 50
    for begin in range(0, 280_000, 70_000):
        at = pa.array(np.arange(begin, begin + 70_000))
        s.push("a", pa.table({"ts": at, "x": values, "y": values[::-1].copy()}))
    s.advance(280_000)
    query = list(s.queries.values())[30]
    assert query.matched == 4 * int((values >= 30).sum())
    assert held.visits == 2 * held.rows, "all visit both"
    ledgers = [operator.ledger for operator in held.operators.values()]
    assert all(ledger.visited == 280_000 and 0 < ledger.taken < 280_000 for ledger in ledgers)
    assert query.matched == query.changes().num_rows


def test_rows_that_few_want_go_from_filter_to_filter() -> None:
    s = penstock.connect()
    s.execute("CREATE STREAM a (ts BIGINT, x INT, y INT) WATERMARK ts DELAY OF 0")
    for number in range(40):
        s.query(f"SELECT ts FROM a WHERE x = {number} AND y = {number}")
    assert s.engine.sharing is not None
    held = s.engine.sharing.currents["a"].eddy
    values = np.arange(70_000, dtype=np.int32)
    for begin in range(0, 280_000, 70_000):
        at = pa.array(np.arange(begin, begin + 70_000))
        s.push("a", pa.table({"ts": at, "x": values, "y": values}))
    s.advance(280_000)
    assert held.visits < 1.1 * held.rows
    assert sum(query.matched for query in s.queries.values()) == 160


def test_memory_that_nobody_can_write_to_is_not_copied() -> None:
    values, times = np.arange(9000, dtype=np.int32), np.arange(9000)
    times.flags.writeable = values.flags.writeable = False
    lent = pa.RecordBatch.from_pydict({"ts": times, "x": values})
    s = penstock.connect()
    s.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF 0")
    queries = [s.query(f"SELECT x FROM a WHERE x >= {least}") for least in (0, 10)]
    s.push("a", lent)
    s.advance(9000)
    assert s.engine.sharing is not None
    (held, *_) = s.engine.sharing.currents["a"].waiting.columns_in_use()
    assert np.shares_memory(held[1].values, values)
    assert queries[1].changes()["x"].to_pylist() == list(range(10, 9000))


def test_memory_that_somebody_can_write_to_is_copied() -> None:
    values = np.arange(9000, dtype=np.int32)
    s = penstock.connect()
    s.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF 0")
    queries = [s.query(f"SELECT x FROM a WHERE x >= {least}") for least in (0, 10)]
    s.push("a", pa.RecordBatch.from_pydict({"ts": np.arange(9000), "x": values}))
    s.advance(9000)
    values[:] = -1
    assert queries[1].changes()["x"].to_pylist() == list(range(10, 9000))
